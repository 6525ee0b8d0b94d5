//! `mooring run` with several files and seeds: its runs, its output and its exit code.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A file that passes at once.
const QUIET: &str = "name: quiet\nnodes: {count: 1}\nsteps:\n  - wait: {object: node/node-a, is: Ready}\n";
/// A file that fails.
const FAILS: &str = "name: fails\nnodes: {count: 1}\nsteps:\n  - wait: {object: pod/absent, is: Running, within: 5s}\n";
/// A file that does not end in time: years of heartbeats.
const ENDLESS: &str = "name: endless\nnodes: {count: 9}\ndeadline: 90000h\nsteps:\n  - sleep: 80000h\n";
/// A file with a mistake.
const WRONG: &str = "name: wrong\nnodes: {cuont: 1}\nsteps: []\n";

/// Creates a folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

/// Returns a scenario of the repository with a step added that leaves a volume behind.
fn leaks() -> String {
    let text = std::fs::read_to_string(scenario("first-volume.yaml")).unwrap();
    // A volume that no step deletes.
    let made = "  - ec2: {action: CreateVolume, with: {AvailabilityZone: us-east-1a, Size: 1}}";
    format!("{}\n{made}\n", text.trim_end())
}

fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name)
}

/// Returns the command `mooring run` in `dir`, without the variables of CI.
fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooring"));
    command.arg("run").args(args).current_dir(dir).env_remove("GITHUB_ACTIONS").env("NO_COLOR", "1");
    command
}

/// Returns exit code, standard output and standard error.
fn run(dir: &Path, args: &[&str]) -> (i32, String, String) {
    output_of(command(dir, args).output().unwrap())
}

fn output_of(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Returns the exit code and the envelope.
fn json(dir: &Path, args: &[&str]) -> (i32, Value) {
    let (code, out, err) = run(dir, &[args, &["--output", "json"]].concat());
    (code, serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}")))
}

#[test]
fn a_folder_runs_with_each_seed_and_has_a_line_for_each_file() {
    let dir = folder(&[("b.yaml", QUIET), ("a/deep.yml", QUIET), ("list.yaml", "- id: b1\n"), ("readme.md", "x")]);
    let (code, out, err) = run(dir.path(), &[".", "--seeds", "1..3,9", "--jobs", "2"]);
    assert_eq!(code, 0, "{out}{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("– list.yaml skipped: it has no `steps:`"), "{out}");
    for (line, file) in [(lines[1], "a/deep.yml"), (lines[2], "b.yaml")] {
        assert!(line.starts_with("✓ quiet  4 of 4 seeds passed  (") && line.ends_with(file), "{out}");
    }
    assert!(out.contains("✓ 2 files · 8 runs · 8 passed · ") && out.contains(" runs per second with 2 jobs"), "{out}");
    assert_eq!(err, "");
}

#[test]
fn lines_fit_the_columns_that_there_are_and_files_have_whole_ones() {
    let long = "a-check-with-a-name-that-is-much-longer-than-half-of-a-terminal-is-wide";
    let name = format!("some/folder/that/is/deep/{long}.yaml");
    let text = QUIET.replace("name: quiet", &format!("name: {long}"));
    let dir = folder(&[(&name, &text), ("b.yaml", QUIET)]);
    let output = command(dir.path(), &["."]).env("COLUMNS", "80").output().unwrap();
    let (code, out, err) = output_of(output);
    assert_eq!(code, 0, "{out}{err}");
    let widest = out.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 80, "{widest} columns:\n{out}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("✓ quiet  ") && lines[0].ends_with("b.yaml"), "{out}");
    assert!(
        lines[1].starts_with("✓ a-check-with") && lines[1].contains("… ") && lines[1].ends_with("wide.yaml"),
        "{out}"
    );
    assert!(out.contains("\n✓ 2 files · 2 runs · ") && out.contains("jobs"), "{out}");
    let (_, out, _) = output_of(command(dir.path(), &["."]).env_remove("COLUMNS").output().unwrap());
    assert!(out.contains(&name) && out.contains(&format!("✓ {long}  ")), "{out}");
}

#[test]
fn json_has_one_entry_for_each_run_in_order() {
    let dir = folder(&[("a.yaml", FAILS), ("b.yaml", QUIET)]);
    let (code, envelope) = json(dir.path(), &["*.yaml", "--seeds", "2,1", "--jobs", "2"]);
    let data = &envelope["data"];
    let of = |field: &str| data["runs"].as_array().unwrap().iter().map(|r| r[field].clone()).collect::<Vec<_>>();
    assert_eq!((code, envelope["status"].as_str()), (1, Some("failed")));
    assert_eq!(of("file"), ["a.yaml", "a.yaml", "b.yaml", "b.yaml"]);
    assert_eq!(of("seed"), [1, 2, 1, 2]);
    assert_eq!(of("exit"), [1, 1, 0, 0]);
    assert_eq!(of("verdict"), ["failed", "failed", "passed", "passed"]);
    assert_eq!(of("world"), ["simulated"; 4]);
    let (failed, passed) = (&data["runs"][0], &data["runs"][2]);
    assert_eq!(failed["failure"]["code"], "expectation-failed");
    assert_eq!(failed["position"], serde_json::json!({ "file": "a.yaml", "line": 4, "column": 5 }));
    assert!(passed["failure"].is_null() && passed["position"].is_null());
    assert!(passed["checked"]["I7"].as_u64().unwrap() > 0 && passed["elapsedMs"].as_u64().unwrap() > 0, "{passed}");
    assert_eq!(data["summary"]["failed"], 2);
    assert!(data["summary"]["runsPerSecond"].as_f64().unwrap() > 0.0);
}

/// Returns the traces of a folder by name.
fn traces(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> =
        all.map(|p| (p.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&p).unwrap())).collect();
    all.sort();
    all
}

#[test]
fn the_trace_of_a_run_among_many_is_that_of_the_run_alone() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["node-crash-short.yaml", "first-volume.yaml"];
    let paths = files.map(|name| scenario(name).display().to_string());
    let (code, out, err) = run(
        dir.path(),
        &[&paths[0], &paths[1], "--seeds", "1..3", "--jobs", "3", "--trace", "many", "--latency", "aws"],
    );
    assert_eq!(code, 0, "{out}{err}");
    let many = traces(&dir.path().join("many"));
    assert_eq!(many.len(), 6);
    for (path, name) in paths.iter().zip(files) {
        for seed in ["1", "2", "3"] {
            let (code, ..) = run(dir.path(), &[path, "--seed", seed, "--trace", "one.jsonl", "--latency", "aws"]);
            assert_eq!(code, 0);
            let one = std::fs::read(dir.path().join("one.jsonl")).unwrap();
            let end = name.replace(".yaml", &format!(".{seed}.jsonl"));
            let same = many.iter().filter(|(found, _)| found.ends_with(&format!("scenarios-{end}")));
            let same: Vec<bool> = same.map(|(_, bytes)| *bytes == one).collect();
            assert!(one.len() > 100_000 && same == [true], "{end}: {} bytes, {same:?}", one.len());
        }
    }
}

#[test]
fn the_first_failure_of_a_file_is_shown_once_with_the_command_that_shows_it_again() {
    let dir = folder(&[("it fails.yaml", FAILS), ("quiet.yaml", QUIET)]);
    let (code, out, err) = run(dir.path(), &[".", "--seeds", "3..6", "--latency", "aws"]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("✗ fails  0 of 4 seeds passed") && out.contains("✓ quiet  4 of 4 seeds passed"), "{out}");
    assert_eq!(out.matches("expected   pod/absent is Running").count(), 1, "{out}");
    assert_eq!(out.matches("the last trace line").count(), 1, "{out}");
    assert!(out.contains("\nfails           4  3..6\n"), "{out}");
    assert!(out.contains("\nagain: mooring run 'it fails.yaml' --seed 3 --latency aws\n"), "{out}");
    assert!(err.starts_with("error: 4 of 8 runs failed\n  next: mooring run 'it fails.yaml' --seed 3"), "{err}");
}

#[test]
fn of_several_runs_the_first_exit_code_of_the_order_counts() {
    let leaks = leaks();
    let dir =
        folder(&[("quiet.yaml", QUIET), ("fails.yaml", FAILS), ("leaks.yaml", &leaks), ("endless.yaml", ENDLESS)]);
    let exits = |files: &[&str], more: &[&str]| {
        let (code, envelope) = json(dir.path(), &[files, more].concat());
        let runs = envelope["data"]["runs"].as_array().unwrap().iter().map(|r| r["exit"].as_u64().unwrap());
        (code, runs.collect::<Vec<_>>())
    };
    assert_eq!(exits(&["leaks.yaml", "quiet.yaml"], &[]), (6, vec![6, 0]));
    assert_eq!(exits(&["leaks.yaml", "quiet.yaml", "fails.yaml"], &[]), (1, vec![6, 0, 1]));
    // A run that does not end is aborted, and the others continue.
    let limited = ["--timeout", "10s", "--jobs", "1"];
    assert_eq!(exits(&["endless.yaml", "quiet.yaml"], &limited), (4, vec![4, 0]));
}

#[test]
fn a_run_that_does_not_end_shows_its_last_trace_lines() {
    let dir = folder(&[("endless.yaml", ENDLESS), ("quiet.yaml", QUIET)]);
    // Within the limit, a busy machine comes to the end of the other file.
    let (code, out, _) = run(dir.path(), &[".", "--timeout", "10s", "--jobs", "1"]);
    assert_eq!(code, 4, "{out}");
    assert!(out.contains("endless.yaml with seed 1: timeout\nthe run did not end within --timeout 10s"), "{out}");
    assert_eq!(out.lines().filter(|line| line.contains("s #")).count(), 20, "{out}");
}

#[test]
fn a_mistake_in_one_file_stops_all_and_each_is_shown() {
    let dir = folder(&[("quiet.yaml", QUIET), ("wrong.yaml", WRONG), ("worse.yaml", "name: [\nsteps: []\n")]);
    let (code, out, err) = run(dir.path(), &[".", "--seeds", "1..2"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    for wanted in ["wrong.yaml:2:9", "did you mean `count`?", "──┬──", "worse.yaml:", "2 mistakes", "nothing was run"]
    {
        assert!(err.contains(wanted), "{wanted} is missing in\n{err}");
    }
    let (code, envelope) = json(dir.path(), &[".", "--seeds", "1..2"]);
    let place = &envelope["data"]["mistakes"][1]["place"];
    assert_eq!((code, place["line"].as_u64(), place["text"].as_str()), (2, Some(2), Some("cuont")), "{envelope:#}");
    let (code, _, err) = run(dir.path(), &["quite.yaml", "wrong.yaml"]);
    assert!(code == 2 && err.contains("quite.yaml: no such file; did you mean quiet.yaml?"), "{err}");
    let (code, _, err) = run(dir.path(), &["*.yml"]);
    assert!(code == 2 && err.contains("*.yml: no .yaml or .yml file matches this pattern"), "{err}");
}

#[test]
fn check_reads_and_runs_nothing() {
    let dir = folder(&[("endless.yaml", ENDLESS), ("list.yaml", "- x\n")]);
    let (code, out, err) = run(dir.path(), &[".", "--check"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, "✓ endless.yaml  endless\n– list.yaml skipped: it has no `steps:`, so it is not a scenario\n");
    std::fs::write(dir.path().join("wrong.yaml"), WRONG).unwrap();
    let (code, out, err) = run(dir.path(), &[".", "--check", "--annotations", "github"]);
    assert_eq!(code, 2, "{err}");
    assert!(out.contains("✗ wrong.yaml\n") && err.contains("──┬──"), "{out}{err}");
    assert!(
        out.contains("\n::error file=wrong.yaml,line=2,col=9,title=a mistake in a scenario::wrong.yaml:2:9: "),
        "{out}"
    );
    // A file that is named by itself must be a scenario.
    assert_eq!(run(dir.path(), &["list.yaml", "--check"]).0, 2);
}

#[test]
fn ci_gets_the_file_and_the_line() {
    let dir = folder(&[("fails.yaml", FAILS), ("quiet.yaml", QUIET)]);
    let start =
        "::error file=fails.yaml,line=4,col=5,title=fails%3A 2 of 2 seeds failed%3A 1%2C2::fails.yaml:4:5  wait";
    let (_, out, err) =
        output_of(command(dir.path(), &[".", "--seeds", "1..2"]).env("GITHUB_ACTIONS", "true").output().unwrap());
    assert_eq!(out.lines().filter(|line| line.starts_with(start)).count(), 1, "{out}{err}");
    let none = |args: &[&str]| {
        let (_, out, err) = output_of(command(dir.path(), args).env("GITHUB_ACTIONS", "true").output().unwrap());
        (out.contains("::error"), err.contains("::error"))
    };
    assert_eq!(none(&[".", "--annotations", "none"]), (false, false));
    // Standard output is one envelope.
    assert_eq!(none(&[".", "--output", "json"]), (false, true));
    assert_eq!(none(&["quiet.yaml"]), (false, false));
    assert_eq!(none(&["fails.yaml"]), (true, false));
    let (_, out, _) = run(dir.path(), &["fails.yaml"]);
    assert!(!out.contains("::error"), "{out}");
}

/// Names and attributes of a JUnit report: `testcase seed 2 line=4`, `failure expectation-failed`.
fn junit(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut reader = quick_xml::Reader::from_str(&text);
    let mut seen = Vec::new();
    loop {
        use quick_xml::events::Event;
        match reader.read_event().unwrap_or_else(|e| panic!("{e}: {text}")) {
            Event::Start(e) | Event::Empty(e) => {
                let shown = ["name", "type", "line", "failures", "errors", "skipped"];
                let mut words = vec![e.name().as_ref().to_owned()];
                for attribute in e.attributes().map(Result::unwrap) {
                    if shown.contains(&attribute.key.as_ref()) {
                        words.push(format!("{}={}", attribute.key.as_ref(), &*attribute.value));
                    }
                }
                seen.push(words.join(" "));
            }
            Event::Eof => return seen,
            _ => {}
        }
    }
}

#[test]
fn a_junit_report_has_a_suite_for_each_file_and_a_case_for_each_seed() {
    let dir = folder(&[("a.yaml", QUIET), ("b.yaml", FAILS), ("c.yaml", QUIET)]);
    let report = dir.path().join("report.xml");
    let (code, out, _) =
        run(dir.path(), &[".", "--seeds", "1..2", "--junit", "report.xml", "--fail-fast", "--jobs", "1"]);
    assert_eq!(code, 1);
    assert_eq!(
        junit(&report),
        [
            "testsuites name=mooring failures=1 errors=0 skipped=3",
            "testsuite name=quiet failures=0 errors=0 skipped=0",
            "testcase name=seed 1",
            "testcase name=seed 2",
            "testsuite name=fails failures=1 errors=0 skipped=1",
            "testcase name=seed 1 line=4",
            "failure type=expectation-failed",
            "testcase name=seed 2",
            "skipped",
            "testsuite name=quiet failures=0 errors=0 skipped=2",
            "testcase name=seed 1",
            "skipped",
            "testcase name=seed 2",
            "skipped",
        ]
    );
    assert!(out.contains("✗ fails  0 of 2 seeds passed, 1 not run") && out.contains("– quiet  0 of 2"), "{out}");
    // A single run whose process is ended by its watchdog has a report as well.
    std::fs::write(dir.path().join("endless.yaml"), ENDLESS).unwrap();
    let (code, ..) = run(dir.path(), &["endless.yaml", "--timeout", "1s", "--junit", "report.xml"]);
    assert_eq!((code, junit(&report).pop().unwrap().as_str()), (4, "error type=did-not-end"));
    let (code, _, err) = run(dir.path(), &["a.yaml", "--junit", "no/such/folder.xml"]);
    assert!(code == 3 && err.contains("--junit no/such/folder.xml"), "{err}");
}

/// A run in progress. It is killed on drop.
struct Running(Child);

impl Running {
    fn start(dir: &Path, args: &[&str]) -> Self {
        Self(command(dir, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Returns its output up to the line that contains `wanted`.
    fn until(&mut self, wanted: &str) -> String {
        let (mut text, mut byte) = (Vec::new(), [0]);
        let stdout = self.0.stdout.as_mut().unwrap();
        loop {
            assert!(stdout.read(&mut byte).unwrap() == 1, "it ended: {}", String::from_utf8_lossy(&text));
            text.push(byte[0]);
            if byte[0] == b'\n' && String::from_utf8_lossy(&text).contains(wanted) {
                return String::from_utf8(text).unwrap();
            }
        }
    }

    /// Sends Ctrl-C. Returns the exit code and the rest of its output.
    fn interrupt(mut self) -> (i32, String, String) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.0.wait().unwrap().code().unwrap(), out, err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_interrupted_batch_prints_what_it_has() {
    let dir = folder(&[("a.yaml", FAILS), ("b.yaml", ENDLESS)]);
    let mut running = Running::start(dir.path(), &[".", "--seeds", "1..2", "--junit", "report.xml", "--jobs", "2"]);
    running.until("✗ fails    0 of 2 seeds passed");
    let (code, out, err) = running.interrupt();
    assert_eq!(code, 130, "{out}{err}");
    assert!(
        out.contains("– endless  0 of 2 seeds passed, 2 not run") && out.contains("\nfails           2  1,2\n"),
        "{out}"
    );
    assert!(out.contains("2 runs · 0 passed · 2 failed · 2 not run"), "{out}");
    assert!(err.contains("interrupted after 2 of 4 runs, 2 failed"), "{err}");
    assert_eq!(junit(&dir.path().join("report.xml"))[0], "testsuites name=mooring failures=2 errors=0 skipped=2");
}

#[test]
fn live_runs_go_one_after_another() {
    let dir = folder(&[("a.yaml", QUIET), ("b.yaml", FAILS), ("c.yaml", QUIET)]);
    let live = ["--live", "--backend", "directory", "--time-scale", "20", "--seeds", "1..2"];
    let (code, envelope) = json(dir.path(), &[&["."], &live[..]].concat());
    assert_eq!(code, 1, "{envelope:#}");
    let runs = envelope["data"]["runs"].as_array().unwrap();
    let of = |field: &str| runs.iter().map(|r| r[field].clone()).collect::<Vec<_>>();
    assert_eq!(of("exit"), [0, 0, 1, 1, 0, 0]);
    assert_eq!(of("seed"), [1, 2, 1, 2, 1, 2]);
    assert_eq!((of("world"), of("backend")), (vec!["live".into(); 6], vec!["directory".into(); 6]));
    assert_eq!(runs[2]["position"]["line"], 4);
    assert_eq!(runs[2]["failure"]["code"], "expectation-failed");
    assert!(runs[0]["checked"]["I7"].as_u64().unwrap() > 0);
}

#[test]
fn an_interrupted_live_batch_takes_its_cluster_down() {
    let sleeps = "name: sleeps\nnodes: {count: 1}\ndeadline: 30m\nsteps:\n  - sleep: 20m\n";
    let dir = folder(&[("a.yaml", QUIET), ("b.yaml", sleeps)]);
    let temp = folder(&[]);
    let mut command = command(dir.path(), &[".", "--live", "--backend", "directory"]);
    command.env("TMPDIR", temp.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    running.until("✓ quiet");
    // The second run has begun when its directory exists. It is interrupted at once, before it has anything else.
    let made = || std::fs::read_dir(temp.path()).unwrap().count() > 0;
    let begun = (0..90_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        made()
    });
    assert!(begun, "the second run has begun");
    let (code, out, err) = running.interrupt();
    assert!(code == 130 && out.contains("– sleeps  0 of 1 seed passed, 1 not run"), "{code} {out}{err}");
    assert!(!made(), "its directory is gone");
}

#[test]
fn a_live_cluster_that_is_kept_can_be_reached_until_ctrl_c() {
    let dir = folder(&[("fails.yaml", FAILS), ("quiet.yaml", QUIET)]);
    for (file, expected) in [("fails.yaml", 1), ("quiet.yaml", 0)] {
        let args = [file, "--live", "--keep", "--backend", "directory", "--time-scale", "20"];
        let mut running = Running::start(dir.path(), &args);
        let text = running.until("Ctrl-C takes everything down.");
        let after = |word: &str| {
            let line =
                text.lines().find(|line| line.trim_start().starts_with(word)).unwrap_or_else(|| panic!("{text}"));
            line.split_whitespace().last().unwrap().to_owned()
        };
        let kubeconfig = PathBuf::from(after("kubeconfig"));
        let cloud = after("cloud").trim_start_matches("http://").to_owned();
        let env = std::fs::read_to_string(after("source")).unwrap();
        assert!(env.contains(&format!("export AWS_ENDPOINT_URL=http://{cloud}\n")), "{env}");
        assert!(env.contains(&format!("export KUBECONFIG={}\n", kubeconfig.display())), "{env}");
        assert!(std::fs::read_to_string(&kubeconfig).unwrap().contains("certificate-authority-data"));
        assert!(std::net::TcpStream::connect(&cloud).is_ok(), "the cloud answers");
        let (code, out, err) = running.interrupt();
        assert_eq!(code, expected, "{out}{err}");
        assert_eq!(err.contains("seen       it does not exist"), file == "fails.yaml", "{err}");
        assert!(!kubeconfig.exists() && std::net::TcpStream::connect(&cloud).is_err(), "everything was taken down");
    }
}

#[test]
fn keep_is_refused_where_nothing_can_stay() {
    let dir = folder(&[("a.yaml", QUIET), ("b.yaml", QUIET)]);
    for (args, why) in [
        (&["a.yaml", "--keep"][..], "--live"),
        (&["a.yaml", "b.yaml", "--keep", "--live"], "--keep: one cluster can stay up, so name one file"),
        (&["a.yaml", "--keep", "--live", "--seeds", "1..2"], "--seeds"),
    ] {
        let (code, _, err) = run(dir.path(), args);
        assert!(code == 2 && err.contains(why), "{args:?}: {err}");
    }
}

#[test]
fn one_file_with_one_seed_prints_its_timeline() {
    let path = scenario("first-volume.yaml").display().to_string();
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(dir.path(), &[&path, "--seeds", "7"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("✓ first-volume passed · virtual time ") && out.contains("seed 7"), "{out}");
    let wall =
        |text: &str| text.lines().filter(|line| !line.contains("wall time")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(wall(&out), wall(&run(dir.path(), &[&path, "--seed", "7"]).1));
    let (_, envelope) = json(dir.path(), &[&path, "--seed", "7"]);
    assert!(envelope["data"]["timeline"]["volumes"].is_array() && envelope["data"]["runs"].is_null());
}
