//! Storage classes, CSI's kinds and attachments (`pkg/registry/storage`).

use substrate::json::{Value, json};

use super::{PLAIN, Strategy, keep_the_rest};
use crate::state::command::Part;
use crate::state::default::set;
use crate::state::validate::{names, unchanged};
use crate::state::value::{self, at, copy_meta, default, has, list, map_mut, text};
use crate::state::warnings::{of_node_term, old_node_label};
use crate::state::{FieldError, internal, quantity};

pub(super) static CLASS: Strategy = Strategy {
    default: |class| set(class, &[("reclaimPolicy", json!("Delete")), ("volumeBindingMode", json!("Immediate"))]),
    validate: class,
    validate_update: |_, class, old, errors| class_update(class, old, errors),
    warn: |class, _| of_class(class),
    ..PLAIN
};

pub(super) static CSI_NODE: Strategy = Strategy {
    validate: csi_node,
    validate_update: |_, node, old, errors| csi_node_update(node, old, errors),
    ..PLAIN
};

pub(super) static DRIVER: Strategy = Strategy {
    default: default_driver,
    counts_changes: true,
    validate: driver,
    validate_update: |_, driver, old, errors| driver_update(driver, old, errors),
    warn: of_driver,
    check_name: |name| {
        // The name must also fit a label value and a path.
        if name.len() > 63 { Some("must be no more than 63 characters".to_owned()) } else { names::subdomain(name) }
    },
    ..PLAIN
};

pub(super) static CAPACITY: Strategy = Strategy {
    validate: storage_capacity,
    validate_update: |_, capacity, old, errors| capacity_update(capacity, old, errors),
    warn: |capacity, _| of_capacity(capacity),
    ..PLAIN
};

pub(super) static ATTACHMENT: Strategy = Strategy {
    begin: |_, _| Some(json!({"attached": false})),
    prepare: |kind, part, attachment, old, now| {
        keep_the_rest(kind, part, attachment, old, now);
        if part == Part::Status {
            reset_metadata(attachment, old);
        }
    },
    validate: attachment,
    validate_update: |part, attachment, old, errors| match part {
        Part::Main => attachment_update(attachment, old, errors),
        Part::Status => attachment_update(attachment, old, errors),
        _ => {}
    },
    ..PLAIN
};

pub(super) static ATTRIBUTES_CLASS: Strategy = Strategy {
    finalizer: Some("kubernetes.io/vac-protection"),
    validate: attributes_class,
    validate_update: |_, class, old, errors| attributes_class_update(class, old, errors),
    ..PLAIN
};

/// Field of a CSINode driver with its topology keys.
const KEYS: &[&str] = &["topologyKeys"];
/// Known access modes.
const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const RECLAIM: &[&str] = &["Delete", "Retain"];
/// Maximum length of a driver's name.
const MAX_DRIVER_NAME: usize = 63;
/// Maximum length of a driver's ID of a node.
const MAX_NODE_ID: usize = 256;
/// Maximum number of parameters of a class.
const MAX_PARAMETERS: usize = 512;
/// Maximum size of the parameters of a class, in bytes.
const MAX_PARAMETERS_SIZE: usize = 256 << 10;
/// Maximum length of the error message of an attachment, in bytes.
const MAX_MESSAGE: usize = 1024;
/// Maximum size of the metadata of an attachment, in bytes.
const MAX_ATTACHMENT_METADATA: usize = 256 << 10;
pub(super) fn access_modes(object: &Value, why_needed: &str, errors: &mut Vec<FieldError>) {
    let modes = list(object, &["spec", "accessModes"]);
    if modes.is_empty() {
        errors.push(FieldError::required("spec.accessModes", why_needed));
    }
    for mode in modes {
        if !mode.as_str().is_some_and(|m| MODES.contains(&m)) {
            errors.push(FieldError::not_supported("spec.accessModes", mode, MODES));
        }
    }
    if modes.len() > 1 && modes.iter().any(|m| m == "ReadWriteOncePod") {
        let why = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden("spec.accessModes", why));
    }
}

pub(super) fn volume_mode(object: &Value, errors: &mut Vec<FieldError>) {
    let mode = text(object, &["spec", "volumeMode"]);
    if !matches!(mode, "" | "Filesystem" | "Block") {
        errors.push(FieldError::not_supported("spec.volumeMode", &mode.into(), &["Block", "Filesystem"]));
    }
}

pub(super) fn positive(object: &Value, path: &[&str], field: &str, errors: &mut Vec<FieldError>) {
    match at(object, path).and_then(Value::as_str) {
        None => errors.push(FieldError::required(field, "")),
        Some(text) if quantity::nanos(text).is_none_or(|n| n <= 0) => {
            errors.push(FieldError::invalid(field, &text.into(), "must be greater than zero"));
        }
        Some(_) => {}
    }
}

/// Validates the keys and values of a selector as those of labels.
pub(super) fn selector_labels(selector: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        if let Some(why) = names::qualified(key) {
            errors.push(FieldError::invalid(format!("{at}.matchLabels"), &key.as_str().into(), why));
        }
        if let Some(why) = names::label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(format!("{at}.matchLabels"), value, why));
        }
    }
}

/// Validates the name of a CSI driver: a subdomain, short enough for a label.
pub(super) fn driver_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    if name.len() > MAX_DRIVER_NAME {
        errors.push(FieldError::too_long(field, MAX_DRIVER_NAME));
    }
    if let Some(why) = names::subdomain(&name.to_lowercase()) {
        errors.push(FieldError::invalid(field, &name.into(), why));
    }
}

fn class(class: &Value, errors: &mut Vec<FieldError>) {
    if text(class, &["provisioner"]).is_empty() {
        errors.push(FieldError::required("provisioner", ""));
    }
    let policy = text(class, &["reclaimPolicy"]);
    if !RECLAIM.contains(&policy) {
        errors.push(FieldError::not_supported("reclaimPolicy", &policy.into(), RECLAIM));
    }
    let mode = text(class, &["volumeBindingMode"]);
    let modes = ["Immediate", "WaitForFirstConsumer"];
    if !modes.contains(&mode) {
        errors.push(FieldError::not_supported("volumeBindingMode", &mode.into(), &modes));
    }
    let provisioner = text(class, &["provisioner"]).to_lowercase();
    if let (false, Some(why)) = (provisioner.is_empty(), names::qualified(&provisioner)) {
        errors.push(FieldError::invalid("provisioner", &provisioner.into(), why));
    }
    parameters(class, errors);
    for (i, term) in list(class, &["allowedTopologies"]).iter().enumerate() {
        for (j, expression) in list(term, &["matchLabelExpressions"]).iter().enumerate() {
            let at = format!("allowedTopologies[{i}].matchLabelExpressions[{j}]");
            if list(expression, &["values"]).is_empty() {
                errors.push(FieldError::required(format!("{at}.values"), ""));
            }
            let key = text(expression, &["key"]);
            if let Some(why) = names::qualified(key) {
                errors.push(FieldError::invalid(format!("{at}.key"), &key.into(), why));
            }
        }
    }
}

/// Validates the parameters of a class: no empty key, and not too many or too large.
fn parameters(class: &Value, errors: &mut Vec<FieldError>) {
    let Some(parameters) = class["parameters"].as_object() else { return };
    if parameters.len() > MAX_PARAMETERS {
        errors.push(FieldError::too_long("parameters", MAX_PARAMETERS));
        return;
    }
    if parameters.contains_key("") {
        errors.push(FieldError::invalid("parameters", &"".into(), "field can not be empty."));
    }
    let size: usize = parameters.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_PARAMETERS_SIZE {
        errors.push(FieldError::too_long("parameters", MAX_PARAMETERS_SIZE));
    }
}

fn class_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    class(new, errors);
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        unchanged(new, old, &[field], errors);
    }
}

fn csi_node(node: &Value, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, driver) in list(node, &["spec", "drivers"]).iter().enumerate() {
        let at = format!("spec.drivers[{i}]");
        for field in ["name", "nodeID"] {
            if text(driver, &[field]).is_empty() {
                errors.push(FieldError::required(format!("{at}.{field}"), ""));
            }
        }
        let name = text(driver, &["name"]);
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &name.into()));
        }
        seen.push(name);
        let id = text(driver, &["nodeID"]);
        if id.len() > MAX_NODE_ID {
            let why = format!("must be {MAX_NODE_ID} characters or less");
            errors.push(FieldError::invalid(format!("{at}.nodeID"), &id.into(), why));
        }
        if let Some(count) = at_count(driver).filter(|c| *c < 0) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(format!("{at}.allocatable.count"), &count.into(), why));
        }
    }
}

fn at_count(driver: &Value) -> Option<i64> {
    crate::state::value::int(driver, &["allocatable", "count"])
}

fn csi_node_update(node: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    csi_node(node, errors);
    let before = list(old, &["spec", "drivers"]);
    for was in before {
        for driver in list(node, &["spec", "drivers"]).iter().filter(|d| d.get("name") == was.get("name")) {
            if driver.get("nodeID") != was.get("nodeID") || list(driver, KEYS) != list(was, KEYS) {
                let mut shown = driver.clone();
                value::set(&mut shown, "allocatable", None);
                let shown = internal::shown(&shown, internal::NODE_DRIVER);
                errors.push(FieldError::invalid_text("spec.drivers", shown, "field is immutable"));
            }
        }
    }
}

fn driver(driver: &Value, errors: &mut Vec<FieldError>) {
    for mode in list(driver, &["spec", "volumeLifecycleModes"]) {
        let modes = ["Persistent", "Ephemeral"];
        if !mode.as_str().is_some_and(|mode| modes.contains(&mode)) {
            errors.push(FieldError::not_supported("spec.volumeLifecycleModes", mode, &modes));
        }
    }
    let policy = text(driver, &["spec", "fsGroupPolicy"]);
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    if !policies.contains(&policy) {
        errors.push(FieldError::not_supported("spec.fsGroupPolicy", &policy.into(), &policies));
    }
    let mut audiences: Vec<&str> = Vec::new();
    for (i, request) in list(driver, &["spec", "tokenRequests"]).iter().enumerate() {
        let audience = text(request, &["audience"]);
        if audiences.contains(&audience) {
            errors.push(FieldError::duplicate(format!("spec.tokenRequests[{i}].audience"), &audience.into()));
        }
        audiences.push(audience);
    }
    let period = &driver["spec"]["nodeAllocatableUpdatePeriodSeconds"];
    if period.as_i64().is_some_and(|seconds| seconds < 10) {
        let why = "must be greater than or equal to 10 seconds";
        errors.push(FieldError::invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why));
    }
}

fn storage_capacity(capacity: &Value, errors: &mut Vec<FieldError>) {
    selector_labels(&capacity["nodeTopology"], "nodeTopology", errors);
    let class = text(capacity, &["storageClassName"]);
    if let Some(why) = names::subdomain(class) {
        errors.push(FieldError::invalid("storageClassName", &class.into(), why));
    }
    for field in ["capacity", "maximumVolumeSize"] {
        let amount = text(capacity, &[field]);
        if quantity::nanos(amount).is_some_and(|n| n < 0) {
            errors.push(FieldError::invalid(field, &amount.into(), "must be greater than or equal to 0"));
        }
    }
}

/// Validates an update: the storage class and the topology of a capacity do not change.
fn capacity_update(capacity: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    storage_capacity(capacity, errors);
    for field in ["nodeTopology", "storageClassName"] {
        unchanged(capacity, old, &[field], errors);
    }
}

fn driver_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    driver(new, errors);
    // Upstream misspells the field like this.
    if new["spec"]["attachRequired"] != old["spec"]["attachRequired"] {
        errors.push(FieldError::immutable("spec.attachedRequired", &new["spec"]["attachRequired"]));
    }
    unchanged(new, old, &["spec", "volumeLifecycleModes"], errors);
}

fn attachment(attachment: &Value, errors: &mut Vec<FieldError>) {
    driver_name(text(attachment, &["spec", "attacher"]), "spec.attacher", errors);
    let node = text(attachment, &["spec", "nodeName"]);
    if let Some(why) = names::subdomain(node) {
        errors.push(FieldError::invalid("spec.nodeName", &node.into(), why));
    }
    let volume = text(attachment, &["spec", "source", "persistentVolumeName"]);
    let inline = has(attachment, &["spec", "source", "inlineVolumeSpec"]);
    match (volume.is_empty(), inline) {
        (true, false) => {
            let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
            errors.push(FieldError::required("spec.source", why));
        }
        (false, true) => {
            let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
            errors.push(FieldError::forbidden("spec.source", why));
        }
        _ => {}
    }
}

fn attachment_update(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    attachment(object, errors);
    attachment_status(object, errors);
    if object["spec"] != old["spec"] {
        let shown = internal::shown(&object["spec"], internal::ATTACHMENT_SPEC);
        errors.push(FieldError::invalid_text("spec", shown, "field is immutable"));
    }
}

fn attachment_status(attachment: &Value, errors: &mut Vec<FieldError>) {
    for error in ["attachError", "detachError"] {
        if text(attachment, &["status", error, "message"]).len() > MAX_MESSAGE {
            // Upstream reports the limit of the metadata here.
            errors.push(FieldError::too_long(format!("status.{error}.message"), MAX_ATTACHMENT_METADATA));
        }
        let code = &attachment["status"][error]["errorCode"];
        if code.as_i64().is_some_and(|code| code < 0) {
            let why = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(format!("status.{error}.errorCode"), code, why));
        }
    }
    let metadata = at(attachment, &["status", "attachmentMetadata"]).and_then(Value::as_object);
    let size: usize = metadata.into_iter().flatten().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if size > MAX_ATTACHMENT_METADATA {
        errors.push(FieldError::too_long("status.attachmentMetadata", MAX_ATTACHMENT_METADATA));
    }
}

fn attributes_class(class: &Value, errors: &mut Vec<FieldError>) {
    let driver = text(class, &["driverName"]).to_lowercase();
    if driver.is_empty() {
        errors.push(FieldError::required("driverName", ""));
    } else if let Some(why) = names::qualified(&driver) {
        errors.push(FieldError::invalid("driverName", &driver.into(), why));
    }
    if class["parameters"].as_object().is_none_or(substrate::json::Map::is_empty) {
        errors.push(FieldError::required("parameters", "must contain at least one key/value pair"));
    }
    parameters(class, errors);
}

fn attributes_class_update(class: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    attributes_class(class, errors);
    for field in ["driverName", "parameters"] {
        if class.get(field) != old.get(field) {
            errors.push(FieldError::forbidden(field, format!("updates to {field} are forbidden.")));
        }
    }
}

fn default_driver(driver: &mut Value) {
    if let Some(spec) = map_mut(driver, "spec") {
        for (key, value) in [
            ("attachRequired", json!(true)),
            ("podInfoOnMount", json!(false)),
            ("storageCapacity", json!(false)),
            ("fsGroupPolicy", json!("ReadWriteOnceWithFSType")),
            ("requiresRepublish", json!(false)),
            ("seLinuxMount", json!(false)),
        ] {
            default(spec, key, value);
        }
        if spec.get("volumeLifecycleModes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            spec.insert("volumeLifecycleModes", json!(["Persistent"]));
        }
    }
}

/// Copies from the old object the metadata that a status update does not write (`ResetObjectMetaForStatus`).
fn reset_metadata(object: &mut Value, old: &Value) {
    for field in ["labels", "annotations", "finalizers", "ownerReferences", "managedFields"] {
        copy_meta(old, object, field);
    }
}

fn of_class(class: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (i, term) in list(class, &["allowedTopologies"]).iter().enumerate() {
        for (j, expression) in list(term, &["matchLabelExpressions"]).iter().enumerate() {
            if let Some(why) = old_node_label(text(expression, &["key"])) {
                found.push(format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key: {why}"));
            }
        }
    }
    found
}

fn of_capacity(capacity: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let topology = &capacity["nodeTopology"];
    of_node_term("nodeTopology", topology, &mut found);
    for key in topology["matchLabels"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if let Some(why) = old_node_label(key) {
            found.push(format!("nodeTopology.matchLabels.{key}: {why}"));
        }
    }
    found
}

fn of_driver(driver: &Value, old: &Value) -> Vec<String> {
    let requests = |driver: &Value| list(driver, &["spec", "tokenRequests"]).to_vec();
    let asked = requests(driver);
    if asked.is_empty() || asked == requests(old) || has(driver, &["spec", "serviceAccountTokenInSecrets"]) {
        return Vec::new();
    }
    let text = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
    vec![text.to_owned()]
}
