//! The `mock-ec2` program over real sockets.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use http::{Method, Request};
use rstest::rstest;
use serde_json::Value;
use substrate::{HttpService, body, dial};

use crate::common::program::{ask, program, run, start};
use crate::common::{SIGNED, read, signed};

fn refused(flags: &[&str]) -> (i32, String) {
    let Output { status, stderr, .. } = program().args(flags).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

async fn status(service: &HttpService, request: Request<substrate::Body>) -> u16 {
    read(body::call(service.clone(), request).await.unwrap()).await.status
}

#[test]
fn a_volume_has_a_file_while_it_lives_and_a_clean_end_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (volumes, seeds, trace) = (dir.path().join("v"), dir.path().join("i.yaml"), dir.path().join("t.jsonl"));
    std::fs::write(&seeds, "- {name: a, zone: us-east-1a}").unwrap();
    let [v, i, t] = [&volumes, &seeds, &trace].map(|p| p.to_str().unwrap());
    let (mut running, endpoint) = start(dir.path(), &["--volume-dir", v, "--instances", i, "--trace", t]);
    let volume = run(async {
        let service = dial::http(&endpoint).unwrap();
        let create = "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=4";
        let made = read(body::call(service, signed(create)).await.unwrap()).await;
        assert_eq!(made.status, 200, "{}", made.body);
        made.first("volumeId").unwrap()
    });
    assert_eq!(std::fs::metadata(volumes.join(&volume)).unwrap().len(), 4 << 30);
    let reported = Command::new("kill").args(["-TERM", &running.0.id().to_string()]).status().unwrap();
    assert!(reported.success());
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
    assert!(!volumes.join(&volume).exists() && !dir.path().join("ready.json").exists());
    let lines = std::fs::read_to_string(&trace).unwrap();
    assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert!(lines.contains(r#""kind":"ec2.volume""#) && lines.contains(r#""action":"CreateVolume""#), "{lines}");
}

#[test]
fn the_guard_stands_before_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (_running, endpoint) = start(dir.path(), &["--allow-host", "ec2"]);
    run(async {
        let address = endpoint.strip_prefix("http://").unwrap();
        let service = dial::http(&endpoint).unwrap();
        let ask = |path: &str, headers: &[(&str, &str)]| {
            let mut request = Request::builder().method(Method::GET).uri(path).header("authorization", SIGNED);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            request.body(body::empty()).unwrap()
        };
        let describe = "/?Action=DescribeVolumes&Version=2016-11-15";
        for path in [describe, "/admin/v1/state"] {
            assert_eq!(status(&service, ask(path, &[("host", address)])).await, 200, "{path}");
            assert_eq!(status(&service, ask(path, &[("host", "ec2:4566")])).await, 200, "{path}");
            assert_eq!(status(&service, ask(path, &[("host", "evil.example")])).await, 421, "{path}");
            let foreign = [("host", address), ("origin", "http://evil.example")];
            assert_eq!(status(&service, ask(path, &foreign)).await, 403, "{path}");
            let cross = [("host", address), ("sec-fetch-site", "cross-site")];
            assert_eq!(status(&service, ask(path, &cross)).await, 403, "{path}");
        }
    });
}

#[test]
fn a_fault_that_drops_the_reply_cuts_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let (_running, endpoint) = start(dir.path(), &[]);
    run(async {
        let service = dial::http(&endpoint).unwrap();
        let fault = r#"{"name": "f", "match": {"plane": "ec2"}, "effect": {"drop_reply": true}}"#;
        let add = Request::builder().method("POST").uri("/admin/v1/faults").header("content-type", "application/json");
        assert_eq!(status(&service, add.body(body::full(fault)).unwrap()).await, 201);
        let asked = body::call(service, signed("Action=DescribeVolumes&Version=2016-11-15"));
        assert!(tokio::time::timeout(Duration::from_secs(90), asked).await.unwrap().is_err());
    });
}

#[rstest]
#[case("before", "available")]
#[case("after_effect", "deleting")]
fn a_crash_fault_ends_the_program_as_kill_does(#[case] at: &str, #[case] left: &str) {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.jsonl");
    let (mut running, endpoint) = start(dir.path(), &["--trace", trace.to_str().unwrap()]);
    run(async {
        let service = dial::http(&endpoint).unwrap();
        let made = signed("Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=1");
        let made = read(body::call(service.clone(), made).await.unwrap()).await.first("volumeId").unwrap();
        // A read sees it available, and so does the trace.
        let look = format!("Action=DescribeVolumes&Version=2016-11-15&VolumeId.1={made}");
        assert_eq!(status(&service, signed(&look)).await, 200);
        let fault = format!(
            r#"{{"name": "f", "match": {{"plane": "ec2", "op": "DeleteVolume"}}, "effect": {{"crash": "self"}}, "at": "{at}"}}"#
        );
        let add = Request::builder().method("POST").uri("/admin/v1/faults").header("content-type", "application/json");
        assert_eq!(status(&service, add.body(body::full(fault)).unwrap()).await, 201);
        let asked = body::call(service, signed(&format!("Action=DeleteVolume&Version=2016-11-15&VolumeId={made}")));
        assert!(tokio::time::timeout(Duration::from_secs(90), asked).await.unwrap().is_err());
    });
    assert_eq!(running.0.wait().unwrap().code(), Some(137));
    let text = std::fs::read_to_string(trace).unwrap();
    let last = text.lines().rev().find(|line| line.contains("ec2.volume")).unwrap();
    assert!(last.contains(&format!(r#""state":"{left}""#)), "{last}");
    assert!(text.contains(r#""kind":"fault.fired""#), "{text}");
}

#[test]
fn wrong_usage_says_what_to_do_and_ends_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let seeds = dir.path().join("i.yaml");
    std::fs::write(&seeds, "- {name: a, zone: nowhere}").unwrap();
    let seeds = seeds.to_str().unwrap();
    for (flags, text) in [
        (vec!["--listen", "0.0.0.0:0"], "--token"),
        (vec!["--latency", "slow"], "aws-recent"),
        (vec!["--time-scale", "0"], "from 0.001 to 1000000"),
        (vec!["--time-scale", "-1"], "--time-scale"),
        (vec!["--time-scale", "1e-300"], "--time-scale"),
        (vec!["--instances", seeds], "instances[0].zone"),
        (vec!["--account-id", "12"], "twelve digits"),
    ] {
        let (code, stderr) = refused(&flags);
        assert_eq!(code, 2, "{flags:?}: {stderr}");
        assert!(stderr.contains(text), "{flags:?}: {stderr}");
    }
}

/// The exit code matches other programs', and answered changes are kept.
#[test]
fn an_interrupt_ends_it_with_130_and_its_state_is_saved() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("s.json");
    let flags = ["--state-file", state.to_str().unwrap()];
    let (mut first, endpoint) = start(dir.path(), &flags);
    let create = "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=4";
    let volume = run(ask(&endpoint, create)).first("volumeId").unwrap();
    assert_eq!(first.end("INT"), Some(130));
    assert!(!dir.path().join("ready.json").exists(), "the ready file outlives what it announced");
    let (_second, endpoint) = start(dir.path(), &flags);
    let found = run(ask(&endpoint, &format!("Action=DescribeVolumes&VolumeId.1={volume}")));
    assert_eq!(found.first("volumeId"), Some(volume), "{}", found.body);
}

#[test]
fn a_ready_file_of_an_earlier_run_does_not_announce_one_that_cannot_start() {
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready.json");
    std::fs::write(&ready, "{}").unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, stderr) = refused(&["--listen", &address, "--ready-file", ready.to_str().unwrap()]);
    assert_eq!((code, ready.exists()), (3, false), "{stderr}");
}

#[test]
fn an_environment_error_exits_3() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, stderr) = refused(&["--listen", &taken.local_addr().unwrap().to_string()]);
    assert_eq!(code, 3, "{stderr}");
    let (code, stderr) = refused(&["--instances", "/nowhere/at/all.yaml"]);
    assert_eq!((code, stderr.contains("/nowhere/at/all.yaml")), (3, true));
}

#[test]
fn the_state_is_kept_from_one_run_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let [volumes, seeds, state] = ["v", "i.yaml", "s.json"].map(|name| dir.path().join(name));
    std::fs::write(&seeds, "- {name: a, zone: us-east-1a}").unwrap();
    let [v, i, s] = [&volumes, &seeds, &state].map(|p| p.to_str().unwrap());
    let flags = ["--volume-dir", v, "--instances", i, "--state-file", s, "--latency", "aws"];
    let ask = async |endpoint: &str, form: &str| {
        let form = format!("Version=2016-11-15&{form}");
        read(body::call(dial::http(endpoint).unwrap(), signed(&form)).await.unwrap()).await
    };
    let create = "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=4&ClientToken=t";
    let (mut first, endpoint) = start(dir.path(), &flags);
    let volume = run(async { ask(&endpoint, create).await.first("volumeId").unwrap() });
    std::fs::write(volumes.join(&volume), "precious").unwrap();
    assert!(Command::new("kill").args(["-TERM", &first.0.id().to_string()]).status().unwrap().success());
    assert_eq!(first.0.wait().unwrap().code(), Some(0));
    let (mut second, endpoint) = start(dir.path(), &flags);
    run(async {
        let found = ask(&endpoint, &format!("Action=DescribeVolumes&VolumeId.1={volume}")).await;
        // It was `creating` when the first program ended.
        assert_eq!(found.first("status").as_deref(), Some("available"), "{}", found.body);
        assert_eq!(ask(&endpoint, create).await.first("volumeId").as_deref(), Some(volume.as_str()));
        let other = ask(&endpoint, &create.replace("=t", "=u")).await.first("volumeId").unwrap();
        assert_ne!(other, volume);
    });
    assert_eq!(std::fs::read(volumes.join(&volume)).unwrap(), b"precious");
    assert_eq!(second.end("TERM"), Some(0));
    std::fs::write(&state, "{}").unwrap();
    let (code, stderr) = refused(&["--listen", "127.0.0.1:0", "--state-file", s]);
    assert_eq!((code, stderr.contains("version")), (2, true), "{stderr}");
}

#[test]
fn each_instance_has_a_metadata_service_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let seeds = dir.path().join("i.yaml");
    std::fs::write(&seeds, "- {name: a, zone: us-east-1a}\n- {name: b, zone: us-east-1b}").unwrap();
    let flags = ["--instances", seeds.to_str().unwrap(), "--imds-listen", "127.0.0.1:0"];
    let (_running, _) = start(dir.path(), &flags);
    let ready: Value = serde_json::from_slice(&std::fs::read(dir.path().join("ready.json")).unwrap()).unwrap();
    let services = ready["imds"].as_array().unwrap();
    assert_eq!(services.len(), 2);
    for service in services {
        run(async {
            let endpoint = service["endpoint"].as_str().unwrap();
            let host = endpoint.strip_prefix("http://").unwrap();
            let request = Request::builder().uri("/latest/meta-data/instance-id").header("host", host);
            let request = request.body(body::empty()).unwrap();
            let answer = read(body::call(dial::http(endpoint).unwrap(), request).await.unwrap()).await;
            assert_eq!((answer.status, answer.body.as_str()), (200, service["instance"].as_str().unwrap()));
        });
    }
}

#[test]
fn a_latency_file_is_read_and_a_bad_one_names_the_field() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("l.yaml");
    std::fs::write(&file, "rules: [{operation: CreateVolume, quantiles: [[0, 3600000], [1, 3600000]]}]").unwrap();
    let (_running, endpoint) = start(dir.path(), &["--latency", file.to_str().unwrap()]);
    run(async {
        let create = "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=4";
        let service = dial::http(&endpoint).unwrap();
        let volume = read(body::call(service.clone(), signed(create)).await.unwrap()).await.first("volumeId").unwrap();
        let form = format!("Action=DescribeVolumes&Version=2016-11-15&VolumeId.1={volume}");
        let found = read(body::call(service, signed(&form)).await.unwrap()).await;
        assert_eq!(found.first("status").as_deref(), Some("creating"));
    });
    std::fs::write(&file, "rules: [{operation: CreateVolume, quantiles: [[0, 5]]}]").unwrap();
    let (code, stderr) = refused(&["--latency", file.to_str().unwrap()]);
    assert_eq!((code, stderr.contains("rules[0].quantiles")), (2, true), "{stderr}");
}

/// Returns true if `tool` runs here.
fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success())
}

#[test]
fn a_device_that_the_kernel_has_mounted_is_busy_until_it_is_unmounted() {
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout != b"0\n" || !has("losetup") || !has("mount") || Command::new("mkfs.ext4").arg("-V").output().is_err()
    {
        let required = std::env::var("MOORING_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|r| r == "root"), "MOORING_REQUIRE asks for root, losetup and mkfs.ext4");
        eprintln!("skipped: needs root, losetup and mkfs.ext4");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [volumes, seeds, mount] = ["v", "i.yaml", "m"].map(|name| dir.path().join(name));
    std::fs::create_dir(&mount).unwrap();
    std::fs::write(&seeds, "- {name: a, zone: us-east-1a}").unwrap();
    let (_running, endpoint) =
        start(dir.path(), &["--volume-dir", volumes.to_str().unwrap(), "--instances", seeds.to_str().unwrap()]);
    let ask = |form: String| {
        run(async {
            let form = format!("Version=2016-11-15&{form}");
            read(body::call(dial::http(&endpoint).unwrap(), signed(&form)).await.unwrap()).await
        })
    };
    let instance = ask("Action=DescribeInstances".to_owned()).first("instanceId").unwrap();
    let volume = ask("Action=CreateVolume&AvailabilityZone=us-east-1a&Size=1".to_owned()).first("volumeId").unwrap();
    assert_eq!(
        ask(format!("Action=AttachVolume&VolumeId={volume}&InstanceId={instance}&Device=/dev/xvdaa")).status,
        200
    );
    let file = volumes.join(&volume);
    assert!(Command::new("mkfs.ext4").arg("-q").arg(&file).status().unwrap().success());
    // The mount lives in its own namespace and ends with it, even if the test fails.
    let mut holder = Command::new("unshare")
        .args(["--mount", "sh", "-c", "mount -o loop \"$0\" \"$1\" && echo mounted && exec cat"])
        .args([&file, &mount])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "mounted\n");
    ask(format!("Action=DetachVolume&VolumeId={volume}"));
    let attachment = || ask(format!("Action=DescribeVolumes&VolumeId.1={volume}")).first("attachmentSet").unwrap();
    assert!(attachment().contains("<status>busy</status>"), "{}", attachment());
    drop(holder.stdin.take());
    holder.wait().unwrap();
    let gone = (0..900).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        attachment().is_empty()
    });
    assert!(gone, "{}", attachment());
}
