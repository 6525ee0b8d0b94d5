//! Storage classes, CSI's kinds and attachments (`pkg/registry/storage`).

use std::collections::{BTreeMap, BTreeSet};

use substrate::json::{Value, json};

use super::{PLAIN, Strategy, keep_the_rest, volume};
use crate::state::command::Part;
use crate::state::default::set;
use crate::state::validate::selector::label_selector;
use crate::state::validate::sources::driver_name;
use crate::state::validate::{names, refuse, unchanged};
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
        Part::Main | Part::Status => attachment_update(attachment, old, errors),
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
const RECLAIM: &[&str] = &["Delete", "Retain"];
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

fn class(class: &Value, errors: &mut Vec<FieldError>) {
    provisioner(class, "provisioner", errors);
    parameters(class, errors);
    let policy = text(class, &["reclaimPolicy"]);
    if !policy.is_empty() && !RECLAIM.contains(&policy) {
        errors.push(FieldError::not_supported("reclaimPolicy", &policy.into(), RECLAIM));
    }
    let mode = text(class, &["volumeBindingMode"]);
    let modes = ["Immediate", "WaitForFirstConsumer"];
    if !modes.contains(&mode) {
        errors.push(FieldError::not_supported("volumeBindingMode", &mode.into(), &modes));
    }
    topologies(list(class, &["allowedTopologies"]), errors);
}

/// Validates the name of the driver of a class, without regard to case.
fn provisioner(class: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let name = text(class, &[field]).to_lowercase();
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else {
        refuse(&name, field, names::qualified(&name), errors);
    }
}

/// Validates the domains of a class. Equal terms are duplicates, in any order of their values.
fn topologies(terms: &[Value], errors: &mut Vec<FieldError>) {
    let mut seen: Vec<BTreeMap<&str, BTreeSet<&str>>> = Vec::new();
    for (i, term) in terms.iter().enumerate() {
        let at = format!("allowedTopologies[{i}].matchLabelExpressions");
        let mut this = BTreeMap::new();
        for (k, expression) in list(term, &["matchLabelExpressions"]).iter().enumerate() {
            let (at, key) = (format!("{at}[{k}]"), text(expression, &["key"]));
            let (mut values, of) = (BTreeSet::new(), list(expression, &["values"]));
            if of.is_empty() {
                errors.push(FieldError::required(format!("{at}.values"), ""));
            }
            for (k, value) in of.iter().enumerate() {
                if !values.insert(value.as_str().unwrap_or_default()) {
                    errors.push(FieldError::duplicate(format!("{at}.values[{k}]"), value));
                }
            }
            refuse(key, &format!("{at}.key"), names::qualified(key), errors);
            if this.insert(key, values).is_some() {
                errors.push(FieldError::duplicate(format!("{at}.key"), &key.into()));
            }
        }
        for _ in seen.iter().filter(|other| **other == this) {
            errors.push(FieldError::duplicate(&at, &"".into()));
        }
        seen.push(this);
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
        let (name, id) = (text(driver, &["name"]), text(driver, &["nodeID"]));
        driver_name(name, &format!("{at}.name"), errors);
        if id.is_empty() {
            errors.push(FieldError::required(format!("{at}.nodeID"), ""));
        }
        if id.len() > MAX_NODE_ID {
            let why = format!("must be {MAX_NODE_ID} characters or less");
            errors.push(FieldError::invalid(format!("{at}.nodeID"), &id.into(), why));
        }
        if let Some(count) = at_count(driver).filter(|c| *c < 0) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(format!("{at}.allocatable.count"), &count.into(), why));
        }
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &name.into()));
        }
        seen.push(name);
        let keys: Vec<&str> = list(driver, KEYS).iter().filter_map(Value::as_str).collect();
        for (k, key) in keys.iter().enumerate() {
            if key.is_empty() {
                errors.push(FieldError::required(&at, ""));
            }
            if keys[..k].contains(key) {
                errors.push(FieldError::duplicate(&at, &(*key).into()));
            }
            refuse(key, &at, names::qualified(key), errors);
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
    let spec = &driver["spec"];
    let policy = text(spec, &["fsGroupPolicy"]);
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    if !policies.contains(&policy) {
        errors.push(FieldError::not_supported("spec.fsGroupPolicy", &policy.into(), &policies));
    }
    tokens(list(spec, &["tokenRequests"]), errors);
    for mode in list(spec, &["volumeLifecycleModes"]) {
        let modes = ["Persistent", "Ephemeral"];
        if !mode.as_str().is_some_and(|mode| modes.contains(&mode)) {
            errors.push(FieldError::not_supported("spec.volumeLifecycleModes", mode, &modes));
        }
    }
    let period = &spec["nodeAllocatableUpdatePeriodSeconds"];
    if period.as_i64().is_some_and(|seconds| seconds < 10) {
        let why = "must be greater than or equal to 10 seconds";
        errors.push(FieldError::invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why));
    }
    let in_secrets = &spec["serviceAccountTokenInSecrets"];
    if !in_secrets.is_null() && list(spec, &["tokenRequests"]).is_empty() {
        let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(FieldError::invalid("spec.serviceAccountTokenInSecrets", in_secrets, why));
    }
}

/// Validates the tokens that a driver asks for: one for each audience.
fn tokens(requests: &[Value], errors: &mut Vec<FieldError>) {
    let mut audiences: Vec<&str> = Vec::new();
    for (i, request) in requests.iter().enumerate() {
        let (audience, at) = (text(request, &["audience"]), format!("spec.tokenRequests[{i}]"));
        if audiences.contains(&audience) {
            errors.push(FieldError::duplicate(format!("{at}.audience"), &audience.into()));
            continue;
        }
        audiences.push(audience);
        let seconds = &request["expirationSeconds"];
        let why = match seconds.as_i64() {
            Some(..600) => "may not specify a duration less than 10 minutes",
            Some(4_294_967_297..) => "may not specify a duration larger than 2^32 seconds",
            _ => continue,
        };
        errors.push(FieldError::invalid(format!("{at}.expirationSeconds"), seconds, why));
    }
}

fn storage_capacity(capacity: &Value, errors: &mut Vec<FieldError>) {
    label_selector(&capacity["nodeTopology"], "nodeTopology", errors);
    let class = text(capacity, &["storageClassName"]);
    refuse(class, "storageClassName", names::subdomain(class), errors);
    let amount = text(capacity, &["capacity"]);
    if quantity::nanos(amount).is_some_and(|n| n < 0) {
        errors.push(FieldError::invalid("capacity", &amount.into(), "must be greater than or equal to 0"));
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
    let source = &attachment["spec"]["source"];
    let (named, inline) = (&source["persistentVolumeName"], &source["inlineVolumeSpec"]);
    let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (named.as_str(), inline.is_null()) {
        (None, true) => errors.push(FieldError::required("spec.source", why)),
        (Some(_), false) => errors.push(FieldError::forbidden("spec.source", why)),
        (Some(""), true) => {
            let why = "must specify non empty persistentVolumeName";
            errors.push(FieldError::required("spec.source.persistentVolumeName", why));
        }
        (Some(_), true) => {}
        (None, false) => volume::inline(inline, "spec.source.inlineVolumeSpec", errors),
    }
    let node = text(attachment, &["spec", "nodeName"]);
    refuse(node, "spec.nodeName", names::subdomain(node), errors);
    attachment_status(attachment, errors);
    if let Some(name) = named.as_str() {
        refuse(name, "spec.source.persistentVolumeName", names::subdomain(name), errors);
    }
}

fn attachment_update(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    attachment(object, errors);
    if object["spec"] != old["spec"] {
        let shown = internal::shown(&object["spec"], internal::ATTACHMENT_SPEC);
        errors.push(FieldError::invalid_text("spec", shown, "field is immutable"));
    }
}

fn attachment_status(attachment: &Value, errors: &mut Vec<FieldError>) {
    let metadata = at(attachment, &["status", "attachmentMetadata"]).and_then(Value::as_object);
    let size: usize = metadata.into_iter().flatten().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if size > MAX_ATTACHMENT_METADATA {
        errors.push(FieldError::too_long("status.attachmentMetadata", MAX_ATTACHMENT_METADATA));
    }
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
}

fn attributes_class(class: &Value, errors: &mut Vec<FieldError>) {
    provisioner(class, "driverName", errors);
    parameters(class, errors);
    if class["parameters"].as_object().is_none_or(substrate::json::Map::is_empty) {
        errors.push(FieldError::required("parameters", "must contain at least one key/value pair"));
    }
}

fn attributes_class_update(class: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for field in ["driverName", "parameters"] {
        if class.get(field) != old.get(field) {
            errors.push(FieldError::forbidden(field, format!("updates to {field} are forbidden.")));
        }
    }
    attributes_class(class, errors);
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
