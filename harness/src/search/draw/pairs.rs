//! Additions to some drawn runs: a planned change of a user or an operator, and one fault during it, which lasts from
//! milliseconds to ten minutes. The changes are a node that is drained, an expansion, pods that are replaced one after
//! the other, a workload that is deleted and applied again, a Node that is deleted, and an instance that is replaced.
//! Additions have their own random stream, so other runs do not change.

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use substrate::seed::between;

use super::Drawn;
use crate::search::document::Document;

/// Each change occurs in one of this many runs.
const ONE_OF: u64 = 16;
/// Durations of the fault.
const LASTS: &[&str] = &["5ms", "100ms", "1s", "10s", "1m", "3m", "10m"];
/// A fault: plane, operation, attributes with their values, effect, value.
type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str, &'static str);

/// Faults that apply to each matching operation while they last.
const FAULTS: &[Row] = &[
    ("ec2", "AttachVolume", &[], "error", "InternalError"),
    ("ec2", "DetachVolume", &[], "error", "RequestLimitExceeded"),
    ("ec2", "DescribeVolumes", &[], "error", "ServiceUnavailable"),
    ("ec2", "ModifyVolume", &[], "error", "InternalError"),
    ("k8s", "write", &[("caller", "csi-attacher*")], "error", "ServiceUnavailable"),
    ("k8s", "write", &[("caller", "kubelet*")], "error", "TooManyRequests"),
    ("k8s", "watch-event", &[("caller", "kube-controller-manager*")], "delay", "20s"),
    ("k8s", "watch-event", &[("caller", "kube-scheduler*")], "watch", "drop"),
    ("csi", "ControllerUnpublishVolume", &[], "grpc", "UNAVAILABLE"),
    ("csi", "ControllerExpandVolume", &[], "grpc", "INTERNAL"),
    ("csi", "NodeStageVolume", &[], "grpc", "INTERNAL"),
    ("csi", "NodeUnpublishVolume", &[], "delay", "30s"),
    ("disk", "unstage", &[], "io_error", "EBUSY"),
    ("disk", "expand", &[], "io_error", "EIO"),
];

/// A planned change: adds its steps around the fault.
type Change = fn(&mut Pairs, Value);

/// All changes with their names. The random stream is consumed in this order.
const CHANGES: &[(&str, Change)] = &[
    ("drain and a fault", Pairs::drain),
    ("expansion and a fault", Pairs::expand),
    ("rolling replacement and a fault", Pairs::roll),
    ("deleted, applied again and a fault", Pairs::again),
    ("node made again and a fault", Pairs::node_again),
    // It is the last one: its node does not come back.
    ("instance replaced and a fault", Pairs::replace),
];

/// Returns the names of the changes.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    CHANGES.iter().map(|(name, _)| *name)
}

/// Adds the drawn changes to `drawn`.
pub(super) fn add(drawn: Drawn, rng: ChaCha8Rng) -> Drawn {
    let Drawn { document, mut kinds } = drawn;
    let mut pairs = Pairs { rng, tree: document.tree().clone() };
    // With a limit on volumes per node there may be no room.
    let fits = pairs.tree["driver"]["attach-limit"].is_null();
    for (name, change) in CHANGES {
        let fault = pairs.fault(name);
        if between(&mut pairs.rng, 1, ONE_OF) == 1 && fits {
            change(&mut pairs, fault);
            kinds.push(name);
        }
    }
    Drawn { document: Document::of_tree(pairs.tree), kinds }
}

/// Adds one change to a scenario that does not have it yet. A scenario with a limit on volumes per node is returned
/// unchanged.
pub(super) fn add_one(document: Document, rng: ChaCha8Rng) -> Document {
    let mut pairs = Pairs { rng, tree: document.tree().clone() };
    let has = |name: &str| pairs.tree["steps"].to_string().contains(&during(name));
    let new: Vec<_> = CHANGES.iter().filter(|(name, _)| !has(name)).copied().collect();
    if !new.is_empty() && pairs.tree["driver"]["attach-limit"].is_null() {
        let (name, change) = pairs.any(&new);
        let fault = pairs.fault(name);
        change(&mut pairs, fault);
    }
    Document::of_tree(pairs.tree)
}

/// Returns the name of the fault of a change.
fn during(change: &str) -> String {
    format!("during-{}", change.split([' ', ',']).next().unwrap_or_default())
}

struct Pairs {
    rng: ChaCha8Rng,
    tree: Value,
}

fn claim(name: &str) -> Value {
    json!({ "claim": { "name": name } })
}

fn pod(name: &str, claim: &str, node: &str) -> Value {
    json!({ "pod": { "name": name, "claim": claim, "node": node, "grace": "5s", "tolerate": true } })
}

fn has_written(pod: &str) -> Value {
    json!({ "wait": { "object": format!("pod/{pod}"), "records": 2, "within": "40m" } })
}

fn delete(object: &str) -> Value {
    json!({ "delete": { "object": object } })
}

fn gone(object: &str) -> Value {
    json!({ "wait": { "object": object, "is": "gone", "within": "40m" } })
}

impl Pairs {
    fn any<T: Copy>(&mut self, of: &[T]) -> T {
        of[between(&mut self.rng, 0, of.len() as u64 - 1) as usize]
    }

    /// Draws the fault of a change.
    fn fault(&mut self, change: &str) -> Value {
        let (plane, op, attributes, effect, value) = self.any(FAULTS);
        let attributes: serde_json::Map<String, Value> =
            attributes.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
        json!({ "fault": {
            "name": during(change),
            "match": { "plane": plane, "op": op, "where": attributes },
            "when": { "for": self.any(LASTS) },
            "effect": { effect: value },
        } })
    }

    fn steps(&mut self, more: impl IntoIterator<Item = Value>) {
        if let Some(steps) = self.tree["steps"].as_array_mut() {
            steps.extend(more);
        }
    }

    /// Drains a node: cordons it, and moves its pod to another node.
    fn drain(&mut self, fault: Value) {
        let begins = [claim("drained"), pod("drained-1", "drained", "node-a"), has_written("drained-1"), fault];
        let goes = [json!({ "cordon": "node-a" }), delete("pod/drained-1"), pod("drained-2", "drained", "node-b")];
        let ends = [has_written("drained-2"), json!({ "uncordon": "node-a" })];
        self.steps(begins.into_iter().chain(goes).chain(ends));
    }

    /// Expands a claim while its pod writes.
    fn expand(&mut self, fault: Value) {
        let with = json!({ "spec": { "resources": { "requests": { "storage": "3Gi" } } } });
        let has = "quantity(self.status.capacity.storage).compareTo(quantity('3Gi')) >= 0";
        let begins = [claim("larger"), pod("larger", "larger", "node-b"), has_written("larger"), fault];
        self.steps(begins.into_iter().chain([
            json!({ "patch": { "object": "pvc/larger", "with": with } }),
            json!({ "wait": { "object": "pvc/larger", "that": has, "within": "40m" } }),
        ]));
    }

    /// Replaces two pods one after the other under their names, as a StatefulSet does.
    fn roll(&mut self, fault: Value) {
        let to = self.any(&["node-a", "node-b"]);
        let begins = ["set-1", "set-0"].into_iter().flat_map(|name| [claim(name), pod(name, name, "node-a")]);
        let run = [has_written("set-0"), has_written("set-1"), fault];
        let replaced = ["set-1", "set-0"].into_iter().flat_map(|name| {
            let object = format!("pod/{name}");
            [delete(&object), gone(&object), pod(name, name, to), has_written(name)]
        });
        let steps: Vec<Value> = begins.chain(run).chain(replaced).collect();
        self.steps(steps);
    }

    /// Deletes a workload, and applies it again with the same names.
    fn again(&mut self, fault: Value) {
        let to = self.any(&["node-a", "node-b"]);
        let begins = [claim("twice"), pod("twice", "twice", "node-a"), has_written("twice"), fault];
        let goes = [delete("pod/twice"), delete("pvc/twice"), gone("pod/twice"), gone("pvc/twice")];
        let ends = [claim("twice"), pod("twice", "twice", to), has_written("twice")];
        self.steps(begins.into_iter().chain(goes).chain(ends));
    }

    /// Deletes the Node of a machine; its kubelet, which restarts, creates it again.
    fn node_again(&mut self, fault: Value) {
        let begins = [claim("known"), pod("known-1", "known", "node-b"), has_written("known-1"), fault];
        let goes = [delete("node/node-b"), json!({ "restart": "node-b/kubelet" }), json!({ "sleep": "1m" })];
        let ends = [
            json!({ "wait": { "object": "node/node-b", "is": "Ready", "within": "40m" } }),
            json!({ "delete": { "object": "pod/known-1" } }),
            pod("known-2", "known", "node-a"),
            has_written("known-2"),
        ];
        self.steps(begins.into_iter().chain(goes).chain(ends));
    }

    /// Terminates an instance and deletes its Node, as an autoscaler does. The pod that replaces the node's pod runs on
    /// another node.
    fn replace(&mut self, fault: Value) {
        let begins = [claim("kept"), pod("kept-1", "kept", "node-b"), has_written("kept-1"), fault];
        let goes = [
            json!({ "ec2": { "poke": "terminate", "instance": "node-b" } }),
            json!({ "sleep": self.any(&["1s", "1m", "7m"]) }),
            delete("node/node-b"),
            gone("pod/kept-1"),
        ];
        self.steps(begins.into_iter().chain(goes).chain([pod("kept-2", "kept", "node-a"), has_written("kept-2")]));
    }
}
