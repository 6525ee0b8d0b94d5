//! Additions to some drawn runs that offer a component a wrong choice beside the right one: a node with a taint, a free
//! volume of another class, and a snapshot that fails before it is taken. Additions have their own random stream, so
//! other runs do not change.

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::Drawn;
use super::builder::{Builder, claim, delete, has_written, pod, wait, wait_that};
use super::pairs::INSTANCE_REPLACED;

/// Each addition occurs in one of this many runs.
const ONE_OF: u64 = 10;

/// Name of the addition that needs both nodes.
const TAINTED_NODE: &str = "node with a taint";

/// An addition: adds its objects and steps to a document.
type Addition = fn(&mut Builder);

/// All additions with their names. The random stream is consumed in this order.
const ADDITIONS: &[(&str, Addition)] = &[
    (TAINTED_NODE, Builder::tainted_node),
    ("free volume of another class", Builder::other_class),
    ("snapshot that fails at first", Builder::failing_snapshot),
];

/// Returns the names of the additions.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    ADDITIONS.iter().map(|(name, _)| *name)
}

/// Adds the drawn choices to `drawn`.
pub(super) fn add(drawn: Drawn, rng: ChaCha8Rng) -> Drawn {
    let Drawn { document, mut kinds } = drawn;
    let mut choices = Builder::new(&document, rng);
    let fits = choices.has_room();
    for (name, addition) in ADDITIONS {
        // Without the second node no node would be left for the pod.
        let lacks_node = *name == TAINTED_NODE && kinds.contains(&INSTANCE_REPLACED);
        if choices.one_of(ONE_OF) && fits && !lacks_node {
            addition(&mut choices);
            kinds.push(name);
        }
    }
    Drawn { document: choices.finish(), kinds }
}

impl Builder {
    /// Adds a pod without a node while one node has a taint that the pod does not tolerate.
    fn tainted_node(&mut self) {
        let node = self.any(&["node-a", "node-b"]);
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": "elsewhere" },
            "spec": {
                "terminationGracePeriodSeconds": 5,
                "tolerations": [{ "operator": "Exists", "effect": "NoExecute" }],
                "containers": [{
                    "name": "writer",
                    "image": "mooring/writer",
                    "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                }],
                "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "elsewhere" } }],
            },
        });
        let taint = json!({ "node": node, "key": "reserved", "value": "disk", "effect": "NoSchedule" });
        let is_ready = "self.?status.conditions.orValue([]).exists(c, c.type == 'Ready' && c.status == 'True')";
        self.steps([
            // An addition before this one may have made the node again.
            wait_that(&format!("node/{node}"), is_ready),
            json!({ "taint": taint }),
            json!({ "sleep": "5s" }),
            claim("elsewhere"),
            json!({ "apply": pod }),
            has_written("elsewhere"),
            json!({ "untaint": { "node": node, "key": "reserved" } }),
        ]);
    }

    /// Adds a claim that no free volume fits: the only one has another class.
    fn other_class(&mut self) {
        let pv = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": { "name": "of-another-class" },
            "spec": {
                "capacity": { "storage": "1Gi" },
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "another",
                "csi": { "driver": "ebs.csi.aws.com", "volumeHandle": "vol-0000000000000000a", "fsType": "ext4" },
            },
        });
        let class = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": { "name": "at-once" },
            "provisioner": "ebs.csi.aws.com",
            "parameters": { "type": "gp3" },
            "volumeBindingMode": "Immediate",
        });
        let asks = json!({ "claim": { "name": "classed", "class": "at-once" } });
        let free = "self.status.phase == 'Available'";
        let begins = [json!({ "apply": pv }), wait_that("pv/of-another-class", free), json!({ "apply": class }), asks];
        let ends = [wait("pvc/classed", "Bound"), wait_that("pv/of-another-class", free)];
        self.steps(begins.into_iter().chain(ends).chain([delete("pv/of-another-class")]));
    }

    /// Adds a snapshot whose first attempts fail.
    fn failing_snapshot(&mut self) {
        let (first, error) = (self.any(&[1, 3]), self.any(&["INTERNAL", "RESOURCE_EXHAUSTED"]));
        let fault = json!({
            "name": "snapshot-fails",
            "match": { "plane": "csi", "op": "CreateSnapshot" },
            "when": { "first": first },
            "effect": { "error": error },
        });
        let is_ready = "self.status.?readyToUse.orValue(false) && !has(self.status.error)";
        let begins = [claim("pictured"), pod("pictured", "pictured", "node-a"), has_written("pictured")];
        let fails: [Value; 3] = [
            json!({ "fault": fault }),
            json!({ "snapshot": { "name": "pictured", "claim": "pictured" } }),
            wait_that("volumesnapshot/pictured", is_ready),
        ];
        self.steps(begins.into_iter().chain(fails));
    }
}
