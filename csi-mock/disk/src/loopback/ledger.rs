//! Ledger of plugged devices: its entries, its records on disk, and the kernel's view of them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::device::{LoopDevice, proof_of};
use super::{DEV, Inner, LOOP_MAJOR, RECORDS, lock, mount, mountinfo, text};
use crate::plain_name::plain_name;
use crate::root::Root;
use crate::{Device, DiskError, Mount, MountKind, Plug};

/// A plugged volume.
#[derive(Debug)]
pub(super) struct Plugged {
    pub device: LoopDevice,
    /// The backing file, open for reading.
    pub file: File,
    pub record: Record,
}

/// Record of a plugged volume, to find its device again after a restart of the driver. It is a hint: the kernel has the
/// proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub volume: String,
    pub name: String,
    pub file: String,
    pub tag: String,
}

/// Checks a volume id, which becomes a record's name and a tag: `vol-` and hex digits only.
pub(super) fn volume_id(volume: &str) -> Result<(), DiskError> {
    let digits = volume.strip_prefix("vol-").unwrap_or_default();
    if (1..=17).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(());
    }
    Err(DiskError::BadPath { path: volume.to_owned(), reason: "is not a volume id".to_owned() })
}

/// Returns the volume in a tag `<run>/<volume id>`.
pub(super) fn tagged_volume(tag: &str) -> Option<&str> {
    tag.rsplit_once('/').map(|(_, volume)| volume).filter(|volume| volume_id(volume).is_ok())
}

/// Returns the name of the by-id link that the EBS driver looks for (its `findNvmeVolume`).
fn by_id(volume: &str) -> String {
    format!("nvme-Amazon_Elastic_Block_Store_{}", volume.replace('-', ""))
}

/// Returns the loop device with this device number, by the kernel's name for it.
fn loop_number(major: u32, minor: u32) -> Option<u32> {
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    link.file_name()?.to_str()?.strip_prefix("loop")?.parse().ok()
}

pub(super) fn occupied(path: &Path, by: impl Into<String>) -> DiskError {
    DiskError::Occupied { path: text(path), by: by.into() }
}

impl Plugged {
    pub fn device(&self) -> Device {
        Device {
            volume: self.record.volume.clone(),
            name: self.record.name.clone(),
            path: self.device.path(),
            size_bytes: self.device.size_bytes(),
        }
    }
}

impl Inner {
    pub fn at(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    pub fn tag(&self, volume: &str) -> String {
        format!("{}/{volume}", self.run)
    }

    pub fn record_path(&self, kind: &str, volume: &str) -> PathBuf {
        self.at(&format!("{RECORDS}/{kind}/{volume}"))
    }

    pub fn device_link(&self, name: &str) -> Result<PathBuf, DiskError> {
        let plain = name.strip_prefix("/dev/").unwrap_or(name);
        plain_name("a device name", plain)?;
        Ok(self.at(&format!("{DEV}/{plain}")))
    }

    pub fn backing(&self, file: &str) -> Result<File, DiskError> {
        plain_name("a volume's file", file)?;
        let place = self.volumes.place(&self.volumes.path().join(file))?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&place.parent, &place.name, flags, Mode::empty())
            .map_err(|e| DiskError::errno("open", file, e))?;
        Ok(File::from(fd))
    }

    /// Returns the plugged volume: from the ledger, or found by its record and proved. In the second case the device is
    /// held only while the value lives.
    pub fn get(&self, volume: &str) -> Option<Arc<Plugged>> {
        let held = lock(&self.ledger).get(volume).cloned();
        held.or_else(|| self.adopt(&self.record(volume)?).map(Arc::new))
    }

    pub fn record(&self, volume: &str) -> Option<Record> {
        let data = self.root.read(&self.record_path("devices", volume)).ok()??;
        serde_json::from_slice::<Record>(&data).ok().filter(|r| r.volume == volume)
    }

    pub fn adopt(&self, record: &Record) -> Option<Plugged> {
        if tagged_volume(&record.tag) != Some(&*record.volume) {
            return None;
        }
        let file = self.backing(&record.file).ok()?;
        let link = self.root.read_link(&self.device_link(&record.name).ok()?).ok()??;
        let number = link.to_str()?.strip_prefix("/dev/loop")?.parse().ok()?;
        let device = LoopDevice::adopt(number, &file, &record.tag)?;
        Some(Plugged { device, file, record: record.clone() })
    }

    /// Returns the volumes with a record, even if their device is gone.
    pub fn recorded(&self) -> Result<Vec<String>, DiskError> {
        let names = self.root.list(&self.at(&format!("{RECORDS}/devices")))?.unwrap_or_default();
        Ok(names.into_iter().filter(|name| volume_id(name).is_ok()).collect())
    }

    /// Removes the records of devices that are gone, for example after `kill -9`. Only the process that plugs may call
    /// it.
    pub fn sweep(&self) -> Result<(), DiskError> {
        for volume in self.recorded()? {
            if self.get(&volume).is_none() {
                match self.record(&volume) {
                    Some(record) => self.unlink(&record)?,
                    None => drop(self.root.remove_file(&self.record_path("devices", &volume))?),
                }
            }
        }
        Ok(())
    }

    pub fn devices(&self) -> Result<Vec<Device>, DiskError> {
        Ok(self.recorded()?.iter().filter_map(|v| self.get(v)).map(|p| p.device()).collect())
    }

    pub fn unlink(&self, record: &Record) -> Result<(), DiskError> {
        self.root.remove_file(&self.at(&format!("{DEV}/disk/by-id/{}", by_id(&record.volume))))?;
        self.root.remove_file(&self.device_link(&record.name)?)?;
        self.root.remove_file(&self.record_path("devices", &record.volume))?;
        Ok(())
    }

    /// Returns the volume of loop device `number`, if Mooring created the device.
    pub fn volume_of(&self, number: u32) -> Option<String> {
        let held = lock(&self.ledger).values().find(|p| p.device.number == number).map(|p| p.record.volume.clone());
        held.or_else(|| tagged_volume(&proof_of(number)?.tag).map(str::to_owned))
    }

    pub fn place(&self, path: &Path) -> Result<(&Root, PathBuf), DiskError> {
        Ok((&self.root, path.to_owned()))
    }

    pub fn mounts(&self) -> Result<Vec<Mount>, DiskError> {
        let mut mounts = Vec::new();
        for entry in mountinfo::read()? {
            if !entry.path.starts_with(self.root.path()) {
                continue;
            }
            let number = match entry.major {
                LOOP_MAJOR => loop_number(entry.major, entry.minor),
                _ if entry.fs_type == "btrfs" => entry.source_loop(),
                _ => {
                    mounts.extend(self.block_mount(&entry).or_else(|| self.share_mount(&entry)));
                    continue;
                }
            };
            let Some(volume) = number.and_then(|n| self.volume_of(n)) else { continue };
            let staged = self.root.read(&self.record_path("staged", &volume)).ok().flatten();
            let staging = staged.is_some_and(|path| path == entry.path.as_os_str().as_encoded_bytes());
            let kind = if staging { MountKind::Staging } else { MountKind::Target };
            let group = rustix::fs::stat(&entry.path).ok().map(|stat| stat.st_gid);
            mounts.push(Mount { volume, path: entry.path, kind, readonly: entry.readonly, group });
        }
        mounts.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(mounts)
    }

    pub fn plug(&self, plug: &Plug) -> Result<Device, DiskError> {
        if let Some(there) = self.get(&plug.volume) {
            there.device.verify()?;
            let device = there.device();
            // From now on this process holds it.
            lock(&self.ledger).insert(plug.volume.clone(), there);
            return Ok(device);
        }
        self.sweep()?;
        let link = self.device_link(&plug.device)?;
        let file = self.backing(&plug.file)?;
        let device = LoopDevice::attach(&file, &self.tag(&plug.volume))?;
        let Plug { volume, device: name, file: file_name, .. } = plug.clone();
        let record = Record { volume, name, file: file_name, tag: self.tag(&plug.volume) };
        let data = serde_json::to_vec(&record)
            .map_err(|e| DiskError::io("write", plug.volume.clone(), std::io::Error::other(e)))?;
        self.root.write(&self.record_path("devices", &plug.volume), &data)?;
        self.root.link(&device.path(), &link)?;
        let id_link = self.at(&format!("{DEV}/disk/by-id/{}", by_id(&plug.volume)));
        let plain = plug.device.strip_prefix("/dev/").unwrap_or(&plug.device);
        self.root.link(Path::new(&format!("../../{plain}")), &id_link)?;
        let plugged = Arc::new(Plugged { device, file, record });
        let device = plugged.device();
        lock(&self.ledger).insert(plug.volume.clone(), plugged);
        Ok(device)
    }

    pub fn unplug(&self, volume: &str, force: bool) -> Result<bool, DiskError> {
        let Some(plugged) = self.get(volume) else { return Ok(false) };
        let mounts: Vec<_> = self.mounts()?.into_iter().filter(|m| m.volume == volume).collect();
        if !force && !mounts.is_empty() {
            let at = mounts.iter().map(|m| text(&m.path)).collect::<Vec<_>>().join(", ");
            return Err(DiskError::Busy { volume: volume.to_owned(), by: format!("mounted at {at}") });
        }
        plugged.device.verify()?;
        self.unlink(&plugged.record)?;
        if let Some(mount) = mounts.first() {
            // Like a pulled disk: unsynced data is lost, and the device goes with its last mount or opener.
            let pulled = match mount.kind {
                MountKind::Block | MountKind::Map => Err(DiskError::Environment(String::new())),
                MountKind::Staging | MountKind::Target | MountKind::Share => mount::shutdown(&mount.path),
            };
            // A raw device, or a filesystem without shutdown: every later access is beyond its end.
            pulled.or_else(|_| plugged.device.cut_off())?;
        }
        self.forget(volume, plugged, !mounts.is_empty())?;
        Ok(true)
    }

    /// Removes a volume from the ledger and releases its device.
    pub fn forget(&self, volume: &str, plugged: Arc<Plugged>, mounted: bool) -> Result<(), DiskError> {
        lock(&self.ledger).remove(volume);
        let Some(plugged) = Arc::into_inner(plugged) else {
            return Err(DiskError::Busy { volume: volume.to_owned(), by: "another operation uses it".to_owned() });
        };
        if mounted { plugged.device.release() } else { plugged.device.detach() }
    }

    pub fn crash(&self) -> Result<(), DiskError> {
        let mut first = Ok(());
        let mut keep = |done: Result<(), DiskError>| {
            if first.is_ok() {
                first = done;
            }
        };
        self.close_held();
        let mounts = self.mounts()?;
        // The file system of a share is that of this machine, which must continue.
        for mount in mounts.iter().filter(|m| !m.kind.is_raw() && m.kind != MountKind::Share) {
            let cut = |e| self.get(&mount.volume).map_or(Err(e), |plugged| plugged.device.cut_off());
            keep(mount::shutdown(&mount.path).or_else(cut));
        }
        // Later mounts may lie on earlier ones.
        for mount in mounts.iter().rev() {
            keep(self.root.place(&mount.path).and_then(|place| mount::unmount(&place, &mount.path, true)));
            keep(self.root.remove_file(&self.record_path("staged", &mount.volume)).map(drop));
            keep(self.root.remove_file(&self.block_record(&mount.path)).map(drop));
            keep(self.root.remove_file(&self.share_record(&mount.path)).map(drop));
        }
        for volume in self.recorded()? {
            let Some(plugged) = self.get(&volume) else { continue };
            keep(self.unlink(&plugged.record));
            keep(self.forget(&volume, plugged, false));
        }
        first
    }
}
