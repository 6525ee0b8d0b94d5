//! Goldens of flows: the writes of upstream's programs to the API server, in order and field by field. Mooring must
//! make the same writes.
//!
//! A golden (`flows/*.yaml`) is written from the source of upstream; each line names the function that makes the write.
//! See `README.md` in this directory.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod compare;
mod flow;
mod format;
mod record;
mod recorded;
mod shown;

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_mock::disk::{Disk, MemoryDisks};
use flow::Flow;
use harness::cluster::assemble::Parts;
use harness::cluster::{Cluster, ClusterSpec};
use harness::events::ClusterNode;
use harness::runner;
use harness::scenario;
use mock_ec2::VolumeBytes;
use record::{Ear, Recorder};
use shown::{Names, Shown};
use substrate::world::{Options, simulate};

/// Seeds of each flow. The seed determines the latencies of all messages, so that writes that upstream does not order
/// come in more than one order.
const SEEDS: [u64; 3] = [1, 2, 3];

/// The volumes of the cloud have the bytes of the memory disks.
#[derive(Debug)]
struct Bytes(MemoryDisks);

impl VolumeBytes for Bytes {
    fn snapshot(&self, source: &str, snapshot: &str) {
        self.0.copy(source, snapshot, 0);
    }

    fn restore(&self, source: &str, volume: &str, size_bytes: u64) {
        self.0.copy(source, volume, size_bytes);
    }

    fn grow(&self, volume: &str, size_bytes: u64) {
        self.0.grow(volume, size_bytes);
    }

    fn remove(&self, id: &str) {
        self.0.forget(id);
    }

    fn is_held(&self, volume: &str) -> bool {
        self.0.is_held(volume)
    }
}

/// A simulated cluster with a recorder at its API server.
fn parts(spec: &ClusterSpec, recorder: &Recorder) -> Parts {
    let memory = MemoryDisks::new();
    let disk = |name: &str| -> Arc<dyn Disk> { memory.node(name) };
    let disks = spec.nodes.iter().map(|node| (node.name.clone(), disk(&node.name))).collect();
    Parts {
        front: None,
        wiring: Arc::new(Ear(recorder.clone())),
        disks,
        volume_dir: None,
        bytes: Some(Arc::new(Bytes(memory))),
        roots: BTreeMap::new(),
        ca_pem: None,
    }
}

/// Returns the writes of a flow, as they are compared.
fn run(flow: &Flow, seed: u64) -> Vec<Shown> {
    let scenario =
        scenario::parse("golden.yaml", &flow.scenario).unwrap_or_else(|error| panic!("{}", error.render(false, 100)));
    let recorder = Recorder::default();
    let outcome = simulate(Options { seed, latency: scenario.link, ..Options::default() }, async |world| {
        let spec = ClusterSpec::of_scenario(&scenario);
        let parts = parts(&spec, &recorder);
        let cluster = Cluster::start(&world, spec, parts).unwrap();
        runner::run(&scenario, &cluster, |step| recorder.mark(step.name.as_deref().unwrap_or_default())).await
    });
    let (writes, window) = recorder.between("flow", "end").unwrap_or_else(|| {
        panic!("the scenario has no steps `flow` and `end`, or does not get there: {:?}", outcome.failure)
    });
    if let Some(failure) = &outcome.failure {
        panic!("the scenario fails: {failure:?}");
    }
    let nodes = outcome.events.iter().filter_map(|event| event.get::<ClusterNode>());
    let nodes = nodes.map(|node| (node.node.to_string(), node.instance.to_string())).collect();
    let names = Names::learn(&writes, &nodes);
    let shown = writes[window].iter().filter_map(|write| names.show(write));
    shown.filter(|shown| !flow.is_elsewhere(shown)).collect()
}

fn check(name: &str, text: &str) {
    let flow = Flow::parse(text).unwrap_or_else(|error| panic!("{name}.yaml: {error}"));
    let expected = flow.expected().unwrap();
    for seed in SEEDS {
        let written = run(&flow, seed);
        if let Some(report) = compare::compare(&expected, &written) {
            panic!("{} ({name}.yaml, seed {seed})\n{report}", flow.flow);
        }
    }
}

macro_rules! flows {
    ($($test:ident = $file:literal;)*) => {
        $(
            #[test]
            fn $test() {
                check($file, include_str!(concat!("flows/", $file, ".yaml")));
            }
        )*

        /// All flows by name.
        const FLOWS: &[(&str, &str)] = &[$(($file, include_str!(concat!("flows/", $file, ".yaml")))),*];
    };
}

flows! {
    a_claim_of_a_class_that_binds_at_once_gets_a_volume = "provision-immediate";
    a_claim_gets_its_volume_where_its_first_pod_goes = "provision-first-consumer";
    a_volume_that_is_retained_is_provisioned_without_the_provisioners_finalizer = "provision-retain";
    a_pod_gets_its_volume_attached_and_mounted = "attach";
    a_pod_that_goes_lets_its_volume_be_detached = "detach";
    a_volume_moves_with_its_pods_successor = "migrate";
    a_claim_is_deleted_and_its_volume_is_retained = "delete-retain";
    a_claim_is_deleted_with_its_volume = "delete-delete";
    a_claim_grows_while_no_pod_uses_it = "expand-offline";
    a_claim_grows_under_its_pod = "expand-online";
    a_request_that_failed_is_lowered = "expand-recover";
    a_claim_takes_another_attributes_class = "modify";
    a_node_crashes_and_nobody_helps = "node-crash";
    a_node_is_declared_out_of_service = "out-of-service";
    a_dead_nodes_object_is_deleted = "node-delete";
    the_controller_manager_restarts_in_the_middle_of_a_detach = "manager-restart";
    a_pod_that_does_not_fit_on_its_node_is_refused = "refused";
}

#[test]
fn every_golden_has_its_test() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/flows");
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = files.collect();
    files.sort();
    let mut named: Vec<String> = FLOWS.iter().map(|(name, _)| format!("{name}.yaml")).collect();
    named.sort();
    assert_eq!(files, named);
}

#[test]
fn what_is_left_to_another_golden_is_there() {
    for (name, text) in FLOWS {
        let flow = Flow::parse(text).unwrap_or_else(|error| panic!("{name}.yaml: {error}"));
        for left in &flow.elsewhere {
            let (_, text) = FLOWS.iter().find(|(other, _)| *other == left.golden).unwrap_or_else(|| {
                panic!("{name}.yaml leaves writes of {} to {}, which is none", left.by, left.golden)
            });
            let lines = Flow::parse(text).unwrap().expected().unwrap();
            let held = lines.iter().any(|line| line.shown.by == left.by && line.shown.does.starts_with(&left.does));
            assert!(held, "{name}.yaml leaves {} {} to {}, which has no such line", left.by, left.does, left.golden);
        }
    }
}

#[test]
fn every_line_of_a_recorded_client_agrees_with_what_was_recorded() {
    let recorded = recorded::rows();
    let mut unused: Vec<&recorded::Row> = recorded.iter().collect();
    for (name, text) in FLOWS {
        for line in Flow::parse(text).unwrap_or_else(|error| panic!("{name}.yaml: {error}")).expected().unwrap() {
            let rows: Vec<_> = recorded.iter().filter(|row| row.is(&line.shown)).collect();
            unused.retain(|row| !row.is(&line.shown));
            let known = recorded.iter().any(|row| row.client == line.shown.by);
            match &line.unrecorded {
                Some(why) => {
                    assert!(!why.is_empty() && rows.is_empty(), "{name}.yaml: {:?} is recorded", line.shown);
                }
                None => assert!(!known || !rows.is_empty(), "{name}.yaml: {:?} was never recorded", line.shown),
            }
        }
    }
    unused.retain(|row| recorded::OUTSIDE.iter().all(|(client, what, _)| row.client != *client || row.what() != *what));
    let unused: Vec<String> = unused.iter().map(|row| format!("{} {}", row.client, row.what())).collect();
    assert_eq!(unused, Vec::<String>::new(), "recorded, and in no golden");
}
