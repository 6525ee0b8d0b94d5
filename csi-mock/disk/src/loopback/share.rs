//! Shared file systems of a live cluster: a bind mount of a directory that all nodes share. A record names the volume of
//! each mount.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ledger::occupied;
use super::mount::{self, Options};
use super::mountinfo::Entry;
use super::{Inner, RECORDS, text};
use crate::{DiskError, Mount, MountKind, Published, Share};

/// Record of a mount; valid only while the mount exists.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ShareRecord {
    volume: String,
}

impl Inner {
    pub fn share_record(&self, path: &Path) -> PathBuf {
        let key = hex::encode(&Sha256::digest(path.as_os_str().as_encoded_bytes())[..16]);
        self.at(&format!("{RECORDS}/shares/{key}"))
    }

    /// Returns the mounted share in a line of mountinfo.
    pub fn share_mount(&self, entry: &Entry) -> Option<Mount> {
        let data = self.root.read(&self.share_record(&entry.path)).ok()??;
        let ShareRecord { volume } = serde_json::from_slice(&data).ok()?;
        let (path, kind, readonly) = (entry.path.clone(), MountKind::Share, entry.readonly);
        Some(Mount { volume, path, kind, readonly, group: None })
    }

    pub fn mount_share(&self, share: &Share) -> Result<Published, DiskError> {
        let path = self.root.absolute(&share.path)?;
        match self.mounts()?.iter().rfind(|m| m.path == path) {
            Some(m) if m.volume == share.volume => {
                return Ok(Published { readonly: m.readonly, already: true, options: None });
            }
            Some(m) => return Err(occupied(&path, format!("volume {} is mounted", m.volume))),
            None => {}
        }
        let options = Options::new(&share.mount_flags, share.readonly)?;
        let bytes = share.bytes(self.volumes.path())?;
        self.volumes.make_dirs(&bytes)?;
        let place = self.root.place(&path)?;
        match rustix::fs::mkdirat(&place.parent, &place.name, Mode::from_raw_mode(0o750)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(DiskError::errno("mkdir", text(&path), error)),
        }
        let record = serde_json::to_vec(&ShareRecord { volume: share.volume.clone() })
            .map_err(|e| DiskError::io("write", text(&path), std::io::Error::other(e)))?;
        self.root.make_dirs(&self.at(&format!("{RECORDS}/shares")))?;
        // A record without a mount is ignored; a mount without a record could not be found.
        self.root.write(&self.share_record(&path), &record)?;
        let bind = mount::copy(&self.volumes.dir(&bytes)?, &bytes)?;
        bind.attach(&self.root.dir(&path)?, &path)?;
        if let Err(error) = bind.restrict(&options, &path) {
            mount::unmount(&place, &path, false)?;
            self.root.remove_file(&self.share_record(&path))?;
            self.root.remove_dir(&path)?;
            return Err(error);
        }
        Ok(Published { readonly: share.readonly, already: false, options: Some(share.mount_flags.clone()) })
    }

    /// Opens the directory of a file of a share, which is then locked.
    pub fn shared_dir(&self, path: &Path) -> Result<Option<OwnedFd>, DiskError> {
        let path = self.root.absolute(path)?;
        if self.root.list(&self.at(&format!("{RECORDS}/shares")))?.is_none() {
            return Ok(None);
        }
        let is_below = |m: &Mount| m.kind == MountKind::Share && path.starts_with(&m.path);
        match path.parent() {
            Some(parent) if self.mounts()?.iter().any(is_below) => self.root.readable_dir(parent).map(Some),
            _ => Ok(None),
        }
    }
}
