//! Draws a cluster, a workload and faults from a seed, and writes them as a scenario.
//!
//! All drawn failures end by themselves: every fault has a `for` or a count, every crashed process is restarted, every
//! partition heals. Afterwards the remaining pods must run; the invariants check the rest.

mod additions;
mod around;
mod asks;
mod beside;
mod builder;
mod drawn;
mod extras;
mod failures;
mod pairs;
mod priorities;
mod workloads;

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};
use substrate::Seed;
use substrate::seed::between;

pub use drawn::Drawn;

use super::document::Document;
use crate::spec::cluster::node_name;
use crate::spec::names::kubelet;

/// Callers of the API server except the user.
const CALLERS: &[&str] =
    &["csi-attacher", "csi-provisioner", "csi-resizer", "kube-controller-manager*", "kube-scheduler*", "kubelet"];
/// Processes that can be crashed, except those of nodes.
const PROCESSES: &[&str] = &[
    "csi-attacher",
    "csi-provisioner",
    "csi-resizer",
    "csi-controller",
    "kube-controller-manager",
    "kube-scheduler",
    "fake-apiserver",
    "mock-ec2",
];
const EC2: &[&str] =
    &["AttachVolume", "DetachVolume", "CreateVolume", "DeleteVolume", "DescribeVolumes", "DescribeInstances"];
const CSI: &[&str] = &[
    "CreateVolume",
    "DeleteVolume",
    "ControllerPublishVolume",
    "ControllerUnpublishVolume",
    "ControllerExpandVolume",
    "NodeStageVolume",
    "NodeUnstageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeExpandVolume",
];
const DISK: &[&str] = &[
    "plug",
    "unplug",
    "find",
    "resize",
    "stage",
    "unstage",
    "publish",
    "unpublish",
    "make_dir",
    "remove_dir",
    "list_dir",
    "read",
    "write",
    "expand",
    "remove_file",
];
const RESOURCES: &[&str] =
    &["pods", "nodes", "persistentvolumes", "persistentvolumeclaims", "volumeattachments", "csinodes"];

/// Draws the run number `run` of the exploration with `seed`.
pub fn draw(seed: u64, run: u64) -> Document {
    drawn(seed, run).document
}

/// Draws the same run, with the kinds of additions in it.
pub fn drawn(seed: u64, run: u64) -> Drawn {
    let rng = Seed::root(seed).child("explore").child(&run.to_string()).rng();
    let mut drawing = Drawing {
        rng,
        nodes: Vec::new(),
        anywhere: false,
        growths: 1,
        pods: Vec::new(),
        grown: BTreeMap::new(),
        steps: Vec::new(),
        made: 0,
    };
    let document = drawing.whole(run);
    let stream = |name: &str| Seed::root(seed).child(name).child(&run.to_string()).rng();
    let drawn = extras::add(Drawn { document, kinds: Vec::new() }, stream("explore more"));
    let drawn = asks::add(additions::add(drawn, stream("explore wider")), stream("explore asks"));
    let drawn = workloads::add(drawn, stream("explore workloads"));
    let drawn = pairs::add(drawn, stream("explore pairs"));
    let drawn = beside::add(drawn, stream("explore beside"));
    let drawn = around::add(drawn, stream("explore around"));
    failures::add(drawn, stream("explore failures"))
}

/// Adds one change that the scenario does not have yet, with a fault, at the end of a scenario that was cut anywhere.
pub fn go_on(document: Document, rng: ChaCha8Rng) -> Document {
    pairs::add_one(document, rng)
}

/// Returns the names of all kinds of additions.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    [extras::KINDS, additions::KINDS]
        .concat()
        .into_iter()
        .chain(asks::kinds())
        .chain(workloads::kinds())
        .chain(pairs::kinds())
        .chain(beside::kinds())
        .chain(around::kinds())
        .chain(failures::KINDS.iter().copied())
}

/// An existing pod and its claim.
struct Pod {
    name: String,
    claim: String,
}

struct Drawing {
    rng: ChaCha8Rng,
    nodes: Vec<String>,
    /// If set, the scheduler chooses the nodes of pods, not the draw.
    anywhere: bool,
    /// Number of times that the cloud lets a volume grow within a few hours.
    growths: u64,
    pods: Vec<Pod>,
    /// Claims that requested a larger size, with the size in GiB.
    grown: BTreeMap<String, u64>,
    steps: Vec<Value>,
    /// Number of pods created so far.
    made: u64,
}

impl Drawing {
    fn up_to(&mut self, most: u64) -> u64 {
        between(&mut self.rng, 1, most)
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[between(&mut self.rng, 0, of.len() as u64 - 1) as usize]
    }

    fn node(&mut self) -> String {
        let at = between(&mut self.rng, 0, self.nodes.len() as u64 - 1) as usize;
        self.nodes[at].clone()
    }

    fn span(&mut self) -> String {
        self.one(&["1s", "3s", "10s", "20s", "45s", "90s", "3m"]).to_owned()
    }

    fn process(&mut self) -> String {
        match self.up_to(3) {
            1 => kubelet(&self.node()),
            2 => format!("{}/csi-node", self.node()),
            _ => self.one(PROCESSES).to_owned(),
        }
    }

    fn step(&mut self, step: Value) {
        self.steps.push(step);
    }

    fn whole(&mut self, run: u64) -> Document {
        let count = self.up_to(3) + 1;
        self.nodes = (0..count as usize).map(node_name).collect();
        let profile = self.one(&["instant", "aws", "aws-recent"]);
        // In the other profiles a volume that has grown is optimized for up to six hours, and cannot grow again
        // meanwhile.
        self.growths = if profile == "instant" { 3 } else { 1 };
        let volumes = self.up_to(3);
        let mut document = json!({
            "name": format!("explored-{run}"),
            "nodes": { "count": count },
            "latency": profile,
            "deadline": "8h",
        });
        let mut driver = Map::new();
        if self.up_to(4) == 1 {
            self.anywhere = true;
            // The limit always leaves room for all volumes.
            driver.insert("attach-limit".to_owned(), volumes.div_ceil(count).into());
        }
        if self.up_to(8) == 1 {
            driver.insert("capabilities".to_owned(), "-STAGE_UNSTAGE_VOLUME".into());
        }
        if !driver.is_empty() {
            document["driver"] = driver.into();
        }
        if self.up_to(4) == 1 {
            document["leader-elect"] = true.into();
        }
        for at in 1..=volumes {
            let claim = format!("data-{at}");
            self.step(json!({ "claim": { "name": claim } }));
            let node = self.node();
            self.start(&claim, &node);
        }
        for _ in 0..self.up_to(8) + 2 {
            self.act();
        }
        for node in self.nodes.clone() {
            self.step(json!({ "uncordon": node }));
        }
        let pods: Vec<String> = self.pods.iter().map(|pod| pod.name.clone()).collect();
        for pod in pods {
            self.step(json!({ "wait": { "object": format!("pod/{pod}"), "is": "Running", "within": "40m" } }));
        }
        for (claim, size) in std::mem::take(&mut self.grown) {
            // The filesystem grows only while a pod uses the volume.
            if self.pods.iter().any(|pod| pod.claim == claim) {
                let has = format!("quantity(self.status.capacity.storage).compareTo(quantity('{size}Gi')) >= 0");
                self.step(json!({ "wait": { "object": format!("pvc/{claim}"), "that": has, "within": "40m" } }));
            }
        }
        let faults: Vec<Value> = (0..self.up_to(5) - 1).map(|at| self.fault(&format!("fault-{}", at + 1))).collect();
        document["steps"] = std::mem::take(&mut self.steps).into();
        if !faults.is_empty() {
            document["faults"] = faults.into();
        }
        Document::of_tree(document)
    }

    /// Adds a pod that writes to `claim` on `node` and tolerates every taint of the node.
    fn start(&mut self, claim: &str, node: &str) {
        self.made += 1;
        let name = format!("web-{}", self.made);
        let grace = self.one(&["1s", "5s", "30s"]);
        let mut pod = json!({ "name": name, "claim": claim, "grace": grace, "tolerate": true });
        if !self.anywhere {
            pod["node"] = node.into();
        }
        self.step(json!({ "pod": pod }));
        self.pods.push(Pod { name, claim: claim.to_owned() });
    }

    /// Adds an action of a user or an operator, or an accident.
    fn act(&mut self) {
        let span = self.span();
        match self.up_to(12) {
            1..=3 => self.moves(),
            4 | 5 => self.step(json!({ "sleep": span })),
            6 => {
                let process = self.process();
                self.step(json!({ "crash": process }));
                self.step(json!({ "sleep": span }));
                self.step(json!({ "restart": process }));
            }
            7 => {
                let node = self.node();
                let down = self.one(&["30s", "2m", "8m"]);
                self.step(json!({ "crash": node }));
                self.step(json!({ "sleep": down }));
                self.step(json!({ "restart": node }));
            }
            8 => {
                let who = self.process();
                let to = if who == "fake-apiserver" { "kubelet-node-a" } else { "apiserver" };
                self.made += 1;
                let name = format!("cut-{}", self.made);
                self.step(json!({ "partition": { "name": name, "between": [who, to] } }));
                self.step(json!({ "sleep": span }));
                if self.up_to(2) == 1 {
                    self.moves();
                }
                self.step(json!({ "heal": name }));
            }
            9 => {
                let node = self.node();
                let word = self.one(&["cordon", "uncordon"]);
                self.step(json!({ word: node }));
            }
            10 => self.recreate(),
            11 => self.out_of_service(),
            _ => self.grow(),
        }
    }

    /// Deletes a pod and its claim, and creates a claim of the same name.
    fn recreate(&mut self) {
        let Some(Pod { name, claim }) = self.pods.pop() else { return };
        let (node, object) = (self.node(), format!("pvc/{claim}"));
        self.grown.remove(&claim);
        self.step(json!({ "delete": { "object": format!("pod/{name}") } }));
        self.step(json!({ "delete": { "object": object } }));
        self.step(json!({ "wait": { "object": object, "is": "gone", "within": "40m" } }));
        self.step(json!({ "claim": { "name": claim } }));
        self.start(&claim, &node);
    }

    /// Crashes a machine, taints it out-of-service, and restarts it later.
    fn out_of_service(&mut self) {
        let node = self.node();
        let (down, waits) = (self.one(&["10s", "2m"]), self.one(&["1m", "8m"]));
        let taint = json!({ "node": node, "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute" });
        self.step(json!({ "crash": node }));
        self.step(json!({ "sleep": down }));
        self.step(json!({ "taint": taint }));
        if self.up_to(2) == 1 {
            self.moves();
        }
        self.step(json!({ "sleep": waits }));
        self.step(json!({ "untaint": { "node": node, "key": "node.kubernetes.io/out-of-service" } }));
        self.step(json!({ "restart": node }));
    }

    /// Deletes a pod; in most cases another one takes over its volume.
    fn moves(&mut self) {
        if self.pods.is_empty() {
            return;
        }
        let at = between(&mut self.rng, 0, self.pods.len() as u64 - 1) as usize;
        let Pod { name, claim } = self.pods.remove(at);
        let force = self.up_to(6) == 1;
        let before = self.up_to(4);
        let (node, span) = (self.node(), self.span());
        if before == 1 {
            self.start(&claim, &node);
        }
        let object = format!("pod/{name}");
        self.step(if force {
            json!({ "delete": { "object": object, "force": true } })
        } else {
            json!({ "delete": { "object": object } })
        });
        if before == 2 {
            self.step(json!({ "sleep": span }));
        }
        if before == 2 || before == 3 {
            self.start(&claim, &node);
        }
    }

    /// Grows a volume.
    fn grow(&mut self) {
        let Some(claim) = self.pods.first().map(|pod| pod.claim.clone()) else { return };
        let object = format!("pvc/{claim}");
        self.step(json!({ "wait": { "object": object, "is": "Bound", "within": "40m" } }));
        for _ in 0..self.up_to(2) {
            if self.steps.iter().filter(|step| step["patch"]["object"] == object.as_str()).count() as u64
                >= self.growths
            {
                return;
            }
            // A size that the volume already exceeds would be rejected, correctly.
            let size = self.grown.get(&claim).copied().unwrap_or(1) + self.up_to(4);
            self.grown.insert(claim.clone(), size);
            let with = json!({ "spec": { "resources": { "requests": { "storage": format!("{size}Gi") } } } });
            self.step(json!({ "patch": { "object": object, "with": with } }));
            let span = self.span();
            self.step(json!({ "sleep": span }));
        }
    }

    /// Draws a fault that is active for some time or a few times.
    fn fault(&mut self, name: &str) -> Value {
        let (matches, at, effect) = match self.up_to(5) {
            1 => self.ec2(),
            2 => self.k8s(),
            3 => self.csi(),
            4 => self.link(),
            _ => self.disk(),
        };
        let once = matches!(
            effect.as_object().and_then(|map| map.keys().next()).map(String::as_str),
            Some("crash" | "reboot")
        );
        let when = match self.up_to(3) {
            _ if once => json!({ "nth": self.up_to(6) }),
            1 => json!({ "nth": self.up_to(6) }),
            2 => json!({ "first": self.up_to(3) }),
            _ => {
                let probability = self.up_to(4) as f64 / 10.0;
                json!({ "probability": probability, "for": self.one(&["1m", "5m", "10m"]) })
            }
        };
        json!({ "name": name, "match": matches, "when": when, "effect": effect, "at": at })
    }

    /// Draws a crash of a process or a reboot of a machine.
    fn end(&mut self) -> Value {
        match self.up_to(4) {
            1 => json!({ "reboot": self.node() }),
            _ => json!({ "crash": self.process() }),
        }
    }

    fn ec2(&mut self) -> (Value, &'static str, Value) {
        let op = self.one(EC2);
        let (at, effect) = match self.up_to(5) {
            1 => ("after_effect", json!({ "drop_reply": true })),
            2 => (
                "before",
                json!({ "error": self.one(&["InternalError", "RequestLimitExceeded", "ServiceUnavailable"]) }),
            ),
            3 => (self.one(&["before", "before_reply"]), json!({ "delay": self.span() })),
            4 if op.starts_with("Describe") => ("before", json!({ "http": 503 })),
            4 => ("before", json!({ "duplicate": 2 })),
            _ => ("after_effect", self.end()),
        };
        (json!({ "plane": "ec2", "op": op }), at, effect)
    }

    fn k8s(&mut self) -> (Value, &'static str, Value) {
        let (caller, resource) = (self.one(CALLERS), self.one(RESOURCES));
        let (op, at, effect) = match self.up_to(7) {
            1 => (self.one(&["update", "patch"]), "before", json!({ "error": "Conflict" })),
            2 => ("write", "after_effect", json!({ "drop_reply": true })),
            3 => ("write", "before", json!({ "duplicate": 2 })),
            4 => (
                self.one(&["read", "write"]),
                "before",
                json!({ "error": self.one(&["ServiceUnavailable", "TooManyRequests"]) }),
            ),
            5 => ("watch-event", "before", json!({ "watch": self.one(&["drop", "gone"]) })),
            6 => ("watch-event", "before", json!({ "delay": self.span() })),
            _ => ("write", "after_effect", self.end()),
        };
        (json!({ "plane": "k8s", "op": op, "where": { "caller": caller, "resource": resource } }), at, effect)
    }

    fn csi(&mut self) -> (Value, &'static str, Value) {
        let op = self.one(CSI);
        let (at, effect) = match self.up_to(5) {
            1 => (
                self.one(&["before", "after_effect"]),
                json!({ "grpc": self.one(&["INTERNAL", "UNAVAILABLE", "ABORTED"]) }),
            ),
            2 => ("before_reply", json!({ "drop_reply": true })),
            3 => ("before", json!({ "drop_request": true })),
            4 => (self.one(&["before", "before_reply"]), json!({ "delay": self.span() })),
            _ => ("after_effect", self.end()),
        };
        (json!({ "plane": "csi", "op": op }), at, effect)
    }

    fn link(&mut self) -> (Value, &'static str, Value) {
        let from = self.process();
        let (at, effect) = match self.up_to(3) {
            1 => ("before", json!({ "drop_request": true })),
            2 => ("after_effect", json!({ "drop_reply": true })),
            _ => (self.one(&["before", "after_effect"]), json!({ "delay": self.span() })),
        };
        (json!({ "plane": "link", "op": "request", "where": { "from": from } }), at, effect)
    }

    fn disk(&mut self) -> (Value, &'static str, Value) {
        let op = self.one(DISK);
        let (at, effect) = match self.up_to(4) {
            1 => (self.one(&["before", "after_effect"]), json!({ "io_error": self.one(&["EIO", "EBUSY"]) })),
            2 => ("before", json!({ "pause_io": self.span() })),
            3 => ("after_effect", json!({ "reboot": self.node() })),
            _ => ("after_effect", self.end()),
        };
        (json!({ "plane": "disk", "op": op }), at, effect)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_is_drawn_within_a_few_hundred_runs() {
        let mut missing: BTreeSet<&str> = kinds().collect();
        for run in 1..=300 {
            for kind in drawn(7, run).kinds {
                missing.remove(kind);
            }
        }
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn a_drawn_document_is_a_valid_scenario_and_reproducible() {
        let mut kinds = BTreeSet::new();
        for run in 1..=240 {
            let document = draw(1, run);
            assert_eq!(document, draw(1, run));
            if let Err(error) = document.scenario("drawn.yaml") {
                panic!("run {run}: {}\n{}", error.render(false, 120), document.text());
            }
            for fault in document.tree()["faults"].as_array().into_iter().flatten() {
                let effect = fault["effect"].as_object().unwrap().keys().next().unwrap().clone();
                kinds.insert(format!("{} {effect}", fault["match"]["plane"].as_str().unwrap()));
            }
        }
        assert!(kinds.len() > 20, "{kinds:?}");
        assert_ne!(draw(1, 1), draw(2, 1));
    }
}
