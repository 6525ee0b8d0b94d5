//! Copies of backing files, with the directories that belong to them: by shared blocks if the filesystem supports them, else
//! extent by extent.

use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{SeekFrom, ioctl_ficlone, seek};
use rustix::io::Errno;

use crate::tree::Tree;

/// Bytes per read.
const CHUNK: usize = 1 << 20;
/// Maximum number of attempts at a copy whose source is written meanwhile.
const ATTEMPTS: u32 = 3;

/// Copy of one file's bytes into another, which is as long or longer, or empty. Both are open, so their names may be
/// removed meanwhile.
#[derive(Debug)]
pub(crate) struct Copy {
    from: File,
    to: File,
    /// Directory of the source, and the path of the target's backing file.
    tree: Option<(Arc<Tree>, PathBuf)>,
    /// Serializes runs of the copy: a cancelled one may still be running.
    making: Mutex<()>,
}

impl Copy {
    /// Opens the file `from`, and its directory if it has one, for a copy into the file `to`.
    pub(crate) fn open(from: &Path, to: &Path) -> io::Result<Self> {
        let tree = Tree::open(from)?.map(|tree| (Arc::new(tree), to.to_owned()));
        let (from, to) = (File::open(from)?, OpenOptions::new().write(true).open(to)?);
        Ok(Self { from, to, tree, making: Mutex::default() })
    }

    /// Returns the directory that is copied.
    pub(crate) fn tree(&self) -> Option<&Arc<Tree>> {
        self.tree.as_ref().map(|(tree, _)| tree)
    }

    /// Shares the blocks of the source (`FICLONE`). Returns false if the filesystem cannot, and for a directory, which has
    /// many files.
    pub(crate) fn by_reference(&self) -> io::Result<bool> {
        let Self { from, to, tree, .. } = self;
        if tree.is_some() {
            return Ok(false);
        }
        let length = to.metadata()?.len();
        match ioctl_ficlone(to, from) {
            Ok(()) => {
                if to.metadata()?.len() < length {
                    to.set_len(length)?;
                }
                Ok(true)
            }
            Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOTTY | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Copies the allocated extents of the source. Returns true if the source was not written meanwhile, so that the
    /// copy is consistent; makes up to [`ATTEMPTS`] attempts. Stops early if `stopped` returns true, and can then run
    /// again.
    pub(crate) fn by_extents(&self, stopped: &dyn Fn() -> bool) -> io::Result<bool> {
        let Self { from, to, tree, making } = self;
        let _alone = making.lock();
        let is_whole = match tree {
            Some((tree, to)) => tree.copy_to(to, stopped)?,
            None => true,
        };
        for _ in 0..ATTEMPTS {
            // Remove the data of an earlier attempt.
            punch(to)?;
            let before = stamp(from)?;
            copy_extents(from, to, stopped)?;
            if stamp(from)? == before {
                return Ok(is_whole);
            }
        }
        punch(to)?;
        copy_extents(from, to, stopped).map(|()| false)
    }
}

/// Returns the time of a file's last write, in nanoseconds.
fn stamp(file: &File) -> io::Result<(i64, i64)> {
    let meta = file.metadata()?;
    Ok((meta.mtime(), meta.mtime_nsec()))
}

/// Turns the whole file into a hole.
fn punch(file: &File) -> io::Result<()> {
    let length = file.metadata()?.len();
    file.set_len(0)?;
    file.set_len(length)
}

/// Copies the allocated extents of `from` into `to`, which is empty.
pub(crate) fn copy_extents(from: &File, to: &File, stopped: &dyn Fn() -> bool) -> io::Result<()> {
    let length = from.metadata()?.len();
    if to.metadata()?.len() < length {
        to.set_len(length)?;
    }
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    while at < length {
        let data = match seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Only a hole is left.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = seek(from, SeekFrom::Hole(data))?;
        at = data;
        while at < end {
            if stopped() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "the process that copied has ended"));
            }
            let most = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
            let read = from.read_at(&mut buffer[..most], at)?;
            if read == 0 {
                return Ok(());
            }
            to.write_all_at(&buffer[..read], at)?;
            at += read as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_bytes_and_the_holes() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
        let from = OpenOptions::new().create_new(true).write(true).open(&a).unwrap();
        from.set_len(1 << 30).unwrap();
        from.write_all_at(b"begin", 0).unwrap();
        from.write_all_at(&vec![7; 3 << 20], 512 << 20).unwrap();
        File::create(&b).unwrap().set_len(2 << 30).unwrap();
        assert!(Copy::open(&a, &b).unwrap().by_extents(&|| false).unwrap());
        let to = File::open(&b).unwrap();
        let mut bytes = vec![0; 5];
        to.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, b"begin");
        to.read_exact_at(&mut bytes, (515 << 20) - 5).unwrap();
        assert_eq!(bytes, [7; 5]);
        let meta = to.metadata().unwrap();
        assert!(meta.len() == 2 << 30 && meta.blocks() * 512 < 8 << 20, "{meta:?}");
    }

    #[test]
    fn sharing_blocks_gives_the_bytes_or_says_that_it_cannot() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
        std::fs::write(&a, vec![1; 8192]).unwrap();
        std::fs::write(&b, "").unwrap();
        if Copy::open(&a, &b).unwrap().by_reference().unwrap() {
            assert_eq!(std::fs::read(&b).unwrap(), vec![1; 8192]);
        }
        assert!(Copy::open(&dir.path().join("missing"), &b).is_err());
    }
}
