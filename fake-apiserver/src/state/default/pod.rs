//! Defaults of pods (`pkg/apis/core/v1/defaults.go`) and the quality-of-service class.

use substrate::json::{Map, Value, json};

use crate::state::value::{default, map_mut};

pub(in crate::state) fn apply(pod: &mut Value) {
    let Some(spec) = map_mut(pod, "spec") else { return };
    self::spec(spec);
    // A negative period becomes 1 (`applyPodStrategy`).
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|grace| grace < 0) {
        spec.insert("terminationGracePeriodSeconds", 1.into());
    }
    // The rest applies to pods only, not to pod templates.
    default(spec, "enableServiceLinks", true);
    let host_network = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false);
    for field in ["containers", "initContainers"] {
        for container in elements(spec, field) {
            if let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) {
                requests_from_limits(resources);
            }
            if host_network {
                for port in elements(container, "ports") {
                    if let Some(inside) = port.get("containerPort").cloned() {
                        default(port, "hostPort", inside);
                    }
                }
            }
        }
    }
}

/// Sets the defaults that pods and pod templates share.
pub(in crate::state) fn spec(spec: &mut Map) {
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "restartPolicy", "Always");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "securityContext", json!({}));
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for container in elements(spec, field) {
            self::container(container);
        }
    }
    for volume in elements(spec, "volumes") {
        self::volume(volume);
    }
}

pub(in crate::state) fn elements<'a>(map: &'a mut Map, field: &str) -> impl Iterator<Item = &'a mut Map> {
    map.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn container(container: &mut Map) {
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let pull = if floating(image) { "Always" } else { "IfNotPresent" };
    default(container, "imagePullPolicy", pull);
    default(container, "resources", json!({}));
    for port in elements(container, "ports") {
        default(port, "protocol", "TCP");
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).and_then(Value::as_object_mut) {
            self::probe(probe);
        }
    }
    for variable in elements(container, "env") {
        if let Some(source) = variable.get_mut("valueFrom").and_then(Value::as_object_mut) {
            field_reference(source);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(hook) = container.get_mut("lifecycle").and_then(|lifecycle| lifecycle.get_mut(hook))
            && let Some(hook) = hook.as_object_mut()
        {
            http_get(hook);
        }
    }
}

/// Sets the version of a field reference of the downward API.
fn field_reference(source: &mut Map) {
    if let Some(field) = source.get_mut("fieldRef").and_then(Value::as_object_mut) {
        default(field, "apiVersion", "v1");
    }
}

fn http_get(handler: &mut Map) {
    if let Some(get) = handler.get_mut("httpGet").and_then(Value::as_object_mut) {
        default(get, "path", "/");
        default(get, "scheme", "HTTP");
    }
}

fn probe(probe: &mut Map) {
    for (key, value) in [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        default(probe, key, value);
    }
    http_get(probe);
    if let Some(grpc) = probe.get_mut("grpc").and_then(Value::as_object_mut) {
        default(grpc, "service", "");
    }
}

fn requests_from_limits(resources: &mut Map) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if let Some(requests) = requests.as_object_mut() {
        for (resource, limit) in limits {
            default(requests, &resource, limit);
        }
    }
}

/// Returns true if an image has the tag `latest` or none, so that it may be another image later.
fn floating(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    // A colon before the last slash belongs to a registry's port.
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn volume(volume: &mut Map) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir", json!({}));
    }
    for source in ["configMap", "secret", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
            default(source, "defaultMode", 0o644);
            for item in elements(source, "items") {
                field_reference(item);
            }
            for part in elements(source, "sources") {
                if let Some(fields) = part.get_mut("downwardAPI").and_then(Value::as_object_mut) {
                    for item in elements(fields, "items") {
                        field_reference(item);
                    }
                }
                if let Some(token) = part.get_mut("serviceAccountToken").and_then(Value::as_object_mut) {
                    default(token, "expirationSeconds", 3600);
                }
            }
        }
    }
    if let Some(template) = volume.get_mut("ephemeral").and_then(|e| e.get_mut("volumeClaimTemplate")) {
        if let Some(spec) = map_mut(template, "spec") {
            default(spec, "volumeMode", "Filesystem");
        }
        if let Some(template) = template.as_object_mut() {
            default(template, "metadata", json!({}));
        }
    }
    source(volume);
}

/// Sets the defaults of a volume source, for volumes of pods and for PersistentVolumes.
pub(in crate::state) fn source(volume: &mut Map) {
    for (source, defaults) in [
        ("hostPath", json!({"type": ""})),
        ("iscsi", json!({"iscsiInterface": "default"})),
        ("rbd", json!({"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"})),
        ("azureDisk", json!({"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": false})),
        ("scaleIO", json!({"fsType": "xfs", "storageMode": "ThinProvisioned"})),
    ] {
        let Some(found) = volume.get_mut(source).and_then(Value::as_object_mut) else { continue };
        for (field, value) in defaults.as_object().into_iter().flatten() {
            default(found, field, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use api_model::qos::qos_class;

    use super::*;

    #[test]
    fn a_bare_pod_gets_what_controllers_dereference() {
        let mut pod = json!({"spec": {"containers": [{"name": "c", "image": "registry:5000/busybox"}],
            "volumes": [{"name": "a"}, {"name": "b", "configMap": {"name": "m"}}]}});
        apply(&mut pod);
        let spec = &pod["spec"];
        assert_eq!(spec["restartPolicy"], "Always");
        assert_eq!(spec["terminationGracePeriodSeconds"], 30);
        assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
        assert_eq!(spec["volumes"][0]["emptyDir"], json!({}));
        assert_eq!(spec["volumes"][1]["configMap"]["defaultMode"], 420);
        assert_eq!(qos_class(&pod), "BestEffort");
    }

    #[test]
    fn requests_follow_limits_and_decide_the_class() {
        let mut pod = json!({"spec": {"containers": [
            {"name": "c", "image": "a:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}});
        apply(&mut pod);
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["memory"], "1Gi");
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
        assert_eq!(qos_class(&pod), "Guaranteed");
    }
}
