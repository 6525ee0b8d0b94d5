//! A debugger of runs: forward and back, by event, by object, by process.
//!
//! A simulation stands still while somebody thinks: it is one thread, and the debugger is an observer of its trace. Every
//! hundred events or so, and more often near the place that somebody goes to, the run copies itself, and the copy goes on.
//! To go back, the copy ends with the place to go to as its last word, and the nearest of those that wait copies itself
//! anew and goes there. Without copies the run begins again from its start; what is seen is the same.
//!
//! | | |
//! |---|---|
//! | `command` | what a person can say |
//! | `filter` | which events are meant: breakpoints, and what a step goes to |
//! | `session` | what outlives going back |
//! | `copies` | who waits where |
//! | `player` | the run, event by event |
//! | `lines` | reading a line and no byte more |

mod command;
mod copies;
mod filter;
mod lines;
mod player;
mod session;

use std::time::Duration;

use super::judge::Task;
use session::Session;

/// How a debugger is started.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What is run.
    pub task: Task,
    /// Whether no copies are kept.
    pub from_start: bool,
    /// Whether somebody types: then there is a prompt.
    pub prompts: bool,
}

/// A look at the cluster takes at most so long.
const LOOK: Duration = Duration::from_secs(30);

/// Reads commands from standard input until `quit` or its end.
///
/// # Errors
/// When the scenario cannot be read, or its cluster does not start.
pub fn debug(setup: &Setup) -> Result<(), String> {
    let scenario = crate::scenario::parse("replay.yaml", &setup.task.text).map_err(|e| e.to_string())?;
    let mut session = Session::default();
    loop {
        match copies::outermost(setup, &scenario, session)? {
            Some(again) => session = again,
            None => return Ok(()),
        }
    }
}
