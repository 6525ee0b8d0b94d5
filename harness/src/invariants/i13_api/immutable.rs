//! Immutable fields: upstream's validation of updates refuses their change, so no commit changes them.
//!
//! Fields with exceptions that depend on other objects are left out, such as the addresses of a service, the requests
//! of a claim, and the containers of a pod.

use substrate::json::Value;

use super::write::Write;

/// Time from which a field is fixed.
#[derive(Clone, Copy)]
enum Fixed {
    /// From the creation on.
    Always,
    /// From its first value on.
    Once,
}

use Fixed::{Always, Once};

/// Fixed fields of each resource.
#[rustfmt::skip]
const FIELDS: &[(&str, Fixed, &[&str])] = &[
    ("clusterrolebindings", Always, &["roleRef"]),
    ("csidrivers", Always, &["spec.attachRequired", "spec.volumeLifecycleModes"]),
    ("csistoragecapacities", Always, &["nodeTopology", "storageClassName"]),
    ("customresourcedefinitions", Always, &["spec.group", "spec.scope"]),
    ("daemonsets", Always, &["spec.selector"]),
    ("deployments", Always, &["spec.selector"]),
    ("ipaddresses", Always, &["spec.parentRef"]),
    ("nodes", Once, &["spec.podCIDRs", "spec.providerID"]),
    ("persistentvolumeclaims", Always, &["spec.accessModes", "spec.dataSource", "spec.dataSourceRef", "spec.selector", "spec.volumeMode"]),
    ("persistentvolumeclaims", Once, &["spec.storageClassName", "spec.volumeName"]),
    ("persistentvolumes", Always, &["spec.csi.driver", "spec.csi.fsType", "spec.csi.readOnly", "spec.csi.volumeAttributes", "spec.csi.volumeHandle", "spec.hostPath", "spec.local", "spec.nfs", "spec.volumeMode"]),
    ("persistentvolumes", Once, &["spec.nodeAffinity"]),
    ("pods", Always, &["spec.hostNetwork", "spec.priority", "spec.priorityClassName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.volumes"]),
    ("pods", Once, &["spec.nodeName"]),
    ("priorityclasses", Always, &["preemptionPolicy", "value"]),
    ("replicasets", Always, &["spec.selector"]),
    ("rolebindings", Always, &["roleRef"]),
    ("secrets", Always, &["type"]),
    ("statefulsets", Always, &["spec.podManagementPolicy", "spec.selector", "spec.serviceName", "spec.volumeClaimTemplates"]),
    ("storageclasses", Always, &["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"]),
    ("volumeattachments", Always, &["spec"]),
    ("volumeattributesclasses", Always, &["driverName", "parameters"]),
];

/// Fields of a ConfigMap or a Secret with `immutable: true`.
const FROZEN: [&str; 3] = ["binaryData", "data", "immutable"];

/// Checks a write.
pub(super) fn check(write: &Write<'_>) -> Option<String> {
    let (old, new) = write.change()?;
    let resource = write.resource();
    let said = |field: &str| Some(format!("changed its {field}, which is immutable"));
    for (_, fixed, fields) in FIELDS.iter().filter(|(of, ..)| *of == resource) {
        for field in *fields {
            let (was, is) = (at(old, field), at(new, field));
            let is_open = matches!(fixed, Once) && (was.is_null() || *was == "");
            if !is_open && was != is {
                return said(field);
            }
        }
    }
    if matches!(resource, "configmaps" | "secrets") && old["immutable"] == true {
        return FROZEN.into_iter().find(|field| old[*field] != new[*field]).and_then(said);
    }
    None
}

/// Returns the field at a path; null if there is none.
fn at<'v>(object: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(object, |value, name| &value[name])
}
