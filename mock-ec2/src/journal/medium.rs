//! Medium of a journal.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Function that writes the content.
pub(crate) type Fill<'a> = &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>;

/// File that grows at its end and is replaced as a whole.
pub(crate) trait Medium: Send {
    /// Writes `bytes` at `at`, the end of the valid content.
    fn append(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Truncates to `length`.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Returns when appended bytes survive the loss of power.
    fn sync(&mut self) -> io::Result<()>;

    /// Replaces the whole content by the output of `fill`, atomically and durably. Returns its length.
    fn replace(&mut self, fill: Fill<'_>) -> io::Result<u64>;
}

/// File that is locked while in use.
pub(crate) struct FileMedium {
    path: PathBuf,
    /// None before the first content.
    file: Option<File>,
}

impl FileMedium {
    /// Opens the file `path`, which may be missing.
    ///
    /// # Errors
    /// The operating system's error, or that another process uses it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        file.as_ref().map(alone).transpose()?;
        Ok(Self { path: path.to_owned(), file })
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns the path of new content: next to the file with a fixed name, so that a killed run leaves at most one.
    fn beside(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        name.into()
    }
}

/// Locks `file` for this process.
fn alone(file: &File) -> io::Result<()> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => taken(),
        TryLockError::Error(error) => error,
    })
}

fn taken() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "is used by another mock-ec2; give each its own")
}

impl Medium for FileMedium {
    fn append(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file()?.write_all_at(bytes, at)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file()?.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file()?.sync_data()
    }

    fn replace(&mut self, fill: Fill<'_>) -> io::Result<u64> {
        let beside = self.beside();
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&beside)?;
        let written = (|| {
            alone(&file)?;
            if self.file.is_none() && self.path.exists() {
                return Err(taken());
            }
            let mut to = BufWriter::new(&file);
            fill(&mut to)?;
            to.flush()?;
            file.sync_all()?;
            std::fs::rename(&beside, &self.path)?;
            file.metadata().map(|meta| meta.len())
        })();
        match written {
            Ok(length) => {
                self.file = Some(file);
                let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
                // The name itself must survive, too.
                File::open(dir).and_then(|dir| dir.sync_all())?;
                Ok(length)
            }
            Err(error) => {
                // It may be the file that fills the disk.
                let _ = std::fs::remove_file(&beside);
                Err(error)
            }
        }
    }
}
