//! The state file: the whole state, and behind it a record of each change since.
//!
//! A change is noted while the cloud is locked, in order. Before a request is answered, [`Journal::flush`] has written
//! all that was noted up to then; who comes while somebody writes waits and finds its own written too, so one write, and
//! one fsync where power may fail, serves a group of answers. The file is written anew when its records outweigh the
//! state, and when a write has failed in a way that leaves in doubt what the disk holds.

mod line;
mod medium;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::StateSync;
use crate::state::patch::Patch;
use crate::state::saved::Saved;

pub(crate) use line::Broken;
pub(crate) use medium::{FileMedium, Medium};

/// Bytes of records below which the file is not written anew.
const LEAST: u64 = 4 << 20;

/// The state file of one cloud.
pub(crate) struct Journal {
    queue: Mutex<Queue>,
    output: Mutex<Output>,
    sync: StateSync,
    /// Number of the last change that the file has.
    written: AtomicU64,
    /// Whether the last attempt to write failed.
    failed: AtomicBool,
    /// Who writes; others wait for it without a thread of their own.
    turn: tokio::sync::Mutex<()>,
}

/// What is to be written.
#[derive(Default)]
struct Queue {
    notes: Vec<Note>,
    /// Number of the last change.
    noted: u64,
    /// The state is another one than the file's: it is written whole.
    anew: bool,
}

/// A change.
struct Note {
    patch: Patch,
    doomed: Doomed,
}

/// Files that nobody needs once the file says so, and which storage they are of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doomed {
    /// How often the storage was emptied before: afterwards, another file may have the name.
    pub(crate) clears: u64,
    /// Their names.
    pub(crate) names: Vec<String>,
}

struct Output {
    medium: Box<dyn Medium>,
    /// Bytes of the file that are known to be good.
    length: u64,
    /// How many of them are the whole state.
    base: u64,
    /// A record is half written behind them.
    torn: bool,
    /// Nobody knows what the disk holds: only a new file helps.
    in_doubt: bool,
}

/// What a journal asks of the cloud.
pub(crate) trait Source {
    /// The whole state. `noted` is called while the cloud is locked.
    fn whole(&self, noted: &mut dyn FnMut()) -> Saved;

    /// Removes files that the state file does not know any more.
    fn remove(&self, doomed: Doomed);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads what the state file `path` holds, if there is one.
///
/// # Errors
/// When it cannot be read or makes no sense.
pub(crate) fn read(path: &Path) -> Result<Option<Saved>, Broken> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Broken::Unreadable(error)),
        Ok(bytes) => line::parse(&bytes).map(Some),
    }
}

impl Journal {
    /// A journal on `medium` that has nothing yet: the first [`Journal::flush`] writes the whole state.
    pub(crate) fn new(medium: Box<dyn Medium>, sync: StateSync) -> Self {
        Self {
            queue: Mutex::new(Queue { anew: true, noted: 1, ..Queue::default() }),
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

    /// Notes that the state is another one, while the cloud is locked.
    pub(crate) fn begin_anew(&self) {
        let mut queue = lock(&self.queue);
        queue.noted += 1;
        queue.notes.clear();
        queue.anew = true;
    }

    /// Number of the last change, when the file does not have it yet.
    pub(crate) fn owes(&self) -> Option<u64> {
        let noted = lock(&self.queue).noted;
        (!self.has(noted)).then_some(noted)
    }

    /// Whether the file has change number `last`.
    pub(crate) fn has(&self, last: u64) -> bool {
        self.written.load(Ordering::Acquire) >= last
    }

    /// Whether the last attempt to write failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Waits for the turn to write.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Has all changes up to number `last` written when it returns. It blocks.
    ///
    /// # Errors
    /// Why they cannot be written. They are not lost: the next attempt writes them.
    pub(crate) fn flush(&self, last: u64, source: &dyn Source) -> Result<(), String> {
        let mut output = lock(&self.output);
        if self.has(last) {
            return Ok(());
        }
        let outweighed = output.length - output.base > output.base.max(LEAST);
        let anew = output.in_doubt || outweighed || lock(&self.queue).anew;
        let outcome = if anew { self.rewrite(&mut output, source) } else { self.append(&mut output, source) };
        self.failed.store(outcome.is_err(), Ordering::Release);
        outcome.map_err(|error| error.to_string())
    }

    /// Writes the whole state in the place of what is there. It blocks.
    ///
    /// # Errors
    /// Why it cannot be written; the file is then as it was.
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
                if !queue.anew {
                    let later = std::mem::replace(&mut queue.notes, notes);
                    queue.notes.extend(later);
                }
                Err(error)
            }
        }
    }

    /// Appends `notes` and gives the length that the file has then.
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
            // What could not be synced may be forgotten though a later sync succeeds.
            output.in_doubt = true;
            return Err(error);
        }
        Ok(output.length + text.len() as u64)
    }

    fn rewrite(&self, output: &mut Output, source: &dyn Source) -> io::Result<()> {
        let (mut notes, mut last) = (Vec::new(), 0);
        let saved = source.whole(&mut || {
            let mut queue = lock(&self.queue);
            queue.anew = false;
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
                // Only the files that are to go are still of use.
                let later = std::mem::replace(&mut queue.notes, notes);
                queue.notes.extend(later);
                queue.anew = true;
                Err(error)
            }
        }
    }
}
