//! A capability that is not offered is UNIMPLEMENTED, and the offer can change while the driver runs.

use csi_mock::capabilities::{Capabilities, Feature};
use csi_proto::Channel;
use csi_proto::csi::snapshot_metadata_client::SnapshotMetadataClient;
use csi_proto::csi::*;
use tonic::Code;

use crate::bench::*;

/// Calls every RPC without arguments; returns true for each that is implemented.
async fn implemented(b: &Bench) -> Vec<(Feature, bool)> {
    let (mut c, mut n, mut g) = (b.controller(), b.node(), b.group());
    let mut m = SnapshotMetadataClient::new(Channel(b.service.clone()));
    let reported = [
        (Feature::CreateDeleteVolume, code(c.create_volume(CreateVolumeRequest::default()).await)),
        (Feature::CreateDeleteVolume, code(c.delete_volume(DeleteVolumeRequest::default()).await)),
        (
            Feature::PublishUnpublishVolume,
            code(c.controller_publish_volume(ControllerPublishVolumeRequest::default()).await),
        ),
        (
            Feature::PublishUnpublishVolume,
            code(c.controller_unpublish_volume(ControllerUnpublishVolumeRequest::default()).await),
        ),
        (
            Feature::ControllerService,
            code(c.validate_volume_capabilities(ValidateVolumeCapabilitiesRequest::default()).await),
        ),
        (Feature::ControllerService, code(c.controller_get_capabilities(ControllerGetCapabilitiesRequest {}).await)),
        (Feature::ListVolumes, code(c.list_volumes(ListVolumesRequest::default()).await)),
        (Feature::GetCapacity, code(c.get_capacity(GetCapacityRequest::default()).await)),
        (Feature::CreateDeleteSnapshot, code(c.create_snapshot(CreateSnapshotRequest::default()).await)),
        (Feature::CreateDeleteSnapshot, code(c.delete_snapshot(DeleteSnapshotRequest::default()).await)),
        (Feature::ListSnapshots, code(c.list_snapshots(ListSnapshotsRequest::default()).await)),
        (Feature::GetSnapshot, code(c.get_snapshot(GetSnapshotRequest::default()).await)),
        (
            Feature::ControllerExpandVolume,
            code(c.controller_expand_volume(ControllerExpandVolumeRequest::default()).await),
        ),
        (Feature::GetVolume, code(c.controller_get_volume(ControllerGetVolumeRequest::default()).await)),
        (Feature::ModifyVolume, code(c.controller_modify_volume(ControllerModifyVolumeRequest::default()).await)),
        (
            Feature::GroupControllerService,
            code(g.group_controller_get_capabilities(GroupControllerGetCapabilitiesRequest {}).await),
        ),
        (
            Feature::CreateDeleteGetVolumeGroupSnapshot,
            code(g.create_volume_group_snapshot(CreateVolumeGroupSnapshotRequest::default()).await),
        ),
        (
            Feature::CreateDeleteGetVolumeGroupSnapshot,
            code(g.delete_volume_group_snapshot(DeleteVolumeGroupSnapshotRequest::default()).await),
        ),
        (
            Feature::CreateDeleteGetVolumeGroupSnapshot,
            code(g.get_volume_group_snapshot(GetVolumeGroupSnapshotRequest::default()).await),
        ),
        (
            Feature::SnapshotMetadataService,
            code(m.get_metadata_allocated(GetMetadataAllocatedRequest::default()).await),
        ),
        (Feature::SnapshotMetadataService, code(m.get_metadata_delta(GetMetadataDeltaRequest::default()).await)),
        (Feature::StageUnstageVolume, code(n.node_stage_volume(NodeStageVolumeRequest::default()).await)),
        (Feature::StageUnstageVolume, code(n.node_unstage_volume(NodeUnstageVolumeRequest::default()).await)),
        (Feature::GetVolumeStats, code(n.node_get_volume_stats(NodeGetVolumeStatsRequest::default()).await)),
        (Feature::NodeExpandVolume, code(n.node_expand_volume(NodeExpandVolumeRequest::default()).await)),
    ];
    for (feature, code) in reported {
        assert!(matches!(code, Code::Ok | Code::InvalidArgument | Code::Unimplemented), "{feature:?} {code:?}");
    }
    reported.map(|(feature, code)| (feature, code != Code::Unimplemented)).to_vec()
}

#[test]
fn every_rpc_is_there_exactly_when_its_capability_is() {
    for offered in [
        Capabilities::all(),
        Capabilities::default(),
        Capabilities::minimal(),
        "none".parse().unwrap(),
        "all,-LIST_VOLUMES,-EXPAND_VOLUME,-GROUP_CONTROLLER_SERVICE".parse().unwrap(),
    ] {
        once(false, offered.clone(), async |b| {
            for (feature, there) in implemented(&b).await {
                assert_eq!(there, offered.has(feature), "{}", feature.name());
            }
        });
    }
}

#[test]
fn capabilities_change_while_the_driver_runs() {
    once(false, Capabilities::default(), async |b| {
        let post = async |json: &str| {
            let request = http::Request::post("/admin/v1/settings")
                .header("content-type", "application/json")
                .body(substrate::body::full(json.to_owned()))
                .unwrap();
            substrate::body::call(b.service.clone(), request).await.unwrap().status().as_u16()
        };
        let list = async || code(b.controller().list_volumes(ListVolumesRequest::default()).await);
        assert_eq!(list().await, Code::Unimplemented);
        assert_eq!(post(r#"{"capabilities": "LIST_VOLUMES", "ready": false, "attachLimit": 2}"#).await, 200);
        assert_eq!(list().await, Code::Ok);
        assert_eq!(b.identity().probe(ProbeRequest {}).await.unwrap().into_inner().ready, Some(false));
        assert_eq!(b.node().node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner().max_volumes_per_node, 2);
        assert_eq!(post(r#"{"capabilities": "NONSENSE"}"#).await, 400);
        assert_eq!(post(r#"{"capabilities": "-LIST_VOLUMES"}"#).await, 200);
        assert_eq!(list().await, Code::Unimplemented);
    });
}

#[test]
fn health_and_metrics_are_served() {
    once(false, Capabilities::all(), async |b| {
        let volume = b.volume("v", 1).await;
        let get = async |path: &str| {
            let request = http::Request::get(path).body(substrate::body::empty()).unwrap();
            let response = substrate::body::call(b.service.clone(), request).await.unwrap();
            let status = response.status().as_u16();
            let body = substrate::body::collect(response.into_body(), 1 << 20).await.unwrap();
            (status, String::from_utf8(body.to_vec()).unwrap())
        };
        assert_eq!(get("/healthz").await.0, 200);
        assert_eq!(
            code(b.node().node_publish_volume(b.target_request(&volume, TARGET)).await),
            Code::FailedPrecondition
        );
        let (_, text) = get("/metrics").await;
        for line in [
            "csi_operations_total{method=\"CreateVolume\",code=\"OK\"} 1",
            "csi_operations_in_flight 0",
            "csi_lifecycle_violations_total{rule=\"publish-before-stage\"} 1",
            "csi_node_mounts 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        let (_, reported) = get("/admin/v1/violations").await;
        assert!(reported.contains("publish-before-stage") && reported.contains(&volume), "{reported}");
    });
}
