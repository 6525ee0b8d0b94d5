//! A cloud whose process was down when a detach became due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mock_ec2::LatencyProfile::Aws;
use mock_ec2::{Config, VolumeBytes};
use rstest::rstest;

use crate::common::{config, play};

/// Storage that keeps no bytes, and reports every volume as mounted or not.
#[derive(Clone, Debug, Default)]
struct Mounted(Arc<AtomicBool>);

impl VolumeBytes for Mounted {
    fn snapshot(&self, _: &str, _: &str) {}

    fn restore(&self, _: &str, _: &str, _: u64) {}

    fn grow(&self, _: &str, _: u64) {}

    fn remove(&self, _: &str) {}

    fn is_held(&self, _: &str) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[rstest]
#[case(false, "", "available")]
#[case(true, "busy", "in-use")]
fn a_device_that_was_mounted_after_its_detach_had_begun_stays(
    #[case] mounted: bool,
    #[case] attachment: &str,
    #[case] volume: &str,
) {
    let bytes = Mounted::default();
    let config = Config { bytes: Some(Arc::new(bytes.clone())), ..config(Aws) };
    play(1, config, |mut cloud| async move {
        let id = cloud.volume().await;
        cloud.attach(&id, &cloud.instance("node-a"), "/dev/sdf").await;
        cloud.sleep(30_000).await;
        cloud.detach(&id).await;
        bytes.0.store(mounted, Ordering::Relaxed);
        cloud.process.crash();
        cloud.sleep(120_000).await;
        cloud.process.restart();
        cloud.service = cloud.ec2.start(&cloud.process.ctx().unwrap());
        // The detach has ended, or not, before the first request.
        let dump = cloud.ec2.dump();
        let there = dump["volumes"].as_array().unwrap().iter().find(|v| v["id"] == *id).unwrap();
        assert_eq!(there["state"], volume, "{there}");
        assert_eq!(cloud.attachment_status(&id).await, attachment);
        bytes.0.store(false, Ordering::Relaxed);
        cloud.sleep(30_000).await;
        assert_eq!(cloud.volume_status(&id).await, "available");
    });
}
