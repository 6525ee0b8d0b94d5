//! Filesystems of volumes on nodes without block devices: the directory `ID.dir` beside the backing file of the volume or
//! snapshot `ID`.
//!
//! Entries are opened relative to the descriptor of their directory, and no symlink is followed, because programs in
//! containers write these directories.

use parking_lot::Mutex;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, fchmod, fchown, fstat, futimens,
    ioctl_ficlone, mkdirat, openat, readlinkat, statat, symlinkat,
};
use rustix::io::Errno;

use crate::copy::copy_extents;

/// End of the name of a directory.
const END: &str = ".dir";
/// End of the name of a directory whose volume was deleted while a copy reads it.
const GONE: &str = ".gone";
/// Maximum number of attempts at a copy whose source is written meanwhile.
const ATTEMPTS: u32 = 3;

/// An open directory, which may be renamed meanwhile.
#[derive(Debug)]
pub(crate) struct Tree {
    name: String,
    directory: OwnedFd,
    /// Place of the directory after its volume was deleted.
    gone: Mutex<Option<Arc<Gone>>>,
}

/// A directory of a deleted volume, which goes with its last reader.
#[derive(Debug)]
struct Gone(PathBuf);

/// Returns the path of the directory that belongs to a backing file.
pub(crate) fn path(file: &Path) -> PathBuf {
    with_end(file, END)
}

/// Returns the id in the name of a backing file or of a directory.
pub(crate) fn id(name: &str) -> &str {
    name.strip_suffix(END).or_else(|| name.strip_suffix(GONE)).unwrap_or(name)
}

/// Returns the space that the directory of a backing file occupies, in bytes.
pub(crate) fn used(file: &Path) -> io::Result<u64> {
    let Some(tree) = Tree::open(file)? else { return Ok(0) };
    let mut total: u64 = 0;
    // st_blocks counts 512-byte units regardless of the filesystem's block size.
    each(tree.directory.as_fd(), &mut |stat| {
        total = total.saturating_add((stat.st_blocks as u64).saturating_mul(512))
    })?;
    Ok(total)
}

/// Removes the directory of a backing file. A directory that copies read is removed after the last of them.
pub(crate) fn remove(file: &Path, readers: &[Arc<Tree>]) -> io::Result<()> {
    let (directory, gone) = (path(file), with_end(file, GONE));
    if readers.is_empty() {
        absent(fs::remove_dir_all(&gone))?;
        return absent(fs::remove_dir_all(&directory));
    }
    absent(fs::rename(&directory, &gone))?;
    let gone = Arc::new(Gone(gone));
    for reader in readers {
        *reader.gone.lock() = Some(gone.clone());
    }
    Ok(())
}

impl Tree {
    /// Opens the directory of a backing file. Returns None if no node has formatted the volume.
    pub(crate) fn open(file: &Path) -> io::Result<Option<Self>> {
        match openat(CWD, path(file), DIRECTORY, Mode::empty()) {
            Ok(directory) => {
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok(Some(Self { name, directory, gone: Mutex::default() }))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the id of the volume or snapshot.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Copies everything into the directory of the backing file `to`, which it replaces: files, directories and symlinks
    /// with their owners, modes and times. Sockets, pipes and devices are left out. Returns true if the source was not
    /// written meanwhile; makes up to [`ATTEMPTS`] attempts. Stops early if `stopped` returns true.
    pub(crate) fn copy_to(&self, to: &Path, stopped: &dyn Fn() -> bool) -> io::Result<bool> {
        let target = path(to);
        for _ in 0..ATTEMPTS {
            absent(fs::remove_dir_all(&target))?;
            fs::create_dir(&target)?;
            let before = self.stamp()?;
            let copy = openat(CWD, &target, DIRECTORY, Mode::empty())?;
            let is_whole = copy_all(self.directory.as_fd(), copy.as_fd(), stopped)?;
            dress(copy.as_fd(), &fstat(&self.directory)?)?;
            if !to.exists() {
                // Deleted meanwhile.
                return absent(fs::remove_dir_all(&target)).map(|()| true);
            }
            if fstat(&self.directory)?.st_nlink == 0 {
                let message = format!("the directory of {} was removed while it was copied", self.name);
                return Err(io::Error::new(io::ErrorKind::NotFound, message));
            }
            if is_whole && self.stamp()? == before {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns number, size and time of the last change of every entry.
    fn stamp(&self) -> io::Result<Vec<(u64, i64, i64, u64)>> {
        let mut stamps = Vec::new();
        each(self.directory.as_fd(), &mut |stat| {
            stamps.push((stat.st_ino, stat.st_size, stat.st_ctime, stat.st_ctime_nsec));
        })?;
        stamps.sort_unstable();
        Ok(stamps)
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        // A remaining directory is found at the next start.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Flags that open a directory and no symlink.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn with_end(file: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(end);
    PathBuf::from(name)
}

/// Takes a missing file for success.
fn absent(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Calls `act` with each entry's name and metadata. Entries that are removed meanwhile are left out.
fn entries(directory: BorrowedFd<'_>, act: &mut dyn FnMut(&CStr, &Stat) -> io::Result<()>) -> io::Result<()> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => act(name, &stat)?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Calls `act` with the metadata of everything below a directory.
fn each(directory: BorrowedFd<'_>, act: &mut dyn FnMut(&Stat)) -> io::Result<()> {
    entries(directory, &mut |name, stat| {
        act(stat);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Ok(());
        }
        match openat(directory, name, DIRECTORY, Mode::empty()) {
            Ok(below) => each(below.as_fd(), act),
            // Removed or replaced meanwhile, or closed to this user: a copy fails there.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    })
}

/// Copies everything below a directory. Returns false if something was removed or replaced meanwhile.
fn copy_all(from: BorrowedFd<'_>, to: BorrowedFd<'_>, stopped: &dyn Fn() -> bool) -> io::Result<bool> {
    let mut is_whole = true;
    entries(from, &mut |name, stat| {
        let copied = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => copy_directory(from, to, name, stopped),
            FileType::RegularFile => copy_file(from, to, name, stopped).map(|()| true),
            FileType::Symlink => copy_link(from, to, name).map(|()| true),
            _ => Ok(true),
        };
        match copied {
            Err(error) if is_gone(&error) => is_whole = false,
            copied => is_whole &= copied?,
        }
        Ok(())
    })?;
    Ok(is_whole)
}

fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP].map(|errno| Some(errno.raw_os_error()));
    gone.contains(&error.raw_os_error())
}

fn copy_directory(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    name: &CStr,
    stopped: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let from = openat(from, name, DIRECTORY, Mode::empty())?;
    mkdirat(to, name, Mode::RWXU)?;
    let to = openat(to, name, DIRECTORY, Mode::empty())?;
    let is_whole = copy_all(from.as_fd(), to.as_fd(), stopped)?;
    dress(to.as_fd(), &fstat(&from)?)?;
    Ok(is_whole)
}

fn copy_link(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let link = match readlinkat(from, name, Vec::new()) {
        // Replaced by something else.
        Err(Errno::INVAL) => return Err(Errno::NOENT.into()),
        read => read?,
    };
    Ok(symlinkat(OsStr::from_bytes(link.to_bytes()), to, name)?)
}

fn copy_file(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &CStr, stopped: &dyn Fn() -> bool) -> io::Result<()> {
    // A pipe that took the file's name meanwhile must not block.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let from = File::from(openat(from, name, flags, Mode::empty())?);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let to = File::from(openat(to, name, flags, Mode::RUSR | Mode::WUSR)?);
    if ioctl_ficlone(&to, &from).is_err() {
        copy_extents(&from, &to, stopped)?;
    }
    dress(to.as_fd(), &fstat(&from)?)
}

/// Gives a copy the owner, mode and times of its source. Only root can give files away.
fn dress(copy: BorrowedFd<'_>, source: &Stat) -> io::Result<()> {
    match fchown(copy, Some(Uid::from_raw(source.st_uid)), Some(Gid::from_raw(source.st_gid))) {
        Ok(()) | Err(Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    fchmod(copy, Mode::from_raw_mode(source.st_mode & 0o7777))?;
    let time = |tv_sec, nanoseconds: u64| Timespec { tv_sec, tv_nsec: nanoseconds as _ };
    let times = Timestamps {
        last_access: time(source.st_atime, source.st_atime_nsec),
        last_modification: time(source.st_mtime, source.st_mtime_nsec),
    };
    Ok(futimens(copy, &times)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_copy_has_files_directories_links_modes_and_times() {
        let home = tempfile::tempdir().unwrap();
        let [from, to] = ["vol-1", "snap-1"].map(|name| home.path().join(name));
        let source = path(&from);
        fs::create_dir_all(source.join("a/b")).unwrap();
        fs::write(source.join("a/b/file"), "bytes").unwrap();
        fs::write(source.join("empty"), "").unwrap();
        fs::set_permissions(source.join("a/b/file"), fs::Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(source.join("a"), fs::Permissions::from_mode(0o1770)).unwrap();
        symlink("/etc/passwd", source.join("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
        fs::write(&to, "").unwrap();
        fs::create_dir_all(path(&to).join("old")).unwrap();

        let tree = Tree::open(&from).unwrap().unwrap();
        assert!(tree.copy_to(&to, &|| false).unwrap());

        let copy = path(&to);
        assert_eq!(fs::read(copy.join("a/b/file")).unwrap(), b"bytes");
        assert_eq!(fs::read_link(copy.join("link")).unwrap(), Path::new("/etc/passwd"));
        assert!(copy.join("empty").exists() && !copy.join("old").exists() && !copy.join("socket").exists());
        for name in ["a", "a/b", "a/b/file", "empty"] {
            let [old, new] = [&source, &copy].map(|root| fs::metadata(root.join(name)).unwrap());
            let attributes = |meta: &fs::Metadata| (meta.mode(), meta.uid(), meta.mtime(), meta.mtime_nsec());
            assert_eq!(attributes(&old), attributes(&new), "{name}");
        }
        assert!(used(&to).unwrap() >= 512 && used(&home.path().join("vol-2")).unwrap() == 0);
    }

    #[test]
    fn a_directory_that_is_read_goes_after_its_reader() {
        let home = tempfile::tempdir().unwrap();
        let [from, to] = ["vol-1", "snap-1"].map(|name| home.path().join(name));
        fs::create_dir_all(path(&from)).unwrap();
        fs::write(path(&from).join("file"), "bytes").unwrap();
        let [tree, other] = [0, 1].map(|_| Arc::new(Tree::open(&from).unwrap().unwrap()));
        remove(&from, &[tree.clone(), other.clone()]).unwrap();
        drop(other);
        assert!(Tree::open(&from).unwrap().is_none(), "the volume has no directory any more");
        fs::write(&to, "").unwrap();
        assert!(tree.copy_to(&to, &|| false).unwrap());
        assert_eq!(fs::read(path(&to).join("file")).unwrap(), b"bytes");
        drop(tree);
        let left: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.len() == 2 && left.iter().all(|name| name.to_string_lossy().starts_with("snap-1")), "{left:?}");
        remove(&to, &[]).unwrap();
        remove(&to, &[]).unwrap();
        assert!(!path(&to).exists());
    }

    #[test]
    fn a_source_that_is_removed_meanwhile_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let [from, to] = ["vol-1", "snap-1"].map(|name| home.path().join(name));
        fs::create_dir_all(path(&from)).unwrap();
        fs::write(&to, "").unwrap();
        let tree = Tree::open(&from).unwrap().unwrap();
        remove(&from, &[]).unwrap();
        assert!(tree.copy_to(&to, &|| false).unwrap_err().to_string().contains("vol-1 was removed"));
    }

    #[test]
    fn a_target_that_is_deleted_meanwhile_gets_nothing() {
        let home = tempfile::tempdir().unwrap();
        let from = home.path().join("vol-1");
        fs::create_dir_all(path(&from)).unwrap();
        let tree = Tree::open(&from).unwrap().unwrap();
        tree.copy_to(&home.path().join("snap-1"), &|| false).unwrap();
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_copy_that_is_stopped_fails() {
        let home = tempfile::tempdir().unwrap();
        let from = home.path().join("vol-1");
        fs::create_dir_all(path(&from)).unwrap();
        fs::write(path(&from).join("file"), "bytes").unwrap();
        let tree = Tree::open(&from).unwrap().unwrap();
        // A filesystem that shares blocks copies nothing.
        if let Err(error) = tree.copy_to(&home.path().join("snap-1"), &|| true) {
            assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        }
    }
}
