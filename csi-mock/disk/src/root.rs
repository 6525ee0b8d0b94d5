//! The root directory of a node, and paths that cannot leave it.
//!
//! Every path is opened relative to a descriptor of the root without following any symlink. So neither `..` nor a link
//! below the root leads out of it, even if it is planted between two calls.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{DiskError, MAX_PATH};

/// Open root directory.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    fd: OwnedFd,
}

/// Path below a root: the descriptor of its parent directory and its last component.
#[derive(Debug)]
pub(super) struct PathAt {
    pub parent: OwnedFd,
    pub name: PathBuf,
}

/// Mode of directories that this process creates.
const DIR_MODE: Mode = Mode::from_raw_mode(0o755);
/// Mode of files that this process creates.
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);

/// Errnos of opening a read-only device for writing.
#[cfg(target_os = "linux")]
const REFUSES_WRITES: [Option<i32>; 2] = [Some(Errno::ACCESS.raw_os_error()), Some(Errno::ROFS.raw_os_error())];

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn bad(path: &Path, reason: impl Into<String>) -> DiskError {
    DiskError::BadPath { path: text(path), reason: reason.into() }
}

/// Flag that opens a directory without read permission.
#[cfg(target_os = "linux")]
const HANDLE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const HANDLE: OFlags = OFlags::RDONLY;

/// Opens `relative` below `dir`, following no symlink.
#[cfg(target_os = "linux")]
fn open_beneath(dir: BorrowedFd<'_>, relative: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    loop {
        match openat2(dir, relative, flags | OFlags::CLOEXEC, mode, resolve) {
            // A rename happened during the walk; the kernel asks for a retry.
            Err(Errno::AGAIN) => {}
            done => return done,
        }
    }
}

/// Opens `relative` below `dir` one component at a time, following no symlink.
#[cfg(not(target_os = "linux"))]
fn open_beneath(dir: BorrowedFd<'_>, relative: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    use rustix::fs::openat;
    let mut at = openat(dir, ".", HANDLE | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut parts = relative.components().peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        let flags = if last { flags } else { HANDLE | OFlags::DIRECTORY };
        at = openat(&at, part.as_os_str(), flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)?;
    }
    Ok(at)
}

impl Root {
    /// Opens the directory `path`; creates it if it is missing. Links in `path` itself are resolved once, here.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let io = |e: std::io::Error| DiskError::io("open root", text(path), e);
        std::fs::create_dir_all(path).map_err(io)?;
        let path = path.canonicalize().map_err(io)?;
        let flags = HANDLE | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, &path, flags, Mode::empty())
            .map_err(|e| DiskError::errno("open root", text(&path), e))?;
        Ok(Self { path, fd })
    }

    /// Returns the absolute path of the root, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `path` relative to the root, without a lookup.
    ///
    /// # Errors
    /// [`DiskError::BadPath`] if it is relative, contains `..`, is too long, or lies outside the root.
    pub fn relative(&self, path: &Path) -> Result<PathBuf, DiskError> {
        if !path.is_absolute() {
            return Err(bad(path, "must be absolute"));
        }
        if path.as_os_str().len() > MAX_PATH {
            return Err(bad(path, "is longer than 4096 bytes"));
        }
        if path.components().any(|c| matches!(c, Component::ParentDir)) {
            return Err(bad(path, "must not contain `..`"));
        }
        let outside = || bad(path, format!("lies outside of this node's root `{}`", self.path.display()));
        let relative: PathBuf = path.strip_prefix(&self.path).map_err(|_| outside())?.components().collect();
        Ok(relative)
    }

    /// Returns the normalized absolute `path` below the root.
    ///
    /// # Errors
    /// See [`Root::relative`].
    pub fn absolute(&self, path: &Path) -> Result<PathBuf, DiskError> {
        Ok(self.path.join(self.relative(path)?))
    }

    fn fail(op: &'static str, path: &Path, error: Errno) -> DiskError {
        match error {
            Errno::LOOP => bad(path, "leads through a symlink"),
            Errno::XDEV => bad(path, "leads out of this node's root"),
            Errno::NOSYS => DiskError::Environment(
                "openat2 is not available here (an old kernel or a seccomp profile); paths cannot be resolved safely"
                    .to_owned(),
            ),
            error => DiskError::errno(op, text(path), error),
        }
    }

    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// The operating system's error; ENOENT and ENOTDIR are kept.
    pub fn dir(&self, path: &Path) -> Result<OwnedFd, DiskError> {
        let relative = self.relative(path)?;
        open_beneath(self.fd.as_fd(), &relative, HANDLE | OFlags::DIRECTORY, Mode::empty())
            .map_err(|e| Self::fail("open directory", path, e))
    }

    /// Opens the object at `path` without read permission.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn handle(&self, path: &Path) -> Result<OwnedFd, DiskError> {
        let relative = self.relative(path)?;
        open_beneath(self.fd.as_fd(), &relative, HANDLE | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|e| Self::fail("open", path, e))
    }

    /// Opens the directory at `path` for reading.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn readable_dir(&self, path: &Path) -> Result<OwnedFd, DiskError> {
        let relative = self.relative(path)?;
        open_beneath(self.fd.as_fd(), &relative, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
            .map_err(|e| Self::fail("open directory", path, e))
    }

    /// Returns the parent directory of `path` and its last component.
    ///
    /// # Errors
    /// [`DiskError::BadPath`] for the root itself, else the operating system's error for the parent.
    pub fn place(&self, path: &Path) -> Result<PathAt, DiskError> {
        let relative = self.relative(path)?;
        let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
            return Err(bad(path, "is this node's root itself"));
        };
        let parent = open_beneath(self.fd.as_fd(), parent, HANDLE | OFlags::DIRECTORY, Mode::empty())
            .map_err(|e| Self::fail("open directory", path, e))?;
        Ok(PathAt { parent, name: name.into() })
    }

    /// Creates `path` and its parents.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn make_dirs(&self, path: &Path) -> Result<(), DiskError> {
        let relative = self.relative(path)?;
        let mut at = rustix::io::fcntl_dupfd_cloexec(&self.fd, 0).map_err(|e| Self::fail("mkdir", path, e))?;
        for part in relative.components() {
            match rustix::fs::mkdirat(&at, part.as_os_str(), DIR_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(Self::fail("mkdir", path, error)),
            }
            let part = Path::new(part.as_os_str());
            at = open_beneath(at.as_fd(), part, HANDLE | OFlags::DIRECTORY, Mode::empty())
                .map_err(|e| Self::fail("mkdir", path, e))?;
        }
        Ok(())
    }

    /// Removes the empty directory at `path`. Returns false if it does not exist.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn remove_dir(&self, path: &Path) -> Result<bool, DiskError> {
        self.unlink("rmdir", path, AtFlags::REMOVEDIR)
    }

    /// Removes the file or link at `path`. Returns false if it does not exist.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn remove_file(&self, path: &Path) -> Result<bool, DiskError> {
        self.unlink("unlink", path, AtFlags::empty())
    }

    fn unlink(&self, op: &'static str, path: &Path, flags: AtFlags) -> Result<bool, DiskError> {
        let place = match self.place(path) {
            Err(error) if error.is_not_found() => return Ok(false),
            place => place?,
        };
        match rustix::fs::unlinkat(&place.parent, &place.name, flags) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(Self::fail(op, path, error)),
        }
    }

    /// Returns the target of the link at `path`; None if it is not a link.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn read_link(&self, path: &Path) -> Result<Option<PathBuf>, DiskError> {
        let place = match self.place(path) {
            Err(error) if error.is_not_found() => return Ok(None),
            place => place?,
        };
        match rustix::fs::readlinkat(&place.parent, &place.name, Vec::new()) {
            Ok(target) => Ok(Some(PathBuf::from(String::from_utf8_lossy(target.as_bytes()).into_owned()))),
            Err(Errno::NOENT | Errno::INVAL | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(Self::fail("readlink", path, error)),
        }
    }

    /// Creates a link at `path`, replacing an empty directory or an older link.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn link(&self, target: &Path, path: &Path) -> Result<(), DiskError> {
        let place = self.place(path)?;
        for flags in [AtFlags::REMOVEDIR, AtFlags::empty()] {
            match rustix::fs::statat(&place.parent, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => break,
                Err(error) => return Err(Self::fail("symlink", path, error)),
                Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory | FileType::Symlink => {}
                    _ => return Err(Self::fail("symlink", path, Errno::EXIST)),
                },
            }
            match rustix::fs::unlinkat(&place.parent, &place.name, flags) {
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::PERM) => {}
                Err(error) => return Err(Self::fail("symlink", path, error)),
            }
        }
        rustix::fs::symlinkat(target, &place.parent, &place.name).map_err(|e| Self::fail("symlink", path, e))
    }

    /// Returns the names in the directory at `path`, sorted; None if it does not exist.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn list(&self, path: &Path) -> Result<Option<Vec<String>>, DiskError> {
        let relative = self.relative(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = match open_beneath(self.fd.as_fd(), &relative, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            fd => fd.map_err(|e| Self::fail("readdir", path, e))?,
        };
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(fd).map_err(|e| Self::fail("readdir", path, e))? {
            let entry = entry.map_err(|e| Self::fail("readdir", path, e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(Some(names))
    }

    fn file(&self, op: &'static str, path: &Path, flags: OFlags) -> Result<File, DiskError> {
        let relative = self.relative(path)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        // openat2 refuses a mode without O_CREAT.
        let mode = if flags.contains(OFlags::CREATE) { FILE_MODE } else { Mode::empty() };
        let fd = open_beneath(self.fd.as_fd(), &relative, flags, mode).map_err(|e| Self::fail(op, path, e))?;
        Ok(File::from(fd))
    }

    /// Opens the device at `path`. Returns true with it if it refuses writes.
    ///
    /// # Errors
    /// The operating system's error.
    #[cfg(target_os = "linux")]
    pub fn device(&self, path: &Path) -> Result<(File, bool), DiskError> {
        match self.file("open", path, OFlags::RDWR) {
            // A read-only device cannot be opened for writing.
            Err(DiskError::Io { source, .. }) if REFUSES_WRITES.contains(&source.raw_os_error()) => {
                self.file("open", path, OFlags::RDONLY).map(|file| (file, true))
            }
            file => file.map(|file| (file, false)),
        }
    }

    /// Appends bytes to a file.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn append(&self, path: &Path, data: &[u8]) -> Result<(), DiskError> {
        let mut file = self.file("write", path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?;
        file.write_all(data).map_err(|e| DiskError::io("write", text(path), e))
    }

    /// Replaces a file atomically and syncs it.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn write(&self, path: &Path, data: &[u8]) -> Result<(), DiskError> {
        let io = |e: std::io::Error| DiskError::io("write", text(path), e);
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let mut file = self.file("write", &part, OFlags::WRONLY | OFlags::TRUNC | OFlags::CREATE)?;
        file.write_all(data).map_err(io)?;
        file.sync_all().map_err(io)?;
        let (from, to) = (self.place(&part)?, self.place(path)?);
        rustix::fs::renameat(&from.parent, &from.name, &to.parent, &to.name).map_err(|e| Self::fail("rename", path, e))
    }

    /// Makes a file durable.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn sync(&self, path: &Path) -> Result<(), DiskError> {
        self.file("fsync", path, OFlags::RDONLY)?.sync_all().map_err(|e| DiskError::io("fsync", text(path), e))?;
        // The name must be durable too: a new file is lost with its directory entry.
        let parent = path.parent().unwrap_or(path);
        let relative = self.relative(parent)?;
        let dir = open_beneath(self.fd.as_fd(), &relative, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
            .map_err(|e| Self::fail("fsync", parent, e))?;
        rustix::fs::fsync(dir).map_err(|e| Self::fail("fsync", parent, e))
    }

    /// Returns a file's bytes; None if it does not exist.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, DiskError> {
        let mut file = match self.file("read", path, OFlags::RDONLY) {
            Err(error) if error.is_not_found() => return Ok(None),
            file => file?,
        };
        let mut data = Vec::new();
        file.read_to_end(&mut data).map_err(|e| DiskError::io("read", text(path), e))?;
        Ok(Some(data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(&dir.path().join("node")).unwrap();
        (dir, root)
    }

    #[test]
    fn paths_outside_of_the_root_are_refused() {
        let (_dir, root) = root();
        for path in ["/etc/passwd", "relative", "/", root.path().parent().unwrap().to_str().unwrap()] {
            assert!(matches!(root.relative(Path::new(path)), Err(DiskError::BadPath { .. })), "{path}");
        }
        assert!(matches!(root.relative(&root.path().join("a/../../x")), Err(DiskError::BadPath { .. })));
        assert!(matches!(root.relative(&root.path().join("x".repeat(5000))), Err(DiskError::BadPath { .. })));
    }

    #[test]
    fn a_symlink_on_the_way_or_at_the_end_is_never_followed() {
        let (dir, root) = root();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink(dir.path(), root.path().join("out")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), root.path().join("file")).unwrap();
        for path in ["out", "out/secret", "out/new", "file"] {
            let path = root.path().join(path);
            assert!(matches!(root.read(&path), Err(DiskError::BadPath { .. })), "{path:?}");
            assert!(root.append(&path, b"x").is_err(), "{path:?}");
            assert!(root.make_dirs(&path.join("d")).is_err(), "{path:?}");
        }
        assert_eq!(std::fs::read(dir.path().join("secret")).unwrap(), b"s");
        assert!(!dir.path().join("new").exists() && !dir.path().join("d").exists());
    }

    #[test]
    fn files_and_directories_below_the_root_work() {
        let (_dir, root) = root();
        let at = |p: &str| root.path().join(p);
        root.make_dirs(&at("a/b")).unwrap();
        root.make_dirs(&at("a/b")).unwrap();
        root.append(&at("a/b/f"), b"one").unwrap();
        root.append(&at("a/b/f"), b"two").unwrap();
        root.sync(&at("a/b/f")).unwrap();
        root.write(&at("a/g"), b"x").unwrap();
        assert_eq!(root.read(&at("a/b/f")).unwrap().as_deref(), Some(&b"onetwo"[..]));
        assert_eq!(root.list(&at("a")).unwrap(), Some(vec!["b".to_owned(), "g".to_owned()]));
        assert_eq!((root.read(&at("no/f")).unwrap(), root.list(&at("no")).unwrap()), (None, None));
        assert!(root.remove_dir(&at("a/b")).is_err());
        assert!(root.remove_file(&at("a/b/f")).unwrap() && root.remove_dir(&at("a/b")).unwrap());
        assert!(!root.remove_dir(&at("a/b")).unwrap());
    }
}
