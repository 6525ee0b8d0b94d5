//! Tests that need root, loop devices and mkfs.ext4. Without them each prints a line and skips, or fails if
//! `MOORING_REQUIRE` names `root`. Each runs in its own mount namespace and touches only its own devices.

#![expect(unsafe_code, reason = "unshare gives the test's thread a mount namespace of its own")]

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::process::Command;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::device::{LoopDevice, proof_of};
use super::*;
use crate::{MountKind, capability};

mod raw_devices;
mod two_nodes;

struct Bench {
    dir: tempfile::TempDir,
    run: String,
    _alone: File,
}

/// Returns the setup of a test, or None if this machine cannot run it.
fn bench(name: &str) -> Option<Bench> {
    if let Err(missing) = capability().loop_backend {
        let required = std::env::var("MOORING_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|r| r == "root"), "MOORING_REQUIRE names root, but {missing}");
        // Not eprintln: the test runner hides captured output of passing tests.
        let _ = writeln!(std::io::stderr(), "SKIPPED loop test `{name}`: {missing}");
        return None;
    }
    // Loop devices are machine-wide: the lock allows one such test at a time across processes.
    let lock = File::create(std::env::temp_dir().join("mooring-loop-tests.lock")).unwrap();
    lock.lock().unwrap();
    // SAFETY: only the mount namespace (and with it the working directory) of this thread is unshared, no descriptor
    // table.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).unwrap();
    let dir = tempfile::tempdir().unwrap();
    Some(Bench {
        dir,
        run: format!("test-{}-{name}", std::process::id()).chars().take(MAX_RUN).collect(),
        _alone: lock,
    })
}

/// Runs a test on its own thread, whose blocking threads share its mount namespace.
fn live(name: &'static str, test: impl AsyncFnOnce(Bench) + Send + 'static) {
    let thread = std::thread::spawn(move || {
        let Some(bench) = bench(name) else { return };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test(bench));
    });
    thread.join().unwrap();
}

const MIB: u64 = 1 << 20;

impl Bench {
    fn node(&self, name: &str) -> LoopDisk {
        LoopDisk::new(name, &self.dir.path().join(name), &self.dir.path().join("volumes"), &self.run).unwrap()
    }

    fn backing(&self, volume: &str) -> PathBuf {
        self.dir.path().join("volumes").join(format!("{volume}.img"))
    }

    fn volume(&self, volume: &str) -> Plug {
        let file = File::options().create(true).append(true).open(self.backing(volume)).unwrap();
        file.set_len(64 * MIB).unwrap();
        let file = format!("{volume}.img");
        Plug { volume: volume.into(), device: "/dev/xvdaa".into(), file, size_bytes: 64 * MIB }
    }

    /// Returns the loop devices of this run, from sysfs.
    fn loops(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/sys/block").unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let number = name.strip_prefix("loop").and_then(|n| n.parse::<u32>().ok());
            if number.and_then(proof_of).is_some_and(|p| p.tag.starts_with(&self.run)) {
                found.push(name);
            }
        }
        found
    }
}

fn at(disk: &LoopDisk, path: &str) -> PathBuf {
    disk.0.root.path().join(path)
}

fn stage(disk: &LoopDisk, volume: &str, readonly: bool) -> Stage {
    let path = at(disk, "staging/globalmount");
    let mount_flags = vec!["noatime".into()];
    Stage { volume: volume.into(), path, fs_type: "ext4".into(), mount_flags, readonly, ..Stage::default() }
}

fn publish(disk: &LoopDisk, volume: &str, target: &str, readonly: bool) -> Publish {
    let (staging_path, path) = (at(disk, "staging/globalmount"), at(disk, target));
    Publish { volume: volume.into(), staging_path, path, readonly, ..Publish::default() }
}

const VOLUME: &str = "vol-0123456789abcdef0";

#[test]
fn a_volume_moves_between_nodes_with_its_bytes_and_leaves_nothing() {
    live("move", async |bench| {
        let a = bench.node("a");
        let plug = bench.volume(VOLUME);
        let device = a.plug(&plug).await.unwrap();
        assert_eq!(a.plug(&plug).await.unwrap(), device);
        assert_eq!(a.find(VOLUME).await.unwrap(), Some(device.clone()));
        assert_eq!(std::fs::read_link(at(&a, "dev/xvdaa")).unwrap(), device.path);
        let by_id = at(&a, "dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0");
        assert_eq!(std::fs::read_link(by_id).unwrap(), Path::new("../../xvdaa"));
        let staged = a.stage(&stage(&a, VOLUME, false)).await.unwrap();
        assert!(staged.formatted && !staged.readonly && !staged.already);
        assert!(a.stage(&stage(&a, VOLUME, false)).await.unwrap().already);
        a.make_dir(&at(&a, "pods/p")).await.unwrap();
        a.publish(&publish(&a, VOLUME, "pods/p/mount", false)).await.unwrap();
        assert!(a.publish(&publish(&a, VOLUME, "pods/p/ro", true)).await.unwrap().readonly);
        let file = at(&a, "pods/p/mount/records");
        a.append(&file, b"hello").await.unwrap();
        a.sync(&file).await.unwrap();
        assert_eq!(a.read(&at(&a, "pods/p/ro/records")).await.unwrap(), Some(b"hello".to_vec()));
        assert!(a.append(&at(&a, "pods/p/ro/records"), b"x").await.is_err());
        assert_eq!(a.mounts().await.unwrap().len(), 3);
        assert!(a.usage(file.parent().unwrap()).await.unwrap().total_bytes > 32 * MIB);
        assert!(a.usage(&at(&a, "pods/p")).await.unwrap_err().is_not_found(), "figures of the host");
        assert!(matches!(a.unstage(VOLUME, &at(&a, "staging/globalmount")).await, Err(DiskError::Busy { .. })));
        assert!(matches!(a.unplug(VOLUME, false).await, Err(DiskError::Busy { .. })));
        assert!(a.unpublish(VOLUME, &at(&a, "pods/p/ro")).await.unwrap());
        assert!(a.unpublish(VOLUME, &at(&a, "pods/p/mount")).await.unwrap());
        assert!(!a.unpublish(VOLUME, &at(&a, "pods/p/mount")).await.unwrap());
        assert!(a.unstage(VOLUME, &at(&a, "staging/globalmount")).await.unwrap());
        assert!(a.unplug(VOLUME, false).await.unwrap());
        assert!(bench.loops().is_empty() && a.mounts().await.unwrap().is_empty());
        assert!(!at(&a, "dev/xvdaa").is_symlink() && !at(&a, "pods/p/mount").exists());

        let b = bench.node("b");
        b.plug(&plug).await.unwrap();
        assert!(!b.stage(&stage(&b, VOLUME, false)).await.unwrap().formatted);
        assert_eq!(b.read(&at(&b, "staging/globalmount/records")).await.unwrap(), Some(b"hello".to_vec()));
        b.unstage(VOLUME, &at(&b, "staging/globalmount")).await.unwrap();
        b.unplug(VOLUME, false).await.unwrap();
        assert!(bench.loops().is_empty());
        // Neither the journal nor the inode tables were written: the file is still sparse.
        assert!(std::fs::metadata(bench.backing(VOLUME)).unwrap().blocks() * 512 < 16 * MIB);
    });
}

#[test]
fn power_loss_keeps_what_was_synced_and_loses_the_rest() {
    live("power", async |bench| {
        let a = bench.node("a");
        let plug = bench.volume(VOLUME);
        a.plug(&plug).await.unwrap();
        a.stage(&stage(&a, VOLUME, false)).await.unwrap();
        let file = at(&a, "staging/globalmount/records");
        a.append(&file, b"kept").await.unwrap();
        a.sync(&file).await.unwrap();
        a.append(&file, b"lost").await.unwrap();
        a.crash().await.unwrap();
        assert!(a.mounts().await.unwrap().is_empty() && a.devices().await.unwrap().is_empty());
        assert!(bench.loops().is_empty());
        a.plug(&plug).await.unwrap();
        a.stage(&stage(&a, VOLUME, false)).await.unwrap();
        assert_eq!(a.read(&file).await.unwrap(), Some(b"kept".to_vec()));
        a.crash().await.unwrap();
    });
}

#[test]
fn a_call_before_a_power_loss_has_no_effect_after_it() {
    live("gate", async |bench| {
        let a = bench.node("a");
        a.plug(&bench.volume(VOLUME)).await.unwrap();
        let stage = stage(&a, VOLUME, false);
        let asked = a.stage(&stage);
        a.crash().await.unwrap();
        assert!(matches!(asked.await, Err(DiskError::Environment(_))));
        assert!(a.mounts().await.unwrap().is_empty() && bench.loops().is_empty());
    });
}

#[test]
fn a_pulled_device_gives_eio_and_goes_with_its_last_mount() {
    live("pull", async |bench| {
        let a = bench.node("a");
        let plug = bench.volume(VOLUME);
        a.plug(&plug).await.unwrap();
        a.stage(&stage(&a, VOLUME, false)).await.unwrap();
        let file = at(&a, "staging/globalmount/records");
        a.append(&file, b"x").await.unwrap();
        assert!(a.unplug(VOLUME, true).await.unwrap());
        assert_eq!(a.find(VOLUME).await.unwrap(), None);
        assert!(a.append(&file, b"y").await.unwrap_err().is_eio());
        assert_eq!(a.mounts().await.unwrap().len(), 1);
        assert!(a.unstage(VOLUME, &at(&a, "staging/globalmount")).await.unwrap());
        assert!(bench.loops().is_empty());
    });
}

#[test]
fn a_device_with_data_that_is_not_a_filesystem_is_never_formatted() {
    live("corrupt", async |bench| {
        let a = bench.node("a");
        let plug = bench.volume(VOLUME);
        a.plug(&plug).await.unwrap();
        a.stage(&stage(&a, VOLUME, false)).await.unwrap();
        a.unstage(VOLUME, &at(&a, "staging/globalmount")).await.unwrap();
        a.unplug(VOLUME, false).await.unwrap();
        // The first superblock is wiped: blkid reports the device as empty.
        let file = File::options().write(true).open(bench.backing(VOLUME)).unwrap();
        file.write_all_at(&[0; 4096], 0).unwrap();
        let before = std::fs::read(bench.backing(VOLUME)).unwrap();
        a.plug(&plug).await.unwrap();
        assert!(matches!(a.stage(&stage(&a, VOLUME, false)).await, Err(DiskError::Corrupt { .. })));
        a.unplug(VOLUME, false).await.unwrap();
        assert!(std::fs::read(bench.backing(VOLUME)).unwrap() == before);
    });
}

#[test]
fn a_read_only_stage_is_read_only_and_does_not_format() {
    live("readonly", async |bench| {
        let a = bench.node("a");
        let plug = bench.volume(VOLUME);
        a.plug(&plug).await.unwrap();
        assert!(matches!(a.stage(&stage(&a, VOLUME, true)).await, Err(DiskError::Corrupt { .. })));
        a.stage(&stage(&a, VOLUME, false)).await.unwrap();
        a.unstage(VOLUME, &at(&a, "staging/globalmount")).await.unwrap();
        assert!(a.stage(&stage(&a, VOLUME, true)).await.unwrap().readonly);
        assert!(a.append(&at(&a, "staging/globalmount/f"), b"x").await.is_err());
        a.crash().await.unwrap();
    });
}

#[test]
fn a_foreign_loop_device_is_never_touched() {
    live("foreign", async |bench| {
        let image = bench.dir.path().join("foreign.img");
        File::create(&image).unwrap().set_len(64 * MIB).unwrap();
        let made = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let foreign = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        let a = bench.node("a");
        let plug = bench.volume(VOLUME);
        a.plug(&plug).await.unwrap();
        // The forged records point at the foreign device; a new process must not trust them.
        let mut forged = a.0.get(VOLUME).unwrap().record.clone();
        a.unplug(VOLUME, false).await.unwrap();
        std::os::unix::fs::symlink(&foreign, at(&a, "dev/xvdaa")).unwrap();
        std::fs::write(at(&a, ".mooring/devices").join(VOLUME), serde_json::to_vec(&forged).unwrap()).unwrap();
        let again = bench.node("a");
        assert_eq!(again.find(VOLUME).await.unwrap(), None);
        assert!(again.devices().await.unwrap().is_empty());
        // It must not trust them either if the file is right, but the tag or the inode is another one.
        "foreign.img".clone_into(&mut forged.file);
        let number: u32 = foreign.strip_prefix("/dev/loop").unwrap().parse().unwrap();
        let own = File::open(&image).unwrap();
        assert!(LoopDevice::adopt(number, &own, &a.0.tag(VOLUME)).is_none());
        again.crash().await.unwrap();
        assert!(!again.unplug(VOLUME, true).await.unwrap());
        assert!(proof_of(number).is_some(), "the foreign device is still there");
        assert!(std::fs::read(&image).unwrap().iter().all(|b| *b == 0), "and untouched");
        assert!(Command::new("losetup").arg("-d").arg(&foreign).status().unwrap().success());
    });
}

#[test]
fn a_restarted_driver_takes_over_its_devices_and_mounts() {
    live("restart", async |bench| {
        let a = bench.node("a");
        let plug = bench.volume(VOLUME);
        let device = a.plug(&plug).await.unwrap();
        a.stage(&stage(&a, VOLUME, false)).await.unwrap();
        // The process ends: its descriptors are closed, the mount keeps the device.
        drop(a);
        let again = bench.node("a");
        assert_eq!(again.find(VOLUME).await.unwrap(), Some(device));
        assert_eq!(again.mounts().await.unwrap()[0].kind, MountKind::Staging);
        assert!(again.stage(&stage(&again, VOLUME, false)).await.unwrap().already);
        again.unstage(VOLUME, &at(&again, "staging/globalmount")).await.unwrap();
        // This process only looked: after the unmount the device has no holder (autoclear).
        assert!(bench.loops().is_empty());
        drop(again);
        assert_eq!(bench.node("a").find(VOLUME).await.unwrap(), None);
    });
}

#[test]
fn paths_out_of_the_root_and_odd_ids_are_refused() {
    live("paths", async |bench| {
        let a = bench.node("a");
        let plug = bench.volume(VOLUME);
        a.plug(&plug).await.unwrap();
        std::os::unix::fs::symlink("/mnt", at(&a, "out")).unwrap();
        for path in [PathBuf::from("/mnt"), at(&a, "out"), at(&a, "out/x")] {
            let stage = Stage { path, ..stage(&a, VOLUME, false) };
            assert!(matches!(a.stage(&stage).await, Err(DiskError::BadPath { .. })), "{stage:?}");
        }
        for volume in ["../../etc", "vol-xyz", "", "vol-"] {
            let plug = Plug { volume: volume.into(), ..plug.clone() };
            assert!(matches!(a.plug(&plug).await, Err(DiskError::BadPath { .. })), "{volume}");
        }
        for (file, device) in [("../x", "/dev/xvdab"), ("x.img", "/dev/../x"), ("x.img", "/dev/a/b")] {
            let volume = "vol-0123456789abcdef1".to_owned();
            let plug = Plug { volume, file: file.into(), device: device.into(), size_bytes: MIB };
            assert!(matches!(a.plug(&plug).await, Err(DiskError::BadPath { .. })), "{file} {device}");
        }
        a.crash().await.unwrap();
    });
}

#[test]
fn a_volume_is_given_to_its_group_with_all_that_is_in_it() {
    live("group", async |bench| {
        let a = bench.node("a");
        a.plug(&bench.volume(VOLUME)).await.unwrap();
        a.stage(&stage(&a, VOLUME, false)).await.unwrap();
        let staged = at(&a, "staging/globalmount");
        std::fs::create_dir(staged.join("d")).unwrap();
        std::fs::write(staged.join("d/f"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", staged.join("link")).unwrap();
        let outside = std::fs::metadata("/etc/passwd").unwrap();
        a.make_dir(&at(&a, "pods/p")).await.unwrap();
        let publish = Publish { group: Some(2000), ..publish(&a, VOLUME, "pods/p/mount", false) };
        a.publish(&publish).await.unwrap();
        let root = at(&a, "pods/p/mount");
        for (path, mode) in [(root.clone(), 0o2770), (root.join("d"), 0o2770), (root.join("d/f"), 0o660)] {
            let there = std::fs::metadata(&path).unwrap();
            assert_eq!((there.gid(), there.mode() & mode), (2000, mode), "{path:?}");
        }
        let change = |group, always| GroupChange { group, always };
        let gid = || std::fs::metadata(root.join("d/f")).unwrap().gid();
        a.give(&root, change(3000, true)).await.unwrap();
        assert_eq!(gid(), 3000);
        std::os::unix::fs::chown(root.join("d/f"), None, Some(4000)).unwrap();
        a.give(&root, change(3000, false)).await.unwrap();
        assert_eq!(gid(), 4000, "the root belongs to the group already");
        a.give(&root, change(3000, true)).await.unwrap();
        assert_eq!(gid(), 3000);
        assert!(
            matches!(a.give(&at(&a, "pods/p"), change(3000, true)).await, Err(DiskError::NotStaged { .. })),
            "only what is mounted"
        );
        let after = std::fs::metadata("/etc/passwd").unwrap();
        assert_eq!((after.gid(), after.mode()), (outside.gid(), outside.mode()), "links are not followed");
        a.crash().await.unwrap();
    });
}
