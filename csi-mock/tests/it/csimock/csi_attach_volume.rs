//! Attachment on and off.

use csi_mock::capabilities::{Capabilities, Feature};
use csi_proto::csi::controller_service_capability::{Type, rpc};
use csi_proto::csi::*;
use tonic::Code;

use super::base::driver;
use crate::bench::*;

async fn attaches(b: &Bench) -> bool {
    let reported = b.controller().controller_get_capabilities(ControllerGetCapabilitiesRequest {}).await.unwrap();
    reported.into_inner().capabilities.into_iter().any(|c| {
        let Some(Type::Rpc(rpc)) = c.r#type else { return false };
        rpc.r#type() == rpc::Type::PublishUnpublishVolume
    })
}

#[test]
fn a_driver_without_attachment_says_so_and_refuses_the_calls() {
    once(false, Capabilities::all().without(Feature::PublishUnpublishVolume), async |b| {
        assert!(!attaches(&b).await);
        let volume = b.volume("v", 1).await;
        let asked = b.controller().controller_publish_volume(b.publish_request(&volume)).await;
        assert_eq!(code(asked), Code::Unimplemented);
    });
}

#[test]
fn attachment_that_is_switched_off_in_mid_life_leaves_the_volume_where_it_is() {
    driver(async |b| {
        assert!(attaches(&b).await);
        let volume = b.published("v").await;
        b.settings.offer(b.settings.capabilities().without(Feature::PublishUnpublishVolume));
        assert!(!attaches(&b).await);
        b.publish(&volume).await;
        b.unpublish(&volume).await;
        b.unstage(&volume).await;
        assert!(b.disk.find(&volume).await.unwrap().is_some());
    });
}
