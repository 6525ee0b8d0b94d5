//! The day-to-day commands for a running Mooring, one file each.

mod bundle;
mod check;
mod clean;
mod client;
mod collect;
mod containers;
mod done;
mod down;
mod env;
mod exec;
mod fault;
mod kubeconfig;
mod logs;
mod ls;
mod mask;
mod reset;
mod state;
pub(in crate::cli) mod state_directory;
mod status;
mod table;
mod timeline;
mod wait;

use std::process::ExitCode;

use clap::Subcommand;

use crate::cli::refusal::Refusal;
use crate::output::{self, Envelope, Format, Style};

use done::Done;

/// Commands for a running Mooring.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// End a Mooring, and remove its files.
    ///
    /// For `mooring up` only: containers end with `docker-compose down --volumes`.
    #[command(after_help = "Example:\n  mooring down\n  mooring down --all")]
    Down(down::Args),
    /// List the Moorings of this user.
    #[command(after_help = "Example:\n  mooring ls\n  mooring ls --output json")]
    Ls(ls::Args),
    /// Print the state of a Mooring, or of a cluster of containers: its addresses, nodes, processes, claims and faults,
    /// and the objects that wait.
    #[command(after_help = "Example:\n  mooring status")]
    Status(status::Args),
    /// Wait until objects are in a state, as in scenarios, or until the cluster is ready.
    #[command(
        after_help = "Example:\n  mooring wait --ready\n  mooring wait --for pvc/data=Bound --for pod/web=Running --timeout 1m\n  mooring wait --for 'pvc/data: self.status.capacity.storage == \"2Gi\"'"
    )]
    Wait(wait::Args),
    /// Print the variables with which kubectl and aws reach a Mooring.
    #[command(
        after_help = "Example:\n  eval \"$(mooring env)\"\n  mooring env --github >> \"$GITHUB_ENV\"\n  mooring env --shell fish | source"
    )]
    Env(env::Args),
    /// Print the kubeconfig of a Mooring, optionally with another URL of the API server.
    ///
    /// For `mooring up` only: for containers, `mooring env --compose` writes one.
    #[command(
        after_help = "Example:\n  mooring kubeconfig > kubeconfig\n  docker exec mooring mooring kubeconfig --server https://127.0.0.1:16443"
    )]
    Kubeconfig(kubeconfig::Args),
    /// Run a command with the variables of a Mooring; its exit code is the command's.
    ///
    /// As in a shell, the exit code is 127 for a missing command, and 126 for one that cannot be executed. For `mooring
    /// up` only: for containers, use `eval "$(mooring env --compose)"` in a shell.
    #[command(
        after_help = "Example:\n  mooring exec -- kubectl get pods\n  mooring exec --name other -- aws ec2 describe-volumes"
    )]
    Exec(exec::Args),
    /// Add, list and end faults of a Mooring: of its cloud, its API server, its driver, its links, disks and processes.
    ///
    /// With --compose, of a cluster of containers: faults of its cloud and its API server, and crashes of containers
    /// and processes.
    #[command(
        after_help = "Example:\n  mooring fault add slow --on ec2/AttachVolume --effect delay=20s --first 2\n  mooring fault add cut --partition node-a,apiserver\n  mooring fault add --crash csi-attacher\n  mooring fault ls\n  mooring fault rm --all"
    )]
    Fault(fault::Args),
    /// Reset a Mooring at the same addresses: without objects, volumes and faults.
    ///
    /// For `mooring up` only: reset containers with `docker-compose down --volumes` and `docker-compose up -d`.
    #[command(after_help = "Example:\n  mooring reset")]
    Reset(reset::Args),
    /// Print the whole state of a Mooring as JSON: objects, the cloud, faults, processes.
    ///
    /// For `mooring up` only: in containers, each server answers `GET /admin/v1/state` with the token.
    #[command(after_help = "Example:\n  mooring state | jq '.cloud.volumes'")]
    State(state::Args),
    /// Print the results of the invariants of a Mooring that was started with `mooring up --check`.
    ///
    /// The exit code is 0 if all hold, 1 if one was violated, 6 if something is left over. For `mooring up` only:
    /// `mooring run --target compose` checks them for containers.
    #[command(after_help = "Example:\n  mooring check --rest\n  mooring check --rest --empty --output json")]
    Check(check::Args),
    /// Remove the files of killed Moorings and killed live runs, including the bytes of their volumes.
    #[command(after_help = "Example:\n  mooring clean")]
    Clean(clean::Args),
    /// Print the timeline of the volumes of a Mooring, or of one claim.
    ///
    /// With --compose, that of a cluster of containers, from the traces that docker keeps.
    #[command(after_help = "Example:\n  mooring timeline\n  mooring timeline pvc/data\n  mooring timeline --follow")]
    Timeline(timeline::Args),
    /// Print the logs of the components of a Mooring: its servers, control loops, drivers and kubelets.
    ///
    /// With --compose, the logs of containers as lines for people: docker has their traces as JSON. Containers have no
    /// pods of kube-system.
    #[command(
        after_help = "Example:\n  mooring logs csi-attacher --tail 20\n  mooring logs -f ebs-plugin\n  mooring logs --since 1m"
    )]
    Logs(logs::Args),
    /// Write the data for a bug report into one file, with secrets masked.
    ///
    /// For `mooring up` only: for containers, `docker-compose logs` has the traces.
    #[command(after_help = "Example:\n  mooring collect\n  mooring collect --to report.tar.gz")]
    Collect(collect::Args),
}

pub(super) fn main(command: Command, format: Format) -> ExitCode {
    let (name, done) = match command {
        Command::Down(args) => ("down", down::main(&args)),
        Command::Ls(args) => ("ls", ls::main(&args)),
        Command::Status(args) => ("status", status::main(&args)),
        Command::Wait(args) => ("wait", wait::main(&args)),
        Command::Env(args) => ("env", env::main(&args)),
        Command::Kubeconfig(args) => ("kubeconfig", kubeconfig::main(&args)),
        Command::Exec(args) => match exec::main(&args, format) {
            Ok(code) => return code,
            Err(refusal) => ("exec", Err(refusal)),
        },
        Command::Fault(args) => (args.name(), fault::main(&args)),
        Command::Reset(args) => ("reset", reset::main(&args)),
        Command::State(args) => ("state", state::main(&args)),
        Command::Check(args) => ("check", check::main(&args)),
        Command::Clean(args) => ("clean", clean::main(&args)),
        Command::Timeline(args) => ("timeline", timeline::main(&args, format)),
        Command::Logs(args) => ("logs", logs::main(&args, format)),
        Command::Collect(args) => ("collect", collect::main(&args)),
    };
    finish(name, done, format)
}

fn finish(name: &str, done: Result<Done, Refusal>, format: Format) -> ExitCode {
    let (envelope, text) = match done {
        Ok(done) => {
            let mut envelope = Envelope::passed(name, done.data);
            (envelope.status, envelope.warnings) = (done.exit, done.warnings);
            (envelope, done.text)
        }
        Err((exit, failure)) => (Envelope::failed(name, exit, failure), String::new()),
    };
    output::finish(format, &envelope, &text, Style::stderr()).into()
}
