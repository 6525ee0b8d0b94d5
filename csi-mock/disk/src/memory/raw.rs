//! Raw devices of the model: mapped for a pod, opened, read and written.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::ready;
use rustix::io::Errno;

use super::lock;
use super::model::{Node, State, Volume, clean, text};
use super::mounting::occupied;
use crate::{DiskError, DiskFuture, Mapping, Mount, MountKind, RawDevice};

type Volumes = BTreeMap<String, Volume>;

/// File name of a raw volume's bytes.
const DEVICE: &str = "";

impl Node {
    /// Maps a published device for a pod; returns the number of the opening.
    pub fn map(&mut self, mapping: &Mapping) -> Result<u64, DiskError> {
        let (device, global, link) = (clean(&mapping.device)?, clean(&mapping.global)?, clean(&mapping.link)?);
        let readonly = match self.mounts.get(&device) {
            Some(m) if m.kind == MountKind::Block && m.volume == mapping.volume => m.readonly,
            Some(m) => return Err(occupied(&device, format!("volume {} is mounted", m.volume))),
            None => return Err(DiskError::errno("open", text(&device), Errno::NOENT)),
        };
        // It may have been pulled meanwhile.
        self.alive(&mapping.volume, "open", &device)?;
        match self.mounts.get(&global) {
            Some(m) if m.volume != mapping.volume => {
                return Err(occupied(&global, format!("volume {} is mounted", m.volume)));
            }
            _ => {}
        }
        for parent in [&global, &link].into_iter().filter_map(|path| path.parent()) {
            self.make_dirs(parent)?;
        }
        let mount =
            Mount { volume: mapping.volume.clone(), path: global.clone(), kind: MountKind::Map, readonly, group: None };
        self.mounts.insert(&global, mount);
        self.root.insert(&global, Some(Vec::new()));
        self.root.insert(&link, Some(device.as_os_str().as_encoded_bytes().to_vec()));
        self.openings += 1;
        self.open.insert(self.openings, (mapping.volume.clone(), device));
        Ok(self.openings)
    }

    pub fn unmap(&mut self, volumes: &mut Volumes, mapping: &Mapping) -> Result<(), DiskError> {
        let (device, global, link) = (clean(&mapping.device)?, clean(&mapping.global)?, clean(&mapping.link)?);
        self.open.retain(|_, (_, path)| *path != device);
        self.root.remove(&link);
        match self.mounts.get(&global) {
            Some(m) if m.kind != MountKind::Map => {
                return Err(occupied(&global, format!("volume {} is mounted", m.volume)));
            }
            _ => {}
        }
        self.mounts.remove(&global);
        self.root.remove(&global);
        self.close_unused(volumes, &mapping.volume);
        Ok(())
    }

    /// Returns volume and path of an opening whose device was not pulled.
    fn opened(&mut self, opening: u64, op: &'static str, path: &Path) -> Result<(String, PathBuf), DiskError> {
        let Some((volume, device)) = self.open.get(&opening).cloned() else {
            return Err(DiskError::errno(op, text(path), Errno::IO));
        };
        self.alive(&volume, op, &device)?;
        Ok((volume, device))
    }

    fn raw_size(&mut self, opening: u64, path: &Path) -> Result<u64, DiskError> {
        let (volume, _) = self.opened(opening, "stat", path)?;
        Ok(self.devices.get(&volume).map_or(0, |device| device.size_bytes))
    }

    fn raw_read(&mut self, opening: u64, path: &Path, offset: u64, length: usize) -> Result<Vec<u8>, DiskError> {
        let (volume, device) = self.opened(opening, "read", path)?;
        let size = self.raw_size(opening, path)?;
        let cache = self.alive(&volume, "read", &device)?;
        let written = cache.files.get(DEVICE).map_or(&[][..], |file| &file.data);
        let length = length.min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX));
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(written.len());
        let mut bytes = written[from..written.len().min(from.saturating_add(length))].to_vec();
        // Unwritten bytes are zero.
        bytes.resize(length, 0);
        Ok(bytes)
    }

    fn raw_write(&mut self, opening: u64, path: &Path, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        let (volume, device) = self.opened(opening, "write", path)?;
        let fail = |errno| Err(DiskError::errno("write", text(&device), errno));
        if self.raw_size(opening, path)? < offset.saturating_add(data.len() as u64) {
            return fail(Errno::NOSPC);
        }
        let cache = self.alive(&volume, "write", &device)?;
        if cache.readonly {
            return fail(Errno::PERM);
        }
        let Ok(from) = usize::try_from(offset) else { return fail(Errno::NOSPC) };
        let file = cache.files.entry(DEVICE.to_owned()).or_default();
        if file.data.len() < from + data.len() {
            file.data.resize(from + data.len(), 0);
        }
        file.data[from..from + data.len()].copy_from_slice(data);
        file.synced = file.synced.min(from);
        Ok(())
    }

    fn raw_sync(&mut self, volumes: &mut Volumes, opening: u64, path: &Path) -> Result<(), DiskError> {
        let (volume, device) = self.opened(opening, "fsync", path)?;
        let durable = volumes.entry(volume.clone()).or_default();
        if let Some(file) = self.alive(&volume, "fsync", &device)?.files.get_mut(DEVICE) {
            durable.take(DEVICE, file);
        }
        Ok(())
    }

    fn close_device(&mut self, volumes: &mut Volumes, opening: u64) {
        // A crash or an unmap may have closed it already.
        if let Some((volume, _)) = self.open.remove(&opening) {
            self.close_unused(volumes, &volume);
        }
    }
}

/// Open raw device.
#[derive(Debug)]
pub(super) struct MemoryDevice {
    node: Arc<str>,
    state: Arc<Mutex<State>>,
    opening: u64,
    path: PathBuf,
}

impl MemoryDevice {
    pub fn new(node: Arc<str>, state: Arc<Mutex<State>>, opening: u64, mapping: &Mapping) -> Self {
        Self { node, state, opening, path: mapping.device.clone() }
    }

    fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Volumes, &mut Node, u64, &Path) -> Result<T, DiskError>,
    ) -> DiskFuture<'_, T> {
        let mut state = lock(&self.state);
        let State { volumes, nodes, .. } = &mut *state;
        let node = nodes.entry(self.node.clone()).or_default();
        Box::pin(ready(act(volumes, node, self.opening, &self.path)))
    }
}

impl Drop for MemoryDevice {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        let State { volumes, nodes, .. } = &mut *state;
        if let Some(node) = nodes.get_mut(&self.node) {
            node.close_device(volumes, self.opening);
        }
    }
}

impl RawDevice for MemoryDevice {
    fn size(&self) -> DiskFuture<'_, u64> {
        self.with(|_, node, opening, path| node.raw_size(opening, path))
    }

    fn read_at(&self, offset: u64, length: usize) -> DiskFuture<'_, Vec<u8>> {
        self.with(|_, node, opening, path| node.raw_read(opening, path, offset, length))
    }

    fn write_at<'a>(&'a self, offset: u64, data: &'a [u8]) -> DiskFuture<'a, ()> {
        self.with(|_, node, opening, path| node.raw_write(opening, path, offset, data))
    }

    fn sync(&self) -> DiskFuture<'_, ()> {
        self.with(|volumes, node, opening, path| node.raw_sync(volumes, opening, path))
    }
}
