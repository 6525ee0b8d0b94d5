//! Each seeded bug has an effect when it is switched on, and none when it is off.

#![cfg(any(debug_assertions, feature = "mutants"))]

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use mock_ec2::LatencyProfile::{Aws, Instant};
use mock_ec2::events::{AttachmentChanged, AttachmentPhase, VolumeChanged, VolumePhase};
use mock_ec2::mutants::MUTANTS;
use mock_ec2::{Config, VolumeBytes};
use rstest::rstest;
use serde_json::json;

use crate::common::{Cloud, config, play_with};

/// Attaches a new volume to node-a and waits for its device.
async fn attached(cloud: &Cloud) -> String {
    let volume = cloud.volume().await;
    cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await;
    cloud.sleep(30_000).await;
    assert_eq!(cloud.attachment_status(&volume).await, "attached");
    volume
}

/// Returns the states of the attachments of `volume`, in order.
fn phases(cloud: &Cloud, volume: &str) -> Vec<AttachmentPhase> {
    let events = cloud.world.trace().events();
    let of = events.iter().filter_map(|e| e.get::<AttachmentChanged>()).filter(|a| a.volume.as_str() == volume);
    of.map(|a| a.state).collect()
}

#[test]
fn each_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<&str> = MUTANTS.iter().map(|m| m.name).collect();
    assert_eq!(names.len(), MUTANTS.len());
}

#[rstest]
#[case(&[], "busy")]
#[case(&["busy-ignored"], "")]
fn busy_ignored(#[case] mutants: &[&str], #[case] status: &str) {
    play_with(1, config(Aws), mutants, |cloud| async move {
        let volume = attached(&cloud).await;
        let path = format!("instances/{}/mounts", cloud.instance("node-a"));
        assert_eq!(cloud.admin("PUT", &path, Some(json!({ "volumes": [volume] }))).await.0, 200);
        cloud.detach(&volume).await;
        cloud.sleep(120_000).await;
        assert_eq!(cloud.attachment_status(&volume).await, status);
    });
}

#[rstest]
#[case(&[], 400)]
#[case(&["attach-twice"], 200)]
fn attach_twice(#[case] mutants: &[&str], #[case] status: u16) {
    play_with(1, config(Instant), mutants, |cloud| async move {
        let volume = attached(&cloud).await;
        assert_eq!(cloud.attach(&volume, &cloud.instance("node-b"), "/dev/sdf").await.status, status);
        cloud.sleep(1_000).await;
        let two = cloud.describe(&volume).await;
        assert_eq!(two.all("instanceId").len(), if status == 200 { 2 } else { 1 });
        assert_eq!(two.first("multiAttachEnabled").as_deref(), Some("false"));
    });
}

#[rstest]
#[case(&[], false)]
#[case(&["delete-while-attached"], true)]
fn delete_while_attached(#[case] mutants: &[&str], #[case] gone: bool) {
    play_with(1, config(Aws), mutants, |cloud| async move {
        let volume = attached(&cloud).await;
        let deleted = cloud.ask(&format!("Action=DeleteVolume&Version=2016-11-15&VolumeId={volume}")).await;
        assert_eq!(deleted.status == 200, gone);
        cloud.sleep(60_000).await;
        let events = cloud.world.trace().events();
        let reported = events.iter().filter_map(|e| e.get::<VolumeChanged>()).any(|v| v.state == VolumePhase::Deleted);
        assert_eq!((reported, cloud.describe(&volume).await.status == 400), (gone, gone));
        assert_eq!(phases(&cloud, &volume).last(), Some(&AttachmentPhase::Attached), "the device stays");
    });
}

/// Bytes of volumes and snapshots, one number each.
#[derive(Clone, Debug, Default)]
struct Bytes(Arc<Mutex<BTreeMap<String, u8>>>);

impl VolumeBytes for Bytes {
    fn snapshot(&self, source: &str, snapshot: &str) {
        let mut all = self.0.lock();
        let bytes = all.get(source).copied().unwrap_or_default();
        all.insert(snapshot.to_owned(), bytes);
    }

    fn restore(&self, source: &str, volume: &str, _: u64) {
        self.snapshot(source, volume);
    }

    fn grow(&self, _: &str, _: u64) {}

    fn remove(&self, id: &str) {
        self.0.lock().remove(id);
    }

    fn is_held(&self, _: &str) -> bool {
        false
    }
}

/// Sizes to which volumes have grown, in bytes.
#[derive(Clone, Debug, Default)]
struct Growth(Arc<Mutex<Vec<u64>>>);

impl VolumeBytes for Growth {
    fn snapshot(&self, _: &str, _: &str) {}

    fn restore(&self, _: &str, _: &str, _: u64) {}

    fn grow(&self, _: &str, bytes: u64) {
        self.0.lock().push(bytes);
    }

    fn remove(&self, _: &str) {}

    fn is_held(&self, _: &str) -> bool {
        false
    }
}

#[rstest]
#[case(&[], &[9 << 30])]
#[case(&["attached-device-not-grown"], &[])]
fn attached_device_not_grown(#[case] mutants: &[&str], #[case] grown: &[u64]) {
    let growth = Growth::default();
    let config = Config { bytes: Some(Arc::new(growth.clone())), ..config(Aws) };
    play_with(1, config, mutants, |cloud| async move {
        let volume = attached(&cloud).await;
        let modified = cloud.ask(&format!("Action=ModifyVolume&Version=2016-11-15&VolumeId={volume}&Size=9")).await;
        assert_eq!(modified.status, 200);
        cloud.sleep(600_000).await;
    });
    assert_eq!(*growth.0.lock(), grown);
}

#[rstest]
#[case(&[], 1)]
#[case(&["snapshot-not-point-in-time"], 2)]
fn snapshot_not_point_in_time(#[case] mutants: &[&str], #[case] restored: u8) {
    let bytes = Bytes::default();
    let config = Config { bytes: Some(Arc::new(bytes.clone())), ..config(Aws) };
    play_with(1, config, mutants, |cloud| async move {
        let volume = cloud.volume().await;
        let write = |byte: u8| {
            bytes.0.lock().insert(volume.clone(), byte);
        };
        write(1);
        let made = cloud.ask(&format!("Action=CreateSnapshot&Version=2016-11-15&VolumeId={volume}")).await;
        write(2);
        cloud.sleep(600_000).await;
        write(3);
        let snapshot = made.first("snapshotId").unwrap();
        let form = format!("Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&SnapshotId={snapshot}");
        let copy = cloud.ask(&form).await.first("volumeId").unwrap();
        assert_eq!(bytes.0.lock()[&copy], restored);
    });
}

#[rstest]
#[case(&[], false)]
#[case(&["snapshot-not-point-in-time"], true)]
fn snapshot_not_point_in_time_of_files(#[case] mutants: &[&str], #[case] later: bool) {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { volume_dir: Some(dir.path().to_owned()), ..config(Aws) };
    let path = dir.path().to_owned();
    play_with(1, config, mutants, |cloud| async move {
        use std::os::unix::fs::FileExt;
        let volume = cloud.volume().await;
        let file = std::fs::OpenOptions::new().write(true).open(path.join(&volume)).unwrap();
        file.write_all_at(b"before", 0).unwrap();
        let made = cloud.ask(&format!("Action=CreateSnapshot&Version=2016-11-15&VolumeId={volume}")).await;
        file.write_all_at(b"after!", 0).unwrap();
        cloud.sleep(600_000).await;
        let kept = std::fs::File::open(path.join(made.first("snapshotId").unwrap())).unwrap();
        let mut bytes = [0; 6];
        kept.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, if later { b"after!" } else { b"before" });
    });
}

#[rstest]
#[case(&[], 1)]
#[case(&["client-token-ignored"], 2)]
fn client_token_ignored(#[case] mutants: &[&str], #[case] volumes: usize) {
    play_with(1, config(Instant), mutants, |cloud| async move {
        let create = "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=3&ClientToken=t";
        for _ in 0..2 {
            assert_eq!(cloud.ask(create).await.status, 200);
        }
        let find = "Action=DescribeVolumes&Version=2016-11-15&Filter.1.Name=size&Filter.1.Value.1=3";
        assert_eq!(cloud.ask(find).await.all("volumeId").len(), volumes);
    });
}

#[rstest]
#[case(&[], false)]
#[case(&["attachment-lingers"], true)]
fn attachment_lingers(#[case] mutants: &[&str], #[case] lingers: bool) {
    play_with(1, config(Aws), mutants, |cloud| async move {
        let volume = attached(&cloud).await;
        let mut devices = cloud.devices(&cloud.instance("node-a")).await;
        for _ in 0..2 {
            devices.next().await;
        }
        cloud.detach(&volume).await;
        cloud.sleep(60_000).await;
        assert_eq!(
            (cloud.volume_status(&volume).await.as_str(), cloud.attachment_status(&volume).await),
            ("available", String::new())
        );
        let state = cloud.ec2.dump();
        let own = state["volumes"].as_array().unwrap().iter().find(|v| v["id"] == volume.as_str()).unwrap();
        assert_eq!(own["attachments"].as_object().unwrap().len(), usize::from(lingers));
        let last = phases(&cloud, &volume).last().copied();
        assert_eq!(last, Some(if lingers { AttachmentPhase::Detaching } else { AttachmentPhase::Detached }));
        assert_eq!(devices.next().await["type"], "detaching");
        let more = tokio::time::timeout(std::time::Duration::from_secs(60), devices.next()).await;
        assert_eq!(more.is_err(), lingers);
        // Another node still gets it.
        assert_eq!(cloud.attach(&volume, &cloud.instance("node-b"), "/dev/sdf").await.status, 200);
    });
}

#[rstest]
#[case(&[], "attached")]
#[case(&["freed-slot-not-used"], "attaching")]
fn freed_slot_not_used(#[case] mutants: &[&str], #[case] status: &str) {
    play_with(1, config(Instant), mutants, |cloud| async move {
        let node = cloud.instance("node-a");
        assert_eq!(cloud.admin("POST", "switches", Some(json!({ "limitMode": "stick" }))).await.0, 200);
        // Two of the 28 slots are left for data.
        let path = format!("instances/{node}/hardware");
        assert_eq!(cloud.admin("POST", &path, Some(json!({ "reservedSlots": 24 }))).await.0, 200);
        let mut volumes = Vec::new();
        for device in ["/dev/sdf", "/dev/sdg", "/dev/sdh"] {
            let volume = cloud.volume().await;
            assert_eq!(cloud.attach(&volume, &node, device).await.status, 200);
            cloud.sleep(1_000).await;
            volumes.push(volume);
        }
        assert_eq!(cloud.attachment_status(&volumes[2]).await, "attaching");
        cloud.detach(&volumes[0]).await;
        cloud.sleep(1_000).await;
        assert_eq!(cloud.attachment_status(&volumes[2]).await, status);
    });
}

#[rstest]
#[case(&[], 2)]
#[case(&["volume-quota-off-by-one"], 1)]
fn volume_quota_off_by_one(#[case] mutants: &[&str], #[case] made: usize) {
    play_with(1, config(Instant), mutants, |cloud| async move {
        // The three instances have a root volume each.
        assert_eq!(cloud.admin("POST", "switches", Some(json!({ "volumeQuota": 5 }))).await.0, 200);
        let create = "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=1";
        let mut accepted = 0;
        for _ in 0..3 {
            let answer = cloud.ask(create).await;
            match answer.status {
                200 => accepted += 1,
                _ => assert_eq!(answer.code(), "VolumeLimitExceeded"),
            }
        }
        assert_eq!(accepted, made);
    });
}

#[rstest]
#[case(&[], false)]
#[case(&["page-repeats-last"], true)]
fn page_repeats_last(#[case] mutants: &[&str], #[case] repeats: bool) {
    play_with(1, config(Instant), mutants, |cloud| async move {
        let list = "Action=DescribeInstanceTypes&Version=2016-11-15&MaxResults=5";
        let first = cloud.ask(list).await;
        let second = cloud.ask(&format!("{list}&NextToken={}", first.first("nextToken").unwrap())).await;
        let (before, after) = (first.all("instanceType"), second.all("instanceType"));
        assert_eq!((before.len(), before.last() == after.first()), (5, repeats));
    });
}
