//! `mooring exec`: runs a command with the variables of a Mooring.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use super::client::Running;
use super::env;
use super::state_directory::Which;
use crate::cli::refusal::Refusal;
use crate::output::{self, Envelope, Exit, Failure, Format, Style};

/// Exit code for a missing command, as in shells.
const NOT_FOUND: u8 = 127;
/// Exit code for a command that cannot be executed, as in shells.
const NOT_EXECUTABLE: u8 = 126;

/// Arguments of `mooring exec`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Replaces this process by the command.
///
/// # Errors
/// If the Mooring is not up.
pub(super) fn main(args: &Args, format: Format) -> Result<ExitCode, Refusal> {
    let running = Running::at(args.which.place()?)?;
    // clap requires at least one word.
    let (program, rest) = args.command.split_first().map_or((OsStr::new(""), &[][..]), |(one, rest)| (one, rest));
    // exec keeps signals and the exit code those of the command. An AWS_PROFILE of the user would redirect aws.
    let error = Command::new(program).args(rest).env_remove("AWS_PROFILE").envs(env::variables(&running)).exec();
    let (code, failure) = refused(program, &error);
    output::finish(format, &Envelope::failed("exec", Exit::Environment, failure), "", Style::stderr());
    Ok(code.into())
}

/// Reason why a command does not run, with the exit code of shells.
fn refused(program: &OsStr, error: &io::Error) -> (u8, Failure) {
    let name = program.to_string_lossy();
    let is_path = name.contains('/');
    if error.kind() != io::ErrorKind::NotFound || (is_path && Path::new(program).exists()) {
        let failure = Failure::new("not-executable", format!("{name}: cannot be executed: {error}"));
        return (NOT_EXECUTABLE, failure.action("give a program, or a script with its interpreter, as in `sh SCRIPT`"));
    }
    let place = if is_path { "there is no such file" } else { "there is no such command in $PATH" };
    let failure = Failure::new("not-found", format!("{name}: {place}"));
    (NOT_FOUND, failure.action("a shell's own words need a shell: `mooring exec -- sh -c '…'`"))
}
