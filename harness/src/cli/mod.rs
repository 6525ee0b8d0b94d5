//! The `mooring` command.

mod announce;
mod component;
mod compose;
mod doctor;
mod health;
mod pause;
mod run;
mod schema;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

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
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    output: Output,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// For people.
    #[default]
    Text,
    /// One JSON envelope.
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios, and print the timeline of one or the failing seeds of many.
    ///
    /// Simulated unless --live is given: as any user, in virtual time, the same seed gives the same trace. The exit code
    /// is 0 when all passed, 1 when an expectation or an invariant failed or a run panicked, 2 for a mistake in a file or
    /// on the command line, 3 when the machine lacks something, 4 after --timeout, 6 when something was left behind, 130
    /// after Ctrl-C. Of several the first of 130, 1, 6, 4, 3 counts. A mistake in one file stops all before they begin.
    #[command(
        after_help = "Example:\n  mooring run scenarios/first-volume.yaml --seed 7 --latency aws\n  mooring run scenarios/ --seeds 1..100 --junit report.xml\n  mooring run scenarios/migration.yaml --live --keep"
    )]
    Run(Box<run::Args>),
    /// Start a live cluster and serve until interrupted.
    #[command(
        after_help = "Example:\n  mooring up --ready-file /tmp/mooring.json &\n  kubectl --kubeconfig ~/.mooring/default/kubeconfig get nodes"
    )]
    Up(Box<up::Args>),
    /// Say what this machine can do for the live world, and what to install.
    #[command(after_help = "Example:\n  mooring doctor --output json")]
    Doctor(doctor::Args),
    /// Reach a cluster of containers that docker has started from compose.yaml.
    #[command(subcommand)]
    Compose(compose::Command),
    /// Ask components whether they answer: what the health checks of containers run. Exit code 1 when one does not.
    #[command(after_help = "Example:\n  mooring health http://127.0.0.1:4566/admin/v1/health")]
    Health(health::Args),
    /// Print the JSON Schema of what you write, for your editor; without an argument, list the schemas.
    #[command(after_help = "Example:\n  mooring schema scenario > scenario.json")]
    Schema(schema::Args),
    /// Run one component as a process of its own, with its own command line.
    #[command(after_help = "Example:\n  mooring component mock-ec2 --listen 127.0.0.1:4566", disable_help_flag = true)]
    Component(component::Args),
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
    let format = match cli.output {
        Output::Text => Format::Human,
        Output::Json => Format::Json,
    };
    match cli.command {
        Command::Run(args) => run::main(&args, format),
        Command::Up(args) => up::main(&args, format),
        Command::Doctor(args) => doctor::main(&args, format),
        Command::Compose(command) => compose::main(&command, format),
        Command::Health(args) => health::main(&args),
        Command::Schema(args) => schema::main(&args, format),
        Command::Component(args) => component::main(args),
    }
}
