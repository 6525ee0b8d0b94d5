//! fsGroup policies: the driver publishes the same volume under each policy.

use csi_mock::capabilities::Feature;
use csi_proto::csi::*;

use super::base::driver;
use super::csi_fsgroup_mount::with_group;
use crate::bench::*;

/// With the policies File and None the orchestrator sends no group; with delegation it does. The policy may change in
/// either direction between two pods.
#[test]
fn a_change_of_policy_between_two_pods_takes_effect_with_the_next() {
    driver(async |b| {
        let volume = b.volume("v", 1).await;
        b.attach(&volume).await;
        let mut owner = None;
        for group in [None, Some(2000), None, Some(3000)] {
            b.settings.offer(match group {
                None => b.settings.capabilities().without(Feature::VolumeMountGroup),
                Some(_) => b.settings.capabilities().with(Feature::VolumeMountGroup),
            });
            let capability = match group {
                None => b.writer(),
                Some(gid) => with_group(&b, &gid.to_string()),
            };
            owner = group.or(owner);
            let request = NodeStageVolumeRequest { volume_capability: capability.clone(), ..b.stage_request(&volume) };
            b.node().node_stage_volume(request).await.unwrap();
            let target = b.target_request(&volume, TARGET);
            let request = NodePublishVolumeRequest { volume_capability: capability, ..target };
            b.node().node_publish_volume(request).await.unwrap();
            assert_eq!(b.disks.group(&volume), owner, "without a group the files stay whose they are");
            b.unpublish(&volume).await;
            b.unstage(&volume).await;
        }
    });
}
