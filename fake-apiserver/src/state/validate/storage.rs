//! Storage kinds: required fields, and what is immutable in which way.

use substrate::json::Value;

use super::{names, unchanged};
use crate::state::FieldError;
use crate::state::quantity;
use crate::state::value::{at, has, list, text};

/// Where access modes are listed.
const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const RECLAIM: &[&str] = &["Delete", "Retain"];
/// Sources that upstream looks for after all others.
const LATE_SOURCES: &[&str] = &["scaleIO", "local", "storageos", "csi", "flexVolume"];
/// Characters that the name of a driver may have.
const MAX_DRIVER_NAME: usize = 63;
/// Characters that a driver's name for a node may have.
const MAX_NODE_ID: usize = 256;
/// Bytes that the error message of an attachment may have.
const MAX_MESSAGE: usize = 1024;
/// Bytes that the metadata of an attachment may have.
const MAX_ATTACHMENT_METADATA: usize = 256_000;
const CLAIM_IMMUTABLE: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

fn access_modes(object: &Value, why_needed: &str, errors: &mut Vec<FieldError>) {
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

fn volume_mode(object: &Value, errors: &mut Vec<FieldError>) {
    let mode = text(object, &["spec", "volumeMode"]);
    if !matches!(mode, "" | "Filesystem" | "Block") {
        errors.push(FieldError::not_supported("spec.volumeMode", &mode.into(), &["Block", "Filesystem"]));
    }
}

fn positive(object: &Value, path: &[&str], field: &str, errors: &mut Vec<FieldError>) {
    match at(object, path).and_then(Value::as_str) {
        None => errors.push(FieldError::required(field, "")),
        Some(text) if quantity::nanos(text).is_none_or(|n| n <= 0) => {
            errors.push(FieldError::invalid(field, &text.into(), "must be greater than zero"));
        }
        Some(_) => {}
    }
}

pub(super) fn claim(claim: &Value, errors: &mut Vec<FieldError>) {
    access_modes(claim, "at least 1 access mode is required", errors);
    volume_mode(claim, errors);
    let field = "spec.resources[storage]";
    positive(claim, &["spec", "resources", "requests", "storage"], field, errors);
    let class = text(claim, &["spec", "storageClassName"]);
    if let (false, Some(why)) = (class.is_empty(), names::subdomain(class)) {
        errors.push(FieldError::invalid("spec.storageClassName", &class.into(), why));
    }
    let class = text(claim, &["spec", "volumeAttributesClassName"]);
    if let (false, Some(why)) = (class.is_empty(), names::subdomain(class)) {
        errors.push(FieldError::invalid("spec.volumeAttributesClassName", &class.into(), why));
    }
    selector_labels(&claim["spec"]["selector"], "spec.selector", errors);
    for field in ["dataSource", "dataSourceRef"] {
        data_source(&claim["spec"][field], &format!("spec.{field}"), errors);
    }
}

/// Where a claim's bytes come from has a name and a kind; of core there are claims only.
fn data_source(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if source.is_null() {
        return;
    }
    for field in ["name", "kind"] {
        if text(source, &[field]).is_empty() {
            errors.push(FieldError::required(format!("{at}.{field}"), ""));
        }
    }
    let kind = text(source, &["kind"]);
    if text(source, &["apiGroup"]).is_empty() && !matches!(kind, "" | "PersistentVolumeClaim") {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(at, &kind.into(), why));
    }
}

/// The keys and values that a selector compares with are those of labels.
fn selector_labels(selector: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        if let Some(why) = names::qualified(key) {
            errors.push(FieldError::invalid(format!("{at}.matchLabels"), &key.as_str().into(), why));
        }
        if let Some(why) = names::label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(format!("{at}.matchLabels"), value, why));
        }
    }
}

/// The spec of a claim is fixed, but for its volume (once), its class (when it had none), its size and its attributes
/// class (both when it is bound).
pub(super) fn claim_update(claim: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (mut new, mut was) = (claim["spec"].clone(), old["spec"].clone());
    let bound = text(old, &["status", "phase"]) == "Bound";
    let mut allow = |field: &str, allowed: bool| {
        if allowed {
            for spec in [&mut new, &mut was] {
                if let Some(spec) = spec.as_object_mut() {
                    spec.remove(field);
                }
            }
        }
    };
    allow("volumeName", text(old, &["spec", "volumeName"]).is_empty());
    allow("storageClassName", !has(old, &["spec", "storageClassName"]) && class_annotation(old).is_none());
    allow("volumeAttributesClassName", bound);
    if bound {
        for spec in [&mut new, &mut was] {
            if let Some(requests) = spec.pointer_mut("/resources/requests").and_then(Value::as_object_mut) {
                requests.remove("storage");
            }
        }
    }
    if new != was {
        errors.push(FieldError::forbidden("spec", CLAIM_IMMUTABLE));
    }
    size_update(claim, old, errors);
    unchanged(claim, old, &["spec", "volumeMode"], errors);
    let attributes = |c: &Value| text(c, &["spec", "volumeAttributesClassName"]).to_owned();
    let current = text(old, &["status", "currentVolumeAttributesClassName"]);
    if !current.is_empty() && !attributes(old).is_empty() && attributes(claim).is_empty() {
        let why = "update from non-nil value to nil is forbidden";
        errors.push(FieldError::forbidden("spec.volumeAttributesClassName", why));
    }
}

/// A claim may grow; it may shrink only to recover from an expansion, and never to what it has already.
fn size_update(claim: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = ["spec", "resources", "requests", "storage"];
    let field = "spec.resources.requests.storage";
    let (new, was) = (quantity::nanos(text(claim, &path)), quantity::nanos(text(old, &path)));
    let has_now = quantity::nanos(text(old, &["status", "capacity", "storage"]));
    if let (Some(new), Some(was)) = (new, was)
        && new < was
        && has_now.is_none_or(|now| new <= now)
    {
        errors.push(FieldError::forbidden(field, "field can not be less than status.capacity"));
    }
}

fn class_annotation(object: &Value) -> Option<&str> {
    at(object, &["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]).and_then(Value::as_str)
}

pub(super) fn volume(volume: &Value, errors: &mut Vec<FieldError>) {
    access_modes(volume, "", errors);
    volume_mode(volume, errors);
    capacity(volume, errors);
    let sources = sources(volume);
    match sources.as_slice() {
        [] => errors.push(FieldError::required("spec", "must specify a volume type")),
        [_] => {}
        [_, more @ ..] => {
            for source in more {
                let why = "may not specify more than 1 volume type";
                errors.push(FieldError::forbidden(format!("spec.{source}"), why));
            }
        }
    }
    if sources.contains(&"csi") {
        driver_name(text(volume, &["spec", "csi", "driver"]), "spec.csi.driver", errors);
        if text(volume, &["spec", "csi", "volumeHandle"]).is_empty() {
            errors.push(FieldError::required("spec.csi.volumeHandle", ""));
        }
    }
    if has(volume, &["spec", "nodeAffinity"]) && !has(volume, &["spec", "nodeAffinity", "required"]) {
        let why = "must specify required node constraints";
        errors.push(FieldError::required("spec.nodeAffinity.required", why));
    }
    let policy = text(volume, &["spec", "persistentVolumeReclaimPolicy"]);
    if !matches!(policy, "Delete" | "Retain" | "Recycle") {
        let field = "spec.persistentVolumeReclaimPolicy";
        errors.push(FieldError::not_supported(field, &policy.into(), &["Delete", "Recycle", "Retain"]));
    }
}

/// A volume has storage, some of it, and nothing else.
fn capacity(volume: &Value, errors: &mut Vec<FieldError>) {
    let field = "spec.capacity";
    let empty = substrate::json::json!({});
    let capacity = at(volume, &["spec", "capacity"]).filter(|c| !c.is_null()).unwrap_or(&empty);
    let resources = capacity.as_object().map_or(0, substrate::json::Map::len);
    if resources == 0 {
        errors.push(FieldError::required(field, ""));
    }
    if capacity.get("storage").is_none() || resources > 1 {
        errors.push(FieldError::not_supported(field, capacity, &["storage"]));
    }
    if capacity.get("storage").is_some() {
        positive(volume, &["spec", "capacity", "storage"], "spec.capacity[storage]", errors);
    }
}

/// The name of a CSI driver: a subdomain, and short enough for a label.
fn driver_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
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

/// Fields of a volume's spec that are not its source.
const NOT_SOURCES: &[&str] = &[
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// The sources in the order in which upstream counts them: of several the first one is right.
fn sources(volume: &Value) -> Vec<&str> {
    let fields = volume["spec"].as_object().into_iter().flatten();
    let mut found: Vec<&str> = fields.map(|(key, _)| key.as_str()).filter(|key| !NOT_SOURCES.contains(key)).collect();
    found.sort_by_key(|source| LATE_SOURCES.iter().position(|late| late == source).map_or(0, |at| at + 1));
    found
}

pub(super) fn volume_update(volume: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let same = sources(volume) == sources(old)
        && sources(volume).iter().all(|s| {
            let source = |v: &Value| v["spec"][*s].clone();
            let (mut new, was) = (source(volume), source(old));
            // The only part of a source that may be added later.
            if was.get("controllerExpandSecretRef").is_none()
                && let Some(new) = new.as_object_mut()
            {
                new.remove("controllerExpandSecretRef");
            }
            new == was
        });
    if !same {
        errors.push(FieldError::forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
        ));
    }
    unchanged(volume, old, &["spec", "volumeMode"], errors);
    if has(old, &["spec", "nodeAffinity"]) {
        unchanged(volume, old, &["spec", "nodeAffinity"], errors);
    }
    if has(old, &["spec", "volumeAttributesClassName"]) && !has(volume, &["spec", "volumeAttributesClassName"]) {
        let why = "update from non-nil value to nil is forbidden";
        errors.push(FieldError::forbidden("spec.volumeAttributesClassName", why));
    }
}

pub(super) fn class(class: &Value, errors: &mut Vec<FieldError>) {
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
    if class["parameters"].as_object().is_some_and(|parameters| parameters.contains_key("")) {
        errors.push(FieldError::invalid("parameters", &"".into(), "field can not be empty."));
    }
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

pub(super) fn class_update(class: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if class.get("parameters") != old.get("parameters") {
        errors.push(FieldError::forbidden("parameters", "updates to parameters are forbidden."));
    }
    if class.get("provisioner") != old.get("provisioner") {
        errors.push(FieldError::forbidden("provisioner", "updates to provisioner are forbidden."));
    }
    if class.get("reclaimPolicy") != old.get("reclaimPolicy") {
        errors.push(FieldError::forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden."));
    }
    unchanged(class, old, &["volumeBindingMode"], errors);
}

pub(super) fn csi_node(node: &Value, errors: &mut Vec<FieldError>) {
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

pub(super) fn csi_node_update(node: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    csi_node(node, errors);
    let before = list(old, &["spec", "drivers"]);
    for (i, driver) in list(node, &["spec", "drivers"]).iter().enumerate() {
        let Some(was) = before.iter().find(|d| d.get("name") == driver.get("name")) else { continue };
        for field in ["nodeID", "topologyKeys"] {
            if driver.get(field) != was.get(field) {
                let value = driver.get(field).unwrap_or(&Value::Null);
                errors.push(FieldError::immutable(format!("spec.drivers[{i}].{field}"), value));
            }
        }
    }
}

pub(super) fn driver(driver: &Value, errors: &mut Vec<FieldError>) {
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

pub(super) fn storage_capacity(capacity: &Value, errors: &mut Vec<FieldError>) {
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

pub(super) fn driver_update(driver: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    unchanged(driver, old, &["spec", "attachRequired"], errors);
    unchanged(driver, old, &["spec", "volumeLifecycleModes"], errors);
}

pub(super) fn attachment(attachment: &Value, errors: &mut Vec<FieldError>) {
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

pub(super) fn attachment_update(attachment: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    unchanged(attachment, old, &["spec"], errors);
}

pub(super) fn attachment_status(attachment: &Value, errors: &mut Vec<FieldError>) {
    for error in ["attachError", "detachError"] {
        if text(attachment, &["status", error, "message"]).len() > MAX_MESSAGE {
            errors.push(FieldError::too_long(format!("status.{error}.message"), MAX_MESSAGE));
        }
    }
    let metadata = at(attachment, &["status", "attachmentMetadata"]).and_then(Value::as_object);
    let size: usize = metadata.into_iter().flatten().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if size > MAX_ATTACHMENT_METADATA {
        errors.push(FieldError::too_long("status.attachmentMetadata", MAX_ATTACHMENT_METADATA));
    }
}

pub(super) fn attributes_class(class: &Value, errors: &mut Vec<FieldError>) {
    let driver = text(class, &["driverName"]).to_lowercase();
    if driver.is_empty() {
        errors.push(FieldError::required("driverName", ""));
    } else if let Some(why) = names::qualified(&driver) {
        errors.push(FieldError::invalid("driverName", &driver.into(), why));
    }
    if class["parameters"].as_object().is_none_or(substrate::json::Map::is_empty) {
        errors.push(FieldError::required("parameters", "must contain at least one key/value pair"));
    }
}

pub(super) fn attributes_class_update(class: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for field in ["driverName", "parameters"] {
        if class.get(field) != old.get(field) {
            errors.push(FieldError::forbidden(field, format!("updates to {field} are forbidden.")));
        }
    }
}
