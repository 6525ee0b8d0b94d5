//! Pod facts arrive in the volume context; different facts do not make a repeat incompatible.

use csi_proto::csi::*;
use tonic::Code;

use super::base::driver;
use crate::bench::*;

#[test]
fn pod_information_is_taken_and_limited() {
    driver(async |b| {
        let volume = b.published("v").await;
        let context = |value: &str| NodePublishVolumeRequest {
            volume_context: [
                ("csi.storage.k8s.io/pod.name".to_owned(), value.to_owned()),
                ("csi.storage.k8s.io/pod.namespace".to_owned(), "default".to_owned()),
                ("csi.storage.k8s.io/pod.uid".to_owned(), "0".to_owned()),
                ("csi.storage.k8s.io/ephemeral".to_owned(), "false".to_owned()),
            ]
            .into(),
            ..b.target_request(&volume, TARGET)
        };
        assert_eq!(code(b.node().node_publish_volume(context("web-0")).await), Code::Ok);
        assert_eq!(code(b.node().node_publish_volume(context("web-1")).await), Code::Ok);
        let status = b.node().node_publish_volume(context(&"x".repeat(5000))).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().starts_with("volume_context"), "{}", status.message());
    });
}
