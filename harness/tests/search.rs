//! Searches, run as processes: a sweep of every point, exploration, replay and shrinking; and their parts in this
//! process.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use harness::cluster::{Cluster, ClusterSpec};
use harness::runner::{self, PauseHook};
use harness::search::document::Document;
use harness::search::end_state::EndState;
use harness::search::judge::{Class, Task, Verdict, judge, judge_and_trace, options};
use harness::search::points;
use harness::search::sweep::{Plan, Sweep};
use harness::search::tolerance::tolerant;
use serde_json::Value;
use substrate::world::simulate;

/// A volume is created, written to, and moves.
const MOVE: &str = "name: small
nodes: {count: 2}
steps:
  - claim: {name: data}
  - pod: {name: web, claim: data, node: node-a, grace: 1s}
  - wait: {object: pod/web, records: 2}
  - delete: {object: pod/web}
  - wait: {object: pod/web, is: gone}
  - pod: {name: web-2, claim: data, node: node-b, grace: 1s}
  - wait: {object: pod/web-2, is: Running}
  - expect: {bytes-intact: pod/web-2, records: 2}
";

/// The cloud requires a signature, but accepts any.
const SIGNED: &str =
    "AWS4-HMAC-SHA256 Credential=user/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0";

const LIMIT: Option<Duration> = Some(Duration::from_secs(120));

fn mooring(args: &[&str]) -> (Option<i32>, Value, Output) {
    let output = Command::new(env!("CARGO_BIN_EXE_mooring")).args(["--output", "json"]).args(args).output().unwrap();
    let wording = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), wording, output)
}

fn file(folder: &Path, text: &str) -> String {
    let path = folder.join("scenario.yaml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[cfg(feature = "mutants")]
fn only_file(folder: &Path) -> std::path::PathBuf {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "yaml"));
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// Faults of the effect `count` add nothing to the trace but their own events.
#[test]
fn the_run_in_which_points_are_found_is_the_unbroken_run() {
    let (document, _) = tolerant(&Document::of_text("t", MOVE).unwrap());
    let task = |document: &Document| Task { text: document.text(), seed: 3, ..Task::default() };
    let lines = |document: &Document| -> Vec<Value> {
        let (verdict, lines) = judge_and_trace(&task(document), LIMIT);
        assert_eq!(verdict.class, Class::Survived, "{}", verdict.message);
        let parse = |line: &String| -> Value { serde_json::from_str(line).unwrap() };
        let bare = |mut event: Value| {
            event.as_object_mut().unwrap().remove("n");
            event
        };
        lines.iter().map(parse).filter(|event| event["kind"] != "fault.fired").map(bare).collect()
    };
    let (unbroken, probed) = (lines(&document), lines(&document.clone().with_faults(points::probes())));
    let differs = unbroken.iter().zip(&probed).find(|(one, other)| one != other);
    assert_eq!(differs, None);
    assert_eq!(unbroken.len(), probed.len());
}

/// Returns the end state of a run of `text`, after it has converged and `more` has changed the cluster.
fn end(text: &str, more: impl AsyncFn(&Cluster)) -> EndState {
    let scenario = Document::of_text("t", text).unwrap().scenario("t.yaml").unwrap();
    simulate(options(&scenario, 1, &[], LIMIT), async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
        let first = RefCell::new(None);
        let rests = async || {
            if first.borrow().is_none() {
                more(&cluster).await;
                let end = EndState::of(&cluster).await;
                first.replace(Some(end));
            }
        };
        let outcome = runner::run_watched(&scenario, &cluster, |_| {}, &PauseHook::none(), rests).await;
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        first.into_inner().unwrap()
    })
}

#[test]
fn a_stray_annotation_finalizer_tag_or_directory_is_found() {
    let standing = format!("teardown: false\n{MOVE}");
    let usual = end(&standing, async |_| {});
    assert_eq!(end(&standing, async |_| {}).differences(&usual).unwrap(), Vec::<String>::new());
    let patched = |with: &str| format!("{standing}  - patch: {{object: pvc/data, with: {{metadata: {with}}}}}\n");
    let annotation = end(&patched("{annotations: {stray: mark}}"), async |_| {});
    let finalizer = end(&patched("{finalizers: [kubernetes.io/pvc-protection, stray.io/mark]}"), async |_| {});
    let directory = end(&standing, async |cluster| {
        let path = cluster.root("node-a").unwrap().join("pods").join("stray");
        cluster.disk("node-a").unwrap().make_dir(&path).await.unwrap();
    });
    let tag = end(&standing, async |cluster| {
        let state = cluster.objects().list(harness::scenario::Kind::volume()).await.unwrap();
        let volume = state[0]["spec"]["csi"]["volumeHandle"].as_str().unwrap().to_owned();
        let body =
            format!("Action=CreateTags&Version=2016-11-15&ResourceId.1={volume}&Tag.1.Key=stray&Tag.1.Value=mark");
        let request = http::Request::post("/")
            .header("host", "localhost")
            .header("authorization", SIGNED)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(substrate::body::full(body))
            .unwrap();
        let answer = substrate::body::call(cluster.ec2().clone(), request).await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    });
    for (end, expected) in
        [(annotation, "stray"), (finalizer, "stray.io/mark"), (tag, "stray"), (directory, "pods/stray")]
    {
        let differences = end.differences(&usual).unwrap();
        assert_eq!(differences.len(), 1, "{expected}: {differences:?}");
        assert!(differences[0].contains(expected), "{differences:?}");
    }
}

#[test]
fn a_sweep_is_the_same_with_one_job_and_with_two() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), MOVE);
    let sweep = |jobs: &str| {
        let (code, wording, output) = mooring(&["sweep", &file, "--points", "7", "--pairs", "1", "--jobs", jobs]);
        assert_eq!(code, Some(i32::from(wording["status"] == "failed")), "{wording}");
        assert_eq!(wording["data"]["ended"], 8, "{wording}");
        output.stdout
    };
    assert_eq!(sweep("1"), sweep("2"));
}

#[test]
fn branches_of_one_run_come_to_what_runs_from_the_start_come_to() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), MOVE);
    let sweep = |more: &[&str]| {
        let (code, wording, output) = mooring(&[&["sweep", &file, "--points", "16", "--jobs", "2"][..], more].concat());
        assert_eq!(code, Some(i32::from(wording["status"] == "failed")), "{wording}");
        assert_eq!(wording["data"]["ended"], 16, "{wording}");
        output.stdout
    };
    assert_eq!(sweep(&[]), sweep(&["--from-start"]));
    // Each verdict, including the digest of its events, is the same in this process and as a branch.
    let document = Document::of_text("t", MOVE).unwrap();
    let plan = Plan { seed: 2, sample: Some(9), ..Plan::default() };
    let sweep = Sweep::prepare(&document, plan, LIMIT).unwrap();
    let branches = (0..sweep.len()).map(|run| (run, sweep.branch(run).unwrap())).collect();
    let late: Vec<_> = (0..2).map(|run| (run, sweep.branch(run).unwrap())).collect();
    let verdicts = branches_of(&sweep.trunk(), branches, "60000");
    assert_eq!(verdicts.len(), sweep.len());
    for (run, verdict) in verdicts {
        assert_eq!(verdict, judge(&sweep.task(run), LIMIT), "{}", sweep.about(run));
    }
    // A copy that does not end within a millisecond is killed, and its parent continues with the next point.
    let verdicts = branches_of(&sweep.trunk(), late, "1");
    assert_eq!(
        verdicts.iter().map(|(run, verdict)| (*run, verdict.class)).collect::<Vec<_>>(),
        [(0, Class::Hung), (1, Class::Hung)]
    );
}

/// Returns the verdicts of branches that run in a process of `mooring`.
fn branches_of(trunk: &Task, branches: Vec<(usize, substrate::fault::Fault)>, limit: &str) -> Vec<(usize, Verdict)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mooring"))
        .args(["search-worker", "--limit-ms", limit, "--memory", "4294967296"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let order = serde_json::json!({ "branches": [trunk, branches] });
    writeln!(child.stdin.take().unwrap(), "{order}").unwrap();
    let output = child.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let news = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let verdicts = news.filter_map(|news| serde_json::from_value(news["ended"].clone()).ok()).collect();
    assert!(lines.ends_with("\"over\"\n"), "{lines}");
    verdicts
}

/// Returns the output of the debugger for these lines.
fn step(scenario: &str, more: &[&str], lines: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mooring"))
        .args(["replay", scenario, "--step"])
        .args(more)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_debugger_goes_forward_and_back_and_on_with_another_fault() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), MOVE);
    let lines = "step 3\nbreak kind disk.staged\ncontinue\nback\nback kind csi.call\ngo #20\n\nreverse\ncontinue\n\
        continue\nunbreak 1\ngo #240\nback 130\nstate\nknows kube-controller-manager\n\
        go 'pvc/data Bound'\nadd {name: f, match: {plane: csi, op: NodeStageVolume}, effect: {error: INTERNAL}}\n\
        faults\nstep kind fault.fired\ndrop f\nstep kind disk.staged\nback\ngo #2\ncontinue\nstpe\nback 2\nquit\n";
    let wording = step(&scenario, &[], lines);
    let all: Vec<&str> = wording.lines().collect();
    let place =
        |text: &str| all.iter().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}:\n{wording}"));
    assert!(all[0].contains("#1 ") && all[1].contains("#4 "), "{wording}");
    let stopped = place("breakpoint 1: kind disk.staged");
    assert!(all[stopped + 1].contains(" disk.staged ") && all[stopped + 2].contains(" csi.call "), "{wording}");
    for wanted in [
        "#20 ",
        "desired",
        "behind: the known state is older than the stored state",
        "kube-controller-manager attach-detach",
        "wants",
        "f is in force",
        "f fired 0 times",
        "fault=f op=NodeStageVolume",
        "f is over; it fired 1 times",
        "taken back: 2 of your changes",
        "the end of the run: survived",
        "`stpe` is not a command; did you mean step?",
    ] {
        place(wanted);
    }
    assert_eq!(step(&scenario, &["--from-start"], lines), wording, "without copies it is the same");
}

#[test]
fn a_debugger_knows_the_letters_of_gdb() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), MOVE);
    let lines = "s\nn\nb disk.staged\nb pvc/data\ni b\nd 2\nc\np event.kind\np volume\np event.ms > 0\np pvc/data\np nothing\n\
                 rs\nrc\nb 3\nq\n";
    let wording = step(&scenario, &[], lines);
    for wanted in [
        "#2 ",
        "#3 ",
        "1  kind disk.staged",
        "2  object pvc/data",
        "breakpoint 1: kind disk.staged",
        "\ndisk.staged\n",
        "\nvol-",
        "\ntrue\n",
        "persistentvolumeclaims/default/data  Bound",
        "print: `nothing` is not known here",
        "`rs 3` goes back",
    ] {
        assert!(wording.contains(wanted), "{wanted:?} is missing in\n{wording}");
    }
}

#[test]
fn a_report_is_the_same_for_the_same_run_and_shows_what_a_search_came_to() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), MOVE);
    let report = |name: &str, args: &[&str]| {
        let path = folder.path().join(name).display().to_string();
        let (code, wording, _) = mooring(&[args, &["--report", &path]].concat());
        assert_eq!(code, Some(0), "{wording}");
        let html = std::fs::read_to_string(&path).unwrap();
        let data = html.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
        (serde_json::from_str::<Value>(data).unwrap(), html)
    };
    let (data, html) = report("one.html", &["replay", &scenario]);
    assert_eq!(html, report("two.html", &["replay", &scenario]).1);
    let events = data["runs"][0]["events"].as_array().unwrap();
    let title = |event: &Value| event["title"].as_str().unwrap_or_default().to_owned();
    // Follow the causes from the mount back to the request.
    let staged = events.iter().find(|event| title(event).contains("formatted and staged")).unwrap();
    let mut chain = Vec::new();
    let mut now = staged;
    while let Some(cause) = now["cause"][0].as_u64() {
        now = &events[usize::try_from(cause).unwrap()];
        chain.push(title(now));
    }
    assert_eq!(chain[..2], ["NodeStageVolume".to_owned(), "asks NodeStageVolume".to_owned()]);
    assert!(chain.iter().any(|title| title.contains("ControllerPublishVolume OK")), "{chain:?}");
    let (data, _) = report("sweep.html", &["sweep", &scenario, "--points", "2", "--only", "lose-reply"]);
    assert_eq!(data["table"]["columns"][0], "what breaks");
    assert_eq!(data["table"]["rows"][0][1], "2", "{}", data["table"]);
    assert_eq!(data["runs"][0]["name"], "the unbroken run");
}

#[test]
fn an_exploration_is_the_same_with_one_job_and_with_two_and_its_parts_are_the_whole() {
    let explore = |more: &[&str]| mooring(&[&["explore"][..], more].concat()).1;
    let one = explore(&["--runs", "6", "--jobs", "1"]);
    assert_eq!(one, explore(&["--runs", "6", "--jobs", "2"]));
    let events = |wording: &Value| wording["data"]["events"].as_u64().unwrap();
    let parts = ["1/2", "2/2"].map(|part| events(&explore(&["--runs", "3", "--shard", part])));
    assert_eq!(parts.iter().sum::<u64>(), events(&one));
}

#[test]
fn a_run_that_takes_too_long_is_a_finding_and_the_search_goes_on() {
    let (code, wording, _) = mooring(&["explore", "--runs", "2", "--jobs", "1", "--timeout", "1ms"]);
    assert_eq!(code, Some(1), "{wording}");
    assert_eq!(wording["data"]["outcomes"]["hung"], 2, "{wording}");
    assert_eq!(wording["data"]["findings"].as_array().unwrap().len(), 1, "one bug is one line: {wording}");
}

/// A lost write is found, makes a file that fails in `mooring run`, replays, and shrinks.
#[cfg(feature = "mutants")]
#[test]
fn a_finding_runs_replays_and_shrinks() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), MOVE);
    let found = folder.path().join("found");
    let out = found.display().to_string();
    let (code, wording, _) = mooring(&[
        "sweep",
        &scenario,
        "--only",
        "lose-reply",
        "--points",
        "1",
        "--mutant",
        "sync-does-nothing",
        "--out",
        &out,
    ]);
    assert_eq!(code, Some(1), "{wording}");
    let bundle = only_file(&found).display().to_string();
    let (code, wording, _) = mooring(&["run", &bundle, "--seed", "1", "--mutant", "sync-does-nothing"]);
    assert_eq!(code, Some(1), "{wording}");
    let (code, wording, _) = mooring(&["replay", &bundle]);
    assert_eq!((code, &wording["data"]["comparedWith"]), (Some(0), &"the recorded trace".into()), "{wording}");

    // Change one event of the recorded trace.
    let beside = found.join(only_file(&found).with_extension("trace.jsonl"));
    let lines = std::fs::read_to_string(&beside).unwrap();
    let changed: Vec<String> = lines
        .lines()
        .enumerate()
        .map(|(at, line)| if at == 99 { line.replace("\"n\":100,", "\"n\":1000,") } else { line.to_owned() })
        .collect();
    std::fs::write(&beside, changed.join("\n") + "\n").unwrap();
    let (code, wording, _) = mooring(&["replay", &bundle]);
    assert_eq!((code, &wording["status"]), (Some(5), &"diverged".into()));
    let message = wording["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("event 100 differs\n  recorded  {") && message.contains("\"n\":1000,"), "{message}");

    let small = folder.path().join("small.yaml");
    let (code, wording, _) = mooring(&["shrink", &bundle, "--out", &small.display().to_string()]);
    assert_eq!(code, Some(0), "{wording}");
    assert!(wording["data"]["after"].as_u64() < wording["data"]["before"].as_u64(), "{wording}");
    let (code, _, _) = mooring(&["run", &small.display().to_string(), "--seed", "1", "--mutant", "sync-does-nothing"]);
    assert_eq!(code, Some(1));
    let text = std::fs::read_to_string(&small).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(lines <= 12, "{text}");
}

#[test]
fn a_replay_stops_at_a_moment_and_shows_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), MOVE);
    let (code, wording, _) = mooring(&["replay", &scenario, "--at", "volumeattachment/csi-* attached", "--state"]);
    assert_eq!(code, Some(0), "{wording}");
    let last = wording["data"]["last"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["kind"], &last["volumeattachment"]["attached"]), (&"api.commit".into(), &true.into()));
    let state = &wording["data"]["state"];
    let objects = state["objects"].as_array().unwrap();
    let attached = objects.iter().find(|o| o["object"].as_str().unwrap().starts_with("volumeattachment/")).unwrap();
    assert_eq!(attached["status/attached"], true, "{attached}");
    assert_eq!(state["ec2"].as_array().unwrap().len(), 1, "{state}");
    let wants = state["loops"].as_array().unwrap().iter().find(|one| one["of"] == "attach-detach").unwrap();
    assert!(wants["desired"][0].as_str().unwrap().ends_with("on node-a for default/web"), "{wants}");
    // The attachment has just been written, and no watch has received it.
    let behind = state["behind"].as_array().unwrap();
    let attacher = behind.iter().find(|one| one["who"] == "csi-attacher").unwrap_or_else(|| panic!("{state}"));
    assert!(attacher["object"].as_str().unwrap().starts_with("volumeattachments/csi-"), "{attacher}");
    assert_eq!((&attacher["knows"]["is"], &attacher["stored"]["is"]), (&"not attached".into(), &"attached".into()));
    let (code, wording, _) = mooring(&["replay", &scenario, "--until", "#50"]);
    assert_eq!((code, &wording["data"]["events"]), (Some(0), &50.into()));
    let (code, wording, _) = mooring(&["replay", &scenario, "--at", "pvc/data Lost"]);
    assert_eq!((code, &wording["error"]["code"]), (Some(1), &"moment-never-came".into()));
    let (code, wording, _) = mooring(&["replay", &scenario]);
    assert_eq!((code, &wording["data"]["comparedWith"]), (Some(0), &"a second run".into()), "{wording}");
}

/// The driver ends after the mount and before the event of it. The next NodeStageVolume finds the mount, and publishing
/// after that is in order.
#[test]
fn a_driver_that_ends_between_mounting_and_telling_breaks_nothing() {
    let (document, _) = tolerant(&Document::of_text("t", MOVE).unwrap());
    let fault = r#"{"name": "end", "match": {"plane": "disk", "op": "stage", "where": {"process": "node-a/csi-node"}},
        "when": {"nth": 1}, "effect": {"crash": "node-a/csi-node"}, "at": "after_effect"}"#;
    let broken = document.with_faults([serde_json::from_str(fault).unwrap()]);
    let verdict = judge(&Task { text: broken.text(), seed: 1, ..Task::default() }, LIMIT);
    assert_eq!((verdict.class, verdict.message.as_str()), (Class::Survived, ""));
    assert!(verdict.silent.is_empty());
}

/// Earlier findings of searches stay fixed, or are declared as deviations of upstream.
#[test]
fn findings_are_fixed_or_declared() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/found");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 2);
    for file in files {
        let document = Document::load(&file).unwrap();
        let declares = ["violations", "possible-violations"].iter().any(|key| document.tree().get(key).is_some());
        // Some depend on chance, and list the seeds that show them.
        let text = std::fs::read_to_string(&file).unwrap();
        let wording = text.lines().find_map(|line| line.strip_prefix("# Seeds: ")).unwrap_or("1 2 3");
        for seed in wording.split(' ').map(|seed| seed.parse().unwrap()) {
            let verdict = judge(&Task { text: document.text(), seed, ..Task::default() }, LIMIT);
            let right = if declares { Class::Declared } else { Class::Survived };
            assert_eq!(verdict.class, right, "{}, seed {seed}: {}", file.display(), verdict.message);
            assert!(verdict.silent.is_empty(), "{}, seed {seed}: {:?}", file.display(), verdict.silent);
        }
    }
}

/// Counts the processes that have this text among their arguments.
#[cfg(target_os = "linux")]
fn running(with: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let commands = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    commands.filter(|line| String::from_utf8_lossy(line).contains(with)).count()
}

/// Returns the output of an exploration that is interrupted after `seconds`.
#[cfg(target_os = "linux")]
fn interrupted(seconds: u64) -> Value {
    use std::io::Read;
    // The unusual limit of wall time identifies its workers.
    let mut child = Command::new(env!("CARGO_BIN_EXE_mooring"))
        .args(["--output", "json", "explore", "--runs", "100000", "--jobs", "2", "--timeout", "98765ms"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(seconds));
    assert_eq!(running("98765\0"), 2);
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut wording = String::new();
    child.stdout.take().unwrap().read_to_string(&mut wording).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(running("98765\0"), 0);
    serde_json::from_str(&wording).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn an_exploration_that_is_interrupted_prints_what_it_has_and_leaves_nothing_running() {
    // On a slow machine no run has ended after the first delay.
    let all = [5, 30, 90].into_iter().map(interrupted);
    let runs = |wording: &Value| wording["data"]["runs"].as_u64().unwrap();
    let wording = all.into_iter().find(|wording| runs(wording) > 0).unwrap();
    let begins = format!("interrupted after {} of 100000 runs", runs(&wording));
    assert!(wording["error"]["message"].as_str().unwrap().starts_with(&begins), "{wording}");
    assert!(!wording["data"]["coverage"]["transitions"].as_array().unwrap().is_empty(), "{wording}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_exploration_that_is_interrupted_does_not_say_that_it_passed() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mooring"));
    child.args(["explore", "--runs", "500", "--jobs", "2", "--timeout", "87654ms"]).env("NO_COLOR", "1");
    let child = child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // Its workers start after its signal handlers are installed.
    while running("87654\0") < 2 {
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let wording = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{wording}");
    assert!(
        wording.starts_with("– explore  ") && wording.contains(" of 500 runs in ") && !wording.contains('✓'),
        "{wording}"
    );
}

#[test]
fn drawn_runs_are_the_same_in_two_processes() {
    let (code, wording, _) = mooring(&["explore", "--runs", "4", "--twice"]);
    assert_eq!(code, Some(i32::from(wording["status"] == "failed")), "{wording}");
    assert_eq!(wording["data"]["outcomes"]["diverged"], Value::Null, "{wording}");
    assert_eq!(wording["data"]["runs"], 4, "{wording}");
    // Compared with another program: here the same one, and one that prints nothing.
    let by = |program: &str| mooring(&["explore", "--runs", "2", "--twice", "--by", program]);
    let (_, wording, _) = by(env!("CARGO_BIN_EXE_mooring"));
    assert_eq!(wording["data"]["outcomes"]["diverged"], Value::Null, "{wording}");
    let (code, wording, _) = by("/bin/true");
    assert_eq!((code, &wording["data"]["outcomes"]["diverged"]), (Some(1), &2.into()), "{wording}");
    let (code, wording, _) = by("/nothing/is/here");
    assert_eq!((code, &wording["error"]["code"]), (Some(3), &"environment".into()), "{wording}");
}

/// Faults that break nothing by themselves become findings with a seeded bug. The sweep finds each bug at a point of
/// the small scenario; with the same fault and without the bug the run has another result.
#[cfg(feature = "mutants")]
mod planted {
    use harness::search::points::PointKind;

    use super::*;

    /// Sweeps the points of these kinds whose description contains `at`, until one of them shows `mutant`.
    fn finds(mutant: &str, kinds: &[PointKind], at: &str, class: Class) {
        let document = Document::of_text("t", MOVE).unwrap();
        let plan = |mutants: Vec<String>| Plan { seed: 1, mutants, only: kinds.to_vec(), ..Plan::default() };
        let sweep = Sweep::prepare(&document, plan(vec![mutant.to_owned()]), LIMIT).unwrap();
        assert_eq!(sweep.unbroken.class, Class::Survived, "{mutant} shows without a fault: {}", sweep.unbroken.message);
        let ends = Some(sweep.unbroken.ends.clone());
        let points: Vec<usize> = (0..sweep.len()).filter(|run| sweep.about(*run).contains(at)).collect();
        let shown = points.iter().copied().find_map(|run| {
            let task = Task { ends: ends.clone(), ..sweep.task(run) };
            let verdict = judge(&task, LIMIT);
            (verdict.class == class).then_some((run, task, verdict))
        });
        let Some((run, task, wrong)) = shown else { panic!("{mutant} shows at none of {} points", points.len()) };
        let right = judge(&Task { mutants: Vec::new(), ..task }, LIMIT);
        assert_ne!(right.signature, wrong.signature, "{mutant} is not to blame: {}", sweep.about(run));
    }

    /// Returns the verdicts of three branches of the small scenario with `mutant`. In the second the first detach
    /// fails, in the others a reply of the cloud is delayed.
    fn branches_with(mutant: &str, limit: &str) -> Vec<Verdict> {
        let (document, _) = tolerant(&Document::of_text("t", MOVE).unwrap());
        let task = harness::search::branch::trunk(&document);
        let trunk = Task { text: task.text(), seed: 1, mutants: vec![mutant.to_owned()], ..Task::default() };
        let late = r#"{"delay": "1s"}"#;
        let faults =
            [("CreateVolume", late), ("DetachVolume", r#"{"error": "UnauthorizedOperation"}"#), ("AttachVolume", late)];
        let fault = |(op, effect): (&str, &str)| {
            let text = format!(
                r#"{{"name": "f", "match": {{"plane": "ec2", "op": "{op}"}}, "when": {{"first": 1}}, "effect": {effect}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let branches = faults.map(fault).into_iter().enumerate().collect();
        let mut verdicts = branches_of(&trunk, branches, limit);
        verdicts.sort_by_key(|(run, _)| *run);
        verdicts.into_iter().map(|(_, verdict)| verdict).collect()
    }

    /// Checks that the second branch is the finding, and that the branches before and after it survive.
    fn is_the_only_finding(mutant: &str, limit: &str, class: Class, expected: &str) {
        let verdicts = branches_with(mutant, limit);
        let classes: Vec<Class> = verdicts.iter().map(|verdict| verdict.class).collect();
        assert_eq!(classes, [Class::Survived, class, Class::Survived], "{verdicts:?}");
        assert!(verdicts[1].message.contains(expected), "{:?}", verdicts[1]);
    }

    #[test]
    fn a_branch_whose_component_panics_is_a_finding() {
        is_the_only_finding("panics-on-failed-detach", "120000", Class::Violated, "panicked");
    }

    #[test]
    fn a_branch_that_hangs_is_a_finding() {
        is_the_only_finding("retries-without-wait", "20000", Class::Hung, "did not end within 20s");
    }

    #[test]
    fn a_branch_that_takes_all_memory_is_a_finding() {
        is_the_only_finding("failed-calls-pile-up", "120000", Class::Broke, "ended without a result: signal: 6");
    }

    /// The first drawn run of seed 1 finds each of them, and finds nothing without them.
    #[test]
    fn five_planted_defects_are_found_at_a_fixed_seed() {
        let number_1 = |mutants: Vec<String>| {
            let plan = harness::search::explore::Plan { seed: 1, mutants, ..Default::default() };
            judge(&plan.task(0), LIMIT)
        };
        let right = number_1(Vec::new());
        assert_eq!(right.class, Class::Survived, "{}", right.message);
        let five =
            ["attachment-lingers", "sync-does-nothing", "unstage-forgets-unmount", "watch-duplicate", "watch-gap"];
        for mutant in five {
            let wrong = number_1(vec![mutant.to_owned()]);
            assert!(wrong.class.is_finding(), "{mutant}: {wrong:?}");
        }
    }

    #[test]
    fn a_second_volume_for_one_token() {
        finds("client-token-ignored", &[PointKind::LoseReply], "csi-controller ec2", Class::Leaked);
    }
}

/// A step that waits in vain because of a declared deviation counts as that deviation, not as another finding.
#[test]
fn a_step_that_a_declared_deviation_keeps_waiting_is_that_deviation() {
    let verdict = |folder: &str, file: &str, change: &dyn Fn(String) -> String| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(folder).join(file);
        let text = change(std::fs::read_to_string(path).unwrap());
        let verdict = judge(&Task { text, seed: 1, ..Task::default() }, LIMIT);
        (verdict.class, verdict.signature)
    };
    let waits = |text: String| text + "  - wait: {object: pod/web-2, is: Running, within: 20m}\n";
    let declared = |id: &str| (Class::Declared, format!("declared: {id}"));
    let placed = "pod-placed-by-a-claim-that-is-gone.yaml";
    assert_eq!(verdict("found", placed, &waits), declared("scheduler-trusts-former-claim"));
    // The same step waits in vain for another reason.
    let other = |text: String| {
        waits(text).replace("delay: 1m", "delay: 1ms").replace("claim: data}\n  - sleep", "claim: none}\n  - sleep")
    };
    assert_eq!(verdict("found", placed, &other).0, Class::Stuck);
    // The leftovers of the volume are consequences of the deviation that keeps it.
    let as_it_is = |text: String| text;
    let mounted = "mount-that-was-done-and-answered-with-an-error.yaml";
    assert_eq!(verdict("found", mounted, &as_it_is), declared("kubelet-trusts-failed-mount"));
    // The next pod of the claim waits for the volume on another node.
    let moves = |text: String| {
        let other = "  - pod: {name: web-2, claim: data, node: node-b}\n";
        waits(
            text.replace("nodes: {count: 1}", "nodes: {count: 2}")
                .replace("claim: data, ", "claim: data, node: node-a, ")
                + other,
        )
    };
    assert_eq!(verdict("found", mounted, &moves), declared("kubelet-trusts-failed-mount"));
}
