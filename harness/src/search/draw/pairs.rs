//! Additions to some drawn runs: a planned change of a user or an operator, and one fault during it, which lasts from
//! milliseconds to ten minutes. The changes are a node that is drained, an expansion, pods that are replaced one after
//! the other, a workload that is deleted and applied again, a Node that is deleted, and an instance that is replaced.
//! Additions have their own random stream, so other runs do not change.

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::Drawn;
use super::builder::{Builder, claim, delete, has_written, pod, wait, wait_that};
use crate::search::document::Document;

/// Name of the pair after which the cluster has one node fewer.
pub(super) const INSTANCE_REPLACED: &str = "instance replaced and a fault";

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
type Change = fn(&mut Builder, Value);

/// All changes with their names. The random stream is consumed in this order.
const CHANGES: &[(&str, Change)] = &[
    ("drain and a fault", Builder::drain),
    ("expansion and a fault", Builder::expand),
    ("rolling replacement and a fault", Builder::roll),
    ("deleted, applied again and a fault", Builder::again),
    ("node made again and a fault", Builder::node_again),
    // It is the last one: its node does not come back.
    (INSTANCE_REPLACED, Builder::replace),
];

/// Returns the names of the changes.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    CHANGES.iter().map(|(name, _)| *name)
}

/// Adds the drawn changes to `drawn`.
pub(super) fn add(drawn: Drawn, rng: ChaCha8Rng) -> Drawn {
    let Drawn { document, mut kinds } = drawn;
    let mut pairs = Builder::new(&document, rng);
    let fits = pairs.has_room();
    for (name, change) in CHANGES {
        let fault = pairs.fault(name);
        if pairs.one_of(ONE_OF) && fits {
            change(&mut pairs, fault);
            kinds.push(name);
        }
    }
    Drawn { document: pairs.finish(), kinds }
}

/// Adds one change to a scenario that does not have it yet. A scenario with a limit on volumes per node is returned
/// unchanged.
pub(super) fn add_one(document: Document, rng: ChaCha8Rng) -> Document {
    let mut pairs = Builder::new(&document, rng);
    let has = |name: &str| pairs.tree["steps"].to_string().contains(&during(name));
    let new: Vec<_> = CHANGES.iter().filter(|(name, _)| !has(name)).copied().collect();
    if !new.is_empty() && pairs.has_room() {
        let (name, change) = pairs.any(&new);
        let fault = pairs.fault(name);
        change(&mut pairs, fault);
    }
    pairs.finish()
}

/// Returns the name of the fault of a change.
fn during(change: &str) -> String {
    format!("during-{}", change.split([' ', ',']).next().unwrap_or_default())
}

fn gone(object: &str) -> Value {
    wait(object, "gone")
}

impl Builder {
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
        self.steps(
            begins
                .into_iter()
                .chain([json!({ "patch": { "object": "pvc/larger", "with": with } }), wait_that("pvc/larger", has)]),
        );
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
            wait("node/node-b", "Ready"),
            delete("pod/known-1"),
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
