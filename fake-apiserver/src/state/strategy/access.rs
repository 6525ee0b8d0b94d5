//! Configuration, secrets, priorities, roles and requests for certificates
//! (`pkg/registry/{core,scheduling,rbac,certificates}`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use substrate::json::{Value, json};

use super::{PLAIN, Strategy};
use crate::go_json;
use crate::kinds::{self, Kind};
use crate::state::command::Part;
use crate::state::default::{elements, set};
use crate::state::status::Status;
use crate::state::validate::selector::label_selector;
use crate::state::validate::{keys, names, refuse, unchanged};
use crate::state::value::{default_zero, list, map_mut, name, text};
use crate::state::{FieldError, Store, certificate, internal};

pub(super) static CONFIG_MAP: Strategy = Strategy {
    validate: configuration,
    validate_update: |_, object, old, errors| {
        frozen(object, old, errors);
        configuration(object, errors);
    },
    ..PLAIN
};

pub(super) static SECRET: Strategy = Strategy {
    default: |object| {
        string_data(object);
        set(object, &[("type", json!("Opaque"))]);
    },
    validate: secret,
    validate_update: |_, object, old, errors| {
        unchanged(object, old, &["type"], errors);
        frozen(object, old, errors);
        secret(object, errors);
    },
    ..PLAIN
};

pub(super) static PRIORITY_CLASS: Strategy = Strategy {
    default: |class| set(class, &[("preemptionPolicy", json!("PreemptLowerPriority"))]),
    check_create: one_default,
    check_update: |store, part, kind, class, _| match part {
        Part::Main => one_default(store, kind, class),
        _ => Ok(()),
    },
    counts: true,
    validate: priority,
    validate_update: |_, class, old, errors| {
        if class["value"] != old["value"] {
            errors.push(FieldError::forbidden("value", "may not be changed in an update."));
        }
        unchanged(class, old, &["preemptionPolicy"], errors);
    },
    ..PLAIN
};

pub(super) static ROLE: Strategy = Strategy {
    validate: |object, errors| role(object, true, errors),
    validate_update: |_, object, _, errors| role(object, true, errors),
    check_name: names::path_segment,
    ..PLAIN
};

pub(super) static CLUSTER_ROLE: Strategy = Strategy {
    validate: cluster_role,
    validate_update: |_, object, _, errors| cluster_role(object, errors),
    check_name: names::path_segment,
    ..PLAIN
};

/// Steps that both kinds of binding share.
const BINDING: Strategy = Strategy { default: default_binding, check_name: names::path_segment, ..PLAIN };

pub(super) static ROLE_BINDING: Strategy = Strategy {
    validate: |object, errors| binding(object, true, errors),
    validate_update: |_, object, old, errors| binding_update(object, old, true, errors),
    ..BINDING
};

pub(super) static CLUSTER_ROLE_BINDING: Strategy = Strategy {
    validate: |object, errors| binding(object, false, errors),
    validate_update: |_, object, old, errors| binding_update(object, old, false, errors),
    ..BINDING
};

pub(super) static CERTIFICATE_REQUEST: Strategy = Strategy {
    note_requester: certificate::note_requester,
    prepare: |_, part, request, old, now| certificate::prepare(part, request, old, now),
    validate: certificate::check,
    validate_update: certificate::check_update,
    ..PLAIN
};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Maximum priority of users' classes.
const MAX_PRIORITY: i64 = 1_000_000_000;
/// Maximum size of all values of a ConfigMap or a Secret, in bytes.
const MAX_DATA: usize = 1 << 20;
/// Required keys of each type of secret.
const NEEDED: &[(&str, &[&str])] = &[
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
];
/// Keys of registry credentials, by the type of their secret.
const DOCKER: [(&str, &str); 2] =
    [("kubernetes.io/dockerconfigjson", ".dockerconfigjson"), ("kubernetes.io/dockercfg", ".dockercfg")];
/// Values of the system's own priority classes.
const SYSTEM_VALUES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Refuses a second PriorityClass that is the default (`validatePriorityClass`).
fn one_default(store: &Store, kind: &Kind, class: &Value) -> Result<(), Status> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    let defaults = store.all(kinds::PRIORITY_CLASSES).filter(|other| other.value["globalDefault"] == true);
    match defaults.map(|other| name(&other.value)).find(|other| *other != name(class)) {
        None => Ok(()),
        Some(other) => {
            let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
            Err(Status::forbidden(kind, name(class), &why))
        }
    }
}

/// Returns the size of all values of a map of strings, or of a map of base64 bytes.
fn size(values: &Value, is_base64: bool) -> usize {
    let texts = values.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str());
    // Decoding has refused base64 whose length is not a multiple of four.
    let bytes = |text: &str| text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count().min(2);
    texts.map(|text| if is_base64 && !text.is_empty() { bytes(text) } else { text.len() }).sum()
}

fn configuration(map: &Value, errors: &mut Vec<FieldError>) {
    for field in ["data", "binaryData"] {
        for key in map[field].as_object().into_iter().flatten().map(|(key, _)| key.as_str()) {
            let place = format!("{field}[{key}]");
            refuse(key, &place, keys::key(key), errors);
            if field == "data" && map["binaryData"].get(key).is_some() {
                errors.push(FieldError::invalid(place, &key.into(), "duplicate of key present in binaryData"));
            }
        }
    }
    if size(&map["data"], false) + size(&map["binaryData"], true) > MAX_DATA {
        // Upstream names no field: the whole object is too long.
        errors.push(FieldError::too_long("[]", MAX_DATA));
    }
}

fn secret(secret: &Value, errors: &mut Vec<FieldError>) {
    for key in secret["data"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()) {
        refuse(key, &format!("data[{key}]"), keys::key(key), errors);
    }
    if size(&secret["data"], true) > MAX_DATA {
        errors.push(FieldError::too_long("data", MAX_DATA));
    }
    let of = text(secret, &["type"]);
    // Only a private key must not be empty.
    let has = |key: &str| secret["data"].get(key).is_some_and(|value| key != "ssh-privatekey" || *value != "");
    for (_, needed) in NEEDED.iter().filter(|(named, _)| *named == of) {
        for key in needed.iter().filter(|key| !has(key)) {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    }
    for (_, key) in DOCKER.iter().filter(|(docker, _)| *docker == of) {
        if let Some(why) = secret["data"][*key].as_str().and_then(no_json_object) {
            let shown = "<secret contents redacted>".into();
            errors.push(FieldError::invalid(format!("data[{key}]"), &shown, why));
        }
    }
    // Either a user or a password is enough.
    if of == "kubernetes.io/basic-auth" && !has("username") && !has("password") {
        for key in ["username", "password"] {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    }
    let account = "kubernetes.io/service-account.name";
    if of == "kubernetes.io/service-account-token" && text(secret, &["metadata", "annotations", account]).is_empty() {
        errors.push(FieldError::required(format!("metadata.annotations[{account}]"), ""));
    }
}

/// Returns the reason, in Go's words, why base64 is not that of a JSON object.
fn no_json_object(data: &str) -> Option<String> {
    let bytes = STANDARD.decode(data).unwrap_or_default();
    go_json::refusal(&bytes).or_else(|| {
        let value: Value = go_json::read(&bytes).ok()?;
        let word = go_json::word(&value);
        let fits = value.is_object() || value.is_null();
        (!fits).then(|| format!("json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"))
    })
}

fn priority(class: &Value, errors: &mut Vec<FieldError>) {
    let (named, value) = (name(class), class["value"].as_i64().unwrap_or(0));
    if named.starts_with("system-") {
        let why = match SYSTEM_VALUES.iter().find(|(system, _)| *system == named) {
            None => Some(format!("{named} is not a known system priority class")),
            Some((_, known)) if *known != value => Some(format!("value of {named} PriorityClass must be {known}")),
            Some(_) if class["globalDefault"] == true => {
                Some(format!("globalDefault of {named} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            let head = "priority class names with 'system-' prefix are reserved for system use only. error";
            errors.push(FieldError::forbidden("metadata.name", format!("{head}: {why}")));
        }
    } else if value > MAX_PRIORITY {
        let why = format!("maximum allowed value of a user defined priority is {MAX_PRIORITY}");
        errors.push(FieldError::forbidden("value", why));
    }
    let policy = text(class, &["preemptionPolicy"]);
    let policies = ["PreemptLowerPriority", "Never"];
    if !policies.contains(&policy) {
        errors.push(FieldError::not_supported("preemptionPolicy", &policy.into(), &policies));
    }
}

fn role(role: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    for (i, rule) in list(role, &["rules"]).iter().enumerate() {
        let at = format!("rules[{i}]");
        if list(rule, &["verbs"]).is_empty() {
            errors.push(FieldError::required(format!("{at}.verbs"), "verbs must contain at least one value"));
        }
        let urls = list(rule, &["nonResourceURLs"]);
        if !urls.is_empty() {
            let field = format!("{at}.nonResourceURLs");
            let shown = &rule["nonResourceURLs"];
            if namespaced {
                let why = "namespaced rules cannot apply to non-resource URLs";
                errors.push(FieldError::invalid(&field, shown, why));
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|f| !list(rule, &[f]).is_empty()) {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(FieldError::invalid(&field, shown, why));
            }
            continue;
        }
        if list(rule, &["apiGroups"]).is_empty() {
            let why = "resource rules must supply at least one api group";
            errors.push(FieldError::required(format!("{at}.apiGroups"), why));
        }
        if list(rule, &["resources"]).is_empty() {
            let why = "resource rules must supply at least one resource";
            errors.push(FieldError::required(format!("{at}.resources"), why));
        }
    }
}

fn cluster_role(object: &Value, errors: &mut Vec<FieldError>) {
    role(object, false, errors);
    aggregation(object, errors);
}

/// Validates the selectors of the roles that a cluster role takes its rules from.
fn aggregation(role: &Value, errors: &mut Vec<FieldError>) {
    const AT: &str = "aggregationRule.clusterRoleSelectors";
    let selectors = list(role, &["aggregationRule", "clusterRoleSelectors"]);
    if !role["aggregationRule"].is_null() && selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(AT, why));
    }
    for (i, selector) in selectors.iter().enumerate() {
        label_selector(selector, &format!("{AT}[{i}]"), errors);
    }
}

fn binding(binding: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    let role = &binding["roleRef"];
    let (group, kind, named) = (text(role, &["apiGroup"]), text(role, &["kind"]), text(role, &["name"]));
    if group != RBAC {
        errors.push(FieldError::not_supported("roleRef.apiGroup", &group.into(), &[RBAC]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", &kind.into(), kinds));
    }
    if named.is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    } else {
        refuse(named, "roleRef.name", names::path_segment(named), errors);
    }
    for (i, subject) in list(binding, &["subjects"]).iter().enumerate() {
        self::subject(subject, namespaced, &format!("subjects[{i}]"), errors);
    }
}

/// Validates a subject. The API group of a service account is the core group.
fn subject(subject: &Value, namespaced: bool, at: &str, errors: &mut Vec<FieldError>) {
    let (named, kind, group) = (text(subject, &["name"]), text(subject, &["kind"]), text(subject, &["apiGroup"]));
    if named.is_empty() {
        errors.push(FieldError::required(format!("{at}.name"), ""));
    }
    let kinds = ["ServiceAccount", "User", "Group"];
    let wanted = if kind == "ServiceAccount" { "" } else { RBAC };
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported(format!("{at}.kind"), &kind.into(), &kinds));
        return;
    }
    if kind == "ServiceAccount" && !named.is_empty() {
        refuse(named, &format!("{at}.name"), names::subdomain(named), errors);
    }
    if group != wanted {
        errors.push(FieldError::not_supported(format!("{at}.apiGroup"), &group.into(), &[wanted]));
    }
    if kind == "ServiceAccount" && !namespaced && text(subject, &["namespace"]).is_empty() {
        errors.push(FieldError::required(format!("{at}.namespace"), ""));
    }
}

/// Checks that an immutable object and its data do not change.
fn frozen(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if old["immutable"] == true {
        for field in ["immutable", "data", "binaryData"] {
            if object.get(field) != old.get(field) {
                errors.push(FieldError::forbidden(field, "field is immutable when `immutable` is set"));
            }
        }
    }
}

fn binding_update(object: &Value, old: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    binding(object, namespaced, errors);
    if object["roleRef"] != old["roleRef"] {
        let shown = internal::shown(&object["roleRef"], internal::ROLE);
        errors.push(FieldError::invalid_text("roleRef", shown, "cannot change roleRef"));
    }
}

/// Merges the write-only `stringData` into `data` (upstream's secret conversion).
fn string_data(secret: &mut Value) {
    let Some(Value::Object(texts)) = secret.as_object_mut().and_then(|map| map.remove("stringData")) else { return };
    if let Some(data) = map_mut(secret, "data") {
        for (key, text) in texts {
            data.insert(key, STANDARD.encode(text.as_str().unwrap_or_default()).into());
        }
    }
}

fn default_binding(object: &mut Value) {
    if let Some(role) = object.get_mut("roleRef").and_then(Value::as_object_mut) {
        default_zero(role, "apiGroup", RBAC);
    }
    let Some(map) = object.as_object_mut() else { return };
    for subject in elements(map, "subjects") {
        if subject.get("kind").is_some_and(|kind| kind == "User" || kind == "Group") {
            default_zero(subject, "apiGroup", RBAC);
        }
    }
}
