//! Error messages and exit codes of `mooring` for mistakes of the user: the message names the flag or the step.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name)
}

/// Returns the command `mooring` with its own home directory.
fn mooring(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooring"));
    command.args(args).env("HOME", home).env("XDG_STATE_HOME", home.join("state")).env("NO_COLOR", "1");
    command.env("XDG_RUNTIME_DIR", home.join("run")).env_remove("GITHUB_ACTIONS").stdin(Stdio::null());
    command
}

/// Returns exit code, standard output and standard error.
fn output_of(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn run(args: &[&str]) -> (i32, String, String) {
    let home = tempfile::tempdir().unwrap();
    output_of(&mooring(home.path(), &[&["run"][..], args].concat()).output().unwrap())
}

/// Writes a file with this text and returns its path. The file lives as long as the directory.
fn file(dir: &tempfile::TempDir, text: &str) -> String {
    let path = dir.path().join("scenario.yaml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_wrong_flag_of_up_is_named_ends_with_2_and_leaves_nothing() {
    for (flag, value, expected) in [
        ("--time-scale", "0", "from 0.001 to 1000000"),
        ("--time-scale", "-1", "from 0.001 to 1000000"),
        ("--time-scale", "nan", "from 0.001 to 1000000"),
        ("--time-scale", "1e-300", "from 0.001 to 1000000"),
        ("--account-id", "12", "twelve digits"),
        ("--zones", "us-east-1a,eu-west-1a", "`eu-west-1a` does not lie in --region us-east-1"),
        ("--zones", "us-east-1", "does not lie in"),
        ("--latency", "slow", "aws-recent"),
        ("--token", "short", "at least 8 characters"),
        ("--nodes", "0", "1..=500"),
        ("--ec2-listen", "4566", "did you mean 127.0.0.1:4566?"),
        ("--kubernetes-listen", "localhost:6443", "did you mean 127.0.0.1:6443?"),
        ("--without", "csi-atacher", "did you mean `csi-attacher`?"),
        ("--backend", "lop", "'loop'"),
        ("--nodse", "3", "'--nodes'"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let (code, _, error) = output_of(&mooring(home.path(), &["up", flag, value]).output().unwrap());
        assert_eq!(code, 2, "{flag} {value}: {error}");
        assert!(error.contains(flag) && error.contains(expected), "{flag} {value}: {error}");
        let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "{flag} {value} leaves {left:?}");
        // The same in JSON.
        let (code, out, _) =
            output_of(&mooring(home.path(), &["up", flag, value, "--output", "json"]).output().unwrap());
        let envelope: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{flag} {value}: {out}"));
        let error = envelope["error"].to_string();
        assert_eq!((code, &envelope["command"], &envelope["status"]), (2, &"up".into(), &"usage".into()), "{out}");
        assert!(error.contains(flag) && error.contains(expected), "{flag} {value}: {error}");
    }
}

#[test]
fn a_time_scale_that_no_wait_survives_is_refused_wherever_it_is_written() {
    let file_name = scenario("first-volume.yaml").display().to_string();
    for value in ["0", "-1", "nan", "1e-300", "1e300"] {
        let (code, _, error) = run(&[&file_name, "--time-scale", value]);
        assert!(code == 2 && error.contains("--time-scale") && error.contains("from 0.001"), "{value}: {error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let text = "name: x\ntime-scale: 1.0e-300\nnodes: {count: 1}\nsteps:\n  - sleep: 1s\n";
    let (code, _, error) = run(&[&file(&dir, text)]);
    assert!(code == 2 && error.contains("scenario.yaml:2:13") && error.contains("it must be a number from"), "{error}");
}

#[test]
fn a_check_shows_every_mistake_of_a_file_to_people_and_programs() {
    let dir = tempfile::tempdir().unwrap();
    let text = "name: x\nnodes: {cuont: 1}\nobjects:\n  - claim: {name: data, size: 1GB}\nsteps:\n  - slep: 1s\n  \
                - wait: [pvc/data]\n";
    let path = file(&dir, text);
    let wanted =
        ["2:9: unknown key `cuont`", "4:31: ", "`1GB` is not a quantity", "6:5: unknown key `slep`", "found a list"];
    let help = ["did you mean `count`?", "did you mean `1Gi`?", "did you mean `sleep`?", "write `{key: value}`"];
    for check in [&[][..], &["--check"]] {
        let (code, _, error) = run(&[&[path.as_str()][..], check].concat());
        assert_eq!(code, 2, "{error}");
        let missing: Vec<_> = wanted.iter().chain(&help).filter(|part| !error.contains(**part)).collect();
        assert!(missing.is_empty(), "{missing:?} is missing in\n{error}");
        let (code, out, _) = run(&[&[path.as_str(), "--output", "json"][..], check].concat());
        let envelope: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, envelope["data"]["mistakes"].as_array().unwrap().len()), (2, 4), "{out}");
        let lines: Vec<_> =
            envelope["data"]["mistakes"].as_array().unwrap().iter().map(|m| m["place"]["line"].to_string()).collect();
        assert_eq!(lines, ["2", "4", "6", "7"], "{out}");
        let actions = envelope["error"]["actions"].to_string();
        assert!(help.iter().all(|part| actions.contains(part)), "{actions}");
    }
    // Searches read files, too.
    let home = tempfile::tempdir().unwrap();
    for command in ["sweep", "replay", "shrink"] {
        let (code, _, error) = output_of(&mooring(home.path(), &[command, &path]).output().unwrap());
        let missing: Vec<_> = wanted.iter().chain(&help).filter(|part| !error.contains(**part)).collect();
        assert!(code == 2 && missing.is_empty(), "{command}: {missing:?} is missing in\n{error}");
        let (_, out, _) = output_of(&mooring(home.path(), &[command, &path, "--output", "json"]).output().unwrap());
        let envelope: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(envelope["data"]["mistakes"][1]["help"], "did you mean `1Gi`? `1G` counts in thousands", "{out}");
    }
}

#[test]
fn a_check_warns_of_a_kind_that_no_loop_works_on() {
    let dir = tempfile::tempdir().unwrap();
    let text = "name: x\nnodes: {count: 1}\nobjects:\n  - apiVersion: networking.k8s.io/v1\n    kind: Ingress\n    \
                metadata: {name: a}\n    spec: {defaultBackend: {service: {name: b, port: {number: 80}}}}\n\
                steps:\n  - sleep: 1s\n";
    let path = file(&dir, text);
    let expected = "scenario.yaml:5:5: Ingress is stored, but no loop of Mooring works on it: no traffic reaches it";
    let (code, _, error) = run(&[&path, "--check"]);
    assert!(code == 0 && error.contains("warning: ") && error.contains(expected), "{error}");
    let (_, out, _) = run(&[&path, "--check", "--output", "json"]);
    let envelope: Value = serde_json::from_str(&out).unwrap();
    assert!(envelope["warnings"][0].as_str().unwrap().ends_with(expected), "{out}");
}

/// Each limit ends this scenario at the same step.
const STUCK: &str = "
name: stuck
deadline: DEADLINE
nodes: {count: 1}
steps:
  - apply:
      - apiVersion: v1
        kind: Pod
        metadata: {name: web}
        spec:
          nodeSelector: {absent: has-this}
          containers: [{name: writer, image: mooring/writer}]
  - wait: {object: pod/web, is: Running, within: 5m}
";

#[test]
fn a_live_run_that_is_given_up_says_its_step_what_it_saw_and_the_events_of_the_object() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &STUCK.replace("DEADLINE", "30m"));
    let args = [&path, "--live", "--backend", "directory", "--timeout", "15s"];
    let (code, out, error) = run(&args);
    assert_eq!(code, 4, "{error}");
    for wanted in [
        "did not end within --timeout 15s of wall time",
        "scenario.yaml:13:5  wait until pod/web is Running within 5m",
        "and the run ends within --timeout 15s",
        "phase Pending",
        "FailedScheduling",
        "needs longer more with --timeout",
    ] {
        assert!(error.contains(wanted), "{wanted:?} is missing in\n{error}");
    }
    assert!(out.contains("stuck timeout"), "{out}");
    let home = tempfile::tempdir().unwrap();
    let all = [&["run"][..], &args, &["--output", "json"]].concat();
    let (code, out, _) = output_of(&mooring(home.path(), &all).output().unwrap());
    let envelope: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &envelope["status"], &envelope["error"]["code"]), (4, &"timeout".into(), &"timeout".into()));
    assert_eq!(envelope["data"]["position"]["line"], 13);
}

#[test]
fn the_deadline_of_a_file_names_the_step_that_it_ends_and_what_was_seen() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, error) = run(&[&file(&dir, &STUCK.replace("DEADLINE", "1m"))]);
    assert_eq!(code, 1, "{error}");
    for wanted in ["scenario.yaml:13:5", "within its deadline of 1m", "phase Pending", "FailedScheduling"] {
        assert!(error.contains(wanted), "{wanted:?} is missing in\n{error}");
    }
}

#[test]
fn a_failed_step_shows_events_of_the_claims_of_its_pod() {
    let dir = tempfile::tempdir().unwrap();
    let stuck = |header: &str| {
        format!(
            "name: stuck\n{header}\nnodes: {{count: 1}}\nsteps:\n  - claim: {{name: data}}\n  - pod: {{name: web, claim: \
             data}}\n  - wait: {{object: pod/web, is: Running, within: 1m}}\n"
        )
    };
    let (code, _, error) = run(&[&file(&dir, &stuck("without: [csi-mock]"))]);
    assert!(code == 1 && error.contains("no node has registered a CSI driver"), "{error}");
    let fault =
        "faults:\n  - {name: full, match: {plane: ec2, op: CreateVolume}, effect: {error: InsufficientVolumeCapacity}}";
    let (code, _, error) = run(&[&file(&dir, &stuck(fault))]);
    assert!(code == 1 && error.contains("pvc/data: ebs.csi.aws.com_csi-provisioner"), "{error}");
    assert!(error.contains("says ProvisioningFailed: ") && !error.contains("no node has registered"), "{error}");
}

#[test]
fn a_simulation_that_is_given_up_says_its_step_to_people_and_programs() {
    let dir = tempfile::tempdir().unwrap();
    // Years of heartbeats take longer on any machine.
    let path = file(&dir, "name: x\nnodes: {count: 2}\ndeadline: 90000h\nsteps:\n  - sleep: 80000h\n");
    let (code, _, error) = run(&[&path, "--timeout", "8s"]);
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("did not end within --timeout 8s of wall time"), "{error}");
    assert!(error.contains("scenario.yaml:5:5  sleep"), "{error}");
    let (code, out, _) = run(&[&path, "--timeout", "8s", "--output", "json"]);
    let envelope: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &envelope["status"]), (4, &"timeout".into()), "{out}");
    // With several runs the report of each names the step as well.
    let (code, out, error) = run(&[&path, "--timeout", "8s", "--seeds", "1..2", "--jobs", "2"]);
    assert_eq!(code, 4, "{error}");
    assert!(out.contains("scenario.yaml:5:5  sleep"), "{out}{error}");
}

#[test]
fn a_missing_requirement_fails_a_live_run_at_once() {
    let block = scenario("block.yaml").display().to_string();
    let (code, out, error) = run(&[&block, "--live", "--backend", "directory"]);
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("pvc/data needs a block device") && error.contains("mooring doctor"), "{error}");
    // It fails before anything is started, so the error names no step.
    assert!(!error.contains("wait until") && !out.contains("wait until"), "{out}{error}");
}

/// Reads one line of the output of `mooring run`, and closes the pipe.
fn head(args: &[&str]) -> (String, i32, String) {
    let home = tempfile::tempdir().unwrap();
    let mut command = mooring(home.path(), &[&["run"][..], args].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    (line, child.wait().unwrap().code().unwrap(), error)
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let path = scenario("first-volume.yaml").display().to_string();
    for args in [&[path.as_str()][..], &[&path, "--trace", "-"], &[&path, "--seeds", "1..3"]] {
        let (line, code, error) = head(args);
        assert!(!line.is_empty() && code == 0 && !error.contains("panicked"), "{args:?}: {line}{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let wrong = file(&dir, "name: x\nnodes: {count: 1}\nstepps: []\n");
    for args in [&[path.as_str(), "--check"][..], &[&wrong, "--annotations", "github"]] {
        let home = tempfile::tempdir().unwrap();
        // The pipe is closed from the beginning.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = mooring(home.path(), &[&["run"][..], args].concat());
        let (code, _, error) = output_of(&command.stdout(writer).output().unwrap());
        assert!([0, 2].contains(&code) && !error.contains("panicked"), "{args:?}: {code} {error}");
    }
}

#[test]
fn a_trace_goes_to_standard_output_where_nothing_else_does() {
    let path = scenario("first-volume.yaml").display().to_string();
    let (code, out, error) = run(&[&path, "--trace", "-"]);
    assert_eq!(code, 0, "{error}");
    assert!(out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{out}");
    assert!(out.contains(r#""kind":"link.request""#) && error.contains("running after"), "{error}");
    for (more, expected) in [(&["--output", "json"][..], "name a file"), (&["--seeds", "1..2"], "name a folder")] {
        let (code, out, error) = run(&[&[path.as_str(), "--trace", "-"], more].concat());
        assert!(code == 2 && format!("{out}{error}").contains(expected), "{out}{error}");
    }
}

#[test]
fn a_timeline_fits_the_terminal() {
    let path = scenario("migration.yaml").display().to_string();
    for columns in ["80", "120"] {
        let home = tempfile::tempdir().unwrap();
        let mut command = mooring(home.path(), &["run", &path]);
        let (code, out, error) = output_of(&command.env("COLUMNS", columns).output().unwrap());
        assert_eq!(code, 0, "{error}");
        let widest = out.lines().map(|line| line.chars().count()).max().unwrap();
        let columns: usize = columns.parse().unwrap();
        assert!(widest <= columns && widest > columns - 15, "{widest} of {columns} columns:\n{out}");
        for wanted in ["next node status in 7s", "steps over", "· waits"] {
            assert!(out.contains(wanted), "{wanted} is missing in\n{out}");
        }
    }
}

#[test]
fn a_report_has_the_figures_of_the_terminal_and_its_axis_ends_with_the_run() {
    // The last event comes long after the last step.
    let path = scenario("incidents/node-advertises-more-volumes-than-it-takes.yaml").display().to_string();
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let (code, out, error) = run(&[&path, "--report", &page.display().to_string()]);
    assert_eq!(code, 0, "{error}");
    let html = std::fs::read_to_string(&page).unwrap();
    let (_, data) = html.split_once("id=\"data\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    let shown = &data["runs"][0];
    let facts: Vec<&str> = shown["facts"].as_array().unwrap().iter().map(|fact| fact.as_str().unwrap()).collect();
    let output_of = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(facts.len() > 3 && output_of.contains(&facts.join(" · ")), "{facts:?} is not in\n{out}");
    let count = facts.last().unwrap().strip_suffix(" events").unwrap();
    assert_eq!(shown["counted"].to_string(), count);
    let (end, last) = (shown["endMs"].as_u64().unwrap(), shown["events"].as_array().unwrap().last().unwrap());
    assert_eq!(end, shown["timeline"]["endMs"].as_u64().unwrap());
    assert!(last["ms"].as_u64().unwrap() > end + 60_000, "{last}");
}

/// Runs `mooring import` with files of these texts.
fn import(texts: &[&str], more: &[&str]) -> (i32, String, String) {
    let home = tempfile::tempdir().unwrap();
    let mut args = vec!["import".to_owned()];
    for (n, text) in texts.iter().enumerate() {
        let path = home.path().join(format!("{n}.yaml"));
        std::fs::write(&path, text).unwrap();
        args.push(path.display().to_string());
    }
    args.extend(more.iter().map(|arg| (*arg).to_owned()));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    output_of(&mooring(home.path(), &args).output().unwrap())
}

const NODE: &str =
    "{apiVersion: v1, kind: Node, metadata: {name: node-a, labels: {topology.kubernetes.io/zone: us-east-1a}}}";

#[test]
fn an_import_of_a_broken_file_ends_with_2_and_names_file_and_object() {
    for (text, expected) in [
        ("a: [", "1.yaml: it is neither JSON nor YAML"),
        ("{apiVersion: v1, kind: Pod}", "1.yaml: Pod: metadata.name is missing"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: 3}", "1.yaml: Pod a: "),
        ("{Volumes: [{VolumeId: vol-1, Size: x}]}", "1.yaml: vol-1: Size"),
    ] {
        let (code, out, err) = import(&[NODE, text], &[]);
        assert_eq!((code, out.as_str()), (2, ""), "{text}: {err}");
        assert!(err.contains(expected), "{text}: {err}");
    }
    let (code, _, err) = import(&[NODE, "{Volumes: [{VolumeId: vol-x, Size: 1, AvailabilityZone: us-east-1a}]}"], &[]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("vol-x"), "{err}");
    let (code, _, err) = import(&[], &["/nowhere.yaml"]);
    assert!(code == 2 && err.contains("/nowhere.yaml: "), "{err}");
}

#[test]
fn an_import_is_a_scenario_that_runs() {
    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: default}, data: {a: aHVudGVyMg==}}";
    let (code, out, err) = import(&[NODE, secret], &[]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("Secret default/s: left out") && err.contains("imported 1 node"), "{err}");
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = run(&[&file(&dir, &out)]);
    assert_eq!(code, 0, "{err}\n{out}");
    let (code, out, _) = import(&[NODE], &["--output", "json", "--anonymise"]);
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &answer["data"]["counts"]["nodes"]), (0, &Value::from(1)));
    assert!(!answer["data"]["scenario"].as_str().unwrap().contains("node-a"), "{answer}");
}
