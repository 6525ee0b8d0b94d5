//! A restart on the node leaves mounts alone.

use std::path::Path;

use super::base::driver;

#[test]
fn after_a_restart_the_volume_is_where_it_was_and_can_be_taken_down() {
    driver(async |mut b| {
        let volume = b.published("v").await;
        b.disk.append(Path::new("/pods/p/mount/f"), b"x").await.unwrap();
        let before = b.disk.mounts().await.unwrap();
        b.restart();
        assert_eq!(b.disk.mounts().await.unwrap(), before);
        assert_eq!(b.disk.read(Path::new("/pods/p/mount/f")).await.unwrap(), Some(b"x".to_vec()), "still in use");
        b.stage(&volume).await;
        b.publish(&volume).await;
        b.gone(&volume).await;
        b.clean().await;
    });
}
