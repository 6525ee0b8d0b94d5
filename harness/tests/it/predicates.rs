//! Conditions, counts and `never`, each in a whole simulated run that passes, and in one that fails with an
//! explanation.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use harness::cluster::{Cluster, ClusterSpec};
use harness::output::Exit;
use harness::report;
use harness::runner::{self, Failure, Outcome};
use harness::scenario;
use rstest::rstest;
use substrate::world::{Options, simulate};

const MIGRATION: &str = include_str!("../../../scenarios/migration.yaml");

/// Runs a scenario text in virtual time.
fn run(text: &str, seed: u64) -> (Outcome, Exit) {
    let scenario = scenario::parse("test.yaml", text).unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
    let outcome = simulate(Options { seed, latency: scenario.link, ..Options::default() }, async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
        runner::run(&scenario, &cluster, |_| {}).await
    });
    let exit = report::failure(&scenario, &outcome).map_or(Exit::Passed, |(exit, _)| exit);
    (outcome, exit)
}

/// Describes the problems of a run that should have passed.
fn why(outcome: &Outcome) -> String {
    format!("{:?} {:?} {:?} {:?}", outcome.failure, outcome.violations, outcome.silent_faults, outcome.leftovers)
}

/// Returns the migration with these steps after its own.
fn ends(steps: &[&str]) -> String {
    steps.iter().fold(MIGRATION.to_owned(), |text, step| format!("{text}  - {step}\n"))
}

/// Returns the migration with this step before its own.
fn begins(step: &str) -> String {
    let text = MIGRATION.replacen("\nsteps:\n", &format!("\nsteps:\n  - {step}\n"), 1);
    assert_ne!(text, MIGRATION);
    text
}

fn passes(text: &str) {
    for seed in 1..=2 {
        let (outcome, exit) = run(text, seed);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
    }
}

/// Returns the failure of a run, which must be at `step`.
fn fails(text: &str, step: &str) -> Failure {
    let (outcome, exit) = run(text, 1);
    assert_eq!(exit, Exit::Failed, "{}", why(&outcome));
    let failure = outcome.failure.unwrap();
    let line = text.lines().position(|line| line.contains(step)).unwrap() + 1;
    let steps = scenario::parse("t.yaml", text).unwrap().steps;
    let at = failure.step.map(|index| (steps[index].line, steps[index].column));
    assert_eq!(at, Some((line as u64, 5)), "{failure:?}");
    failure
}

#[test]
fn conditions_are_waited_for_and_expected() {
    passes(&ends(&[
        "wait: {object: pvc/data, that: \"self.status.phase == 'Bound'\", within: 2m}",
        "wait: {object: pod/web, is: Running, on: node-b, records: 1, that: \"self.spec.nodeName == 'node-b'\"}",
        "wait: {list: volumeattachments, that: \"self.size() == 1 && self[0].status.attached\"}",
        "wait: {list: pods, namespace: default, that: \"self.exists(p, p.metadata.name == 'web')\"}",
        "expect: {object: node/node-a, that: \"self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')\"}",
        "expect: {list: pods, namespace: kube-system, that: \"self.size() == 0\", within: 1s}",
    ]));
}

#[rstest]
#[case(
    "expect: {object: pvc/data, that: \"self.status.phase == 'Lost'\", within: 10s}",
    "self.status.phase = \"Bound\""
)]
#[case(
    "expect: {object: pvc/data, that: \"self.status.nope == 1\"}",
    "self.status.nope is not there, it cannot be evaluated: No such key: nope"
)]
#[case("expect: {object: pod/none, that: \"self.status.phase == 'Running'\"}", "it does not exist")]
#[case(
    "wait: {object: pod/web, is: Running, on: node-a, that: \"has(self.spec)\", within: 5s}",
    "phase Running, Ready=True, on node-b"
)]
#[case("expect: {list: pods, that: \"self.size() == 0\"}", "self = 1 of them: web")]
#[case(
    "expect: {object: pvc/data, that: \"self.status.phase\"}",
    "self.status.phase = \"Bound\", it gives a value, not true or false"
)]
fn a_condition_that_does_not_hold_shows_the_fields_that_it_mentions(#[case] step: &str, #[case] seen: &str) {
    let failure = fails(&ends(&[step]), step);
    assert!(failure.seen.starts_with(seen), "{failure:?}");
}

#[test]
fn calls_are_counted_since_a_step_by_what_they_are_about_and_how_they_ended() {
    let csi = |node: &str, times: &str| {
        format!(
            "expect: {{call: {{plane: csi, op: ControllerUnpublishVolume, where: {{node: {node}, volume: pvc/data, code: OK}}, \
             times: {times}}}, since: move}}"
        )
    };
    let text = ends(&[
        &csi("node-a", "1"),
        &csi("node-b", "{at-most: 0}"),
        "expect: {call: {plane: csi, op: NodeStageVolume, where: {node: node-b, process: node-b}, times: 1}, since: second home}",
        // Requests of the runner itself count only if they are named.
        "expect: {call: {plane: k8s, op: create, where: {resource: pods, subresource: ''}, times: 0}}",
        "expect: {call: {plane: k8s, op: create, where: {resource: pods, caller: mooring-scenario, status: 201}, times: 2}}",
        "expect: {call: {plane: k8s, op: delete, where: {resource: volumeattachments, status: 2*}, times: {at-least: 1}}}",
        "expect: {call: {plane: k8s, op: patch, where: {object: pod/web, subresource: status, caller: kubelet*}}}",
        "expect: {call: {plane: k8s, op: write, where: {object: node/node-c}, times: 0}}",
        "expect: {call: {plane: ec2, op: AttachVolume, where: {volume: pvc/data, instance: node-b, code: OK}, times: 1}, since: second home}",
        "expect: {call: {plane: ec2, op: AttachVolume, where: {instance: node-a}, times: 0}, since: second home}",
        "expect: {call: {plane: ec2, op: write}, within: 1m}",
    ]);
    passes(&text);
    // Requests that are counted are not stored as events.
    let (outcome, _) = run(&text, 1);
    assert!(outcome.events.iter().all(|event| !["api.request", "ec2.request"].contains(&event.kind())));
}

#[rstest]
#[case(
    "csi, op: ControllerUnpublishVolume, where: {node: node-b}",
    "there was none; there were ",
    "ControllerUnpublishVolume volume=vol-"
)]
#[case("csi, op: NodeStageVolume, times: 0", "there were 2: at ", " → OK")]
#[case("k8s, op: get, where: {resource: services}", "there was none; there were ", " → 200")]
#[case("ec2, op: AttachVolume, where: {code: VolumeInUse}", "there was none; there were 2: at ", " → OK")]
fn calls_that_were_not_made_so_often_show_those_that_were(#[case] call: &str, #[case] seen: &str, #[case] part: &str) {
    let step = format!("expect: {{call: {{plane: {call}}}}}");
    let failure = fails(&ends(&[&step]), &step);
    assert!(failure.seen.starts_with(seen) && failure.seen.contains(part), "{failure:?}");
}

#[test]
fn events_are_counted_and_can_be_demanded_to_be_absent() {
    passes(&ends(&[
        "expect: {event: {object: pod/web, reason: SuccessfulAttachVolume, times: 2}}",
        "expect: {event: {object: pod/web, reason: FailedMount, times: {at-most: 0}}}",
        "expect: {event: {object: pod/web, reason: Started, times: {at-least: 2, at-most: 2}, within: 10s}}",
    ]));
    let step = "expect: {event: {object: pod/web, reason: SuccessfulAttachVolume, times: 0}}";
    let failure = fails(&ends(&[step]), step);
    assert!(failure.seen.starts_with("it was recorded 2 times: "), "{failure:?}");
    assert!(failure.expected.ends_with(", never"), "{failure:?}");
}

#[test]
fn metrics_are_read_from_the_process_that_has_them() {
    passes(&ends(&[
        "expect: {metric: {of: mock-ec2, name: mock_ec2_requests_total, where: {action: AttachVolume, outcome: ok}, value: 2}}",
        "expect: {metric: {of: mock-ec2, name: mock_ec2_snapshots, value: 0}}",
        "expect: {metric: {of: fake-apiserver, name: apiserver_storage_objects, where: {resource: pods}, value: {at-least: 1, at-most: 1}}, within: 5s}",
        "expect: {metric: {of: kube-controller-manager, name: attach_detach_controller_attachdetach_controller_forced_detaches, value: 0}}",
    ]));
    let step =
        "expect: {metric: {of: mock-ec2, name: mock_ec2_requests_total, where: {action: DetachVolume}, value: 7}}";
    let failure = fails(&ends(&[step]), step);
    assert!(failure.seen.starts_with("it is 1: mock_ec2_requests_total{action=\"DetachVolume\""), "{failure:?}");
    let step = "expect: {metric: {of: mock-ec2, name: mock_ec2_request_total, value: 7}}";
    let failure = fails(&ends(&[step]), step);
    assert_eq!(
        failure.seen,
        "mock-ec2 has no metric `mock_ec2_request_total`: did you mean `mock_ec2_requests_total`?"
    );
}

#[test]
fn the_cloud_is_asked_what_it_has() {
    passes(&ends(&[
        "expect: {ec2: {volume: pvc/data, state: in-use, attached: [node-b], that: 'self.size == 1'}, within: 10s}",
        "expect: {ec2: {instance: node-a, state: running, that: \"self.instanceType == 'm5.large'\"}}",
        "expect: {ec2: {volumes: all, that: \"self.filter(v, v.size == 1).size() == 1\"}}",
        "delete: {object: pod/web}",
        "wait: {object: pod/web, is: gone}",
        "expect: {ec2: {volume: pvc/data, state: available, attached: []}, within: 3m}",
        "delete: {object: pvc/data}",
        "expect: {ec2: {volume: pvc/data, state: deleted}, within: 3m}",
    ]));
    for (demand, seen) in [
        ("volume: pvc/data, attached: [node-a]", "attached on node-b"),
        ("volume: pvc/data, state: available", "it is in-use"),
        ("volume: pvc/none, state: available", "pvc/none has no volume"),
        ("volume: pvc/data, that: 'self.size == 2'", "self.size = 1"),
        ("volume: pvc/data, that: 'self.siz == 2'", "self.siz is not there"),
        ("instance: node-b, state: stopped", "it is running"),
    ] {
        let step = format!("expect: {{ec2: {{{demand}}}}}");
        let failure = fails(&ends(&[&step]), &step);
        assert!(failure.seen.starts_with(seen), "{failure:?}");
    }
}

#[test]
fn a_step_can_demand_that_a_declared_deviation_occurs() {
    let step = "expect: {violation: kubelet-forgets-staged-volume}";
    let (outcome, exit) = run(&ends(&[step]), 1);
    let failure = outcome.failure.unwrap();
    assert_eq!((exit, failure.seen.starts_with("it did not occur")), (Exit::Failed, true), "{failure:?}");
    // The processes of the node end when the volume is about to be unstaged.
    let dies =
        "faults: [{name: dies, match: {plane: csi, op: NodeUnstageVolume}, when: {first: 1}, effect: {crash: node-a}}]";
    let help = "  - sleep: 30s\n  - crash: node-a\n  - sleep: 5s\n  - restart: node-a\n  - name: second home\n";
    let text = ends(&[step]).replacen("\nsteps:", &format!("\nteardown: false\n{dies}\nsteps:"), 1);
    passes(&text.replacen("  - name: second home\n", help, 1));
}

#[test]
fn a_never_step_that_holds_passes() {
    let text = ends(&[]).replacen(
        "\nsteps:\n",
        "
steps:
  - never: {object: pvc/data, that: \"self.status.phase == 'Lost'\"}
  - never: {object: pod/web, that: \"self.spec.nodeName == 'node-b'\", until: second home}
  - never: {list: volumeattachments, that: 'self.size() > 1'}
  - never: {call: {plane: csi, op: ControllerUnpublishVolume, where: {volume: pvc/data}}, until: move}
  - never: {call: {plane: csi, op: NodeStageVolume, where: {volume: pvc/data}, times: {at-least: 3}}}
  - never: {call: {plane: ec2, op: DetachVolume, where: {instance: node-b}}}
  - never: {call: {plane: k8s, op: delete, where: {resource: persistentvolumes}}}
  - never: {event: {object: pod/web, reason: FailedMount}}
  - never: {event: {object: pod/web, reason: SuccessfulAttachVolume, times: {at-least: 3}}}
  - never: {metric: {of: mock-ec2, name: mock_ec2_volumes, where: {state: error}, value: {at-least: 1}}}
  - never: {ec2: {volume: pvc/data, state: error}}
  - never: {ec2: {instance: node-a, state: stopped}, until: move}
",
        1,
    );
    passes(&text);
}

#[rstest]
#[case(
    "never: {object: pvc/data, that: \"self.status.phase == 'Bound'\"}",
    "revision",
    "self.status.phase = \"Bound\""
)]
#[case(
    "never: {list: volumeattachments, that: \"self.exists(a, has(a.metadata.deletionTimestamp))\"}",
    "revision",
    "self = 1 of them: csi-"
)]
#[case("never: {list: volumeattachments, that: 'self.size() == 0'}", "when it began", "self = []")]
#[case(
    "never: {call: {plane: csi, op: NodeStageVolume, where: {volume: pvc/data}}}",
    "there was one: ",
    "NodeStageVolume volume=vol-"
)]
#[case(
    "never: {call: {plane: csi, op: NodeStageVolume, times: {at-least: 2}}}",
    "there were 2: ",
    "NodeStageVolume volume=vol-"
)]
#[case("never: {call: {plane: csi, op: CreateVolume, where: {code: OK}}}", "there was one: ", "CreateVolume target=")]
#[case("never: {call: {plane: k8s, op: create, where: {resource: volumeattachments}}}", "there was one: ", " → 201")]
#[case("never: {call: {plane: ec2, op: DetachVolume, where: {instance: node-a}}}", "there was one: ", " → OK")]
#[case(
    "never: {event: {object: pod/web, reason: SuccessfulAttachVolume}}",
    "revision",
    "SuccessfulAttachVolume \"AttachVolume.Attach succeeded"
)]
#[case(
    "never: {metric: {of: mock-ec2, name: mock_ec2_attachments, where: {state: attached}, value: {at-least: 3}}}",
    "by its API",
    "it is 3"
)]
#[case(
    "never: {metric: {of: fake-apiserver, name: apiserver_storage_objects, where: {resource: persistentvolumes}, value: {at-least: 1}}}",
    "by its API",
    "it is 1"
)]
#[case("never: {ec2: {volume: pvc/data, attached: [node-b]}}", "at ", "attached on node-b")]
#[case(
    "never: {ec2: {volume: pvc/data, state: in-use, attached: [node-b]}}",
    "by its API",
    "it is in-use, attached on node-b"
)]
#[case("never: {ec2: {volumes: all, that: 'self.exists(v, v.size == 1)'}}", "by its API", "self = ")]
fn a_violated_never_step_fails_the_run_at_once(#[case] step: &str, #[case] how: &str, #[case] seen: &str) {
    let failure = fails(&begins(step), step);
    assert!(
        failure.seen.starts_with("at ") && failure.seen.contains(how) && failure.seen.contains(seen),
        "{failure:?}"
    );
    assert!(failure.expected.starts_with("never, from "), "{failure:?}");
}

#[rstest]
#[case("never: {object: pvc/data, that: \"self.status.fase == 'Lost'\"}", "self.status.fase is not there")]
#[case("never: {object: pvc/none, that: \"self.status.phase == 'Lost'\"}", "it does not exist")]
#[case("never: {metric: {of: mock-ec2, name: mock_ec2_volume, value: {at-least: 100}}}", "mock-ec2 has no metric")]
#[case("never: {ec2: {volume: pvc/none, state: error}}", "there is no such volume")]
#[case("never: {ec2: {volume: pvc/none, that: 'self.size == 7'}}", "pvc/none has no volume")]
fn a_never_that_has_looked_at_nothing_fails_the_run(#[case] step: &str, #[case] error: &str) {
    let failure = fails(&begins(step), step);
    assert!(failure.seen.starts_with("it was never checked") && failure.seen.contains(error), "{failure:?}");
}

#[test]
fn a_never_misses_no_revision_while_its_streams_break() {
    let faults = "faults: [{name: cut, match: {plane: k8s, op: watch-event, where: {caller: mooring-scenario}}, \
                  when: {every: 2}, effect: {watch: drop}}]";
    let step =
        "never: {object: pod/web, that: \"has(self.metadata.deletionTimestamp) && self.spec.nodeName == 'node-a'\"}";
    let text = begins(step).replacen("\nsteps:", &format!("\n{faults}\nsteps:"), 1);
    let failure = fails(&text, step);
    assert!(failure.seen.contains("self.spec.nodeName = \"node-a\""), "{failure:?}");
    let step = "never: {object: pod/web, that: \"self.status.phase == 'Failed'\"}";
    passes(&begins(step).replacen("\nsteps:", &format!("\n{faults}\nsteps:"), 1));
}

/// Each event of the watches of the steps meets the fault. A fault that never fires fails the run.
#[rstest]
fn a_wait_for_a_list_ends_although_its_watch_fails(#[values("drop", "gone", "gap", "stall")] effect: &str) {
    passes(&format!(
        "name: lists
nodes: {{count: 1}}
faults: [{{name: cut, match: {{plane: k8s, op: watch-event, where: {{caller: mooring-scenario}}}}, when: {{every: 1}}, effect: {{watch: {effect}}}}}]
steps:
  - claim: {{name: data}}
  - pod: {{name: web, claim: data}}
  - wait: {{list: pods, that: \"self.exists(p, p.status.phase == 'Running')\", within: 2m}}
  - delete: {{object: pod/web}}
  - wait: {{list: pods, namespace: default, that: \"self.size() == 0\", within: 2m}}
"
    ));
}

#[test]
fn a_run_with_all_of_them_is_the_same_twice() {
    let step = "never: {ec2: {volume: pvc/data, state: error}}";
    let more = "  - expect: {call: {plane: k8s, op: list, times: {at-least: 1}}}\n";
    let text = format!("{}{more}", begins(step));
    let lines = |outcome: &Outcome| outcome.events.iter().map(|event| event.line().text()).collect::<Vec<_>>();
    let (first, second) = (run(&text, 7).0, run(&text, 7).0);
    assert_eq!(lines(&first), lines(&second));
}

/// A detach without unmount, because the node is out of service.
#[test]
fn forced_detaches_are_counted_by_their_reason() {
    let name = "name: attach_detach_controller_attachdetach_controller_forced_detaches";
    let reason = |reason: &str, value: u64| {
        format!(
            "expect: {{metric: {{of: kube-controller-manager, {name}, where: {{reason: {reason}}}, value: {value}}}, within: 1m}}"
        )
    };
    let steps = [
        "crash: node-b",
        "wait: {object: node/node-b, is: Unknown}",
        "taint: {node: node-b, key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}",
        &reason("out-of-service", 1),
        &reason("timeout", 0),
    ];
    passes(&ends(&steps));
    let never = format!("never: {{metric: {{of: kube-controller-manager, {name}, value: {{at-least: 1}}}}}}");
    let text = begins(&never) + &ends(&steps)[MIGRATION.len()..];
    let failure = fails(&text, &never);
    assert!(failure.seen.contains("{reason=\"out-of-service\"} 1"), "{failure:?}");
}

#[test]
fn metrics_of_a_process_that_does_not_run_are_refused() {
    let step = "expect: {metric: {of: kube-controller-manager, name: x, value: 1}}";
    let text = ends(&[step]).replacen("\nsteps:", "\nwithout: [kube-controller-manager]\nsteps:", 1);
    let error = scenario::parse("t.yaml", &text).unwrap_err().render(false, 100);
    assert!(error.contains("`kube-controller-manager` has no metrics here"), "{error}");
}

#[test]
fn each_replica_reports_whether_it_leads() {
    let leads = |process: &str, value: u8| {
        format!(
            "expect: {{metric: {{of: {process}, name: leader_election_master_status, where: {{name: kube-scheduler}}, value: {value}}}}}"
        )
    };
    let steps = [leads("kube-scheduler", 1), leads("kube-scheduler-2", 0)];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let text = ends(&steps).replacen("\nsteps:", "\nreplicas: {kube-scheduler: 2}\nsteps:", 1);
    passes(&text);
}
