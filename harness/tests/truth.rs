//! A run that says "passed" means it: whole runs and scenario files in which something was wrong and was not seen.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use harness::cluster::{Cluster, ClusterSpec};
use harness::invariants::{Id, Violation};
use harness::output::Exit;
use harness::report;
use harness::runner::{self, Outcome};
use harness::scenario::{self, LatencyProfile, Scenario, ScenarioError};
use substrate::events::FaultFired;
use substrate::world::{Options, simulate};
use substrate::{Level, Line};

const FIRST_VOLUME: &str = include_str!("../../scenarios/first-volume.yaml");
const MIGRATION: &str = include_str!("../../scenarios/migration.yaml");
const OUT_OF_SERVICE: &str = include_str!("../../scenarios/out-of-service.yaml");

/// Reads a scenario text.
fn read(text: &str) -> Scenario {
    scenario::parse("test.yaml", text).unwrap_or_else(|e| panic!("{}", e.render(false, 100)))
}

/// Runs a scenario in virtual time.
fn run_at(scenario: &Scenario, seed: u64, level: Level) -> (Outcome, Exit) {
    let outcome = simulate(Options { seed, level, latency: scenario.link, ..Options::default() }, async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(scenario)).unwrap();
        runner::run(scenario, &cluster, |_| {}).await
    });
    let exit = report::failure(scenario, &outcome).map_or(Exit::Passed, |(exit, _)| exit);
    (outcome, exit)
}

/// Runs a scenario text.
fn run(text: &str, seed: u64) -> (Outcome, Exit) {
    run_at(&read(text), seed, Level::Info)
}

/// What a run found.
fn why(outcome: &Outcome) -> String {
    format!("{:?} {:?} {:?} {:?}", outcome.failure, outcome.violations, outcome.silent_faults, outcome.leftovers)
}

/// `text` with `more` before its steps.
fn with(text: &str, more: &str) -> String {
    let all = text.replacen("\nsteps:", &format!("\n{more}\nsteps:"), 1);
    assert_ne!(all, text, "the file has steps");
    all
}

/// `text` with these faults in force.
fn with_faults(text: &str, faults: &[&str]) -> String {
    let list: String = faults.iter().map(|fault| format!("  - {fault}\n")).collect();
    with(text, &format!("faults:\n{list}"))
}

/// The lines of a run of this kind.
fn lines(outcome: &Outcome, kind: &str) -> Vec<Line> {
    outcome.events.iter().filter(|e| e.kind() == kind).map(|e| e.line()).collect()
}

/// The calls of an RPC on a node or in a driver process, in order, with their milliseconds.
fn calls(outcome: &Outcome, rpc: &str) -> Vec<Line> {
    lines(outcome, "csi.call").into_iter().filter(|line| line.str("rpc") == Some(rpc)).collect()
}

fn of<'a>(outcome: &'a Outcome, id: &str) -> Vec<&'a Violation> {
    outcome.violations.iter().filter(|v| v.id == id).collect()
}

/// The node's processes die as the volume is about to be unstaged; the pod's directory is gone by then.
const FORGETS: &str =
    "{name: dies, match: {plane: csi, op: NodeUnstageVolume}, when: {first: 1}, effect: {crash: node-a}}";

#[test]
fn a_volume_that_is_detached_while_it_is_staged_is_a_violation_of_i2() {
    let text = with_faults(MIGRATION, &[FORGETS]);
    for seed in 1..=3 {
        let (outcome, exit) = run(&text, seed);
        assert_eq!(exit, Exit::Failed, "seed {seed}: {}", why(&outcome));
        let [found] = of(&outcome, "I2")[..] else { panic!("seed {seed}: {}", why(&outcome)) };
        assert_eq!((found.process.as_str(), found.operation.as_str()), ("csi-controller", "ControllerUnpublishVolume"));
        assert_eq!((found.node.as_deref(), &found.declared), (Some("node-a"), &None));
        // The kubelet had started when the volume was detached, and nothing had unstaged it.
        let staged = lines(&outcome, "disk.staged")[0].n;
        let unstaged = lines(&outcome, "disk.unstaged").iter().find(|l| l.str("node") == Some("node-a")).map(|l| l.n);
        assert!(staged < found.n && unstaged.is_none_or(|n| n > found.n), "{staged} {unstaged:?} {found:?}");
        assert!(outcome.checked.get(Id::I2) >= 1);
    }
}

/// The cloud finds the device mounted, and nothing will ever unmount it but the end of the machine. The directory that it
/// was mounted at stays, which a teardown would find.
fn forgets_and_is_rebooted(more: &str) -> String {
    let help = "  - sleep: 30s\n  - crash: node-a\n  - sleep: 5s\n  - restart: node-a\n";
    let text = with(&with_faults(MIGRATION, &[FORGETS]), &format!("teardown: false\n{more}"));
    let helped = text.replacen("  - name: second home\n", &format!("{help}  - name: second home\n"), 1);
    assert_ne!(helped, text);
    helped
}

#[test]
fn a_deviation_of_upstream_that_a_file_declares_passes_and_must_occur() {
    let declared = "violations: [kubelet-forgets-staged-volume]\n";
    for seed in 1..=3 {
        let (outcome, exit) = run(&forgets_and_is_rebooted(""), seed);
        assert_eq!((exit, outcome.failure.is_none()), (Exit::Failed, true), "seed {seed}: {}", why(&outcome));
        let (outcome, exit) = run(&forgets_and_is_rebooted(declared), seed);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
        let [found] = of(&outcome, "I2")[..] else { panic!("seed {seed}: {}", why(&outcome)) };
        assert_eq!(found.declared.as_deref(), Some("kubelet-forgets-staged-volume"));
    }
    let (outcome, exit) = run(&with(MIGRATION, declared), 1);
    assert_eq!(exit, Exit::Failed, "{}", why(&outcome));
    assert!(outcome.failure.unwrap().expected.contains("kubelet-forgets-staged-volume"));
    // Another deviation is not this one.
    let (outcome, exit) = run(&forgets_and_is_rebooted("violations: [out-of-service-taint-from-cache]\n"), 1);
    assert_eq!(exit, Exit::Failed, "{}", why(&outcome));
    let found = of(&outcome, "I2");
    assert!(!found.is_empty() && found.iter().all(|v| v.declared.is_none()), "{}", why(&outcome));
}

#[test]
fn every_detach_of_a_volume_that_was_staged_is_looked_at() {
    let (outcome, exit) = run(MIGRATION, 1);
    assert_eq!(exit, Exit::Passed, "{}", why(&outcome));
    // One for the move, one for the teardown; both moves of a node are seen from the first event.
    assert_eq!((outcome.checked.get(Id::I2), outcome.checked.get(Id::I1)), (2, 1));
    for id in Id::ALL {
        assert!(outcome.checked.get(*id) >= 1, "{id}: {}", outcome.checked);
    }
    // What a file demands and does not get fails it at its place.
    let demanded = format!("{MIGRATION}  - expect: {{checked: {{I2: 3}}}}\n");
    let (outcome, exit) = run(&demanded, 1);
    let failure = outcome.failure.unwrap();
    assert_eq!((exit, failure.seen.as_str()), (Exit::Failed, "there were 2"), "{failure:?}");
    assert_eq!(failure.position.unwrap().0, MIGRATION.lines().count() as u64 + 1);
}

/// A claim and pods that use it.
fn shared(class: &str, mode: &str, volume_mode: &str, mount: &str) -> String {
    let pod = |name: &str, node: &str| {
        format!(
            "      - apiVersion: v1
        kind: Pod
        metadata: {{name: {name}}}
        spec:
          nodeSelector: {{kubernetes.io/hostname: {node}}}
          containers: [{{name: writer, image: mooring/writer, {mount}}}]
          volumes: [{{name: data, persistentVolumeClaim: {{claimName: data}}}}]
"
        )
    };
    format!(
        "name: shared
nodes: {{count: 2}}
deadline: 30m
objects:
  - apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {{name: fast}}
    provisioner: ebs.csi.aws.com
    parameters: {{{class}}}
    reclaimPolicy: Delete
    volumeBindingMode: WaitForFirstConsumer
steps:
  - apply:
      - apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {{name: data}}
        spec:
          accessModes: [{mode}]
          volumeMode: {volume_mode}
          storageClassName: fast
          resources: {{requests: {{storage: 8Gi}}}}
{}{}  - wait: {{object: pod/one, is: Running, on: node-a, within: 5m}}
  - wait: {{object: pod/two, is: Running, on: node-b, within: 5m}}
",
        pod("one", "node-a"),
        pod("two", "node-b"),
    )
}

#[test]
fn a_volume_that_several_nodes_may_write_to_is_no_violation_of_i1_and_is_counted() {
    let raw = "volumeDevices: [{name: data, devicePath: /dev/data}]";
    let text = shared("type: io2, iops: '1000'", "ReadWriteMany", "Block", raw);
    for seed in 1..=3 {
        let (outcome, exit) = run(&text, seed);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
        assert_eq!((outcome.checked.shared_volumes, outcome.checked.get(Id::I1)), (1, 0), "{}", outcome.checked);
        let nodes: Vec<String> =
            lines(&outcome, "disk.staged").iter().map(|l| l.str("node").unwrap().to_owned()).collect();
        assert!(nodes.contains(&"node-a".to_owned()) && nodes.contains(&"node-b".to_owned()), "{nodes:?}");
    }
}

#[test]
fn a_volume_of_one_node_is_judged_and_not_counted_as_shared() {
    let (outcome, _) = run(MIGRATION, 1);
    assert_eq!((outcome.checked.shared_volumes, outcome.checked.get(Id::I1)), (0, 1));
}

/// A node whose out-of-service taint was taken off while the node watch of kube-controller-manager was frozen: the
/// detach of the next pod's volume is forced although the node is Ready and has the volume staged (kubernetes#141888).
fn stale_taint(before: &str) -> String {
    let (head, steps) = FIRST_VOLUME.split_once("steps:\n").unwrap();
    let steps = steps.replacen(
        "spec:\n        containers",
        "spec:\n        nodeSelector: {kubernetes.io/hostname: node-a}\n        containers",
        1,
    );
    assert!(steps.contains("nodeSelector"));
    format!(
        "{head}{before}steps:
  - taint: {{node: node-a, key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoSchedule}}
  - sleep: 5s
  - fault: {{name: frozen, match: {{plane: k8s, op: watch-event, where: {{resource: nodes, userAgent: kube-controller-manager*}}}}, effect: {{watch: stall}}}}
  - untaint: {{node: node-a, key: node.kubernetes.io/out-of-service}}
{steps}  - delete: {{object: pod/web, force: true, grace: 0s}}
  - wait: {{object: pod/web, is: gone, within: 2m}}
  - sleep: 1m
  - clear-fault: frozen
"
    )
}

#[test]
fn a_force_that_only_a_stale_cache_allows_is_a_violation_of_i2() {
    for seed in 1..=3 {
        let (outcome, exit) = run(&stale_taint(""), seed);
        assert_eq!(exit, Exit::Failed, "seed {seed}: {}", why(&outcome));
        let [found] = of(&outcome, "I2")[..] else { panic!("seed {seed}: {}", why(&outcome)) };
        assert_eq!(found.node.as_deref(), Some("node-a"));
        assert_eq!(found.details["wronglyForced"], "out-of-service");
        let declared = stale_taint("violations: [out-of-service-taint-from-cache]\n");
        let (outcome, exit) = run(&declared, seed);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
        let declared = stale_taint("violations: [kubelet-forgets-staged-volume]\n");
        assert_eq!(run(&declared, seed).1, Exit::Failed, "a declaration hides nothing else");
    }
}

/// The legitimate force of `out-of-service`, and then a wrongful one of the same volume on the node that it moved to.
#[test]
fn a_legitimate_force_excuses_one_volume_on_one_node_once() {
    let (legitimate, exit) = run(OUT_OF_SERVICE, 1);
    assert_eq!(exit, Exit::Passed, "{}", why(&legitimate));
    let forced: Vec<Line> =
        lines(&legitimate, "ad.detach").into_iter().filter(|l| l.fields["forced"] == true).collect();
    assert_eq!(forced.len(), 1, "the force is on record: {forced:?}");
    let more = "
  - taint: {node: node-b, key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoSchedule}
  - sleep: 5s
  - fault: {name: frozen, match: {plane: k8s, op: watch-event, where: {resource: nodes, userAgent: kube-controller-manager*}}, effect: {watch: stall}}
  - untaint: {node: node-b, key: node.kubernetes.io/out-of-service}
  - sleep: 5s
  - delete: {object: pod/web-2, force: true, grace: 0s}
  - wait: {object: pod/web-2, is: gone, within: 2m}
  - sleep: 1m
  - clear-fault: frozen
";
    for seed in 1..=3 {
        let (outcome, exit) = run(&format!("{OUT_OF_SERVICE}{more}"), seed);
        assert_eq!(exit, Exit::Failed, "seed {seed}: {}", why(&outcome));
        let [found] = of(&outcome, "I2")[..] else { panic!("seed {seed}: {}", why(&outcome)) };
        assert_eq!(
            (found.node.as_deref(), found.details["wronglyForced"].as_str()),
            (Some("node-b"), Some("out-of-service"))
        );
    }
}

/// The error of a first-volume story with this fault, and the line of the fault.
fn refused(fault: &str) -> (Box<ScenarioError>, u64, String) {
    let text = with_faults(FIRST_VOLUME, &[fault]);
    let line = text.lines().position(|l| l.contains(fault)).unwrap() as u64 + 1;
    let written = text.lines().nth(line as usize - 1).unwrap().to_owned();
    match scenario::parse("test.yaml", &text) {
        Ok(_) => panic!("it is accepted: {fault}"),
        Err(error) => (error, line, written),
    }
}

#[test]
fn what_is_misspelled_in_a_fault_is_refused_with_its_place_and_the_nearest_word() {
    let stage = "plane: csi, op: NodeStageVolume";
    let cases = [
        (format!("{{name: f, match: {{{stage}}}, effect: {{crash: controler}}}}"), "controler", "controllers"),
        (
            format!("{{name: f, match: {{{stage}}}, effect: {{crash: node-a/kublet}}}}"),
            "node-a/kublet",
            "node-a/kubelet",
        ),
        (format!("{{name: f, match: {{{stage}}}, effect: {{reboot: nod-a}}}}"), "nod-a", "node-a"),
        (format!("{{name: f, match: {{{stage}}}, effect: {{grpc: ABORTD}}}}"), "ABORTD", "ABORTED"),
        (format!("{{name: f, match: {{{stage}}}, effect: {{grcp: ABORTED}}}}"), "grcp", "grpc"),
        ("{name: f, match: {plane: disk, op: write}, effect: {io_error: EIIO}}".into(), "EIIO", "EIO"),
        ("{name: f, match: {plane: k8s, op: patch}, effect: {error: Conflit}}".into(), "Conflit", "Conflict"),
        ("{name: f, match: {plane: k8s, op: watch-event}, effect: {watch: stal}}".into(), "stal", "stall"),
        (
            "{name: f, match: {plane: csi, op: NodeStageVolum}, effect: {count: true}}".into(),
            "NodeStageVolum",
            "NodeStageVolume",
        ),
        ("{name: f, match: {plane: k8s, op: [get, wriet]}, effect: {count: true}}".into(), "wriet", "write"),
        (
            "{name: f, match: {plane: ec2, op: AttachVolume, where: {volum: vol-1}}, effect: {count: true}}".into(),
            "volum",
            "volume",
        ),
        (
            "{name: f, match: {plane: k8s, op: watch-event, where: {type: ADDD}}, effect: {count: true}}".into(),
            "ADDD",
            "ADDED",
        ),
        (
            "{name: f, match: {plane: k8s, op: get, where: {process: fake-apisever}}, effect: {count: true}}".into(),
            "fake-apisever",
            "fake-apiserver",
        ),
        (
            format!("{{name: f, match: {{{stage}}}, effect: {{count: true}}, at: after_efect}}"),
            "after_efect",
            "after_effect",
        ),
        (
            format!("{{name: f, match: {{{stage}}}, effect: {{drop_request: true}}, at: after_effect}}"),
            "after_effect",
            "before",
        ),
        ("{name: f, match: {plane: clok, op: wall}, effect: {count: true}}".into(), "clok", "clock"),
        ("{name: f, match: {plane: link}, effect: {partition: [node-a, apisever]}}".into(), "apisever", "apiserver"),
        (
            "{name: f, match: {plane: link}, effect: {partition_one_way: [nobody-a, apiserver]}}".into(),
            "nobody-a",
            "node-a",
        ),
        (
            format!("{{name: f, match: {{{stage}}}, when: {{until: pvc/data=Bond}}, effect: {{count: true}}}}"),
            "pvc/data=Bond",
            "Bound",
        ),
        (
            format!("{{name: f, match: {{{stage}}}, when: {{until: pvcs/data}}, effect: {{count: true}}}}"),
            "pvcs/data",
            "",
        ),
        (format!("{{name: f, match: {{{stage}}}, when: {{frist: 1}}, effect: {{count: true}}}}"), "frist", "first"),
    ];
    let mut wrong = Vec::new();
    for (fault, word, nearest) in &cases {
        let (error, line, written) = refused(fault);
        let column = written[..written
            .find(&format!(" {word}"))
            .or_else(|| written.find(&format!("[{word}")).or_else(|| written.find(&format!("{{{word}"))))
            .unwrap()]
            .chars()
            .count() as u64
            + 2;
        let place = (error.line(), error.column());
        let said = format!("{error} {}", error.advice().unwrap_or_default());
        if place != (line, column)
            || error.text() != *word
            || !said.contains(&format!("`{nearest}`")) && !nearest.is_empty()
        {
            wrong.push(format!(
                "{fault}\n  want {:?} {word} -> {nearest}\n  got {place:?} {:?} {said}",
                (line, column),
                error.text()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_condition_under_which_a_fault_could_never_fire_is_refused_with_its_place() {
    let cases = [
        ("{first: 0}", "first", "counts from 1"),
        ("{nth: 0}", "nth", "counts from 1"),
        ("{every: 0}", "every", "counts from 1"),
        ("{first: 1, nth: 2}", "nth", "does not go with `first`"),
        ("{nth: 2, every: 2}", "every", "does not go with `nth`"),
        ("{first: 1, every: 2}", "every", "could never fire"),
        ("{probability: 0}", "probability", "more than 0"),
        ("{for: 0s}", "for", "longer than nothing"),
    ];
    let mut wrong = Vec::new();
    for (when, field, message) in cases {
        let fault =
            format!("{{name: f, match: {{plane: csi, op: NodeStageVolume}}, when: {when}, effect: {{count: true}}}}");
        let (error, line, written) = refused(&fault);
        let said = error.to_string();
        let column = written[..written.find(&format!("{field}:")).unwrap()].chars().count() as u64 + 1;
        assert!(said.contains(&format!("when.{field}: ")) && said.contains(message), "{when}: {said}");
        let value = written[column as usize - 1..].split([':', ',', '}']).nth(1).unwrap().trim().to_owned();
        let place = (error.line(), error.column());
        let at_value = (line, column + field.len() as u64 + 2);
        if place != (line, column) && place != at_value {
            wrong.push(format!("{when}: want {:?} or {at_value:?} ({value}), got {place:?}", (line, column)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_crash_before_a_call_prevents_it_and_one_after_its_effect_does_not() {
    let at = |moment: &str| {
        let fault = format!(
            "{{name: f, match: {{plane: csi, op: NodeStageVolume}}, when: {{first: 1}}, effect: {{crash: node-a/csi-node}}, at: {moment}}}"
        );
        let (outcome, exit) = run(&with_faults(&on_node_a(), &[&fault]), 1);
        assert_eq!(exit, Exit::Passed, "{moment}: {}", why(&outcome));
        let of_driver = |kind| lines(&outcome, kind).into_iter().filter(|l| &*l.process == "node-a/csi-node");
        let crashed = of_driver("process.crashed").next().unwrap().n;
        let back = of_driver("process.started").nth(1).unwrap().n;
        let first = lines(&outcome, "disk.staged")[0].n;
        let done = calls(&outcome, "NodeStageVolume");
        assert!(done.len() >= 2 && done[0].n < crashed, "the call had begun, and there is another");
        (first < back, lines(&outcome, "disk.staged").len(), first < crashed)
    };
    let (before, _, _) = at("before");
    assert!(!before, "nothing is staged before the driver is back");
    let (after, _, ahead) = at("after_effect");
    assert!(after && ahead, "it is staged when the driver ends");
    let (last, _, ahead) = at("before_reply");
    assert!(last && ahead);
}

/// The first-volume story on node-a.
fn on_node_a() -> String {
    let text = FIRST_VOLUME.replacen(
        "spec:\n        containers",
        "spec:\n        nodeSelector: {kubernetes.io/hostname: node-a}\n        containers",
        1,
    );
    assert_ne!(text, FIRST_VOLUME);
    text
}

#[test]
fn each_process_can_end_alone_in_the_middle_of_a_story() {
    let victims = [
        ("kube-controller-manager", "csi", "CreateVolume"),
        ("kube-scheduler", "csi", "CreateVolume"),
        ("csi-attacher", "csi", "ControllerPublishVolume"),
        ("csi-provisioner", "csi", "CreateVolume"),
        ("csi-resizer", "csi", "CreateVolume"),
        ("csi-controller", "ec2", "AttachVolume"),
        ("node-a/kubelet", "csi", "NodeStageVolume"),
        ("node-a/csi-node", "csi", "NodePublishVolume"),
    ];
    for (victim, plane, op) in victims {
        for seed in 1..=2 {
            let fault = format!(
                "{{name: f, match: {{plane: {plane}, op: {op}}}, when: {{first: 1}}, effect: {{crash: {victim}}}}}"
            );
            let (outcome, exit) = run(&with_faults(&on_node_a(), &[&fault]), seed);
            assert_eq!(exit, Exit::Passed, "{victim}, seed {seed}: {}", why(&outcome));
            let ended: Vec<String> = lines(&outcome, "process.crashed").iter().map(|l| l.process.to_string()).collect();
            assert_eq!(ended, [victim], "it alone ended, once, seed {seed}");
            let begun = lines(&outcome, "process.started").iter().filter(|l| &*l.process == victim).count();
            assert_eq!(begun, 2, "{victim} came back");
        }
    }
}

#[test]
fn containers_outlive_the_kubelet_and_the_driver() {
    let (head, rest) = on_node_a()
        .split_once("  - wait: {object: pod/web, records: 3, within: 1m}\n")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    for victim in ["node-a/kubelet", "node-a/csi-node"] {
        let text = format!(
            "{head}  - wait: {{object: pod/web, records: 3, within: 1m}}
  - crash: {victim}
  - wait: {{object: pod/web, records: 6, within: 1m}}
  - sleep: 10s
  - restart: {victim}
  - wait: {{object: pod/web, records: 8, within: 1m}}
  - wait: {{object: pod/web, is: Running, on: node-a, within: 1m}}
{rest}"
        );
        let (outcome, exit) = run(&text, 1);
        assert_eq!(exit, Exit::Passed, "{victim}: {}", why(&outcome));
        let crashed = lines(&outcome, "process.crashed");
        assert_eq!(crashed.iter().map(|l| &*l.process).collect::<Vec<_>>(), [victim]);
        let back = lines(&outcome, "process.started").into_iter().rfind(|l| &*l.process == victim).unwrap();
        let between = |kind: &str| lines(&outcome, kind).iter().filter(|l| l.n > crashed[0].n && l.n < back.n).count();
        assert_eq!(between("workload.stopped"), 0, "{victim}");
        assert!(between("workload.synced") >= 3, "{victim}: records go on while it is down");
        // The container was started once, and stopped by the teardown alone.
        assert_eq!((lines(&outcome, "workload.started").len(), lines(&outcome, "workload.stopped").len()), (1, 1));
    }
}

#[test]
fn a_condition_ends_a_fault() {
    let fires = |when: &str| {
        let fault = format!("{{name: f, match: {{plane: k8s, op: write}}, when: {{{when}}}, effect: {{count: true}}}}");
        let (outcome, exit) = run(&with_faults(FIRST_VOLUME, &[&fault]), 1);
        assert_eq!(exit, Exit::Passed, "{}", why(&outcome));
        let bound = lines(&outcome, "api.commit")
            .into_iter()
            .find(|l| l.fields["pvc"]["phase"] == "Bound")
            .unwrap_or_else(|| panic!("the claim is bound"));
        let fired: Vec<u64> = lines(&outcome, "fault.fired").iter().map(|l| l.ms).collect();
        (bound.ms, fired)
    };
    let (bound, fired) = fires("until: pvc/data=Bound");
    let last = fired.iter().max().unwrap();
    assert!(fired[0] < bound && *last <= bound + 100, "bound at {bound}, fired at {fired:?}");
    let (bound, fired) = fires("every: 1");
    assert!(fired.iter().filter(|ms| **ms > bound + 100).count() > 10, "{bound} {fired:?}");
}

#[test]
fn a_hang_ends_with_its_fault() {
    let fault =
        "{name: f, match: {plane: csi, op: NodeStageVolume}, when: {after: 0s, for: 40s}, effect: {hang: true}}";
    let (outcome, exit) = run(&with_faults(FIRST_VOLUME, &[fault]), 1);
    assert_eq!(exit, Exit::Passed, "{}", why(&outcome));
    let fired = lines(&outcome, "fault.fired");
    let added = lines(&outcome, "scenario.step")[0].ms;
    let staged = lines(&outcome, "disk.staged")[0].ms;
    assert!(fired[0].ms < added + 39_000, "{fired:?}");
    assert!((added + 39_000..added + 41_000).contains(&staged), "the call that hung goes on: {added} {staged}");
    assert_eq!(calls(&outcome, "NodeStageVolume").len(), 1, "it is the same call");
}

#[test]
fn a_skewed_clock_shows_in_the_lease_of_its_process() {
    for process in ["csi-attacher", "kube-scheduler"] {
        let fault =
            format!("{{name: skewed, match: {{plane: clock, where: {{process: {process}}}}}, effect: {{skew: +1h}}}}");
        let text = with(&with_faults(FIRST_VOLUME, &[&fault]), "leader-elect: true\n");
        let scenario = read(&text);
        let leases = simulate(Options::default(), async |world| {
            let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
            cluster.add_fault(&scenario.faults[0]).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_secs(30)).await;
            let lease = scenario::Kind::of_word("lease").unwrap();
            cluster.objects().list(lease).await.unwrap()
        });
        let mut shifted = 0;
        let renewals: Vec<(String, String)> = leases
            .iter()
            .filter_map(|l| {
                let holder = l["spec"]["holderIdentity"].as_str()?.to_owned();
                Some((holder, l["spec"]["renewTime"].as_str()?.to_owned()))
            })
            .collect();
        let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
        let usual = renewals.iter().map(|(_, at)| at).min().unwrap();
        for (holder, renewed) in &renewals {
            let ahead = at(renewed).as_second() - at(usual).as_second();
            if holder.starts_with(process) {
                assert!((3500..3700).contains(&ahead), "{holder} {renewed} {usual}");
                shifted += 1;
            } else {
                assert!(ahead < 60, "{holder} {renewed} {usual}");
            }
        }
        assert_eq!(shifted, 1, "{renewals:?}");
        let (outcome, exit) = run(&text, 1);
        assert_eq!(exit, Exit::Passed, "{process}: {}", why(&outcome));
    }
}

#[test]
fn a_leader_that_is_cut_off_in_the_middle_of_a_move_is_replaced() {
    for seed in 1..=3 {
        // Whoever leads at first is the first replica to ask.
        let text = with(MIGRATION, "replicas: 2\n");
        let (outcome, exit) = run(&text, seed);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
        let elected = lines(&outcome, "leader.elected");
        let leader = elected.iter().find(|l| l.str("lease").unwrap().contains("kube-controller-manager")).unwrap();
        let leader = leader.process.to_string();
        let cut =
            format!("  - fault: {{name: cut, match: {{plane: link}}, effect: {{partition: [{leader}, apiserver]}}}}\n");
        let text = text.replacen("  - name: move\n", &format!("{cut}  - name: move\n"), 1);
        let (outcome, exit) = run(&text, seed);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
        let cut_at = lines(&outcome, "fault.fired")[0].ms;
        let elected = lines(&outcome, "leader.elected");
        let next = elected
            .iter()
            .find(|l| l.str("lease").unwrap().contains("kube-controller-manager") && l.ms > cut_at)
            .unwrap_or_else(|| panic!("seed {seed}: nobody took over"));
        assert_ne!(&*next.process, leader);
        let lost = lines(&outcome, "leader.lost");
        let lost =
            lost.iter().find(|l| *l.process == *leader).unwrap_or_else(|| panic!("seed {seed}: it never gave up"));
        // Upstream: it gives up within its renew deadline (10 s), and the lease lasts longer (15 s).
        assert!(lost.ms < next.ms, "seed {seed}: lost at {}, next at {}", lost.ms, next.ms);
        // Of attaches and detaches after the cut each is the new leader's, but for those that the old one had begun.
        let acts = ["ad.attach", "ad.detach"].into_iter().flat_map(|kind| lines(&outcome, kind));
        for act in acts {
            let allowed = if act.ms > lost.ms { *act.process != *leader || act.ms > next.ms } else { true };
            assert!(allowed, "seed {seed}: {act:?}");
            if act.ms < next.ms {
                assert_eq!(&*act.process, leader, "seed {seed}: {act:?}");
            }
        }
        assert!(of(&outcome, "I1").is_empty() && of(&outcome, "I2").is_empty());
    }
}

#[test]
fn a_move_passes_with_the_latencies_of_aws() {
    let mut scenario = read(MIGRATION);
    scenario.latency = LatencyProfile::Aws;
    for seed in 2055..2070 {
        let (outcome, exit) = run_at(&scenario, seed, Level::Info);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
    }
}

#[test]
fn out_of_service_keeps_its_bounds_with_the_latencies_of_aws() {
    let mut scenario = read(OUT_OF_SERVICE);
    scenario.latency = LatencyProfile::Aws;
    for seed in 2050..2056 {
        let (outcome, exit) = run_at(&scenario, seed, Level::Info);
        assert_eq!(exit, Exit::Passed, "seed {seed}: {}", why(&outcome));
    }
}

#[test]
fn a_fault_that_never_fires_tells_its_near_misses() {
    let fault = "{name: f, match: {plane: csi, op: NodeStageVolume}, when: {nth: 7}, effect: {grpc: ABORTED}}";
    let scenario = read(&with_faults(FIRST_VOLUME, &[fault]));
    let (outcome, exit) = run_at(&scenario, 1, Level::Info);
    assert_eq!(exit, Exit::Failed, "{}", why(&outcome));
    let silent = &outcome.silent_faults[0];
    assert_eq!((silent.name.as_str(), silent.near_misses), ("f", 1));
    assert_eq!(silent.near, ["NodeStageVolume: it was the 1st, which is not its turn"]);
    assert!(!outcome.events.iter().any(|e| e.is::<FaultFired>()));
    let (_, failure) = report::failure(&scenario, &outcome).unwrap();
    assert_eq!(failure.code, "fault-never-fired");
    assert!(failure.message.contains("near misses: 1\n  NodeStageVolume: it was the 1st"), "{}", failure.message);
    // Another plane's operation is near by its attribute.
    let fault = "{name: f, match: {plane: ec2, op: AttachVolume, where: {volume: vol-0*}}, when: {first: 1}, effect: {error: SlowDown}}";
    let far = fault.replace("vol-0*", "vol-none");
    let (outcome, exit) = run(&with_faults(FIRST_VOLUME, &[&far]), 1);
    assert_eq!(exit, Exit::Failed);
    let near = &outcome.silent_faults[0].near[0];
    assert!(near.starts_with("AttachVolume: volume was `vol-") && near.ends_with("not `vol-none`"), "{near}");
    assert_eq!(run(&with_faults(FIRST_VOLUME, &[fault]), 1).1, Exit::Passed);
}
