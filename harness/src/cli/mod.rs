//! The `mooring` command.

mod doctor;
mod run;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::output::Format;

/// A cloud and a Kubernetes cluster that fit in one process.
///
/// Follows a volume from `kubectl apply` to bytes on a mounted disk and back, and breaks it at every step.
#[derive(Debug, Parser)]
#[command(name = "mooring", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// How results are printed on standard output.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    output: Format,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario and print the timeline of its volumes.
    ///
    /// Simulated unless --live is given: as any user, in virtual time, the same seed gives the same trace.
    #[command(after_help = "Example:\n  mooring run scenarios/first-volume.yaml --seed 7 --latency aws")]
    Run(run::Args),
    /// Start a live cluster and serve until interrupted.
    #[command(after_help = "Example:\n  mooring up --ready-file /tmp/mooring.json &\n  kubectl --kubeconfig ~/.mooring/default/kubeconfig get nodes")]
    Up(up::Args),
    /// Say what this machine can do for the live world, and what to install.
    #[command(after_help = "Example:\n  mooring doctor --output json")]
    Doctor(doctor::Args),
}

/// Runs the command line `args`, the program's name first.
pub fn main_with(args: impl IntoIterator<Item = std::ffi::OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => {
            // The text goes where clap sends it: help to standard output, errors to standard error.
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { 2 } else { 0 });
        }
    };
    match cli.command {
        Command::Run(args) => run::main(&args, cli.output),
        Command::Up(args) => up::main(&args, cli.output),
        Command::Doctor(args) => doctor::main(&args, cli.output),
    }
}
