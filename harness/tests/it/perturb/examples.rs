//! The programs of docs/perturb.md, each with the bug that is found there.

use std::process::Command;

use crate::perturb::tools::{Folder, example, have, python_has};

/// Its controller with the fix: a copy that exists already counts as created.
const MENDED: &str = r#"
copy() {
  body=$(curl -sf "$maps/$1" | jq -c --arg name "$1-copy" '{metadata: {name: $name}, data}') &&
    code=$(curl -s -o /dev/null -w '%{http_code}' -H 'content-type: application/json' -d "$body" "$maps")
  case $code in 201 | 409) ;; *) return 1 ;; esac
}
mark() {"#;

#[test]
fn the_controller_of_the_shell_does_not_know_its_own_copy_until_it_is_mended_live() {
    if !["curl", "jq"].into_iter().all(have) {
        return;
    }
    let folder = Folder::new();
    let (scenario, program) = (example("copy.yaml"), example("copy.sh"));
    let line =
        ["--scenario", &scenario, "--only", "crash-after", "--at", "a-copy", "--within", "15s", "--again", "0", "--"];
    let ran = folder.perturb(&[&line[..], &[&program]].concat());
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let findings = ran.findings();
    assert!(findings[0].0 == "stuck" && findings[0].1.contains("configmap/a satisfies"), "{findings:?}");

    let text = std::fs::read_to_string(&program).unwrap();
    let (before, rest) = text.split_once("copy() {").unwrap();
    let (_, after) = rest.split_once("mark() {").unwrap();
    folder.script("mended.sh", &format!("{before}{MENDED}{after}"));
    let ran = folder.perturb(&[&line[..], &["./mended.sh"]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

#[test]
fn the_operator_of_kopf_makes_a_second_copy_live() {
    if !python_has("kopf") {
        return;
    }
    let folder = Folder::new();
    let (scenario, program) = (example("operator.yaml"), example("operator.py"));
    let line =
        ["--scenario", &scenario, "--only", "crash-after", "--at", "create configmaps default/a-copy", "--again", "0"];
    let start = ["--name", "operator", "--", "kopf", "run", "--standalone", "-n", "default", &program];
    let ran = folder.perturb(&[&line[..], &start].concat());
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.findings()[0].1.contains("a-copy-*2 is there"), "{:?}", ran.findings());
}

#[test]
fn the_examples_are_what_the_page_shows() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/perturb.md");
    let page = std::fs::read_to_string(page).unwrap();
    let body = MENDED.trim_start().strip_suffix("mark() {").unwrap();
    assert!(page.contains(body), "{body}");
    assert!(Command::new("sh").args(["-n", &example("copy.sh")]).status().unwrap().success());
}
