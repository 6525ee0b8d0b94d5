//! Faults at the RPCs and on the disk plane.

use std::path::Path;
use std::time::Duration;

use csi_mock::capabilities::Capabilities;
use csi_mock::disk;
use csi_mock::events::CsiWrongDevice;
use csi_proto::csi::*;
use substrate::fault::{Effect, Fault, Lease, Match, Moment, Plane, Span, When};
use tonic::Code;

use crate::bench::*;

fn fault(b: &Bench, plane: Plane, op: &str, when: When, effect: Effect) {
    let fault = Fault {
        name: format!("{op}-{}", b.world.faults().list().len()),
        matches: Match { plane, op: Some(op.into()), attributes: Default::default() },
        when,
        effect,
        at: Moment::Before,
        lease: Lease::default(),
    };
    b.world.faults().add(b.world.clock().mono(), fault).unwrap();
}

fn first() -> When {
    When { first: Some(1), ..When::default() }
}

fn story<F: Future<Output = ()>>(story: impl FnOnce(Bench) -> F) {
    once(false, Capabilities::all(), story);
}

#[test]
fn a_wrong_publish_context_does_not_mislead_the_node() {
    story(async |b| {
        let volume = b.volume("v", 1).await;
        fault(&b, Plane::Csi, "ControllerPublishVolume", first(), Effect::WrongDevice(true));
        let context = b.attach(&volume).await;
        let right = b.attach(&volume).await;
        assert_ne!(context["devicePath"], right["devicePath"]);
        let request = NodeStageVolumeRequest { publish_context: context, ..b.stage_request(&volume) };
        b.node().node_stage_volume(request).await.unwrap();
        let device = b.disk.find(&volume).await.unwrap().unwrap();
        assert_eq!(device.name, right["devicePath"], "the device is found by the volume");
        let events = b.world.trace().events();
        let noticed = events.iter().find_map(|e| e.get::<CsiWrongDevice>()).unwrap();
        assert_eq!(noticed.found, device.name);
    });
}

#[test]
fn a_storm_of_aborted_ends_when_it_ends() {
    story(async |b| {
        let volume = b.volume("v", 1).await;
        b.attach(&volume).await;
        fault(
            &b,
            Plane::Csi,
            "NodeStageVolume",
            When { first: Some(20), ..When::default() },
            Effect::Grpc("ABORTED".into()),
        );
        for _ in 0..20 {
            assert_eq!(code(b.node().node_stage_volume(b.stage_request(&volume)).await), Code::Aborted);
        }
        b.stage(&volume).await;
    });
}

#[test]
fn the_disk_plane_fails_waits_lies_and_tears() {
    story(async |b| {
        let volume = b.published("v").await;
        let faulty = disk::faulty(&b.ctx, b.disk.clone());
        let file = Path::new("/pods/p/mount/f");
        fault(&b, Plane::Disk, "append", first(), Effect::IoError("ENOSPC".into()));
        let full = faulty.append(file, b"x").await.unwrap_err();
        assert!(full.to_string().contains("space") || full.to_string().contains("28"), "{full}");

        fault(&b, Plane::Disk, "append", first(), Effect::TornWrite(true));
        assert!(faulty.append(file, b"0123456789").await.unwrap_err().is_eio());
        assert_eq!(faulty.read(file).await.unwrap().unwrap(), b"01234", "half of it");

        fault(&b, Plane::Disk, "sync", first(), Effect::LoseUnsynced(true));
        faulty.sync(file).await.unwrap();
        assert_eq!(b.disks.durable(&volume, "f"), None, "the disk said that it was durable");
        faulty.sync(file).await.unwrap();
        assert!(b.disks.durable(&volume, "f").is_some());

        fault(&b, Plane::Disk, "read", first(), Effect::PauseIo(Span(Duration::from_secs(60))));
        let began = b.ctx.now().mono;
        faulty.read(file).await.unwrap();
        assert_eq!(b.ctx.now().mono - began, Duration::from_secs(60));

        fault(&b, Plane::Disk, "read", first(), Effect::Error("EIO".into()));
        assert!(faulty.read(file).await.unwrap_err().is_eio());
    });
}

/// An effect is recorded even if the answer is an error: observers of volumes rely on the events.
#[test]
fn what_a_disk_did_before_it_said_that_it_failed_is_on_record() {
    story(async |b| {
        let volume = b.volume("v", 1).await;
        b.attach(&volume).await;
        for op in ["stage", "publish", "unpublish", "unstage"] {
            let fault = Fault {
                name: op.into(),
                matches: Match { plane: Plane::Disk, op: Some(op.into()), attributes: Default::default() },
                when: first(),
                effect: Effect::IoError("EIO".into()),
                at: Moment::AfterEffect,
                lease: Lease::default(),
            };
            b.world.faults().add(b.world.clock().mono(), fault).unwrap();
        }
        let code_of = |result: Result<(), tonic::Status>| result.err().map(|status| status.code());
        let mut node = b.node();
        let (stage, publish) = (b.stage_request(&volume), b.target_request(&volume, TARGET));
        let unpublish =
            NodeUnpublishVolumeRequest { volume_id: volume.clone(), target_path: publish.target_path.clone() };
        let unstage = NodeUnstageVolumeRequest {
            volume_id: volume.clone(),
            staging_target_path: stage.staging_target_path.clone(),
        };
        for expected in [Some(Code::Internal), None] {
            assert_eq!(code_of(node.node_stage_volume(stage.clone()).await.map(drop)), expected);
        }
        for expected in [Some(Code::Internal), None] {
            assert_eq!(code_of(node.node_publish_volume(publish.clone()).await.map(drop)), expected);
        }
        for expected in [Some(Code::Internal), None] {
            assert_eq!(code_of(node.node_unpublish_volume(unpublish.clone()).await.map(drop)), expected);
        }
        for expected in [Some(Code::Internal), None] {
            assert_eq!(code_of(node.node_unstage_volume(unstage.clone()).await.map(drop)), expected);
        }
        let told: Vec<_> = b.world.trace().events().iter().map(|event| event.kind()).collect();
        // The mount that was made despite the first error was taken down.
        for (name, times) in [("disk.staged", 2), ("disk.published", 1), ("disk.unpublished", 1), ("disk.unstaged", 2)]
        {
            assert_eq!(told.iter().filter(|told| **told == name).count(), times, "{name}: {told:?}");
        }
    });
}

#[test]
fn the_device_of_another_volume_is_not_taken_for_ours() {
    story(async |b| {
        let (ours, other) = (b.volume("ours", 1).await, b.volume("other", 1).await);
        b.attach(&ours).await;
        b.attach(&other).await;
        b.stage(&ours).await;
        let faulty = disk::faulty(&b.ctx, b.disk.clone());
        fault(&b, Plane::Disk, "find", first(), Effect::WrongDevice(true));
        let found = faulty.find(&ours).await.unwrap_err();
        assert!(matches!(found, disk::DiskError::NotOurs { .. }), "{found}");
        assert_eq!(faulty.find(&ours).await.unwrap().unwrap().volume, ours);
    });
}

#[test]
fn statistics_of_a_path_that_went_and_came_back_meanwhile_are_not_found() {
    story(async |b| {
        let volume = b.published("v").await;
        let ask = || NodeGetVolumeStatsRequest {
            volume_id: volume.clone(),
            volume_path: TARGET.into(),
            ..Default::default()
        };
        fault(&b, Plane::Disk, "usage", first(), Effect::Error("ENOENT".into()));
        assert_eq!(code(b.node().node_get_volume_stats(ask()).await), Code::NotFound);
        b.node().node_get_volume_stats(ask()).await.unwrap();
    });
}
