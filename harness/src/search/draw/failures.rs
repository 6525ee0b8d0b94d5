//! Faults in some drawn runs: several writes of components fail once each, or take effect without an answer. A component
//! that does not try again leaves something undone, which the end of the run shows. The faults have their own random
//! stream, so other runs do not change.

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use substrate::seed::between;

use super::Drawn;
use super::builder::Builder;

/// The faults occur in one of this many runs.
const ONE_OF: u64 = 3;
/// Largest number of faults in such a run.
const MOST: u64 = 10;
/// Largest number of writes that are left alone before a fault.
const SPARED: u64 = 4;

/// Name of the addition.
pub(super) const KINDS: &[&str] = &["writes that fail"];

/// Writers and what they write: the caller, the operation, the resource and the subresource.
const WRITES: &[(&str, &str, &str, &str)] = &[
    ("csi-provisioner*", "create", "persistentvolumes", ""),
    ("csi-provisioner*", "write", "persistentvolumes", ""),
    ("csi-provisioner*", "delete", "persistentvolumes", ""),
    ("csi-provisioner*", "update", "persistentvolumeclaims", ""),
    ("csi-attacher*", "patch", "volumeattachments", ""),
    ("csi-attacher*", "patch", "volumeattachments", "status"),
    ("csi-attacher*", "patch", "persistentvolumes", ""),
    ("csi-resizer*", "patch", "persistentvolumeclaims", "status"),
    ("csi-resizer*", "patch", "persistentvolumes", ""),
    ("csi-snapshotter*", "write", "volumesnapshotcontents", "*"),
    ("snapshot-controller*", "write", "volumesnapshots", "*"),
    ("snapshot-controller*", "write", "volumesnapshotcontents", "*"),
    ("kube-scheduler*", "create", "pods", "binding"),
    ("kube-scheduler*", "delete", "pods", ""),
    ("kube-scheduler*", "patch", "pods", "status"),
    ("kube-scheduler*", "write", "persistentvolumeclaims", ""),
    ("kube-scheduler*", "write", "persistentvolumes", ""),
    ("kubelet*", "patch", "pods", "status"),
    ("kubelet*", "delete", "pods", ""),
    ("kubelet*", "patch", "nodes", "status"),
    ("kubelet*", "patch", "persistentvolumeclaims", "status"),
    ("kube-controller-manager*", "create", "volumeattachments", ""),
    ("kube-controller-manager*", "delete", "volumeattachments", ""),
    ("kube-controller-manager*", "patch", "nodes", "status"),
    ("kube-controller-manager*", "update", "persistentvolumeclaims", "*"),
    ("kube-controller-manager*", "update", "persistentvolumes", "*"),
    ("kube-controller-manager*", "create", "persistentvolumeclaims", ""),
    ("kube-controller-manager*", "create", "pods", ""),
    ("kube-controller-manager*", "delete", "pods", ""),
    ("kube-controller-manager*", "patch", "pods", "*"),
    ("kube-controller-manager*", "write", "replicasets", "*"),
    ("kube-controller-manager*", "write", "deployments", "*"),
    ("kube-controller-manager*", "write", "statefulsets", "*"),
    ("kube-controller-manager*", "write", "jobs", "*"),
];

/// Errors of a write that has no effect. The last one is only of writes to an object that exists.
const ERRORS: &[&str] = &["InternalError", "ServiceUnavailable", "TooManyRequests", "Conflict"];

/// Adds the drawn faults to `drawn`.
pub(super) fn add(drawn: Drawn, rng: ChaCha8Rng) -> Drawn {
    let Drawn { document, mut kinds } = drawn;
    let mut faults = Builder::new(&document, rng);
    if faults.one_of(ONE_OF) {
        let count = between(&mut faults.rng, 2, MOST);
        let more: Vec<Value> = (1..=count).map(|number| faults.failing_write(number)).collect();
        faults.add("faults", more);
        kinds.push(KINDS[0]);
    }
    Drawn { document: faults.finish(), kinds }
}

impl Builder {
    fn failing_write(&mut self, number: u64) -> Value {
        let (caller, op, resource, subresource) = self.any(WRITES);
        let mut attributes = json!({ "caller": caller, "resource": resource });
        if !subresource.is_empty() {
            attributes["subresource"] = subresource.into();
        }
        let nth = between(&mut self.rng, 1, SPARED);
        let errors = if matches!(op, "update" | "patch") { ERRORS } else { &ERRORS[..3] };
        let (at, effect) = match self.one_of(4) {
            true => ("after_effect", json!({ "drop_reply": true })),
            false => ("before", json!({ "error": self.any(errors) })),
        };
        json!({
            "name": format!("write-{number}"),
            "match": { "plane": "k8s", "op": op, "where": attributes },
            "when": { "nth": nth },
            "effect": effect,
            "at": at,
        })
    }
}
