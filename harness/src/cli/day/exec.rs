//! `mooring exec`: a command with the variables of a Mooring.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::client::Running;
use super::place::Which;
use super::{Done, env};
use crate::cli::refusal::{Refusal, lacking};

/// Arguments of `mooring exec`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn main(args: &Args) -> Result<Done, Refusal> {
    let running = Running::at(args.which.place()?)?;
    let Some((program, rest)) = args.command.split_first() else { return Err(lacking("there is no command")) };
    // This process becomes the command, so that signals and the exit code are its own. Profiles of the user would lead
    // aws elsewhere.
    let error = Command::new(program).args(rest).env_remove("AWS_PROFILE").envs(env::variables(&running)).exec();
    Err(lacking(format!("{}: {error}", program.to_string_lossy())))
}
