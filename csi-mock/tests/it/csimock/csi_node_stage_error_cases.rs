//! Errors of NodeStageVolume and NodeUnstageVolume, final and transient.

use substrate::fault::{Effect, Moment};
use tonic::Code;

use super::base::{driver, hook};
use crate::bench::*;

async fn attached(b: &Bench) -> String {
    let volume = b.volume("v", 1).await;
    b.attach(&volume).await;
    volume
}

async fn stage(b: &Bench, volume: &str) -> Code {
    code(b.node().node_stage_volume(b.stage_request(volume)).await)
}

async fn mounted(b: &Bench) -> bool {
    !b.disk.mounts().await.unwrap().is_empty()
}

#[test]
fn after_success_the_volume_is_unstaged() {
    driver(async |b| {
        let volume = attached(&b).await;
        assert_eq!(stage(&b, &volume).await, Code::Ok);
        b.unstage(&volume).await;
        assert!(!mounted(&b).await);
    });
}

#[test]
fn a_final_error_leaves_nothing_and_a_retry_succeeds() {
    driver(async |b| {
        let volume = attached(&b).await;
        hook(&b, "NodeStageVolume", Moment::Before, Effect::Grpc("INVALID_ARGUMENT".into()));
        assert_eq!(stage(&b, &volume).await, Code::InvalidArgument);
        assert!(!mounted(&b).await, "there is nothing to unstage");
        assert_eq!(stage(&b, &volume).await, Code::Ok);
    });
}

#[test]
fn after_a_transient_error_a_retry_succeeds() {
    driver(async |b| {
        let volume = attached(&b).await;
        hook(&b, "NodeStageVolume", Moment::AfterEffect, Effect::Grpc("DEADLINE_EXCEEDED".into()));
        assert_eq!(stage(&b, &volume).await, Code::DeadlineExceeded);
        assert!(mounted(&b).await, "it may have happened, and here it has");
        assert_eq!(stage(&b, &volume).await, Code::Ok);
    });
}

#[test]
fn after_a_transient_error_and_a_deleted_pod_an_unstage_cleans_up() {
    driver(async |b| {
        let volume = attached(&b).await;
        hook(&b, "NodeStageVolume", Moment::AfterEffect, Effect::Grpc("DEADLINE_EXCEEDED".into()));
        assert_eq!(stage(&b, &volume).await, Code::DeadlineExceeded);
        b.unstage(&volume).await;
        assert!(!mounted(&b).await);
        b.detach(&volume).await;
        b.clean().await;
    });
}

#[test]
fn a_second_pod_stages_after_an_unstage_that_failed_in_either_way() {
    for (at, code_of_it) in [(Moment::Before, "INVALID_ARGUMENT"), (Moment::AfterEffect, "DEADLINE_EXCEEDED")] {
        driver(async |b| {
            let volume = b.published("v").await;
            b.unpublish(&volume).await;
            hook(&b, "NodeUnstageVolume", at, Effect::Grpc(code_of_it.into()));
            let request = csi_proto::csi::NodeUnstageVolumeRequest {
                volume_id: volume.clone(),
                staging_target_path: STAGING.into(),
            };
            b.node().node_unstage_volume(request).await.unwrap_err();
            assert_eq!(stage(&b, &volume).await, Code::Ok, "whether or not it is still staged");
            b.publish(&volume).await;
            b.gone(&volume).await;
            b.clean().await;
        });
    }
}
