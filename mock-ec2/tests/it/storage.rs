//! Modifications, snapshots and copies, as clients see them.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::os::unix::fs::FileExt;

use mock_ec2::Config;
use mock_ec2::LatencyProfile::{Aws, Instant};
use rstest::rstest;
use serde_json::json;

use crate::common::{self, Answer, Cloud, config, play};

async fn call(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    cloud.ask(&format!("Action={action}&Version=2016-11-15&{rest}")).await
}

async fn modify(cloud: &Cloud, volume: &str, rest: &str) -> Answer {
    call(cloud, "ModifyVolume", &format!("VolumeId={volume}&{rest}")).await
}

async fn snapshot(cloud: &Cloud, volume: &str) -> String {
    let made = call(cloud, "CreateSnapshot", &format!("VolumeId={volume}")).await;
    let id = made.first("snapshotId").unwrap();
    while snapshot_status(cloud, &id).await == "pending" {
        cloud.sleep(1_000).await;
    }
    id
}

async fn snapshot_status(cloud: &Cloud, id: &str) -> String {
    call(cloud, "DescribeSnapshots", &format!("SnapshotId.1={id}")).await.first("status").unwrap_or_default()
}

#[test]
fn a_modification_goes_through_every_state_and_the_size_comes_with_optimizing() {
    play(1, config(Aws), |cloud| async move {
        let volume = cloud.volume().await;
        let answer = modify(&cloud, &volume, "Size=8&Iops=4000&Throughput=250").await;
        assert_eq!(answer.first("modificationState").as_deref(), Some("modifying"), "{}", answer.body);
        assert_eq!((answer.first("originalSize"), answer.first("targetSize")), (Some("4".into()), Some("8".into())));
        assert_eq!(cloud.describe(&volume).await.first("size").as_deref(), Some("4"));
        let again = modify(&cloud, &volume, "Size=9").await;
        assert_eq!(again.code(), "IncorrectModificationState");
        assert_eq!(again.message(), format!("Volume {volume} cannot be modified in modification state MODIFYING"));
        cloud.sleep(10_000).await;
        let listed = call(&cloud, "DescribeVolumesModifications", &format!("VolumeId.1={volume}")).await;
        assert_eq!(listed.first("modificationState").as_deref(), Some("optimizing"));
        assert_eq!(listed.first("endTime"), None);
        let described = cloud.describe(&volume).await;
        assert_eq!((described.first("size").as_deref(), described.first("iops").as_deref()), (Some("8"), Some("4000")));
        assert!(modify(&cloud, &volume, "Size=9").await.message().ends_with("OPTIMIZING"));
        cloud.sleep(21_600_000).await;
        let done =
            call(&cloud, "DescribeVolumesModifications", "Filter.1.Name=modification-state&Filter.1.Value.1=com*");
        let done = done.await;
        assert_eq!((done.first("progress").as_deref(), done.first("volumeId")), (Some("100"), Some(volume)));
        assert!(done.first("endTime").is_some());
    });
}

#[test]
fn a_volume_that_was_never_modified_is_an_error_that_names_it() {
    play(1, config(Instant), |cloud| async move {
        let (modified, never) = (cloud.volume().await, cloud.volume().await);
        modify(&cloud, &modified, "Size=5").await;
        let form = format!("VolumeId.1={modified}&VolumeId.2={never}");
        let answer = call(&cloud, "DescribeVolumesModifications", &form).await;
        assert_eq!(answer.code(), "InvalidVolumeModification.NotFound");
        assert!(answer.message().contains(&never) && !answer.message().contains(&modified), "{}", answer.message());
        let all = call(&cloud, "DescribeVolumesModifications", "").await;
        assert_eq!(all.all("volumeId"), [modified]);
    });
}

#[test]
fn a_volume_is_modified_four_times_in_a_day_and_only_the_latest_is_listed() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        for size in 5..9 {
            assert_eq!(modify(&cloud, &volume, &format!("Size={size}")).await.status, 200);
            cloud.sleep(1_000).await;
        }
        assert_eq!(modify(&cloud, &volume, "Size=10").await.code(), "VolumeModificationRateExceeded");
        let listed = call(&cloud, "DescribeVolumesModifications", &format!("VolumeId.1={volume}")).await;
        assert_eq!(listed.all("targetSize"), ["8"]);
        cloud.sleep(24 * 3_600_000 - 3_500).await;
        assert_eq!(modify(&cloud, &volume, "Size=10").await.status, 200);
    });
}

#[rstest]
#[case("Size=3", "InvalidParameterValue")]
#[case("Size=70000", "InvalidParameterValue")]
#[case("VolumeType=banana", "UnknownVolumeType")]
#[case("Iops=100000", "InvalidParameterValue")]
#[case("VolumeType=gp2&Iops=3000", "InvalidParameterCombination")]
#[case("MultiAttachEnabled=true", "InvalidParameterCombination")]
#[case("", "MissingParameter")]
#[case("Size=5&DryRun=true", "DryRunOperation")]
fn a_modification_that_cannot_be_is_refused(#[case] change: &'static str, #[case] code: &str) {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        assert_eq!(modify(&cloud, &volume, change).await.code(), code);
        let never = call(&cloud, "DescribeVolumesModifications", &format!("VolumeId.1={volume}")).await;
        assert_eq!(never.code(), "InvalidVolumeModification.NotFound");
    });
}

#[test]
fn a_new_type_brings_its_own_performance() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        modify(&cloud, &volume, "VolumeType=io2").await;
        let io2 = cloud.describe(&volume).await;
        assert_eq!((io2.first("iops").as_deref(), io2.first("throughput")), (Some("3000"), None));
        modify(&cloud, &volume, "MultiAttachEnabled=true").await;
        assert_eq!(cloud.describe(&volume).await.first("multiAttachEnabled").as_deref(), Some("true"));
        cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await;
        assert_eq!(modify(&cloud, &volume, "MultiAttachEnabled=false").await.code(), "IncorrectState");
    });
}

#[test]
fn a_fault_holds_a_modification_where_it_says() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        let fault = json!({
            "name": "f", "match": {"plane": "ec2", "op": "ModifyVolume"}, "effect": {"stick": "optimizing"}
        });
        assert_eq!(cloud.admin("POST", "faults", Some(fault)).await.0, 201);
        modify(&cloud, &volume, "Size=5").await;
        let state = async || {
            let form = format!("VolumeId.1={volume}");
            call(&cloud, "DescribeVolumesModifications", &form).await.first("modificationState").unwrap()
        };
        assert_eq!(state().await, "optimizing");
        assert_eq!(cloud.describe(&volume).await.first("size").as_deref(), Some("5"));
        cloud.admin("DELETE", "faults", None).await;
        assert_eq!(state().await, "completed");
    });
}

#[test]
fn a_snapshot_is_pending_with_progress_and_keeps_the_size_of_its_moment() {
    play(1, config(Aws), |cloud| async move {
        let volume = cloud.volume().await;
        let form = format!(
            "VolumeId={volume}&Description=why&TagSpecification.1.ResourceType=snapshot\
             &TagSpecification.1.Tag.1.Key=CSIVolumeSnapshotName&TagSpecification.1.Tag.1.Value=s1"
        );
        let made = call(&cloud, "CreateSnapshot", &form).await;
        assert_eq!(
            (made.first("status").as_deref(), made.first("volumeSize").as_deref()),
            (Some("pending"), Some("4"))
        );
        assert_eq!((made.first("progress").as_deref(), made.first("volumeId")), (Some(""), Some(volume.clone())));
        let id = made.first("snapshotId").unwrap();
        cloud.sleep(5_000).await;
        let percent = call(&cloud, "DescribeSnapshots", &format!("SnapshotId.1={id}")).await.first("progress").unwrap();
        assert!(!["0%", "100%"].contains(&percent.as_str()), "{percent}");
        let early = call(&cloud, "CreateVolume", &format!("AvailabilityZone=us-east-1a&SnapshotId={id}")).await;
        assert_eq!(early.code(), "IncorrectState");
        assert_eq!(
            call(&cloud, "CreateSnapshot", &format!("VolumeId={volume}")).await.code(),
            "SnapshotCreationPerVolumeRateExceeded"
        );
        modify(&cloud, &volume, "Size=9").await;
        cloud.sleep(300_000).await;
        let found = "Filter.1.Name=tag:CSIVolumeSnapshotName&Filter.1.Value.1=s?";
        let found = call(&cloud, "DescribeSnapshots", found).await;
        assert_eq!(
            (found.first("status").as_deref(), found.first("volumeSize").as_deref()),
            (Some("completed"), Some("4"))
        );
        assert_eq!(cloud.describe(&volume).await.first("size").as_deref(), Some("9"));
        let smaller =
            call(&cloud, "CreateVolume", &format!("AvailabilityZone=us-east-1b&Size=3&SnapshotId={id}")).await;
        assert_eq!(smaller.code(), "InvalidParameterValue");
        let restored = call(&cloud, "CreateVolume", &format!("AvailabilityZone=us-east-1b&SnapshotId={id}")).await;
        assert_eq!((restored.first("size").as_deref(), restored.first("snapshotId")), (Some("4"), Some(id.clone())));
        assert_eq!(call(&cloud, "DeleteSnapshot", &format!("SnapshotId={id}")).await.first("return").unwrap(), "true");
        let gone = call(&cloud, "DeleteSnapshot", &format!("SnapshotId={id}")).await;
        assert_eq!(
            (gone.code().as_str(), gone.message()),
            ("InvalidSnapshot.NotFound", format!("The snapshot '{id}' does not exist."))
        );
    });
}

#[test]
fn snapshots_are_listed_page_by_page() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        for _ in 0..7 {
            snapshot(&cloud, &volume).await;
        }
        let form = format!("MaxResults=5&Filter.1.Name=volume-id&Filter.1.Value.1={volume}&Owner.1=self");
        let first = call(&cloud, "DescribeSnapshots", &form).await;
        assert_eq!(first.all("snapshotId").len(), 5);
        let next = format!("{form}&NextToken={}", first.first("nextToken").unwrap());
        let second = call(&cloud, "DescribeSnapshots", &next).await;
        assert_eq!((second.all("snapshotId").len(), second.first("nextToken")), (2, None));
        assert!(call(&cloud, "DescribeSnapshots", "Owner.1=amazon").await.all("snapshotId").is_empty());
    });
}

#[test]
fn volumes_are_cloned_once_per_token() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        let form = format!(
            "SourceVolumeId={volume}&ClientToken=t&Size=8&VolumeType=gp3&MultiAttachEnabled=false\
             &TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=CSIVolumeName\
             &TagSpecification.1.Tag.1.Value=clone"
        );
        let copied = call(&cloud, "CopyVolumes", &form).await;
        assert_eq!((copied.all("size"), copied.first("sourceVolumeId")), (vec!["8".to_owned()], Some(volume.clone())));
        assert_eq!(call(&cloud, "CopyVolumes", &form).await.first("volumeId"), copied.first("volumeId"));
        let other = form.replace("Size=8", "Size=9");
        assert_eq!(call(&cloud, "CopyVolumes", &other).await.code(), "IdempotentParameterMismatch");
        let small = format!("SourceVolumeId={volume}&Size=2");
        assert_eq!(call(&cloud, "CopyVolumes", &small).await.code(), "InvalidParameterValue");
        let missing = "SourceVolumeId=vol-0aaaaaaaaaaaaaaaa";
        assert_eq!(call(&cloud, "CopyVolumes", missing).await.code(), "InvalidVolume.NotFound");
    });
}

#[test]
fn the_status_of_a_restored_volume_says_that_its_blocks_are_still_coming() {
    play(1, config(Aws), |cloud| async move {
        let plain = cloud.volume().await;
        let id = snapshot(&cloud, &plain).await;
        let form = format!("AvailabilityZone=us-east-1a&SnapshotId={id}&VolumeInitializationRate=100");
        let volume = call(&cloud, "CreateVolume", &form).await.first("volumeId").unwrap();
        cloud.sleep(6_000).await;
        let status = async |volume: &str| call(&cloud, "DescribeVolumeStatus", &format!("VolumeId.1={volume}")).await;
        let answer = status(&volume).await;
        assert!(
            answer.body.contains("<name>initialization-state</name><status>initializing</status>"),
            "{}",
            answer.body
        );
        assert_eq!(answer.first("initializationType").as_deref(), Some("provisioned-rate"));
        let left: u64 = answer.first("estimatedTimeToCompleteInSeconds").unwrap().parse().unwrap();
        // 4 GiB at 100 MiB/s take 41 s.
        assert!((30..41).contains(&left), "{left}");
        cloud.sleep(41_000).await;
        assert!(status(&volume).await.body.contains("<name>initialization-state</name><status>completed</status>"));
        assert_eq!(status(&plain).await.all("initializationType").len(), 0);
        let odd = call(&cloud, "CreateVolume", &form.replace("=100", "=99")).await;
        assert_eq!(odd.code(), "InvalidParameterValue");
    });
}

#[test]
fn fast_restore_is_enabled_in_stages_and_refused_per_snapshot() {
    play(1, config(Aws), |cloud| async move {
        let volume = cloud.volume().await;
        let id = snapshot(&cloud, &volume).await;
        let form = format!(
            "AvailabilityZone.1=us-east-1a&AvailabilityZone.2=us-east-1b&SourceSnapshotId.1={id}\
             &SourceSnapshotId.2=snap-0aaaaaaaaaaaaaaaa"
        );
        let answer = call(&cloud, "EnableFastSnapshotRestores", &form).await;
        assert_eq!(answer.all("state"), ["enabling", "enabling"]);
        let unsuccessful = answer.first("unsuccessful").unwrap();
        assert!(unsuccessful.contains("<fastSnapshotRestoreStateErrorSet><item>"), "{unsuccessful}");
        assert_eq!(answer.all("code"), ["InvalidSnapshot.NotFound", "InvalidSnapshot.NotFound"]);
        let create = format!("AvailabilityZone=us-east-1a&SnapshotId={id}");
        let fast = async || {
            let made = call(&cloud, "CreateVolume", &create).await;
            // Present only in describe answers.
            assert_eq!(made.first("fastRestored"), None);
            cloud.describe(&made.first("volumeId").unwrap()).await.first("fastRestored").unwrap()
        };
        assert_eq!(fast().await, "false");
        cloud.sleep(240_000).await;
        assert_eq!(fast().await, "true");
    });
}

#[test]
fn fast_restore_is_enabled_for_a_snapshot_that_is_still_pending() {
    play(1, config(Aws), |cloud| async move {
        let volume = cloud.volume().await;
        let made = call(&cloud, "CreateSnapshot", &format!("VolumeId={volume}")).await;
        assert_eq!(made.first("status").as_deref(), Some("pending"));
        let id = made.first("snapshotId").unwrap();
        let form = format!("AvailabilityZone.1=us-east-1a&SourceSnapshotId.1={id}");
        let answer = call(&cloud, "EnableFastSnapshotRestores", &form).await;
        assert_eq!((answer.all("state"), answer.all("code")), (vec!["enabling".to_owned()], Vec::<String>::new()));
    });
}

#[test]
fn a_locked_snapshot_cannot_be_deleted_until_the_lock_ends() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        let id = snapshot(&cloud, &volume).await;
        let lock = |rest: &str| format!("SnapshotId={id}&{rest}");
        for (rest, code) in [
            ("LockMode=loose&LockDuration=1", "InvalidParameterValue"),
            ("LockMode=governance", "MissingParameter"),
            ("LockMode=governance&LockDuration=1&CoolOffPeriod=1", "InvalidParameterCombination"),
            ("LockMode=compliance&LockDuration=1&CoolOffPeriod=99", "InvalidParameterValue"),
            ("LockMode=governance&LockDuration=0", "InvalidParameterValue"),
            ("LockMode=governance&ExpirationDate=2020-01-01T00:00:00Z", "InvalidParameterValue"),
        ] {
            assert_eq!(call(&cloud, "LockSnapshot", &lock(rest)).await.code(), code, "{rest}");
        }
        let locked = call(&cloud, "LockSnapshot", &lock("LockMode=compliance&LockDuration=1&CoolOffPeriod=2")).await;
        assert_eq!(locked.first("lockState").as_deref(), Some("compliance-cooloff"), "{}", locked.body);
        let delete = format!("SnapshotId={id}");
        assert_eq!(call(&cloud, "DeleteSnapshot", &delete).await.code(), "OperationNotPermitted");
        cloud.sleep(24 * 3_600_000).await;
        assert_eq!(call(&cloud, "DeleteSnapshot", &delete).await.status, 200);
    });
}

#[test]
fn snapshots_have_tags_like_everything_else() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        let id = snapshot(&cloud, &volume).await;
        let tag = format!("ResourceId.1={id}&ResourceId.2={volume}&Tag.1.Key=k&Tag.1.Value=v");
        assert_eq!(call(&cloud, "CreateTags", &tag).await.status, 200);
        let found = call(&cloud, "DescribeTags", "Filter.1.Name=key&Filter.1.Value.1=k").await;
        assert_eq!(found.all("resourceType"), ["snapshot", "volume"]);
        assert_eq!(call(&cloud, "DeleteTags", &format!("ResourceId.1={id}&Tag.1.Key=k")).await.status, 200);
        let left = call(&cloud, "DescribeTags", "Filter.1.Name=value&Filter.1.Value.1=v").await;
        assert_eq!(left.all("resourceId"), [volume]);
    });
}

#[test]
fn snapshots_restores_and_clones_carry_the_bytes_of_their_moment() {
    let held = tempfile::tempdir().unwrap();
    let dir = held.path();
    let with_files = Config { volume_dir: Some(dir.to_owned()), ..config(Instant) };
    let file = |id: &str| std::fs::OpenOptions::new().read(true).write(true).open(dir.join(id)).unwrap();
    let begin = |id: &str| {
        let mut bytes = [0; 5];
        file(id).read_exact_at(&mut bytes, 1 << 30).unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    play(1, with_files, |cloud| async move {
        let volume = cloud.volume().await;
        file(&volume).write_all_at(b"first", 1 << 30).unwrap();
        let id = snapshot(&cloud, &volume).await;
        file(&volume).write_all_at(b"later", 1 << 30).unwrap();
        let form = format!("AvailabilityZone=us-east-1b&Size=6&SnapshotId={id}");
        let restored = call(&cloud, "CreateVolume", &form).await.first("volumeId").unwrap();
        let clone = call(&cloud, "CopyVolumes", &format!("SourceVolumeId={volume}")).await.first("volumeId").unwrap();
        let form = format!("SourceSnapshotId={id}&SourceRegion=us-east-1");
        let copy = call(&cloud, "CopySnapshot", &form).await.first("snapshotId").unwrap();
        for volume in [&restored, &clone] {
            while cloud.volume_status(volume).await != "available" {
                cloud.sleep(1).await;
            }
        }
        while snapshot_status(&cloud, &copy).await == "pending" {
            cloud.sleep(1).await;
        }
        assert_eq!((begin(&restored), begin(&clone), begin(&copy)), ("first".into(), "later".into(), "first".into()));
        assert_eq!(file(&restored).metadata().unwrap().len(), 6 << 30);
        modify(&cloud, &clone, "Size=20").await;
        cloud.describe(&clone).await;
        assert_eq!((file(&clone).metadata().unwrap().len(), begin(&clone)), (20 << 30, "later".into()));
        call(&cloud, "DeleteSnapshot", &format!("SnapshotId={id}")).await;
        assert!(!dir.join(&id).exists() && dir.join(&copy).exists());
        assert_eq!(begin(&restored), "first");
    });
}

#[test]
fn a_device_stream_reports_the_new_size_of_a_device() {
    play(1, config(Instant), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        cloud.attach(&volume, &node, "/dev/sdf").await;
        let mut stream = cloud.devices(&node).await;
        assert_eq!(
            (stream.next().await["type"].clone(), stream.next().await["type"].clone()),
            (json!("attached"), json!("synced"))
        );
        modify(&cloud, &volume, "Size=6").await;
        cloud.describe(&volume).await;
        assert_eq!(stream.next().await, json!({ "type": "resized", "volume": volume, "size_bytes": 6u64 << 30 }));
    });
}

#[test]
fn changed_blocks_of_two_snapshots_are_listed_page_by_page() {
    let held = tempfile::tempdir().unwrap();
    let dir = held.path();
    let with_files = Config { volume_dir: Some(dir.to_owned()), ..config(Instant) };
    play(1, with_files, |cloud| async move {
        const BLOCK: u64 = 512 << 10;
        let write = |volume: &str, block: u64| {
            let file = std::fs::OpenOptions::new().write(true).open(dir.join(volume)).unwrap();
            file.write_all_at(format!("{block} written").as_bytes(), block * BLOCK).unwrap();
        };
        let get = async |path: &str| {
            let request =
                http::Request::builder().uri(path).header("authorization", common::SIGNED.replace("/ec2/", "/ebs/"));
            let answer = cloud.answer(request.body(substrate::body::empty()).unwrap()).await;
            (answer.status, serde_json::from_str::<serde_json::Value>(&answer.body).unwrap())
        };
        let volume = cloud.volume().await;
        (0..150).for_each(|n| write(&volume, n * 2));
        let first = snapshot(&cloud, &volume).await;
        write(&volume, 7);
        let second = snapshot(&cloud, &volume).await;
        let (status, page) = get(&format!("/snapshots/{first}/blocks?maxResults=100")).await;
        assert_eq!((status, &page["BlockSize"], &page["VolumeSize"]), (200, &json!(BLOCK), &json!(4)), "{page}");
        assert_eq!((page["Blocks"].as_array().unwrap().len(), &page["Blocks"][99]["BlockIndex"]), (100, &json!(198)));
        let token = page["NextToken"].as_str().unwrap().replace('=', "%3D").replace('+', "%2B");
        let rest = get(&format!("/snapshots/{first}/blocks?maxResults=100&pageToken={token}")).await.1;
        assert_eq!((rest["Blocks"].as_array().unwrap().len(), &rest["NextToken"]), (50, &json!(null)));
        let changed = get(&format!("/snapshots/{second}/changedblocks?firstSnapshotId={first}")).await.1;
        let changed = changed["ChangedBlocks"].as_array().unwrap();
        assert_eq!((changed.len(), &changed[0]["BlockIndex"]), (1, &json!(7)));
        assert!(changed[0]["SecondBlockToken"].is_string() && changed[0]["FirstBlockToken"].is_null());
        let all = get(&format!("/snapshots/{second}/changedblocks")).await.1;
        assert_eq!(all["ChangedBlocks"].as_array().unwrap().len(), 151);
        for (path, status) in [
            (format!("/snapshots/{first}/blocks?maxResults=1"), 400),
            (format!("/snapshots/{first}/blocks?pageToken=x"), 400),
            ("/snapshots/snap-0aaaaaaaaaaaaaaaa/blocks".to_owned(), 404),
            ("/snapshots/..%2Fetc/blocks".to_owned(), 400),
            (format!("/snapshots/{first}/nothing"), 404),
        ] {
            assert_eq!(get(&path).await.0, status, "{path}");
        }
        let unsigned = http::Request::builder().uri(format!("/snapshots/{first}/blocks"));
        let refused = cloud.send(unsigned.body(substrate::body::empty()).unwrap()).await.unwrap();
        assert_eq!(
            (refused.status().as_u16(), refused.headers()["x-amzn-errortype"].to_str().unwrap()),
            (403, "AccessDeniedException")
        );
    });
}
