//! The `mooring` command.

mod announce;
mod component;
mod compose;
mod day;
mod doctor;
mod envtest;
mod explore;
mod explore_mutants;
mod health;
mod import;
mod manual;
mod misused;
mod pause;
mod perturb;
mod refusal;
mod replay;
mod report;
mod run;
mod schema;
mod search;
mod shrink;
mod sweep;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use fake_apiserver::envtest::Program;

use crate::output::Format;

/// A cloud and a Kubernetes cluster that fit in one process.
///
/// Follows a volume from `kubectl apply` to bytes on a mounted disk and back, and breaks it at every step.
#[derive(Debug, Parser)]
#[command(name = "mooring", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The format of results on standard output.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    output: Output,
}

/// Format of results.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// Text for people.
    #[default]
    Text,
    /// One JSON envelope.
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios, and print the timeline of one or the failing seeds of many.
    ///
    /// Simulated unless --live is given: as any user, in virtual time, the same seed gives the same trace. The exit
    /// code is 0 if all passed, 1 if an expectation or an invariant failed or a run panicked, 2 for an error in a file
    /// or on the command line, 3 if the machine lacks something, 4 after --timeout, 6 if something was left behind, 130
    /// after Ctrl-C. With several results, the first of 130, 1, 6, 4, 3 counts. An error in one file stops all before
    /// they begin.
    #[command(
        after_help = "Example:\n  mooring run scenarios/first-volume.yaml --seed 7 --latency aws\n  mooring run scenarios/ --seeds 1..100 --junit report.xml\n  mooring run scenarios/migration.yaml --live --keep"
    )]
    Run(Box<run::Args>),
    /// Break everything that can break in a scenario, one thing per run, and print the results.
    ///
    /// Every process crashes at every event, every request and answer is lost, late or duplicated, every watch event
    /// lags, every stream breaks, every write meets a conflict, every disk operation fails. Afterwards all invariants
    /// must hold, and the end state must be that of the unbroken run. The exit code is 0 without findings, 1 with
    /// findings, 2 for an error in the file or on the command line, 130 after Ctrl-C.
    #[command(
        after_help = "Example:\n  mooring sweep scenarios/migration.yaml --jobs 4 --out found\n  mooring sweep scenarios/first-volume.yaml --only crash,lose-reply --points 200"
    )]
    Sweep(Box<sweep::Args>),
    /// Find the bugs of a controller, driver or operator: break its calls, one thing a trial.
    ///
    /// The program runs beside a live cluster in which a user works. Three unbroken runs tell what calls
    /// it makes; then each call is broken in each way in which a real server, network or machine breaks it: killed before
    /// and after its effect, lost, refused, late, answered with the past. Afterwards all invariants must hold, nothing may
    /// be left, and the end must be that of the unbroken run. The command behind -- is run as it is, on this machine and
    /// as you. The exit code is 0 without a finding, 1 with one, 2 for a mistake in the file or on the
    /// command line, 3 when the machine lacks something, 130 after Ctrl-C.
    #[command(
        after_help = "Example:\n  mooring perturb --replaces csi-attacher -- \\\n    ./my-attacher --csi-address '$(CSI_ADDRESS)'\n  mooring perturb --scenario scenario.yaml --only crash-after,lost-reply \\\n    --out found -- python3 operator.py"
    )]
    Perturb(Box<perturb::Args>),
    /// Run a finding again, byte for byte; up to a moment, to look around there; or step by step, forward and back.
    ///
    /// The exit code is 0 if the run matches the record, whatever the finding is, 5 with the first event that differs,
    /// 2 for an error in the file or on the command line. A file without a record is run twice, and the two runs are
    /// compared.
    #[command(
        after_help = "Example:\n  mooring replay found/leaked.yaml\n  mooring replay scenarios/migration.yaml --seed 7 \\\n    --at 'volumeattachment/csi-* attached' --state"
    )]
    Replay(Box<replay::Args>),
    /// Remove the parts of a finding that it does not need, until a person can read it.
    ///
    /// Removes faults, steps, objects and nodes, and shortens times, as long as the run ends with the same finding. The
    /// exit code is 0, or 2 if the file has no finding.
    #[command(after_help = "Example:\n  mooring shrink found/leaked.yaml --out small.yaml")]
    Shrink(Box<shrink::Args>),
    /// Draw clusters, workloads and faults, run each, and print one line for each bug.
    ///
    /// Each run has its own nodes, claims, pods, moves, crashes, partitions and faults. When its faults are over, the
    /// cluster must converge, all invariants must hold and nothing may be left behind. A finding is written with
    /// everything that was drawn, so that it still works after the drawing changes. The exit code is 0 without findings,
    /// 1 with findings, 2 for an error on the command line, 130 after Ctrl-C, which prints the results so far.
    #[command(
        after_help = "Example:\n  mooring explore --runs 1000 --out found\n  mooring explore --time 30m --shard 2/8 --output json"
    )]
    Explore(Box<explore::Args>),
    /// Start a program and end everything that it has started; `run:` and `up --run` use it.
    #[command(hide = true)]
    ProgramGuard(crate::program::guard::Args),
    /// Make the root of a container and become its program; `up --containers process` uses it.
    #[command(hide = true)]
    ContainerRoot,
    /// Enter a container and become a program there; `kubectl exec` uses it.
    #[command(hide = true)]
    ContainerEnter,
    /// Carry out the runs of a search; `sweep` and `explore` use it.
    #[command(hide = true)]
    SearchWorker(search::WorkerArgs),
    /// Start a live cluster and serve until interrupted, or in the background.
    #[command(after_help = "Example:\n  mooring up --detach\n  mooring exec -- kubectl get nodes\n  mooring down")]
    Up(Box<up::Args>),
    #[command(flatten)]
    Day(day::Command),
    /// Make a scenario from the output of kubectl and the AWS CLI for a real cluster.
    ///
    /// The scenario begins in the state of the files: nodes, claims, volumes, attachments and pods with their uids,
    /// finalizers and statuses, and the volumes of the cloud. Secrets are never imported, and neither are the commands,
    /// arguments and variables of containers. A line for each object says what is left out or changed. `mooring up
    /// --begin FILE` starts a live cluster from the scenario. The exit code is 0, or 2 for a file that cannot be read.
    #[command(
        after_help = "Example:\n  kubectl get nodes,csinodes,pv,pvc,sc,volumeattachments,pods -A \\\n    -o yaml > cluster.yaml\n  aws ec2 describe-volumes > volumes.json\n  aws ec2 describe-instances > instances.json\n  mooring import cluster.yaml volumes.json instances.json --out incident.yaml\n  mooring run incident.yaml"
    )]
    Import(import::Args),
    /// Print what this machine can do for the live world, and what to install.
    #[command(after_help = "Example:\n  mooring doctor --output json")]
    Doctor(doctor::Args),
    /// Print the folder of programs that controller-runtime's envtest starts: kube-apiserver, etcd, kubectl.
    ///
    /// The folder is in the cache directory ($XDG_CACHE_HOME, or ~/.cache) and contains links to this program, and to
    /// the kubectl on PATH if there is one. Suites run unchanged; nothing runs beside the API server, as with the real
    /// pair. MOORING_ENVTEST=controllers adds the deletion of namespaces and of owned objects, MOORING_ENVTEST=cluster
    /// adds nodes, volumes and all control loops.
    #[command(
        after_help = "Example:\n  export KUBEBUILDER_ASSETS=$(mooring envtest)\n  go test ./...\n  MOORING_ENVTEST=controllers go test ./..."
    )]
    Envtest(envtest::Args),
    /// Check that components answer, for the health checks of containers. Exit code 1 if one does not.
    #[command(after_help = "Example:\n  mooring health http://127.0.0.1:4566/admin/v1/health")]
    Health(health::Args),
    /// Print the JSON Schema of a file format, for your editor; without an argument, list the schemas.
    #[command(after_help = "Example:\n  mooring schema scenario > scenario.json")]
    Schema(schema::Args),
    /// Print the completion script for a shell.
    #[command(
        after_help = "Example:\n  mooring completion bash > ~/.local/share/bash-completion/completions/mooring\n  mooring completion zsh > \"${fpath[1]}/_mooring\"\n  mooring completion fish > ~/.config/fish/completions/mooring.fish"
    )]
    Completion(manual::Completion),
    /// Print the manual page of a command, or write those of all commands.
    #[command(after_help = "Example:\n  mooring man fault add | man -l -\n  mooring man --to ~/.local/share/man/man1")]
    Man(manual::Man),
    /// Run one component as a separate process, with its own command line.
    #[command(after_help = "Example:\n  mooring component mock-ec2 --listen 127.0.0.1:4566", disable_help_flag = true)]
    Component(component::Args),
}

/// Runs the command line `args`, which begins with the name of the program.
pub fn main_with(args: impl IntoIterator<Item = std::ffi::OsString>) -> ExitCode {
    crate::program::guard::offer();
    let mut args: Vec<_> = args.into_iter().collect();
    if let [_, command, flag] = args.as_mut_slice()
        && command == "component"
        && (flag == "--help" || flag == "-h")
    {
        // The flags after a component are its own, so the command itself has none.
        (*command, *flag) = ("help".into(), "component".into());
    }
    if let Some(program) = args.first().and_then(|name| Program::named(name)) {
        return program.run(args, Some(envtest::BESIDE));
    }
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return misused::refuse(&error, &args),
    };
    let format = match cli.output {
        Output::Text => Format::Human,
        Output::Json => Format::Json,
    };
    match cli.command {
        Command::Run(args) => run::main(&args, format),
        Command::Sweep(args) => sweep::main(&args, format),
        Command::Perturb(args) => perturb::main(&args, format),
        Command::Replay(args) => replay::main(&args, format),
        Command::Shrink(args) => shrink::main(&args, format),
        Command::Explore(args) => explore::main(&args, format),
        Command::ProgramGuard(args) => crate::program::guard::main(&args),
        Command::ContainerRoot => crate::containers::root::main(),
        Command::ContainerEnter => crate::containers::enter::main(),
        Command::SearchWorker(args) => search::worker(&args),
        Command::Up(args) => up::main(&args, format),
        Command::Day(command) => day::main(command, format),
        Command::Import(args) => import::main(&args, format),
        Command::Doctor(args) => doctor::main(&args, format),
        Command::Envtest(args) => envtest::main(&args, format),
        Command::Health(args) => health::main(&args),
        Command::Schema(args) => schema::main(&args, format),
        Command::Completion(args) => manual::complete(&args, format),
        Command::Man(args) => manual::main(&args, format),
        Command::Component(args) => component::main(args),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    /// Returns help lines that are wider than 80 columns, each with its command.
    fn wide(command: &Command, path: &str) -> Vec<String> {
        let mut lines = Vec::new();
        // Examples are for copying, so they are not wrapped and must be short.
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for text in [command.clone().term_width(80).render_long_help().to_string(), examples] {
            lines.extend(text.lines().filter(|line| line.chars().count() > 80).map(|line| format!("{path}: {line}")));
        }
        for inner in command.get_subcommands() {
            lines.extend(wide(inner, &format!("{path} {}", inner.get_name())));
        }
        lines
    }

    #[test]
    fn help_fits_into_80_columns() {
        let mut command = super::Cli::command();
        command.build();
        assert_eq!(wide(&command, "mooring"), Vec::<String>::new());
    }
}
