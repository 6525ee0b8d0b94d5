//! Configuration, secrets, priorities, roles and requests for certificates
//! (`pkg/registry/{core,scheduling,rbac,certificates}`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use substrate::json::{Value, json};

use super::{PLAIN, Strategy};
use crate::state::default::{elements, set};
use crate::state::validate::{names, unchanged};
use crate::state::value::{default, list, map_mut, name, text};
use crate::state::{FieldError, certificate, internal};

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
    validate: |object, errors| role(object, false, errors),
    validate_update: |_, object, _, errors| role(object, false, errors),
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
/// The system's own classes.
const SYSTEM_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];
/// Maximum size of all values of a ConfigMap or a Secret, in bytes.
const MAX_DATA: usize = 1 << 20;
/// Maximum length of a key, in bytes.
const MAX_KEY: usize = 253;
/// Required keys of each type of secret.
const NEEDED: &[(&str, &[&str])] = &[
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
];
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
    'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn keys(object: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for key in object[field].as_object().into_iter().flatten().map(|(key, _)| key.as_str()) {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let mut refuse = |why: &str| errors.push(FieldError::invalid(format!("{field}[{key}]"), &key.into(), why));
        if key.len() > MAX_KEY {
            refuse(&format!("must be no more than {MAX_KEY} bytes"));
        }
        if key.is_empty() || !key.bytes().all(fits) {
            refuse(CONFIG_KEY);
        }
        match key {
            "." => refuse("must not be '.'"),
            ".." => refuse("must not be '..'"),
            _ if key.starts_with("..") => refuse("must not start with '..'"),
            _ => {}
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
    keys(map, "data", errors);
    keys(map, "binaryData", errors);
    for key in map["data"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if map["binaryData"].get(key).is_some() {
            let why = "duplicate of key present in binaryData";
            errors.push(FieldError::invalid(format!("data[{key}]"), &key.as_str().into(), why));
        }
    }
    if size(&map["data"], false) + size(&map["binaryData"], true) > MAX_DATA {
        // Upstream names no field: the whole object is too long.
        errors.push(FieldError::too_long("[]", MAX_DATA));
    }
}

fn secret(secret: &Value, errors: &mut Vec<FieldError>) {
    keys(secret, "data", errors);
    if size(&secret["data"], true) > MAX_DATA {
        errors.push(FieldError::too_long("data", MAX_DATA));
    }
    let of = text(secret, &["type"]);
    let has = |key: &str| secret["data"].get(key).is_some();
    for (_, needed) in NEEDED.iter().filter(|(named, _)| *named == of) {
        for key in needed.iter().filter(|key| !has(key)) {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
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

fn priority(class: &Value, errors: &mut Vec<FieldError>) {
    let named = name(class);
    let system = SYSTEM_CLASSES.contains(&named);
    if named.starts_with("system-") && !system {
        let why = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {named} is not a \
             known system priority class"
        );
        errors.push(FieldError::forbidden("metadata.name", why));
    }
    if !system && class["value"].as_i64().is_some_and(|value| value > MAX_PRIORITY) {
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

fn binding(binding: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    let kind = text(binding, &["roleRef", "kind"]);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", &kind.into(), kinds));
    }
    if text(binding, &["roleRef", "name"]).is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    for (i, subject) in list(binding, &["subjects"]).iter().enumerate() {
        if text(subject, &["name"]).is_empty() {
            errors.push(FieldError::required(format!("subjects[{i}].name"), ""));
        }
        let kind = text(subject, &["kind"]);
        let kinds = ["ServiceAccount", "User", "Group"];
        if !kinds.contains(&kind) {
            errors.push(FieldError::not_supported(format!("subjects[{i}].kind"), &kind.into(), &kinds));
        } else if kind == "ServiceAccount" && !namespaced && text(subject, &["namespace"]).is_empty() {
            errors.push(FieldError::required(format!("subjects[{i}].namespace"), ""));
        }
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
        default(role, "apiGroup", RBAC);
    }
    let Some(map) = object.as_object_mut() else { return };
    for subject in elements(map, "subjects") {
        if subject.get("kind").is_some_and(|kind| kind == "User" || kind == "Group") {
            default(subject, "apiGroup", RBAC);
        }
    }
}
