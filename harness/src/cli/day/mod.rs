//! What a user does with a Mooring that is up, day by day; a file for each command.

mod bundle;
mod check;
mod clean;
mod client;
mod collect;
mod containers;
mod down;
mod env;
mod exec;
mod fault;
mod kubeconfig;
mod logs;
mod ls;
mod mask;
pub(in crate::cli) mod place;
mod reset;
mod state;
mod status;
mod timeline;
mod wait;

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::Value;

use crate::cli::refusal::Refusal;
use crate::output::{self, Envelope, Exit, Format, Style};

/// The commands about a Mooring that is up.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// End a Mooring, and remove what it wrote.
    ///
    /// Of `mooring up` alone: containers end with `docker-compose down --volumes`.
    #[command(after_help = "Example:\n  mooring down\n  mooring down --all")]
    Down(down::Args),
    /// List the Moorings of this user.
    #[command(after_help = "Example:\n  mooring ls\n  mooring ls --output json")]
    Ls(ls::Args),
    /// Say how a Mooring, or a cluster of containers, is: its addresses, nodes, processes, claims and faults, and what
    /// waits.
    #[command(after_help = "Example:\n  mooring status")]
    Status(status::Args),
    /// Wait until objects are in a state, as in scenarios, or until the cluster is ready.
    #[command(
        after_help = "Example:\n  mooring wait --ready\n  mooring wait --for pvc/data=Bound --for pod/web=Running --timeout 1m\n  mooring wait --for 'pvc/data: self.status.capacity.storage == \"2Gi\"'"
    )]
    Wait(wait::Args),
    /// Print the variables with which kubectl and aws find a Mooring.
    #[command(
        after_help = "Example:\n  eval \"$(mooring env)\"\n  mooring env --github >> \"$GITHUB_ENV\"\n  mooring env --shell fish | source"
    )]
    Env(env::Args),
    /// Print the kubeconfig of a Mooring, with the API server at another URL if you say one.
    ///
    /// Of `mooring up` alone: of containers `mooring env --compose` writes one.
    #[command(
        after_help = "Example:\n  mooring kubeconfig > kubeconfig\n  docker exec mooring mooring kubeconfig --server https://127.0.0.1:16443"
    )]
    Kubeconfig(kubeconfig::Args),
    /// Run a command with the variables of a Mooring; its exit code is the command's.
    ///
    /// As with a shell it is 127 for a command that is not there, and 126 for one that cannot be executed. Of `mooring up`
    /// alone: for containers, `eval "$(mooring env --compose)"` does it for a shell.
    #[command(
        after_help = "Example:\n  mooring exec -- kubectl get pods\n  mooring exec --name other -- aws ec2 describe-volumes"
    )]
    Exec(exec::Args),
    /// Add, list and end faults of a Mooring: of its cloud, its API server, its driver, its links, disks and processes.
    ///
    /// With --compose of a cluster of containers: of its cloud and its API server, and containers and processes that end.
    #[command(
        after_help = "Example:\n  mooring fault add slow --on ec2/AttachVolume --effect delay=20s --first 2\n  mooring fault add cut --partition node-a,apiserver\n  mooring fault add --crash csi-attacher\n  mooring fault ls\n  mooring fault rm --all"
    )]
    Fault(fault::Args),
    /// Begin anew, at the same addresses: without objects, volumes and faults.
    ///
    /// Of `mooring up` alone: containers begin anew with `docker-compose down --volumes` and `docker-compose up -d`.
    #[command(after_help = "Example:\n  mooring reset")]
    Reset(reset::Args),
    /// Print everything that a Mooring knows, as JSON: objects, the cloud, faults, processes.
    ///
    /// Of `mooring up` alone: of containers, each server answers `GET /admin/v1/state` with the token.
    #[command(after_help = "Example:\n  mooring state | jq '.cloud.volumes'")]
    State(state::Args),
    /// Say what the invariants have seen of a Mooring that was started with `mooring up --check`.
    ///
    /// The exit code is 0 when all held, 1 when one did not, 6 when something is left over. Of `mooring up` alone:
    /// `mooring run --target compose` checks them for containers.
    #[command(after_help = "Example:\n  mooring check --rest\n  mooring check --rest --empty --output json")]
    Check(check::Args),
    /// Remove what killed Moorings and killed live runs left behind, the bytes of their volumes too.
    #[command(after_help = "Example:\n  mooring clean")]
    Clean(clean::Args),
    /// Print the timeline of the volumes of a Mooring, or of one claim.
    ///
    /// With --compose that of a cluster of containers, by the traces that docker keeps of them.
    #[command(after_help = "Example:\n  mooring timeline\n  mooring timeline pvc/data\n  mooring timeline --follow")]
    Timeline(timeline::Args),
    /// Print what the components of a Mooring have said: its servers, control loops, drivers and kubelets.
    ///
    /// With --compose what containers have said, as lines for people: docker has their traces as JSON. Containers have no
    /// pods of kube-system.
    #[command(
        after_help = "Example:\n  mooring logs csi-attacher --tail 20\n  mooring logs -f ebs-plugin\n  mooring logs --since 1m"
    )]
    Logs(logs::Args),
    /// Gather what a bug report needs in one file, with secrets masked.
    ///
    /// Of `mooring up` alone: of containers, `docker-compose logs` has the traces.
    #[command(after_help = "Example:\n  mooring collect\n  mooring collect --to report.tar.gz")]
    Collect(collect::Args),
}

/// What a command has done.
pub(in crate::cli) struct Done {
    /// As data.
    data: Value,
    /// As people read it.
    text: String,
    /// What deserves a look.
    warnings: Vec<String>,
    /// How it ended.
    exit: Exit,
}

impl Done {
    /// It did what it was asked.
    fn new(data: Value, text: impl Into<String>) -> Self {
        Self { data, text: text.into(), warnings: Vec::new(), exit: Exit::Passed }
    }
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

/// Rows as a table whose columns are as wide as they must be, below `head`.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("   ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_table_is_as_wide_as_its_cells() {
        let rows = [vec!["default".to_owned(), "up".to_owned()], vec!["b".to_owned(), "killed".to_owned()]];
        assert_eq!(super::table(&["NAME", "STATUS"], &rows), "NAME      STATUS\ndefault   up\nb         killed\n");
    }
}
