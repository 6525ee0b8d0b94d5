//! The report of `--report`: one HTML file that shows runs as lanes, with the life of each volume over them.
//!
//! | | |
//! |---|---|
//! | `listener` | hears a world, also what its trace does not keep |
//! | `facts` | what one event is about, in a few words |
//! | `lanes` | where it is drawn |
//! | `cause` | what it follows from |
//! | `run` | one run as data, within a limit |
//! | `html` | the file: everything escaped, no network, a strict policy |
//!
//! The file is data in a script tag, and a small script (`page.js`) that draws it. Nothing in it comes from elsewhere.

mod cause;
mod facts;
mod html;
mod lanes;
mod listener;
mod run;

use std::path::Path;

use serde::Serialize;

pub use listener::Listener;
pub use run::{Command, File, Run, Tone, Verdict};

/// Bytes that a report has at most.
pub const LARGEST: usize = 2_000_000;
/// Bytes of it for events; the rest is for the page itself, files and messages.
const EVENTS: usize = 1_300_000;
/// Runs that one report shows.
pub const RUNS: usize = 12;
/// Bytes of a file that is shown.
const FILE: usize = 16_000;
/// Bytes of a message that is shown.
const MESSAGE: usize = 4_000;

/// What a report shows.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    /// What was done, as `migration` or `sweep of migration`.
    pub title: String,
    /// The command that did it.
    pub command: String,
    /// What a search came to, if it was one.
    pub table: Option<Table>,
    /// A few sentences about the whole.
    pub notes: Vec<String>,
    /// The runs, the first of which is shown first.
    pub runs: Vec<Run>,
}

/// What a search came to.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// The heads of the columns.
    pub columns: Vec<String>,
    /// The rows, a text for each column.
    pub rows: Vec<Vec<String>>,
}

impl Page {
    /// The file. What makes it too large is left out, and it says how much that is.
    pub fn html(mut self) -> String {
        if self.runs.len() > RUNS {
            self.notes.push(format!("{} more runs are not shown.", self.runs.len() - RUNS));
            self.runs.truncate(RUNS);
        }
        let share = EVENTS / self.runs.len().max(1);
        for run in &mut self.runs {
            run.shorten(share);
        }
        html::page(&self)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// What the filesystem says, with the path.
    pub fn write(self, path: &Path) -> Result<(), String> {
        std::fs::write(path, self.html()).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// `text` in at most `most` bytes, and whether it was longer.
fn shortened(text: &str, most: usize) -> (String, bool) {
    if text.len() <= most {
        return (text.to_owned(), false);
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    (text[..end].to_owned(), true)
}

#[cfg(test)]
mod tests;
