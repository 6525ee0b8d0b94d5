//! Faults at the RPCs and on the disk plane.

use std::path::Path;
use std::time::Duration;

use csi_mock::capabilities::Capabilities;
use csi_mock::events::{CsiFalsified, CsiWrongDevice};
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

fn in_simulation<F: Future<Output = ()>>(test: impl FnOnce(Bench) -> F) {
    once(false, Capabilities::all(), test);
}

#[test]
fn a_wrong_publish_context_does_not_mislead_the_node() {
    in_simulation(async |b| {
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

/// The trace has each false answer together with the true one, and the next answer is true.
#[test]
fn an_answer_can_be_false_once() {
    in_simulation(async |b| {
        let lies = |op: &str, effect: Effect| fault(&b, Plane::Csi, op, first(), effect);
        let (one, two) = (b.volume("one", 1).await, b.volume("two", 1).await);
        b.attach(&two).await;
        let listed = async || {
            let list = b.controller().list_volumes(ListVolumesRequest::default()).await.unwrap().into_inner();
            let ids = list.entries.into_iter().map(|entry| entry.volume.unwrap().volume_id);
            ids.collect::<Vec<_>>()
        };
        let both = listed().await;
        assert_eq!(both.len(), 2);
        lies("ListVolumes", Effect::OmitEntry(true));
        assert_eq!(listed().await, [one.as_str()], "the published volume is left out");
        lies("ListVolumes", Effect::RepeatEntry(true));
        assert_eq!(listed().await.iter().filter(|id| **id == two).count(), 2);
        assert_eq!(listed().await, both);

        let snapshot = CreateSnapshotRequest { source_volume_id: one.clone(), name: "s".into(), ..Default::default() };
        b.controller().create_snapshot(snapshot).await.unwrap();
        let snapshots = async || {
            let list = b.controller().list_snapshots(ListSnapshotsRequest::default()).await.unwrap().into_inner();
            list.entries.len()
        };
        lies("ListSnapshots", Effect::OmitEntry(true));
        assert_eq!(snapshots().await, 0);
        lies("ListSnapshots", Effect::RepeatEntry(true));
        assert_eq!(snapshots().await, 2);
        assert_eq!(snapshots().await, 1);

        lies("ControllerPublishVolume", Effect::NoContext(true));
        assert!(b.attach(&two).await.is_empty());
        assert!(b.attach(&two).await.contains_key("devicePath"));

        let info = async || b.node().node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner();
        let right = info().await;
        lies("NodeGetInfo", Effect::WrongNode(true));
        let wrong = info().await;
        assert!(wrong.node_id != right.node_id && wrong.accessible_topology == right.accessible_topology);
        lies("NodeGetInfo", Effect::WrongZone(true));
        let wrong = info().await;
        assert!(wrong.node_id == right.node_id && wrong.accessible_topology != right.accessible_topology);
        assert_eq!(info().await, right);

        let grown = async || {
            let capacity_range = Some(CapacityRange { required_bytes: 1 << 30, limit_bytes: 0 });
            let volume_id = one.clone();
            let request = ControllerExpandVolumeRequest { volume_id, capacity_range, ..Default::default() };
            b.controller().controller_expand_volume(request).await.unwrap().into_inner().capacity_bytes
        };
        for (how, bytes) in [("less", 1 << 29), ("more", 1 << 31), ("unknown", 0)] {
            lies("ControllerExpandVolume", Effect::WrongCapacity(how.into()));
            assert_eq!(grown().await, bytes, "{how}");
        }
        assert_eq!(grown().await, 1 << 30);

        let events = b.world.trace().events();
        let reported: Vec<&CsiFalsified> = events.iter().filter_map(|event| event.get()).collect();
        assert_eq!(reported.len(), 10, "each is reported once: {reported:?}");
        assert!(reported.iter().all(|reported| reported.said != reported.truth));
    });
}

/// A false answer is refused for a call whose answer has no such content.
#[test]
fn a_false_answer_needs_an_answer_with_that_content() {
    in_simulation(async |b| {
        let refused = |op: &str, effect: Effect| {
            let matches = Match { plane: Plane::Csi, op: Some(op.into()), attributes: Default::default() };
            let (name, when, at, lease) = ("f".to_owned(), first(), Moment::Before, Lease::default());
            let fault = Fault { name, matches, when, effect, at, lease };
            b.world.faults().add(b.world.clock().mono(), fault).unwrap_err().to_string()
        };
        for (op, effect) in [
            ("NodeStageVolume", Effect::OmitEntry(true)),
            ("CreateSnapshot", Effect::RepeatEntry(true)),
            ("NodePublishVolume", Effect::NoContext(true)),
            ("DeleteVolume", Effect::WrongCapacity("less".into())),
            ("ListVolumes", Effect::WrongNode(true)),
            ("ControllerPublishVolume", Effect::WrongZone(true)),
        ] {
            let word = effect.name();
            let message = refused(op, effect);
            assert!(message.contains(word), "{op}: {message}");
        }
        let message = refused("CreateVolume", Effect::WrongCapacity("half".into()));
        assert!(message.contains("less") && message.contains("unknown"), "{message}");
    });
}

#[test]
fn a_storm_of_aborted_ends_when_it_ends() {
    in_simulation(async |b| {
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
    in_simulation(async |b| {
        let volume = b.published("v").await;
        let faulty = csi_disk::faulty(&b.ctx, b.disk.clone());
        let file = Path::new("/pods/p/mount/f");
        fault(&b, Plane::Disk, "append", first(), Effect::IoError("ENOSPC".into()));
        let full = faulty.append(file, b"x").await.unwrap_err();
        assert!(full.to_string().contains("space") || full.to_string().contains("28"), "{full}");

        fault(&b, Plane::Disk, "append", first(), Effect::TornWrite(true));
        assert!(faulty.append(file, b"0123456789").await.unwrap_err().is_eio());
        assert_eq!(faulty.read(file).await.unwrap().unwrap(), b"01234", "half of it");

        fault(&b, Plane::Disk, "sync", first(), Effect::LoseUnsynced(true));
        faulty.sync(file).await.unwrap();
        assert_eq!(b.disks.durable(&volume, "f"), None, "the disk reported that it was durable");
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
fn disk_effects_before_an_error_are_recorded() {
    in_simulation(async |b| {
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
        let reported: Vec<_> = b.world.trace().events().iter().map(|event| event.kind()).collect();
        // The mount that was made despite the first error was taken down.
        for (name, times) in [("disk.staged", 2), ("disk.published", 1), ("disk.unpublished", 1), ("disk.unstaged", 2)]
        {
            assert_eq!(reported.iter().filter(|reported| **reported == name).count(), times, "{name}: {reported:?}");
        }
    });
}

#[test]
fn the_device_of_another_volume_is_not_taken_for_ours() {
    in_simulation(async |b| {
        let (ours, other) = (b.volume("ours", 1).await, b.volume("other", 1).await);
        b.attach(&ours).await;
        b.attach(&other).await;
        b.stage(&ours).await;
        let faulty = csi_disk::faulty(&b.ctx, b.disk.clone());
        fault(&b, Plane::Disk, "find", first(), Effect::WrongDevice(true));
        let found = faulty.find(&ours).await.unwrap_err();
        assert!(matches!(found, csi_disk::DiskError::NotOurs { .. }), "{found}");
        assert_eq!(faulty.find(&ours).await.unwrap().unwrap().volume, ours);
    });
}

#[test]
fn statistics_of_a_path_that_went_and_came_back_meanwhile_are_not_found() {
    in_simulation(async |b| {
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
