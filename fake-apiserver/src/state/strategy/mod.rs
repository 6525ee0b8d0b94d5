//! Rules of each kind in addition to those of all kinds (upstream `pkg/registry`): one [`Strategy`] per kind, which the
//! stages of a write call.

mod access;
pub(super) mod claim;
mod endpoints;
mod ingress;
mod limit_range;
mod namespace;
mod network;
mod network_policy;
mod node;
mod pod;
mod policy;
mod quota;
mod records;
mod rules;
mod service;
mod service_check;
mod service_type;
mod storage;
mod volume;
mod workload;

use substrate::Now;
use substrate::json::{Value, json};

use self::rules::{PLAIN, Strategy, keep_the_rest};
pub(super) use self::service_type::needs_health_check;
use super::command::Part;
use super::status::Status;
use super::user::Identity;
use super::validate::meta;
use super::value;
use super::{FieldError, Store, warnings};
use crate::kinds::{self, Kind, index};

/// Kinds without their own rules.
static OTHER: Strategy = PLAIN;

/// Kinds that only have a generation.
static COUNTED: Strategy = Strategy { counts: true, ..PLAIN };

/// Custom kinds; their schemas add to it.
static CUSTOM: Strategy = Strategy {
    counts: true,
    begin: |object, _| {
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        None
    },
    prepare: keep_the_rest_of_custom,
    warn: warnings::of_finalizers,
    ..PLAIN
};

/// Strategies of the stored kinds, by position.
static STRATEGIES: [&Strategy; kinds::STORED] = {
    let mut all = [&OTHER; kinds::STORED];
    all[index::API_SERVICES] = &policy::API_SERVICE;
    all[index::CERTIFICATE_SIGNING_REQUESTS] = &access::CERTIFICATE_REQUEST;
    all[index::CLUSTER_ROLES] = &access::CLUSTER_ROLE;
    all[index::CLUSTER_ROLE_BINDINGS] = &access::CLUSTER_ROLE_BINDING;
    all[index::CONFIG_MAPS] = &access::CONFIG_MAP;
    all[index::CRON_JOBS] = &workload::CRON_JOB;
    all[index::CSI_DRIVERS] = &storage::DRIVER;
    all[index::CSI_NODES] = &storage::CSI_NODE;
    all[index::CSI_STORAGE_CAPACITIES] = &storage::CAPACITY;
    all[index::CUSTOM_RESOURCE_DEFINITIONS] = &policy::DEFINITION;
    all[index::DAEMON_SETS] = &workload::DAEMON_SET;
    all[index::DEPLOYMENTS] = &workload::DEPLOYMENT;
    all[index::DEVICE_CLASSES] = &COUNTED;
    all[index::ENDPOINTS] = &network::ENDPOINTS;
    all[index::ENDPOINT_SLICES] = &network::SLICE;
    all[index::EVENTS] = &records::EVENT;
    all[index::FLOW_SCHEMAS] = &policy::FLOW_SCHEMA;
    all[index::HORIZONTAL_POD_AUTOSCALERS] = &workload::AUTOSCALER;
    all[index::INGRESSES] = &network::INGRESS;
    all[index::INGRESS_CLASSES] = &network::INGRESS_CLASS;
    all[index::IP_ADDRESSES] = &network::IP_ADDRESS;
    all[index::JOBS] = &workload::JOB;
    all[index::LEASES] = &records::LEASE;
    all[index::LIMIT_RANGES] = &limit_range::LIMIT_RANGE;
    all[index::MUTATING_ADMISSION_POLICIES] = &policy::MUTATING_POLICY;
    all[index::MUTATING_ADMISSION_POLICY_BINDINGS] = &policy::MUTATING_BINDING;
    all[index::MUTATING_WEBHOOK_CONFIGURATIONS] = &policy::MUTATING_WEBHOOKS;
    all[index::NAMESPACES] = &namespace::NAMESPACE;
    all[index::NETWORK_POLICIES] = &network::NETWORK_POLICY;
    all[index::NODES] = &node::NODE;
    all[index::PERSISTENT_VOLUMES] = &volume::VOLUME;
    all[index::PERSISTENT_VOLUME_CLAIMS] = &claim::CLAIM;
    all[index::PODS] = &pod::POD;
    all[index::POD_DISRUPTION_BUDGETS] = &workload::BUDGET;
    all[index::POD_TEMPLATES] = &workload::POD_TEMPLATE;
    all[index::PRIORITY_CLASSES] = &access::PRIORITY_CLASS;
    all[index::PRIORITY_LEVEL_CONFIGURATIONS] = &policy::PRIORITY_LEVEL;
    all[index::REPLICATION_CONTROLLERS] = &workload::REPLICATION_CONTROLLER;
    all[index::REPLICA_SETS] = &workload::REPLICA_SET;
    all[index::RESOURCE_CLAIMS] = &policy::RESOURCE_CLAIM;
    all[index::RESOURCE_CLAIM_TEMPLATES] = &policy::RESOURCE_CLAIM_TEMPLATE;
    all[index::RESOURCE_QUOTAS] = &quota::QUOTA;
    all[index::RESOURCE_SLICES] = &COUNTED;
    all[index::ROLES] = &access::ROLE;
    all[index::ROLE_BINDINGS] = &access::ROLE_BINDING;
    all[index::RUNTIME_CLASSES] = &records::RUNTIME_CLASS;
    all[index::SECRETS] = &access::SECRET;
    all[index::SERVICES] = &service::SERVICE;
    all[index::STATEFUL_SETS] = &workload::STATEFUL_SET;
    all[index::STORAGE_CLASSES] = &storage::CLASS;
    all[index::VALIDATING_ADMISSION_POLICIES] = &policy::VALIDATING_POLICY;
    all[index::VALIDATING_ADMISSION_POLICY_BINDINGS] = &policy::VALIDATING_BINDING;
    all[index::VALIDATING_WEBHOOK_CONFIGURATIONS] = &policy::VALIDATING_WEBHOOKS;
    all[index::VOLUME_ATTACHMENTS] = &storage::ATTACHMENT;
    all[index::VOLUME_ATTRIBUTES_CLASSES] = &storage::ATTRIBUTES_CLASS;
    all
};

/// Returns the strategy of a stored kind.
fn of(kind: &Kind) -> &'static Strategy {
    if kind.custom.is_some() {
        return &CUSTOM;
    }
    // A kind that is answered and not stored has no rules.
    STRATEGIES.get(kind.store).copied().unwrap_or(&OTHER)
}

/// Fills in defaults.
pub(super) fn default(kind: &Kind, object: &mut Value) {
    match &kind.custom {
        Some(custom) => custom.schema.fill(object),
        None => (of(kind).default)(object),
    }
}

/// Runs the mutating admission of a create.
pub(super) fn admit_create(store: &Store, kind: &Kind, object: &mut Value) -> Result<(), Status> {
    let strategy = of(kind);
    (strategy.admit_create)(store, kind, object)?;
    if let Some(finalizer) = strategy.finalizer {
        add_finalizer(object, finalizer);
    }
    Ok(())
}

/// Runs the mutating admission of an update of one part.
pub(super) fn admit_update(
    store: &Store,
    kind: &Kind,
    part: Part,
    object: &mut Value,
    old: &Value,
) -> Result<(), Status> {
    (of(kind).admit_update)(store, part, kind, object, old)
}

/// Runs the validating admission of a create.
pub(super) fn check_create(store: &Store, kind: &Kind, object: &Value) -> Result<(), Status> {
    (of(kind).check_create)(store, kind, object)
}

/// Runs the validating admission of an update of one part.
pub(super) fn check_update(store: &Store, kind: &Kind, part: Part, object: &Value, old: &Value) -> Result<(), Status> {
    (of(kind).check_update)(store, part, kind, object, old)
}

/// Prepares a new object; `requester` is the user who creates it.
pub(super) fn begin(kind: &Kind, object: &mut Value, requester: Option<&Identity>, now: Now) {
    let strategy = of(kind);
    if strategy.counts {
        value::metadata(object).insert("generation", 1.into());
    }
    if kind.has_status
        && let Some(status) = (strategy.begin)(object, now)
    {
        value::set(object, "status", Some(status));
    }
    (strategy.note_requester)(object, requester);
}

/// Sets fields that depend on the uid of a new object.
pub(super) fn finish(kind: &Kind, object: &mut Value, uid: &str) {
    (of(kind).finish)(object, uid);
}

/// Returns true if the deletionTimestamp in a status update is ignored.
pub(super) fn takes_late_status(kind: &Kind) -> bool {
    of(kind).takes_late_status
}

/// Copies from the old object the fields that this part does not write.
pub(super) fn prepare(kind: &Kind, part: Part, object: &mut Value, old: &Value, now: Now) {
    (of(kind).prepare)(kind, part, object, old, now);
}

/// Increases metadata.generation if the desired state changed, for kinds that have one.
pub(super) fn count(kind: &Kind, object: &mut Value, old: &Value) {
    let strategy = of(kind);
    if strategy.counts || strategy.counts_changes {
        value::copy_meta(old, object, "generation");
        if wanted(object) != wanted(old) {
            let generation = value::int(old, &["metadata", "generation"]).unwrap_or(0);
            value::metadata(object).insert("generation", (generation + 1).into());
        }
    }
    (strategy.count)(object, old);
}

/// Returns the fields of the desired state: all except the metadata and the status.
fn wanted(object: &Value) -> Vec<(&substrate::json::Text, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status")).collect()
}

/// Validates a new object.
pub(super) fn validate(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let strategy = of(kind);
    let mut errors = meta::create(kind, strategy.check_name, object);
    match &kind.custom {
        Some(custom) => {
            crate::custom::validate(&custom.schema, object, None, &crate::field_path::FieldPath::OBJECT, &mut errors)
        }
        None => (strategy.validate)(object, &mut errors),
    }
    errors
}

/// Validates an update of one part of an object.
pub(super) fn validate_update(kind: &Kind, part: Part, object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = meta::update(kind, object);
    match &kind.custom {
        Some(custom) => crate::custom::validate(
            &custom.schema,
            object,
            Some(old),
            &crate::field_path::FieldPath::OBJECT,
            &mut errors,
        ),
        None => (of(kind).validate_update)(part, object, old, &mut errors),
    }
    errors
}

/// Returns warnings about an accepted object; `old` is null for a new one.
pub(super) fn warn(kind: &Kind, object: &Value, old: &Value) -> Vec<String> {
    (of(kind).warn)(object, old)
}

/// Returns true if something besides finalizers keeps a terminating object.
pub(super) fn holds(kind: &Kind, object: &Value) -> bool {
    (of(kind).holds)(object)
}

/// Returns true if PUT creates a missing object.
pub(super) fn is_made_by_put(kind: &Kind) -> bool {
    of(kind).is_made_by_put
}

/// Copies everything except the status from the old custom object in a status update (`customResourceStrategy`).
fn keep_the_rest_of_custom(kind: &Kind, part: Part, object: &mut Value, old: &Value, now: Now) {
    if part != Part::Status {
        return keep_the_rest(kind, part, object, old, now);
    }
    let status = object.get("status").cloned();
    let managed = object["metadata"].get("managedFields").cloned();
    object.clone_from(old);
    value::set(object, "status", status);
    if let Some(managed) = managed {
        value::metadata(object).insert("managedFields", managed);
    }
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    let slot = value::metadata(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = slot.as_array_mut()
        && !finalizers.iter().any(|f| f == finalizer)
    {
        finalizers.push(finalizer.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_data_becomes_data() {
        let mut secret = json!({"data": {"a": "b2xk", "c": "Yw=="}, "stringData": {"a": "new"}});
        default(kinds::SECRETS, &mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "bmV3", "c": "Yw=="}}));
    }

    fn defaulted(plural: &str, mut object: Value) -> Value {
        default(kinds::all().iter().find(|k| k.plural == plural).unwrap(), &mut object);
        object
    }

    #[test]
    fn rules_get_their_defaults() {
        let binding = defaulted(
            "rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r", "apiGroup": ""},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]}),
        );
        assert_eq!(
            (&binding["roleRef"]["apiGroup"], &binding["subjects"][0]["apiGroup"]),
            (&json!("rbac.authorization.k8s.io"), &json!("rbac.authorization.k8s.io"))
        );
        assert_eq!(binding["subjects"][1].get("apiGroup"), None);
        let schema = defaulted("flowschemas", json!({"spec": {"matchingPrecedence": 0}}));
        assert_eq!(schema["spec"]["matchingPrecedence"], 1000);
        let hooks = defaulted(
            "validatingwebhookconfigurations",
            json!({"webhooks": [{"name": "a", "rules": [{}],
            "clientConfig": {"service": {"name": "s"}}}]}),
        );
        let hook = &hooks["webhooks"][0];
        assert_eq!(
            (&hook["failurePolicy"], &hook["timeoutSeconds"], &hook["rules"][0]["scope"]),
            (&json!("Fail"), &json!(10), &json!("*"))
        );
        assert_eq!((&hook["clientConfig"]["service"]["port"], hook.get("reinvocationPolicy")), (&json!(443), None));
        let limits = defaulted(
            "limitranges",
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1"}}]}}),
        );
        assert_eq!(limits["spec"]["limits"][0]["defaultRequest"], json!({"cpu": "2", "memory": "1"}));
        let crd = defaulted("customresourcedefinitions", json!({"spec": {"names": {"kind": "Foo"}}}));
        assert_eq!(crd["spec"]["names"], json!({"kind": "Foo", "singular": "foo", "listKind": "FooList"}));
    }
}
