//! Volumes and shares that two nodes have at the same time.

use super::*;

#[test]
fn two_readings_of_one_volume_through_two_nodes_are_the_corruption_that_unsafe_mode_shows() {
    live("unsafe", async |bench| {
        // The kernel allows it; the cloud prevents it, unless a switch says otherwise.
        let (a, b) = (bench.node("a"), bench.node("b"));
        let plug = bench.volume(VOLUME);
        for disk in [&a, &b] {
            disk.plug(&plug).await.unwrap();
            disk.stage(&stage(disk, VOLUME, false)).await.unwrap();
        }
        let (of_a, of_b) = (at(&a, "staging/globalmount/of-a"), at(&b, "staging/globalmount/of-b"));
        a.append(&of_a, b"a").await.unwrap();
        b.append(&of_b, b"b").await.unwrap();
        for (disk, file) in [(&a, &of_a), (&b, &of_b)] {
            disk.sync(file).await.unwrap();
            disk.unstage(VOLUME, &at(disk, "staging/globalmount")).await.unwrap();
            disk.unplug(VOLUME, false).await.unwrap();
        }
        let c = bench.node("c");
        c.plug(&plug).await.unwrap();
        let both = match c.stage(&stage(&c, VOLUME, false)).await {
            Err(_) => false,
            Ok(_) => {
                let names = c.list_dir(&at(&c, "staging/globalmount")).await.unwrap().unwrap_or_default();
                ["of-a", "of-b"].iter().all(|n| names.contains(&(*n).to_owned()))
            }
        };
        assert!(!both, "what one of the two wrote is gone");
        c.crash().await.unwrap();
        assert!(bench.loops().is_empty());
    });
}

#[test]
fn two_nodes_share_a_directory_and_a_crash_of_one_leaves_the_other_alone() {
    live("share", async |bench| {
        let disks = [bench.node("a"), bench.node("b")];
        let share = |disk: &LoopDisk, readonly: bool| Share {
            volume: "fs-01234567::fsap-01234567".to_owned(),
            file_system: "fs-01234567".to_owned(),
            directory: "/a".to_owned(),
            path: disk.0.root.path().join("pods/p/mount"),
            mount_flags: vec!["noatime".to_owned()],
            readonly,
        };
        for (disk, readonly) in disks.iter().zip([false, true]) {
            let share = share(disk, readonly);
            disk.make_dir(share.path.parent().unwrap()).await.unwrap();
            assert!(!disk.mount_share(&share).await.unwrap().already);
            assert!(disk.mount_share(&share).await.unwrap().already);
            let mounts = disk.mounts().await.unwrap();
            assert_eq!((mounts.len(), mounts[0].kind, mounts[0].readonly), (1, MountKind::Share, readonly));
        }
        let [a, b] = &disks;
        let file = |disk: &LoopDisk| share(disk, false).path.join("f");
        a.append(&file(a), b"record").await.unwrap();
        assert_eq!(b.read(&file(b)).await.unwrap().as_deref(), Some(&b"record"[..]));
        assert!(b.append(&file(b), b"x").await.is_err(), "it is mounted read-only");
        let (lock, held) = (a.lock(&file(a)).await.unwrap(), file(b));
        let waits = tokio::time::timeout(std::time::Duration::from_millis(50), b.lock(&held));
        assert!(waits.await.is_err(), "the other node holds the lock");
        drop(lock);
        a.crash().await.unwrap();
        assert!(disk_is_empty(&bench.node("a")).await);
        // The file system of this machine continues to work.
        assert_eq!(b.read(&file(b)).await.unwrap().as_deref(), Some(&b"record"[..]));
        let shared = share(b, true);
        assert!(b.unpublish(&shared.volume, &shared.path).await.unwrap());
        assert!(!b.unpublish(&shared.volume, &shared.path).await.unwrap());
        assert!(disk_is_empty(b).await);
    });
}

async fn disk_is_empty(disk: &LoopDisk) -> bool {
    disk.mounts().await.unwrap().is_empty()
}
