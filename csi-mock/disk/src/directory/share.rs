//! Shared file systems in the backend of directories: a volume is a link to a directory that all nodes share.

use std::os::fd::OwnedFd;
use std::path::Path;

use super::{Inner, MountRecord, cannot, occupied};
use crate::{DiskError, MountKind, Published, Share};

impl Inner {
    pub(super) fn mount_share(&self, share: &Share) -> Result<Published, DiskError> {
        if share.readonly {
            return Err(cannot("publish read-only", "a symlink cannot refuse writes"));
        }
        let path = self.root.absolute(&share.path)?;
        match self.mounts()?.iter().find(|m| m.path == path) {
            Some(m) if m.volume == share.volume => {
                return Ok(Published { readonly: false, already: true, options: None });
            }
            Some(m) => return Err(occupied(&path, format!("volume {} is mounted", m.volume))),
            None => {}
        }
        let bytes = share.bytes(self.volumes.path())?;
        self.volumes.make_dirs(&bytes)?;
        let volume = share.volume.clone();
        self.link(&MountRecord { volume, path, staging: false, share: true }, &bytes)?;
        Ok(Published { readonly: false, already: false, options: None })
    }

    /// Opens the directory of a file of a shared file system, which is then locked.
    pub(super) fn shared_dir(&self, path: &Path) -> Result<Option<OwnedFd>, DiskError> {
        let absolute = self.root.absolute(path)?;
        let shares = self.mounts()?.into_iter().filter(|m| m.kind == MountKind::Share);
        if !shares.into_iter().any(|m| absolute.starts_with(&m.path)) {
            return Ok(None);
        }
        let (root, place) = self.place(path)?;
        root.readable_dir(place.parent().unwrap_or(&place)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::DirectoryDisk;
    use super::*;
    use crate::Disk;

    fn share(disk: &DirectoryDisk) -> Share {
        let path = disk.0.root.path().join("pods/p/mount");
        let (volume, file_system) = ("fs-01234567::fsap-01234567".to_owned(), "fs-01234567".to_owned());
        Share { volume, file_system, directory: "/a/b".to_owned(), path, ..Share::default() }
    }

    #[tokio::test]
    async fn two_nodes_see_one_directory() {
        let dir = tempfile::tempdir().unwrap();
        let node = |name: &str| DirectoryDisk::new(name, &dir.path().join(name), &dir.path().join("volumes")).unwrap();
        let disks = [node("a"), node("b")];
        for disk in &disks {
            let share = share(disk);
            disk.make_dir(share.path.parent().unwrap()).await.unwrap();
            let first = disk.mount_share(&share).await.unwrap();
            let again = disk.mount_share(&share).await.unwrap();
            assert!(!first.already && again.already);
            let mounts = disk.mounts().await.unwrap();
            assert_eq!((mounts.len(), mounts[0].kind, &mounts[0].volume), (1, MountKind::Share, &share.volume));
        }
        let [a, b] = &disks;
        let file = |disk: &DirectoryDisk| share(disk).path.join("f");
        a.append(&file(a), b"record").await.unwrap();
        assert_eq!(b.read(&file(b)).await.unwrap().as_deref(), Some(&b"record"[..]));
        let lock = a.lock(&file(a)).await.unwrap().unwrap();
        let held = file(b);
        let waits = b.lock(&held);
        let early = tokio::time::timeout(std::time::Duration::from_millis(50), waits).await;
        assert!(early.is_err(), "the other node holds the lock");
        drop(lock);
        assert!(b.lock(&file(b)).await.unwrap().is_some());
        assert!(a.lock(&PathBuf::from(a.0.root.path()).join("own")).await.unwrap().is_none());
        a.crash().await.unwrap();
        assert!(a.mounts().await.unwrap().is_empty());
        let volume = share(b).volume;
        assert!(b.unpublish(&volume, &share(b).path).await.unwrap());
        assert!(b.mounts().await.unwrap().is_empty());
    }
}
