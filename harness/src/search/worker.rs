//! The child process of a search: reads one run per JSON line and writes its verdict.

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
    /// Expected end states of all following runs.
    Ends(Vec<EndState>),
    /// A run.
    Run(Box<Task>),
    /// A run with branches.
    Branches(Box<Task>, Vec<(usize, Fault)>),
}

/// A line from a worker that runs branches.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum News {
    /// Verdict of a branch.
    Ended(usize, Box<Verdict>),
    /// End of the branches.
    Over,
}

/// Carries out runs until the input ends, in at most `memory` bytes. A run that exceeds `limit` ends the process with
/// exit code 4. A run that panics gets the panic message as its verdict.
///
/// # Errors
/// If the input or output breaks, or a line is invalid.
pub fn main(limit: Duration, memory: u64) -> Result<(), String> {
    let bounds = Rlimit { current: Some(memory), maximum: Some(memory) };
    setrlimit(Resource::As, bounds).map_err(|e| format!("the limit of memory cannot be set: {e}"))?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|at| format!(" ({}:{})", at.file(), at.line())).unwrap_or_default();
        let message = panic.payload().downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = message.or_else(|| panic.payload().downcast_ref::<String>().cloned()).unwrap_or_default();
        LAST.with(|last| last.replace(format!("{message}{place}")));
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
                // Errors are ignored: the parent runs unreported branches from the start.
                let _ = branch::run(&task, faults, limit, last_words, |number, verdict| {
                    let _ = say(&News::Ended(number, Box::new(verdict)));
                });
                say(&News::Over)?;
            }
        }
    }
    Ok(())
}

/// Takes the message and location of the last panic.
fn last_words() -> String {
    LAST.with(std::cell::RefCell::take)
}

fn say(line: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string(line).map_err(|e| e.to_string())?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|e| e.to_string())
}

thread_local! {
    /// Message and location of the last panic.
    static LAST: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
}
