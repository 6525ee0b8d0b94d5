//! Access and admission of the store's requests: it reads its own objects for them.

use api_admission::cluster::{Cluster, Objects};
use api_admission::matching::{self, Attributes};
use api_admission::policies::Policies;
use api_admission::rbac::{Access, Roles};
use api_admission::{limits, pod_security, privileged, roles, runtime_class};
use substrate::Now;
use substrate::json::Value;

use super::command::{Asking, Command, WriteOptions};
use super::status::Status;
use super::user::Identity;
use super::{FieldError, Store};
use crate::kinds::{self, Kind, KindRef};

impl Cluster for Store {
    fn objects(&self, kind: &Kind) -> &Objects {
        self.kind_store(kind).objects()
    }

    fn kind(&self, group: &str, version: &str, plural: &str) -> Option<KindRef> {
        self.find_kind(group, version, plural)
    }

    fn kind_of(&self, api_version: &str, kind: &str) -> Option<KindRef> {
        let custom = || self.custom_kinds().find(|known| known.kind == kind && known.api_version() == api_version);
        kinds::find_kind(api_version, kind).map(KindRef::from).or_else(|| custom().cloned())
    }

    fn stored_kinds(&self) -> Vec<KindRef> {
        Self::stored_kinds(self)
    }

    fn roles(&self) -> Option<Roles> {
        self.checks_access.then(|| Self::roles(self))
    }
}

impl Store {
    /// Creates the default roles and bindings. Objects that already exist stay as they are.
    pub fn bootstrap_access(&mut self, now: Now) {
        for (kind, namespace, object) in roles::bootstrap() {
            let options = WriteOptions::default();
            // Fails only if it exists already: the state outlives the process.
            let _ = self.apply(now, Command::Create { kind: kind.into(), namespace, object, options });
        }
    }

    /// Returns a snapshot of the objects that decide access.
    pub fn roles(&self) -> Roles {
        let all = |kind: &Kind| self.kind_store(kind).objects().clone();
        Roles {
            cluster_bindings: all(kinds::CLUSTER_ROLE_BINDINGS),
            bindings: all(kinds::ROLE_BINDINGS),
            cluster_roles: all(kinds::CLUSTER_ROLES),
            roles: all(kinds::ROLES),
            attachments: all(kinds::VOLUME_ATTACHMENTS),
            lists_by_name: self.defects.lists_by_name,
            knows_accounts_by_name: self.defects.knows_accounts_by_name,
        }
    }

    /// Returns the reason why an access is allowed; `None` if it is refused.
    pub fn allows(&self, user: &Identity, access: &Access<'_>) -> Option<String> {
        self.roles().allows(user, access)
    }

    /// Returns the rules of a user in a namespace, each with its reason.
    pub fn rules_of(&self, user: &Identity, namespace: &str) -> Vec<(Value, String)> {
        self.roles().rules_of(user, namespace)
    }

    /// Returns the rules of a role; those of an aggregated role are the union of the roles that it selects.
    pub fn rules(&self, role: &Value, namespace: &str) -> Vec<Value> {
        self.roles().rules(role, namespace)
    }

    /// Returns true if a webhook (`rules`) or the constraints of a policy (`resourceRules`) match a request.
    pub fn concerns(&self, of: &Value, rules: &str, request: &Attributes<'_>) -> bool {
        matching::concerns(self, of, rules, request)
    }

    /// Returns the policies for the present request.
    pub(super) fn policies(&self) -> Policies<'_> {
        Policies { cluster: self, asking: self.asking.as_ref() }
    }

    /// Runs the bound policies. Refuses a request that one of them denies; warnings are kept for the answer.
    pub(super) fn check_policies(&mut self, request: &Attributes<'_>) -> Result<(), Status> {
        let verdict = self.policies().check(request);
        self.annotations.extend(verdict.annotations);
        self.warnings.extend(verdict.warnings);
        verdict.result
    }

    /// Evaluates the match conditions of a webhook for a request.
    ///
    /// # Errors
    /// The first condition that cannot be evaluated, if none is false.
    pub fn conditions_hold(
        &self,
        asking: Option<&Asking>,
        conditions: &[Value],
        request: &Attributes<'_>,
    ) -> Result<bool, String> {
        if conditions.is_empty() { Ok(true) } else { Policies { cluster: self, asking }.hold(conditions, request) }
    }

    /// Checks a write by the standards of its namespace.
    pub(super) fn check_pod_security(&mut self, request: &Attributes<'_>) -> Result<(), Status> {
        let mut warnings = Vec::new();
        let result = pod_security::check(self, request, &mut warnings);
        self.warnings.extend(warnings);
        result
    }

    /// Sets the defaults of a namespace's LimitRanges in containers without own requests or limits.
    pub(super) fn default_limits(&self, pod: &mut Value) {
        limits::default_limits(self, pod);
    }

    /// Checks a pod or a claim against the LimitRanges of its namespace.
    ///
    /// # Errors
    /// 403 with all violations of the first LimitRange that is violated.
    pub(super) fn check_limits(&self, kind: &Kind, object: &Value) -> Result<(), Status> {
        limits::check_limits(self, kind, object)
    }

    /// Gives a pod the overhead, the node selector and the tolerations of its class.
    ///
    /// # Errors
    /// 403 if the class does not exist or the pod contradicts it.
    pub(super) fn admit_runtime_class(&self, kind: &Kind, pod: &mut Value) -> Result<(), Status> {
        runtime_class::admit(self, kind, pod)
    }

    /// Refuses privileged containers from now on.
    pub fn forbid_privileged(&mut self) {
        self.forbids_privileged = true;
    }

    /// Returns an error for each privileged container, if they are forbidden.
    pub(super) fn check_privileged(&self, kind: &Kind, object: &Value) -> Vec<FieldError> {
        if self.forbids_privileged { privileged::check(kind, object) } else { Vec::new() }
    }
}
