//! The disk of the simulation: volumes, page caches and power loss as a pure model.
//!
//! A volume has durable files. Staging it gives the node a page cache: appended bytes are in the cache only, `sync`
//! copies one file to the durable state, a clean unmount copies all of them, a crash or a pulled device drops what
//! was not copied. Two nodes may stage one volume (the kernel would not stop them either): each sees the files as
//! they were when it mounted plus its own writes, and the later sync of a file wins. Nothing waits, nothing draws a
//! random number.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::ready;
use rustix::io::Errno;

use super::{
    Backend, Device, Disk, DiskError, DiskFuture, Mount, MountKind, Plug, Publish, Published, Stage, Staged, Usage,
};

mod tree;

use self::tree::Tree;

#[cfg(test)]
mod tests;

/// The shared bytes of all volumes of a simulated world. Cheap to clone; all clones are one store.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisks(Arc<Mutex<State>>);

/// One node's view of it.
#[derive(Debug)]
struct MemoryDisk {
    node: Arc<str>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    volumes: BTreeMap<String, Volume>,
    nodes: BTreeMap<Arc<str>, Node>,
}

/// The durable bytes of a volume.
#[derive(Debug, Default)]
struct Volume {
    fs_type: Option<String>,
    size_bytes: u64,
    files: BTreeMap<String, Vec<u8>>,
}

/// One machine: what is plugged, mounted and lying on its own root disk.
#[derive(Debug, Default)]
struct Node {
    devices: BTreeMap<String, Device>,
    /// By volume: the mounted filesystem.
    caches: BTreeMap<String, Cache>,
    /// By path.
    mounts: Tree<Mount>,
    /// The root disk: directories (no content) and files.
    root: Tree<Option<Vec<u8>>>,
}

/// The page cache of one mounted filesystem.
#[derive(Debug, Default)]
struct Cache {
    readonly: bool,
    /// The device was pulled: every access fails with EIO.
    dead: bool,
    files: BTreeMap<String, Cached>,
}

/// A file in a page cache.
#[derive(Debug, Default)]
struct Cached {
    data: Vec<u8>,
    /// How many leading bytes are durable; the whole file is clean when it equals the length and `exists`.
    synced: usize,
    /// Whether the durable state has the file.
    exists: bool,
}

impl Cached {
    fn dirty(&self) -> bool {
        !self.exists || self.synced != self.data.len()
    }
}

impl MemoryDisks {
    /// A world without volumes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The disk of the node `name`; asked twice for one name, both values are one disk.
    pub fn node(&self, name: &str) -> Arc<dyn Disk> {
        Arc::new(MemoryDisk { node: name.into(), state: self.0.clone() })
    }

    /// The durable bytes of a file of a volume: what survives the loss of every node.
    pub fn durable(&self, volume: &str, file: &str) -> Option<Vec<u8>> {
        lock(&self.0).volumes.get(volume)?.files.get(file).cloned()
    }

    /// The durable files of a volume.
    pub fn durable_files(&self, volume: &str) -> Vec<String> {
        lock(&self.0).volumes.get(volume).map(|v| v.files.keys().cloned().collect()).unwrap_or_default()
    }

    /// Nodes that hold a writable mount of the volume whose device was not pulled. More than one corrupts it.
    pub fn writers(&self, volume: &str) -> Vec<String> {
        lock(&self.0).writers(volume)
    }

    /// Forgets the bytes of a deleted volume.
    pub fn forget(&self, volume: &str) {
        lock(&self.0).volumes.remove(volume);
    }
}

impl State {
    fn writers(&self, volume: &str) -> Vec<String> {
        let writes = |node: &Node| node.caches.get(volume).is_some_and(|c| !c.readonly && !c.dead);
        self.nodes.iter().filter(|(_, node)| writes(node)).map(|(name, _)| name.to_string()).collect()
    }
}

impl Volume {
    fn used(&self) -> u64 {
        self.files.values().map(|f| f.len() as u64).sum()
    }

    /// Copies one cached file to the durable state. An appended tail is all that moves in the usual case.
    fn take(&mut self, name: &str, cached: &mut Cached) {
        let file = self.files.entry(name.to_owned()).or_default();
        if file.len() == cached.synced {
            file.extend_from_slice(&cached.data[cached.synced..]);
        } else {
            // Another node wrote it meanwhile: the later sync wins, as it would on a shared disk.
            file.clone_from(&cached.data);
        }
        cached.synced = cached.data.len();
        cached.exists = true;
    }
}

impl Cache {
    fn of(volume: &Volume, readonly: bool) -> Self {
        let files = volume
            .files
            .iter()
            .map(|(name, data)| (name.clone(), Cached { data: data.clone(), synced: data.len(), exists: true }));
        Self { readonly, dead: false, files: files.collect() }
    }

    fn flush(&mut self, volume: &mut Volume) {
        if self.dead || self.readonly {
            return;
        }
        for (name, cached) in self.files.iter_mut().filter(|(_, c)| c.dirty()) {
            volume.take(name, cached);
        }
    }
}

/// A path that was checked: absolute, no `..`, one spelling.
fn clean(path: &Path) -> Result<PathBuf, DiskError> {
    let bad = |reason: &str| DiskError::BadPath { path: text(path), reason: reason.to_owned() };
    if !path.is_absolute() {
        return Err(bad("must be absolute"));
    }
    if path.as_os_str().as_encoded_bytes().windows(2).any(|two| two == b"..")
        && path.components().any(|c| matches!(c, Component::ParentDir))
    {
        return Err(bad("must not contain `..`"));
    }
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(bad("must not contain NUL"));
    }
    if path.as_os_str().len() > super::MAX_PATH {
        return Err(bad("is longer than 4096 bytes"));
    }
    // A path in its one spelling already is not taken apart.
    let bytes = path.as_os_str().as_encoded_bytes();
    let plain = bytes.len() > 1 && !bytes.ends_with(b"/") && !bytes.windows(2).any(|two| matches!(two, b"//" | b"/."));
    Ok(if plain { path.to_owned() } else { path.components().collect() })
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Where a path leads.
enum Place {
    /// To a file of a mounted volume: the volume, the name in it, and whether the path refuses writes.
    Volume { volume: String, name: String, readonly: bool },
    /// To the node's own root disk.
    Root,
}

impl Node {
    fn place(&self, path: &Path) -> Place {
        match self.mounts.nearest(path) {
            Some((mount, name)) => Place::Volume { volume: mount.volume.clone(), name, readonly: mount.readonly },
            None => Place::Root,
        }
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.parent().is_none() || matches!(self.root.get(path), Some(None)) || self.mounts.contains(path)
    }

    fn mounts_of<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = &'a Mount> {
        self.mounts.values().filter(move |m| m.volume == volume)
    }

    fn alive(&mut self, volume: &str, op: &'static str, path: &Path) -> Result<&mut Cache, DiskError> {
        match self.caches.get_mut(volume) {
            Some(cache) if !cache.dead => Ok(cache),
            _ => Err(DiskError::errno(op, text(path), Errno::IO)),
        }
    }

    fn make_dirs(&mut self, path: &Path) -> Result<(), DiskError> {
        let made = self.root.fill_upwards(path, || None, Option::is_none);
        made.map_err(|file| DiskError::errno("mkdir", text(&file), Errno::NOTDIR))
    }
}

impl MemoryDisk {
    /// Runs `act` on the locked state and this node; the answer is there at once.
    fn with<'a, T: Send + 'a>(
        &'a self,
        act: impl FnOnce(&mut BTreeMap<String, Volume>, &mut Node) -> Result<T, DiskError>,
    ) -> DiskFuture<'a, T> {
        let mut state = lock(&self.state);
        let State { volumes, nodes } = &mut *state;
        let node = nodes.entry(self.node.clone()).or_default();
        Box::pin(ready(act(volumes, node)))
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
            if let Some(cache) = node.caches.get_mut(volume) {
                if !force {
                    let by = node.mounts_of(volume).map(|m| text(&m.path)).collect::<Vec<_>>().join(", ");
                    return Err(DiskError::Busy { volume: volume.to_owned(), by: format!("mounted at {by}") });
                }
                cache.dead = true;
            }
            Ok(node.devices.remove(volume).is_some())
        })
    }

    fn find<'a>(&'a self, volume: &'a str) -> DiskFuture<'a, Option<Device>> {
        self.with(|_, node| Ok(node.devices.get(volume).cloned()))
    }

    fn devices(&self) -> DiskFuture<'_, Vec<Device>> {
        self.with(|_, node| Ok(node.devices.values().cloned().collect()))
    }

    fn mounts(&self) -> DiskFuture<'_, Vec<Mount>> {
        self.with(|_, node| Ok(node.mounts.values().cloned().collect()))
    }

    fn stage<'a>(&'a self, stage: &'a Stage) -> DiskFuture<'a, Staged> {
        let others = |disk: &Self| {
            let mut others = lock(&disk.state).writers(&stage.volume);
            others.retain(|n| **n != *disk.node);
            others
        };
        let other_writers = others(self);
        self.with(|volumes, node| {
            let path = clean(&stage.path)?;
            if let Some(there) = node.mounts.get(&path) {
                return if there.volume == stage.volume {
                    Ok(Staged { formatted: false, readonly: there.readonly, already: true, other_writers })
                } else {
                    Err(DiskError::Occupied { path: text(&path), by: format!("volume {} is mounted", there.volume) })
                };
            }
            if let Some(elsewhere) = node.mounts_of(&stage.volume).find(|m| m.kind == MountKind::Staging) {
                let by = format!("volume {} is staged at {}", stage.volume, elsewhere.path.display());
                return Err(DiskError::Occupied { path: text(&path), by });
            }
            if !node.devices.contains_key(&stage.volume) {
                return Err(DiskError::NotPlugged(stage.volume.clone()));
            }
            let volume = volumes.entry(stage.volume.clone()).or_default();
            let formatted = match &volume.fs_type {
                Some(found) if *found == stage.fs_type => false,
                Some(found) => {
                    let reason = format!("it has a {found} filesystem, {} was asked for", stage.fs_type);
                    return Err(DiskError::Corrupt { volume: stage.volume.clone(), reason });
                }
                None if stage.readonly => {
                    let reason = "it is empty and cannot be formatted read-only".to_owned();
                    return Err(DiskError::Corrupt { volume: stage.volume.clone(), reason });
                }
                None => {
                    volume.fs_type = Some(stage.fs_type.clone());
                    true
                }
            };
            node.make_dirs(&path)?;
            node.caches.insert(stage.volume.clone(), Cache::of(volume, stage.readonly));
            let mount = Mount {
                volume: stage.volume.clone(),
                path: path.clone(),
                kind: MountKind::Staging,
                readonly: stage.readonly,
            };
            node.mounts.insert(&path, mount);
            Ok(Staged { formatted, readonly: stage.readonly, already: false, other_writers })
        })
    }

    fn unstage<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool> {
        self.with(|volumes, node| {
            let path = clean(path)?;
            match node.mounts.get(&path) {
                None => return Ok(false),
                Some(m) if m.volume != volume => {
                    return Err(DiskError::Occupied {
                        path: text(&path),
                        by: format!("volume {} is mounted", m.volume),
                    });
                }
                Some(_) => {}
            }
            let others: Vec<_> = node.mounts_of(volume).filter(|m| m.path != path).map(|m| text(&m.path)).collect();
            if !others.is_empty() {
                let by = format!("also mounted at {}", others.join(", "));
                return Err(DiskError::Busy { volume: volume.to_owned(), by });
            }
            node.mounts.remove(&path);
            if let Some(mut cache) = node.caches.remove(volume) {
                cache.flush(volumes.entry(volume.to_owned()).or_default());
            }
            Ok(true)
        })
    }

    fn publish<'a>(&'a self, publish: &'a Publish) -> DiskFuture<'a, Published> {
        self.with(|_, node| {
            let (staging, path) = (clean(&publish.staging_path)?, clean(&publish.path)?);
            let Some(staged) = node.mounts.get(&staging).filter(|m| m.volume == publish.volume) else {
                return Err(DiskError::NotStaged { volume: publish.volume.clone(), path: text(&staging) });
            };
            let readonly = publish.readonly || staged.readonly;
            if let Some(there) = node.mounts.get(&path) {
                return if there.volume == publish.volume {
                    Ok(Published { readonly: there.readonly, already: true })
                } else {
                    Err(DiskError::Occupied { path: text(&path), by: format!("volume {} is mounted", there.volume) })
                };
            }
            if !path.parent().is_some_and(|p| node.is_dir(p)) {
                return Err(DiskError::errno("mkdir", text(&path), Errno::NOENT));
            }
            node.make_dirs(&path)?;
            let mount = Mount { volume: publish.volume.clone(), path: path.clone(), kind: MountKind::Target, readonly };
            node.mounts.insert(&path, mount);
            Ok(Published { readonly, already: false })
        })
    }

    fn unpublish<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool> {
        self.with(|_, node| {
            let path = clean(path)?;
            let mounted = match node.mounts.get(&path) {
                Some(m) if m.volume != volume => {
                    return Err(DiskError::Occupied {
                        path: text(&path),
                        by: format!("volume {} is mounted", m.volume),
                    });
                }
                Some(m) if m.kind == MountKind::Staging => {
                    return Err(DiskError::Occupied { path: text(&path), by: "the volume is staged here".to_owned() });
                }
                found => found.is_some(),
            };
            node.mounts.remove(&path);
            node.root.remove(&path);
            Ok(mounted)
        })
    }

    fn usage<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Usage> {
        self.with(|volumes, node| {
            let path = clean(path)?;
            let Place::Volume { volume, .. } = node.place(&path) else {
                return Err(DiskError::errno("statfs", text(&path), Errno::NOENT));
            };
            let (total, durable) = volumes.get(&volume).map_or((0, 0), |v| (v.size_bytes, v.used()));
            let cache = node.alive(&volume, "statfs", &path)?;
            let used = cache.files.values().map(|c| c.data.len() as u64).sum::<u64>().max(durable);
            let (inodes, used_inodes) = (total / 16384, cache.files.len() as u64 + 11);
            Ok(Usage {
                total_bytes: total,
                used_bytes: used,
                available_bytes: total.saturating_sub(used),
                total_inodes: inodes,
                used_inodes,
                available_inodes: inodes.saturating_sub(used_inodes),
            })
        })
    }

    fn crash(&self) -> DiskFuture<'_, ()> {
        self.with(|_, node| {
            node.caches.clear();
            node.mounts.clear();
            node.devices.clear();
            Ok(())
        })
    }

    fn make_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        self.with(|_, node| node.make_dirs(&clean(path)?))
    }

    fn remove_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        self.with(|_, node| {
            let path = clean(path)?;
            if node.mounts.contains(&path) {
                return Err(DiskError::Busy { volume: text(&path), by: "something is mounted there".to_owned() });
            }
            match node.root.get(&path) {
                None => return Ok(()),
                Some(Some(_)) => return Err(DiskError::errno("rmdir", text(&path), Errno::NOTDIR)),
                Some(None) => {}
            }
            if node.root.names_below(&path).next().is_some() {
                return Err(DiskError::errno("rmdir", text(&path), Errno::NOTEMPTY));
            }
            node.root.remove(&path);
            Ok(())
        })
    }

    fn list_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<Vec<String>>> {
        self.with(|_, node| {
            let path = clean(path)?;
            if let Place::Volume { volume, name, .. } = node.place(&path) {
                let prefix = if name.is_empty() { name } else { format!("{name}/") };
                let cache = node.alive(&volume, "readdir", &path)?;
                let mut names: Vec<String> = cache
                    .files
                    .keys()
                    .filter_map(|file| file.strip_prefix(&prefix))
                    .filter_map(|rest| rest.split('/').next())
                    .map(str::to_owned)
                    .collect();
                names.dedup();
                return Ok((!names.is_empty() || prefix.is_empty()).then_some(names));
            }
            Ok(node.is_dir(&path).then(|| node.root.names_below(&path).collect()))
        })
    }

    fn append<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()> {
        self.with(|volumes, node| {
            let path = clean(path)?;
            match node.place(&path) {
                Place::Volume { readonly: true, .. } => Err(DiskError::errno("write", text(&path), Errno::ROFS)),
                Place::Volume { volume, name, .. } => {
                    if name.is_empty() {
                        return Err(DiskError::errno("write", text(&path), Errno::ISDIR));
                    }
                    let room = volumes.get(&volume).map_or(0, |v| v.size_bytes);
                    let cache = node.alive(&volume, "write", &path)?;
                    let file = cache.files.entry(name).or_default();
                    // One file alone can fill the disk; summing all files at every write would cost more than it shows.
                    if file.data.len() as u64 + data.len() as u64 > room {
                        return Err(DiskError::errno("write", text(&path), Errno::NOSPC));
                    }
                    file.data.extend_from_slice(data);
                    Ok(())
                }
                Place::Root => {
                    node.root_file("write", &path)?.extend_from_slice(data);
                    Ok(())
                }
            }
        })
    }

    fn write<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()> {
        self.with(|volumes, node| {
            let path = clean(path)?;
            match node.place(&path) {
                Place::Volume { readonly: true, .. } => Err(DiskError::errno("write", text(&path), Errno::ROFS)),
                Place::Volume { volume, name, .. } => {
                    let durable = volumes.entry(volume.clone()).or_default();
                    let cache = node.alive(&volume, "write", &path)?;
                    cache.files.insert(name.clone(), Cached { data: data.to_vec(), synced: data.len(), exists: true });
                    durable.files.insert(name, data.to_vec());
                    Ok(())
                }
                Place::Root => {
                    *node.root_file("write", &path)? = data.to_vec();
                    Ok(())
                }
            }
        })
    }

    fn sync<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        self.with(|volumes, node| {
            let path = clean(path)?;
            let Place::Volume { volume, name, .. } = node.place(&path) else {
                return node.root_file("fsync", &path).map(drop);
            };
            let durable = volumes.entry(volume.clone()).or_default();
            let cache = node.alive(&volume, "fsync", &path)?;
            if let Some(cached) = cache.files.get_mut(&name) {
                durable.take(&name, cached);
                return Ok(());
            }
            Err(DiskError::errno("fsync", text(&path), Errno::NOENT))
        })
    }

    fn read<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<Vec<u8>>> {
        self.with(|_, node| {
            let path = clean(path)?;
            match node.place(&path) {
                Place::Volume { volume, name, .. } => {
                    Ok(node.alive(&volume, "read", &path)?.files.get(&name).map(|c| c.data.clone()))
                }
                Place::Root => match node.root.get(&path) {
                    Some(None) => Err(DiskError::errno("read", text(&path), Errno::ISDIR)),
                    found => Ok(found.cloned().flatten()),
                },
            }
        })
    }

    fn remove_file<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        self.with(|volumes, node| {
            let path = clean(path)?;
            match node.place(&path) {
                Place::Volume { readonly: true, .. } => Err(DiskError::errno("unlink", text(&path), Errno::ROFS)),
                Place::Volume { volume, name, .. } => {
                    node.alive(&volume, "unlink", &path)?.files.remove(&name);
                    if let Some(durable) = volumes.get_mut(&volume) {
                        durable.files.remove(&name);
                    }
                    Ok(())
                }
                Place::Root => {
                    if matches!(node.root.get(&path), Some(None)) {
                        return Err(DiskError::errno("unlink", text(&path), Errno::ISDIR));
                    }
                    node.root.remove(&path);
                    Ok(())
                }
            }
        })
    }
}

impl Node {
    fn root_file(&mut self, op: &'static str, path: &Path) -> Result<&mut Vec<u8>, DiskError> {
        if !path.parent().is_some_and(|p| self.is_dir(p)) {
            return Err(DiskError::errno(op, text(path), Errno::NOENT));
        }
        match self.root.get_or_insert_with(path, || Some(Vec::new())) {
            Some(data) => Ok(data),
            None => Err(DiskError::errno(op, text(path), Errno::ISDIR)),
        }
    }
}
