//! Default values that real controllers rely on (R24; upstream `pkg/apis/*/v1/defaults.go`).

mod network;
mod pod;
mod policy;
mod workload;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
pub(super) use pod::qos_class;
use substrate::json::{Value, json};

use super::value::{self, default, map_mut, name};
use crate::kinds::Kind;

/// What Go always writes of a node's system.
const NODE_INFO: &[&str] = &[
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];

/// Fills in what a client may leave out.
pub(super) fn apply(kind: &Kind, object: &mut Value) {
    if let Some(custom) = &kind.custom {
        return custom.schema.fill(object);
    }
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::apply(object),
        ("", "PersistentVolume") => persistent_volume(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "Namespace") => namespace(object),
        ("", "Node") => node(object),
        ("", "Secret") => {
            string_data(object);
            set(object, &[("type", json!("Opaque"))]);
        }
        ("storage.k8s.io", "StorageClass") => {
            set(object, &[("reclaimPolicy", json!("Delete")), ("volumeBindingMode", json!("Immediate"))]);
        }
        ("storage.k8s.io", "CSIDriver") => driver(object),
        // Fields that Go always writes.
        ("", "Event") => {
            set(object, &[("source", json!({})), ("reportingComponent", json!("")), ("reportingInstance", json!(""))])
        }
        ("", "Service" | "Endpoints") | ("discovery.k8s.io" | "networking.k8s.io", _) => network::apply(kind, object),
        ("", "PodTemplate" | "ReplicationController") | ("apps" | "batch" | "autoscaling", _) => {
            workload::apply(kind, object);
        }
        _ => policy::apply(kind, object),
    }
}

/// Sets fields at the top of an object.
fn set(object: &mut Value, defaults: &[(&str, Value)]) {
    if let Some(map) = object.as_object_mut() {
        for (key, value) in defaults {
            default(map, key, value.clone());
        }
    }
}

/// `stringData` is for writing only: it goes into `data`, over what is there (upstream's secret conversion).
fn string_data(secret: &mut Value) {
    let Some(Value::Object(texts)) = secret.as_object_mut().and_then(|map| map.remove("stringData")) else { return };
    if let Some(data) = map_mut(secret, "data") {
        for (key, text) in texts {
            data.insert(key, STANDARD.encode(text.as_str().unwrap_or_default()).into());
        }
    }
}

fn persistent_volume(volume: &mut Value) {
    if let Some(spec) = map_mut(volume, "spec") {
        default(spec, "persistentVolumeReclaimPolicy", "Retain");
        default(spec, "volumeMode", "Filesystem");
        pod::source(spec);
    }
    if let Some(status) = map_mut(volume, "status") {
        default(status, "phase", "Pending");
    }
}

pub(super) fn claim(claim: &mut Value) {
    if let Some(spec) = map_mut(claim, "spec") {
        default(spec, "volumeMode", "Filesystem");
        let (source, reference) = (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned());
        match (source, reference) {
            (Some(source), None) => {
                spec.insert("dataSourceRef", source);
            }
            // A reference into another namespace has no old form.
            (None, Some(reference)) if reference.get("namespace").is_none() => {
                spec.insert("dataSource", reference);
            }
            _ => {}
        }
    }
    if let Some(status) = map_mut(claim, "status") {
        default(status, "phase", "Pending");
    }
}

fn namespace(namespace: &mut Value) {
    let named = name(namespace).to_owned();
    if !named.is_empty() {
        let labels = value::metadata(namespace).entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert("kubernetes.io/metadata.name", named.into());
        }
    }
    if let Some(status) = map_mut(namespace, "status") {
        default(status, "phase", "Active");
    }
}

fn node(node: &mut Value) {
    if let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut)
        && let Some(cidr) = spec.get("podCIDR").filter(|cidr| cidr.is_string()).cloned()
    {
        default(spec, "podCIDRs", json!([cidr]));
    }
    // Go leaves out lists that are empty.
    if let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) {
        for field in ["podCIDRs", "taints"] {
            if spec.get(field).and_then(Value::as_array).is_some_and(Vec::is_empty) {
                spec.remove(field);
            }
        }
    }
    let Some(status) = map_mut(node, "status") else { return };
    if let Some(capacity) = status.get("capacity").cloned() {
        default(status, "allocatable", capacity);
    }
    // Fields that Go always writes.
    default(status, "daemonEndpoints", json!({"kubeletEndpoint": {"Port": 0}}));
    default(status, "nodeInfo", json!({}));
    if let Some(info) = status.get_mut("nodeInfo").and_then(Value::as_object_mut) {
        for field in NODE_INFO {
            default(info, field, "");
        }
    }
}

fn driver(driver: &mut Value) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    #[test]
    fn string_data_becomes_data() {
        let mut secret = json!({"data": {"a": "b2xk", "c": "Yw=="}, "stringData": {"a": "new"}});
        apply(kinds::find("", "v1", "secrets").unwrap(), &mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "bmV3", "c": "Yw=="}}));
    }
}
