//! Commands that wait, and their output meanwhile.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::day::home::{Home, claim_and_pod, eventually, texts};

#[test]
fn a_wait_ends_with_its_conditions_and_prints_lines_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "2", "--trace", "trace.jsonl"]);
    let late = ["wait", "--name", "one", "--for", "pvc/data=Bound", "--timeout", "200ms"];
    let error = home.fails(4, &late);
    assert!(error.contains("pvc/data is not Bound after 200ms: it does not exist"), "{error}");
    claim_and_pod(&ready);
    let wait = ["wait", "--name", "one", "--for", "pvc/data=Bound", "--for", "pod/web=Running", "--timeout", "60s"];
    assert_eq!(home.ok(&wait), "pvc/data is Bound\npod/web is Running\n");
    let cel = |of: &str| home.ok(&["wait", "--name", "one", "--for", of, "--timeout", "60s"]);
    let bound = "self.status.phase == 'Bound' && self.spec.volumeName.startsWith('pvc-')";
    assert_eq!(cel(&format!("pvc/data: {bound}")), format!("pvc/data satisfies `{bound}`\n"));
    let web = "self.exists(p, p.metadata.name == 'web' && has(p.spec.nodeName))";
    assert_eq!(cel(&format!("pods: {web}")), format!("the list of pods satisfies `{web}`\n"));
    let never = ["wait", "--name", "one", "--for", "pvc/data: self.status.phase == 'Lost'", "--timeout", "200ms"];
    let error = home.fails(4, &never);
    assert!(
        error.contains(
            "pvc/data does not satisfy `self.status.phase == 'Lost'` after 200ms: self.status.phase = \"Bound\""
        ),
        "{error}"
    );
    let misspelt = "self.status.phse == 'Bound'";
    let wait = ["wait", "--name", "one", "--for", &format!("pvc/data: {misspelt}"), "--timeout", "4s"];
    let note = format!("waiting until pvc/data satisfies `{misspelt}`: there is no self.status.phse so far\n");
    let error = home.fails(4, &wait);
    assert_eq!(error.matches(&note).count(), 1, "{error}");
    let lines = [
        "pvc/data is Bound to pvc-",
        " asks to attach the volume of pvc/data to node-",
        "the volume of pvc/data is attached to node-",
        "the volume of pvc/data is staged on node-",
        "the volume of pvc/data is published on node-",
        "pod/web is Running on node-",
    ];
    for line in lines {
        eventually(line, || home.log("one").contains(line));
        assert_eq!(home.log("one").matches(line).count(), 1, "{}", home.log("one"));
    }
    let timeline = home.ok(&["timeline", "pvc/data", "--name", "one"]);
    assert!(timeline.contains("pvc/data") && timeline.contains("NodeStage"), "{timeline}");
    let error = home.fails(2, &["timeline", "pvc/none", "--name", "one"]);
    assert!(error.contains("pvc/none"), "{error}");
    assert!(home.fails(2, &["timeline", "pod/web", "--name", "one"]).contains("pvc/NAME"));
    home.ok(&["down", "--name", "one"]);
    // The trace contains every message of every link, like that of `mooring run`.
    let trace = std::fs::read_to_string(home.path().join("trace.jsonl")).unwrap();
    assert!(trace.contains("\"kind\":\"api.commit\"") && trace.contains("\"kind\":\"link.request\""));
}

#[test]
fn a_quiet_mooring_prints_nothing_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "1", "--quiet"]);
    claim_and_pod(&ready);
    home.ok(&["wait", "--name", "one", "--for", "pod/web=Running", "--timeout", "60s"]);
    assert!(!home.log("one").contains("pvc/data"), "{}", home.log("one"));
}

#[test]
fn ready_is_waited_for_also_before_it_is_started_live() {
    let home = Home::new();
    let error = home.fails(4, &["wait", "--name", "one", "--ready", "--timeout", "100ms"]);
    assert!(error.contains("the Mooring called one is not up after 100ms"), "{error}");
    let mut wait = home.mooring(&["wait", "--name", "one", "--ready", "--timeout", "60s"]);
    let waiting = wait.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    home.up("one", &["--nodes", "2"]);
    let output = waiting.wait_with_output().unwrap();
    let (out, error) = texts(&output);
    assert_eq!(out, "one is ready\n");
    // A note after ten seconds, on a busy machine.
    assert!(error.is_empty() || error.contains("waiting for the Mooring called one"), "{error}");
}

#[test]
fn a_condition_that_there_is_not_is_a_usage_error() {
    let home = Home::new();
    for (condition, wrong) in [
        ("pvc/data=Bond", "Bound"),
        ("pvcc/data=Bound", "`pvc`"),
        ("data", "pvc/data=Bound"),
        ("pvc/data: self.status.phase ==", "column 31"),
    ] {
        let error = home.fails(2, &["wait", "--for", condition]);
        assert!(error.contains("--for") && error.contains(wrong), "{error}");
    }
    assert!(home.fails(2, &["wait"]).contains("--for"));
    assert!(home.fails(3, &["wait", "--for", "pvc/data=Bound"]).contains("mooring up --detach"));
}

#[test]
fn a_timeout_a_status_and_the_screen_say_why_nothing_goes_on_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "1", "--without", "csi-mock"]);
    claim_and_pod(&ready);
    let no_driver = "no node has the driver ebs.csi.aws.com of StorageClass gp3; no node has any";
    let wait = ["wait", "--name", "one", "--for", "pod/web=Running", "--timeout", "1s"];
    let wanted = [no_driver, "pvc/data is Pending", "DriverNotRegistered"];
    eventually("the claim waits for its driver", || {
        let error = home.fails(4, &wait);
        wanted.iter().all(|text| error.contains(text))
    });
    let status = home.ok(&["status", "--name", "one"]);
    assert!(status.contains("waiting     pvc/data is Pending") && status.matches(no_driver).count() == 1, "{status}");
    let waiting = home.json(&["status", "--name", "one"])["waiting"].clone();
    assert_eq!((&waiting[0]["object"], &waiting[1]["object"]), (&"pvc/data".into(), &"pod/web".into()), "{waiting}");
    for line in [
        "no CSI driver is registered on node-a: pods with volumes wait for one",
        "pvc/data waits for the driver ebs.csi.aws.com, which no node has registered",
    ] {
        eventually(line, || home.log("one").contains(line));
        assert_eq!(home.log("one").matches(line).count(), 1, "{}", home.log("one"));
    }
    home.ok(&["fault", "add", "--name", "one", "--crash", "kube-scheduler"]);
    let error = home.fails(4, &wait);
    assert!(error.contains("kube-scheduler is down"), "{error}");
}

#[test]
fn a_warning_about_a_claim_is_the_reason_of_its_pod_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "1"]);
    let fault = ["fault", "add", "full", "--name", "one", "--on", "ec2/CreateVolume"];
    home.ok(&[&fault[..], &["--effect", "error=InsufficientVolumeCapacity"]].concat());
    claim_and_pod(&ready);
    let warning = "pvc/data: Warning ProvisioningFailed: ";
    let wait = ["wait", "--name", "one", "--for", "pod/web=Running", "--timeout", "1s"];
    eventually("the warning is printed", || home.fails(4, &wait).contains(warning));
    assert!(home.ok(&["status", "--name", "one"]).contains(warning));
    eventually("the screen says it", || home.log("one").contains("pvc/data: ProvisioningFailed: "));
    assert!(home.ok(&["doctor"]).contains("MiB are free in "), "the disk is looked at");
}

#[test]
fn a_timeline_is_followed_until_its_mooring_ends_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "1"]);
    let mut follow = home.mooring(&["timeline", "--follow", "--name", "one"]);
    let mut follow = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map(Result::unwrap);
    claim_and_pod(&ready);
    // Rows that come after the last check, just before the end, are not shown: each is waited for here.
    let mut shown: Vec<String> = Vec::new();
    while !shown.iter().any(|line| line.contains("NodeStage")) {
        shown.push(lines.next().expect("the timeline goes on as long as its Mooring runs"));
    }
    home.ok(&["down", "--name", "one"]);
    shown.extend(lines);
    let (out, output) = (shown.join("\n"), follow.wait_with_output().unwrap());
    assert!(output.status.success(), "{}", texts(&output).1);
    for wanted in ["pvc/data  claim created", "pvc/data  NodeStage  node-a", "the Mooring called one has ended"] {
        assert_eq!(out.matches(wanted).count(), 1, "{wanted}:\n{out}");
    }
    assert!(home.fails(2, &["timeline", "pod/web", "--follow"]).contains("pvc/NAME"));
}
