//! Bytes of volumes: one sparse file per volume, named by its id, in a directory reserved for them. Nodes without block
//! devices keep the filesystem of a volume in a directory beside its file ([`crate::tree`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::config::Error;
use crate::copy::Copy;
use crate::state::error::Ec2Error;
use crate::state::ids::{SnapshotId, VolumeId};
use crate::state::{NewVolume, Source};
use crate::tree::{self, Tree};

/// Marks a directory as mock-ec2's own, and is locked while in use.
const LOCK_FILE: &str = ".mock-ec2.lock";
/// Free space left to other programs: below it no volume is created.
const RESERVE: u64 = 64 << 20;
/// Largest file of ext4 with its usual blocks: 2³² blocks, less one.
const EXT4_END: u64 = EXT4_BLOCK << 32;
/// Usual block size of ext4.
const EXT4_BLOCK: u64 = 4_096;
/// Lifetime of a count of used bytes; counting reads the metadata of every file.
const COUNT_AGE: Duration = Duration::from_secs(1);

/// Directory of backing files.
#[derive(Debug)]
pub(crate) struct VolumeFiles {
    dir: PathBuf,
    limit: Option<u64>,
    counted: Option<(Duration, u64)>,
    keep: bool,
    /// Directories that copies may read, by the name of their file.
    read: BTreeMap<String, Vec<Weak<Tree>>>,
    _lock: File,
}

impl VolumeFiles {
    /// Opens `dir`, creates it if needed, and removes files of a killed run unless `keep`.
    ///
    /// # Errors
    /// If another mock-ec2 uses it, it holds foreign files that look like volumes, or it cannot be used.
    pub(crate) fn open(dir: &Path, limit: Option<u64>, keep: bool) -> Result<Self, Error> {
        let bad = |reason: String| Error::VolumeDir { path: dir.to_owned(), reason };
        let io = |e: io::Error| bad(e.to_string());
        fs::create_dir_all(dir).map_err(io)?;
        let lock_path = dir.join(LOCK_FILE);
        if !lock_path.exists()
            && let Some(found) = files_in(dir).map_err(io)?.first()
        {
            return Err(bad(format!("holds {found}, which no mock-ec2 made; use an empty directory")));
        }
        let lock = OpenOptions::new().create(true).append(true).open(&lock_path).map_err(io)?;
        lock.try_lock().map_err(|e| match e {
            fs::TryLockError::WouldBlock => bad("is used by another mock-ec2; give each its own".to_owned()),
            fs::TryLockError::Error(e) => io(e),
        })?;
        // Only the holder of the lock gets a value, because dropping it removes files.
        let mut files = Self { dir: dir.to_owned(), limit, counted: None, keep, read: BTreeMap::new(), _lock: lock };
        if !keep {
            files.clear();
        }
        Ok(files)
    }

    /// Creates the sparse file of `new`, and returns its length in bytes.
    pub(crate) fn create(&mut self, now: Duration, new: &NewVolume) -> Result<u64, Ec2Error> {
        self.check_room(now)?;
        let path = self.path(&new.id);
        let made = OpenOptions::new().write(true).create_new(true).open(&path).and_then(|file| {
            let bytes = new.size_gib.checked_mul(1 << 30).ok_or(io::ErrorKind::FileTooLarge)?;
            stretch(&file, bytes)
        });
        made.map_err(|error| {
            // A file without its length must not stay.
            let _ = fs::remove_file(&path);
            Ec2Error::InsufficientVolumeCapacity(format!(
                "The backing file of {} GiB cannot be made in {}: {error}",
                new.size_gib,
                self.dir.display()
            ))
        })
    }

    /// Gives a new volume the bytes of its source: at once if the filesystem shares blocks, else returns a copy to run
    /// elsewhere.
    pub(crate) fn restore(&mut self, new: &NewVolume) -> io::Result<Option<Copy>> {
        match &new.source {
            None => Ok(None),
            Some(Source::Snapshot(snapshot)) => self.share(snapshot.as_str(), new.id.as_str()),
            Some(Source::Volume(volume)) => self.share(volume.as_str(), new.id.as_str()),
        }
    }

    /// Keeps the current bytes of the file `from` (of a volume or a snapshot, maybe of another region) as `snapshot`.
    pub(crate) fn snapshot(&mut self, now: Duration, from: &Path, snapshot: &SnapshotId) -> io::Result<Option<Copy>> {
        self.check_room(now).map_err(|e| io::Error::new(io::ErrorKind::StorageFull, e.to_string()))?;
        let path = self.dir.join(snapshot.as_str());
        OpenOptions::new().write(true).create_new(true).open(&path)?;
        if !from.exists() {
            // A root volume has no bytes here, so volumes from its snapshots start empty.
            return Ok(None);
        }
        self.counted = None;
        self.opened(Copy::open(from, &path)?)
    }

    /// Creates the file of a snapshot of `size_gib` that is written block by block, with the bytes of `parent`.
    pub(crate) fn begin(
        &mut self,
        now: Duration,
        snapshot: &SnapshotId,
        size_gib: u64,
        parent: Option<&SnapshotId>,
    ) -> io::Result<Option<Copy>> {
        self.check_room(now).map_err(|e| io::Error::new(io::ErrorKind::StorageFull, e.to_string()))?;
        let file = OpenOptions::new().write(true).create_new(true).open(self.dir.join(snapshot.as_str()))?;
        stretch(&file, size_gib.checked_mul(1 << 30).ok_or(io::ErrorKind::FileTooLarge)?)?;
        match parent {
            Some(parent) => self.share(parent.as_str(), snapshot.as_str()),
            None => Ok(None),
        }
    }

    /// Opens the file of `snapshot` for writing a block.
    pub(crate) fn open_to_write(&mut self, now: Duration, snapshot: &SnapshotId) -> io::Result<File> {
        self.check_room(now).map_err(|e| io::Error::new(io::ErrorKind::StorageFull, e.to_string()))?;
        OpenOptions::new().write(true).open(self.dir.join(snapshot.as_str()))
    }

    /// Returns the path of the file `name`.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Overwrites the existing `snapshot` with the current bytes of `volume`.
    pub(crate) fn take_again(&mut self, volume: &VolumeId, snapshot: &SnapshotId) -> io::Result<()> {
        match self.share(volume.as_str(), snapshot.as_str())? {
            Some(copy) => copy.by_extents(&|| false).map(drop),
            None => Ok(()),
        }
    }

    /// Resizes the file of `volume`.
    pub(crate) fn grow(&mut self, volume: &VolumeId, size_gib: u64) -> io::Result<()> {
        let path = self.path(volume);
        let bytes = size_gib.checked_mul(1 << 30).ok_or(io::ErrorKind::FileTooLarge)?;
        match OpenOptions::new().write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            opened => opened.and_then(|file| stretch(&file, bytes)).map(|_| ()),
        }
    }

    fn share(&mut self, from: &str, to: &str) -> io::Result<Option<Copy>> {
        self.counted = None;
        let copy = Copy::open(&self.dir.join(from), &self.dir.join(to))?;
        self.opened(copy)
    }

    /// Shares the bytes if that is possible. If not, returns the copy, which is made elsewhere.
    fn opened(&mut self, copy: Copy) -> io::Result<Option<Copy>> {
        if copy.by_reference()? {
            return Ok(None);
        }
        self.note(&copy);
        Ok(Some(copy))
    }

    /// Opens a copy of the existing file `from` into the existing file `into`.
    pub(crate) fn copy(&mut self, from: &str, into: &str) -> io::Result<Copy> {
        let copy = Copy::open(&self.dir.join(from), &self.dir.join(into))?;
        self.note(&copy);
        Ok(copy)
    }

    /// Remembers the directory that a copy reads.
    fn note(&mut self, copy: &Copy) {
        if let Some(tree) = copy.tree() {
            self.read.retain(|_, trees| trees.iter().any(|tree| tree.strong_count() > 0));
            self.read.entry(tree.name().to_owned()).or_default().push(Arc::downgrade(tree));
        }
    }

    /// Creates the file of `volume` if it is missing.
    pub(crate) fn complete(&self, volume: &VolumeId, size_gib: u64) -> io::Result<()> {
        let path = self.path(volume);
        if path.exists() {
            return Ok(());
        }
        let bytes = size_gib.checked_mul(1 << 30).ok_or(io::ErrorKind::FileTooLarge)?;
        OpenOptions::new().write(true).create_new(true).open(path).and_then(|file| stretch(&file, bytes)).map(|_| ())
    }

    /// Removes the file and the directory of the volume or snapshot `name`; succeeds if there is none.
    pub(crate) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.counted = None;
        let path = self.dir.join(name);
        let readers: Vec<_> = self.read.remove(name).iter().flatten().filter_map(Weak::upgrade).collect();
        tree::remove(&path, &readers)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the files of all volumes and snapshots except those in `known`.
    pub(crate) fn keep_only(&mut self, known: &BTreeSet<String>) {
        for name in files_in(&self.dir).unwrap_or_default().iter().filter(|name| !known.contains(*name)) {
            let _ = self.remove(name);
        }
    }

    /// Removes the files of all volumes and snapshots.
    pub(crate) fn clear(&mut self) {
        for name in files_in(&self.dir).unwrap_or_default() {
            // A remaining file is found at the next start.
            let _ = self.remove(&name);
        }
    }

    fn check_room(&mut self, now: Duration) -> Result<(), Ec2Error> {
        let full = |text: String| Ec2Error::InsufficientVolumeCapacity(text);
        let dir = self.dir.display();
        let space = rustix::fs::statvfs(&self.dir).map_err(|e| full(format!("{dir}: {e}")))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < RESERVE {
            let text = format!(
                "The filesystem of {dir} has {} MiB left; at least {} MiB must stay free.",
                free >> 20,
                RESERVE >> 20
            );
            return Err(full(text));
        }
        let Some(limit) = self.limit else { return Ok(()) };
        let used = match self.counted {
            Some((at, used)) if now < at + COUNT_AGE => used,
            _ => files_in(&self.dir).and_then(|all| self.used(&all)).map_err(|e| full(format!("{dir}: {e}")))?,
        };
        self.counted = Some((now, used));
        if used >= limit {
            let dir = self.dir.display();
            return Err(full(format!(
                "The volumes in {dir} occupy {} MiB, the limit is {} MiB. Delete volumes or raise --disk-limit.",
                used >> 20,
                limit >> 20
            )));
        }
        Ok(())
    }

    /// Returns the space that the files `names` occupy, in bytes.
    fn used(&self, names: &[String]) -> io::Result<u64> {
        let mut total: u64 = 0;
        for name in names {
            match fs::symlink_metadata(self.dir.join(name)) {
                // st_blocks counts 512-byte units regardless of the filesystem's block size.
                Ok(meta) => total = total.saturating_add(meta.blocks().saturating_mul(512)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            total = total.saturating_add(tree::used(&self.dir.join(name))?);
        }
        Ok(total)
    }

    fn path(&self, volume: &VolumeId) -> PathBuf {
        self.dir.join(volume.as_str())
    }
}

/// Sets the length of `file`. The largest file of ext4 is one block short of 16 TiB, which is the largest gp2 and io1
/// volume. There the last block is left out.
fn stretch(file: &File, bytes: u64) -> io::Result<u64> {
    match file.set_len(bytes) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge && bytes == EXT4_END => {
            let bytes = bytes - EXT4_BLOCK;
            file.set_len(bytes).map(|()| bytes)
        }
        outcome => outcome.map(|()| bytes),
    }
}

/// Returns the ids of volumes and snapshots with a file or a directory in `dir`.
fn files_in(dir: &Path) -> io::Result<Vec<String>> {
    let ours = |name: &str| name.parse::<VolumeId>().is_ok() || name.parse::<SnapshotId>().is_ok();
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir)? {
        found.extend(entry?.file_name().to_str().map(tree::id).filter(|name| ours(name)).map(str::to_owned));
    }
    Ok(found.into_iter().collect())
}

impl Drop for VolumeFiles {
    fn drop(&mut self) {
        if !self.keep {
            self.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(id: &str, size_gib: u64) -> NewVolume {
        NewVolume { id: id.parse().unwrap(), size_gib, source: None }
    }

    #[test]
    fn a_file_is_sparse_has_the_volumes_size_and_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = VolumeFiles::open(dir.path(), Some(1 << 20), false).unwrap();
        let volume = new("vol-0123456789abcdef0", 100);
        files.create(Duration::ZERO, &volume).unwrap();
        let meta = fs::metadata(dir.path().join("vol-0123456789abcdef0")).unwrap();
        assert_eq!(meta.len(), 100 << 30);
        assert!(meta.blocks() < 100);
        files.remove(volume.id.as_str()).unwrap();
        assert_eq!(files_in(dir.path()).unwrap(), [""; 0]);
    }

    #[test]
    fn sixteen_tebibytes_fit_but_for_one_block_at_most() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = VolumeFiles::open(dir.path(), None, false).unwrap();
        let bytes = files.create(Duration::ZERO, &new("vol-00000001", 16_384)).unwrap();
        assert!(bytes == EXT4_END || bytes == EXT4_END - EXT4_BLOCK, "{bytes}");
    }

    #[test]
    fn a_full_cap_is_a_clear_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = VolumeFiles::open(dir.path(), Some(4096), false).unwrap();
        files.create(Duration::ZERO, &new("vol-00000001", 1)).unwrap();
        fs::write(dir.path().join("vol-00000001"), vec![1; 8192]).unwrap();
        let later = Duration::from_secs(2);
        let error = files.create(later, &new("vol-00000002", 1)).unwrap_err();
        assert_eq!(error.code(), "InsufficientVolumeCapacity");
        assert!(error.to_string().contains("--disk-limit"), "{error}");
        assert!(!dir.path().join("vol-00000002").exists());
    }

    #[test]
    fn a_directory_has_one_user_and_leftovers_of_a_dead_one_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let first = VolumeFiles::open(dir.path(), None, false).unwrap();
        assert!(VolumeFiles::open(dir.path(), None, false).unwrap_err().to_string().contains("another mock-ec2"));
        drop(first);
        fs::write(dir.path().join("vol-00000001"), "left").unwrap();
        let _again = VolumeFiles::open(dir.path(), None, false).unwrap();
        assert_eq!(files_in(dir.path()).unwrap(), [""; 0]);
    }

    #[test]
    fn the_directory_of_a_volume_is_kept_as_a_snapshot_restored_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = VolumeFiles::open(dir.path(), None, false).unwrap();
        let volume = new("vol-00000001", 1);
        files.create(Duration::ZERO, &volume).unwrap();
        let from = dir.path().join("vol-00000001");
        fs::create_dir(tree::path(&from)).unwrap();
        fs::write(tree::path(&from).join("file"), "bytes").unwrap();
        let snapshot: SnapshotId = "snap-00000001".parse().unwrap();
        let copy = files.snapshot(Duration::ZERO, &from, &snapshot).unwrap().unwrap();
        files.remove("vol-00000001").unwrap();
        assert!(copy.by_extents(&|| false).unwrap());
        drop(copy);
        let source = Some(Source::Snapshot(snapshot));
        let restored = NewVolume { id: "vol-00000002".parse().unwrap(), size_gib: 1, source };
        files.create(Duration::ZERO, &restored).unwrap();
        assert!(files.restore(&restored).unwrap().unwrap().by_extents(&|| false).unwrap());
        assert_eq!(fs::read(dir.path().join("vol-00000002.dir/file")).unwrap(), b"bytes");
        assert_eq!(files_in(dir.path()).unwrap(), ["snap-00000001", "vol-00000002"]);
        files.clear();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the lock");
    }

    #[test]
    fn files_of_others_are_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("vol-00000001"), "precious").unwrap();
        assert!(VolumeFiles::open(dir.path(), None, false).unwrap_err().to_string().contains("vol-00000001"));
        assert_eq!(fs::read(dir.path().join("vol-00000001")).unwrap(), b"precious");
    }
}
