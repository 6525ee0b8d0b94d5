//! The whole life of a volume, once and with every call repeated; and violations of the lifecycle.

use std::path::Path;

use csi_mock::capabilities::{Capabilities, Feature};
use csi_mock::events::CsiViolation;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::*;
use tonic::Code;

use crate::bench::*;

#[test]
fn volume_lifecycle_should_work() {
    case(&[], async |b| {
        let volume = b.published("v").await;
        b.gone(&volume).await;
        b.clean().await;
    });
}

#[test]
fn volume_lifecycle_should_be_idempotent() {
    case(&[], async |b| {
        let volume = b.volume("v", 1).await;
        assert_eq!(b.volume("v", 1).await, volume);
        assert_eq!(b.attach(&volume).await, b.attach(&volume).await);
        for _ in 0..2 {
            b.stage(&volume).await;
        }
        for _ in 0..2 {
            b.publish(&volume).await;
        }
        for _ in 0..2 {
            b.unpublish(&volume).await;
        }
        for _ in 0..2 {
            b.unstage(&volume).await;
        }
        for _ in 0..2 {
            b.detach(&volume).await;
        }
        for _ in 0..2 {
            b.delete(&volume).await;
        }
        b.clean().await;
    });
}

fn rules(b: &Bench) -> Vec<&'static str> {
    let events = b.world.trace().events();
    events.iter().filter_map(|e| e.get::<CsiViolation>()).map(|violation| violation.rule.name()).collect()
}

#[test]
fn calls_out_of_lifecycle_order_are_refused_and_recorded() {
    case(&[], async |b| {
        let volume = b.volume("v", 1).await;
        assert_eq!(code(b.node().node_stage_volume(b.stage_request(&volume)).await), Code::NotFound);
        assert_eq!(rules(&b), ["stage-without-attach"]);
        b.attach(&volume).await;
        let early = b.node().node_publish_volume(b.target_request(&volume, TARGET)).await;
        if !b.block {
            // A raw device is staged as soon as it exists.
            assert_eq!(code(early), Code::FailedPrecondition);
            assert_eq!(rules(&b)[1..], ["publish-before-stage"]);
        }
        b.stage(&volume).await;
        b.publish(&volume).await;
        let before = rules(&b).len();
        let unstage = NodeUnstageVolumeRequest { volume_id: volume.clone(), staging_target_path: STAGING.into() };
        assert_eq!(code(b.node().node_unstage_volume(unstage).await), Code::FailedPrecondition);
        let elsewhere = ControllerPublishVolumeRequest { node_id: b.nodes[1].clone(), ..b.publish_request(&volume) };
        let status = b.controller().controller_publish_volume(elsewhere).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains(&b.node_id()), "it names the node: {}", status.message());
        let delete = DeleteVolumeRequest { volume_id: volume.clone(), ..Default::default() };
        assert_eq!(code(b.controller().delete_volume(delete).await), Code::FailedPrecondition);
        assert_eq!(
            rules(&b)[before..],
            ["unstage-while-published", "publish-to-second-node", "delete-while-published"]
        );
        b.gone(&volume).await;
        b.clean().await;
    });
}

#[test]
fn a_volume_for_several_nodes_is_raw_and_io2() {
    once(true, Capabilities::all(), async |b| {
        let many = vec![b.capability(Mode::MultiNodeMultiWriter)];
        let request = CreateVolumeRequest { volume_capabilities: many.clone(), ..b.create("v", 4) };
        assert_eq!(code(b.controller().create_volume(request.clone()).await), Code::InvalidArgument, "gp3");
        let parameters = [("type".into(), "io2".into()), ("iops".into(), "400".into())].into();
        let request = CreateVolumeRequest { parameters, ..request };
        let volume = b.controller().create_volume(request).await.unwrap().into_inner().volume.unwrap().volume_id;
        for node in &b.nodes[..2] {
            let request = ControllerPublishVolumeRequest {
                node_id: node.clone(),
                volume_capability: many.first().cloned(),
                ..b.publish_request(&volume)
            };
            b.controller().controller_publish_volume(request).await.unwrap();
        }
        let everywhere = ControllerUnpublishVolumeRequest { volume_id: volume.clone(), ..Default::default() };
        b.controller().controller_unpublish_volume(everywhere).await.unwrap();
        b.delete(&volume).await;
    });
    once(false, Capabilities::all(), async |b| {
        let many = vec![b.capability(Mode::MultiNodeMultiWriter)];
        let request = CreateVolumeRequest { volume_capabilities: many, ..b.create("v", 4) };
        assert_eq!(code(b.controller().create_volume(request).await), Code::InvalidArgument, "a filesystem");
    });
}

#[test]
fn without_staging_the_volume_is_mounted_at_its_target() {
    let offered = Capabilities::minimal().without(Feature::StageUnstageVolume);
    for block in [false, true] {
        once(block, offered.clone(), async |b| {
            let volume = b.volume("v", 1).await;
            b.attach(&volume).await;
            b.ctx.sleep(std::time::Duration::from_secs(1)).await;
            assert_eq!(code(b.node().node_stage_volume(b.stage_request(&volume)).await), Code::Unimplemented);
            let request =
                NodePublishVolumeRequest { staging_target_path: String::new(), ..b.target_request(&volume, TARGET) };
            for _ in 0..2 {
                b.node().node_publish_volume(request.clone()).await.unwrap();
            }
            assert_eq!(b.disk.mounts().await.unwrap()[0].path, Path::new(TARGET));
            b.unpublish(&volume).await;
            b.unpublish(&volume).await;
            b.detach(&volume).await;
            b.clean().await;
        });
    }
}
