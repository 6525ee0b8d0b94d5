//! A driver with VOLUME_MOUNT_GROUP gives the volume to the pod's group.

use csi_mock::capabilities::Feature;
use csi_proto::csi::node_service_capability::{Type, rpc};
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessType, MountVolume};
use csi_proto::csi::*;

use super::base::driver;
use crate::bench::*;

pub fn with_group(b: &Bench, group: &str) -> Option<VolumeCapability> {
    let mount = MountVolume { volume_mount_group: group.into(), ..Default::default() };
    Some(VolumeCapability { access_type: Some(AccessType::Mount(mount)), ..b.capability(Mode::SingleNodeWriter) })
}

pub async fn delegates(b: &Bench) -> bool {
    let reported = b.node().node_get_capabilities(NodeGetCapabilitiesRequest {}).await.unwrap().into_inner();
    reported.capabilities.into_iter().any(|c| {
        let Some(Type::Rpc(rpc)) = c.r#type else { return false };
        rpc.r#type() == rpc::Type::VolumeMountGroup
    })
}

#[test]
fn the_group_arrives_with_staging_and_publishing() {
    driver(async |b| {
        assert!(delegates(&b).await);
        let volume = b.volume("v", 1).await;
        b.attach(&volume).await;
        let request = NodeStageVolumeRequest { volume_capability: with_group(&b, "1234"), ..b.stage_request(&volume) };
        b.node().node_stage_volume(request).await.unwrap();
        let target = b.target_request(&volume, TARGET);
        let request = NodePublishVolumeRequest { volume_capability: with_group(&b, "1234"), ..target };
        b.node().node_publish_volume(request).await.unwrap();
        assert_eq!(b.disks.group(&volume), Some(1234));
    });
}

#[test]
fn a_driver_without_the_capability_leaves_the_group_to_the_orchestrator() {
    driver(async |b| {
        b.settings.offer(b.settings.capabilities().without(Feature::VolumeMountGroup));
        assert!(!delegates(&b).await);
        let volume = b.published("v").await;
        assert_eq!(b.disks.group(&volume), None);
    });
}
