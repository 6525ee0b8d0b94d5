//! Mistakes in the text of a file: keys, types, YAML and size, each at its place.

use std::path::Path;

use rstest::rstest;
use serde_json::json;

use super::{refusal, with_line, with_steps};
use crate::scenario::{MAX_BYTES, ScenarioError, load, parse_all};

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
