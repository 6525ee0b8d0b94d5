//! Cost of a pass of the attach-detach controller: 5,000 nodes with 20 volumes each, of which 1 % change between two
//! passes. `cargo bench -p controllers` prints one line for each part.
//!
//! In every round, the pods of 500 volumes end, and other nodes need the 500 volumes that were detached in the round
//! before. So each pass starts 500 detaches and 500 attaches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use controllers::attach_detach::{Action, NodeView, Plan, Reconciler, VolumeSpec};
use controllers::pending::PendingOperations;
use k8s_openapi::api::core::v1::ObjectReference;

/// The allocator of the program `mooring`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: usize = 5_000;
const VOLUMES_OF_NODE: usize = 20;
const VOLUMES: usize = NODES * VOLUMES_OF_NODE;
/// Volumes that leave a node in a round, and volumes that come to a node.
const MOVES: usize = 500;
const ROUNDS: usize = 41;

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the machine's clock")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

fn node(index: usize) -> String {
    format!("node-{:04}", index % NODES)
}

struct Fleet {
    reconciler: Reconciler,
    specs: Vec<Arc<VolumeSpec>>,
    pods: Vec<Arc<ObjectReference>>,
    /// Index of the node of each volume.
    on: Vec<usize>,
    /// Volumes without a node, in the order of their detaches.
    free: VecDeque<usize>,
    next: usize,
}

impl Fleet {
    /// Attaches all volumes, as needed by one pod each. A first pass settles them.
    fn new() -> Self {
        let pending = PendingOperations::new(Duration::from_millis(500), Duration::from_secs(122));
        let mut fleet = Self {
            reconciler: Reconciler::new(pending, Duration::from_secs(360), false),
            specs: Vec::new(),
            pods: Vec::new(),
            on: (0..VOLUMES).map(|index| index / VOLUMES_OF_NODE).collect(),
            free: VecDeque::new(),
            next: 0,
        };
        for index in 0..NODES {
            fleet.reconciler.set_node(&node(index), NodeView { ready: true, out_of_service: false });
            fleet.reconciler.desired.add_node(&node(index));
        }
        for index in 0..VOLUMES {
            fleet.specs.push(Arc::new(VolumeSpec {
                pv: format!("pvc-{index:08}"),
                driver: "ebs.csi.aws.com".to_owned(),
                handle: format!("vol-{index:017x}"),
                multi_attach: false,
            }));
            fleet.pods.push(Arc::new(ObjectReference {
                kind: Some("Pod".to_owned()),
                namespace: Some("default".to_owned()),
                name: Some(format!("pod-{index}")),
                uid: Some(format!("uid-{index}")),
                ..ObjectReference::default()
            }));
            fleet.need(index);
            let (spec, on) = (&fleet.specs[index], node(fleet.on[index]));
            fleet.reconciler.actual.add(&spec.unique_name(), Some(spec), &on, true);
        }
        let first = fleet.reconciler.reconcile(Duration::ZERO);
        assert!(first.actions.iter().all(|action| matches!(action, Action::Report { .. })), "all volumes are attached");
        fleet
    }

    fn need(&mut self, index: usize) {
        let (pod, spec) = (&self.pods[index], &self.specs[index]);
        let uid = pod.uid.as_deref().expect("a uid");
        assert!(self.reconciler.desired.add_pod(uid, pod, spec, &node(self.on[index])), "the pod is new");
    }

    /// Ends the pods of some volumes, unmounts these, and gives the volumes of the round before to other nodes.
    fn change(&mut self) {
        for _ in 0..self.free.len().min(MOVES) {
            let index = self.free.pop_front().expect("a detached volume");
            self.on[index] = (self.on[index] + 1) % NODES;
            self.need(index);
        }
        for _ in 0..MOVES {
            let index = self.next;
            // A stride that shares no factor with the number of volumes visits each of them.
            self.next = (self.next + 7_919) % VOLUMES;
            let volume = self.specs[index].unique_name();
            let (uid, on) = (self.pods[index].uid.clone().expect("a uid"), node(self.on[index]));
            assert!(self.reconciler.desired.delete_pod(&uid, &volume, &on), "the pod needed the volume");
            self.reconciler.actual.set_mounted(&on, &[]);
            self.free.push_back(index);
        }
    }

    /// Ends the operations of a pass.
    fn finish(&mut self, now: Duration, plan: Plan) -> (usize, usize) {
        let (mut attached, mut detached) = (0, 0);
        for action in plan.actions {
            match action {
                Action::Attach { key, node, spec, .. } => {
                    attached += 1;
                    self.reconciler.attached(now, &key, &spec, &node, Ok(()));
                }
                Action::Detach { key, volume, node, .. } => {
                    detached += 1;
                    self.reconciler.detached(now, &key, &volume, &node, Ok(()));
                }
                Action::Report { .. } | Action::MultiAttach { .. } => {}
            }
        }
        (attached, detached)
    }
}

fn report(name: &str, mut all: Vec<f64>, bound: &str) {
    all.sort_by(f64::total_cmp);
    let (median, min, max) = (all[all.len() / 2], all[0], all[all.len() - 1]);
    println!("{name:<64} {median:>8.2} ms  [{min:.2} … {max:.2}, n={}]{bound}", all.len());
}

fn main() {
    let mut fleet = Fleet::new();
    let (mut changes, mut passes, mut ends, mut idle) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let millis = |since: std::time::Instant| since.elapsed().as_secs_f64() * 1e3;
    for round in 0..ROUNDS {
        let now = Duration::from_secs(round as u64 + 1);
        let started = clock();
        fleet.change();
        changes.push(millis(started));
        let started = clock();
        let plan = fleet.reconciler.reconcile(now);
        let took = millis(started);
        let started = clock();
        let (attached, detached) = fleet.finish(now, plan);
        ends.push(millis(started));
        assert_eq!(detached, MOVES, "each unneeded volume is detached");
        assert_eq!(attached, if round == 0 { 0 } else { MOVES }, "each needed volume is attached");
        // The first pass has no attaches.
        if round > 0 {
            passes.push(took);
        }
        // The ends of the operations are differences, too: this pass settles them.
        let settled = fleet.reconciler.reconcile(now);
        fleet.finish(now, settled);
        let started = clock();
        let plan = fleet.reconciler.reconcile(now);
        idle.push(millis(started));
        assert!(plan.actions.is_empty(), "nothing changed");
    }
    let fleet = format!("{NODES} nodes, {VOLUMES} volumes");
    report(&format!("{fleet}: a pass with 1 % changed"), passes, "  bound 10 ms");
    report(&format!("{fleet}: a pass without a change"), idle, "");
    report(&format!("{fleet}: news of 1 %, from pods and nodes"), changes, "");
    report(&format!("{fleet}: ends of the operations"), ends, "");
}
