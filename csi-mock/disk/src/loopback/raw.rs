//! Raw devices for pods: bound once more below the node agent's directory, linked, and held open.
//!
//! A bind of a device node holds no reference: with autoclear the loop device would vanish when its last opener closes
//! it, and its number would be reused. So the process that publishes to a pod keeps a descriptor, [`Held`], and
//! verifies its device with the kernel before every use.

use parking_lot::Mutex;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::block::BlockRecord;
use super::device::{Proof, kernel_proof};
use super::ledger::{occupied, tagged_volume};
use super::{Inner, ioctl, lock, mount, mountinfo, text};
use crate::blocking::Gate;
use crate::{DiskError, DiskFuture, Mapping, MountKind, RawDevice};

/// Identity of an open block device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    /// Device number.
    number: (u32, u32),
    /// Kernel's identity of its backing file; None for a device that is not a loop device.
    proof: Option<Proof>,
}

impl Identity {
    fn of(file: &File) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(file)?;
        let number = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
            return Err(Errno::NOTBLK);
        }
        Ok(Self { number, proof: kernel_proof(file).ok() })
    }
}

/// Open raw device.
#[derive(Debug)]
pub(super) struct Held {
    volume: String,
    /// Path at which it was published.
    path: PathBuf,
    readonly: bool,
    identity: Identity,
    /// Closed by an unmap and by a power loss, even if a user still has this value.
    file: Mutex<Option<File>>,
}

impl Held {
    /// Runs `act` on the device, if it is still the one that was opened and was not pulled.
    fn with<T>(&self, op: &'static str, act: impl FnOnce(&File, u64) -> std::io::Result<T>) -> Result<T, DiskError> {
        let fail = |errno: Errno| DiskError::errno(op, text(&self.path), errno);
        let open = lock(&self.file);
        let Some(file) = &*open else { return Err(fail(Errno::IO)) };
        let seen = Identity::of(file).map_err(fail)?;
        if seen != self.identity {
            return Err(self.is_another(format!("it is {seen:?}")));
        }
        // A pulled device has size zero.
        let size = match ioctl::size(file).map_err(fail)? {
            0 => return Err(fail(Errno::IO)),
            size => size,
        };
        act(file, size).map_err(|e| DiskError::io(op, text(&self.path), e))
    }

    fn is_another(&self, reason: String) -> DiskError {
        DiskError::NotOurs { volume: self.volume.clone(), device: text(&self.path), reason }
    }

    fn read_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, DiskError> {
        self.with("read", |file, size| {
            let length = length.min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX));
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, offset)?;
            Ok(bytes)
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        self.with("write", |file, size| {
            if self.readonly {
                return Err(Errno::PERM.into());
            }
            if offset.saturating_add(data.len() as u64) > size {
                return Err(Errno::NOSPC.into());
            }
            file.write_all_at(data, offset)
        })
    }

    fn close(&self) {
        lock(&self.file).take();
    }
}

/// Raw device for the process that mapped it.
#[derive(Debug)]
pub(super) struct LoopRaw {
    disk: Arc<Inner>,
    held: Arc<Held>,
}

impl LoopRaw {
    pub fn new(disk: Arc<Inner>, held: Arc<Held>) -> Self {
        Self { disk, held }
    }

    fn run<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Held) -> Result<T, DiskError> + Send + 'static,
    ) -> DiskFuture<'_, T> {
        let held = self.held.clone();
        Gate::run(&self.disk, |disk| &disk.gate, move |_| act(&held))
    }
}

impl RawDevice for LoopRaw {
    fn size(&self) -> DiskFuture<'_, u64> {
        self.run(|held| held.with("stat", |_, size| Ok(size)))
    }

    fn read_at(&self, offset: u64, length: usize) -> DiskFuture<'_, Vec<u8>> {
        self.run(move |held| held.read_at(offset, length))
    }

    fn write_at<'a>(&'a self, offset: u64, data: &'a [u8]) -> DiskFuture<'a, ()> {
        let data = data.to_owned();
        self.run(move |held| held.write_at(offset, &data))
    }

    fn sync(&self) -> DiskFuture<'_, ()> {
        self.run(|held| held.with("fsync", |file, _| file.sync_all()))
    }
}

impl Inner {
    pub fn map(&self, mapping: &Mapping) -> Result<Arc<Held>, DiskError> {
        let at = |path: &Path| self.root.absolute(path);
        let (device, global, link) = (at(&mapping.device)?, at(&mapping.global)?, at(&mapping.link)?);
        let (file, readonly) = self.root.device(&device)?;
        let identity = Identity::of(&file).map_err(|e| match e {
            Errno::NOTBLK => {
                let reason = "is not a block device; the driver published something else there".to_owned();
                DiskError::BadPath { path: text(&device), reason }
            }
            error => DiskError::errno("stat", text(&device), error),
        })?;
        let held = Held {
            volume: mapping.volume.clone(),
            path: device.clone(),
            readonly,
            identity,
            file: Mutex::new(Some(file)),
        };
        self.is_of_volume(&held)?;
        self.bind_again(mapping, &held, &device, &global)?;
        if let Some(parent) = link.parent() {
            self.root.make_dirs(parent)?;
        }
        self.root.link(&device, &link)?;
        let held = Arc::new(held);
        let mut all = lock(&self.held);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        Ok(held)
    }

    /// Checks that the published device is the volume's. Another driver may have its own kind of devices, which are
    /// accepted; but a device of Mooring belongs to the volume in its tag.
    fn is_of_volume(&self, held: &Held) -> Result<(), DiskError> {
        let seen = held.identity.proof.as_ref();
        match self.get(&held.volume) {
            Some(plugged) if seen == Some(&plugged.device.proof) => Ok(()),
            Some(plugged) => Err(held.is_another(format!("it is {:?} and not {:?}", seen, plugged.device.proof))),
            None => match seen.and_then(|proof| tagged_volume(&proof.tag)) {
                None => Ok(()),
                // It was pulled, and exists until its last opener closes it.
                Some(volume) if volume == held.volume => Err(DiskError::NotPlugged(held.volume.clone())),
                Some(volume) => Err(held.is_another(format!("it holds {volume}"))),
            },
        }
    }

    fn bind_again(&self, mapping: &Mapping, held: &Held, device: &Path, global: &Path) -> Result<(), DiskError> {
        let entries = mountinfo::read()?;
        if let Some(there) = entries.iter().rfind(|entry| entry.path == *global) {
            return match self.block_mount(there) {
                Some(m) if m.volume != mapping.volume => {
                    Err(occupied(global, format!("volume {} is mounted", m.volume)))
                }
                _ => Ok(()),
            };
        }
        if let Some(parent) = global.parent() {
            self.root.make_dirs(parent)?;
        }
        let (volume, readonly) = (mapping.volume.clone(), held.readonly);
        let record = BlockRecord { volume, number: held.identity.number.1, readonly, map: true };
        self.write_block_record(global, &record)?;
        self.root.append(global, b"")?;
        let (source, target) = (self.root.handle(device)?, self.root.handle(global)?);
        mount::copy(&source, device)?.attach(&target, global)
    }

    pub fn unmap(&self, mapping: &Mapping) -> Result<(), DiskError> {
        let at = |path: &Path| self.root.absolute(path);
        let (device, global, link) = (at(&mapping.device)?, at(&mapping.global)?, at(&mapping.link)?);
        for held in lock(&self.held).iter().filter_map(std::sync::Weak::upgrade).filter(|held| held.path == device) {
            held.close();
        }
        self.root.remove_file(&link)?;
        if let Some(there) = mountinfo::read()?.iter().rfind(|entry| entry.path == global) {
            if let Some(m) = self.block_mount(there).filter(|m| m.kind != MountKind::Map) {
                return Err(occupied(&global, format!("volume {} is mounted", m.volume)));
            }
            mount::unmount(&self.root.place(&global)?, &global, false)?;
        }
        self.root.remove_file(&global)?;
        self.root.remove_file(&self.block_record(&global))?;
        Ok(())
    }

    /// Closes all open raw devices.
    pub fn close_held(&self) {
        for held in lock(&self.held).drain(..).filter_map(|held| held.upgrade()) {
            held.close();
        }
    }
}
