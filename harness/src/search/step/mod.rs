//! A debugger of runs: forward and back, by event, by object, by process.
//!
//! A simulation pauses while the user thinks: it has one thread, and the debugger is an observer of its trace. Every
//! hundred events or so, and more often near the target of a movement, the run forks, and the copy continues. To go
//! back, the copy writes the target as its last message and exits, and the nearest waiting copy before the target forks
//! again and runs there. Without copies the run starts again from the beginning, with the same result.
//!
//! | | |
//! |---|---|
//! | `command` | commands of the user |
//! | `filter` | filters for events: breakpoints and targets of steps |
//! | `session` | the state that survives going back |
//! | `copies` | the chain of waiting copies |
//! | `player` | the run, event by event |
//! | `lines` | reads exactly one line |

mod command;
mod copies;
mod filter;
mod lines;
mod player;
mod session;

use std::time::Duration;

use super::judge::Task;
use session::Session;

/// Settings of a debugger.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Run to debug.
    pub task: Task,
    /// If set, no copies are kept.
    pub from_start: bool,
    /// If set, print a prompt, because a person types.
    pub prompts: bool,
}

/// Maximum time for an inspection of the cluster.
const LOOK: Duration = Duration::from_secs(30);

/// Reads commands from standard input until `quit` or its end.
///
/// # Errors
/// If the scenario cannot be read, or its cluster does not start.
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
