//! Staging: from a device to a mounted filesystem.

use std::path::Path;

use super::device::all_zero;
use super::ledger::{Plugged, occupied};
use super::mount::Options;
use super::tools::{self, Found};
use super::{Inner, mount, text};
use crate::{DiskError, Mount, Stage, Staged};

impl Inner {
    /// Creates a filesystem if the device is truly empty. Returns true if it did.
    pub fn format(&self, plugged: &Plugged, stage: &Stage) -> Result<bool, DiskError> {
        let corrupt = |reason: String| DiskError::Corrupt { volume: stage.volume.clone(), reason };
        let marker = self.volumes.path().join(format!("{}.mkfs", plugged.record.file));
        match tools::probe(&plugged.device.path())? {
            Found::Filesystem(found) if found == stage.fs_type => return Ok(false),
            Found::Filesystem(found) => {
                return Err(corrupt(format!("it has a {found} filesystem, {} was asked for", stage.fs_type)));
            }
            Found::Other(found) => return Err(corrupt(format!("it holds {found}"))),
            Found::Nothing if stage.readonly => {
                return Err(corrupt("it is empty and cannot be formatted read-only".to_owned()));
            }
            // blkid reports nothing for a filesystem with a broken superblock, so the bytes are checked, too. Only an
            // interrupted mkfs of Mooring may have written some.
            Found::Nothing => {
                let path = self.volumes.path().join(&plugged.record.file);
                if self.volumes.read(&marker)?.is_none() && !all_zero(&plugged.file, &path)? {
                    return Err(corrupt("it has data but no filesystem that blkid knows".to_owned()));
                }
            }
        }
        self.volumes.write(&marker, b"mkfs was begun\n")?;
        plugged.device.unused()?;
        plugged.device.verify()?;
        tools::make(&plugged.device.path(), &stage.fs_type, &stage.format)?;
        self.volumes.remove_file(&marker)?;
        Ok(true)
    }

    pub fn stage(&self, stage: &Stage) -> Result<Staged, DiskError> {
        let path = self.root.absolute(&stage.path)?;
        let mounts = self.mounts()?;
        if let Some(there) = mounts.iter().rfind(|m| m.path == path) {
            if there.volume != stage.volume {
                return Err(occupied(&path, format!("volume {} is mounted", there.volume)));
            }
            let readonly = there.readonly;
            if let Some(plugged) = self.get(&stage.volume).filter(|_| !readonly) {
                // The earlier mount may have been interrupted before the growth. An ext4 grows before it is mounted.
                if stage.fs_type != "ext4" {
                    self.grow(&plugged, &path, false)?;
                }
                self.give(&path, stage.group)?;
            }
            return Ok(Staged { readonly, already: true, ..Staged::default() });
        }
        if let Some(m) = mounts.iter().find(|m| m.volume == stage.volume) {
            return Err(occupied(&path, format!("volume {} is mounted at {}", stage.volume, m.path.display())));
        }
        let plugged = self.get(&stage.volume).ok_or_else(|| DiskError::NotPlugged(stage.volume.clone()))?;
        plugged.device.verify()?;
        let options = Options::new(&stage.mount_flags, stage.readonly)?;
        let formatted = self.format(&plugged, stage)?;
        if !formatted && !stage.readonly {
            tools::check(&plugged.device.path(), &stage.fs_type)
                .map_err(|reason| DiskError::Corrupt { volume: stage.volume.clone(), reason })?;
            // A copy of a smaller volume, or one that grew while unmounted.
            self.grow_unmounted(&plugged)?;
        }
        self.root.make_dirs(&path)?;
        let target = self.root.dir(&path)?;
        let mount = mount::filesystem(&plugged.device.path(), &stage.fs_type, &options)?;
        self.root.write(&self.record_path("staged", &stage.volume), path.as_os_str().as_encoded_bytes())?;
        mount.attach(&target, &path)?;
        let readonly = self.seen(&stage.volume, &path)?.readonly;
        if readonly != stage.readonly {
            // The kernel mounts a read-only device without an error and then refuses writes.
            mount::unmount(&self.root.place(&path)?, &path, false)?;
            let reason = format!("asked for readonly={}, the kernel mounted it readonly={readonly}", stage.readonly);
            return Err(DiskError::Corrupt { volume: stage.volume.clone(), reason });
        }
        if !readonly {
            // Filesystems that grow only while mounted do so before they have users.
            let done = self.grow(&plugged, &path, false).and_then(|()| self.give(&path, stage.group));
            if let Err(error) = done {
                mount::unmount(&self.root.place(&path)?, &path, false)?;
                return Err(error);
            }
        }
        let (fs_type, options) = (stage.fs_type.clone(), stage.mount_flags.clone());
        Ok(Staged { formatted, readonly, fs_type, options, ..Staged::default() })
    }

    /// Returns the kernel's mount of `volume` at `path`.
    pub fn seen(&self, volume: &str, path: &Path) -> Result<Mount, DiskError> {
        let found = self.mounts()?.into_iter().rfind(|m| m.path == path && m.volume == volume);
        found.ok_or_else(|| DiskError::NotStaged { volume: volume.to_owned(), path: text(path) })
    }

    pub fn unstage(&self, volume: &str, path: &Path) -> Result<bool, DiskError> {
        let path = self.root.absolute(path)?;
        let mounts = self.mounts()?;
        match mounts.iter().rfind(|m| m.path == path) {
            None => return Ok(false),
            Some(m) if m.volume != volume => {
                return Err(occupied(&path, format!("volume {} is mounted", m.volume)));
            }
            Some(_) => {}
        }
        // umount would succeed while a bind mount keeps the filesystem alive.
        let others: Vec<_> =
            mounts.iter().filter(|m| m.volume == volume && m.path != path).map(|m| text(&m.path)).collect();
        if !others.is_empty() {
            let by = format!("also mounted at {}", others.join(", "));
            return Err(DiskError::Busy { volume: volume.to_owned(), by });
        }
        mount::unmount(&self.root.place(&path)?, &path, false)?;
        self.root.remove_file(&self.record_path("staged", volume))?;
        Ok(true)
    }
}
