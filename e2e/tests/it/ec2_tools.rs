//! Whole programs, unmodified, against the `mock-ec2` program: Ansible's collection for AWS, Cloud Custodian, Apache
//! Libcloud. The tests check the resulting state of the cloud, not the exit code.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::path::{Path, PathBuf};
use std::process::Output;

use e2e::ec2::Server;
use e2e::have;
use serde_json::Value;

const NODES: &str = "- {name: node-a, zone: us-east-1a, id: i-0123456789abcdef0}\n";

fn start() -> Server {
    Server::start(env!("CARGO_BIN_EXE_mock-ec2-under-test"), NODES, &[]).unwrap()
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/ec2_tools").join(name)
}

/// Returns the cloud's state from its admin API.
fn state(server: &Server) -> Value {
    serde_json::from_str(&server.admin("GET", "/admin/v1/state").unwrap()).unwrap()
}

/// Returns the objects called `kind` in `state` with tag `key` set to `value`.
fn tagged<'a>(state: &'a Value, kind: &str, key: &str, value: &str) -> Vec<&'a Value> {
    state[kind].as_array().unwrap().iter().filter(|thing| thing["tags"][key] == value).collect()
}

fn output_text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn play(server: &Server, name: &str) -> String {
    let endpoint = format!("endpoint={}", server.endpoint());
    let output = server
        .client("ansible-playbook")
        .args(["-i", "localhost,", "-c", "local", "-e", &endpoint])
        .args(["-e", "ansible_python_interpreter={{ ansible_playbook_python }}"])
        .arg(file(name))
        .env("ANSIBLE_NOCOLOR", "1")
        .env("ANSIBLE_PIPELINING", "1")
        .output()
        .unwrap();
    output_text(&output)
}

#[test]
fn ansible_provisions_a_node_with_its_disks_and_removes_it() {
    if !have("ansible") {
        return;
    }
    let server = start();
    let log = play(&server, "provision.yaml");
    let made = state(&server);
    let [node] = tagged(&made, "instances", "Name", "worker")[..] else { panic!("{log}") };
    assert_eq!(node["state"].as_str(), Some("running"), "{log}");
    let options = &node["options"];
    assert_eq!(
        (options["keyName"].as_str(), options["disableApiTermination"].as_bool()),
        (Some("mine"), Some(true)),
        "{log}"
    );
    let held = |volume: &&Value| volume["attachments"].get(node["id"].as_str().unwrap()).is_some();
    let disks = made["volumes"].as_array().unwrap().iter().filter(held);
    let mut sizes: Vec<u64> =
        disks.filter(|v| v["volumeType"] == "gp3").filter_map(|v| v["sizeGib"].as_u64()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [6, 7, 20], "the root volume, the disk of the launch, the one that was attached and grew: {log}");
    let [snapshot] = tagged(&made, "snapshots", "who", "ansible")[..] else { panic!("{log}") };
    let [data] = tagged(&made, "volumes", "Name", "data")[..] else { panic!("{log}") };
    assert_eq!(
        (snapshot["volume"].as_str(), snapshot["description"].as_str()),
        (data["id"].as_str(), Some("nightly")),
        "{log}"
    );

    let log = play(&server, "remove.yaml");
    let left = state(&server);
    assert!(tagged(&left, "snapshots", "who", "ansible").is_empty(), "{log}");
    assert!(tagged(&left, "volumes", "Name", "data").is_empty(), "{log}");
    let [node] = tagged(&left, "instances", "Name", "worker")[..] else { panic!("{log}") };
    assert_eq!(node["state"].as_str(), Some("terminated"), "{log}");
    // The launch's disk without DeleteOnTermination stays; the root volume goes.
    let sizes: Vec<u64> = left["volumes"].as_array().unwrap().iter().filter_map(|v| v["sizeGib"].as_u64()).collect();
    assert!(sizes.contains(&7) && !sizes.contains(&20), "{log}");
}

#[test]
fn cloud_custodian_removes_what_is_unused_and_closes_what_is_shared() {
    if !have("c7n") {
        return;
    }
    let server = start();
    let ask = |form: &str, tag: &str| server.ask(form, tag).unwrap();
    let keep = |kind: &str| {
        format!(
            "TagSpecification.1.ResourceType={kind}&TagSpecification.1.Tag.1.Key=keep&TagSpecification.1.Tag.1.Value="
        )
    };
    let volume = |more: &str| ask(&format!("Action=CreateVolume&AvailabilityZone=us-east-1a&{more}"), "volumeId");
    let (unused, kept) = (volume("Size=1"), volume(&format!("Size=1&{}", keep("volume"))));
    let attached = volume("Size=1");
    let node = "i-0123456789abcdef0";
    ask(&format!("Action=AttachVolume&VolumeId={attached}&InstanceId={node}&Device=/dev/sdf"), "status");
    let snapshot = |more: &str| ask(&format!("Action=CreateSnapshot&VolumeId={kept}&{more}"), "snapshotId");
    let (old, older, shared) = (snapshot(""), snapshot(""), snapshot(&keep("snapshot")));
    let share = "OperationType=add&UserId.1=999999999999&UserId.2=111122223333";
    ask(&format!("Action=ModifySnapshotAttribute&SnapshotId={shared}&{share}"), "return");

    let output = server
        .client("custodian")
        .args(["run", "--cache-period", "0", "-s", "out"])
        .arg(file("custodian.yaml"))
        .output()
        .unwrap();
    let (log, now) = (output_text(&output), state(&server));
    let ids = |kind: &str| -> Vec<&str> {
        now[kind].as_array().unwrap().iter().filter(|v| v["root"] != true).map(|v| v["id"].as_str().unwrap()).collect()
    };
    let sorted = |mut ids: Vec<&str>| -> Vec<String> {
        ids.sort_unstable();
        ids.into_iter().map(str::to_owned).collect()
    };
    assert!(!ids("volumes").contains(&unused.as_str()), "{log}");
    assert_eq!(sorted(ids("volumes")), sorted(vec![kept.as_str(), attached.as_str()]), "{log}");
    assert!(![&old, &older].iter().any(|id| ids("snapshots").contains(&id.as_str())), "{log}");
    assert_eq!(ids("snapshots"), [shared.as_str()], "{log}");
    let snapshots = now["snapshots"].as_array().unwrap();
    let closed = snapshots.iter().find(|s| s["id"] == shared.as_str()).unwrap();
    assert_eq!(closed["sharing"]["accounts"], serde_json::json!(["111122223333"]), "{log}");
    // It queried everything that could use a snapshot, in the Auto Scaling service too.
    let metrics = server.admin("GET", "/metrics").unwrap();
    for action in ["DescribeAutoScalingGroups", "DescribeImages", "DescribeSnapshotAttribute"] {
        assert!(metrics.contains(&format!("action=\"{action}\",outcome=\"ok\"")), "{action}: {log}\n{metrics}");
    }
}

#[test]
fn libcloud_takes_nodes_volumes_and_snapshots_through_their_lives_by_signed_gets() {
    if !have("libcloud") {
        return;
    }
    let server = start();
    // Version 2 is libcloud's default in us-east-1.
    for version in ["2", "4"] {
        let output = server
            .client("python3")
            .arg("-B")
            .arg(file("libcloud_lifecycle.py"))
            .args([server.endpoint(), version])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "version {version}: {}", output_text(&output));
    }
    let left = state(&server);
    assert_eq!(left["snapshots"], serde_json::json!([]));
    assert!(tagged(&left, "volumes", "Name", "data").is_empty());
    assert_eq!(tagged(&left, "instances", "Name", "worker").len(), 2);
}
