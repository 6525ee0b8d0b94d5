//! The catalogue of EC2 incidents: each one injected by admin calls, with its effect on a client.
//!
//! For late and wrong devices, only the cloud's half is tested here: the time of appearance, and the bytes. Link names
//! belong to the device plug. Unsynced writes and stalled I/O belong to the disk.

use mock_ec2::LatencyProfile::{Aws, Instant};
use serde_json::{Value, json};

use crate::common::{Answer, Cloud, config, play};

async fn call(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    cloud.ask(&format!("Action={action}&Version=2016-11-15&{rest}")).await
}

async fn post(cloud: &Cloud, path: &str, json: Value) {
    let (status, answer) = cloud.admin("POST", path, Some(json)).await;
    assert!(status < 300, "{path}: {answer}");
}

async fn fault(cloud: &Cloud, op: &str, when: Value, effect: Value, at: &str) {
    let fault = json!({ "name": op, "match": { "plane": "ec2", "op": op }, "when": when, "effect": effect, "at": at });
    post(cloud, "faults", fault).await;
}

async fn attached(cloud: &Cloud, device: &str) -> (String, String) {
    let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
    assert_eq!(cloud.attach(&volume, &node, device).await.status, 200);
    while cloud.attachment_status(&volume).await != "attached" {
        cloud.sleep(1_000).await;
    }
    (volume, node)
}

const CREATE: &str = "AvailabilityZone=us-east-1a&Size=4&VolumeType=gp3&ClientToken=t";

#[test]
fn a1_a_reused_device_name_sticks_in_attaching() {
    play(1, config(Aws), |cloud| async move {
        let (volume, node) = attached(&cloud, "/dev/xvdaa").await;
        call(&cloud, "DetachVolume", &format!("VolumeId={volume}&Force=true")).await;
        cloud.sleep(5_000).await;
        cloud.attach(&volume, &node, "/dev/xvdaa").await;
        cloud.sleep(12_600_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, "attaching");
    });
}

#[test]
fn a2_an_instance_over_its_limit_accepts_and_sticks() {
    play(1, config(Aws), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        post(&cloud, "switches", json!({ "limitMode": "stick" })).await;
        post(&cloud, &format!("instances/{node}/hardware"), json!({ "reservedSlots": 26 })).await;
        assert_eq!(cloud.attach(&volume, &node, "/dev/xvdaa").await.status, 200);
        cloud.sleep(600_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, "attaching");
    });
}

#[test]
fn a3_a_stuck_attach_has_its_time_and_can_be_detached() {
    play(1, config(Aws), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        fault(&cloud, "AttachVolume", json!({}), json!({ "stick": "attaching" }), "before").await;
        cloud.attach(&volume, &node, "/dev/xvdaa").await;
        let since = cloud.describe(&volume).await.first("attachTime");
        cloud.sleep(90_000).await;
        assert_eq!(cloud.describe(&volume).await.first("attachTime"), since);
        assert_eq!(cloud.detach(&volume).await.status, 200);
        cloud.sleep(30_000).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");
    });
}

#[test]
fn a4_and_a5_interfaces_that_come_later_take_slots() {
    play(1, config(Instant), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        post(&cloud, &format!("instances/{node}/hardware"), json!({ "networkInterfaces": 15, "reservedSlots": 12 }))
            .await;
        let refused = cloud.attach(&volume, &node, "/dev/xvdaa").await;
        assert_eq!(refused.code(), "AttachmentLimitExceeded");
        assert!(refused.message().starts_with("You may attach up to 1 devices for this instance type."));
        let reported = call(&cloud, "DescribeInstanceTypes", "InstanceType.1=m5.large").await;
        assert_eq!(reported.first("maximumEbsAttachments").as_deref(), Some("27"));
    });
}

#[test]
fn a6_and_a7_hidden_and_invalid_device_names_are_refused() {
    play(1, config(Instant), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        post(&cloud, &format!("instances/{node}/hardware"), json!({ "hide": ["/dev/xvdb"] })).await;
        assert!(cloud.attach(&volume, &node, "/dev/sdb").await.message().ends_with("already in use"));
        assert!(cloud.attach(&volume, &node, "banana").await.message().ends_with("is not a valid EBS device name."));
        assert_eq!(cloud.attach(&volume, &node, "/dev/sdc").await.status, 200);
    });
}

#[test]
fn a8_and_w2_an_attach_fails_after_it_was_done() {
    for effect in [json!({ "http": 500 }), json!({ "error": "InternalError" }), json!({ "delay": "1m" })] {
        play(1, config(Instant), |cloud| async move {
            let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
            fault(&cloud, "AttachVolume", json!({ "first": 1 }), effect, "after_effect").await;
            let before = cloud.ctx.now().mono;
            let first = cloud.attach(&volume, &node, "/dev/xvdaa").await;
            assert!(first.status == 500 || (cloud.ctx.now().mono - before).as_secs() == 60);
            assert_eq!(cloud.attach(&volume, &node, "/dev/xvdaa").await.code(), "VolumeInUse");
            assert_eq!(cloud.describe(&volume).await.all("device"), ["/dev/xvdaa"]);
        });
    }
}

#[test]
fn a9_and_d6_one_api_lags_behind_another() {
    play(1, config(Instant), |cloud| async move {
        let (volume, node) = attached(&cloud, "/dev/xvdaa").await;
        post(&cloud, "switches", json!({ "lagMs": { "DescribeInstances": 6_000 } })).await;
        cloud.sleep(10_000).await;
        cloud.detach(&volume).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");
        let mapping = call(&cloud, "DescribeInstances", &format!("InstanceId.1={node}")).await;
        assert!(mapping.all("volumeId").contains(&volume));
        cloud.sleep(6_001).await;
        let mapping = call(&cloud, "DescribeInstances", &format!("InstanceId.1={node}")).await;
        assert!(!mapping.all("volumeId").contains(&volume));
    });
}

#[test]
fn a10_to_a12_what_is_not_ready_or_elsewhere_is_refused() {
    play(1, config(Aws), |cloud| async move {
        let (volume, elsewhere) = (cloud.volume().await, cloud.instance("node-c"));
        assert_eq!(cloud.attach(&volume, &elsewhere, "/dev/sdf").await.code(), "InvalidVolume.ZoneMismatch");
        let run = "ImageId=ami-0123456789abcdef0&InstanceType=m5.large&MinCount=1&MaxCount=1&Placement.AvailabilityZone=us-east-1a";
        let young = call(&cloud, "RunInstances", run).await.first("instanceId").unwrap();
        assert!(cloud.attach(&volume, &young, "/dev/sdf").await.message().ends_with("is not 'running'."));
        let fresh = call(&cloud, "CreateVolume", CREATE).await.first("volumeId").unwrap();
        let node = cloud.instance("node-a");
        assert!(cloud.attach(&fresh, &node, "/dev/sdf").await.message().ends_with("is not 'available'."));
        cloud.sleep(30_000).await;
        assert_eq!(cloud.attach(&volume, &young, "/dev/sdf").await.status, 200);
        assert_eq!(cloud.attach(&fresh, &node, "/dev/sdf").await.status, 200);
    });
}

#[test]
fn a13_a_device_appears_late_or_never() {
    play(1, config(Instant), |cloud| async move {
        let (late, never) = (cloud.volume().await, cloud.volume().await);
        for (volume, effect) in [(&late, json!({ "delay": "30s" })), (&never, json!({ "drop_reply": true }))] {
            let matches = json!({ "plane": "ec2", "op": "Devices", "where": { "volume": volume } });
            post(&cloud, "faults", json!({ "name": volume, "match": matches, "effect": effect })).await;
        }
        let (node, third) = (cloud.instance("node-a"), cloud.volume().await);
        let mut devices = cloud.devices(&cloud.instance("node-a")).await;
        assert_eq!(devices.next().await["type"], "synced");
        for (volume, device) in [(&late, "/dev/sdf"), (&never, "/dev/sdg"), (&third, "/dev/sdh")] {
            cloud.attach(volume, &node, device).await;
            assert_eq!(cloud.attachment_status(volume).await, "attached");
        }
        let before = cloud.ctx.now().mono;
        assert_eq!(devices.next().await["volume"], third.as_str(), "others are not late");
        assert_eq!(devices.next().await["volume"], late.as_str());
        assert_eq!((cloud.ctx.now().mono - before).as_secs(), 30);
        // Detached before it appeared: it never appears.
        cloud.detach(&late).await;
        cloud.describe(&late).await;
        assert_eq!(
            (devices.next().await["type"].clone(), devices.next().await["type"].clone()),
            (json!("detaching"), json!("detached"))
        );
        cloud.attach(&late, &node, "/dev/sdf").await;
        cloud.sleep(1_000).await;
        cloud.detach(&late).await;
        cloud.sleep(60_000).await;
        assert_eq!(devices.next().await["type"], "detaching");
        assert_eq!(devices.next().await["type"], "detached");
    });
}

#[test]
fn a14_a_device_has_the_bytes_of_another_volume() {
    play(1, config(Instant), |cloud| async move {
        let (other, volume) = (cloud.volume().await, cloud.volume().await);
        fault(&cloud, "Devices", json!({ "first": 1 }), json!({ "wrong_device": true }), "before").await;
        let mut devices = cloud.devices(&cloud.instance("node-a")).await;
        devices.next().await;
        cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await;
        cloud.describe(&volume).await;
        let line = devices.next().await;
        assert_eq!((&line["volume"], &line["file"]), (&json!(volume), &json!(other)));
    });
}

#[test]
fn a15_an_attach_to_an_instance_that_is_shutting_down_leaves_nothing() {
    play(1, config(Aws), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        cloud.attach(&volume, &node, "/dev/sdf").await;
        call(&cloud, "TerminateInstances", &format!("InstanceId.1={node}")).await;
        cloud.sleep(130_000).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");
    });
}

#[test]
fn d1_a_detach_is_busy_until_the_fault_ends() {
    play(1, config(Aws), |cloud| async move {
        let (volume, _) = attached(&cloud, "/dev/sdf").await;
        fault(&cloud, "DetachVolume", json!({}), json!({ "stick": "busy" }), "before").await;
        cloud.detach(&volume).await;
        cloud.sleep(1_800_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, "busy");
        cloud.admin("DELETE", "faults", None).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");
    });
}

#[test]
fn d2_a_detach_takes_as_long_as_its_instance_type_says() {
    let rule = |operation: &str| json!({ "operation": operation, "instanceType": "m5.*", "quantiles": [[0, 900_000], [1, 900_000]] });
    let mut slow = config(Aws);
    slow.latency_rules = vec![serde_json::from_value(rule("DetachVolume")).unwrap()];
    play(1, slow, |cloud| async move {
        let (volume, _) = attached(&cloud, "/dev/sdf").await;
        cloud.detach(&volume).await;
        cloud.sleep(899_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, "detaching");
        cloud.sleep(1_000).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");
    });
}

#[test]
fn d3_and_w1_one_api_is_throttled_and_a_neighbour_burns_its_tokens() {
    play(1, config(Instant), |cloud| async move {
        let bucket = json!({ "throttle": { "DescribeInstances": { "size": 1, "refill": 20, "neighbour": 20 } } });
        post(&cloud, "switches", bucket).await;
        assert_eq!(call(&cloud, "DescribeInstances", "").await.status, 200);
        cloud.sleep(60_000).await;
        assert_eq!(call(&cloud, "DescribeInstances", "").await.code(), "RequestLimitExceeded");
        assert_eq!(call(&cloud, "DescribeVolumes", "").await.status, 200);
    });
}

#[test]
fn d4_and_d5_a_lost_instance_is_still_listed_or_forgotten() {
    play(1, config(Aws), |cloud| async move {
        let (volume, node) = attached(&cloud, "/dev/sdf").await;
        post(&cloud, &format!("instances/{node}/crash"), json!({})).await;
        cloud.sleep(360_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, "attached");
        post(&cloud, &format!("instances/{node}/purge"), json!({})).await;
        let detach = call(&cloud, "DetachVolume", &format!("VolumeId={volume}&InstanceId={node}")).await;
        assert_eq!(detach.code(), "InvalidInstanceID.NotFound");
        assert_eq!(cloud.volume_status(&volume).await, "available");
        let batch = format!("InstanceId.1={node}&InstanceId.2={}", cloud.instance("node-b"));
        assert_eq!(
            call(&cloud, "DescribeInstances", &batch).await.message(),
            format!("The instance ID '{node}' does not exist")
        );
    });
}

#[test]
fn d7_a_request_is_delivered_twice() {
    play(1, config(Instant), |cloud| async move {
        let (volume, _) = attached(&cloud, "/dev/sdf").await;
        fault(&cloud, "DetachVolume", json!({}), json!({ "duplicate": 2 }), "before").await;
        assert_eq!(cloud.detach(&volume).await.first("status").as_deref(), Some("detaching"));
        fault(&cloud, "CreateVolume", json!({}), json!({ "duplicate": 3 }), "before").await;
        let create = "AvailabilityZone=us-east-1a&Size=1";
        call(&cloud, "CreateVolume", create).await;
        let ones = call(&cloud, "DescribeVolumes", "Filter.1.Name=size&Filter.1.Value.1=1").await;
        assert_eq!(ones.all("volumeId").len(), 3);
    });
}

#[test]
fn d8_a_volume_is_ripped_from_a_running_instance() {
    play(1, config(Instant), |cloud| async move {
        let (volume, node) = attached(&cloud, "/dev/sdf").await;
        cloud.admin("PUT", &format!("instances/{node}/mounts"), Some(json!({ "volumes": [volume] }))).await;
        let mut stream = cloud.devices(&node).await;
        while stream.next().await["type"] != "synced" {}
        call(&cloud, "DetachVolume", &format!("VolumeId={volume}&Force=true")).await;
        assert_eq!(stream.next().await, json!({ "type": "detaching", "volume": volume, "forced": true }));
        cloud.sleep(10).await;
        assert_eq!(stream.next().await, json!({ "type": "detached", "volume": volume, "forced": true }));
    });
}

#[test]
fn d10_and_w3_a_vanished_volume_spoils_the_batch_that_names_it() {
    play(1, config(Aws), |cloud| async move {
        let (slow, _) = attached(&cloud, "/dev/sdf").await;
        let lost = cloud.volume().await;
        cloud.detach(&slow).await;
        post(&cloud, &format!("volumes/{lost}/vanish"), json!({})).await;
        let batch = call(&cloud, "DescribeVolumes", &format!("VolumeId.1={slow}&VolumeId.2={lost}")).await;
        assert_eq!(
            (batch.code().as_str(), batch.message()),
            ("InvalidVolume.NotFound", format!("The volume '{lost}' does not exist."))
        );
        assert_eq!(cloud.attachment_status(&slow).await, "detaching");
    });
}

#[test]
fn c1_a_volume_vanishes_after_its_creation_and_burns_its_token() {
    play(1, config(Aws), |cloud| async move {
        let volume = call(&cloud, "CreateVolume", CREATE).await.first("volumeId").unwrap();
        post(&cloud, &format!("volumes/{volume}/vanish"), json!({})).await;
        assert_eq!(cloud.describe(&volume).await.code(), "InvalidVolume.NotFound");
        let again = call(&cloud, "CreateVolume", CREATE).await;
        assert_eq!(again.code(), "IdempotentParameterMismatch");
        assert!(again.message().contains("already deleted"));
        cloud.sleep(12 * 3_600_000).await;
        assert_eq!(call(&cloud, "CreateVolume", CREATE).await.status, 200);
    });
}

#[test]
fn c1_and_d10_as_one_fault_each() {
    play(1, config(Aws), |cloud| async move {
        fault(&cloud, "CreateVolume", json!({ "first": 1 }), json!({ "vanish": true }), "after_effect").await;
        let made = call(&cloud, "CreateVolume", CREATE).await;
        assert_eq!(made.first("status").as_deref(), Some("creating"));
        assert_eq!(cloud.describe(&made.first("volumeId").unwrap()).await.code(), "InvalidVolume.NotFound");
        assert!(call(&cloud, "CreateVolume", CREATE).await.message().contains("already deleted"));
        let (slow, node) = attached(&cloud, "/dev/xvdaa").await;
        let (other, _) = attached(&cloud, "/dev/xvdab").await;
        let matches = json!({ "plane": "ec2", "op": "DescribeVolumes", "where": { "volume": other } });
        post(
            &cloud,
            "faults",
            json!({ "name": "v", "match": matches, "when": { "first": 1 }, "effect": { "vanish": true } }),
        )
        .await;
        cloud.detach(&slow).await;
        let batch = call(&cloud, "DescribeVolumes", &format!("VolumeId.1={slow}&VolumeId.2={other}")).await;
        assert_eq!(batch.code(), "InvalidVolume.NotFound");
        assert_eq!(cloud.attachment_status(&slow).await, "detaching");
        assert!(cloud.describe(&slow).await.body.contains(&node));
    });
}

#[test]
fn c2_c3_c5_and_c6_tokens() {
    play(1, config(Instant), |cloud| async move {
        let volume = call(&cloud, "CreateVolume", CREATE).await.first("volumeId").unwrap();
        let other = CREATE.replace("Size=4", "Size=5");
        assert_eq!(call(&cloud, "CreateVolume", &other).await.code(), "IdempotentParameterMismatch");
        let long = CREATE.replace("=t", &format!("={}", "x".repeat(65)));
        assert_eq!(
            call(&cloud, "CreateVolume", &long).await.message(),
            "Client token must be less than or equal to 64 characters"
        );
        cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await;
        assert_eq!(call(&cloud, "CreateVolume", CREATE).await.first("status").as_deref(), Some("in-use"));
        post(&cloud, "switches", json!({ "volumeQuota": 1 })).await;
        assert_eq!(call(&cloud, "CreateVolume", CREATE).await.code(), "VolumeLimitExceeded");
    });
}

#[test]
fn c4_a_fresh_volume_is_not_found_for_a_while() {
    play(1, config(Instant), |cloud| async move {
        post(&cloud, "switches", json!({ "lagMs": { "DescribeVolumes": 3_000 } })).await;
        cloud.sleep(10_000).await;
        let volume = call(&cloud, "CreateVolume", CREATE).await.first("volumeId").unwrap();
        assert_eq!(cloud.describe(&volume).await.code(), "InvalidVolume.NotFound");
        cloud.sleep(3_001).await;
        assert_eq!(cloud.describe(&volume).await.status, 200);
    });
}

#[test]
fn c7_and_c8_modifications_that_last_fail_or_are_not_there() {
    play(1, config(Instant), |cloud| async move {
        let (volume, never) = (cloud.volume().await, cloud.volume().await);
        fault(&cloud, "ModifyVolume", json!({ "first": 1 }), json!({ "stick": "optimizing" }), "before").await;
        let modify = async |size: u32| call(&cloud, "ModifyVolume", &format!("VolumeId={volume}&Size={size}")).await;
        assert_eq!(modify(8).await.status, 200);
        cloud.sleep(7_200_000).await;
        assert_eq!(modify(9).await.code(), "IncorrectModificationState");
        let batch =
            call(&cloud, "DescribeVolumesModifications", &format!("VolumeId.1={volume}&VolumeId.2={never}")).await;
        assert_eq!(batch.code(), "InvalidVolumeModification.NotFound");
        post(&cloud, &format!("volumes/{volume}/fail"), json!({ "which": "modification" })).await;
        let failed = call(&cloud, "DescribeVolumesModifications", &format!("VolumeId.1={volume}")).await;
        assert_eq!(failed.first("modificationState").as_deref(), Some("failed"));
    });
}

#[test]
fn c9_snapshots_come_too_soon_stay_pending_or_fail() {
    play(1, config(Aws), |cloud| async move {
        let volume = cloud.volume().await;
        let snapshot = async || call(&cloud, "CreateSnapshot", &format!("VolumeId={volume}")).await;
        fault(&cloud, "CreateSnapshot", json!({ "first": 1 }), json!({ "stick": "pending" }), "before").await;
        let id = snapshot().await.first("snapshotId").unwrap();
        assert_eq!(snapshot().await.code(), "SnapshotCreationPerVolumeRateExceeded");
        cloud.sleep(86_400_000).await;
        let state = async || call(&cloud, "DescribeSnapshots", &format!("SnapshotId.1={id}")).await;
        assert_eq!(state().await.first("status").as_deref(), Some("pending"));
        post(&cloud, &format!("snapshots/{id}/fail"), json!({})).await;
        assert_eq!(state().await.first("status").as_deref(), Some("error"));
        assert!(state().await.first("statusMessage").is_some());
    });
}

#[test]
fn c10_a_snapshot_is_as_large_as_its_volume_in_whole_gib() {
    play(1, config(Instant), |cloud| async move {
        let made = call(&cloud, "CreateVolume", "AvailabilityZone=us-east-1a&Size=1").await.first("volumeId").unwrap();
        let id = call(&cloud, "CreateSnapshot", &format!("VolumeId={made}")).await;
        assert_eq!(id.first("volumeSize").as_deref(), Some("1"));
    });
}

#[test]
fn w4_the_metadata_service_fails_at_boot() {
    play(1, config(Instant), |cloud| async move {
        fault(&cloud, "Imds", json!({ "first": 2 }), json!({ "http": 500 }), "before").await;
        let id = cloud.instance("node-a").parse().unwrap();
        for status in [500, 500, 200] {
            let request = http::Request::builder().uri("/latest/meta-data/instance-id").body(substrate::body::empty());
            let service = cloud.ec2.metadata(&cloud.ctx, &id);
            assert_eq!(substrate::body::call(service, request.unwrap()).await.unwrap().status(), status);
        }
    });
}

#[test]
fn w5_creates_and_attaches_of_one_zone_hang() {
    play(1, config(Instant), |cloud| async move {
        let here = cloud.volume().await;
        let mut outage = json!({ "name": "outage", "match": { "plane": "ec2" }, "effect": { "hang": true } });
        outage["match"]["where"] = json!({ "zone": "us-east-1a" });
        post(&cloud, "faults", outage).await;
        let minute = std::time::Duration::from_secs(60);
        let (node, elsewhere) = (cloud.instance("node-a"), CREATE.replace("1a", "1b"));
        assert!(tokio::time::timeout(minute, cloud.attach(&here, &node, "/dev/sdf")).await.is_err());
        assert!(tokio::time::timeout(minute, call(&cloud, "CreateVolume", CREATE)).await.is_err());
        assert_eq!(call(&cloud, "CreateVolume", &elsewhere).await.status, 200);
        cloud.admin("DELETE", "faults", None).await;
        assert_eq!(cloud.attach(&here, &node, "/dev/sdf").await.status, 200);
    });
}

#[test]
fn w6_a_volume_is_impaired() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        post(&cloud, &format!("volumes/{volume}/impair"), json!({ "impaired": true })).await;
        let status = call(&cloud, "DescribeVolumeStatus", &format!("VolumeId.1={volume}")).await;
        assert!(status.body.contains("<volumeStatus><status>impaired</status>"), "{}", status.body);
        assert_eq!(status.first("eventType").as_deref(), Some("potential-data-inconsistency"));
    });
}
