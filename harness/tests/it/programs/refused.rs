//! Files and command lines with programs that are not run: the message and its position.

use crate::programs::tools::Folder;

const RUN: &str = "run:\n  - {name: mine, command: [./mine.sh, --fast]}";

#[test]
fn a_file_with_a_program_runs_live_and_only_with_leave() {
    let folder = Folder::new();
    folder.script("mine.sh", "touch was-run\n");
    folder.scenario(RUN, "  - sleep: 1s");
    let expected = "s.yaml:6:5: this file runs a program on this machine: mine (`./mine.sh --fast`)";
    for (args, why, next) in [
        (&["run", "s.yaml"][..], ", which is not possible in a simulation", "add --live --allow-exec"),
        (&["run", "s.yaml", "--live"], "", "add --allow-exec if you trust the file"),
        (&["run", "s.yaml", "--live", "--seeds", "1..2"], "", "add --allow-exec if you trust the file"),
    ] {
        let ran = folder.ran(&[args, &["--output", "json"]].concat());
        assert_eq!(ran.code, 2, "{args:?}: {}{}", ran.out, ran.err);
        assert!(ran.error().starts_with(&format!("{expected}{why}")), "{args:?}: {}", ran.error());
        assert!(ran.data["error"]["actions"][0].as_str().unwrap().ends_with(next), "{args:?}: {}", ran.out);
    }
    for args in
        [&["sweep", "s.yaml"][..], &["replay", "s.yaml"], &["shrink", "s.yaml"], &["replay", "s.yaml", "--step"]]
    {
        let ran = folder.ran(args);
        assert_eq!(ran.code, 2, "{args:?}: {}{}", ran.out, ran.err);
        assert!(
            ran.err.contains("s.yaml:6:5: this file runs the program mine, which is not possible in a simulation"),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("mooring run FILE --live --allow-exec"), "{}", ran.err);
    }
    // In a batch it is skipped, and a line says so.
    folder.write("quiet.yaml", "name: quiet\nnodes: {count: 1}\nsteps:\n  - sleep: 1s\n");
    let ran = folder.ran(&["run", "."]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("s.yaml skipped: it runs the program mine: add --live --allow-exec"), "{}", ran.out);
    assert_eq!(folder.ran(&["run", "s.yaml", "--check"]).code, 0, "it is read all the same");
    assert!(!folder.path().join("was-run").exists());
}

#[test]
fn a_mistake_in_a_program_has_its_place_and_the_nearest_word() {
    let folder = Folder::new();
    for (run, place, expected) in [
        ("run: [{command: [a]}]", "4:8", "the key `name` is missing"),
        ("run: [{name: a}]", "4:8", "the key `command` is missing"),
        ("run: [{name: a, command: []}]", "4:26", "a command has at least one word"),
        ("run: [{name: a, command: ['']}]", "4:27", "the first word is the program, and it is empty"),
        ("run: [{name: a, comand: [b]}]", "4:17", "did you mean `command`?"),
        ("run: [{name: A_b, command: [b]}]", "4:14", "this name"),
        ("run: [{name: a, command: [b]}, {name: a, command: [b]}]", "4:39", "two programs are called `a`"),
        ("run: [{name: a, command: [b], replaces: csi-atacher}]", "4:41", "did you mean `csi-attacher`?"),
        (
            "run: [{name: a, command: [b], replaces: [csi-resizer, csi-atacher]}]",
            "4:55",
            "did you mean `csi-attacher`?",
        ),
        ("run: [{name: csi-attacher, command: [b]}]", "4:14", "write `replaces: csi-attacher` beside it"),
        ("run: [{name: node-a, command: [b]}]", "4:14", "`node-a` is the name of a process of the cluster"),
        ("run: [{name: user, command: [b]}]", "4:14", "`user` is the name of a process of the cluster"),
        ("run: [{name: a, command: [b], env: {1A: x}}]", "4:37", "`1A` is not a variable name"),
        ("run: [{name: a, command: [b]}]\nworlds: [live, simulated]", "5:9", "a file with `run` is for the live"),
        (
            "run: [{name: a, command: [b], replaces: csi-resizer}, {name: c, command: [b], replaces: csi-resizer}]",
            "4:89",
            "`csi-resizer` is replaced by a already",
        ),
    ] {
        folder
            .write("s.yaml", &format!("name: s\nnodes: {{count: 1}}\ntime-scale: 60\n{run}\nsteps: [{{sleep: 1s}}]\n"));
        let ran = folder.ran(&["run", "s.yaml", "--check"]);
        assert_eq!(ran.code, 2, "{run}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(&format!("s.yaml:{place}: ")), "{run}: {}", ran.err);
        assert!(ran.err.contains(expected), "{run}: {}", ran.err);
    }
}

#[test]
fn a_component_that_is_replaced_is_no_process_and_its_program_is_one() {
    let folder = Folder::new();
    let header = "run: [{name: mine, command: [b], replaces: csi-attacher}]";
    folder.scenario(header, "  - crash: csi-attacher");
    let ran = folder.ran(&["run", "s.yaml", "--check"]);
    assert!(ran.err.contains("csi-attacher"), "{}", ran.err);
    let fault = "{name: f, match: {plane: k8s, op: patch, where: {caller: mine}}, effect: {crash: mine}}";
    folder.scenario(&format!("{header}\nfaults: [{fault}]"), "  - crash: mine\n  - restart: mine");
    let ran = folder.ran(&["run", "s.yaml", "--check"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn up_refuses_a_program_without_a_name_of_its_own_or_that_cannot_be_started_live() {
    let folder = Folder::new();
    for (args, code, expected) in [
        (&["up", "--run"][..], 2, "CMD"),
        (&["up", "--", "x"], 2, "--run"),
        (&["up", "--run", "--", "csi-attacher"], 2, "add --replaces csi-attacher, or name it with --run-as NAME"),
        (&["up", "--run", "--replaces", "csi-atacher", "--", "x"], 2, "csi-atacher"),
        (&["up", "--run", "--", "./???"], 2, "name it with --run-as NAME"),
        (
            &[
                "up",
                "--backend",
                "directory",
                "--ec2-listen",
                "127.0.0.1:0",
                "--imds-listen",
                "127.0.0.1:0",
                "--kubernetes-listen",
                "127.0.0.1:0",
                "--run",
                "--",
                "./nothing",
            ],
            3,
            "`./nothing` cannot be started in ",
        ),
    ] {
        let ran = folder.ran(args);
        assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(expected), "{args:?}: {}", ran.err);
    }
}
