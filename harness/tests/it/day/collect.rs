//! The data of a bug report, without secrets.

use std::process::Command;

use serde_json::{Value, json};

use crate::day::home::{Home, claim_and_pod, create, eventually};

#[test]
fn a_bundle_has_what_a_bug_report_needs_and_no_secret_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "1", "--token", "canary-as-token"]);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "db", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{\"stringData\":{\"p\":\"canary-applied\"}}" } },
        "stringData": { "password": "canary-in-secret" },
    });
    create(&ready, "/api/v1/namespaces/default/secrets", &secret);
    claim_and_pod(&ready);
    home.ok(&["wait", "--name", "one", "--for", "pod/web=Running", "--timeout", "60s"]);
    home.ok(&["fault", "add", "--name", "one", "slow", "--on", "csi", "--effect", "delay=1ms"]);
    eventually("it is printed", || home.log("one").contains("pod/web is Running"));
    let output = home.ok(&["collect", "--name", "one", "--to", "bug.tar.gz"]);
    assert!(output.contains("bug.tar.gz") && output.contains("Secrets are masked"), "{output}");
    let unpacked = Command::new("tar").args(["xzf", "bug.tar.gz"]).current_dir(home.path()).status().unwrap();
    assert!(unpacked.success());
    let read = |name: &str| std::fs::read_to_string(home.path().join("mooring-one").join(name)).unwrap();
    // "canary-in-secret" as the API server stores it.
    for canary in ["canary", "Y2FuYXJ5"] {
        for file in std::fs::read_dir(home.path().join("mooring-one")).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            assert!(!read(&name).contains(canary), "{canary} is in {name}");
        }
    }
    let state: Value = serde_json::from_str(&read("state.json")).unwrap();
    assert!(state["kubernetes"].to_string().contains("\"db\""), "the Secret itself is there");
    assert!(state["cloud"]["volumes"].as_array().is_some_and(|volumes| !volumes.is_empty()));
    assert!(read("faults.json").contains("\"slow\"") && read("timeline.txt").contains("pvc/data"));
    assert!(read("trace.jsonl").lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert!(read("trace.jsonl").contains("api.commit") && read("log.txt").contains("pod/web is Running"));
    assert_eq!(serde_json::from_str::<Value>(&read("ready.json")).unwrap()["ec2"], ready["ec2"]);
    assert!(read("version.json").contains("kernel") && read("doctor.txt").contains("simulation"));
}
