//! Instances: power, devices, slots, and the effect of a mounted device on a detach.

use mock_ec2::LatencyProfile::{Aws, Instant};
use mock_ec2::events::AttachmentChanged;
use mock_ec2::{Config, InstanceSpec};
use serde_json::{Value, json};

use crate::common::{Answer, Cloud, config, play};

async fn call(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    cloud.ask(&format!("Action={action}&Version=2016-11-15&{rest}")).await
}

async fn power(cloud: &Cloud, action: &str, instance: &str) -> Answer {
    call(cloud, action, &format!("InstanceId.1={instance}")).await
}

async fn instance_state(cloud: &Cloud, instance: &str) -> String {
    let form = format!("InstanceId.1={instance}&IncludeAllInstances=true");
    let answer = call(cloud, "DescribeInstanceStatus", &form).await;
    answer.first("instanceState").map_or_else(|| answer.code(), |s| read(&s, "name"))
}

fn read(xml: &str, tag: &str) -> String {
    Answer { status: 200, request_id: String::new(), body: xml.to_owned() }.first(tag).unwrap_or_default()
}

async fn mounts(cloud: &Cloud, instance: &str, volumes: &[&str]) {
    let path = format!("instances/{instance}/mounts");
    assert_eq!(cloud.admin("PUT", &path, Some(json!({ "volumes": volumes }))).await.0, 200);
}

async fn switch(cloud: &Cloud, changes: Value) {
    let (status, answer) = cloud.admin("POST", "switches", Some(changes)).await;
    assert_eq!(status, 200, "{answer}");
}

async fn hardware(cloud: &Cloud, instance: &str, change: Value) -> Value {
    cloud.admin("POST", &format!("instances/{instance}/hardware"), Some(change)).await.1
}

#[test]
fn a_terminated_instance_lets_its_volumes_go_and_is_listed_for_an_hour() {
    play(1, config(Aws), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        cloud.attach(&volume, &node, "/dev/sdf").await;
        cloud.sleep(30_000).await;
        let root = call(&cloud, "DescribeInstances", &format!("InstanceId.1={node}")).await.first("volumeId").unwrap();
        let answer = power(&cloud, "TerminateInstances", &node).await;
        let states = ["currentState", "previousState"].map(|tag| read(&answer.first(tag).unwrap(), "name"));
        assert_eq!(states, ["shutting-down", "running"]);
        let late = cloud.volume().await;
        let refused = cloud.attach(&late, &node, "/dev/sdg").await;
        assert_eq!(
            (refused.code().as_str(), refused.message()),
            ("IncorrectState", format!("Instance '{node}' is not 'running'."))
        );
        cloud.sleep(30_000).await;
        assert_eq!(cloud.volume_status(&volume).await, "in-use");
        cloud.sleep(100_000).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");
        assert_eq!(cloud.describe(&root).await.code(), "InvalidVolume.NotFound");
        assert_eq!(instance_state(&cloud, &node).await, "terminated");
        assert_eq!(cloud.attach(&volume, &node, "/dev/sdf").await.code(), "IncorrectState");
        assert_eq!(power(&cloud, "StartInstances", &node).await.code(), "IncorrectInstanceState");
        cloud.sleep(3_600_000).await;
        assert_eq!(instance_state(&cloud, &node).await, "InvalidInstanceID.NotFound");
    });
}

#[test]
fn a_stopped_instance_keeps_its_volumes_takes_more_and_lets_its_root_go() {
    play(1, config(Aws), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        cloud.attach(&volume, &node, "/dev/sdf").await;
        power(&cloud, "StopInstances", &node).await;
        assert_eq!(instance_state(&cloud, &node).await, "stopping");
        assert_eq!(cloud.attach(&cloud.volume().await, &node, "/dev/sdg").await.code(), "IncorrectState");
        cloud.sleep(60_000).await;
        assert_eq!(instance_state(&cloud, &node).await, "stopped");
        assert_eq!(cloud.attachment_status(&volume).await, "attached");
        let other = cloud.volume().await;
        assert_eq!(cloud.attach(&other, &node, "/dev/sdg").await.status, 200);
        assert!(call(&cloud, "DescribeInstanceStatus", "").await.all("instanceId").iter().all(|i| *i != node));
        let root = call(&cloud, "DescribeInstances", &format!("InstanceId.1={node}")).await.first("volumeId").unwrap();
        assert_eq!(cloud.detach(&root).await.first("status").as_deref(), Some("detaching"));
        power(&cloud, "StartInstances", &node).await;
        assert_eq!(instance_state(&cloud, &node).await, "pending");
        cloud.sleep(30_000).await;
        assert_eq!(
            (instance_state(&cloud, &node).await.as_str(), cloud.volume_status(&root).await.as_str()),
            ("running", "available")
        );
    });
}

#[test]
fn a_mounted_device_is_busy_until_it_is_unmounted() {
    play(1, config(Aws), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        cloud.attach(&volume, &node, "/dev/sdf").await;
        cloud.sleep(30_000).await;
        mounts(&cloud, &node, &[&volume]).await;
        assert_eq!(cloud.detach(&volume).await.first("status").as_deref(), Some("detaching"));
        cloud.sleep(11_900).await;
        assert_eq!(cloud.attachment_status(&volume).await, "detaching");
        cloud.sleep(30_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, "busy");
        cloud.sleep(3_600_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, "busy");
        assert_eq!(cloud.detach(&volume).await.first("status").as_deref(), Some("busy"));
        mounts(&cloud, &node, &[]).await;
        cloud.sleep(1).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");
        let states: Vec<String> = cloud
            .world
            .trace()
            .events()
            .iter()
            .filter_map(|e| Some(e.get::<AttachmentChanged>()?.state.as_str().to_owned()))
            .collect();
        assert_eq!(states, ["attaching", "attached", "detaching", "busy", "detached"]);
    });
}

#[test]
fn an_unmount_in_time_keeps_a_detach_from_being_busy_and_a_crash_or_reboot_unmounts() {
    play(1, config(Aws), |cloud| async move {
        let node = cloud.instance("node-a");
        for end in ["unmount", "crash", "reboot"] {
            let volume = cloud.volume().await;
            cloud.attach(&volume, &node, "/dev/sdf").await;
            cloud.sleep(30_000).await;
            mounts(&cloud, &node, &[&volume]).await;
            cloud.detach(&volume).await;
            cloud.sleep(5_000).await;
            match end {
                "unmount" => mounts(&cloud, &node, &[]).await,
                "crash" => {
                    cloud.admin("POST", &format!("instances/{node}/crash"), Some(json!({}))).await;
                }
                _ => assert_eq!(power(&cloud, "RebootInstances", &node).await.status, 200),
            }
            cloud.sleep(45_000).await;
            assert_eq!(cloud.volume_status(&volume).await, "available", "{end}");
        }
    });
}

#[test]
fn force_frees_a_busy_volume_and_poisons_its_device_name_until_a_reboot() {
    play(1, config(Instant), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        cloud.attach(&volume, &node, "/dev/sdf").await;
        mounts(&cloud, &node, &[&volume]).await;
        cloud.detach(&volume).await;
        assert_eq!(cloud.attachment_status(&volume).await, "busy");
        call(&cloud, "DetachVolume", &format!("VolumeId={volume}&Force=true")).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");
        cloud.attach(&volume, &node, "/dev/xvdf").await;
        cloud.sleep(3_600_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, "attaching");
        let other = cloud.volume().await;
        cloud.attach(&other, &node, "/dev/xvdg").await;
        assert_eq!(cloud.attachment_status(&other).await, "attached");
        power(&cloud, "RebootInstances", &node).await;
        assert_eq!(cloud.attachment_status(&volume).await, "attached");
    });
}

#[test]
fn a_stuck_attach_under_a_poisoned_name_can_be_detached_and_made_elsewhere() {
    play(1, config(Instant), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        hardware(&cloud, &node, json!({ "poison": ["/dev/xvdaa"] })).await;
        cloud.attach(&volume, &node, "/dev/xvdaa").await;
        assert_eq!(cloud.attachment_status(&volume).await, "attaching");
        cloud.detach(&volume).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");
        cloud.attach(&volume, &node, "/dev/xvdab").await;
        assert_eq!(cloud.attachment_status(&volume).await, "attached");
    });
}

#[test]
fn hidden_devices_are_in_use_and_take_slots() {
    play(1, config(Instant), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        let answer = hardware(&cloud, &node, json!({ "hide": ["/dev/sdb"], "networkInterfaces": 3 })).await;
        assert_eq!(answer["deviceLimit"], 24);
        let refused = cloud.attach(&volume, &node, "/dev/xvdb").await;
        assert_eq!(
            refused.message(),
            "Invalid value '/dev/xvdb' for unixDevice. Attachment point /dev/xvdb is already in use"
        );
        let mapping = call(&cloud, "DescribeInstances", &format!("InstanceId.1={node}")).await;
        assert_eq!((mapping.all("deviceName").len(), mapping.all("networkInterfaceId").len()), (1, 3));
        assert_eq!(
            hardware(&cloud, &node, json!({ "networkInterfaces": 0 })).await["error"],
            "networkInterfaces: an instance has at least one"
        );
        assert_eq!(hardware(&cloud, &node, json!({ "clear": true })).await["deviceLimit"], 25);
        assert_eq!(cloud.attach(&volume, &node, "/dev/xvdb").await.status, 200);
    });
}

#[test]
fn beyond_the_limit_an_attach_can_be_accepted_and_waits_for_a_slot() {
    play(1, config(Instant), |cloud| async move {
        let node = cloud.instance("node-a");
        switch(&cloud, json!({ "limitMode": "stick" })).await;
        hardware(&cloud, &node, json!({ "reservedSlots": 24 })).await;
        let mut volumes = Vec::new();
        for device in ["/dev/sdf", "/dev/sdg", "/dev/sdh", "/dev/sdi"] {
            let volume = cloud.volume().await;
            assert_eq!(cloud.attach(&volume, &node, device).await.status, 200);
            cloud.sleep(1_000).await;
            volumes.push(volume);
        }
        let states = async || {
            let mut all = Vec::new();
            for volume in &volumes {
                all.push(cloud.attachment_status(volume).await);
            }
            all
        };
        assert_eq!(states().await, ["attached", "attached", "attaching", "attaching"]);
        cloud.detach(&volumes[0]).await;
        assert_eq!(states().await, ["", "attached", "attached", "attaching"]);
        hardware(&cloud, &node, json!({ "reservedSlots": 0 })).await;
        assert_eq!(states().await, ["", "attached", "attached", "attached"]);
    });
}

#[test]
fn the_answer_to_a_second_detach_can_be_switched() {
    play(1, config(Aws), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        cloud.attach(&volume, &node, "/dev/sdf").await;
        cloud.sleep(30_000).await;
        switch(&cloud, json!({ "secondDetach": "incorrect-state" })).await;
        assert_eq!(cloud.detach(&volume).await.status, 200);
        assert_eq!(cloud.detach(&volume).await.code(), "IncorrectState");
        let (status, answer) = cloud.admin("POST", "switches", Some(json!({ "colour": "red" }))).await;
        assert_eq!((status, answer["error"].as_str().unwrap().contains("colour")), (400, true));
        assert_eq!(cloud.admin("GET", "switches", None).await.1["secondDetach"], "incorrect-state");
    });
}

#[test]
fn an_ebs_card_is_echoed_everywhere_and_checked() {
    let mut two = InstanceSpec::new("two-cards", "us-east-1a");
    two.instance_type = "r8gb.48xlarge".to_owned();
    let mut config = config(Instant);
    config.instances.push(two);
    play(1, config, |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("two-cards"));
        let attach = |instance: &str, card: u32| {
            format!("VolumeId={volume}&InstanceId={instance}&Device=/dev/sdf&EbsCardIndex={card}")
        };
        assert_eq!(call(&cloud, "AttachVolume", &attach(&node, 2)).await.code(), "InvalidParameterValue");
        assert_eq!(
            call(&cloud, "AttachVolume", &attach(&cloud.instance("node-a"), 1)).await.code(),
            "InvalidParameterValue"
        );
        assert_eq!(call(&cloud, "AttachVolume", &attach(&node, 1)).await.first("ebsCardIndex").as_deref(), Some("1"));
        assert_eq!(cloud.describe(&volume).await.first("ebsCardIndex").as_deref(), Some("1"));
        let mapping = call(&cloud, "DescribeInstances", &format!("InstanceId.1={node}")).await;
        assert_eq!(mapping.all("ebsCardIndex"), ["0", "1"]);
        let types = call(&cloud, "DescribeInstanceTypes", "InstanceType.1=r8gb.48xlarge").await;
        assert_eq!(types.first("maximumEbsCards").as_deref(), Some("2"));
    });
}

#[test]
fn a_multi_attach_volume_has_sixteen_attachments_at_most() {
    let instances = (0..17).map(|n| InstanceSpec::new(format!("n{n}"), "us-east-1a")).collect();
    play(1, Config { instances, ..config(Instant) }, |cloud| async move {
        let form = "AvailabilityZone=us-east-1a&Size=4&VolumeType=io1&Iops=100&MultiAttachEnabled=true";
        let volume = call(&cloud, "CreateVolume", form).await.first("volumeId").unwrap();
        for n in 0..16 {
            assert_eq!(cloud.attach(&volume, &cloud.instance(&format!("n{n}")), "/dev/sdf").await.status, 200);
        }
        assert_eq!(cloud.attach(&volume, &cloud.instance("n16"), "/dev/sdf").await.code(), "VolumeInUse");
        assert_eq!(cloud.describe(&volume).await.all("device").len(), 16);
    });
}

#[test]
fn snapshots_of_all_volumes_of_an_instance_are_made_at_once() {
    play(1, config(Instant), |cloud| async move {
        let node = cloud.instance("node-a");
        let (first, second) = (cloud.volume().await, cloud.volume().await);
        cloud.attach(&first, &node, "/dev/sdf").await;
        cloud.attach(&second, &node, "/dev/sdg").await;
        let spec = format!("InstanceSpecification.InstanceId={node}");
        let all = call(&cloud, "CreateSnapshots", &spec).await;
        assert_eq!((all.all("snapshotId").len(), all.first("state").as_deref()), (3, Some("pending")));
        let rest = format!(
            "{spec}&InstanceSpecification.ExcludeBootVolume=true&InstanceSpecification.ExcludeDataVolumeId.1={first}"
        );
        assert_eq!(call(&cloud, "CreateSnapshots", &rest).await.all("volumeId"), [second]);
        let stranger = cloud.volume().await;
        let bad = format!("{spec}&InstanceSpecification.ExcludeDataVolumeId.1={stranger}");
        assert_eq!(call(&cloud, "CreateSnapshots", &bad).await.code(), "InvalidAttachment.NotFound");
    });
}

#[test]
fn status_attributes_and_regions_are_described() {
    play(1, config(Instant), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        let status = call(&cloud, "DescribeInstanceStatus", &format!("InstanceId.1={node}")).await;
        assert!(status.body.contains("<instanceStatus><status>ok</status>"), "{}", status.body);
        cloud.admin("POST", &format!("instances/{node}/crash"), Some(json!({}))).await;
        let bad = "Filter.1.Name=instance-status.status&Filter.1.Value.1=impaired";
        assert_eq!(call(&cloud, "DescribeInstanceStatus", bad).await.all("instanceId"), [node]);
        cloud.admin("POST", &format!("volumes/{volume}/impair"), Some(json!({ "impaired": true }))).await;
        let bad = "Filter.1.Name=volume-status.status&Filter.1.Value.1=impaired";
        let impaired = call(&cloud, "DescribeVolumeStatus", bad).await;
        assert_eq!(impaired.all("volumeId"), [volume.as_str()]);
        assert!(impaired.body.contains("<name>io-enabled</name><status>failed</status>"));
        let set = format!("VolumeId={volume}&AutoEnableIO.Value=true");
        assert_eq!(call(&cloud, "ModifyVolumeAttribute", &set).await.status, 200);
        let get = format!("VolumeId={volume}&Attribute=autoEnableIO");
        let got = call(&cloud, "DescribeVolumeAttribute", &get).await;
        assert!(got.body.contains("<autoEnableIO><value>true</value></autoEnableIO>"), "{}", got.body);
        assert_eq!(call(&cloud, "DescribeRegions", "").await.all("regionName"), ["us-east-1"]);
        assert_eq!(call(&cloud, "DescribeRegions", "RegionName.1=moon").await.code(), "InvalidParameterValue");
    });
}

#[test]
fn pokes_vanish_force_hold_and_finish() {
    play(1, config(Aws), |cloud| async move {
        let admin_action = async |path: &str, json: Value| {
            let (status, answer) = cloud.admin("POST", path, Some(json)).await;
            (status, answer["changed"].clone())
        };
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        cloud.attach(&volume, &node, "/dev/sdf").await;
        assert_eq!(
            admin_action(&format!("volumes/{volume}/stick"), json!({ "which": "attachment" })).await,
            (200, json!(true))
        );
        cloud.sleep(600_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, "attaching");
        assert_eq!(admin_action(&format!("volumes/{volume}/complete"), json!({ "which": "attachment" })).await.0, 200);
        assert_eq!(cloud.attachment_status(&volume).await, "attached");
        call(&cloud, "ModifyVolume", &format!("VolumeId={volume}&Size=8")).await;
        assert_eq!(
            admin_action(&format!("volumes/{volume}/fail"), json!({ "which": "modification" })).await,
            (200, json!(true))
        );
        let failed = call(&cloud, "DescribeVolumesModifications", &format!("VolumeId.1={volume}")).await;
        assert_eq!(failed.first("modificationState").as_deref(), Some("failed"));
        let snapshot = call(&cloud, "CreateSnapshot", &format!("VolumeId={volume}")).await.first("snapshotId").unwrap();
        assert_eq!(admin_action(&format!("snapshots/{snapshot}/fail"), json!({})).await, (200, json!(true)));
        let form = format!("SnapshotId.1={snapshot}");
        assert_eq!(call(&cloud, "DescribeSnapshots", &form).await.first("status").as_deref(), Some("error"));
        assert_eq!(admin_action(&format!("volumes/{volume}/vanish"), json!({})).await.0, 200);
        assert_eq!(cloud.describe(&volume).await.code(), "InvalidVolume.NotFound");
        let broken = cloud.volume().await;
        admin_action(&format!("volumes/{broken}/state"), json!({ "state": "error" })).await;
        assert_eq!(cloud.attach(&broken, &node, "/dev/sdf").await.code(), "IncorrectState");
        assert_eq!(admin_action("volumes/vol-0aaaaaaaaaaaaaaaa/vanish", json!({})).await.0, 404);
        assert_eq!(admin_action("volumes/x/vanish", json!({})).await.0, 400);
        assert_eq!(admin_action(&format!("volumes/{broken}/fly"), json!({})).await.0, 404);
        assert_eq!(admin_action(&format!("volumes/{broken}/fail"), json!({})).await.0, 400);
        assert_eq!(admin_action("tokens/burn", json!({ "token": "no-one's" })).await.0, 404);
        assert_eq!(admin_action(&format!("instances/{node}/purge"), json!({})).await.0, 200);
        assert_eq!(power(&cloud, "RebootInstances", &node).await.code(), "InvalidInstanceID.NotFound");
    });
}

const RUN: &str = "Action=RunInstances&Version=2016-11-15&ImageId=ami-0123456789abcdef0&InstanceType=m5.large\
                   &MinCount=1&MaxCount=1";

#[test]
fn a_launch_takes_what_programs_send_and_refuses_what_it_would_have_to_do() {
    play(1, config(Instant), |cloud| async move {
        let other = cloud.instance("node-c");
        let reported = cloud.ask(&format!("Action=DescribeInstances&Version=2016-11-15&InstanceId.1={other}")).await;
        let subnet = reported.first("subnetId").unwrap();
        let group = reported.first("groupId").unwrap();
        let usual = "&KeyName=k&UserData=IyEvYmluL3No&EbsOptimized=true&Monitoring.Enabled=false\
                     &IamInstanceProfile.Name=n&MetadataOptions.HttpTokens=required";
        let made = cloud.ask(&format!("{RUN}{usual}&SecurityGroupId.1={group}&SubnetId={subnet}")).await;
        assert_eq!(made.first("availabilityZone").as_deref(), Some("us-east-1b"), "{}", made.body);
        assert_eq!(made.first("subnetId"), Some(subnet.clone()));
        for (more, code) in [
            ("&SubnetId=subnet-1".to_owned(), "InvalidSubnetId.Malformed"),
            ("&SubnetId=subnet-0123456789abcdef0".to_owned(), "InvalidSubnetID.NotFound"),
            (format!("&SubnetId={subnet}&Placement.AvailabilityZone=us-east-1a"), "InvalidParameterCombination"),
            ("&BlockDeviceMapping.1.DeviceName=/dev/sdf".to_owned(), "MissingParameter"),
            ("&Colour=red".to_owned(), "UnknownParameter"),
        ] {
            assert_eq!(cloud.ask(&format!("{RUN}{more}")).await.code(), code, "{more}");
        }
    });
}

#[test]
fn the_transition_of_an_instance_is_held_and_completed() {
    play(1, config(Aws), |cloud| async move {
        let node = cloud.instance("node-a");
        let admin_action = async |verb: &str| {
            cloud.admin("POST", &format!("instances/{node}/{verb}"), Some(serde_json::json!({}))).await
        };
        let state = async || {
            let reported = cloud.ask(&format!("Action=DescribeInstances&Version=2016-11-15&InstanceId.1={node}")).await;
            reported.first("name").unwrap()
        };
        assert_eq!(admin_action("stick").await.1["changed"], false);
        cloud.ask(&format!("Action=StopInstances&Version=2016-11-15&InstanceId.1={node}")).await;
        assert_eq!(admin_action("stick").await.1["changed"], true);
        cloud.sleep(3_600_000).await;
        assert_eq!(state().await, "stopping");
        assert_eq!(admin_action("complete").await.1["changed"], true);
        assert_eq!(state().await, "stopped");
        assert_eq!((admin_action("fail").await.0, admin_action("fly").await.0), (400, 404));
        assert_eq!(admin_action("terminate").await.0, 200);
        assert_eq!(state().await, "shutting-down");
    });
}

#[test]
fn tags_are_found_by_key_value_and_resource() {
    play(1, config(Instant), |cloud| async move {
        let volumes = [cloud.volume().await, cloud.volume().await];
        for (volume, value) in volumes.iter().zip(["x", "y"]) {
            let form =
                format!("Action=CreateTags&Version=2016-11-15&ResourceId.1={volume}&Tag.1.Key=a*b&Tag.1.Value={value}");
            assert_eq!(cloud.ask(&form).await.status, 200);
        }
        let found = async |filter: &str| {
            cloud.ask(&format!("Action=DescribeTags&Version=2016-11-15&{filter}")).await.all("resourceId")
        };
        let one = |n: usize| vec![volumes[n].clone()];
        assert_eq!(found("Filter.1.Name=tag:a*b&Filter.1.Value.1=y").await, one(1));
        assert_eq!(found("Filter.1.Name=tag:ab&Filter.1.Value.1=y").await, Vec::<String>::new());
        assert_eq!(found("Filter.1.Name=key&Filter.1.Value.1=a*").await.len(), 2);
        let by_id = format!("Filter.1.Name=resource-id&Filter.1.Value.1={}", volumes[0]);
        assert_eq!(found(&by_id).await, one(0));
        assert_eq!(
            found("Filter.1.Name=resource-type&Filter.1.Value.1=volume&Filter.2.Name=value&Filter.2.Value.1=x").await,
            one(0)
        );
    });
}
