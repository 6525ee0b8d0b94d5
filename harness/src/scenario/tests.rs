use std::time::Duration;

use rstest::rstest;
use serde_json::json;

use super::*;

mod acts;

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
fn an_unknown_key_is_shown_in_its_line_with_the_nearest_valid_key() {
    let text = with_steps("  - wait:\n      object: pod/web\n      is: Running\n      whitin: 5m\n");
    let expected = "  × t.yaml:7:7: unknown key `whitin`
   ╭─[t.yaml:7:7]
 6 │       is: Running
 7 │       whitin: 5m
   ·       ───┬──
   ·          ╰── this key
   ╰────
  help: did you mean `within`? valid keys here: object, list, namespace, is, on, records, that,
        within
";
    assert_eq!(refusal(&text).render(false, 100), expected);
}

#[test]
fn a_wrong_type_is_shown_in_its_line_with_the_right_one() {
    let expected = "  × t.yaml:2:16: expected a whole number, not negative, found `two`
   ╭─[t.yaml:2:16]
 1 │ name: t
 2 │ nodes: {count: two}
   ·                ─┬─
   ·                 ╰── not a whole number, not negative
   ╰────
";
    assert_eq!(refusal("name: t\nnodes: {count: two}\n").render(false, 100), expected);
}

#[rstest]
#[case("name: t\nnodes: {cuont: 2}\n", "t.yaml:2:9: unknown key `cuont`", "cuont", "did you mean `count`?")]
#[case("name: t\nstepps: []\n", "t.yaml:2:1: unknown key `stepps`", "stepps", "did you mean `steps`?")]
#[case("name: t\n", "t.yaml:1:1: the key `nodes` is missing", "name", "add `nodes: …`")]
#[case("name: t\nname: u\n", "t.yaml:2:1: the key `name` is there twice", "name", "a key may stand only once")]
#[case("", "t.yaml:1:1: the scenario is empty", "", "begin with `name: …`")]
#[case(&with_line("latency: instnat"), "t.yaml:3:10: `instnat` is not one", "instnat", "did you mean `instant`?")]
#[case(&with_line("teardown: yes"), "t.yaml:3:11: expected true or false, found `yes`", "yes", "")]
#[case(&with_line("deadline: 20"), "t.yaml:3:11: `20` is not a duration: write a number and a unit", "20", "")]
#[case(&with_line("deadline: 0s"), "t.yaml:3:11: a deadline of zero can never be met", "0s", "")]
#[case(&with_line("faults: [{name: f, match: {plane: ec3}, effect: {error: X}}]"),
    "t.yaml:3:35: `ec3` is not one", "ec3", "did you mean `ec2`?")]
#[case(&with_steps("  - wait: {object: pod/web, is: Runing}\n"), "t.yaml:4:33: `Runing` is not one", "Runing", "did you mean `Running`?")]
fn a_serde_error_has_its_place(
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

/// A file with an error of each kind.
const WRONG: &str = "\
name: x
nodes: {cuont: 2}
latency: instnat
objects:
  - claim: {name: data, size: 1GB}
  - {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}], nodeNme: a, colour: b}}
  - repeat:
      count: 2
      as: i
      do:
        - claim: {name: 'c-${i}', sizee: 1Gi}
        - claim: {name: 'd-${i}', size: 1gb}
faults:
  - name: slow
    match: {plane: ec2, op: AtachVolume}
    effect: {delay: 20s}
  - name: slower
    match: {plane: ec2, op: AttachVolume}
    effect: {dely: 20s}
steps:
  - wait: {object: pvc/data, is: Bond}
  - wait: [pvc/data]
  - cordon: node-a
  - name: up
    wiat: {object: pod/web, is: Running}
  - expect: {elapsed: {since: up, at-least: 5s}}
  - expect: {elapsed: {since: upp, at-least: 5s}}
  - wait: {object: pvc/data, that: \"self.status.phase = 'Bound'\"}
  - clear-fault: slow
  - clear-fault: slo
  - never: {object: pod/web, that: 'self.x == 1', until: last}
worlds: [simulatd]
deadline: 0s
";

fn all_mistakes(text: &str) -> Vec<(u64, String)> {
    let errors = parse_all("t.yaml", text).expect_err("the text has mistakes");
    let plain = |error: &ScenarioError| {
        let text = error.to_string();
        (error.line(), text.splitn(4, ':').nth(3).unwrap_or_default().trim().to_owned())
    };
    errors.iter().map(plain).collect()
}

#[test]
fn every_mistake_is_reported_at_its_place_without_follow_up_errors() {
    let all = all_mistakes(WRONG);
    let expected = [
        (2, "unknown key `cuont`"),
        (3, "`instnat` is not one of"),
        (5, "spec.resources.requests.storage: `1GB` is not a quantity"),
        (6, "Pod has no field \"spec.nodeNme\""),
        (6, "Pod has no field \"spec.colour\""),
        (11, "unknown key `sizee`"),
        (12, "spec.resources.requests.storage: `1gb` is not a quantity"),
        (15, "match.op: `AtachVolume` is not an operation"),
        (19, "`dely` is not one of"),
        (21, "`Bond` is not one of"),
        (22, "expected a map of keys and values, found a list"),
        (25, "unknown key `wiat`"),
        (27, "no earlier step is called `upp`"),
        (28, "this is not a condition in CEL: `=` is not an operator of CEL"),
        (30, "no fault called `slo` is in force here"),
        (31, "no later step is called `last`"),
        (32, "`simulatd` is not one of"),
        (33, "a deadline of zero can never be met"),
    ];
    let found: Vec<(u64, &str)> = all.iter().map(|(line, text)| (*line, text.as_str())).collect();
    let fits = |(found, wanted): (&(u64, &str), &(u64, &str))| found.0 == wanted.0 && found.1.contains(wanted.1);
    assert!(found.len() == expected.len() && found.iter().zip(&expected).all(fits), "{found:#?}");
}

#[rstest]
#[case(
    "name: x\nnodes: {count: 1}\nsteps:\n\t- sleep: 1s\n",
    4,
    "a tab stands where this line is indented",
    "indent with spaces"
)]
#[case(
    "name: x\nnodes: {count: 1\nsteps:\n  - sleep: 1s\n",
    3,
    "a `{` before this is not closed",
    "write `{key: value"
)]
#[case("name: x\nnodes: {count: 1}\nzones: [a, b\nsteps: 1\n", 4, "a `[` before this is not closed", "write `[one")]
#[case(
    "name: x\nnodes: {count: 1}\nsteps:\n  - pause: \"go\n",
    5,
    "a quote before this is not closed",
    "write the same quote"
)]
#[case("name: x: y\nnodes: {count: 1}\n", 1, "a second `: ` stands in one line", "put a text")]
#[case("name: x\nnodes: {count: 1}\nsteps:\n  - sleep: 1s\n   name: a\n", 5, "", "")]
#[case(
    "name: x\nnodes: {count: 1}\nsteps:\n  - wait: {object: pod/web}\n with: 3\n",
    5,
    "this line is not in the column",
    "write the keys"
)]
#[case("name: @x\nnodes: {count: 1}\n", 1, "a plain text cannot begin with `@`", "put it into quotes")]
#[case("name: x\nnodes: *n\n", 2, "`*` refers to an anchor that is not there", "define it before")]
fn invalid_yaml_is_framed_at_its_line(
    #[case] text: &str,
    #[case] line: u64,
    #[case] message: &str,
    #[case] advice: &str,
) {
    let error = refusal(text);
    assert_eq!(error.line(), line, "{error}");
    assert!(error.to_string().contains(message), "{error}");
    assert!(error.advice().unwrap_or_default().starts_with(advice), "{:?}", error.advice());
    let shown = error.render(false, 100);
    let last = text.lines().count() as u64;
    assert!(shown.contains(&format!("\n {} │ ", line.min(last))), "its line is not in the frame:\n{shown}");
}

#[rstest]
#[case("self.status.phase = 'Bound'", "`=` is not an operator of CEL", "write `==`")]
#[case("self.status.phase === 'Bound'", "`===` is not an operator of CEL", "write `==`")]
#[case("self.status.phase <> 'Bound'", "`<>` is not an operator of CEL", "write `!=`")]
#[case("self.a == 'x' and self.b == 'y'", "`and` is not an operator of CEL", "write `&&`")]
#[case("self.a == 'x' or self.b == 'y'", "`or` is not an operator of CEL", "write `||`")]
#[case("self.a == 'x' & self.b == 'y'", "`&` is not an operator of CEL", "write `&&`")]
#[case("not self.a", "`not` is not an operator of CEL", "write `!`")]
#[case("self.status.phase is 'Bound'", "`is` is not an operator of CEL", "write `==`")]
#[case("self.status.phase == 'Bound", "a quote is not closed", "write the same quote")]
#[case("(self.a == 1", "a `)` is missing", "close it with `)`")]
#[case("self.a ==", "it ends too early", "a condition is such as")]
#[case("self.a == 1 2", "`2` cannot stand here", "a condition is such as")]
fn a_slip_in_a_condition_gets_the_operator_that_is_meant(
    #[case] condition: &str,
    #[case] message: &str,
    #[case] advice: &str,
) {
    let unfit = predicate::That::read(condition).expect_err("no condition");
    assert_eq!(unfit.message, format!("this is not a condition in CEL: {message}"));
    assert!(unfit.help.clone().unwrap_or_default().starts_with(advice), "{unfit:?}");
}

#[rstest]
#[case("steps:\n  wait: {object: pvc/data}\n", "expected a list, found a map", "write `[one, other]`")]
#[case("steps:\n  - claim: data\n", "expected a map of keys and values, found `data`", "write `{key: value}`")]
#[case("steps:\n  - crash: [node-a]\n", "expected a text, found a list", "")]
#[case("steps:\n  - crash: {node: node-a}\n", "expected a text, found a map", "")]
#[case("faults: {name: a}\n", "expected a list, found a map", "write `[one, other]`")]
#[case("link: [1ms, 2ms]\n", "expected a map of keys and values, found a list", "write `{key: value}`")]
fn a_value_of_the_wrong_type_is_reported(#[case] rest: &str, #[case] message: &str, #[case] advice: &str) {
    let error = refusal(&format!("name: t\nnodes: {{count: 2}}\n{rest}"));
    assert!(error.to_string().contains(message), "{error}");
    assert!(error.advice().unwrap_or_default().starts_with(advice), "{:?}", error.advice());
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
fn a_kind_that_no_loop_works_on_deserves_a_look() {
    let manifest = "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: '* * * * *', jobTemplate: \
                    {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}}}";
    let remarks = |text: &str| {
        let scenario = parse("t.yaml", text).expect("a scenario");
        scenario.remarks.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let expected = "CronJob is stored, but nothing in this cluster works on it: it makes no jobs";
    assert_eq!(remarks(&with_line(&format!("objects: [{manifest}]"))), [format!("t.yaml:3:34: {expected}")]);
    assert_eq!(remarks(&with_steps(&format!("  - apply: {manifest}\n"))), [format!("t.yaml:4:35: {expected}")]);
    assert_eq!(remarks(&with_steps("  - claim: {name: data}\n")), Vec::<String>::new());
    let theirs = with_line(&format!("without: [kube-controller-manager]\nobjects: [{manifest}]"));
    assert_eq!(remarks(&theirs), Vec::<String>::new());
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
#[case(&with_steps("  - expect: {checked: {I13: 1}}\n"), "t.yaml:4:23: unknown invariant `I13`", "{I13: 1}", "")]
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

/// Errors of conditions, counts and `never`.
#[rstest]
#[case(
    "wait: {object: pvc/data, that: 'sefl.status.phase'}",
    "t.yaml:4:37: `sefl` is not a variable of a condition",
    "sefl",
    "did you mean `self`?"
)]
#[case(
    "wait: {object: pvc/data, that: \"self.status.phase = 'Bound'\"}",
    "t.yaml:4:55: this is not a condition in CEL: ",
    "=",
    ""
)]
#[case(
    "wait: {object: pvc/data, that: 'self.names.exist(n, n == 1)'}",
    "t.yaml:4:48: this is not a condition in CEL: there is no function `exist`",
    "exist",
    "did you mean `exists`?"
)]
#[case(
    "wait: {object: pvc/data, that: '1 == 1'}",
    "t.yaml:4:36: the condition does not mention `self`",
    "'1 == 1'",
    "write"
)]
#[case(
    "wait: {list: volumeatachments, that: 'self.size() == 1'}",
    "t.yaml:4:18: `volumeatachments` is not a kind of object",
    "volumeatachments",
    "did you mean `volumeattachment"
)]
#[case("wait: {list: pods, is: Running}", "t.yaml:4:18: `list` goes with `that`", "pods", "")]
#[case("wait: {list: pods}", "t.yaml:4:11: there is nothing to wait for", "{list: pods}", "add `that`")]
#[case("wait: {is: Running}", "t.yaml:4:11: a `wait` names an `object` or a `list`", "{is: Running}", "add `object")]
#[case(
    "wait: {object: pod/web, is: Running, namespace: x}",
    "t.yaml:4:53: `namespace` belongs to `list`",
    "x",
    "name an object with"
)]
#[case(
    "expect: {list: nodes, namespace: x, that: 'self.size() == 1'}",
    "t.yaml:4:38: a Node has no namespace",
    "x",
    ""
)]
#[case("expect: {object: pod/web}", "t.yaml:4:22: no condition for pod/web", "pod/web", "add `that")]
#[case("expect: {bytes-intact: pod/web, within: 5s}", "t.yaml:4:45: this demand has no `within`", "5s", "")]
#[case(
    "expect: {event: {object: pod/web, reason: R}, within: 5s}",
    "t.yaml:4:59: `within` of an event stands in it",
    "5s",
    ""
)]
#[case(
    "expect: {event: {object: pod/web, reason: R, times: {at-most: 1}, within: 5s}}",
    "t.yaml:4:57: a count only grows",
    "{at-most: 1}",
    "use `sleep`"
)]
#[case("expect: {elapsed: {at-least: 1s}, since: x}", "t.yaml:4:46: `since` stands beside `call`", "x", "")]
#[case(
    "expect: {call: {plane: cis, op: NodeStageVolume}}",
    "t.yaml:4:28: `cis` is not one",
    "cis",
    "valid values here: csi, k8s, ec2"
)]
#[case(
    "expect: {call: {plane: csi, op: NodeStageVolum}}",
    "t.yaml:4:37: op: `NodeStageVolum` is not an operation",
    "NodeStageVolum",
    "did you mean `NodeStageVolume`?"
)]
#[case(
    "expect: {call: {plane: k8s, op: watch-event}}",
    "t.yaml:4:37: op: `watch-event` is not a call",
    "watch-event",
    ""
)]
#[case(
    "expect: {call: {plane: csi, op: NodeStageVolume, where: {nod: node-a}}}",
    "t.yaml:4:62: where.nod: `nod` is not an attribute",
    "nod",
    "did you mean `node`?"
)]
#[case(
    "expect: {call: {plane: csi, op: NodeStageVolume, where: {node: nod-a}}}",
    "t.yaml:4:68: there is no node called `nod-a`",
    "nod-a",
    "did you mean `node-a`?"
)]
#[case(
    "expect: {call: {plane: csi, op: NodeStageVolume, where: {volume: pod/web}}}",
    "t.yaml:4:70: a Pod is not a volume",
    "pod/web",
    "write `pvc/NAME`"
)]
#[case(
    "expect: {call: {plane: csi, op: NodeStageVolume, where: {process: csi-contrller}}}",
    "t.yaml:4:71: where.process: `csi-contrller` is not a process",
    "csi-contrller",
    "did you mean `csi-controller`?"
)]
#[case(
    "expect: {call: {plane: csi, op: NodeStageVolume, where: {code: ABORTD}}}",
    "t.yaml:4:68: where.code: `ABORTD` is not a result of calls",
    "ABORTD",
    "did you mean `ABORTED`?"
)]
#[case(
    "expect: {call: {plane: ec2, op: AttachVolume, where: {code: IncorectState}}}",
    "t.yaml:4:65: where.code: `IncorectState` is not a result",
    "IncorectState",
    "did you mean `IncorrectState`?"
)]
#[case(
    "expect: {call: {plane: k8s, op: get, where: {code: 404}}}",
    "t.yaml:4:50: where.code: a call of the plane k8s ends with a `status`",
    "code",
    "did you mean `status`?"
)]
#[case(
    "expect: {call: {plane: k8s, op: get, where: {status: NotFound}}}",
    "t.yaml:4:58: where.status: `NotFound` is not a result of calls",
    "NotFound",
    "write an HTTP status"
)]
#[case(
    "expect: {call: {plane: csi, times: {at-least: 3, at-most: 1}}}",
    "t.yaml:4:40: `at-least` is more than",
    "{at-least: 3, at-most: 1}",
    ""
)]
#[case(
    "expect: {call: {plane: csi, times: {at-least: 0}}}",
    "t.yaml:4:40: no number of times is less",
    "{at-least: 0}",
    ""
)]
#[case("expect: {call: {plane: csi}, since: boot}", "t.yaml:4:41: no earlier step is called `boot`", "boot", "")]
#[case(
    "expect: {metric: {of: csi-controler, name: x, value: 1}}",
    "t.yaml:4:27: `csi-controler` has no metrics",
    "csi-controler",
    "did you mean `csi-provisioner`? processes with metrics: mock-ec2, fake-apiserver, csi-attacher"
)]
#[case(
    "expect: {metric: {of: mock-ec2, name: x, value: {}}}",
    "t.yaml:4:53: no bound is given",
    "{}",
    "add `at-least`"
)]
#[case(
    "expect: {ec2: {volume: pvc/data, state: inuse}}",
    "t.yaml:4:45: `inuse` is not one of its states",
    "inuse",
    "did you mean `in-use`?"
)]
#[case(
    "expect: {ec2: {volume: pvc/data, instance: node-a}}",
    "t.yaml:4:19: `ec2` looks at one of",
    "{volume: pvc/data, instance: node-a}",
    "write"
)]
#[case("expect: {ec2: {volume: pvc/data}}", "t.yaml:4:19: no condition for the cloud", "{volume: pvc/data}", "add")]
#[case(
    "expect: {ec2: {instance: node-a, attached: [node-b]}}",
    "t.yaml:4:48: `attached` belongs to `volume`",
    "[node-b]",
    ""
)]
#[case(
    "expect: {violation: kubelet-forgets}",
    "t.yaml:4:25: no deviation of upstream",
    "kubelet-forgets",
    "did you mean `kubelet-forgets-staged-volume`?"
)]
#[case("never: {object: pod/web}", "t.yaml:4:21: no condition for pod/web", "pod/web", "add `that")]
#[case(
    "never: {object: pod/web, that: 'has(self.spec)', until: end}",
    "t.yaml:4:61: no later step is called `end`",
    "end",
    "there are no names of later steps"
)]
#[case(
    "never: {call: {plane: csi, times: {at-most: 1}}}",
    "t.yaml:4:39: a `never` is broken when a count is reached",
    "{at-most: 1}",
    "write `times: {at-least: 2}`"
)]
#[case(
    "never: {event: {object: pod/web, reason: R, within: 5s}}",
    "t.yaml:4:20: a `never` has no `within`",
    "{object: pod/web, reason: R, within: 5s}",
    "leave it out"
)]
#[case("never: {until: x}", "t.yaml:4:12: a `never` forbids one thing", "{until: x}", "one of: object, list, call")]
fn conditions_and_counts_are_refused_at_their_place(
    #[case] step: &str,
    #[case] message: &str,
    #[case] offending: &str,
    #[case] advice: &str,
) {
    let error = refusal(&with_steps(&format!("  - {step}\n")));
    assert!(error.to_string().starts_with(message), "{error}");
    assert_eq!(error.text(), offending, "{error}");
    assert!(error.advice().unwrap_or_default().starts_with(advice), "{:?}", error.advice());
}

#[test]
fn a_condition_over_several_lines_is_refused_in_its_line() {
    let text =
        with_steps("  - expect:\n      object: pod/web\n      that: |\n        has(self.spec) &&\n        sefl.a\n");
    let error = refusal(&text);
    assert_eq!((error.line(), error.column(), error.text()), (8, 9, "sefl"), "{error}");
}

#[test]
fn hostile_files_are_refused_before_they_cost_anything() {
    let deep = format!("name: t\nobjects: {}", "[".repeat(5_000));
    let wide = format!("name: t\nobjects: [{}]", "{},".repeat(200_000));
    let bomb = "name: t\nobjects:\n  - &a {x: [1,1,1,1,1,1,1,1,1,1]}\n".to_owned()
        + &(b'b'..=b'z')
            .map(|c| {
                let (this, last) = (c as char, (c - 1) as char);
                format!("  - &{this} {{x: [*{last},*{last},*{last},*{last},*{last},*{last},*{last},*{last}]}}\n")
            })
            .collect::<String>();
    for text in [deep, wide, bomb, "#".repeat(MAX_BYTES + 1)] {
        let answer = refusal(&text).render(false, 100);
        assert!(answer.len() < 20_000 && answer.contains("t.yaml"), "{}", &answer[..200]);
    }
    assert!(refusal("name: t\n---\nname: u\n").to_string().starts_with("t.yaml:"));
}

#[test]
fn a_file_that_is_not_there_is_a_mistake_without_a_position() {
    let error = load(Path::new("no/such/file.yaml")).expect_err("there is no such file");
    assert!(error.render(false, 100).contains("cannot read the scenario no/such/file.yaml"));
    assert_eq!(error.details(), json!({ "file": "no/such/file.yaml", "line": 0, "column": 0, "text": "" }));
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
