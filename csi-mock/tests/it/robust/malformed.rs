//! Every malformed request is INVALID_ARGUMENT with the field named; paths that lead out of the root are refused.

use std::collections::BTreeMap;

use csi_mock::capabilities::Capabilities;
use csi_proto::Channel;
use csi_proto::csi::snapshot_metadata_client::SnapshotMetadataClient;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::csi::*;
use tonic::{Code, Status};

use crate::bench::*;

fn big() -> BTreeMap<String, String> {
    [("key".to_owned(), "v".repeat(5000))].into()
}

fn long() -> String {
    "x".repeat(129)
}

fn mount(mount: MountVolume) -> Option<VolumeCapability> {
    let mode = AccessMode { mode: Mode::SingleNodeWriter.into() };
    Some(VolumeCapability { access_mode: Some(mode), access_type: Some(AccessType::Mount(mount)) })
}

/// RPC, invalid field, and the answer.
#[derive(Default)]
struct Asked(Vec<(&'static str, &'static str, Option<Status>)>);

impl Asked {
    fn note<T>(&mut self, rpc: &'static str, field: &'static str, answer: Result<T, Status>) {
        self.0.push((rpc, field, answer.err()));
    }

    fn check(self) {
        for (rpc, field, answer) in self.0 {
            let status = answer.unwrap_or_else(|| panic!("{rpc} with a wrong {field} is refused"));
            assert_eq!(status.code(), Code::InvalidArgument, "{rpc} {field}: {status:?}");
            assert!(status.message().contains(field), "{rpc} {field}: {}", status.message());
            assert!(status.details().is_empty());
        }
    }
}

const ID: &str = "vol-0123456789abcdef0";

#[test]
fn controller_requests() {
    once(false, Capabilities::all(), async |b| {
        let (mut c, mut asked) = (b.controller(), Asked::default());
        let create = || b.create("v", 1);
        let range = |required_bytes, limit_bytes| Some(CapacityRange { required_bytes, limit_bytes });
        let caps = |m| vec![mount(m).unwrap()];
        let flags = |flag: &str| MountVolume { mount_flags: vec![flag.into()], ..Default::default() };
        for (field, request) in [
            ("name", CreateVolumeRequest { name: String::new(), ..create() }),
            ("name", CreateVolumeRequest { name: long(), ..create() }),
            ("name", CreateVolumeRequest { name: "a\u{1}".into(), ..create() }),
            ("volume_capabilities", CreateVolumeRequest { volume_capabilities: Vec::new(), ..create() }),
            ("access_mode", CreateVolumeRequest { volume_capabilities: vec![VolumeCapability::default()], ..create() }),
            (
                "fs_type",
                CreateVolumeRequest {
                    volume_capabilities: caps(MountVolume { fs_type: "ntfs".into(), ..Default::default() }),
                    ..create()
                },
            ),
            ("mount_flags", CreateVolumeRequest { volume_capabilities: caps(flags("ro,noatime")), ..create() }),
            ("mount_flags", CreateVolumeRequest { volume_capabilities: caps(flags("")), ..create() }),
            ("capacity_range", CreateVolumeRequest { capacity_range: range(-1, 0), ..create() }),
            ("capacity_range", CreateVolumeRequest { capacity_range: range(2, 1), ..create() }),
            ("capacity_range", CreateVolumeRequest { capacity_range: range(0, 0), ..create() }),
            ("parameters", CreateVolumeRequest { parameters: big(), ..create() }),
            ("mutable_parameters", CreateVolumeRequest { mutable_parameters: big(), ..create() }),
            (
                "volume_content_source",
                CreateVolumeRequest { volume_content_source: Some(VolumeContentSource::default()), ..create() },
            ),
        ] {
            asked.note("CreateVolume", field, c.create_volume(request).await);
        }
        asked.note("DeleteVolume", "volume_id", c.delete_volume(DeleteVolumeRequest::default()).await);
        let request = DeleteVolumeRequest { volume_id: long(), ..Default::default() };
        asked.note("DeleteVolume", "volume_id", c.delete_volume(request).await);
        let publish = || b.publish_request(ID);
        for (field, request) in [
            ("volume_id", ControllerPublishVolumeRequest { volume_id: String::new(), ..publish() }),
            ("node_id", ControllerPublishVolumeRequest { node_id: String::new(), ..publish() }),
            ("node_id", ControllerPublishVolumeRequest { node_id: "x".repeat(257), ..publish() }),
            ("volume_capability", ControllerPublishVolumeRequest { volume_capability: None, ..publish() }),
            ("volume_context", ControllerPublishVolumeRequest { volume_context: big(), ..publish() }),
        ] {
            asked.note("ControllerPublishVolume", field, c.controller_publish_volume(request).await);
        }
        let request =
            ControllerUnpublishVolumeRequest { volume_id: ID.into(), node_id: "x".repeat(257), ..Default::default() };
        asked.note("ControllerUnpublishVolume", "node_id", c.controller_unpublish_volume(request).await);
        let request = ListVolumesRequest { max_entries: -1, ..Default::default() };
        asked.note("ListVolumes", "max_entries", c.list_volumes(request).await);
        let request = ListSnapshotsRequest { max_entries: -1, ..Default::default() };
        asked.note("ListSnapshots", "max_entries", c.list_snapshots(request).await);
        let request = GetCapacityRequest { parameters: [("colour".into(), "red".into())].into(), ..Default::default() };
        asked.note("GetCapacity", "parameter key colour", c.get_capacity(request).await);
        let request = CreateSnapshotRequest { parameters: big(), ..snapshot_request("s", ID) };
        asked.note("CreateSnapshot", "parameters", c.create_snapshot(request).await);
        asked.note("CreateSnapshot", "source_volume_id", c.create_snapshot(snapshot_request("s", "")).await);
        asked.note("DeleteSnapshot", "snapshot_id", c.delete_snapshot(DeleteSnapshotRequest::default()).await);
        asked.note("GetSnapshot", "snapshot_id", c.get_snapshot(GetSnapshotRequest::default()).await);
        asked.note(
            "ControllerGetVolume",
            "volume_id",
            c.controller_get_volume(ControllerGetVolumeRequest::default()).await,
        );
        let request =
            ControllerExpandVolumeRequest { volume_id: ID.into(), capacity_range: range(-1, 0), ..Default::default() };
        asked.note("ControllerExpandVolume", "capacity_range", c.controller_expand_volume(request).await);
        let mutable_parameters = [("iops".to_owned(), "many".to_owned())].into();
        let request = ControllerModifyVolumeRequest { volume_id: ID.into(), mutable_parameters, ..Default::default() };
        asked.note("ControllerModifyVolume", "Could not parse IOPS", c.controller_modify_volume(request).await);
        let request = CreateVolumeGroupSnapshotRequest {
            name: "g".into(),
            source_volume_ids: vec![long()],
            ..Default::default()
        };
        asked.note(
            "CreateVolumeGroupSnapshot",
            "source_volume_ids",
            b.group().create_volume_group_snapshot(request).await,
        );
        let request = CreateVolumeGroupSnapshotRequest {
            name: "g".into(),
            source_volume_ids: vec![ID.into(); 129],
            ..Default::default()
        };
        asked.note(
            "CreateVolumeGroupSnapshot",
            "source_volume_ids",
            b.group().create_volume_group_snapshot(request).await,
        );
        let mut m = SnapshotMetadataClient::new(Channel(b.service.clone()));
        let request = GetMetadataAllocatedRequest {
            snapshot_id: "snap-0123456789abcdef0".into(),
            starting_offset: -1,
            ..Default::default()
        };
        asked.note("GetMetadataAllocated", "starting_offset", m.get_metadata_allocated(request).await);
        asked.note(
            "GetMetadataDelta",
            "base_snapshot_id",
            m.get_metadata_delta(GetMetadataDeltaRequest::default()).await,
        );
        asked.check();
    });
}

/// Returns paths that no request may contain.
fn paths() -> [String; 5] {
    ["relative".into(), "/a/../b".into(), "/..".into(), "/a\0b".into(), format!("/{}", "x".repeat(4096))]
}

#[test]
fn node_requests() {
    once(false, Capabilities::all(), async |b| {
        let (mut n, mut asked) = (b.node(), Asked::default());
        for path in paths() {
            let request = NodeStageVolumeRequest { staging_target_path: path.clone(), ..b.stage_request(ID) };
            asked.note("NodeStageVolume", "staging_target_path", n.node_stage_volume(request).await);
            let request = NodeUnstageVolumeRequest { volume_id: ID.into(), staging_target_path: path.clone() };
            asked.note("NodeUnstageVolume", "staging_target_path", n.node_unstage_volume(request).await);
            let request = b.target_request(ID, &path);
            asked.note("NodePublishVolume", "target_path", n.node_publish_volume(request).await);
            let request =
                NodePublishVolumeRequest { staging_target_path: path.clone(), ..b.target_request(ID, TARGET) };
            asked.note("NodePublishVolume", "staging_target_path", n.node_publish_volume(request).await);
            let request = NodeUnpublishVolumeRequest { volume_id: ID.into(), target_path: path.clone() };
            asked.note("NodeUnpublishVolume", "target_path", n.node_unpublish_volume(request).await);
            if path == "relative" {
                // In queries a relative path is NOT_FOUND.
                continue;
            }
            let request =
                NodeGetVolumeStatsRequest { volume_id: ID.into(), volume_path: path.clone(), ..Default::default() };
            asked.note("NodeGetVolumeStats", "volume_path", n.node_get_volume_stats(request).await);
            let request = NodeExpandVolumeRequest { volume_id: ID.into(), volume_path: path, ..Default::default() };
            asked.note("NodeExpandVolume", "volume_path", n.node_expand_volume(request).await);
        }
        let stage = || b.stage_request(ID);
        let group = MountVolume { volume_mount_group: "wheel".into(), ..Default::default() };
        for (field, request) in [
            ("volume_id", NodeStageVolumeRequest { volume_id: long(), ..stage() }),
            ("publish_context", NodeStageVolumeRequest { publish_context: big(), ..stage() }),
            ("volume_context", NodeStageVolumeRequest { volume_context: big(), ..stage() }),
            ("volume_mount_group", NodeStageVolumeRequest { volume_capability: mount(group), ..stage() }),
        ] {
            asked.note("NodeStageVolume", field, n.node_stage_volume(request).await);
        }
        let capacity_range = Some(CapacityRange { required_bytes: 2, limit_bytes: 1 });
        let request = NodeExpandVolumeRequest {
            volume_id: ID.into(),
            volume_path: TARGET.into(),
            capacity_range,
            ..Default::default()
        };
        asked.note("NodeExpandVolume", "capacity_range", n.node_expand_volume(request).await);
        asked.check();
        assert!(b.disk.mounts().await.unwrap().is_empty());
    });
}
