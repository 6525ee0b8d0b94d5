//! Additions to some drawn runs: a second replica of the control loops, and a volume from a snapshot of another volume
//! that is being written. Additions have their own random stream, so other runs do not change.

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use substrate::seed::between;

use super::Drawn;
use crate::search::document::Document;

/// Delay until the blocks of a snapshot are complete, in addition to the cloud's own.
const COPYING: &[&str] = &["1s", "3s", "6s"];
/// Name of the claim and the volume that are created by hand.
const COPY: &str = "copy";

/// Names of the additions.
pub(super) const KINDS: &[&str] = &["two replicas of every loop", "volume of a snapshot"];

/// Adds the drawn extras to `drawn`.
pub(super) fn add(drawn: Drawn, mut rng: ChaCha8Rng) -> Drawn {
    let Drawn { document, mut kinds } = drawn;
    let mut one_of = |n: u64| between(&mut rng, 1, n) == 1;
    let (replicas, copies) = (one_of(8), one_of(6));
    let mut tree = document.tree().clone();
    if replicas {
        tree["replicas"] = 2.into();
        kinds.push(KINDS[0]);
    }
    if copies && cloud_is_left_alone(&tree) {
        let at = between(&mut rng, 0, COPYING.len() as u64 - 1) as usize;
        copy(&mut tree, COPYING[at]);
        kinds.push(KINDS[1]);
    }
    Drawn { document: Document::of_tree(tree), kinds }
}

/// Returns true if no fault affects the cloud, if snapshots take time there, and if there is room for one more volume.
/// The user's calls to the cloud are not retried.
pub(super) fn cloud_is_left_alone(tree: &Value) -> bool {
    let text = tree.to_string();
    let limited = !tree["driver"]["attach-limit"].is_null();
    !limited && tree["latency"] != "instant" && !text.contains("mock-ec2") && !text.contains("\"plane\":\"ec2\"")
}

/// Adds a snapshot of the volume of the first remaining pod, a volume from it, and a pod that reads that volume.
fn copy(tree: &mut Value, takes: &str) {
    let Some(steps) = tree["steps"].as_array() else { return };
    let waits = |step: &&Value| step["wait"]["is"] == "Running";
    let pod = steps.iter().find(waits).and_then(|step| step["wait"]["object"].as_str()).map(str::to_owned);
    let Some(pod) = pod else { return };
    let name = pod.trim_start_matches("pod/");
    let Some(claim) = steps.iter().find(|step| step["pod"]["name"] == name).map(|step| step["pod"]["claim"].clone())
    else {
        return;
    };
    let volume = json!({ "volume": format!("pvc/{}", claim.as_str().unwrap_or_default()) });
    let made = json!({ "AvailabilityZone": "us-east-1a", "SnapshotId": { "saved": "snapshot" }, "VolumeType": "gp3" });
    let storage = json!({ "storage": "1Gi" });
    let more = [
        json!({ "wait": { "object": pod, "records": 2, "within": "40m" } }),
        json!({ "ec2": { "action": "CreateSnapshot", "with": { "VolumeId": volume }, "save": "snapshot", "from": "SnapshotId" } }),
        json!({ "sleep": takes }),
        json!({ "ec2": { "poke": "complete", "snapshot": { "saved": "snapshot" } } }),
        json!({ "ec2": { "action": "CreateVolume", "with": made, "save": COPY, "from": "VolumeId" } }),
        json!({ "apply": [{
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": { "name": COPY, "annotations": { "pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com" } },
            "spec": {
                "capacity": storage,
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": "",
                "claimRef": { "namespace": "default", "name": COPY },
                "csi": { "driver": "ebs.csi.aws.com", "volumeHandle": { "saved": COPY }, "fsType": "ext4" },
            },
        }, {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": { "name": COPY },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "volumeName": COPY,
                "resources": { "requests": storage },
            },
        }] }),
        json!({ "pod": { "name": "reader", "claim": COPY, "tolerate": true } }),
        json!({ "wait": { "object": "pod/reader", "is": "Running", "within": "40m" } }),
        json!({ "wait": { "object": "pod/reader", "records": 1, "within": "40m" } }),
    ];
    if let Some(steps) = tree["steps"].as_array_mut() {
        steps.extend(more);
    }
}
