//! Scenario files that run programs of the user: permission, and the files for their output.

use std::path::PathBuf;

use super::args::Args;
use super::play::Trouble;
use crate::output::Failure;
use crate::scenario::Scenario;

/// Reason why these arguments do not permit the programs of `scenario`, if they do not.
pub(super) fn refusal(args: &Args, scenario: &Scenario) -> Option<Failure> {
    let first = scenario.programs.first()?;
    let at = format!("{}:{}:{}", scenario.source, first.line, first.column);
    let all: Vec<String> = scenario.programs.iter().map(|program| format!("{} (`{program}`)", program.name)).collect();
    let what = match all.len() {
        1 => "this file runs a program",
        _ => "this file runs programs",
    };
    let what = format!("{at}: {what} on this machine: {}", all.join(", "));
    let failure = |why: &str, next: &str| Some(Failure::new("usage", format!("{what}{why}")).action(next));
    if args.target.is_some() {
        return failure(
            ", and --target is a cluster that Mooring did not start",
            "run it with --live --allow-exec instead",
        );
    }
    if !args.live {
        return failure(", which is not possible in a simulation", "add --live --allow-exec");
    }
    if !args.allow_exec {
        return failure("", "read its `run:`, and add --allow-exec if you trust the file");
    }
    None
}

/// Creates the directory for the output of programs.
pub(super) fn logs(args: &Args) -> Result<Option<PathBuf>, Trouble> {
    let Some(directory) = &args.logs else { return Ok(None) };
    let made = std::fs::create_dir_all(directory);
    made.map_err(|e| Trouble::Environment(format!("--logs {}: {e}", directory.display())))?;
    Ok(Some(directory.clone()))
}
