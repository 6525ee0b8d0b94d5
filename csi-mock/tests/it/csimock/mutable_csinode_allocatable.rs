//! The limit changes while the driver runs.

use csi_proto::csi::NodeGetInfoRequest;
use substrate::fault::{Effect, Moment};
use tonic::Code;

use super::base::{driver, hook};
use crate::bench::*;

#[test]
fn the_next_node_get_info_returns_the_new_limit() {
    driver(async |b| {
        let limit =
            async || b.node().node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner().max_volumes_per_node;
        assert_eq!(limit().await, 3);
        b.settings.set_attach_limit(Some(1));
        assert_eq!(limit().await, 1);
        b.settings.set_attach_limit(None);
        assert_eq!(limit().await, 3);
    });
}

#[test]
fn a_full_node_answers_resource_exhausted() {
    driver(async |b| {
        let volume = b.volume("v", 1).await;
        hook(&b, "ControllerPublishVolume", Moment::Before, Effect::Grpc("RESOURCE_EXHAUSTED".into()));
        let asked = b.controller().controller_publish_volume(b.publish_request(&volume)).await;
        assert_eq!(code(asked), Code::ResourceExhausted);
    });
}
