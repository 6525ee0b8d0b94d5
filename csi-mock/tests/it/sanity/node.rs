//! Node Service: 24 cases.

use std::path::Path;

use csi_mock::capabilities::{Capabilities, Feature};
use csi_proto::csi::node_service_capability::{Type, rpc};
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessType, MountVolume};
use csi_proto::csi::*;
use tonic::Code;

use crate::bench::*;

const UNKNOWN: &str = "vol-0ffffffffffffffff";

#[test]
fn node_get_capabilities_should_return_appropriate_capabilities() {
    case(&[], async |b| {
        let reported = b.node().node_get_capabilities(NodeGetCapabilitiesRequest {}).await.unwrap().into_inner();
        assert!(!reported.capabilities.is_empty());
        for capability in reported.capabilities {
            let Type::Rpc(rpc) = capability.r#type.unwrap();
            assert_ne!(rpc.r#type(), rpc::Type::Unknown);
        }
    });
}

#[test]
fn node_get_info_should_return_appropriate_values() {
    case(&[], async |b| {
        let reported = b.node().node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner();
        assert_eq!((reported.node_id, reported.max_volumes_per_node), (b.node_id(), 3));
        assert!(reported.accessible_topology.is_some());
        b.settings.set_attach_limit(Some(7));
        let reported = b.node().node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner();
        assert_eq!(reported.max_volumes_per_node, 7, "the limit changes while the driver runs");
    });
}

mod node_publish_volume {
    use super::*;

    async fn refused(b: &Bench, request: NodePublishVolumeRequest) -> Code {
        code(b.node().node_publish_volume(request).await)
    }

    #[test]
    fn should_fail_when_no_volume_id_is_provided() {
        case(&[], async |b| assert_eq!(refused(&b, b.target_request("", TARGET)).await, Code::InvalidArgument));
    }

    #[test]
    fn should_fail_when_no_target_path_is_provided() {
        case(&[], async |b| assert_eq!(refused(&b, b.target_request(UNKNOWN, "")).await, Code::InvalidArgument));
    }

    #[test]
    fn should_fail_when_no_volume_capability_is_provided() {
        case(&[], async |b| {
            let request = NodePublishVolumeRequest { volume_capability: None, ..b.target_request(UNKNOWN, TARGET) };
            assert_eq!(refused(&b, request).await, Code::InvalidArgument);
        });
    }

    #[test]
    fn should_fail_when_the_volume_is_published_at_a_second_target_with_single_node_single_writer() {
        case(&[Feature::NodeSingleNodeMultiWriter], async |b| {
            let mode = |mode: Mode| Some(b.capability(mode));
            let volume = b.volume("v", 1).await;
            b.attach(&volume).await;
            let stage = NodeStageVolumeRequest {
                volume_capability: mode(Mode::SingleNodeSingleWriter),
                ..b.stage_request(&volume)
            };
            b.node().node_stage_volume(stage).await.unwrap();
            let publish = |target: &str, mode: Option<VolumeCapability>| NodePublishVolumeRequest {
                volume_capability: mode,
                ..b.target_request(&volume, target)
            };
            let single = || mode(Mode::SingleNodeSingleWriter);
            assert_eq!(refused(&b, publish(TARGET, single())).await, Code::Ok);
            assert_eq!(refused(&b, publish("/pods/q/mount", single())).await, Code::FailedPrecondition);
            let multi = || mode(Mode::SingleNodeMultiWriter);
            assert_eq!(refused(&b, publish("/pods/q/mount", multi())).await, Code::Ok);
        });
    }
}

mod node_unpublish_volume {
    use super::*;

    async fn refused(b: &Bench, volume: &str, target: &str) -> Code {
        let request = NodeUnpublishVolumeRequest { volume_id: volume.into(), target_path: target.into() };
        code(b.node().node_unpublish_volume(request).await)
    }

    #[test]
    fn should_fail_when_no_volume_id_is_provided() {
        case(&[], async |b| assert_eq!(refused(&b, "", TARGET).await, Code::InvalidArgument));
    }

    #[test]
    fn should_fail_when_no_target_path_is_provided() {
        case(&[], async |b| assert_eq!(refused(&b, UNKNOWN, "").await, Code::InvalidArgument));
    }

    #[test]
    fn should_remove_target_path() {
        case(&[], async |b| {
            let volume = b.published("v").await;
            let there = b.disk.list_dir(Path::new("/pods/p")).await.unwrap();
            assert!(b.block || there == Some(vec!["mount".to_owned()]));
            b.unpublish(&volume).await;
            assert_eq!(b.disk.list_dir(Path::new("/pods/p")).await.unwrap(), Some(vec![]));
        });
    }
}

mod node_stage_volume {
    use super::*;

    async fn refused(b: &Bench, request: NodeStageVolumeRequest) -> Code {
        code(b.node().node_stage_volume(request).await)
    }

    #[test]
    fn should_fail_when_no_volume_id_is_provided() {
        case(&[], async |b| assert_eq!(refused(&b, b.stage_request("")).await, Code::InvalidArgument));
    }

    #[test]
    fn should_fail_when_no_staging_target_path_is_provided() {
        case(&[], async |b| {
            let request = NodeStageVolumeRequest { staging_target_path: String::new(), ..b.stage_request(UNKNOWN) };
            assert_eq!(refused(&b, request).await, Code::InvalidArgument);
        });
    }

    #[test]
    fn should_fail_when_no_volume_capability_is_provided() {
        case(&[], async |b| {
            let request = NodeStageVolumeRequest { volume_capability: None, ..b.stage_request(UNKNOWN) };
            assert_eq!(refused(&b, request).await, Code::InvalidArgument);
        });
    }

    #[test]
    fn the_same_path_with_another_capability_exists() {
        case(&[], async |b| {
            let volume = b.volume("v", 1).await;
            b.attach(&volume).await;
            b.stage(&volume).await;
            let other = Some(b.capability(Mode::SingleNodeReaderOnly));
            let request = NodeStageVolumeRequest { volume_capability: other, ..b.stage_request(&volume) };
            assert_eq!(refused(&b, request).await, Code::AlreadyExists);
        });
    }
}

mod node_unstage_volume {
    use super::*;

    async fn refused(b: &Bench, volume: &str, path: &str) -> Code {
        let request = NodeUnstageVolumeRequest { volume_id: volume.into(), staging_target_path: path.into() };
        code(b.node().node_unstage_volume(request).await)
    }

    #[test]
    fn should_fail_when_no_volume_id_is_provided() {
        case(&[], async |b| assert_eq!(refused(&b, "", STAGING).await, Code::InvalidArgument));
    }

    #[test]
    fn should_fail_when_no_staging_target_path_is_provided() {
        case(&[], async |b| {
            assert_eq!(refused(&b, UNKNOWN, "").await, Code::InvalidArgument);
            assert_eq!(refused(&b, UNKNOWN, STAGING).await, Code::Ok, "what is not staged is unstaged");
        });
    }
}

mod node_get_volume_stats {
    use super::*;

    const NEEDS: [Feature; 1] = [Feature::GetVolumeStats];

    async fn stats(b: &Bench, volume: &str, path: &str) -> Result<NodeGetVolumeStatsResponse, tonic::Status> {
        let request =
            NodeGetVolumeStatsRequest { volume_id: volume.into(), volume_path: path.into(), ..Default::default() };
        b.node().node_get_volume_stats(request).await.map(tonic::Response::into_inner)
    }

    #[test]
    fn should_fail_when_no_volume_id_is_provided() {
        case(&NEEDS, async |b| assert_eq!(code(stats(&b, "", TARGET).await), Code::InvalidArgument));
    }

    #[test]
    fn should_fail_when_no_volume_path_is_provided() {
        case(&NEEDS, async |b| assert_eq!(code(stats(&b, UNKNOWN, "").await), Code::InvalidArgument));
    }

    #[test]
    fn should_fail_when_volume_is_not_found() {
        case(&NEEDS, async |b| {
            for path in [TARGET, "some/path"] {
                assert_eq!(code(stats(&b, UNKNOWN, path).await), Code::NotFound, "{path}");
            }
        });
    }

    #[test]
    fn should_fail_when_volume_does_not_exist_on_the_specified_path() {
        case(&NEEDS, async |b| {
            let volume = b.published("v").await;
            for path in ["/some/path", "some/path"] {
                assert_eq!(code(stats(&b, &volume, path).await), Code::NotFound, "{path}");
            }
            let reported = stats(&b, &volume, TARGET).await.unwrap();
            assert_eq!(reported.usage[0].total, GIB);
            assert_eq!(reported.usage.len(), if b.block { 1 } else { 2 }, "of a raw device there are no inodes");
            assert!(!reported.volume_condition.unwrap().abnormal);
            // The device is pulled from under the mount.
            b.disk.unplug(&volume, true).await.unwrap();
            assert!(stats(&b, &volume, TARGET).await.unwrap().volume_condition.unwrap().abnormal);
            b.settings.offer(b.settings.capabilities().without(Feature::NodeVolumeCondition));
            assert_eq!(code(stats(&b, &volume, TARGET).await), Code::Internal);
        });
    }
}

mod node_expand_volume {
    use super::*;

    const NEEDS: [Feature; 2] = [Feature::NodeExpandVolume, Feature::ControllerExpandVolume];

    fn request(volume: &str, path: &str, gib: i64) -> NodeExpandVolumeRequest {
        NodeExpandVolumeRequest {
            volume_id: volume.into(),
            volume_path: path.into(),
            capacity_range: Some(CapacityRange { required_bytes: gib * GIB, limit_bytes: 0 }),
            ..Default::default()
        }
    }

    async fn refused(b: &Bench, request: NodeExpandVolumeRequest) -> Code {
        code(b.node().node_expand_volume(request).await)
    }

    #[test]
    fn should_fail_when_no_volume_id_is_provided() {
        case(&NEEDS, async |b| assert_eq!(refused(&b, request("", TARGET, 2)).await, Code::InvalidArgument));
    }

    #[test]
    fn should_fail_when_no_volume_path_is_provided() {
        case(&NEEDS, async |b| assert_eq!(refused(&b, request(UNKNOWN, "", 2)).await, Code::InvalidArgument));
    }

    #[test]
    fn should_fail_when_volume_is_not_found() {
        case(&NEEDS, async |b| {
            for path in [TARGET, "some/path"] {
                assert_eq!(refused(&b, request(UNKNOWN, path, 2)).await, Code::NotFound, "{path}");
            }
        });
    }

    #[test]
    fn should_work_if_node_expand_is_called_after_node_publish() {
        case(&NEEDS, async |b| {
            let volume = b.published("v").await;
            assert_eq!(refused(&b, request(&volume, TARGET, 2)).await, Code::OutOfRange, "the cloud's volume is small");
            let range = Some(CapacityRange { required_bytes: 2 * GIB, limit_bytes: 0 });
            let expand = ControllerExpandVolumeRequest {
                volume_id: volume.clone(),
                capacity_range: range,
                ..Default::default()
            };
            b.controller().controller_expand_volume(expand).await.unwrap();
            for _ in 0..2 {
                let done = b.node().node_expand_volume(request(&volume, TARGET, 2)).await.unwrap().into_inner();
                assert_eq!(done.capacity_bytes, 2 * GIB);
            }
            assert_eq!(b.disk.usage(Path::new(TARGET)).await.unwrap().total_bytes, 2 * GIB as u64);
            b.gone(&volume).await;
        });
    }
}

#[test]
fn should_work() {
    case(&[], async |b| {
        let volume = b.published("v").await;
        let file = if b.block { TARGET.to_owned() } else { format!("{TARGET}/f") };
        b.disk.append(Path::new(&file), b"bytes").await.unwrap();
        b.gone(&volume).await;
        b.clean().await;
    });
}

#[test]
fn should_be_idempotent() {
    case(&[], async |b| {
        let volume = b.volume("v", 1).await;
        b.attach(&volume).await;
        for _ in 0..3 {
            b.stage(&volume).await;
            b.stage(&volume).await;
            b.publish(&volume).await;
            b.publish(&volume).await;
            b.unpublish(&volume).await;
            b.unpublish(&volume).await;
            b.unstage(&volume).await;
            b.unstage(&volume).await;
        }
        b.detach(&volume).await;
        b.clean().await;
    });
}

#[test]
fn a_volume_is_given_to_its_group_only_with_the_capability() {
    once(false, Capabilities::all(), async |b| {
        let volume = b.volume("v", 1).await;
        b.attach(&volume).await;
        let group = |gid: &str| {
            let mount = MountVolume { volume_mount_group: gid.into(), ..Default::default() };
            let access_type = Some(AccessType::Mount(mount));
            Some(VolumeCapability { access_type, ..b.capability(Mode::SingleNodeWriter) })
        };
        let request = |gid: &str| NodeStageVolumeRequest { volume_capability: group(gid), ..b.stage_request(&volume) };
        assert_eq!(code(b.node().node_stage_volume(request("wheel")).await), Code::InvalidArgument);
        b.node().node_stage_volume(request("2000")).await.unwrap();
        assert_eq!(b.disks.group(&volume), Some(2000));
        b.settings.offer(b.settings.capabilities().without(Feature::VolumeMountGroup));
        let status = b.node().node_stage_volume(request("2000")).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("volume_mount_group"), "{}", status.message());
    });
}
