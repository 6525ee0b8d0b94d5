//! Expansion: in the controller, on the node, in only one of them, and failures.

use csi_mock::capabilities::Feature;
use csi_proto::csi::*;
use substrate::fault::{Effect, Moment};
use tonic::Code;

use super::base::{driver, hook};
use crate::bench::*;

fn range(gib: i64) -> Option<CapacityRange> {
    Some(CapacityRange { required_bytes: gib * GIB, limit_bytes: 0 })
}

async fn controller(b: &Bench, volume: &str, gib: i64) -> Result<ControllerExpandVolumeResponse, tonic::Status> {
    let request = ControllerExpandVolumeRequest {
        volume_id: volume.into(),
        capacity_range: range(gib),
        volume_capability: b.writer(),
        secrets: [("password".into(), "hush".into())].into(),
    };
    b.controller().controller_expand_volume(request).await.map(tonic::Response::into_inner)
}

async fn node(b: &Bench, volume: &str, gib: i64) -> Code {
    let request = NodeExpandVolumeRequest {
        volume_id: volume.into(),
        volume_path: TARGET.into(),
        staging_target_path: STAGING.into(),
        capacity_range: range(gib),
        volume_capability: b.writer(),
        secrets: [("password".into(), "hush".into())].into(),
    };
    code(b.node().node_expand_volume(request).await)
}

#[test]
fn a_published_volume_grows_online_and_secrets_are_not_recorded() {
    driver(async |b| {
        let volume = b.published("v").await;
        assert!(controller(&b, &volume, 2).await.unwrap().node_expansion_required);
        assert_eq!(node(&b, &volume, 2).await, Code::Ok);
        let usage = b.disk.usage(std::path::Path::new(TARGET)).await.unwrap();
        assert_eq!(usage.total_bytes, 2 * GIB as u64);
        assert!(!serde_json::to_string(&b.world.trace().lines()).unwrap().contains("hush"));
    });
}

#[test]
fn without_expansion_on_the_node_the_next_staging_grows_the_filesystem() {
    driver(async |b| {
        let volume = b.published("v").await;
        b.settings.offer(b.settings.capabilities().without(Feature::NodeExpandVolume));
        assert!(!controller(&b, &volume, 2).await.unwrap().node_expansion_required);
        b.unpublish(&volume).await;
        b.unstage(&volume).await;
        b.stage(&volume).await;
        b.publish(&volume).await;
        let usage = b.disk.usage(std::path::Path::new(TARGET)).await.unwrap();
        assert_eq!(usage.total_bytes, 2 * GIB as u64);
    });
}

#[test]
fn without_expansion_on_the_controller_the_node_has_what_there_is() {
    driver(async |b| {
        let volume = b.published("v").await;
        b.settings.offer(b.settings.capabilities().without(Feature::ControllerExpandVolume));
        assert_eq!(controller(&b, &volume, 2).await.unwrap_err().code(), Code::Unimplemented);
        assert_eq!(node(&b, &volume, 1).await, Code::Ok);
        assert_eq!(node(&b, &volume, 2).await, Code::OutOfRange);
    });
}

#[test]
fn an_expansion_that_failed_can_be_repeated_made_smaller_or_given_up() {
    driver(async |b| {
        let volume = b.published("v").await;
        // Infeasible: larger than any volume of the type. The size stays.
        assert_eq!(controller(&b, &volume, 100_000).await.unwrap_err().code(), Code::OutOfRange);
        assert_eq!(controller(&b, &volume, 2).await.unwrap().capacity_bytes, 2 * GIB, "the smaller one is feasible");
        hook(&b, "NodeExpandVolume", Moment::Before, Effect::Grpc("INTERNAL".into()));
        assert_eq!(node(&b, &volume, 2).await, Code::Internal);
        assert_eq!(node(&b, &volume, 2).await, Code::Ok);
        // Done, but the reply was lost.
        b.ctx.sleep(std::time::Duration::from_secs(7 * 3600)).await;
        hook(&b, "ControllerExpandVolume", Moment::BeforeReply, Effect::DropReply(true));
        assert_eq!(controller(&b, &volume, 3).await.unwrap_err().code(), Code::Unavailable);
        assert_eq!(controller(&b, &volume, 3).await.unwrap().capacity_bytes, 3 * GIB);
        assert_eq!(node(&b, &volume, 3).await, Code::Ok);
    });
}
