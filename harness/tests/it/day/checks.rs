//! `mooring up --check` and `mooring check`: the results of the invariants.

use crate::day::home::{Home, claim_and_pod, texts};

#[test]
fn invariants_are_reported_and_counted_from_zero_after_a_reset_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "2", "--check"]);
    fn check<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["check", "--name", "one"], more].concat()
    }
    claim_and_pod(&ready);
    home.ok(&["wait", "--name", "one", "--for", "pod/web=Running", "--timeout", "60s"]);
    let message = home.ok(&check(&["--rest", "--timeout", "90s"]));
    assert!(
        message.starts_with("checked: I1 0 · I2 0 · I3 4 · I4 1 · I5 0 ") && message.ends_with("\nall held\n"),
        "{message}"
    );
    let watched = home.json(&check(&[]));
    assert!(watched["checked"]["I7"].as_u64() > Some(10), "{watched}");
    // With `--empty` mounts that are in use count as left over.
    let output = home.run(&check(&["--empty", "--timeout", "1s"]));
    let (out, _) = texts(&output);
    assert_eq!(output.status.code(), Some(6), "{out}");
    assert!(out.contains("I5 at ") && out.contains("2 mounts are left over") && !out.contains("kube-system"), "{out}");
    home.ok(&["fault", "add", "--name", "one", "--crash", "csi-attacher"]);
    let refused = home.fails(2, &check(&["--rest"]));
    assert!(refused.contains("csi-attacher was crashed: start it again first"), "{refused}");
    home.ok(&["reset", "--name", "one"]);
    let again = home.ok(&check(&["--rest", "--empty", "--timeout", "90s"]));
    assert!(
        again.starts_with("checked: I1 0 · I2 0 · I3 0 · I4 0 · I5 0 ") && again.ends_with("\nall held\n"),
        "{again}"
    );
}

#[test]
fn one_that_checks_nothing_says_how_it_would_live() {
    let home = Home::new();
    home.up("one", &["--nodes", "1"]);
    let error = home.fails(2, &["check", "--name", "one"]);
    assert!(error.contains("`mooring up --check`"), "{error}");
}
