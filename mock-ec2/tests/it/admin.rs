//! The admin API: faults, the device stream, admin actions.

use http::Request;
use mock_ec2::LatencyProfile::{Aws, AwsRecent, Instant};
use mock_ec2::events::{AttachmentChanged, AttachmentPhase};
use serde_json::{Value, json};
use substrate::body;

use crate::common::{self, config, play, with_token};

fn fault(name: &str, op: &str, effect: Value, at: &str) -> Value {
    json!({ "name": name, "match": { "plane": "ec2", "op": op }, "when": { "first": 1 }, "effect": effect, "at": at })
}

#[test]
fn an_error_fault_strikes_before_anything_happens_and_is_counted() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        let mut strike = fault("f", "AttachVolume", json!({"error": "RequestLimitExceeded"}), "before");
        strike["match"]["where"] =
            json!({ "volume": volume, "instance": cloud.instance("node-a"), "caller": "tester" });
        assert_eq!(cloud.admin("POST", "faults", Some(strike)).await.0, 201);
        let first = cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await;
        assert_eq!((first.status, first.code().as_str()), (503, "RequestLimitExceeded"));
        assert_eq!(first.message(), "Request limit exceeded.");
        assert_eq!(cloud.volume_status(&volume).await, "available");
        assert_eq!(cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await.status, 200);
        let (status, report) = cloud.admin("GET", "faults/f", None).await;
        assert_eq!((status, &report["hits"], &report["near_misses"]), (200, &json!(1), &json!(1)));
        assert_eq!(cloud.admin("DELETE", "faults/f", None).await.1["hits"], 1);
        assert_eq!(cloud.admin("GET", "faults/f", None).await.0, 404);
    });
}

#[test]
fn a_lost_reply_leaves_the_effect() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        cloud
            .admin("POST", "faults", Some(fault("f", "AttachVolume", json!({"drop_reply": true}), "after_effect")))
            .await;
        let form = format!(
            "Action=AttachVolume&Version=2016-11-15&VolumeId={volume}&InstanceId={}&Device=/dev/sdf",
            cloud.instance("node-a")
        );
        assert!(cloud.send(common::signed(&form)).await.is_err());
        assert_eq!(cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await.code(), "VolumeInUse");
    });
}

#[test]
fn an_error_after_the_effect_is_commit_then_fail() {
    play(1, config(Instant), |cloud| async move {
        cloud.admin("POST", "faults", Some(fault("f", "CreateVolume", json!({"http": 500}), "before_reply"))).await;
        let create = "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=4&ClientToken=t";
        let failed = cloud.ask(create).await;
        assert_eq!((failed.status, failed.body.as_str()), (500, ""));
        let volumes = cloud
            .ask("Action=DescribeVolumes&Version=2016-11-15&Filter.1.Name=status&Filter.1.Value.1=available")
            .await;
        assert_eq!(cloud.ask(create).await.first("volumeId"), volumes.first("volumeId"));
    });
}

#[test]
fn delay_and_hang_hold_the_caller() {
    play(1, config(Instant), |cloud| async move {
        cloud.admin("POST", "faults", Some(fault("slow", "DescribeVolumes", json!({"delay": "7s"}), "before"))).await;
        let before = cloud.ctx.now().mono;
        cloud.ask("Action=DescribeVolumes&Version=2016-11-15").await;
        assert_eq!((cloud.ctx.now().mono - before).as_secs(), 7);
        cloud.admin("POST", "faults", Some(fault("never", "DescribeVolumes", json!({"hang": true}), "before"))).await;
        let hung = cloud.ask("Action=DescribeVolumes&Version=2016-11-15");
        assert!(tokio::time::timeout(std::time::Duration::from_secs(3_600), hung).await.is_err());
    });
}

#[test]
fn a_stuck_attach_stays_attaching_until_the_fault_ends() {
    play(1, config(AwsRecent), |cloud| async move {
        let volume = cloud.volume().await;
        cloud.admin("POST", "faults", Some(fault("f", "AttachVolume", json!({"stick": "attaching"}), "before"))).await;
        cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await;
        cloud.sleep(3_600_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, "attaching");
        cloud.admin("DELETE", "faults", None).await;
        assert_eq!(cloud.attachment_status(&volume).await, "attached");
    });
}

#[test]
fn force_frees_a_volume_that_is_stuck_detaching() {
    play(1, config(Aws), |cloud| async move {
        let volume = cloud.volume().await;
        cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await;
        cloud.sleep(30_000).await;
        cloud.admin("POST", "faults", Some(fault("f", "DetachVolume", json!({"stick": "detaching"}), "before"))).await;
        cloud.detach(&volume).await;
        cloud.sleep(600_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, "detaching");
        let force = format!("Action=DetachVolume&Version=2016-11-15&VolumeId={volume}&Force=true");
        assert_eq!(cloud.ask(&force).await.first("status").as_deref(), Some("detaching"));
        cloud.sleep(3_000).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");
        let events = cloud.world.trace().events();
        let last = events.iter().rev().find_map(|e| e.get::<AttachmentChanged>()).unwrap();
        assert_eq!((last.state, last.forced), (AttachmentPhase::Detached, true));
    });
}

#[test]
fn faults_of_other_rooms_and_unknown_keys_are_refused() {
    play(1, config(Instant), |cloud| async move {
        for (bad, part) in [
            (json!({"name": "f", "match": {"plane": "csi"}, "effect": {"http": 503}}), "match.plane"),
            (json!({"name": "f", "match": {"plane": "ec2"}, "effect": {"torn_write": true}}), "effect"),
            (json!({"name": "f", "match": {"plane": "ec2"}, "colour": 1, "effect": {"http": 503}}), "colour"),
            (json!([1]), "fault"),
        ] {
            let (status, answer) = cloud.admin("POST", "faults", Some(bad)).await;
            assert_eq!(status, 400);
            assert!(answer["error"].as_str().unwrap().contains(part), "{answer}");
        }
        assert_eq!(cloud.admin("GET", "faults", None).await.1, json!({ "faults": [] }));
        let misspelled = json!({"name": "f", "match": {"plane": "ec2", "op": "AttchVolume"}, "effect": {"http": 503}});
        let (status, answer) = cloud.admin("POST", "faults", Some(misspelled)).await;
        let wording = (status, &answer["field"], &answer["nearest"]);
        assert_eq!(wording, (400, &json!("match.op"), &json!("AttachVolume")));
        let (_, catalogue) = cloud.admin("GET", "faults/catalogue", None).await;
        let ops = catalogue["operations"].as_array().unwrap();
        assert!(ops.iter().any(|o| o["op"] == "Devices" && o["plane"] == "ec2"), "{catalogue}");
    });
}

#[test]
fn a_device_stream_reports_the_devices_and_then_each_change() {
    play(1, config(Aws), |cloud| async move {
        let (node, volume) = (cloud.instance("node-a"), cloud.volume().await);
        let mut early = cloud.devices(&node).await;
        assert_eq!(early.next().await, json!({ "type": "synced" }));
        cloud.attach(&volume, &node, "/dev/xvdaa").await;
        let attached = json!({
            "type": "attached", "volume": volume, "device": "/dev/xvdaa", "file": volume, "size_bytes": 4u64 << 30
        });
        let asked = cloud.ctx.now().mono;
        assert_eq!(early.next().await, attached);
        assert!((cloud.ctx.now().mono - asked).as_secs() >= 5);
        let mut late = cloud.devices(&node).await;
        assert_eq!((late.next().await, late.next().await), (attached, json!({ "type": "synced" })));
        let mut other = cloud.devices(&cloud.instance("node-b")).await;
        assert_eq!(other.next().await, json!({ "type": "synced" }));
        cloud.detach(&volume).await;
        for stream in [&mut early, &mut late] {
            assert_eq!(stream.next().await, json!({ "type": "detaching", "volume": volume, "forced": false }));
            assert_eq!(stream.next().await, json!({ "type": "detached", "volume": volume, "forced": false }));
        }
    });
}

#[test]
fn an_unknown_device_stream_fails() {
    play(1, config(Instant), |cloud| async move {
        assert_eq!(cloud.admin("GET", "devices", None).await.0, 400);
        assert_eq!(cloud.admin("GET", "devices?instance=x", None).await.0, 400);
        assert_eq!(cloud.admin("GET", "devices?instance=i-0aaaaaaaaaaaaaaaa", None).await.0, 404);
    });
}

#[test]
fn reset_pulls_all_devices_and_restarts() {
    play(1, config(Instant), |cloud| async move {
        let (node, volume) = (cloud.instance("node-a"), cloud.volume().await);
        cloud.attach(&volume, &node, "/dev/sdf").await;
        let mut stream = cloud.devices(&node).await;
        assert_eq!(stream.next().await["type"], "attached");
        assert_eq!(cloud.admin("POST", "reset", Some(json!({}))).await.0, 200);
        assert_eq!(stream.next().await["type"], "synced");
        assert_eq!(stream.next().await, json!({ "type": "detached", "volume": volume, "forced": true }));
        assert_eq!(cloud.describe(&volume).await.code(), "InvalidVolume.NotFound");
        assert_eq!(cloud.instance("node-a"), node);
    });
}

#[test]
fn a_crashed_instance_keeps_its_attachments_and_still_runs_for_the_cloud() {
    play(1, config(Instant), |cloud| async move {
        let (node, volume) = (cloud.instance("node-a"), cloud.volume().await);
        cloud.attach(&volume, &node, "/dev/sdf").await;
        let path = format!("instances/{node}/crash");
        assert_eq!(
            cloud.admin("POST", &path, Some(json!({}))).await.1,
            json!({ "instance": node, "state": "impaired" })
        );
        let form = format!("Action=DescribeInstances&Version=2016-11-15&InstanceId.1={node}");
        assert_eq!(cloud.ask(&form).await.first("name").as_deref(), Some("running"));
        assert_eq!(cloud.attachment_status(&volume).await, "attached");
        assert_eq!(cloud.admin("POST", "instances/i-0aaaaaaaaaaaaaaaa/crash", Some(json!({}))).await.0, 404);
        assert_eq!(cloud.admin("POST", "instances/x/crash", Some(json!({}))).await.0, 400);
    });
}

#[test]
fn the_state_is_dumped_whole() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        let (status, dump) = cloud.admin("GET", "state", None).await;
        assert_eq!(status, 200);
        assert_eq!(dump["region"], "us-east-1");
        let found = dump["volumes"].as_array().unwrap().iter().find(|v| v["id"] == volume.as_str()).unwrap();
        assert_eq!((&found["state"], &found["root"]), (&json!("available"), &json!(false)));
        assert_eq!(dump["instances"].as_array().unwrap().len(), 3);
    });
}

#[test]
fn a_token_is_asked_for_when_there_is_one_and_posts_must_be_json() {
    play(1, with_token(), |cloud| async move {
        let get = |token: Option<&str>| {
            let mut request = Request::builder().uri("/admin/v1/state");
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            request.body(body::empty()).unwrap()
        };
        assert_eq!(cloud.send(get(None)).await.unwrap().status(), 401);
        assert_eq!(cloud.send(get(Some("letmein-pleasf"))).await.unwrap().status(), 401);
        assert_eq!(cloud.send(get(Some("letmein-please"))).await.unwrap().status(), 200);
        let form = Request::builder()
            .method("POST")
            .uri("/admin/v1/reset")
            .header("authorization", "Bearer letmein-please")
            .header("content-type", "application/x-www-form-urlencoded");
        assert_eq!(cloud.send(form.body(body::empty()).unwrap()).await.unwrap().status(), 415);
        // The token does not apply to the EC2 API.
        assert_eq!(cloud.ask("Action=DescribeVolumes&Version=2016-11-15").await.status, 200);
        assert!(!format!("{:?}", cloud.ec2).contains("letmein"));
    });
}

#[test]
fn unknown_paths_are_404_in_json() {
    play(1, config(Instant), |cloud| async move {
        assert_eq!(cloud.admin("GET", "nowhere", None).await.0, 404);
        assert_eq!(cloud.admin("GET", "reset", None).await.0, 405);
        assert_eq!(cloud.admin("GET", "health", None).await.1, json!({ "status": "ok" }));
    });
}
