//! DeleteVolume deletes exactly the requested volume, when called once or twice, and before or after other calls.

use super::base::{count, driver};

#[test]
fn a_retained_volume_stays_and_a_deleted_one_goes_once() {
    driver(async |b| {
        let (kept, deleted) = (b.published("kept").await, b.volume("deleted", 1).await);
        b.unpublish(&kept).await;
        b.unstage(&kept).await;
        b.detach(&kept).await;
        b.delete(&deleted).await;
        b.delete(&deleted).await;
        assert_eq!(count(&b, "DeleteVolume").await, 2);
        let left: Vec<_> = b.ec2.dump()["volumes"].as_array().unwrap().iter().map(|v| v["id"].clone()).collect();
        assert!(left.contains(&kept.clone().into()) && !left.contains(&deleted.into()));
        // The policy changes from Retain to Delete.
        b.delete(&kept).await;
        b.clean().await;
    });
}
