//! Cells of each kind's rows.

use std::collections::BTreeSet;

use jiff::Timestamp;
use substrate::json::{Value, json};

use super::{age, network, pod, policy, workload};
use crate::custom::Column;
use crate::kinds::Kind;

/// Returns the cells of one object, one for each column of the kind.
pub(super) fn of(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status, name) = (&object["spec"], &object["status"], object["metadata"]["name"].clone());
    let age = Value::from(age::since(&object["metadata"]["creationTimestamp"], now));
    if let Some(custom) = &kind.custom {
        let own = custom.columns.iter().map(|column| custom_cell(column, object, now));
        return std::iter::once(name).chain(own).collect();
    }
    match kind.plural {
        "configmaps" => vec![name, entries(object, &["data", "binaryData"]), age],
        "csidrivers" => csi_driver(name, spec, age),
        "csinodes" => vec![name, spec["drivers"].as_array().map_or(0, Vec::len).into(), age],
        "events" => event(object, now),
        "leases" => vec![name, text(&spec["holderIdentity"]), age],
        "namespaces" => vec![name, text(&status["phase"]), age],
        "nodes" => node(object, age),
        "persistentvolumeclaims" => claim(object, age),
        "persistentvolumes" => volume(object, age),
        "pods" => pod::cells(object, now),
        "secrets" => vec![name, text(&object["type"]), entries(object, &["data"]), age],
        "serviceaccounts" => vec![name, age],
        "storageclasses" => storage_class(object, age),
        "volumeattachments" => vec![
            name,
            text(&spec["attacher"]),
            text(&spec["source"]["persistentVolumeName"]),
            text(&spec["nodeName"]),
            status["attached"].as_bool().unwrap_or(false).into(),
            age,
        ],
        "volumeattributesclasses" => vec![name, text(&object["driverName"]), age],
        _ => workload::cells(kind, object, now)
            .or_else(|| network::cells(kind, object, now))
            .or_else(|| policy::cells(kind, object, now))
            .unwrap_or_else(|| vec![name, text(&object["metadata"]["creationTimestamp"])]),
    }
}

/// Returns a cell of a custom kind: the value, if it has the column's type (apiextensions `tableconvertor`).
fn custom_cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let Some(found) = column.path.find(object) else { return Value::Null };
    match column.kind.as_str() {
        "date" => age::since(found, now).into(),
        "string" if !found.is_string() && !found.is_null() => found.to_string().into(),
        "integer" => found.as_i64().map_or(Value::Null, Value::from),
        "number" => found.as_f64().map_or(Value::Null, Value::from),
        "boolean" => found.as_bool().map_or(Value::Null, Value::from),
        _ => found.clone(),
    }
}

/// Returns a string field; empty if it is missing.
pub(super) fn text(value: &Value) -> Value {
    or(value, "")
}

/// Returns a string field, or `default` if it is missing or empty.
pub(super) fn or(value: &Value, default: &str) -> Value {
    value.as_str().filter(|s| !s.is_empty()).unwrap_or(default).into()
}

fn entries(object: &Value, maps: &[&str]) -> Value {
    maps.iter().map(|map| object[*map].as_object().map_or(0, substrate::json::Map::len)).sum::<usize>().into()
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    // Both Event APIs have one store upstream; an events.k8s.io object has other names for the same fields.
    let first_of = |names: &[&str]| names.iter().map(|n| &object[*n]).find(|v| !v.is_null()).unwrap_or(&Value::Null);
    let first = first_of(&["firstTimestamp", "deprecatedFirstTimestamp", "eventTime"]);
    let last = first_of(&["lastTimestamp", "deprecatedLastTimestamp"]);
    let series = &object["series"];
    let (last, count) = if series.is_object() {
        (&series["lastObservedTime"], series["count"].as_i64().unwrap_or(0))
    } else {
        let count = first_of(&["count", "deprecatedCount"]).as_i64().unwrap_or(0);
        // An Event of the new API that happened once has no count.
        (if last.is_null() { first } else { last }, count.max(1))
    };
    let about = first_of(&["involvedObject", "regarding"]);
    let mut target = about["kind"].as_str().unwrap_or_default().to_lowercase();
    if let Some(name) = about["name"].as_str().filter(|n| !n.is_empty()) {
        target = format!("{target}/{name}");
    }
    let source = first_of(&["source", "deprecatedSource"]);
    let pick = |a: &Value, names: &[&str]| {
        a.as_str().filter(|s| !s.is_empty()).or_else(|| first_of(names).as_str()).unwrap_or_default().to_owned()
    };
    let component = pick(&source["component"], &["reportingComponent", "reportingController"]);
    let source = match pick(&source["host"], &["reportingInstance"]).as_str() {
        "" => component,
        host => format!("{component}, {host}"),
    };
    vec![
        age::since(last, now).into(),
        text(&object["type"]),
        text(&object["reason"]),
        target.into(),
        text(&about["fieldPath"]),
        source.into(),
        first_of(&["message", "note"]).as_str().unwrap_or_default().trim().into(),
        age::since(first, now).into(),
        count.into(),
        object["metadata"]["name"].clone(),
    ]
}

fn node(object: &Value, age: Value) -> Vec<Value> {
    let (status, info) = (&object["status"], &object["status"]["nodeInfo"]);
    let ready = list(&status["conditions"]).iter().find(|c| c["type"] == "Ready").map(|c| c["status"] == "True");
    let mut state = match ready {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object["spec"]["unschedulable"] == true {
        state += ",SchedulingDisabled";
    }
    let address = |of: &str| {
        let found = list(&status["addresses"]).iter().find(|a| a["type"] == of);
        or(found.map_or(&Value::Null, |a| &a["address"]), "<none>")
    };
    let mut kernel = info["kernelVersion"].as_str().filter(|s| !s.is_empty()).unwrap_or("<unknown>").to_owned();
    if let Some(architecture) = info["architecture"].as_str().filter(|s| !s.is_empty()) {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        object["metadata"]["name"].clone(),
        state.into(),
        roles(&object["metadata"]["labels"]).into(),
        age,
        text(&info["kubeletVersion"]),
        address("InternalIP"),
        address("ExternalIP"),
        or(&info["osImage"], "<unknown>"),
        kernel.into(),
        or(&info["containerRuntimeVersion"], "<unknown>"),
    ]
}

fn roles(labels: &Value) -> String {
    let mut roles = BTreeSet::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some("") => {}
            Some(role) => {
                roles.insert(role);
            }
            None if key == "kubernetes.io/role" => roles.extend(value.as_str().filter(|v| !v.is_empty())),
            None => {}
        }
    }
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn claim(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let bound = spec["volumeName"].as_str().is_some_and(|v| !v.is_empty());
    let (capacity, modes) = if bound {
        (or(&status["capacity"]["storage"], "0"), access_modes(&status["accessModes"]))
    } else {
        ("".into(), "".into())
    };
    vec![
        object["metadata"]["name"].clone(),
        phase(object),
        text(&spec["volumeName"]),
        capacity,
        modes,
        storage_class_of(object),
        unset(&spec["volumeAttributesClassName"]),
        age,
        unset(&spec["volumeMode"]),
    ]
}

fn volume(object: &Value, age: Value) -> Vec<Value> {
    let spec = &object["spec"];
    let part = |name: &str| spec["claimRef"][name].as_str().unwrap_or_default().to_owned();
    let claim =
        if spec["claimRef"].is_object() { format!("{}/{}", part("namespace"), part("name")) } else { String::new() };
    vec![
        object["metadata"]["name"].clone(),
        or(&spec["capacity"]["storage"], "0"),
        access_modes(&spec["accessModes"]),
        text(&spec["persistentVolumeReclaimPolicy"]),
        phase(object),
        claim.into(),
        storage_class_of(object),
        unset(&spec["volumeAttributesClassName"]),
        text(&object["status"]["reason"]),
        age,
        unset(&spec["volumeMode"]),
    ]
}

fn phase(object: &Value) -> Value {
    if object["metadata"]["deletionTimestamp"].is_null() {
        text(&object["status"]["phase"])
    } else {
        "Terminating".into()
    }
}

fn unset(value: &Value) -> Value {
    value.as_str().unwrap_or("<unset>").into()
}

/// Returns the class of a claim or a volume; the deprecated annotation takes precedence.
fn storage_class_of(object: &Value) -> Value {
    let annotated = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    text(if annotated.is_string() { annotated } else { &object["spec"]["storageClassName"] })
}

fn access_modes(modes: &Value) -> Value {
    let has = |mode: &str| list(modes).iter().any(|m| m == mode);
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    short.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",").into()
}

fn storage_class(object: &Value, age: Value) -> Vec<Value> {
    let mut name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let annotations = &object["metadata"]["annotations"];
    if ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
        .iter()
        .any(|a| annotations[*a] == "true")
    {
        name += " (default)";
    }
    vec![
        name.into(),
        text(&object["provisioner"]),
        or(&object["reclaimPolicy"], "Delete"),
        or(&object["volumeBindingMode"], "Immediate"),
        object["allowVolumeExpansion"].as_bool().unwrap_or(false).into(),
        age,
    ]
}

fn csi_driver(name: Value, spec: &Value, age: Value) -> Vec<Value> {
    let join = |list: Vec<&str>| list.join(",");
    let tokens = match &spec["tokenRequests"] {
        Value::Array(tokens) => join(tokens.iter().filter_map(|t| t["audience"].as_str()).collect()),
        _ => "<unset>".to_owned(),
    };
    let modes = join(list(&spec["volumeLifecycleModes"]).iter().filter_map(Value::as_str).collect());
    vec![
        name,
        spec["attachRequired"].as_bool().unwrap_or(true).into(),
        spec["podInfoOnMount"].as_bool().unwrap_or(false).into(),
        spec["storageCapacity"].as_bool().unwrap_or(false).into(),
        tokens.into(),
        spec["requiresRepublish"].as_bool().unwrap_or(false).into(),
        if modes.is_empty() { json!("<none>") } else { modes.into() },
        age,
    ]
}

/// Returns the name and the age.
pub(super) fn name_and_age(object: &Value, now: Timestamp) -> (Value, Value) {
    let metadata = &object["metadata"];
    (metadata["name"].clone(), age::since(&metadata["creationTimestamp"], now).into())
}

/// Returns a list field; empty if it is missing.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
