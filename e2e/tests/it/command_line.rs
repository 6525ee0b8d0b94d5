//! The command's messages for mistakes, and what is left of it when it is killed.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output};
use std::time::Duration;

use e2e::{Up, eventually, have};

const MOORING: &str = env!("CARGO_BIN_EXE_mooring-under-test");

fn run_text(scenario: &str, more: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("scenario.yaml");
    std::fs::write(&file, scenario).unwrap();
    let _seat = more.contains(&"--live").then(|| e2e::seat().unwrap());
    Command::new(MOORING).arg("run").arg(&file).args(more).env("NO_COLOR", "1").output().unwrap()
}

#[test]
fn an_unknown_key_names_its_place_and_the_nearest_key() {
    let output = run_text("name: x\nnodes: {count: 1}\nstepps: []\n", &[]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    for wanted in ["scenario.yaml:3:1", "stepps", "`steps`"] {
        assert!(error.contains(wanted), "{wanted} is missing in\n{error}");
    }
}

#[test]
fn a_wrong_type_names_its_place() {
    let output = run_text("name: x\nnodes: {count: many}\nsteps: []\n", &[]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("scenario.yaml:2") && error.contains("many"), "{error}");
}

#[test]
fn a_failed_expectation_shows_both_sides_and_the_last_trace_lines() {
    let scenario = "name: x\nnodes: {count: 1}\nsteps:\n  - wait: {object: node/node-a, is: NotReady, within: 30s}\n";
    let output = run_text(scenario, &[]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    for wanted in
        ["node/node-a is NotReady", "seen       Ready=True", "scenario.yaml:4", "scenario.yaml --seed 1 shows it again"]
    {
        assert!(error.contains(wanted), "{wanted} is missing in\n{error}");
    }
    assert!(error.lines().filter(|l| l.contains(" #")).count() >= 10, "trace lines are missing in\n{error}");
}

#[test]
fn a_simulation_that_does_not_end_is_stopped_with_its_last_trace_lines() {
    // Years of heartbeats take longer, even in virtual time. A busy machine makes some progress within the limit.
    let scenario = "name: x\nnodes: {count: 9}\ndeadline: 90000h\nsteps:\n  - sleep: 80000h\n";
    let output = run_text(scenario, &["--timeout", "4s"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains("did not end within --timeout 4s of wall time"), "{error}");
    assert!(error.lines().filter(|l| l.contains(" #")).count() >= 10, "trace lines are missing in\n{error}");
}

#[test]
fn help_has_an_example_and_wrong_flags_are_usage_errors() {
    for command in ["run", "up", "doctor"] {
        let output = Command::new(MOORING).args([command, "--help"]).output().unwrap();
        assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("Example:"), "{command}");
    }
    assert_eq!(Command::new(MOORING).args(["run", "--sede", "1"]).output().unwrap().status.code(), Some(2));
    let output = Command::new(MOORING).args(["up", "--without", "kube-schedler"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && error.contains("kube-scheduler"), "{error}");
}

#[test]
fn help_of_component_lists_the_components() {
    for flag in ["--help", "-h"] {
        let output = Command::new(MOORING).args(["component", flag]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("mock-ec2") && text.contains("csi-mock"), "{text}");
    }
}

#[test]
fn a_live_run_says_what_its_disks_are() {
    let scenario = "name: x\nnodes: {count: 1}\nsteps:\n  - wait: {object: node/node-a, is: Ready, within: 60s}\n";
    let output = run_text(scenario, &["--live", "--backend", "directory", "--time-scale", "20"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert!(error.contains("disks: directories (no block devices, no mkfs, no mounts)"), "{error}");
}

/// Returns the loop devices with a backing file below `path`.
fn loops_below(path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/block").unwrap().flatten() {
        let backing = std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if backing.contains(path) {
            found.push(format!("{} {}", entry.file_name().to_string_lossy(), backing.trim()));
        }
    }
    found
}

#[test]
fn kill_9_leaves_no_mount_and_no_loop_device_live() {
    if !have("root") || !have("kubectl") {
        return;
    }
    let mut up = Up::start(MOORING, &["--backend", "loop", "--time-scale", "20"]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("web.yaml");
    std::fs::write(&file, e2e::CLAIM_AND_POD).unwrap();
    up.run("kubectl", &["apply", "-f", &file.display().to_string()]).unwrap();
    up.run("kubectl", &["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]).unwrap();
    let run = std::path::Path::new(up.ready("csi").trim_start_matches("unix://"))
        .ancestors()
        .nth(2)
        .unwrap()
        .display()
        .to_string();
    assert_eq!(loops_below(&run).len(), 1, "the volume is a loop device while the pod runs");
    up.kill().unwrap();
    eventually(|| {
        let left = loops_below(&run);
        anyhow::ensure!(left.is_empty(), "left over: {left:?}");
        Ok(())
    })
    .unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&run), "a mount is left over");
}

/// Sends one raw HTTP request and returns the status line.
fn status(endpoint: &str, request: &str) -> String {
    let address = endpoint.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n) = stream.read(&mut buffer) {
        text.extend_from_slice(&buffer[..n]);
        if n == 0 || text.windows(2).any(|w| w == b"\r\n") {
            break;
        }
    }
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn every_port_checks_host_and_origin_and_unsigned_calls_are_refused_live() {
    let up = Up::start(MOORING, &["--backend", "directory"]).unwrap();
    for (port, path) in [("ec2", "/admin/v1/state"), ("kubernetesHttp", "/api/v1/nodes")] {
        let endpoint = up.ready(port);
        let get = |headers: &str| status(endpoint, &format!("GET {path} HTTP/1.1\r\n{headers}\r\n"));
        assert!(get("Host: localhost\r\n").contains(" 200 "), "{port}");
        assert!(get("Host: evil.example\r\n").contains(" 421 "), "{port}");
        assert!(get("Host: localhost\r\nOrigin: http://evil.example\r\n").contains(" 403 "), "{port}");
        assert!(get("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n").contains(" 403 "), "{port}");
    }
    let form = "Action=DescribeVolumes&Version=2016-11-15";
    let unsigned = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let refused = status(up.ready("ec2"), &unsigned);
    assert!(refused.contains(" 401 ") || refused.contains(" 403 ") || refused.contains(" 400 "), "{refused}");
}

/// Returns a page in headless Chromium: the document after its script has run, and the console messages.
fn page(html: &str, columns: u32) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.html");
    std::fs::write(&file, html).unwrap();
    let profile = format!("--user-data-dir={}", dir.path().join("profile").display());
    let quiet = [
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--enable-logging=stderr",
        "--dump-dom",
    ];
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", &profile, &format!("--window-size={columns},900")])
        .args(quiet)
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let console = error.lines().filter(|line| line.contains("CONSOLE")).collect::<Vec<_>>().join("\n");
    (String::from_utf8_lossy(&output.stdout).into_owned(), console)
}

#[test]
fn a_report_draws_itself_in_a_browser_without_a_word_in_its_console() {
    if !have("chromium") {
        return;
    }
    let evil = "</script><img src=x onerror=alert(1)>";
    let scenario = format!(
        "name: x
description: \"{evil}\"
nodes: {{count: 1}}
steps:
  - claim: {{name: data}}
  - patch: {{object: pvc/data, with: {{metadata: {{annotations: {{x: \"{evil}\"}}}}}}}}
  - pod: {{name: web, claim: data, node: node-a, grace: 1s}}
  - wait: {{object: pod/web, is: Running}}
  - wait: {{object: pod/web, is: gone, within: 5s}}
"
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.html");
    let output = run_text(&scenario, &["--report", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let html = std::fs::read_to_string(&file).unwrap();
    assert!(html.len() < 2_000_000 && html.contains("onerror=alert(1)"), "{}", html.len());
    let (drawn, console) = page(&html, 1280);
    assert_eq!(console, "");
    for wanted in
        ["data-drawn=\"", "NodeStage · node-a", "node-a kubelet", "pod/web is gone within 5s", "mooring replay"]
    {
        assert!(drawn.contains(wanted), "{wanted} is missing in\n{drawn}");
    }
    assert!(!drawn.contains("<img"), "a name became markup");
    // On a narrow screen each label is whole.
    let (drawn, console) = page(&html, 390);
    assert_eq!(console, "");
    let labels = drawn.split_once("class=\"labels\"").unwrap().1.split_once("</svg>").unwrap().0;
    for wanted in
        ["ControllerPublish · node-a", "VolumeAttachment · node-a", "kube-controller-manager", "node-a containers"]
    {
        assert!(labels.contains(wanted), "{wanted} is cut in\n{labels}");
    }
    // A check of the check: errors do reach the console, since the policy allows no script but the page's own.
    let (drawn, console) = page(&html.replace("\"use strict\";", "\"use strict\";;"), 1280);
    assert!(console.contains("Content Security Policy") && !drawn.contains("data-drawn=\""), "{console}");
}
