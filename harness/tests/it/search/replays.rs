//! Replays of runs and of findings, shrunk findings, and reports.

use serde_json::Value;

use super::{MOVE, file, mooring};

#[cfg(any(debug_assertions, feature = "mutants"))]
fn only_file(folder: &std::path::Path) -> std::path::PathBuf {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "yaml"));
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
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

/// A lost write is found, makes a file that fails in `mooring run`, replays, and shrinks.
#[cfg(any(debug_assertions, feature = "mutants"))]
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
fn a_fault_that_never_fires_fails_a_replay_and_a_shrink_as_it_fails_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let fault = "{name: late, match: {plane: csi, op: NodeStageVolume}, when: {nth: 99}, effect: {grpc: ABORTED}}";
    let scenario = file(folder.path(), &format!("{MOVE}faults: [{fault}]\n"));
    for command in ["run", "replay", "shrink"] {
        let (code, wording, _) = mooring(&[command, &scenario]);
        assert_eq!((code, &wording["error"]["code"]), (Some(1), &"fault-never-fired".into()), "{command}: {wording}");
        let message = wording["error"]["message"].as_str().unwrap();
        assert!(message.contains("fault late never fired, so the run proves nothing about it"), "{command}: {message}");
    }
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
