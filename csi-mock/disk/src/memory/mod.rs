//! The disk of the simulation: volumes, page caches and power loss as a pure model.
//!
//! A volume has durable files. Staging it gives the node a page cache. Appended bytes are only in the cache. `sync`
//! copies one file to the durable state, and a clean unmount copies all of them. A crash or a pulled device drops the
//! rest. Two nodes may stage one volume, as the kernel allows: each sees the files as of its mount plus its own writes,
//! and the later sync of a file wins. No operation draws a random number, and only [`Disk::lock`] waits.
//!
//! A shared file system has no page cache: each write reaches the server at once.

mod files;
mod model;
mod mounting;
mod raw;
mod share;
#[cfg(test)]
mod tests;
mod tree;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::ready;

use self::model::{Node, State, Volume, clean};
use self::raw::MemoryDevice;
use self::share::{ShareFile, Shares};
use super::{
    Backend, Device, Disk, DiskError, DiskFuture, FileLock, GroupChange, Mapping, Mount, Plug, Publish, Published,
    RawDevice, Share, Stage, Staged, Usage,
};

/// Group of a filesystem that was not given to any group.
const ROOT: u32 = 0;

/// Bytes of all volumes of a simulated world. Clones share one store.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisks(Arc<Mutex<State>>);

/// One node's view of the store.
#[derive(Debug)]
struct MemoryDisk {
    node: Arc<str>,
    state: Arc<Mutex<State>>,
}

impl MemoryDisks {
    /// Creates a world without volumes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the disk of the node `name`; two calls with one name return the same disk.
    pub fn node(&self, name: &str) -> Arc<dyn Disk> {
        Arc::new(MemoryDisk { node: name.into(), state: self.0.clone() })
    }

    /// Returns the durable bytes of a volume's file, which survive the loss of every node. Those of a raw block volume
    /// are the file with the empty name.
    pub fn durable(&self, volume: &str, file: &str) -> Option<Vec<u8>> {
        lock(&self.0).volumes.get(volume)?.files.get(file).cloned()
    }

    /// Returns the names of a volume's durable files.
    pub fn durable_files(&self, volume: &str) -> Vec<String> {
        lock(&self.0).volumes.get(volume).map(|v| v.files.keys().cloned().collect()).unwrap_or_default()
    }

    /// Returns the nodes with a writable mount of the volume and a device that was not pulled. More than one corrupts
    /// it.
    pub fn writers(&self, volume: &str) -> Vec<String> {
        lock(&self.0).writers(volume)
    }

    /// Returns true if a node that still has the volume's device has it mounted or open.
    pub fn is_held(&self, volume: &str) -> bool {
        lock(&self.0).nodes.values().any(|node| node.caches.get(volume).is_some_and(|cache| !cache.dead))
    }

    /// Returns the group of the volume's filesystem.
    pub fn group(&self, volume: &str) -> Option<u32> {
        lock(&self.0).volumes.get(volume)?.group
    }

    /// Copies the current bytes of `source` to `target` (a volume or a snapshot), which gets `size_bytes` if that is
    /// larger.
    pub fn copy(&self, source: &str, target: &str, size_bytes: u64) {
        let mut state = lock(&self.0);
        let mut bytes = state.volumes.get(source).cloned().unwrap_or_default();
        bytes.size_bytes = bytes.size_bytes.max(size_bytes);
        state.volumes.insert(target.to_owned(), bytes);
    }

    /// Grows a volume; its filesystem keeps its size until it is expanded.
    pub fn grow(&self, volume: &str, size_bytes: u64) {
        let mut state = lock(&self.0);
        let bytes = state.volumes.entry(volume.to_owned()).or_default();
        bytes.size_bytes = bytes.size_bytes.max(size_bytes);
    }

    /// Drops the bytes of a deleted volume or snapshot.
    pub fn forget(&self, volume: &str) {
        lock(&self.0).volumes.remove(volume);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock()
}

impl MemoryDisk {
    /// Runs `act` on the locked state and this node; the answer is ready at once.
    fn with<'a, T: Send + 'a>(
        &'a self,
        act: impl FnOnce(&mut BTreeMap<String, Volume>, &mut Node) -> Result<T, DiskError>,
    ) -> DiskFuture<'a, T> {
        let mut state = lock(&self.state);
        let State { volumes, nodes, .. } = &mut *state;
        let node = nodes.entry(self.node.clone()).or_default();
        Box::pin(ready(act(volumes, node)))
    }

    /// Runs `act` on the file of a shared file system at `path`; None if the path belongs to none.
    fn shared<'a, T: Send + 'a>(
        &'a self,
        path: &Path,
        act: impl FnOnce(&ShareFile, &mut Shares) -> Result<T, DiskError>,
    ) -> Option<DiskFuture<'a, T>> {
        let mut state = lock(&self.state);
        let State { shares, nodes, .. } = &mut *state;
        let done = match nodes.get(&self.node)?.share_file(path) {
            Ok(file) => act(&file?, shares),
            Err(error) => Err(error),
        };
        Some(Box::pin(ready(done)))
    }
}

impl Disk for MemoryDisk {
    fn backend(&self) -> Backend {
        Backend::Memory
    }

    fn node(&self) -> &str {
        &self.node
    }

    fn plug<'a>(&'a self, plug: &'a Plug) -> DiskFuture<'a, Device> {
        self.with(|volumes, node| {
            let volume = volumes.entry(plug.volume.clone()).or_default();
            volume.size_bytes = volume.size_bytes.max(plug.size_bytes);
            let device = Device {
                volume: plug.volume.clone(),
                name: plug.device.clone(),
                path: PathBuf::from(&plug.device),
                size_bytes: plug.size_bytes,
            };
            Ok(node.devices.entry(plug.volume.clone()).or_insert(device).clone())
        })
    }

    fn unplug<'a>(&'a self, volume: &'a str, force: bool) -> DiskFuture<'a, bool> {
        self.with(|_, node| {
            let by = node.held_at(volume);
            if let Some(cache) = node.caches.get_mut(volume) {
                if !force {
                    return Err(DiskError::Busy { volume: volume.to_owned(), by: format!("mounted at {by}") });
                }
                cache.dead = true;
            }
            Ok(node.devices.remove(volume).is_some())
        })
    }

    fn resize<'a>(&'a self, volume: &'a str, size_bytes: u64) -> DiskFuture<'a, bool> {
        self.with(|volumes, node| {
            let Some(device) = node.devices.get_mut(volume) else { return Ok(false) };
            let grown = size_bytes > device.size_bytes;
            device.size_bytes = device.size_bytes.max(size_bytes);
            let bytes = volumes.entry(volume.to_owned()).or_default();
            bytes.size_bytes = bytes.size_bytes.max(size_bytes);
            Ok(grown)
        })
    }

    fn find<'a>(&'a self, volume: &'a str) -> DiskFuture<'a, Option<Device>> {
        self.with(|_, node| Ok(node.devices.get(volume).cloned()))
    }

    fn devices(&self) -> DiskFuture<'_, Vec<Device>> {
        self.with(|_, node| Ok(node.devices.values().cloned().collect()))
    }

    fn mounts(&self) -> DiskFuture<'_, Vec<Mount>> {
        let with_group = |volumes: &BTreeMap<String, Volume>, mount: &Mount| {
            let group = volumes.get(&mount.volume).and_then(|volume| volume.group).unwrap_or(ROOT);
            Mount { group: (!mount.kind.is_raw()).then_some(group), ..mount.clone() }
        };
        self.with(move |volumes, node| Ok(node.mounts.values().map(|mount| with_group(volumes, mount)).collect()))
    }

    fn stage<'a>(&'a self, stage: &'a Stage) -> DiskFuture<'a, Staged> {
        let mut others = lock(&self.state).writers(&stage.volume);
        others.retain(|n| **n != *self.node);
        self.with(|volumes, node| node.stage(volumes, stage, others))
    }

    fn unstage<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool> {
        self.with(|volumes, node| node.unstage(volumes, volume, path))
    }

    fn publish<'a>(&'a self, publish: &'a Publish) -> DiskFuture<'a, Published> {
        self.with(|volumes, node| node.publish(volumes, publish))
    }

    fn unpublish<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool> {
        self.with(|volumes, node| node.unpublish(volumes, volume, path))
    }

    fn map<'a>(&'a self, mapping: &'a Mapping) -> DiskFuture<'a, Arc<dyn RawDevice>> {
        let (node, state) = (self.node.clone(), self.state.clone());
        let opened = |opening| Arc::new(MemoryDevice::new(node, state, opening, mapping)) as Arc<dyn RawDevice>;
        self.with(|_, node| node.map(mapping).map(opened))
    }

    fn unmap<'a>(&'a self, mapping: &'a Mapping) -> DiskFuture<'a, ()> {
        self.with(|volumes, node| node.unmap(volumes, mapping))
    }

    fn expand<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, u64> {
        self.with(|volumes, node| node.expand(volumes, volume, path))
    }

    fn give<'a>(&'a self, path: &'a Path, change: GroupChange) -> DiskFuture<'a, ()> {
        self.with(|volumes, node| node.give(volumes, path, change.group))
    }

    fn mount_share<'a>(&'a self, share: &'a Share) -> DiskFuture<'a, Published> {
        self.with(|_, node| node.mount_share(share))
    }

    fn lock<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<FileLock>> {
        let Some(found) = self.shared(path, |file, shares| Ok(file.lock(shares))) else {
            return Box::pin(ready(Ok(None)));
        };
        Box::pin(async move { Ok(Some(FileLock::new(found.await?.lock_owned().await))) })
    }

    fn usage<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Usage> {
        if let Some(done) = self.shared(path, |file, shares| Ok(file.usage(shares))) {
            return done;
        }
        self.with(|volumes, node| node.usage(volumes, path))
    }

    fn crash(&self) -> DiskFuture<'_, ()> {
        self.with(|_, node| {
            node.caches.clear();
            node.mounts.clear();
            node.shares.clear();
            node.devices.clear();
            node.open.clear();
            Ok(())
        })
    }

    fn make_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        self.with(|_, node| node.make_dirs(&clean(path)?))
    }

    fn remove_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        self.with(|_, node| node.remove_dir(path))
    }

    fn list_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<Vec<String>>> {
        if let Some(done) = self.shared(path, |file, shares| Ok(Some(file.list(shares)))) {
            return done;
        }
        self.with(|_, node| node.list_dir(path))
    }

    fn append<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()> {
        let append = |file: &ShareFile, shares: &mut Shares| {
            file.edit(shares, "write")?.extend_from_slice(data);
            Ok(())
        };
        if let Some(done) = self.shared(path, append) {
            return done;
        }
        self.with(|volumes, node| node.append(volumes, path, data))
    }

    fn write<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()> {
        let replace = |file: &ShareFile, shares: &mut Shares| {
            data.clone_into(file.edit(shares, "write")?);
            Ok(())
        };
        if let Some(done) = self.shared(path, replace) {
            return done;
        }
        self.with(|volumes, node| node.write(volumes, path, data))
    }

    fn sync<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        if let Some(done) = self.shared(path, |_, _| Ok(())) {
            return done;
        }
        self.with(|volumes, node| node.sync(volumes, path))
    }

    fn read<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<Vec<u8>>> {
        if let Some(done) = self.shared(path, |file, shares| Ok(file.read(shares))) {
            return done;
        }
        self.with(|_, node| node.read(path))
    }

    fn remove_file<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        if let Some(done) = self.shared(path, |file, shares| file.remove(shares)) {
            return done;
        }
        self.with(|volumes, node| node.remove_file(volumes, path))
    }
}
