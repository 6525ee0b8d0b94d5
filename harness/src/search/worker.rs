//! What a child of a search does: it reads runs, a JSON line each, and writes what they come to.

use std::io::{BufRead, Write};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use substrate::fault::Fault;

use super::branch;
use super::end_state::EndState;
use super::judge::{Task, Verdict, judge};

/// A line to a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// Where all runs that follow must end.
    Ends(Vec<EndState>),
    /// A run.
    Run(Box<Task>),
    /// A run that becomes several.
    Branches(Box<Task>, Vec<(usize, Fault)>),
}

/// A line from a worker that runs branches.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum News {
    /// What a branch came to.
    Ended(usize, Box<Verdict>),
    /// There are no more.
    Over,
}

/// Carries out runs until nobody asks for more. Takes at most `memory` bytes; a run that takes longer than `limit` ends
/// the process with exit code 4, and one that panics with what it said as its verdict.
///
/// # Errors
/// When whoever asks goes away, or says something else.
pub fn main(limit: Duration, memory: u64) -> Result<(), String> {
    let bounds = Rlimit { current: Some(memory), maximum: Some(memory) };
    setrlimit(Resource::As, bounds).map_err(|e| format!("the limit of memory cannot be set: {e}"))?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|at| format!(" ({}:{})", at.file(), at.line())).unwrap_or_default();
        let said = panic.payload().downcast_ref::<&str>().map(|text| (*text).to_owned());
        let said = said.or_else(|| panic.payload().downcast_ref::<String>().cloned()).unwrap_or_default();
        LAST.with(|last| last.replace(format!("{said}{place}")));
    }));
    let mut ends: Option<Vec<EndState>> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        match serde_json::from_str(&line).map_err(|e| e.to_string())? {
            Order::Ends(all) => ends = Some(all),
            Order::Run(mut task) => {
                task.ends = task.ends.or_else(|| ends.clone());
                let run = std::panic::AssertUnwindSafe(|| judge(&task, Some(limit)));
                let verdict = std::panic::catch_unwind(run).unwrap_or_else(|_| Verdict::panicked(&last_words()));
                say(&verdict)?;
            }
            Order::Branches(mut task, faults) => {
                task.ends = task.ends.or_else(|| ends.clone());
                // What cannot be copied runs from the start, and so does what is told to nobody.
                let _ = branch::run(&task, faults, limit, last_words, |number, verdict| {
                    let _ = say(&News::Ended(number, Box::new(verdict)));
                });
                say(&News::Over)?;
            }
        }
    }
    Ok(())
}

/// What the last panic said and where.
fn last_words() -> String {
    LAST.with(std::cell::RefCell::take)
}

fn say(line: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string(line).map_err(|e| e.to_string())?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|e| e.to_string())
}

thread_local! {
    /// What the last panic said and where.
    static LAST: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
}
