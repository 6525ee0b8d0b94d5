//! Command lines and files that are refused, and the messages.

use crate::perturb::tools::Folder;

const SCENARIO: &str = "name: s\nnodes: {count: 1}\nsteps: [{sleep: 1s}]\n";
const RUN: &str = "run:\n  - {name: mine, command: [./mine.sh, --fast]}\n";

#[test]
fn one_program_and_one_scenario_are_needed() {
    let folder = Folder::new();
    folder.script("mine.sh", "touch was-run\nsleep 100\n");
    folder.write("scenario.yaml", SCENARIO);
    folder.write("runs.yaml", &format!("{SCENARIO}{RUN}"));
    folder.write(
        "breaks.yaml",
        &format!("{SCENARIO}faults: [{{name: f, match: {{plane: ec2}}, effect: {{http: 500}}}}]\n"),
    );
    folder.write("bad.yaml", "name: s\nnodes: {count: 1}\nsteps: [{slep: 1s}]\n");
    folder.write("baseline.json", "{\"version\": 9}");
    for (args, why) in [
        (&[][..], "there is no program: write its command behind --"),
        (&["--", "./mine.sh"], "there is no workload for a program that replaces nothing"),
        (&["--scenario", "scenario.yaml"], "scenario.yaml has no `run:`, and there is no command behind --"),
        (&["--scenario", "runs.yaml"], "runs.yaml runs programs on this machine: mine (`./mine.sh --fast`)"),
        (&["--scenario", "runs.yaml", "--", "./mine.sh"], "runs.yaml runs programs itself (mine)"),
        (
            &["--scenario", "runs.yaml", "--allow-exec", "--name", "x"],
            "--replaces and --name are of a program behind --",
        ),
        (&["--scenario", "breaks.yaml", "--", "./mine.sh"], "the scenario has faults of its own"),
        (&["--scenario", "bad.yaml", "--", "./mine.sh"], "slep"),
        (&["--scenario", "nothing.yaml", "--", "./mine.sh"], "nothing.yaml"),
        (&["--scenario", "scenario.yaml", "--", "./nothing.sh"], "there is no program ./nothing.sh"),
        (
            &["--scenario", "scenario.yaml", "--name", "csi-resizer", "--", "./mine.sh"],
            "`csi-resizer` is the name of a process",
        ),
        (&["--replaces", "csi-atacher", "--", "./mine.sh"], "csi-atacher"),
        (&["--replaces", "csi-attacher", "--only", "crash", "--", "./mine.sh"], "crash"),
        (
            &["--scenario", "scenario.yaml", "--baseline", "baseline.json", "--", "./mine.sh"],
            "--baseline baseline.json",
        ),
        (&["--scenario", "scenario.yaml", "--jobs", "0", "--", "./mine.sh"], "jobs"),
    ] {
        let ran = folder.perturb(args);
        assert_eq!(ran.code, 2, "{args:?}: {}{}", ran.out, ran.err);
        assert!(ran.error().contains(why), "{args:?}: {}{}", ran.out, ran.err);
    }
    assert_eq!(folder.read("was-run"), "");
    assert!(!folder.path().join("was-run").exists());
}

#[test]
fn a_baseline_run_that_hangs_is_reported_with_the_programs_last_lines_live() {
    let folder = Folder::new();
    folder.script("mine.sh", "echo 'flag --x is not known' >&2\nsleep 100\n");
    let steps = "  - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: y}}\n  \
        - wait: {object: configmap/a, that: 'has(self.data.state)'}\n";
    folder.write("s.yaml", &format!("name: s\nnodes: {{count: 1}}\ntime-scale: {{live: 60}}\nsteps:\n{steps}"));
    let ran = folder.perturb(&["--scenario", "s.yaml", "--within", "2s", "--", "./mine.sh"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(
        ran.error().contains("s.yaml does not come to its end although it was not broken: stuck"),
        "{}",
        ran.error()
    );
    assert!(ran.error().contains("    flag --x is not known"), "{}", ran.error());
}

#[test]
fn an_unstartable_program_is_reported_live() {
    let folder = Folder::new();
    folder.write("plain", "no program");
    folder.write("s.yaml", SCENARIO);
    let ran = folder.perturb(&["--scenario", "s.yaml", "--", "./plain"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.error().contains("Permission denied"), "{}", ran.error());
}

#[test]
fn a_program_without_calls_has_nothing_to_try_live() {
    let folder = Folder::new();
    folder.script("mine.sh", "while :; do sleep 1; done\n");
    folder.write("s.yaml", &SCENARIO.replace("steps:", "time-scale: 60\nsteps:"));
    let ran = folder.perturb(&["--scenario", "s.yaml", "--", "./mine.sh"]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.error().contains("the program makes no call"), "{}", ran.error());
}
