//! Reaction of the control loops to each false answer of a driver, in whole simulated clusters.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::collections::BTreeSet;

use csi_mock::events::{CsiCall, CsiFalsified, CsiWrongDevice};
use csi_mock::faults::{CONTROLLER, NODE_SERVICE};
use harness::cluster::{Cluster, ClusterSpec};
use harness::runner::{self, Outcome};
use harness::scenario;
use substrate::fault::Kind;
use substrate::world::{Options, simulate};

/// Effects that falsify an answer.
const FALSE: &[Kind] = &[
    Kind::WrongDevice,
    Kind::OmitEntry,
    Kind::RepeatEntry,
    Kind::NoContext,
    Kind::WrongCapacity,
    Kind::WrongNode,
    Kind::WrongZone,
];

/// A false answer, and the reaction to it.
struct Case {
    op: &'static str,
    effect: &'static str,
    /// Value of the effect.
    value: &'static str,
    /// Further lines of the scenario's header.
    head: &'static str,
    /// Steps before and after the claim and its pod.
    steps: (&'static str, &'static str),
    /// An RPC, and the expected number of its calls.
    calls: (&'static str, usize),
    /// Invariants that the false answer breaks.
    breaks: &'static [&'static str],
}

/// A false answer without consequences: the pod runs.
const PLAIN: Case = Case {
    op: "",
    effect: "",
    value: "true",
    head: "",
    steps: ("", RUNS),
    calls: ("ControllerPublishVolume", 1),
    breaks: &[],
};

const RUNS: &str = "
  - wait: {object: pod/web, records: 3, within: 20m}";
const LISTS: &str = "driver: {capabilities: 'LIST_VOLUMES,LIST_VOLUMES_PUBLISHED_NODES'}";
const LISTED: &str = "
  - wait: {object: pod/web, is: Running, within: 5m}
  - expect: {fired: lie, within: 5m}
  - sleep: 3m
  - expect: {object: pod/web, that: \"self.status.phase == 'Running'\"}";
const GROWS: &str = "
  - wait: {object: pod/web, records: 3, within: 5m}
  - patch: {object: pvc/data, with: {spec: {resources: {requests: {storage: 2Gi}}}}}
  - wait: {object: pvc/data, that: \"self.status.capacity.storage == '2Gi'\", within: 10m}";
const AGAIN: &str = "
  - crash: node-a
  - restart: node-a
  - expect: {fired: lie, within: 5m}";

const CASES: &[Case] = &[
    // The attacher attaches once more, which changes nothing.
    Case {
        op: "ListVolumes",
        effect: "omit_entry",
        head: LISTS,
        steps: ("", LISTED),
        calls: ("ControllerPublishVolume", 2),
        ..PLAIN
    },
    Case { op: "ListVolumes", effect: "repeat_entry", head: LISTS, steps: ("", LISTED), ..PLAIN },
    // The node finds the device by the volume.
    Case { op: "ControllerPublishVolume", effect: "wrong_device", ..PLAIN },
    Case { op: "ControllerPublishVolume", effect: "no_context", ..PLAIN },
    // The provisioner deletes a volume that is too small, and makes another one.
    Case { op: "CreateVolume", effect: "wrong_capacity", value: "less", calls: ("CreateVolume", 2), ..PLAIN },
    Case { op: "CreateVolume", effect: "wrong_capacity", value: "unknown", calls: ("CreateVolume", 1), ..PLAIN },
    Case {
        op: "CreateVolume",
        effect: "wrong_capacity",
        value: "more",
        calls: ("CreateVolume", 1),
        breaks: &["I10", "I12", "I9"],
        ..PLAIN
    },
    // The scheduler finds no node in that zone.
    Case {
        op: "CreateVolume",
        effect: "wrong_zone",
        steps: (
            "",
            "
  - expect: {event: {object: pod/web, reason: FailedScheduling, contains: node affinity, within: 5m}}
  - delete: {object: pod/web}",
        ),
        calls: ("ControllerPublishVolume", 0),
        breaks: &["I10"],
        ..PLAIN
    },
    // The resizer asks again until the volume has the size.
    Case {
        op: "ControllerExpandVolume",
        effect: "wrong_capacity",
        value: "less",
        steps: ("", GROWS),
        calls: ("ControllerExpandVolume", 2),
        ..PLAIN
    },
    Case {
        op: "ControllerExpandVolume",
        effect: "wrong_capacity",
        value: "unknown",
        steps: ("", GROWS),
        calls: ("ControllerExpandVolume", 2),
        ..PLAIN
    },
    // The PersistentVolume gets a size that the cloud does not have. The node cannot expand the filesystem to more than
    // its device has, and the resizer asks again.
    Case {
        op: "ControllerExpandVolume",
        effect: "wrong_capacity",
        value: "more",
        steps: ("", GROWS),
        calls: ("NodeExpandVolume", 2),
        breaks: &["I10"],
        ..PLAIN
    },
    // A CSINode keeps the id of a driver, so no attach succeeds until it is deleted and the driver registers again.
    Case {
        op: "NodeGetInfo",
        effect: "wrong_node",
        steps: (
            AGAIN,
            "
  - expect: {event: {object: pod/web, reason: FailedAttachVolume, contains: does not exist, within: 5m}}
  - delete: {object: csinode/node-a}
  - crash: node-a
  - restart: node-a
  - wait: {object: pod/web, records: 3, within: 20m}",
        ),
        calls: ("NodeStageVolume", 1),
        ..PLAIN
    },
    // kubelet refuses a zone that differs from the label of the Node, and registers the driver again.
    Case { op: "NodeGetInfo", effect: "wrong_zone", steps: (AGAIN, RUNS), calls: ("NodeGetInfo", 3), ..PLAIN },
];

fn text(case: &Case) -> String {
    let Case { op, effect, value, head, steps: (before, after), .. } = case;
    // A list can be false only if it has a volume.
    let when = if *op == "ListVolumes" { "{first: 1, after: 30s}" } else { "{first: 1}" };
    format!(
        "name: false-answer
nodes: {{count: 1}}
deadline: 2h
{head}
objects:
  - class: {{name: gp3}}
faults:
  - {{name: lie, match: {{plane: csi, op: {op}}}, when: {when}, effect: {{{effect}: {value}}}}}
steps:{before}
  - claim: {{name: data}}
  - pod: {{name: web, claim: data, grace: 5s}}{after}
"
    )
}

fn run(case: &Case) -> Outcome {
    let scenario = scenario::parse("false.yaml", &text(case)).unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
    simulate(Options::default(), async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
        runner::run(&scenario, &cluster, |_| {}).await
    })
}

#[test]
fn each_false_answer_has_its_reaction() {
    for case in CASES {
        let what = format!("{} {}: {}", case.op, case.effect, case.value);
        let outcome = run(case);
        assert!(outcome.failure.is_none() && outcome.silent_faults.is_empty(), "{what}: {:?}", outcome.failure);
        let broken: BTreeSet<&str> = outcome.violations.iter().map(|violation| violation.id).collect();
        assert_eq!(broken, case.breaks.iter().copied().collect(), "{what}: {:?}", outcome.violations);
        let of_rpc = |call: &&CsiCall| call.rpc == case.calls.0;
        let calls = outcome.events.iter().filter_map(|event| event.get::<CsiCall>()).filter(of_rpc).count();
        assert_eq!(calls, case.calls.1, "{what}: calls of {}", case.calls.0);
        let reported = outcome.events.iter().filter(|event| match case.effect {
            "wrong_device" => event.is::<CsiWrongDevice>(),
            effect => {
                event.get::<CsiFalsified>().is_some_and(|reported| reported.rpc == case.op && reported.effect == effect)
            }
        });
        assert_eq!(reported.count(), 1, "{what}: the trace tells it");
    }
}

/// Excludes ListSnapshots: no loop of these clusters calls it, and the driver's own tests cover it.
#[test]
fn each_false_answer_of_the_catalogue_is_here_and_says_what_csi_thinks_of_it() {
    for operation in CONTROLLER.iter().chain(NODE_SERVICE) {
        for possible in operation.can.iter().filter(|possible| FALSE.contains(&possible.effect)) {
            let what = format!("{} {}", operation.name, possible.effect.name());
            let is_here = |case: &Case| case.op == operation.name && case.effect == possible.effect.name();
            assert!(operation.name == "ListSnapshots" || CASES.iter().any(is_here), "{what} has no case");
            assert!(possible.shows.contains("CSI allows") || possible.shows.contains("CSI forbids"), "{what}");
        }
    }
}
