use std::collections::BTreeMap;

use futures_util::FutureExt;
use proptest::prelude::*;

use super::*;
use crate::MountKind;

fn now<T>(future: DiskFuture<'_, T>) -> Result<T, DiskError> {
    future.now_or_never().expect("the memory disk never waits")
}

fn plug(volume: &str) -> Plug {
    Plug { volume: volume.into(), device: "/dev/xvdaa".into(), file: volume.into(), size_bytes: 1 << 20 }
}

fn stage(volume: &str) -> Stage {
    Stage { volume: volume.into(), path: format!("/stage/{volume}").into(), fs_type: "ext4".into(), ..Stage::default() }
}

fn publish(volume: &str, path: &str, readonly: bool) -> Publish {
    Publish {
        volume: volume.into(),
        staging_path: format!("/stage/{volume}").into(),
        path: path.into(),
        readonly,
        ..Publish::default()
    }
}

fn staged(disks: &MemoryDisks, node: &str) -> Arc<dyn Disk> {
    let disk = disks.node(node);
    now(disk.plug(&plug("vol-1"))).unwrap();
    now(disk.stage(&stage("vol-1"))).unwrap();
    disk
}

#[test]
fn an_empty_device_is_formatted_once() {
    let disks = MemoryDisks::new();
    let disk = disks.node("a");
    assert!(matches!(now(disk.stage(&stage("vol-1"))), Err(DiskError::NotPlugged(_))));
    now(disk.plug(&plug("vol-1"))).unwrap();
    assert!(now(disk.stage(&stage("vol-1"))).unwrap().formatted);
    assert!(now(disk.stage(&stage("vol-1"))).unwrap().already);
    assert!(now(disk.unstage("vol-1", Path::new("/stage/vol-1"))).unwrap());
    assert!(!now(disk.unstage("vol-1", Path::new("/stage/vol-1"))).unwrap());
    assert!(!now(disk.stage(&stage("vol-1"))).unwrap().formatted);
}

#[test]
fn unstage_and_unplug_are_refused_while_mounts_remain() {
    let disk = staged(&MemoryDisks::new(), "a");
    now(disk.make_dir(Path::new("/pods/p"))).unwrap();
    now(disk.publish(&publish("vol-1", "/pods/p/mount", false))).unwrap();
    assert!(matches!(now(disk.unstage("vol-1", Path::new("/stage/vol-1"))), Err(DiskError::Busy { .. })));
    assert!(matches!(now(disk.unplug("vol-1", false)), Err(DiskError::Busy { .. })));
    assert!(matches!(now(disk.remove_dir(Path::new("/pods/p/mount"))), Err(DiskError::Busy { .. })));
    assert!(now(disk.unpublish("vol-1", Path::new("/pods/p/mount"))).unwrap());
    assert_eq!(now(disk.list_dir(Path::new("/pods/p"))).unwrap(), Some(vec![]));
    now(disk.unstage("vol-1", Path::new("/stage/vol-1"))).unwrap();
    assert!(now(disk.unplug("vol-1", false)).unwrap());
    assert!(now(disk.devices()).unwrap().is_empty());
}

#[test]
fn a_readonly_publish_refuses_writes_and_shows_the_bytes() {
    let disk = staged(&MemoryDisks::new(), "a");
    now(disk.make_dir(Path::new("/pods/p"))).unwrap();
    assert!(now(disk.publish(&publish("vol-1", "/pods/p/mount", true))).unwrap().readonly);
    now(disk.append(Path::new("/stage/vol-1/f"), b"x")).unwrap();
    assert_eq!(now(disk.read(Path::new("/pods/p/mount/f"))).unwrap(), Some(b"x".to_vec()));
    assert!(now(disk.append(Path::new("/pods/p/mount/f"), b"y")).is_err());
}

#[test]
fn a_pulled_device_gives_eio_until_it_is_unmounted() {
    let disks = MemoryDisks::new();
    let disk = staged(&disks, "a");
    let file = Path::new("/stage/vol-1/f");
    now(disk.append(file, b"kept")).unwrap();
    now(disk.sync(file)).unwrap();
    now(disk.append(file, b"lost")).unwrap();
    assert!(now(disk.unplug("vol-1", true)).unwrap());
    assert!(now(disk.sync(file)).unwrap_err().is_eio());
    assert!(now(disk.read(file)).unwrap_err().is_eio());
    assert!(now(disk.unstage("vol-1", Path::new("/stage/vol-1"))).unwrap());
    assert_eq!(disks.durable("vol-1", "f"), Some(b"kept".to_vec()));
}

#[test]
fn two_writable_mounts_of_one_volume_are_reported() {
    let disks = MemoryDisks::new();
    let _a = staged(&disks, "a");
    let b = disks.node("b");
    now(b.plug(&plug("vol-1"))).unwrap();
    assert_eq!(now(b.stage(&stage("vol-1"))).unwrap().other_writers, ["a"]);
    assert_eq!(disks.writers("vol-1"), ["a", "b"]);
}

#[test]
fn paths_that_are_relative_or_climb_are_refused() {
    let disk = MemoryDisks::new().node("a");
    for path in ["x", "/a/../b", ""] {
        assert!(matches!(now(disk.make_dir(Path::new(path))), Err(DiskError::BadPath { .. })), "{path}");
    }
}

#[test]
fn a_raw_device_has_bytes_of_its_own_and_no_filesystem() {
    let disks = MemoryDisks::new();
    let disk = disks.node("a");
    let block = |path: &str, readonly| Publish { block: true, ..publish("vol-1", path, readonly) };
    now(disk.make_dir(Path::new("/pods/p"))).unwrap();
    assert!(matches!(now(disk.publish(&block("/pods/p/b", false))), Err(DiskError::NotPlugged(_))));
    now(disk.plug(&plug("vol-1"))).unwrap();
    assert!(!now(disk.publish(&block("/pods/p/b", false))).unwrap().already);
    assert!(now(disk.publish(&block("/pods/p/b", false))).unwrap().already);
    assert!(now(disk.remove_dir(Path::new("/pods/p"))).is_err(), "the device is bound to a file there");
    assert!(matches!(now(disk.publish(&block("/pods/p/ro", true))), Err(DiskError::Busy { .. })));
    assert!(matches!(now(disk.stage(&stage("vol-1"))), Err(DiskError::Occupied { .. })));
    assert!(matches!(now(disk.unplug("vol-1", false)), Err(DiskError::Busy { .. })));
    assert_eq!(now(disk.mounts()).unwrap()[0].kind, MountKind::Block);
    now(disk.append(Path::new("/pods/p/b"), b"raw")).unwrap();
    assert_eq!(now(disk.usage(Path::new("/pods/p/b"))).unwrap().total_bytes, 1 << 20);
    assert!(now(disk.unpublish("vol-1", Path::new("/pods/p/b"))).unwrap());
    assert_eq!(disks.durable("vol-1", ""), Some(b"raw".to_vec()), "the last close writes back");
    assert!(matches!(now(disk.stage(&stage("vol-1"))), Err(DiskError::Corrupt { .. })), "raw data is not formatted");
    assert!(now(disk.unplug("vol-1", false)).unwrap());
}

#[test]
fn a_mapped_raw_device_is_read_and_written_and_a_crash_loses_what_was_not_synced() {
    let disks = MemoryDisks::new();
    let disk = disks.node("a");
    let publish = Publish { block: true, ..publish("vol-1", "/publish/p", false) };
    let mapping = Mapping {
        volume: "vol-1".into(),
        device: "/publish/p".into(),
        global: "/dev/p".into(),
        link: "/pods/p/devices/pv".into(),
    };
    let up = || {
        now(disk.make_dir(Path::new("/publish"))).unwrap();
        now(disk.plug(&plug("vol-1"))).unwrap();
        now(disk.publish(&publish)).unwrap();
        now(disk.map(&mapping)).unwrap()
    };
    assert!(now(disk.map(&mapping)).is_err(), "nothing is published");
    let device = up();
    assert_eq!(now(device.size()).unwrap(), 1 << 20);
    now(device.write_at(512, b"synced")).unwrap();
    now(device.sync()).unwrap();
    now(device.write_at(512, b"SYN")).unwrap();
    now(device.write_at(2048, b"lost")).unwrap();
    assert_eq!(now(device.read_at(510, 8)).unwrap(), b"\0\0SYNced");
    assert_eq!(now(device.read_at((1 << 20) - 2, 9)).unwrap(), [0, 0], "a device ends");
    assert!(matches!(now(device.write_at((1 << 20) - 1, b"xx")), Err(DiskError::Io { .. })));
    let kinds: Vec<_> = now(disk.mounts()).unwrap().into_iter().map(|m| m.kind).collect();
    assert_eq!(kinds, [MountKind::Map, MountKind::Block]);
    assert_eq!(now(disk.list_dir(Path::new("/pods/p/devices"))).unwrap(), Some(vec!["pv".to_owned()]));
    now(disk.crash()).unwrap();
    assert!(now(device.read_at(0, 1)).unwrap_err().is_eio());

    let again = up();
    assert!(now(device.read_at(0, 1)).unwrap_err().is_eio(), "what was open before the crash stays closed");
    assert_eq!(now(again.read_at(512, 6)).unwrap(), b"synced");
    assert_eq!(now(again.read_at(2048, 4)).unwrap(), [0; 4]);
    now(again.write_at(0, b"late")).unwrap();
    now(disk.unmap(&mapping)).unwrap();
    now(disk.unmap(&mapping)).unwrap();
    assert!(now(again.read_at(0, 1)).unwrap_err().is_eio());
    assert!(now(disk.unpublish("vol-1", Path::new("/publish/p"))).unwrap());
    assert!(!disks.is_held("vol-1"));
    assert_eq!(disks.durable("vol-1", "").unwrap()[..4], *b"late", "the last close writes back");
    assert!(now(disk.unplug("vol-1", false)).unwrap());

    let device = up();
    assert!(now(disk.unplug("vol-1", true)).unwrap());
    assert!(now(device.write_at(0, b"x")).unwrap_err().is_eio());
    assert!(now(disk.map(&mapping)).unwrap_err().is_eio());
}

#[test]
fn a_raw_device_stays_open_for_who_holds_it_and_refuses_writes_when_it_is_read_only() {
    let disks = MemoryDisks::new();
    let disk = disks.node("a");
    now(disk.make_dir(Path::new("/publish"))).unwrap();
    now(disk.plug(&plug("vol-1"))).unwrap();
    now(disk.publish(&Publish { block: true, ..publish("vol-1", "/publish/p", true) })).unwrap();
    let mapping =
        Mapping { volume: "vol-1".into(), device: "/publish/p".into(), global: "/dev/p".into(), link: "/link".into() };
    let device = now(disk.map(&mapping)).unwrap();
    assert!(matches!(now(device.write_at(0, b"x")), Err(DiskError::Io { .. })));
    let other = Mapping { volume: "vol-2".into(), ..mapping.clone() };
    assert!(matches!(now(disk.map(&other)), Err(DiskError::Occupied { .. })));
    assert!(matches!(now(disk.unpublish("vol-1", Path::new("/dev/p"))), Err(DiskError::Occupied { .. })));
    now(disk.unpublish("vol-1", Path::new("/publish/p"))).unwrap();
    assert!(disks.is_held("vol-1"));
    assert_eq!(now(device.read_at(0, 1)).unwrap(), [0]);
    now(disk.unmap(&mapping)).unwrap();
    drop(device);
    assert!(!disks.is_held("vol-1"));
}

#[test]
fn a_volume_grows_while_it_is_mounted_and_a_copy_before_it_is() {
    let disks = MemoryDisks::new();
    let disk = staged(&disks, "a");
    let at = Path::new("/stage/vol-1");
    now(disk.append(Path::new("/stage/vol-1/f"), b"x")).unwrap();
    now(disk.sync(Path::new("/stage/vol-1/f"))).unwrap();
    assert!(now(disk.resize("vol-1", 2 << 20)).unwrap());
    assert!(!now(disk.resize("vol-1", 2 << 20)).unwrap());
    assert_eq!(now(disk.usage(at)).unwrap().total_bytes, 1 << 20, "the device grew, the filesystem did not");
    assert_eq!(now(disk.expand("vol-1", at)).unwrap(), 2 << 20);
    assert_eq!(now(disk.usage(at)).unwrap().total_bytes, 2 << 20);
    assert!(matches!(now(disk.expand("vol-1", Path::new("/no"))), Err(DiskError::NotStaged { .. })));
    disks.copy("vol-1", "vol-2", 3 << 20);
    let plug = Plug { size_bytes: 3 << 20, ..plug("vol-2") };
    now(disk.plug(&plug)).unwrap();
    assert!(!now(disk.stage(&stage("vol-2"))).unwrap().formatted);
    assert_eq!(now(disk.usage(Path::new("/stage/vol-2"))).unwrap().total_bytes, 3 << 20);
    assert_eq!(now(disk.read(Path::new("/stage/vol-2/f"))).unwrap(), Some(b"x".to_vec()));
}

#[derive(Clone, Debug)]
enum Op {
    Append(u8, Vec<u8>),
    Sync(u8),
    Crash,
    Remount,
    Pull,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..3u8, proptest::collection::vec(any::<u8>(), 1..8)).prop_map(|(f, d)| Op::Append(f, d)),
        3 => (0..3u8).prop_map(Op::Sync),
        1 => Just(Op::Crash),
        1 => Just(Op::Remount),
        1 => Just(Op::Pull),
    ]
}

proptest! {
    #[test]
    fn a_crash_loses_exactly_the_unsynced(ops in proptest::collection::vec(op(), 0..60)) {
        let disks = MemoryDisks::new();
        let disk = staged(&disks, "a");
        // Per file: written bytes, and the number of durable ones.
        let mut model: BTreeMap<u8, (Vec<u8>, Option<usize>)> = BTreeMap::new();
        let lose = |model: &mut BTreeMap<u8, (Vec<u8>, Option<usize>)>| {
            model.retain(|_, (data, synced)| synced.inspect(|n| data.truncate(*n)).is_some());
        };
        for op in ops {
            match op {
                Op::Append(f, data) => {
                    now(disk.append(Path::new(&format!("/stage/vol-1/{f}")), &data)).unwrap();
                    model.entry(f).or_default().0.extend(data);
                }
                Op::Sync(f) => {
                    let done = now(disk.sync(Path::new(&format!("/stage/vol-1/{f}"))));
                    prop_assert_eq!(done.is_ok(), model.contains_key(&f));
                    if let Some((data, synced)) = model.get_mut(&f) {
                        *synced = Some(data.len());
                    }
                }
                Op::Crash => {
                    now(disk.crash()).unwrap();
                    prop_assert!(now(disk.mounts()).unwrap().is_empty() && now(disk.devices()).unwrap().is_empty());
                    lose(&mut model);
                }
                Op::Remount => {
                    now(disk.unstage("vol-1", Path::new("/stage/vol-1"))).unwrap();
                    model.values_mut().for_each(|(data, synced)| *synced = Some(data.len()));
                }
                Op::Pull => {
                    now(disk.unplug("vol-1", true)).unwrap();
                    now(disk.unstage("vol-1", Path::new("/stage/vol-1"))).unwrap();
                    lose(&mut model);
                }
            }
            now(disk.plug(&plug("vol-1"))).unwrap();
            now(disk.stage(&stage("vol-1"))).unwrap();
            for f in 0..3u8 {
                let seen = now(disk.read(Path::new(&format!("/stage/vol-1/{f}")))).unwrap();
                prop_assert_eq!(seen.as_ref(), model.get(&f).map(|(data, _)| data));
                let durable = disks.durable("vol-1", &f.to_string());
                let expected = model.get(&f).and_then(|(data, synced)| synced.map(|n| data[..n].to_vec()));
                prop_assert_eq!(durable, expected);
            }
        }
    }
}
