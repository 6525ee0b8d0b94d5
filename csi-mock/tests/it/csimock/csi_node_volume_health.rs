//! Statistics with a normal condition, without one, and with an abnormal one.

use csi_mock::capabilities::Feature;
use csi_proto::csi::*;

use super::base::driver;
use crate::bench::*;

async fn condition(b: &Bench, volume: &str) -> Option<VolumeCondition> {
    let request =
        NodeGetVolumeStatsRequest { volume_id: volume.into(), volume_path: TARGET.into(), ..Default::default() };
    b.node().node_get_volume_stats(request).await.unwrap().into_inner().volume_condition
}

#[test]
fn the_condition_is_reported_only_with_the_capability() {
    driver(async |b| {
        let volume = b.published("v").await;
        assert!(!condition(&b, &volume).await.unwrap().abnormal);
        b.settings.offer(b.settings.capabilities().without(Feature::NodeVolumeCondition));
        assert_eq!(condition(&b, &volume).await, None);
        b.settings.offer(b.settings.capabilities().with(Feature::NodeVolumeCondition));
        b.disk.unplug(&volume, true).await.unwrap();
        let reported = condition(&b, &volume).await.unwrap();
        assert!(reported.abnormal && !reported.message.is_empty());
    });
}
