//! Conditions, counts and `never`: refusals at their place.

use rstest::rstest;

use super::{refusal, with_steps};
use crate::scenario::predicate;

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
    "did you mean `csi`? valid values here: csi, k8s, ec2"
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
