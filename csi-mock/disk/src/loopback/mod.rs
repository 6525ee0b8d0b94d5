//! The disk of a real node: loop devices, filesystems and bind mounts of the Linux kernel. Requires root.
//!
//! A plugged volume is a loop device with autoclear, held open while it is plugged, so that `kill -9` leaves no device
//! behind. Its tag is `<run>/<volume id>`. Before every mkfs and every detach, tag, inode and device of the backing
//! file are compared with the kernel, and only devices that pass are touched. Mounts are read from mountinfo by device
//! number.
//!
//! Several processes may open the disk of one node (the driver, the node agent, the leak check). The one that plugs
//! holds the devices. The others find them by the records below the root, prove them, and release them again.

mod block;
mod device;
mod group;
mod grow;
mod ioctl;
mod ledger;
mod mount;
mod mountinfo;
mod namespace;
mod nodes;
mod publish;
mod raw;
mod share;
mod stage;
mod superblock;
#[cfg(test)]
mod tests;
pub(super) mod tools;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use self::ledger::{Plugged, volume_id};
pub use self::namespace::private_mounts;
pub use self::nodes::make_control;
use self::raw::{Held, LoopRaw};
use super::blocking::Gate;
use super::files::file_operations;
use super::plain_name::plain_name;
use super::root::Root;
use super::share::is_shared;
use super::{
    Backend, Device, Disk, DiskError, DiskFuture, FileLock, GroupChange, Mapping, Mount, Plug, Publish, Published,
    RawDevice, Share, Stage, Staged, Usage,
};

/// Major number of loop devices.
const LOOP_MAJOR: u32 = 7;
/// Longest name of a run: `<run>/vol-` and 17 digits must fit in a loop device's tag.
const MAX_RUN: usize = 40;
/// Node's own records, below its root.
const RECORDS: &str = ".mooring";
/// Node's own device directory, below its root.
const DEV: &str = "dev";

/// Disk of one node with real block devices.
#[derive(Clone, Debug)]
pub struct LoopDisk(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    node: String,
    run: String,
    root: Root,
    volumes: Root,
    gate: Gate,
    ledger: Mutex<BTreeMap<String, Arc<Plugged>>>,
    /// Serializes plug, stage and their inverses for each volume.
    serial: Turns,
    /// Raw devices that this value has mapped and that may still be open.
    held: Mutex<Vec<Weak<Held>>>,
}

impl LoopDisk {
    /// Opens the disk of `node` with the node's root directory, the directory of all volumes, and the name of the run,
    /// which tags new devices. Finds devices that another process plugged on this node.
    ///
    /// # Errors
    /// [`DiskError::BadPath`] for a run's name that is not a plain name of at most 40 bytes; the operating system's
    /// error.
    pub fn new(node: &str, root: &Path, volumes: &Path, run: &str) -> Result<Self, DiskError> {
        plain_name("a run's name", run)?;
        if run.len() > MAX_RUN {
            let reason = format!("a run's name is at most {MAX_RUN} bytes long");
            return Err(DiskError::BadPath { path: run.to_owned(), reason });
        }
        let (root, volumes) = (Root::open(root)?, Root::open(volumes)?);
        let inner = Inner {
            node: node.to_owned(),
            run: run.to_owned(),
            root,
            volumes,
            gate: Gate::default(),
            ledger: Mutex::default(),
            serial: Turns::default(),
            held: Mutex::default(),
        };
        for dir in [
            format!("{RECORDS}/devices"),
            format!("{RECORDS}/staged"),
            format!("{RECORDS}/blocks"),
            format!("{DEV}/disk/by-id"),
        ] {
            inner.root.make_dirs(&inner.at(&dir))?;
        }
        Ok(Self(Arc::new(inner)))
    }

    fn run<'a, T: Send + 'static>(
        &'a self,
        act: impl FnOnce(&Inner) -> Result<T, DiskError> + Send + 'static,
    ) -> DiskFuture<'a, T> {
        Gate::run(&self.0, |disk| &disk.gate, act)
    }

    /// Runs `act` exclusively among the operations on `volume`.
    fn alone<'a, T: Send + 'static>(
        &'a self,
        volume: &str,
        act: impl FnOnce(&Inner) -> Result<T, DiskError> + Send + 'static,
    ) -> DiskFuture<'a, T> {
        let own = volume.to_owned();
        self.in_turn(volume, move |disk| volume_id(&own).and_then(|()| act(disk)))
    }

    /// Like `alone`, for a volume that may belong to another driver, with ids of another form.
    fn in_turn<'a, T: Send + 'static>(
        &'a self,
        volume: &str,
        act: impl FnOnce(&Inner) -> Result<T, DiskError> + Send + 'static,
    ) -> DiskFuture<'a, T> {
        let volume = volume.to_owned();
        self.run(move |disk| {
            let turn = disk.serial.of(volume);
            let _alone = lock_of(&turn);
            act(disk)
        })
    }
}

/// Locks by volume, kept while they are held or awaited.
#[derive(Debug, Default)]
struct Turns(Mutex<BTreeMap<String, Weak<Mutex<()>>>>);

impl Turns {
    fn of(&self, volume: String) -> Arc<Mutex<()>> {
        let mut all = lock(&self.0);
        if let Some(turn) = all.get(&volume).and_then(Weak::upgrade) {
            return turn;
        }
        all.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        all.insert(volume, Arc::downgrade(&turn));
        turn
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn lock_of(mutex: &Arc<Mutex<()>>) -> MutexGuard<'_, ()> {
    lock(mutex)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

impl Disk for LoopDisk {
    fn backend(&self) -> Backend {
        Backend::Loop
    }

    fn node(&self) -> &str {
        &self.0.node
    }

    fn plug<'a>(&'a self, plug: &'a Plug) -> DiskFuture<'a, Device> {
        let own = plug.clone();
        self.alone(&plug.volume, move |disk| disk.plug(&own))
    }

    fn unplug<'a>(&'a self, volume: &'a str, force: bool) -> DiskFuture<'a, bool> {
        let own = volume.to_owned();
        self.alone(volume, move |disk| disk.unplug(&own, force))
    }

    fn find<'a>(&'a self, volume: &'a str) -> DiskFuture<'a, Option<Device>> {
        let own = volume.to_owned();
        self.alone(volume, move |disk| match disk.get(&own) {
            Some(plugged) => plugged.device.verify().map(|()| Some(plugged.device())),
            None => Ok(None),
        })
    }

    fn devices(&self) -> DiskFuture<'_, Vec<Device>> {
        self.run(Inner::devices)
    }

    fn mounts(&self) -> DiskFuture<'_, Vec<Mount>> {
        self.run(Inner::mounts)
    }

    fn stage<'a>(&'a self, stage: &'a Stage) -> DiskFuture<'a, Staged> {
        let own = stage.clone();
        self.alone(&stage.volume, move |disk| disk.stage(&own))
    }

    fn unstage<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool> {
        let (own, path) = (volume.to_owned(), path.to_owned());
        self.alone(volume, move |disk| disk.unstage(&own, &path))
    }

    fn publish<'a>(&'a self, publish: &'a Publish) -> DiskFuture<'a, Published> {
        let own = publish.clone();
        self.alone(&publish.volume, move |disk| disk.publish(&own))
    }

    fn unpublish<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool> {
        let (own, path) = (volume.to_owned(), path.to_owned());
        let act = move |disk: &Inner| disk.unpublish(&own, &path);
        if is_shared(volume) { self.in_turn(volume, act) } else { self.alone(volume, act) }
    }

    fn mount_share<'a>(&'a self, share: &'a Share) -> DiskFuture<'a, Published> {
        let own = share.clone();
        self.in_turn(&share.volume, move |disk| disk.mount_share(&own))
    }

    fn lock<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<FileLock>> {
        let path = path.to_owned();
        let directory = self.run(move |disk| disk.shared_dir(&path));
        Box::pin(async move { FileLock::of_directory(directory.await?).await })
    }

    fn map<'a>(&'a self, mapping: &'a Mapping) -> DiskFuture<'a, Arc<dyn RawDevice>> {
        let own = mapping.clone();
        let held = self.in_turn(&mapping.volume, move |disk| disk.map(&own));
        Box::pin(async move { Ok(Arc::new(LoopRaw::new(self.0.clone(), held.await?)) as Arc<dyn RawDevice>) })
    }

    fn unmap<'a>(&'a self, mapping: &'a Mapping) -> DiskFuture<'a, ()> {
        let own = mapping.clone();
        self.in_turn(&mapping.volume, move |disk| disk.unmap(&own))
    }

    fn resize<'a>(&'a self, volume: &'a str, size_bytes: u64) -> DiskFuture<'a, bool> {
        let own = volume.to_owned();
        self.alone(volume, move |disk| disk.resize(&own, size_bytes))
    }

    fn expand<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, u64> {
        let (own, path) = (volume.to_owned(), path.to_owned());
        self.alone(volume, move |disk| disk.expand(&own, &path))
    }

    fn give<'a>(&'a self, path: &'a Path, change: GroupChange) -> DiskFuture<'a, ()> {
        let path = path.to_owned();
        self.run(move |disk| disk.give_mounted(&path, change))
    }

    file_operations!();

    fn crash(&self) -> DiskFuture<'_, ()> {
        Gate::shut(&self.0, |disk| &disk.gate, Inner::crash)
    }
}
