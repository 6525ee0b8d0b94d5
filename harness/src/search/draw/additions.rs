//! Additions to some drawn runs after all other steps, when all partitions have healed and all processes are back. They
//! are a move with a failure, volumes that return in another order, replicas that compete for a lease, caches that
//! start from a stale list, and an operator whose request the cloud refuses. Additions have their own random stream, so
//! other runs do not change.

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use substrate::seed::between;

use super::Drawn;
use super::builder::{Builder, claim};
use super::extras::cloud_is_left_alone;

/// Processes that get replicas.
const LOOPS: &[&str] = &["csi-attacher", "csi-provisioner", "csi-resizer", "kube-controller-manager", "kube-scheduler"];
/// Delays of a lease renewal.
const LATE: &[&str] = &["1s", "3s", "4s"];
/// Numbers of revisions by which a list can be stale.
const BEHIND: &[u64] = &[3, 10, 30, 100];
/// Caller, listed resource, and process of the caller.
const READERS: &[(&str, &str, &str)] = &[
    ("kube-controller-manager*", "persistentvolumeclaims", "kube-controller-manager"),
    ("kube-controller-manager*", "persistentvolumes", "kube-controller-manager"),
    ("kube-controller-manager*", "volumeattachments", "kube-controller-manager"),
    ("csi-provisioner*", "persistentvolumeclaims", "csi-provisioner"),
    ("csi-attacher*", "volumeattachments", "csi-attacher"),
];
/// Failures of a move: plane, operation, effect, value.
const TROUBLE: &[(&str, &str, &str, &str)] = &[
    ("ec2", "DetachVolume", "error", "InternalError"),
    // A permission that is revoked and granted again: clients do not retry this error by themselves.
    ("ec2", "DetachVolume", "error", "UnauthorizedOperation"),
    ("ec2", "AttachVolume", "error", "UnauthorizedOperation"),
    ("ec2", "AttachVolume", "error", "InternalError"),
    ("ec2", "DescribeVolumes", "error", "RequestLimitExceeded"),
    ("csi", "ControllerPublishVolume", "grpc", "INTERNAL"),
    ("csi", "ControllerUnpublishVolume", "grpc", "INTERNAL"),
    ("csi", "NodeStageVolume", "grpc", "DEADLINE_EXCEEDED"),
    ("csi", "NodeUnstageVolume", "grpc", "INTERNAL"),
    ("csi", "NodeUnpublishVolume", "grpc", "INTERNAL"),
    ("disk", "find", "io_error", "EIO"),
    ("disk", "stage", "io_error", "EIO"),
    ("disk", "unstage", "io_error", "EBUSY"),
    ("disk", "unpublish", "io_error", "EBUSY"),
    ("disk", "remove_dir", "io_error", "EBUSY"),
    ("csi", "CreateVolume", "grpc", "DEADLINE_EXCEEDED"),
];
/// Spans for which a process is down or up.
const SPANS: &[&str] = &["1s", "5s", "20s"];

/// Names of the additions.
pub(super) const KINDS: &[&str] = &[
    "move with a failure",
    "volumes in another order",
    "kubelet cut off",
    "attach abandoned",
    "loop that misses news",
    "replicas that compete",
    "list from the past",
    "request that is refused",
    "pods that stay",
];

/// A function that adds the steps of one kind.
type Addition = fn(&mut Builder);

/// Adds the drawn steps to `drawn`.
pub(super) fn add(drawn: Drawn, rng: ChaCha8Rng) -> Drawn {
    let Drawn { document, mut kinds } = drawn;
    let mut builder = Builder::new(&document, rng);
    let (contends, lags, tries) = (builder.one_of(4), builder.one_of(4), builder.one_of(8));
    let (moves, swaps, cuts) = (builder.one_of(2), builder.one_of(8), builder.one_of(6));
    let (abandons, is_blind, stays) = (builder.one_of(8), builder.one_of(8), builder.one_of(8));
    let fits = builder.has_room();
    let additions: [(bool, Addition); KINDS.len()] = [
        (moves && fits, Builder::moves),
        (swaps && fits, Builder::swap),
        (cuts && fits, Builder::cut_off),
        (abandons && fits, Builder::abandon),
        (is_blind && fits, Builder::blind),
        (contends, Builder::contend),
        (lags, Builder::lag),
        (tries, Builder::try_what_is_refused),
        (stays, Builder::stay),
    ];
    for ((is_drawn, addition), kind) in additions.into_iter().zip(KINDS) {
        let before = builder.tree.clone();
        if is_drawn {
            addition(&mut builder);
        }
        if builder.tree != before {
            kinds.push(kind);
        }
    }
    Drawn { document: builder.finish(), kinds }
}

fn pod(name: &str, claim: &str, node: &str, grace: &str) -> Value {
    json!({ "pod": { "name": name, "claim": claim, "node": node, "grace": grace, "tolerate": true } })
}

/// Waits until a pod has written this number of records.
fn has_written(name: &str, records: u64) -> Value {
    json!({ "wait": { "object": format!("pod/{name}"), "records": records, "within": "40m" } })
}

impl Builder {
    /// Moves a volume, while one operation of the move fails for some time.
    fn moves(&mut self) {
        let (plane, op, effect, value) = self.any(TROUBLE);
        let (once, to, after) = (self.one_of(2), self.any(&["node-a", "node-b"]), self.any(&["0s", "1s", "20s"]));
        let at = if plane == "ec2" { "before" } else { self.any(&["before", "after_effect"]) };
        let trouble = json!({
            "name": "trouble",
            "match": { "plane": plane, "op": op },
            // Not longer: a component with a doubling backoff would not recover within the wait.
            "when": if once { json!({ "first": 1 }) } else { json!({ "for": "90s" }) },
            "effect": { effect: value },
            "at": at,
        });
        let fault = json!({ "fault": trouble });
        let (early, late) = if op == "CreateVolume" { (Some(fault), None) } else { (None, Some(fault)) };
        let goes = json!({ "delete": { "object": "pod/mover-1" } });
        let begins = [claim("moved"), pod("mover-1", "moved", "node-a", "5s"), has_written("mover-1", 2)];
        let ends = [goes, json!({ "sleep": after }), pod("mover-2", "moved", to, "5s"), has_written("mover-2", 2)];
        self.add("steps", early.into_iter().chain(begins).chain(late).chain(ends));
    }

    /// Cuts off or crashes a kubelet while its pod is deleted and another pod takes over the volume.
    fn cut_off(&mut self) {
        let (away, force) = (self.any(&["5s", "2m", "4m", "9m"]), self.one_of(2));
        let (cut, joined) = if self.one_of(2) {
            (json!({ "crash": "node-a/kubelet" }), json!({ "restart": "node-a/kubelet" }))
        } else {
            let far = json!({ "name": "far", "between": ["node-a/kubelet", "apiserver"] });
            (json!({ "partition": far }), json!({ "heal": "far" }))
        };
        let duration = self.any(&["1s", "1m"]);
        let mut delete = json!({ "delete": { "object": "pod/far-1" } });
        if force {
            delete["delete"]["force"] = true.into();
        }
        self.add(
            "steps",
            [
                claim("far"),
                pod("far-1", "far", "node-a", "5s"),
                has_written("far-1", 2),
                cut,
                json!({ "sleep": duration }),
                delete,
                pod("far-2", "far", "node-b", "5s"),
                json!({ "sleep": away }),
                joined,
                has_written("far-2", 2),
            ],
        );
    }

    /// Crashes the controller manager during an attach. When it is back, no pod needs the volume.
    fn abandon(&mut self) {
        let (late, after) = (self.any(&["10s", "40s"]), self.any(&["3s", "15s"]));
        let (who, down) = ("kube-controller-manager", self.any(SPANS));
        let slow = json!({
            "name": "slow-attach",
            "match": { "plane": "csi", "op": "ControllerPublishVolume" },
            "when": { "first": 1 },
            "effect": { "delay": late },
            "at": "before",
        });
        self.add(
            "steps",
            [
                json!({ "fault": slow }),
                claim("lost"),
                pod("lost", "lost", "node-b", "5s"),
                json!({ "sleep": after }),
                json!({ "crash": who }),
                json!({ "delete": { "object": "pod/lost", "force": true } }),
                json!({ "sleep": down }),
                json!({ "restart": who }),
                json!({ "sleep": "1m" }),
            ],
        );
    }

    /// Partitions a control loop while a pod is deleted. Then its watches are answered with 410 Gone, so that it must
    /// list again.
    fn blind(&mut self) {
        let who = self.any(&["kube-controller-manager", "csi-attacher", "csi-provisioner", "kube-scheduler"]);
        let gone = json!({
            "name": "too-old",
            "match": { "plane": "k8s", "op": "watch", "where": { "caller": format!("{who}*") } },
            "when": { "for": "2m" },
            "effect": { "watch": "gone" },
            "at": "before",
        });
        self.add(
            "steps",
            [
                claim("unseen"),
                pod("unseen-1", "unseen", "node-a", "1s"),
                has_written("unseen-1", 1),
                json!({ "partition": { "name": "blind", "between": [who, "apiserver"] } }),
                json!({ "delete": { "object": "pod/unseen-1" } }),
                json!({ "sleep": "30s" }),
                json!({ "fault": gone }),
                json!({ "heal": "blind" }),
                json!({ "sleep": "20s" }),
                json!({ "clear-fault": "too-old" }),
                pod("unseen-2", "unseen", "node-b", "1s"),
                has_written("unseen-2", 1),
            ],
        );
    }

    /// Detaches two volumes from a node and attaches them in the other order.
    fn swap(&mut self) {
        let node = self.any(&["node-a", "node-b"]);
        let comes = |name: &str, claim: &str| [pod(name, claim, node, "5s"), has_written(name, 1)];
        let goes = |name: &str| json!({ "delete": { "object": format!("pod/{name}") } });
        let begins = [claim("left"), claim("right")].into_iter().chain(comes("left-1", "left"));
        let leaves = [goes("left-1"), goes("right-1"), json!({ "sleep": "2m" })];
        let returns = comes("right-2", "right").into_iter().chain(comes("left-2", "left"));
        self.add("steps", begins.chain(comes("right-1", "right")).chain(leaves).chain(returns));
    }

    /// Crashes or partitions a leader repeatedly, while the API server delays lease updates.
    fn contend(&mut self) {
        let (who, late) = (self.any(LOOPS), self.any(LATE));
        let probability = self.any(&[0.2, 0.5, 0.8]);
        self.tree["replicas"] = json!({ who: between(&mut self.rng, 2, 3) });
        self.add(
            "faults",
            [json!({
                "name": "slow-leases",
                "match": { "plane": "k8s", "op": "update", "where": { "resource": "leases", "namespace": "kube-system" } },
                "when": { "probability": probability, "for": "30m" },
                "effect": { "delay": late },
                "at": "before",
            })],
        );
        for round in 0..between(&mut self.rng, 1, 3) {
            let (down, cut) = (self.any(SPANS), self.any(&["20s", "90s"]));
            let name = format!("lease-{}", round + 1);
            let replica = self.any(&["", "-2"]);
            let cut_off = json!({ "name": name, "between": [format!("{who}{replica}"), "apiserver"] });
            let ends = [json!({ "crash": who }), json!({ "sleep": down }), json!({ "restart": who })];
            let misses = [json!({ "partition": cut_off }), json!({ "sleep": cut }), json!({ "heal": name })];
            let happens = if self.one_of(2) { ends } else { misses };
            self.add("steps", happens.into_iter().chain([json!({ "sleep": "45s" })]));
        }
    }

    /// Restarts a process after a volume was created, and gives it a list from before.
    fn lag(&mut self) {
        let (caller, resource, process) = self.any(READERS);
        let (behind, down) = (self.any(BEHIND), self.any(SPANS));
        let fits = self.has_room();
        if fits {
            self.add(
                "steps",
                [
                    claim("late"),
                    json!({ "pod": { "name": "late", "claim": "late", "grace": "1s", "tolerate": true } }),
                    json!({ "wait": { "object": "pvc/late", "is": "Bound", "within": "40m" } }),
                ],
            );
        }
        let stale = json!({
            "name": "stale",
            "match": { "plane": "k8s", "op": "list", "where": { "caller": caller, "resource": resource } },
            // Only the first list: a retried list is fresh.
            "when": { "first": 1 },
            "effect": { "stale_read": behind },
            "at": "before",
        });
        self.add(
            "steps",
            [
                json!({ "crash": process }),
                json!({ "sleep": down }),
                json!({ "fault": stale }),
                json!({ "restart": process }),
            ],
        );
        if fits {
            self.add("steps", [json!({ "wait": { "object": "pod/late", "is": "Running", "within": "40m" } })]);
        }
    }

    /// Leaves the pods at the end: activity that never ends is visible only while pods run.
    fn stay(&mut self) {
        self.tree["teardown"] = false.into();
    }

    /// Deletes by hand a volume to which a pod writes; the cloud refuses that.
    fn try_what_is_refused(&mut self) {
        if !cloud_is_left_alone(&self.tree) {
            return;
        }
        let Some(steps) = self.tree["steps"].as_array() else { return };
        let waits = |step: &&Value| step["wait"]["is"] == "Running";
        let pod = steps.iter().rev().find(waits).and_then(|step| step["wait"]["object"].as_str()).map(str::to_owned);
        let Some(pod) = pod else { return };
        let name = pod.trim_start_matches("pod/");
        let claim = steps.iter().find(|step| step["pod"]["name"] == name).map(|step| step["pod"]["claim"].clone());
        let Some(claim) = claim.as_ref().and_then(Value::as_str).map(str::to_owned) else { return };
        let volume = json!({ "volume": format!("pvc/{claim}") });
        self.add(
            "steps",
            [
                json!({ "wait": { "object": pod, "records": 1, "within": "40m" } }),
                json!({ "ec2": { "action": "DeleteVolume", "with": { "VolumeId": volume }, "fails": "VolumeInUse" } }),
                json!({ "sleep": "30s" }),
                json!({ "wait": { "object": pod, "is": "Running", "within": "40m" } }),
            ],
        );
    }
}
