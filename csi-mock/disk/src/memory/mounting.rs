//! Staging, publishing and their inverses, on one node of the model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::model::{Cache, Node, Volume, clean, text};
use crate::{Backend, DiskError, Mount, MountKind, Publish, Published, Stage, Staged};

type Volumes = BTreeMap<String, Volume>;

pub(super) fn occupied(path: &Path, by: impl Into<String>) -> DiskError {
    DiskError::Occupied { path: text(path), by: by.into() }
}

/// Creates a filesystem on an empty device. Returns true if it did.
fn format(volume: &mut Volume, stage: &Stage) -> Result<bool, DiskError> {
    let corrupt = |reason: String| Err(DiskError::Corrupt { volume: stage.volume.clone(), reason });
    match &volume.fs_type {
        Some(found) if *found == stage.fs_type => Ok(false),
        Some(found) => corrupt(format!("it has a {found} filesystem, {} was asked for", stage.fs_type)),
        None if stage.readonly => corrupt("it is empty and cannot be formatted read-only".to_owned()),
        None if volume.used() > 0 => corrupt("it has data but no filesystem".to_owned()),
        None => {
            volume.fs_type = Some(stage.fs_type.clone());
            volume.fs_bytes = volume.size_bytes;
            Ok(true)
        }
    }
}

impl Node {
    pub fn stage(
        &mut self,
        volumes: &mut Volumes,
        stage: &Stage,
        other_writers: Vec<String>,
    ) -> Result<Staged, DiskError> {
        let path = clean(&stage.path)?;
        if let Some(there) = self.mounts.get(&path) {
            return if there.volume == stage.volume {
                Ok(Staged { readonly: there.readonly, already: true, other_writers, ..Staged::default() })
            } else {
                Err(occupied(&path, format!("volume {} is mounted", there.volume)))
            };
        }
        if let Some(elsewhere) = self.mounts_of(&stage.volume).find(|m| m.kind != MountKind::Target) {
            let by = format!("volume {} is staged at {}", stage.volume, elsewhere.path.display());
            return Err(occupied(&path, by));
        }
        if !self.devices.contains_key(&stage.volume) {
            return Err(DiskError::NotPlugged(stage.volume.clone()));
        }
        let volume = volumes.entry(stage.volume.clone()).or_default();
        let formatted = format(volume, stage)?;
        if !stage.readonly {
            // A copy of a smaller volume grows before it has users.
            volume.fs_bytes = volume.fs_bytes.max(volume.size_bytes);
            volume.group = stage.group.or(volume.group);
        }
        self.make_dirs(&path)?;
        self.caches.insert(stage.volume.clone(), Cache::of(volume, stage.readonly));
        let readonly = stage.readonly;
        let mount =
            Mount { volume: stage.volume.clone(), path: path.clone(), kind: MountKind::Staging, readonly, group: None };
        self.mounts.insert(&path, mount);
        let (fs_type, options) = (volume.fs_type.clone().unwrap_or_default(), stage.mount_flags.clone());
        let fs_bytes = Some(volume.fs_bytes);
        Ok(Staged { formatted, readonly, already: false, fs_type, options, fs_bytes, other_writers })
    }

    pub fn unstage(&mut self, volumes: &mut Volumes, volume: &str, path: &Path) -> Result<bool, DiskError> {
        let path = clean(path)?;
        match self.mounts.get(&path) {
            None => return Ok(false),
            Some(m) if m.volume != volume => {
                return Err(occupied(&path, format!("volume {} is mounted", m.volume)));
            }
            Some(_) => {}
        }
        let others: Vec<_> = self.mounts_of(volume).filter(|m| m.path != path).map(|m| text(&m.path)).collect();
        if !others.is_empty() {
            let by = format!("also mounted at {}", others.join(", "));
            return Err(DiskError::Busy { volume: volume.to_owned(), by });
        }
        self.mounts.remove(&path);
        self.close(volumes, volume);
        Ok(true)
    }

    /// Writes back the cache of a volume without users.
    fn close(&mut self, volumes: &mut Volumes, volume: &str) {
        if let Some(mut cache) = self.caches.remove(volume) {
            cache.flush(volumes.entry(volume.to_owned()).or_default());
        }
    }

    /// Closes a raw device that is neither mounted nor open. A filesystem is closed by its unstage.
    pub fn close_unused(&mut self, volumes: &mut Volumes, volume: &str) {
        let open = self.open.values().any(|(held, _)| held == volume);
        if !open && self.mounts_of(volume).next().is_none() {
            self.close(volumes, volume);
        }
    }

    pub fn publish(&mut self, volumes: &mut Volumes, publish: &Publish) -> Result<Published, DiskError> {
        if publish.block {
            return self.publish_block(volumes, publish);
        }
        let (staging, path) = (clean(&publish.staging_path)?, clean(&publish.path)?);
        let Some(staged) = self.mounts.get(&staging).filter(|m| m.volume == publish.volume) else {
            return Err(DiskError::NotStaged { volume: publish.volume.clone(), path: text(&staging) });
        };
        let readonly = publish.readonly || staged.readonly;
        if let Some(done) = self.published(publish, &path)? {
            return Ok(done);
        }
        self.make_dirs(&path)?;
        if let (Some(group), false) = (publish.group, readonly) {
            volumes.entry(publish.volume.clone()).or_default().group = Some(group);
        }
        self.mount_at(publish, path, MountKind::Target, readonly);
        Ok(Published { readonly, already: false, options: None })
    }

    fn publish_block(&mut self, volumes: &mut Volumes, publish: &Publish) -> Result<Published, DiskError> {
        let path = clean(&publish.path)?;
        if !self.devices.contains_key(&publish.volume) {
            return Err(DiskError::NotPlugged(publish.volume.clone()));
        }
        if let Some(done) = self.published(publish, &path)? {
            return Ok(done);
        }
        if let Some(mounted) = self.mounts_of(&publish.volume).find(|m| !m.kind.is_raw()) {
            let by = format!("its filesystem is mounted at {}", mounted.path.display());
            return Err(DiskError::Busy { volume: publish.volume.clone(), by });
        }
        if self.mounts_of(&publish.volume).any(|m| m.readonly != publish.readonly) {
            let by = "it is published with the other kind of access, and a device has one".to_owned();
            return Err(DiskError::Busy { volume: publish.volume.clone(), by });
        }
        let volume = volumes.entry(publish.volume.clone()).or_default();
        let cache = || Cache::of(volume, publish.readonly);
        self.caches.entry(publish.volume.clone()).or_insert_with(cache);
        self.mount_at(publish, path, MountKind::Block, publish.readonly);
        Ok(Published { readonly: publish.readonly, already: false, options: None })
    }

    /// Returns the existing publish at a target path. Fails if the path is occupied or has no parent.
    fn published(&self, publish: &Publish, path: &Path) -> Result<Option<Published>, DiskError> {
        match self.mounts.get(path) {
            Some(there) if there.volume == publish.volume && (there.kind == MountKind::Block) == publish.block => {
                Ok(Some(Published { readonly: there.readonly, already: true, options: None }))
            }
            Some(there) => Err(occupied(path, format!("volume {} is mounted", there.volume))),
            None if path.parent().is_some_and(|p| self.is_dir(p)) => Ok(None),
            None => Err(DiskError::errno("mkdir", text(path), Errno::NOENT)),
        }
    }

    fn mount_at(&mut self, publish: &Publish, path: PathBuf, kind: MountKind, readonly: bool) {
        let mount = Mount { volume: publish.volume.clone(), path: path.clone(), kind, readonly, group: None };
        self.mounts.insert(&path, mount);
    }

    pub fn give(&mut self, volumes: &mut Volumes, path: &Path, group: u32) -> Result<(), DiskError> {
        let path = clean(path)?;
        let Some(mount) = self.mounts.get(&path).filter(|m| !m.kind.is_raw()) else {
            return Err(DiskError::NotStaged { volume: String::new(), path: text(&path) });
        };
        if mount.kind == MountKind::Share {
            let reason =
                "give a shared file system to a group: its files belong to the user of its access point".to_owned();
            return Err(DiskError::Unsupported { backend: Backend::Memory, reason });
        }
        if mount.readonly {
            return Err(DiskError::errno("chown", text(&path), Errno::ROFS));
        }
        let volume = mount.volume.clone();
        self.alive(&volume, "chown", &path)?;
        volumes.entry(volume).or_default().group = Some(group);
        Ok(())
    }

    pub fn unpublish(&mut self, volumes: &mut Volumes, volume: &str, path: &Path) -> Result<bool, DiskError> {
        let path = clean(path)?;
        let mounted = match self.mounts.get(&path) {
            Some(m) if m.volume != volume => {
                return Err(occupied(&path, format!("volume {} is mounted", m.volume)));
            }
            Some(m) if m.kind == MountKind::Staging => return Err(occupied(&path, "the volume is staged here")),
            Some(m) if m.kind == MountKind::Map => return Err(occupied(&path, "the node agent has the device here")),
            found => found.is_some(),
        };
        self.mounts.remove(&path);
        self.shares.remove(&path);
        self.root.remove(&path);
        self.close_unused(volumes, volume);
        Ok(mounted)
    }

    pub fn expand(&mut self, volumes: &mut Volumes, volume: &str, path: &Path) -> Result<u64, DiskError> {
        let path = clean(path)?;
        let Some(mount) = self.mounts.get(&path).filter(|m| m.volume == volume) else {
            return Err(DiskError::NotStaged { volume: volume.to_owned(), path: text(&path) });
        };
        let (readonly, block) = (mount.readonly, mount.kind.is_raw());
        self.alive(volume, "resize", &path)?;
        let bytes = volumes.entry(volume.to_owned()).or_default();
        if let Some(device) = self.devices.get_mut(volume) {
            device.size_bytes = bytes.size_bytes;
        }
        if !block {
            if readonly && bytes.fs_bytes < bytes.size_bytes {
                return Err(DiskError::errno("resize", text(&path), Errno::ROFS));
            }
            bytes.fs_bytes = bytes.size_bytes;
        }
        Ok(bytes.size_bytes)
    }
}
