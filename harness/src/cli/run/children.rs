//! Many live runs, one after another. Each is a separate `mooring run`, because mounts, loop devices and sockets belong
//! to an OS process, and end with it.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use substrate::host::Stop;
use tokio::process::Command;
use tokio::time::Instant;

use super::args::Args;
use super::play::{Ended, Position};
use crate::output::{Exit, Failure};

/// One live run.
pub(super) struct Run<'a> {
    /// The scenario file.
    pub file: &'a str,
    /// The seed.
    pub seed: u64,
    /// Path of its trace.
    pub trace: Option<&'a std::path::Path>,
}

/// Does one run. If `stop` comes first, ends it and returns none.
///
/// # Errors
/// If the program does not start.
pub(super) async fn run(args: &Args, run: Run<'_>, stop: &mut Stop) -> std::io::Result<Option<Ended>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("run").arg(run.file).args(["--seed", &run.seed.to_string()]).args(args.flags());
    command.args(["--output", "json", "--annotations", "none"]);
    if let Some(limit) = args.timeout {
        command.args(["--timeout", &limit.to_string()]);
    }
    if let Some(trace) = run.trace {
        command.arg("--trace").arg(trace);
    }
    // Ctrl-C in a terminal reaches only this process, which passes it on once.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let since = Instant::now();
    let child = command.spawn()?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut waiting = std::pin::pin!(child.wait_with_output());
    let output = tokio::select! { biased;
        _ = stop.wait() => {
            if let Some(pid) = pid {
                // A process that has just ended needs no signal.
                let _ = kill_process(pid, Signal::TERM);
            }
            // Wait until it has removed everything that it created.
            let _ = waiting.await;
            return Ok(None);
        }
        output = &mut waiting => output?,
    };
    let envelope = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Ok(Some(read(&envelope, output.status, since.elapsed())))
}

/// Result of a run, from its envelope.
fn read(envelope: &Value, status: std::process::ExitStatus, wall: Duration) -> Ended {
    let exit = status.code().and_then(|code| u8::try_from(code).ok()).and_then(Exit::of_code);
    let Some(exit) = exit.filter(|_| envelope["status"].is_string()) else {
        let failure = Failure::new("ended", format!("the process of the run ended without a result: {status}"));
        return Ended::without_outcome(Exit::Failed, failure, wall);
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let failure = envelope["error"].as_object().map(|error| Failure {
        code: text(&error["code"]),
        message: text(&error["message"]),
        actions: error["actions"].as_array().into_iter().flatten().map(text).collect(),
    });
    let data = &envelope["data"];
    let at = &data["position"];
    Ended {
        checked: data["checked"].clone(),
        backend: data["summary"]["backend"].as_str().map(str::to_owned),
        elapsed_ms: data["summary"]["worldMs"].as_u64().unwrap_or(0),
        position: at["line"].as_u64().zip(at["column"].as_u64()).map(|(line, column)| Position {
            file: text(&at["file"]),
            line,
            column,
        }),
        failure,
        ..Ended::without_outcome(exit, Failure::new("", ""), wall)
    }
}
