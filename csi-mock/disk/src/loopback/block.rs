//! Raw block: a bind of the device node at a pod's path, which is a file.
//!
//! mountinfo shows such a mount as one of devtmpfs (or the filesystem of `/dev`) whose root is the device's name. So
//! Mooring's own record names the volume. The record of an unmounted device is ignored.

use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::device::proof_of;
use super::ledger::{occupied, tagged_volume};
use super::mountinfo::Entry;
use super::{Inner, RECORDS, mount, text};
use crate::{DiskError, Mount, MountKind, Publish, Published};

/// Record of a published raw device.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BlockRecord {
    pub volume: String,
    pub number: u32,
    pub readonly: bool,
    /// True for the node agent's own bind.
    #[serde(default)]
    pub map: bool,
}

impl Inner {
    pub fn block_record(&self, path: &Path) -> PathBuf {
        let key = hex::encode(&Sha256::digest(path.as_os_str().as_encoded_bytes())[..16]);
        self.at(&format!("{RECORDS}/blocks/{key}"))
    }

    /// Returns the published raw device in a line of mountinfo.
    pub fn block_mount(&self, entry: &Entry) -> Option<Mount> {
        let number: u32 = entry.root.to_str()?.strip_prefix("/loop")?.parse().ok()?;
        let record = self.root.read(&self.block_record(&entry.path)).ok().flatten();
        let record = record.and_then(|data| serde_json::from_slice::<BlockRecord>(&data).ok());
        let (volume, readonly, map) = match record.filter(|r| r.number == number) {
            Some(record) => (record.volume, record.readonly, record.map),
            // Without a record, the device's tag names the volume if the device is ours.
            None => (tagged_volume(&proof_of(number)?.tag)?.to_owned(), false, false),
        };
        let kind = if map { MountKind::Map } else { MountKind::Block };
        Some(Mount { volume, path: entry.path.clone(), kind, readonly, group: None })
    }

    /// Writes the record of the coming mount at `path`: a record without a mount is ignored.
    pub fn write_block_record(&self, path: &Path, record: &BlockRecord) -> Result<(), DiskError> {
        let data = serde_json::to_vec(record)
            .map_err(|e| DiskError::io("write", record.volume.clone(), std::io::Error::other(e)))?;
        self.root.write(&self.block_record(path), &data)
    }

    pub fn publish_block(&self, publish: &Publish) -> Result<Published, DiskError> {
        let path = self.root.absolute(&publish.path)?;
        let mounts = self.mounts()?;
        match mounts.iter().rfind(|m| m.path == path) {
            Some(m) if m.volume == publish.volume && m.kind == MountKind::Block => {
                return Ok(Published { readonly: m.readonly, already: true, options: None });
            }
            Some(m) => return Err(occupied(&path, format!("volume {} is mounted", m.volume))),
            None => {}
        }
        let plugged = self.get(&publish.volume).ok_or_else(|| DiskError::NotPlugged(publish.volume.clone()))?;
        let mut own = mounts.iter().filter(|m| m.volume == publish.volume);
        let busy = |by: String| Err(DiskError::Busy { volume: publish.volume.clone(), by });
        if let Some(m) = own.clone().find(|m| !m.kind.is_raw()) {
            return busy(format!("its filesystem is mounted at {}", m.path.display()));
        }
        if own.any(|m| m.readonly != publish.readonly) {
            return busy("it is published with the other kind of access, and a device has one".to_owned());
        }
        plugged.device.set_readonly(publish.readonly)?;
        let number = plugged.device.number;
        let record = BlockRecord { volume: publish.volume.clone(), number, readonly: publish.readonly, map: false };
        self.write_block_record(&path, &record)?;
        self.root.append(&path, b"")?;
        let target = self.root.handle(&path)?;
        let device = plugged.device.path();
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let source = rustix::fs::openat(CWD, &device, flags, Mode::empty())
            .map_err(|e| DiskError::errno("open", text(&device), e))?;
        mount::copy(&source, &device)?.attach(&target, &path)?;
        // The number may have been reused between the check and the bind.
        if let Err(error) = plugged.device.verify() {
            mount::unmount(&self.root.place(&path)?, &path, false)?;
            return Err(error);
        }
        Ok(Published { readonly: publish.readonly, already: false, options: None })
    }

    pub fn unpublish_block(&self, mount: &Mount) -> Result<bool, DiskError> {
        mount::unmount(&self.root.place(&mount.path)?, &mount.path, false)?;
        self.root.remove_file(&mount.path)?;
        self.root.remove_file(&self.block_record(&mount.path))?;
        let last = !self.mounts()?.iter().any(|m| m.volume == mount.volume);
        if let Some(plugged) = self.get(&mount.volume) {
            plugged.device.write_back();
            if mount.readonly && last {
                plugged.device.set_readonly(false)?;
            }
        }
        Ok(true)
    }

    /// Removes a leftover target path: an empty directory or an empty file.
    pub fn remove_target(&self, path: &Path) -> Result<(), DiskError> {
        let empty_file = self.root.read(path).is_ok_and(|data| data.is_some_and(|d| d.is_empty()));
        if empty_file {
            self.root.remove_file(path)?;
            self.root.remove_file(&self.block_record(path))?;
            return Ok(());
        }
        self.root.remove_dir(path).map(drop)
    }
}
