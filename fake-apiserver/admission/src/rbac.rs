//! RBAC: roles and their bindings (`plugin/pkg/auth/authorizer/rbac`), and the rules for nodes (`authorizer/node`). An
//! access that no rule allows is refused; there are no deny rules.

use substrate::json::Value;

use crate::cluster::Objects;
use api_model::cel::Question;
use api_model::fields::value::{list, name, text};
use api_model::key_range::{prefix, within};
use api_model::selector;
use api_model::user::Identity;

/// A request to be authorized.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// `get`, `create` …
    pub verb: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The resource; `*` in checks of all of them.
    pub resource: &'a str,
    /// Its subresource; empty for none.
    pub subresource: &'a str,
    /// The object; empty for a collection.
    pub name: &'a str,
    /// The namespace; empty for none or all.
    pub namespace: &'a str,
    /// The path of a non-resource request.
    pub path: Option<&'a str>,
}

/// Members of this group may do everything.
const MASTERS: &str = "system:masters";
/// The group of kubelets, and the prefix of their names.
const NODES: (&str, &str) = ("system:nodes", "system:node:");

/// Snapshot of the objects that decide access. The maps are shared, not copied.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// ClusterRoleBindings.
    pub cluster_bindings: Objects,
    /// RoleBindings.
    pub bindings: Objects,
    /// ClusterRoles.
    pub cluster_roles: Objects,
    /// Roles.
    pub roles: Objects,
    /// VolumeAttachments, by which a node reads its own.
    pub attachments: Objects,
    /// Seeded bug: allows a list by a rule that names objects.
    pub lists_by_name: bool,
    /// Seeded bug: knows service accounts by their names alone.
    pub knows_accounts_by_name: bool,
}

impl Roles {
    /// Answers an access check of an expression, for `user` or for the service account that the check names.
    pub fn answer(&self, user: &Identity, asked: &Question) -> Option<String> {
        let account = asked.account.as_ref().map(|(namespace, name)| Identity::of_account(namespace, name));
        let access = Access {
            verb: &asked.verb,
            group: &asked.group,
            resource: &asked.resource,
            subresource: &asked.subresource,
            name: &asked.name,
            namespace: &asked.namespace,
            path: asked.path.as_deref(),
        };
        self.allows(account.as_ref().unwrap_or(user), &access)
    }

    /// Returns the reason why an access is allowed; `None` if it is refused.
    pub fn allows(&self, user: &Identity, access: &Access<'_>) -> Option<String> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Some(String::new());
        }
        if let Some(node) = user.username.strip_prefix(NODES.1).filter(|_| user.groups.iter().any(|g| g == NODES.0))
            && self.allows_node(node, access)
        {
            return Some("node: allowed by the node authorizer".to_owned());
        }
        self.rules_of(user, access.namespace)
            .into_iter()
            .find(|(rule, _)| rule_allows(rule, access, self.lists_by_name))
            .map(|(_, why)| why)
    }

    /// Returns the rules of a user in a namespace, each with its reason.
    pub fn rules_of(&self, user: &Identity, namespace: &str) -> Vec<(Value, String)> {
        let mut found = Vec::new();
        let mut add = |binding: &Value, of: &str, within: &str| {
            let subjects = list(binding, &["subjects"]);
            let is_named = |subject: &Value| {
                is_subject(subject, user, within) || self.knows_accounts_by_name && is_namesake(subject, user)
            };
            if let Some(subject) = subjects.iter().find(|subject| is_named(subject)) {
                let role = &binding["roleRef"];
                let placed = |name: &str, namespace: &str| match namespace {
                    "" => name.to_owned(),
                    namespace => format!("{name}/{namespace}"),
                };
                let kind = text(subject, &["kind"]);
                let home = match (kind, text(subject, &["namespace"])) {
                    ("ServiceAccount", "") => within,
                    ("ServiceAccount", home) => home,
                    _ => "",
                };
                let why = format!(
                    "RBAC: allowed by {of} {:?} of {} {:?} to {kind} {:?}",
                    placed(name(binding), within),
                    text(role, &["kind"]),
                    text(role, &["name"]),
                    placed(text(subject, &["name"]), home)
                );
                found.extend(self.rules(role, within).into_iter().map(|rule| (rule, why.clone())));
            }
        };
        for binding in self.cluster_bindings.values() {
            add(&binding.value, "ClusterRoleBinding", "");
        }
        if !namespace.is_empty() {
            let prefix = prefix(Some(namespace));
            for (_, binding) in within(&self.bindings, &prefix, &prefix) {
                add(&binding.value, "RoleBinding", namespace);
            }
        }
        found
    }

    /// Returns the rules of a role; those of an aggregated role are the union of the roles that it selects.
    pub fn rules(&self, role: &Value, namespace: &str) -> Vec<Value> {
        let named = text(role, &["name"]);
        let mut rules = Vec::new();
        if text(role, &["kind"]) == "Role" {
            let found = self.roles.get(&*format!("{namespace}/{named}"));
            rules.extend(found.into_iter().flat_map(|found| list(&found.value, &["rules"]).iter().cloned()));
        } else {
            self.unite(named, &mut Vec::new(), &mut rules);
        }
        rules
    }

    /// Adds the rules of a cluster role and of the roles that it selects, recursively.
    fn unite<'a>(&'a self, named: &'a str, seen: &mut Vec<&'a str>, rules: &mut Vec<Value>) {
        let Some(found) = self.cluster_roles.get(named).filter(|_| !seen.contains(&named)) else { return };
        seen.push(named);
        rules.extend_from_slice(list(&found.value, &["rules"]));
        for selector in list(&found.value, &["aggregationRule", "clusterRoleSelectors"]) {
            for role in self.cluster_roles.values() {
                if selector::matches(selector, &role.value["metadata"]["labels"]) {
                    self.unite(name(&role.value), seen, rules);
                }
            }
        }
    }

    /// Returns true if a kubelet may do this: read what pods need, and write its own node, leases and events and its
    /// pods' status. It reads the VolumeAttachments of its own node only.
    fn allows_node(&self, node: &str, access: &Access<'_>) -> bool {
        let reads = matches!(access.verb, "get" | "list" | "watch");
        let writes = matches!(access.verb, "create" | "update" | "patch" | "delete");
        let own = access.name == node;
        match (access.group, access.resource) {
            ("", "nodes") => reads || access.verb == "create" || writes && own,
            ("", "pods") => reads || matches!(access.subresource, "status" | "eviction") || access.verb == "delete",
            ("", "services" | "persistentvolumes" | "persistentvolumeclaims" | "configmaps" | "secrets") => {
                reads && (access.verb == "get" || !access.name.is_empty() || access.resource == "services")
            }
            ("", "serviceaccounts") => access.subresource == "token" && access.verb == "create",
            ("" | "events.k8s.io", "events") => matches!(access.verb, "create" | "patch" | "update"),
            ("coordination.k8s.io", "leases") => {
                access.namespace == "kube-node-lease" && (own || access.verb == "create")
            }
            ("storage.k8s.io", "csinodes") => own || access.verb == "create",
            ("storage.k8s.io", "csidrivers") | ("node.k8s.io", "runtimeclasses") => reads,
            ("storage.k8s.io", "volumeattachments") => {
                access.verb == "get"
                    && self
                        .attachments
                        .get(access.name)
                        .is_some_and(|found| text(&found.value, &["spec", "nodeName"]) == node)
            }
            ("authentication.k8s.io", "tokenreviews") | ("authorization.k8s.io", "subjectaccessreviews") => {
                access.verb == "create"
            }
            ("certificates.k8s.io", "certificatesigningrequests") => reads || access.verb == "create",
            _ => false,
        }
    }
}

fn is_subject(subject: &Value, user: &Identity, within: &str) -> bool {
    let named = text(subject, &["name"]);
    match text(subject, &["kind"]) {
        "User" => named == user.username,
        "Group" => user.groups.iter().any(|group| group == named),
        "ServiceAccount" => {
            let namespace = Some(text(subject, &["namespace"])).filter(|n| !n.is_empty()).unwrap_or(within);
            user.username == format!("system:serviceaccount:{namespace}:{named}")
        }
        _ => false,
    }
}

/// Returns true if a subject is a service account of the user's name, in any namespace: a seeded bug.
fn is_namesake(subject: &Value, user: &Identity) -> bool {
    let account = user.username.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    text(subject, &["kind"]) == "ServiceAccount" && account.is_some_and(|(_, named)| named == text(subject, &["name"]))
}

fn rule_allows(rule: &Value, access: &Access<'_>, lists_by_name: bool) -> bool {
    let has = |field: &str, wanted: &str| list(rule, &[field]).iter().any(|v| v == "*" || v == wanted);
    if !has("verbs", access.verb) {
        return false;
    }
    if let Some(path) = access.path {
        return list(rule, &["nonResourceURLs"])
            .iter()
            .filter_map(Value::as_str)
            .any(|allowed| allowed == path || allowed.strip_suffix('*').is_some_and(|start| path.starts_with(start)));
    }
    let names = list(rule, &["resourceNames"]);
    let resource = match access.subresource {
        "" => access.resource.to_owned(),
        sub => format!("{}/{sub}", access.resource),
    };
    has("apiGroups", access.group)
        && (names.is_empty() || lists_by_name && access.name.is_empty() || names.iter().any(|n| n == access.name))
        && list(rule, &["resources"]).iter().filter_map(Value::as_str).any(|allowed| {
            allowed == "*"
                || allowed == resource
                || !access.subresource.is_empty()
                    && (allowed == format!("*/{}", access.subresource) || allowed == format!("{}/*", access.resource))
        })
}
