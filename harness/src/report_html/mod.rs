//! The report of `--report`: one HTML file that shows runs as lanes, below the timeline of each volume.
//!
//! | | |
//! |---|---|
//! | `listener` | records a world, including events that its trace does not keep |
//! | `facts` | short description of one event |
//! | `lanes` | lane in which it is drawn |
//! | `cause` | event that it follows from |
//! | `run` | one run as data, within a size limit |
//! | `html` | the file: everything escaped, no network, a strict policy |
//!
//! The file contains data in a script tag, and a small script (`page.js`) that draws it. It loads no other file.

mod cause;
mod facts;
mod html;
mod lanes;
mod listener;
mod run;

use std::path::Path;

use serde::Serialize;

pub(crate) use html::{document, escaped};
pub use listener::Listener;
pub use run::{Command, File, Run, Tone, Verdict};

/// Maximum size of a report in bytes.
pub const LARGEST: usize = 2_000_000;
/// Part of it for events; the rest is for the page itself, files and messages.
const EVENTS: usize = 1_300_000;
/// Maximum number of runs in a report.
pub const RUNS: usize = 12;
/// Maximum size of a file in bytes.
const FILE: usize = 16_000;
/// Maximum size of a message in bytes.
const MESSAGE: usize = 4_000;

/// Content of a report.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    /// Title, such as `migration` or `sweep of migration`.
    pub title: String,
    /// Command that produced it.
    pub command: String,
    /// Results of a search, if it was one.
    pub table: Option<Table>,
    /// Notes on the whole report.
    pub notes: Vec<String>,
    /// Runs; the first one is shown first.
    pub runs: Vec<Run>,
}

/// Results of a search.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// Column headers.
    pub columns: Vec<String>,
    /// Rows with a text for each column.
    pub rows: Vec<Vec<String>>,
}

impl Page {
    /// Renders the file. Events beyond the size limit are left out, and their number is shown.
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
    /// Returns the error of the filesystem, with the path.
    pub fn write(self, path: &Path) -> Result<(), String> {
        std::fs::write(path, self.html()).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// Cuts `text` to at most `most` bytes, and returns whether it was longer.
fn shortened(text: &str, most: usize) -> (String, bool) {
    if text.len() <= most {
        return (text.to_owned(), false);
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    (text[..end].to_owned(), true)
}

#[cfg(test)]
mod tests;
