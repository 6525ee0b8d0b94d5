use std::time::Duration;

use rstest::rstest;

use super::*;

mod acts;
mod conditions;
mod mistakes;

/// A file of two nodes with these steps.
fn with_steps(steps: &str) -> String {
    format!("name: t\nnodes: {{count: 2}}\nsteps:\n{steps}")
}

/// A file of two nodes with this line.
fn with_line(line: &str) -> String {
    format!("name: t\nnodes: {{count: 2}}\n{line}\n")
}

fn refusal(text: &str) -> Box<ScenarioError> {
    parse("t.yaml", text).expect_err("the text has a mistake")
}

#[test]
fn workloads_and_owners_are_found() {
    let found = |manifest: &str| {
        let scenario = parse("t.yaml", &with_line(&format!("objects: [{manifest}]"))).expect("a scenario");
        (scenario.has_workloads(), scenario.has_owners())
    };
    let budget = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {minAvailable: 1}}";
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
    assert_eq!((found(budget), found(map)), ((true, true), (false, false)));
}

#[test]
fn rare_workloads_are_found() {
    let rare = |text: &str| {
        let scenario = parse("t.yaml", text).expect("a scenario");
        (scenario.rare_workloads().into_iter().collect::<Vec<_>>(), scenario.has_workloads(), scenario.has_owners())
    };
    let cron = "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: '* * * * *', jobTemplate: \
                {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}}}";
    assert_eq!(rare(&with_line(&format!("objects: [{cron}]"))), (vec!["CronJob"], true, true));
    assert_eq!(rare(&with_steps(&format!("  - apply: {cron}\n"))), (vec!["CronJob"], true, true));
    assert_eq!(rare(&with_steps("  - claim: {name: data}\n")), (vec![], false, false));
}

#[test]
fn a_kind_that_no_loop_works_on_deserves_a_look() {
    let manifest = "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, \
                    spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: b}}}";
    let remarks = |text: &str| {
        let scenario = parse("t.yaml", text).expect("a scenario");
        scenario.remarks.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let expected = "HorizontalPodAutoscaler is stored, but this cluster has no metrics: it scales only to its limits";
    assert_eq!(remarks(&with_line(&format!("objects: [{manifest}]"))), [format!("t.yaml:3:40: {expected}")]);
    assert_eq!(remarks(&with_steps(&format!("  - apply: {manifest}\n"))), [format!("t.yaml:4:41: {expected}")]);
    assert_eq!(remarks(&with_steps("  - claim: {name: data}\n")), Vec::<String>::new());
    let theirs = with_line(&format!("without: [kube-controller-manager]\nobjects: [{manifest}]"));
    assert_eq!(remarks(&theirs), Vec::<String>::new());
}

#[test]
fn a_name_that_is_near_to_one_of_the_file_deserves_a_look() {
    let remarks = |step: &str| {
        let text = with_steps(&format!("  - claim: {{name: data}}\n  - pod: {{name: web, claim: data}}\n  - {step}\n"));
        let scenario = parse("t.yaml", &text).expect("a scenario");
        scenario.remarks.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let expected = |column: u32, wrong: &str, right: &str| {
        [format!("t.yaml:6:{column}: this file does not create {wrong}; did you mean {right}?")]
    };
    assert_eq!(remarks("delete: {object: pod/wbe}"), expected(22, "pod/wbe", "pod/web"));
    assert_eq!(remarks("wait: {object: pvc/dta, is: Bound}"), expected(20, "pvc/dta", "pvc/data"));
    assert_eq!(remarks("expect: {attached: {claim: dat, node: node-a}}"), expected(32, "pvc/dat", "pvc/data"));
    assert_eq!(remarks("delete: {object: node/nod-a}"), expected(22, "node/nod-a", "node/node-a"));
    for known in ["pod/web", "pod/team-a/wbe", "pod/web-0", "pod/web2", "pod/other", "pvc/web", "node/node-a"] {
        assert_eq!(remarks(&format!("delete: {{object: {known}}}")), Vec::<String>::new(), "{known}");
    }
}

#[rstest]
#[case("name: T\nnodes: {count: 1}\n", "t.yaml:1:7: `T` is not an object name", "T", "")]
#[case("name: t\nnodes: {count: 0}\n", "t.yaml:2:16: a cluster needs at least one node", "0", "write `{count: 1}`")]
#[case("name: t\nnodes: []\n", "t.yaml:2:8: a cluster needs at least one node", "[]", "write `{count: 1}`")]
#[case("name: t\nnodes: {count: 5000}\n", "t.yaml:2:16: 5000 nodes are more than", "5000", "")]
#[case("name: t\nnodes: [{name: a}, {name: a}]\n", "t.yaml:2:27: two nodes are called `a`", "a", "")]
#[case(&with_line("time-scale: 0"), "t.yaml:3:13: a time scale divides durations", "0", "1 does not change time")]
#[case(&with_line("time-scale: {live: -1}"), "t.yaml:3:13: a time scale divides durations", "{live: -1}", "1 does not")]
#[case(&with_line("link: {min: 5ms, max: 1ms}"), "t.yaml:3:7: a link takes at least 1ms", "{min: 5ms, max: 1ms}", "write")]
#[case(&with_line("objects: [{kind: Pod}]"), "t.yaml:3:11: the manifest has no `apiVersion`", "{kind: Pod}", "")]
#[case(&with_line("objects: [{apiVersion: v1, kind: Pod, metadata: {name: 5}}]"),
    "t.yaml:3:11: the manifest's `metadata.name` is not a string", "{apiVersion: v1, kind: Pod, metadata: {name: 5}}", "")]
#[case(&with_line("objects: [{apiVersion: v1, kind: StorageClass, metadata: {name: x}}]"),
    "t.yaml:3:11: this cluster has no kind StorageClass in v1",
    "{apiVersion: v1, kind: StorageClass, metadata: {name: x}}", "write `apiVersion: storage.k8s.io/v1`")]
#[case(&with_steps("  - crash: node-c\n"), "t.yaml:4:12: there is no node and no process called `node-c`", "node-c", "did you mean `node-")]
#[case(&with_steps("  - evict: {object: pvc/data}\n"), "t.yaml:4:21: only pods can be evicted, and `pvc/data` is none", "pvc/data", "write `pod/NAME`")]
#[case(&with_steps("  - cordon: node-c\n"), "t.yaml:4:13: there is no node called `node-c`", "node-c", "did you mean `node-b`?")]
#[case(&with_steps("  - wait: {object: pod/web, is: Bound}\n"), "t.yaml:4:33: a Pod is never Bound", "Bound", "its states: Pending")]
#[case(&with_steps("  - wait: {object: pood/web, is: Running}\n"),
    "t.yaml:4:20: `pood` is not a kind of object, did you mean `pod`?", "pood/web", "")]
#[case(&with_steps("  - wait: {object: node/x/web, is: Ready}\n"), "t.yaml:4:20: a Node has no namespace", "node/x/web", "")]
#[case(&with_steps("  - wait: {object: pod/We_b, is: Ready}\n"), "t.yaml:4:20: `We_b` is not an object name", "pod/We_b", "")]
#[case(&with_steps("  - wait: {object: web, is: Ready}\n"), "t.yaml:4:20: `web` names no object", "web", "")]
#[case(&with_steps("  - wait: {object: pod/web}\n"), "t.yaml:4:11: there is nothing to wait for", "{object: pod/web}", "add")]
#[case(&with_steps("  - wait: {object: pvc/data, is: Bound, on: node-a}\n"),
    "t.yaml:4:45: a PersistentVolumeClaim is on no node", "node-a", "")]
#[case(&with_steps("  - {}\n"), "t.yaml:4:5: a step does one thing", "{}", "one of: apply, claim")]
#[case(&with_steps("  - name: x\n"), "t.yaml:4:5: a step does one thing", "name: x", "one of: apply, claim")]
#[case(&with_steps("  - sleep: 29m\n  - sleep: 1m\n  - cordon: node-a\n"), "t.yaml:6:5: no run comes to this step: those before it sleep 30m, and the scenario is over after 30m", "cordon: node-a", "give the file a longer `deadline`")]
#[case(&with_steps("  - sleep: 10s\n    crash: node-a\n"), "t.yaml:4:12: a step does one thing", "10s", "make two steps")]
#[case(&with_steps("  - {name: x, sleep: 1s}\n  - {name: x, sleep: 1s}\n"), "t.yaml:5:12: two steps are called `x`", "x", "")]
#[case(&with_steps("  - sleep: 10s\n  - expect: {elapsed: {since: boot, at-least: 5s}}\n"),
    "t.yaml:5:31: no earlier step is called `boot`", "boot", "there are no names of earlier steps")]
#[case(&with_steps("  - expect: {elapsed: {at-least: 5s, at-most: 4s}}\n"), "t.yaml:4:23: `at-least` is more than", "{at-least: 5s, at-most: 4s}", "")]
#[case(&with_steps("  - expect: {records: 5}\n"), "t.yaml:4:13: an `expect` demands one thing", "{records: 5}", "one of: event, bytes-intact")]
#[case(&with_steps("  - expect: {bytes-intact: pvc/data}\n"), "t.yaml:4:28: a PersistentVolumeClaim keeps no records", "pvc/data", "")]
#[case(&with_steps("  - expect: {attached: {claim: a/b/c, node: node-a}}\n"), "t.yaml:4:32: `pvc/a/b/c` names no object", "a/b/c", "")]
#[case(&with_steps("  - taint: {node: node-a, key: k, effect: NoExcute}\n"),
    "t.yaml:4:43: `NoExcute` is not an effect", "NoExcute", "did you mean `NoExecute`?")]
#[case(&with_steps("  - delete: {object: pod/a, force: true, grace: 5s}\n"), "t.yaml:4:13: a forced deletion has no grace", "{object: pod/a, force: true, grace: 5s}", "")]
#[case(&with_steps("  - clear-fault: f\n"), "t.yaml:4:18: no fault called `f` is in force here", "f", "there are no faults in force")]
#[case(&with_steps("  - fault: {name: f, match: {plane: ec2}, when: {nth: 0}, effect: {hang: true}}\n"),
    "t.yaml:4:50: when.nth: counts from 1", "nth", "")]
#[case(&with_line("faults: [{name: f, match: {plane: csi, op: NodeStageVolum}, effect: {grpc: ABORTED}}]"),
    "t.yaml:3:44: match.op: `NodeStageVolum` is not an operation", "NodeStageVolum", "did you mean `NodeStageVolume`?")]
#[case(&with_line("faults: [{name: f, match: {plane: csi}, effect: {grpc: ABORTD}}]"),
    "t.yaml:3:56: effect.grpc: `ABORTD` is unknown", "ABORTD", "did you mean `ABORTED`?")]
#[case(&with_line("faults: [{name: f, match: {plane: disk}, effect: {io_error: EIOO}}]"),
    "t.yaml:3:61: effect.io_error: `EIOO`", "EIOO", "did you mean `EIO`?")]
#[case(&with_line("faults: [{name: f, match: {plane: csi}, effect: {crash: controler}}]"),
    "t.yaml:3:57: effect.crash: `controler` is not a process", "controler", "did you mean `controllers`?")]
#[case(&with_line("faults: [{name: f, match: {plane: csi}, when: {until: pvc/data=Bond}, effect: {grpc: ABORTED}}]"),
    "t.yaml:3:55: when.until: a PersistentVolumeClaim is never Bond", "pvc/data=Bond", "")]
#[case(&with_line("violations: [kubelet-forgets]"), "t.yaml:3:14: no deviation of upstream", "kubelet-forgets", "did you mean `kubelet-forgets-staged-volume`?")]
#[case(&with_line("replicas: {csi-atacher: 2}"), "t.yaml:3:11: `csi-atacher` has no replicas", "{csi-atacher: 2}", "did you mean `csi-attacher`?")]
#[case(&with_steps("  - expect: {checked: {I14: 1}}\n"), "t.yaml:4:23: unknown invariant `I14`", "{I14: 1}", "")]
fn an_error_across_the_file_has_its_place(
    #[case] text: &str,
    #[case] message: &str,
    #[case] offending: &str,
    #[case] advice: &str,
) {
    let error = refusal(text);
    assert!(error.to_string().starts_with(message), "{error}");
    assert_eq!(error.text(), offending);
    assert!(error.advice().unwrap_or_default().starts_with(advice), "{:?}", error.advice());
}

#[test]
fn defaults_are_filled_in() {
    let scenario = parse("t.yaml", "name: t\nnodes: {count: 28, zones: [us-east-1a, us-east-1b]}\n").expect("valid");
    let names: Vec<_> = scenario.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!((names[0], names[25], names[26], names[27]), ("node-a", "node-z", "node-aa", "node-ab"));
    assert_eq!(scenario.nodes[27].zone.as_deref(), Some("us-east-1b"));
    assert_eq!(
        (scenario.latency, scenario.time_scale, scenario.teardown),
        (LatencyProfile::Instant, TimeScales::default(), true)
    );
    assert_eq!(scenario.deadline, Duration::from_secs(1800));
}

#[test]
fn every_action_is_read_as_it_is_written() {
    let text = with_steps(
        "  - {name: go, apply: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: team}, spec: {containers: [{name: c, image: i}]}}}
  - wait: {object: pod/team/web, is: Running, on: node-a, within: 2m}
  - wait: {object: po/web, records: 5}
  - expect: {event: {object: pod/web, reason: R, contains: c, within: 30s}}
  - expect: {bytes-intact: pod/web, records: 5}
  - expect: {attached: {claim: data, node: node-b}}
  - expect: {elapsed: {since: go, at-least: 710s, at-most: 20m}}
  - crash: node-a
  - restart: node-a
  - delete: {object: pod/web, force: true, grace: 0s}
  - taint: {node: node-a, key: k, value: v, effect: NoExecute}
  - untaint: {node: node-a, key: k}
  - cordon: node-a
  - uncordon: node-a
  - fault: {name: f, match: {plane: ec2, op: AttachVolume}, effect: {error: IncorrectState}}
  - clear-fault: f
  - sleep: 10s
  - evict: {object: pod/web, grace: 5s}
  - evict: {object: pod/web, refused: true, within: 1m}
",
    );
    let scenario = parse("t.yaml", &text).expect("valid");
    let web = ObjectRef::new(Kind::pod(), None, "web");
    let second = Duration::from_secs(1);
    let is = |index: usize, action: Action| assert_eq!(scenario.steps[index].action, action);
    assert!(
        matches!(&scenario.steps[0].action, Action::Apply(list) if list[0].object.path() == "/api/v1/namespaces/team/pods/web")
    );
    is(
        2,
        Action::Wait(Wait {
            object: web.clone(),
            is: None,
            on: None,
            records: Some(5),
            that: None,
            within: 300 * second,
        }),
    );
    is(
        6,
        Action::Expect(Expectation::Elapsed(Elapsed {
            since: Some(0),
            at_least: Some(710 * second),
            at_most: Some(1200 * second),
        })),
    );
    is(9, Action::Delete(Delete { object: web.clone(), force: true, grace: Some(Duration::ZERO), cascade: None }));
    is(12, Action::Cordon("node-a".into()));
    is(15, Action::ClearFault("f".into()));
    is(16, Action::Sleep(10 * second));
    assert_eq!((scenario.steps[16].line, scenario.steps[16].index), (20, 16));
    let (pod, grace) = (web, Some(5 * second));
    is(17, Action::Evict(Evict { pod: pod.clone(), grace, within: 300 * second, refused: false }));
    is(18, Action::Evict(Evict { pod, grace: None, within: 60 * second, refused: true }));
}

#[test]
fn time_may_run_faster_in_one_of_the_worlds() {
    let scales = |line: &str| parse("t.yaml", &with_line(line)).expect("valid").time_scale;
    assert_eq!(scales("time-scale: 60"), TimeScales { simulated: 60.0, live: 60.0 });
    assert_eq!(scales("time-scale: {live: 2.5}"), TimeScales { simulated: 1.0, live: 2.5 });
}

#[test]
fn kinds_have_paths_and_every_word_leads_back() {
    assert_eq!("sc/gp3".parse::<ObjectRef>().expect("valid").path(), "/apis/storage.k8s.io/v1/storageclasses/gp3");
    assert_eq!("pvc/a/data".parse::<ObjectRef>().expect("valid").key(), "a/data");
    let none = crate::spec::custom::Customs::default();
    for word in none.words() {
        let kind = Kind::of_word(&word).expect("a word of the table");
        assert_eq!(Kind::of_manifest(&kind.api_version(), kind.kind()), Some(kind));
        assert_eq!(Kind::of_word(kind.short()), Some(kind), "{word}");
    }
    let named = [Kind::pod(), Kind::node(), Kind::claim(), Kind::volume(), Kind::storage_class(), Kind::csi_driver()];
    let short = named.map(Kind::short);
    assert_eq!(short, ["pod", "node", "pvc", "pv", "storageclass", "csidriver"]);
    assert_eq!(
        (Kind::volume_attachment().short(), Kind::volume_attachment().resource()),
        ("volumeattachment", "volumeattachments")
    );
}

#[rstest]
#[case("first-volume")]
#[case("migration")]
#[case("node-crash")]
#[case("node-crash-short")]
#[case("out-of-service")]
fn the_scenarios_of_the_repository_are_valid(#[case] name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../scenarios/{name}.yaml"));
    let scenario = load(&path).unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
    assert_eq!(scenario.name, name);
}
