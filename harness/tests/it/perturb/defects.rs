//! Seeded bugs of a small controller: the expected perturbation finds each of them, and the controller without the bug
//! survives it.

use rstest::rstest;
use serde_json::Value;

use crate::perturb::tools::{Folder, Ran, file, python_has};

/// Perturbs the controller with a seeded bug, and repeats each finding `again` times. A controller that ends as in the
/// unbroken run has time for it on a busy machine; only one with a bug uses all of its time.
fn keeper(folder: &Folder, defect: &str, only: &str, at: &str, again: &str, more: &[&str]) -> Ran {
    let (scenario, program) = (file("keeper.yaml"), file("keeper.py"));
    let settle = if defect == "none" { "30s" } else { "2s" };
    let line = ["--scenario", &scenario, "--only", only, "--at", at, "--settle", settle, "--again"];
    folder.perturb(&[&line[..], &[again], more, &["--", "python3", &program, defect]].concat())
}

#[test]
fn a_controller_without_a_defect_survives_what_finds_them_live() {
    if !python_has("json") {
        return;
    }
    let folder = Folder::new();
    let ran = keeper(&folder, "none", "crash-after,slow,outage,lost-reply", "want-a", "0", &[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.count("survived") >= 8, "{}", ran.out);
    assert!(ran.findings().is_empty());
}

#[rstest]
#[case("order", "crash-after", "patch configmaps default/want-a", "made-want-a is not there")]
#[case("early-finalizer", "crash-after", "want-b #3", "made-want-b is there, and not")]
#[case("no-adoption", "lost-reply", "create configmaps default/made-want-a", "made-want-a-*2 is there")]
#[case("trusted-cache", "stale-list", "patch configmaps default/want-a #2", "made-want-a is not there")]
#[case("stale-overwrite", "slow", "update configmaps default/want-a", "data.note is not there")]
#[case("no-backoff", "outage", "create configmaps default/made-want-a", "each try failed")]
fn a_planted_defect_is_found_by_the_perturbation_that_should_live(
    #[case] defect: &str,
    #[case] only: &str,
    #[case] at: &str,
    #[case] expected: &str,
) {
    if !python_has("json") {
        return;
    }
    let folder = Folder::new();
    let ran = keeper(&folder, defect, only, at, "0", &[]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let class = if defect == "no-backoff" { "no backoff" } else { "end differs" };
    let found = ran.findings().iter().any(|(is, message)| *is == class && message.contains(expected));
    assert!(found, "{:?}", ran.findings());
}

#[test]
fn a_finding_is_repeated_by_its_file_and_known_by_a_baseline_live() {
    if !python_has("json") {
        return;
    }
    let folder = Folder::new();
    let more = "--out found --junit r.xml --json r.json --report r.html --write-baseline known.json";
    let more: Vec<&str> = more.split(' ').collect();
    let ran = keeper(&folder, "order", "crash-after", "patch configmaps default/want-a #2", "2", &more);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let finding = &ran.data["data"]["findings"][0];
    assert_eq!((&finding["again"]["runs"], &finding["again"]["came"]), (&2.into(), &2.into()), "{finding}");
    let evidence = finding["evidence"]["difference"].to_string();
    assert!(
        evidence.contains("+ fault: patch") && evidence.contains("+ keeper starts for the second time"),
        "{evidence}"
    );
    let written: Value = serde_json::from_str(&folder.read("r.json")).unwrap();
    assert_eq!(written["findings"][0]["signature"], finding["signature"]);
    assert!(folder.read("r.xml").contains("failures=\"1\""));
    let page = folder.read("r.html");
    assert!(page.contains("<a href=\"#finding-1\">1</a>") && page.contains("1. end differs"), "{page}");
    assert!(page.contains("+ keeper starts for the second time") && !page.contains("<script"), "{page}");

    let path = finding["file"].as_str().unwrap();
    let text = folder.read(path);
    assert!(text.starts_with("# Found by `mooring perturb --scenario"), "{text}");
    let run = ["run", path, "--live", "--allow-exec", "--backend", "directory", "--timeout", "60s", "--output", "json"];
    let output = folder.mooring(&run).output().unwrap();
    let data: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Its end state differs, and `mooring perturb` compares end states.
    assert!(output.status.success(), "{data}");
    assert_eq!(data["data"]["programs"][0]["starts"], 2, "the fault fired: {data}");

    let ran = keeper(&folder, "order", "crash-after", "want-a #2", "0", &["--baseline", "known.json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.data["data"]["findings"][0]["known"], true);
    let ran = keeper(&folder, "none", "crash-after", "want-a #2", "0", &["--baseline", "known.json"]);
    assert_eq!((ran.code, ran.data["data"]["missing"].as_array().unwrap().len()), (0, 1), "{}", ran.out);
}
