//! The kept output of a program: the newest lines in memory, and a file of limited size.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Maximum number of bytes of lines in memory.
const MOST_BYTES: usize = 64 << 10;
/// Maximum number of lines in memory.
const MOST_LINES: usize = 1_000;
/// Maximum size of a file. A full file becomes the older half, and the previous older half is removed.
const MOST_IN_FILE: u64 = 4 << 20;

/// The newest lines.
#[derive(Debug, Default)]
pub(super) struct Ring {
    lines: VecDeque<Box<str>>,
    bytes: usize,
    /// Number of lines that are no longer kept.
    gone: u64,
}

impl Ring {
    /// Adds a line, and removes the oldest lines beyond the limits.
    pub fn push(&mut self, line: &str) {
        self.bytes += line.len();
        self.lines.push_back(line.into());
        while self.lines.len() > MOST_LINES || self.bytes > MOST_BYTES && self.lines.len() > 1 {
            if let Some(old) = self.lines.pop_front() {
                self.bytes -= old.len();
                self.gone += 1;
            }
        }
    }

    /// The lines, oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.lines.iter().map(|line| line.to_string()).collect()
    }

    /// Number of lines that are kept.
    pub fn count(&self) -> u64 {
        self.lines.len() as u64
    }

    /// Returns the number of lines that are no longer kept.
    pub fn gone(&self) -> u64 {
        self.gone
    }
}

/// A file for the output of a program, which only its owner can read. The file and its older half (`.1`) have at most 4
/// MiB each.
#[derive(Debug)]
pub(crate) struct BoundedFile {
    path: PathBuf,
    file: File,
    written: u64,
}

impl BoundedFile {
    /// Creates the file at `path`.
    ///
    /// # Errors
    /// Errors of the filesystem.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: open(path)?, written: 0 })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// Errors of the filesystem.
    pub fn write(&mut self, line: &str) -> std::io::Result<()> {
        if self.written > 0 && self.written + line.len() as u64 + 1 > MOST_IN_FILE {
            std::fs::rename(&self.path, older(&self.path))?;
            self.file = open(&self.path)?;
            self.written = 0;
        }
        self.file.write_all(format!("{line}\n").as_bytes())?;
        self.written += line.len() as u64 + 1;
        Ok(())
    }
}

/// Returns the path of the older half of a file.
fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    PathBuf::from(name)
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options().create(true).write(true).truncate(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_stay_and_the_others_are_counted() {
        let mut ring = Ring::default();
        for n in 0..3_000 {
            ring.push(&n.to_string());
        }
        assert_eq!((ring.lines().len(), ring.gone()), (MOST_LINES, 2_000));
        assert_eq!(ring.lines().last().map(String::as_str), Some("2999"));
        ring.push(&"x".repeat(MOST_BYTES));
        ring.push("after");
        assert_eq!(ring.lines(), ["after"]);
        assert_eq!(ring.bytes, 5);
    }

    #[test]
    fn a_file_takes_no_more_than_its_two_halves() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.log");
        let mut file = BoundedFile::create(&path).unwrap();
        let line = "x".repeat((1 << 20) - 1);
        for _ in 0..11 {
            file.write(&line).unwrap();
        }
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |about| about.len());
        assert_eq!((size(&path), size(&older(&path))), (3 << 20, MOST_IN_FILE));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
