//! The state file: the whole state, followed by a record of each change since.
//!
//! A change is noted while the cloud is locked, in order. Before a request is answered, [`Journal::flush`] has written
//! all changes noted so far. A caller that waits for another's write often finds its own change written, too, so one
//! write (and one fsync if power may fail) serves a group of answers. The file is rewritten when its records outweigh
//! the state, and after a failed write that leaves the content of the disk in doubt.

mod line;
mod medium;
#[cfg(test)]
mod tests;

use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::config::StateSync;
use crate::state::patch::Patch;
use crate::state::saved::Saved;

pub(crate) use line::Broken;
pub(crate) use medium::{FileMedium, Medium};

/// Size of records below which the file is not rewritten, in bytes.
const LEAST: u64 = 4 << 20;

/// State file of one cloud.
pub(crate) struct Journal {
    queue: Mutex<Queue>,
    output: Mutex<Output>,
    sync: StateSync,
    /// Number of the last change in the file.
    written: AtomicU64,
    /// True if the last write failed.
    failed: AtomicBool,
    /// Turn to write; others wait for it without a thread.
    turn: tokio::sync::Mutex<()>,
}

/// Changes to write.
#[derive(Default)]
struct Queue {
    notes: Vec<Note>,
    /// Number of the last change.
    noted: u64,
    /// True if the state was replaced: it is written as a whole.
    rewrite_next: bool,
}

/// Change.
struct Note {
    patch: Patch,
    doomed: Doomed,
}

/// Files to remove once the state file no longer needs them, and their storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doomed {
    /// Number of earlier resets of the storage: after one, a new file may have the name.
    pub(crate) clears: u64,
    /// Their names.
    pub(crate) names: Vec<String>,
}

struct Output {
    medium: Box<dyn Medium>,
    /// Length of the valid content in bytes.
    length: u64,
    /// Length of the whole state in it.
    base: u64,
    /// True if a torn record follows the valid content.
    torn: bool,
    /// True if the content of the disk is unknown: only a new file helps.
    in_doubt: bool,
}

/// Cloud as the journal sees it.
pub(crate) trait Source {
    /// Returns the whole state. Calls `noted` while the cloud is locked.
    fn whole(&self, noted: &mut dyn FnMut()) -> Saved;

    /// Removes files that the state file no longer names.
    fn remove(&self, doomed: Doomed);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Reads the state file `path`, if it exists.
///
/// # Errors
/// If it cannot be read or is invalid.
pub(crate) fn read(path: &Path) -> Result<Option<Saved>, Broken> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Broken::Unreadable(error)),
        Ok(bytes) => line::parse(&bytes).map(Some),
    }
}

impl Journal {
    /// Creates an empty journal on `medium`: the first [`Journal::flush`] writes the whole state.
    pub(crate) fn new(medium: Box<dyn Medium>, sync: StateSync) -> Self {
        Self {
            queue: Mutex::new(Queue { rewrite_next: true, noted: 1, ..Queue::default() }),
            output: Mutex::new(Output { medium, length: 0, base: 0, torn: false, in_doubt: false }),
            sync,
            written: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Notes a change, while the cloud is locked.
    pub(crate) fn note(&self, patch: Patch, doomed: Doomed) {
        let mut queue = lock(&self.queue);
        queue.noted += 1;
        queue.notes.push(Note { patch, doomed });
    }

    /// Notes that the state was replaced, while the cloud is locked.
    pub(crate) fn restart_from_state(&self) {
        let mut queue = lock(&self.queue);
        queue.noted += 1;
        queue.notes.clear();
        queue.rewrite_next = true;
    }

    /// Returns the number of the last change, if it is not in the file yet.
    pub(crate) fn owes(&self) -> Option<u64> {
        let noted = lock(&self.queue).noted;
        (!self.has(noted)).then_some(noted)
    }

    /// Returns true if the file has change number `last`.
    pub(crate) fn has(&self, last: u64) -> bool {
        self.written.load(Ordering::Acquire) >= last
    }

    /// Returns true if the last write failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Waits for the turn to write.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Writes all changes up to number `last` before it returns. It blocks.
    ///
    /// # Errors
    /// The error of the write. The changes are not lost: the next attempt writes them.
    pub(crate) fn flush(&self, last: u64, source: &dyn Source) -> Result<(), String> {
        let mut output = lock(&self.output);
        if self.has(last) {
            return Ok(());
        }
        let outweighed = output.length - output.base > output.base.max(LEAST);
        let rewrite_next = output.in_doubt || outweighed || lock(&self.queue).rewrite_next;
        let outcome = if rewrite_next { self.rewrite(&mut output, source) } else { self.append(&mut output, source) };
        self.failed.store(outcome.is_err(), Ordering::Release);
        outcome.map_err(|error| error.to_string())
    }

    /// Replaces the file by the whole state. It blocks.
    ///
    /// # Errors
    /// The error of the write; the file is then unchanged.
    pub(crate) fn save(&self, source: &dyn Source) -> io::Result<()> {
        let mut output = lock(&self.output);
        self.rewrite(&mut output, source)
    }

    fn append(&self, output: &mut Output, source: &dyn Source) -> io::Result<()> {
        let (notes, last) = {
            let mut queue = lock(&self.queue);
            (std::mem::take(&mut queue.notes), queue.noted)
        };
        match self.write(output, &notes) {
            Ok(length) => {
                output.length = length;
                self.written.store(last, Ordering::Release);
                notes.into_iter().for_each(|note| source.remove(note.doomed));
                Ok(())
            }
            Err(error) => {
                let mut queue = lock(&self.queue);
                if !queue.rewrite_next {
                    let later = std::mem::replace(&mut queue.notes, notes);
                    queue.notes.extend(later);
                }
                Err(error)
            }
        }
    }

    /// Appends `notes` and returns the new length of the file.
    fn write(&self, output: &mut Output, notes: &[Note]) -> io::Result<u64> {
        if output.torn {
            output.medium.cut(output.length)?;
            output.torn = false;
        }
        let mut text = Vec::new();
        for note in notes.iter().filter(|note| !note.patch.is_empty()) {
            line::record(&mut text, &note.patch)?;
        }
        if text.is_empty() {
            return Ok(output.length);
        }
        output.torn = true;
        output.medium.append(output.length, &text)?;
        output.torn = false;
        if self.sync == StateSync::Power
            && let Err(error) = output.medium.sync()
        {
            // Bytes that could not be synced may be lost even if a later sync succeeds.
            output.in_doubt = true;
            return Err(error);
        }
        Ok(output.length + text.len() as u64)
    }

    fn rewrite(&self, output: &mut Output, source: &dyn Source) -> io::Result<()> {
        let (mut notes, mut last) = (Vec::new(), 0);
        let saved = source.whole(&mut || {
            let mut queue = lock(&self.queue);
            queue.rewrite_next = false;
            notes = std::mem::take(&mut queue.notes);
            last = queue.noted;
        });
        match output.medium.replace(&mut |to| line::whole(to, &saved)) {
            Ok(length) => {
                (output.length, output.base) = (length, length);
                (output.in_doubt, output.torn) = (false, false);
                self.written.store(last, Ordering::Release);
                notes.into_iter().for_each(|note| source.remove(note.doomed));
                Ok(())
            }
            Err(error) => {
                let mut queue = lock(&self.queue);
                // Only the files to remove still matter.
                let later = std::mem::replace(&mut queue.notes, notes);
                queue.notes.extend(later);
                queue.rewrite_next = true;
                Err(error)
            }
        }
    }
}
