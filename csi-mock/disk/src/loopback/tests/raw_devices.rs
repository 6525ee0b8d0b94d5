//! Raw devices: publishing, mapping, pulling, and power loss.

use super::*;

#[test]
fn a_raw_device_is_the_volume_itself_and_its_mount_survives_a_restart() {
    live("block", async |bench| {
        let a = bench.node("a");
        let plug = bench.volume(VOLUME);
        let device = a.plug(&plug).await.unwrap();
        a.make_dir(&at(&a, "pods/p")).await.unwrap();
        let block = |target: &str, readonly| Publish { block: true, ..publish(&a, VOLUME, target, readonly) };
        assert!(!a.publish(&block("pods/p/b", false)).await.unwrap().already);
        assert!(a.publish(&block("pods/p/b", false)).await.unwrap().already);
        let target = at(&a, "pods/p/b");
        let opened = File::options().read(true).write(true).open(&target).unwrap();
        opened.write_all_at(b"raw bytes", 1 << 20).unwrap();
        opened.sync_all().unwrap();
        assert_eq!(std::fs::metadata(&target).unwrap().rdev(), std::fs::metadata(&device.path).unwrap().rdev());
        assert_eq!(a.usage(&target).await.unwrap().total_bytes, 64 * MIB);
        assert_eq!(a.mounts().await.unwrap()[0].kind, MountKind::Block);
        assert!(matches!(a.publish(&block("pods/p/ro", true)).await, Err(DiskError::Busy { .. })));
        assert!(matches!(a.stage(&stage(&a, VOLUME, false)).await, Err(DiskError::Occupied { .. })));
        assert!(matches!(a.unplug(VOLUME, false).await, Err(DiskError::Busy { .. })));
        // Another process of the node sees the same.
        let again = bench.node("a");
        assert_eq!(again.mounts().await.unwrap(), a.mounts().await.unwrap());
        // The device grows with its file while it is open.
        File::options().write(true).open(bench.backing(VOLUME)).unwrap().set_len(128 * MIB).unwrap();
        assert!(a.resize(VOLUME, 128 * MIB).await.unwrap());
        assert_eq!(a.expand(VOLUME, &target).await.unwrap(), 128 * MIB);
        opened.write_all_at(b"far", 100 * MIB).unwrap();
        drop(opened);
        assert!(a.unpublish(VOLUME, &target).await.unwrap());
        assert!(!target.exists() && a.mounts().await.unwrap().is_empty());
        assert!(a.publish(&block("pods/p/ro", true)).await.unwrap().readonly);
        let readonly = File::options().write(true).open(at(&a, "pods/p/ro"));
        assert!(readonly.is_err() || readonly.unwrap().write_all_at(b"x", 0).is_err(), "the device refuses writes");
        assert!(a.unpublish(VOLUME, &at(&a, "pods/p/ro")).await.unwrap());
        assert!(
            matches!(a.stage(&stage(&a, VOLUME, false)).await, Err(DiskError::Corrupt { .. })),
            "data is not a filesystem"
        );
        assert!(a.unplug(VOLUME, false).await.unwrap());
        assert!(bench.loops().is_empty());
        let mut seen = [0; 9];
        File::open(bench.backing(VOLUME)).unwrap().read_exact_at(&mut seen, 1 << 20).unwrap();
        assert_eq!(&seen, b"raw bytes");
    });
}

#[test]
fn bytes_that_a_pod_did_not_sync_survive_the_detach_of_a_raw_device() {
    live("block-cache", async |bench| {
        let a = bench.node("a");
        published_raw(&bench, &a).await;
        let target = at(&a, "pods/p/b");
        let opened = File::options().write(true).open(&target).unwrap();
        opened.write_all_at(b"cached", 0).unwrap();
        drop(opened);
        assert!(a.unpublish(VOLUME, &target).await.unwrap());
        assert!(a.unplug(VOLUME, false).await.unwrap());
        assert_eq!(&std::fs::read(bench.backing(VOLUME)).unwrap()[..6], b"cached");
    });
}

#[test]
fn a_raw_device_that_is_pulled_gives_eio_and_goes_with_its_last_opener() {
    live("pull-block", async |bench| {
        let a = bench.node("a");
        a.plug(&bench.volume(VOLUME)).await.unwrap();
        a.make_dir(&at(&a, "pods/p")).await.unwrap();
        let block = Publish { block: true, ..publish(&a, VOLUME, "pods/p/b", false) };
        a.publish(&block).await.unwrap();
        let opened = File::options().read(true).write(true).open(at(&a, "pods/p/b")).unwrap();
        opened.write_all_at(b"kept", 0).unwrap();
        opened.sync_all().unwrap();
        assert!(a.unplug(VOLUME, true).await.unwrap());
        assert!(opened.write_all_at(b"lost", 0).and_then(|()| opened.sync_all()).is_err());
        assert_eq!(a.find(VOLUME).await.unwrap(), None);
        drop(opened);
        assert!(a.unpublish(VOLUME, &at(&a, "pods/p/b")).await.unwrap());
        assert!(bench.loops().is_empty() && a.mounts().await.unwrap().is_empty());
        assert_eq!(&std::fs::read(bench.backing(VOLUME)).unwrap()[..4], b"kept");
    });
}

fn mapping(disk: &LoopDisk, volume: &str, pod: &str) -> Mapping {
    Mapping {
        volume: volume.into(),
        device: at(disk, "pods/p/b"),
        global: at(disk, &format!("plugins/pv/dev/{pod}")),
        link: at(disk, &format!("pods/{pod}/devices/pv")),
    }
}

async fn published_raw(bench: &Bench, disk: &LoopDisk) {
    disk.plug(&bench.volume(VOLUME)).await.unwrap();
    disk.make_dir(&at(disk, "pods/p")).await.unwrap();
    disk.publish(&Publish { block: true, ..publish(disk, VOLUME, "pods/p/b", false) }).await.unwrap();
}

#[test]
fn a_mapped_raw_device_stays_while_it_is_held_even_when_the_driver_is_gone() {
    live("map", async |bench| {
        let (driver, agent) = (bench.node("a"), bench.node("a"));
        published_raw(&bench, &driver).await;
        let mapping = mapping(&agent, VOLUME, "p");
        let device = agent.map(&mapping).await.unwrap();
        assert_eq!(device.size().await.unwrap(), 64 * MIB);
        device.write_at(MIB, b"raw bytes").await.unwrap();
        device.sync().await.unwrap();
        assert_eq!(device.read_at(64 * MIB - 2, 9).await.unwrap(), [0, 0], "a device ends");
        assert!(matches!(device.write_at(64 * MIB - 1, b"xx").await, Err(DiskError::Io { .. })));
        let kinds: Vec<_> = agent.mounts().await.unwrap().into_iter().map(|m| (m.kind, m.volume)).collect();
        assert_eq!(kinds, [(MountKind::Map, VOLUME.to_owned()), (MountKind::Block, VOLUME.to_owned())]);
        assert_eq!(std::fs::read_link(&mapping.link).unwrap(), mapping.device);
        assert_eq!(
            std::fs::metadata(&mapping.global).unwrap().rdev(),
            std::fs::metadata(&mapping.device).unwrap().rdev()
        );
        // The driver that plugged it dies: with autoclear only an opener keeps the device.
        drop(driver);
        device.write_at(0, b"more").await.unwrap();
        device.sync().await.unwrap();
        assert_eq!(bench.loops().len(), 1);
        // The driver restarts, finds its device, and publishes and unpublishes as before.
        let driver = bench.node("a");
        driver.plug(&bench.volume(VOLUME)).await.unwrap();
        assert_eq!(bench.loops().len(), 1);
        assert!(matches!(driver.unplug(VOLUME, false).await, Err(DiskError::Busy { .. })));
        let again = agent.map(&mapping).await.unwrap();
        assert_eq!(again.read_at(MIB, 9).await.unwrap(), b"raw bytes");
        assert_eq!(agent.mounts().await.unwrap().len(), 2, "a repeat binds nothing");
        assert!(matches!(driver.unpublish(VOLUME, &mapping.global).await, Err(DiskError::Occupied { .. })));
        agent.unmap(&mapping).await.unwrap();
        agent.unmap(&mapping).await.unwrap();
        assert!(again.read_at(0, 1).await.unwrap_err().is_eio(), "an unmapped device is closed for everybody");
        assert!(!mapping.link.exists() && !mapping.global.exists());
        assert!(driver.unpublish(VOLUME, &mapping.device).await.unwrap());
        assert!(driver.unplug(VOLUME, false).await.unwrap());
        assert!(bench.loops().is_empty());
        assert_eq!(&std::fs::read(bench.backing(VOLUME)).unwrap()[..4], b"more");
    });
}

#[test]
fn a_raw_device_that_is_another_now_is_not_touched() {
    live("map-other", async |bench| {
        let a = bench.node("a");
        published_raw(&bench, &a).await;
        let mapping = mapping(&a, VOLUME, "p");
        let device = a.map(&mapping).await.unwrap();
        device.write_at(0, b"kept").await.unwrap();
        device.sync().await.unwrap();
        let node = File::open(a.find(VOLUME).await.unwrap().unwrap().path).unwrap();
        ioctl::set_tag(&node, b"another/owner").unwrap();
        for refused in [
            device.write_at(0, b"lost").await,
            device.sync().await,
            device.read_at(0, 1).await.map(drop),
            device.size().await.map(drop),
            a.map(&mapping).await.map(drop),
        ] {
            assert!(matches!(refused, Err(DiskError::NotOurs { .. })), "{refused:?}");
        }
        ioctl::set_tag(&node, a.0.tag(VOLUME).as_bytes()).unwrap();
        assert_eq!(device.read_at(0, 4).await.unwrap(), b"kept");
        let elsewhere = Mapping { volume: "vol-00000000000000001".into(), ..mapping.clone() };
        assert!(matches!(a.map(&elsewhere).await, Err(DiskError::NotOurs { .. })), "it holds another volume");
        std::fs::write(at(&a, "pods/p/file"), "x").unwrap();
        let file = Mapping { device: at(&a, "pods/p/file"), ..mapping.clone() };
        assert!(matches!(a.map(&file).await, Err(DiskError::BadPath { .. })), "a file is not a device");
        drop(node);
        a.crash().await.unwrap();
        assert!(bench.loops().is_empty());
    });
}

#[test]
fn a_held_raw_device_that_is_pulled_gives_eio_and_power_loss_closes_it() {
    live("map-pull", async |bench| {
        let a = bench.node("a");
        published_raw(&bench, &a).await;
        let mapping = mapping(&a, VOLUME, "p");
        let device = a.map(&mapping).await.unwrap();
        device.write_at(0, b"kept").await.unwrap();
        device.sync().await.unwrap();
        assert!(a.unplug(VOLUME, true).await.unwrap());
        for pulled in [device.write_at(0, b"lost").await, device.sync().await, device.read_at(0, 1).await.map(drop)] {
            assert!(pulled.unwrap_err().is_eio());
        }
        assert!(matches!(a.map(&mapping).await, Err(DiskError::NotPlugged(_))));
        a.unmap(&mapping).await.unwrap();
        assert!(a.unpublish(VOLUME, &mapping.device).await.unwrap());
        assert!(bench.loops().is_empty() && a.mounts().await.unwrap().is_empty());
        assert_eq!(&std::fs::read(bench.backing(VOLUME)).unwrap()[..4], b"kept");

        published_raw(&bench, &a).await;
        let device = a.map(&mapping).await.unwrap();
        a.crash().await.unwrap();
        assert!(device.read_at(0, 1).await.is_err());
        assert!(bench.loops().is_empty() && a.mounts().await.unwrap().is_empty());
    });
}

#[test]
fn a_read_only_raw_device_is_mapped_and_takes_no_writes() {
    live("map-ro", async |bench| {
        let a = bench.node("a");
        a.plug(&bench.volume(VOLUME)).await.unwrap();
        a.make_dir(&at(&a, "pods/p")).await.unwrap();
        a.publish(&Publish { block: true, ..publish(&a, VOLUME, "pods/p/b", true) }).await.unwrap();
        let mapping = mapping(&a, VOLUME, "p");
        let device = a.map(&mapping).await.unwrap();
        assert_eq!(device.read_at(0, 2).await.unwrap(), [0, 0]);
        assert!(device.write_at(0, b"x").await.is_err());
        a.crash().await.unwrap();
        assert!(bench.loops().is_empty());
        // The kernel keeps the flag with the device's number, also for the next user.
        a.plug(&bench.volume(VOLUME)).await.unwrap();
        a.publish(&Publish { block: true, ..publish(&a, VOLUME, "pods/p/b", false) }).await.unwrap();
        a.map(&mapping).await.unwrap().write_at(0, b"x").await.unwrap();
        a.crash().await.unwrap();
    });
}
