//! Service account tokens arrive with NodePublishVolume, are renewed by repeats, and are never stored.

use csi_proto::csi::*;

use super::base::driver;
use crate::bench::*;

#[test]
fn a_repeat_with_a_new_token_succeeds_and_no_token_is_recorded() {
    driver(async |b| {
        let volume = b.published("v").await;
        for token in ["hush-1", "hush-2"] {
            let tokens = format!("{{\"audience\":{{\"token\":\"{token}\"}}}}");
            let request = NodePublishVolumeRequest {
                volume_context: [("csi.storage.k8s.io/serviceAccount.tokens".into(), tokens.clone())].into(),
                secrets: [("csi.storage.k8s.io/serviceAccount.tokens".into(), tokens)].into(),
                ..b.target_request(&volume, TARGET)
            };
            b.node().node_publish_volume(request).await.unwrap();
        }
        let trace = serde_json::to_string(&b.world.trace().lines()).unwrap();
        assert!(!trace.contains("hush"));
        let log = format!("{:?}", super::base::calls(&b).await);
        assert!(!log.contains("hush"));
    });
}
