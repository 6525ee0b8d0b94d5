//! Arguments of `mooring run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use mock_ec2::LatencyProfile;
use substrate::fault::Span;
use substrate::host;
use substrate::world::Transport;
use substrate::{TimeScale, World, WorldKind};

use crate::cluster::{LEAST_RUN, live};
use crate::report_html::Listener;
use crate::scenario::Scenario;
use crate::seeds::Seeds;

/// Transport of calls in a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Carrier {
    /// Direct call of the server's service.
    #[default]
    Direct,
    /// HTTP and gRPC bytes over in-memory pipes; the trace is the same.
    Duplex,
}

impl From<Carrier> for Transport {
    fn from(carrier: Carrier) -> Self {
        match carrier {
            Carrier::Direct => Self::Direct,
            Carrier::Duplex => Self::Duplex,
        }
    }
}

/// A cluster that runs already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Target {
    /// The containers of compose.yaml.
    Compose,
}

/// Reader of annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Annotations {
    /// GitHub Actions: `::error file=…,line=…`.
    Github,
    /// No annotations.
    None,
}

/// Default limit of wall time for a simulation.
const LIMIT: Duration = Duration::from_secs(5 * 60);
/// Time allowed for the cluster to converge after the steps, in the scenario's own time.
const REST: Duration = Duration::from_secs(20 * 60);
/// Time allowed for the machine itself.
const GRACE: Duration = Duration::from_secs(60);

const RUNS: &str = "Which runs";
const WORLD: &str = "World";
const WATCH: &str = "When a run fails";
const RESULTS: &str = "Results";

/// Arguments of `mooring run`.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Scenario files, folders of them, and patterns such as 'scenarios/**/node-*.yaml'.
    ///
    /// In a folder all .yaml and .yml files run, also those in folders below it, in the order of their paths. If there
    /// are several files, one without `steps:` is not a scenario: it is skipped, and a line says so. With one file and
    /// one seed, the timeline of its volumes is printed; otherwise a line for each file, and the failures.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// The seed of all randomness.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = RUNS)]
    pub seed: u64,
    /// Run each file with each of these seeds: 7, 1..100 (including 100), 1,5,9, or several of these with commas.
    #[arg(long, value_name = "SEEDS", conflicts_with = "seed", help_heading = RUNS)]
    pub seeds: Option<Seeds>,
    /// The number of simulations at a time. Default: one for each processor. Live runs go one after another.
    #[arg(long, value_name = "N", conflicts_with = "live", help_heading = RUNS, value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Run nothing: read the files and show each error with its position. Exit code 2 if there is one.
    #[arg(
        long,
        help_heading = RUNS,
        conflicts_with_all = [
            "seed", "seeds", "jobs", "backend", "latency", "time_scale", "transport", "mutant",
            "keep", "fail_fast", "timeout", "trace", "junit",
        ]
    )]
    pub check: bool,
    /// Remove faults and steps one at a time. If the rest of a scenario still passes with every seed, the removed part
    /// is not needed, or no expectation checks its effect. Lists these parts; exit code 1 if there is one.
    #[arg(long, help_heading = RUNS, conflicts_with_all = ["check", "live", "jobs", "keep", "fail_fast", "trace", "junit", "transport"])]
    pub needed: bool,
    /// Run over real sockets, on loop devices with ext4 if root on Linux, on directories otherwise.
    #[arg(long, help_heading = WORLD)]
    pub live: bool,
    /// Run against the running containers of compose.yaml, and start nothing. docker crashes them and cuts their
    /// networks. The cluster must have no pods and no claims; at the end everything that the run has created is
    /// deleted.
    #[arg(
        long,
        value_enum,
        value_name = "TARGET",
        help_heading = WORLD,
        conflicts_with_all = ["live", "seeds", "jobs", "check", "needed", "latency", "time_scale", "transport", "keep"]
    )]
    pub target: Option<Target>,
    /// The compose project. Default: the only one that runs our servers.
    #[arg(long, value_name = "NAME", requires = "target", help_heading = WORLD)]
    pub project: Option<String>,
    /// Let a file start the programs that its `run:` names, on this machine and as you. Only for files that you trust.
    #[arg(long, requires = "live", help_heading = WORLD)]
    pub allow_exec: bool,
    /// The backend of the disks in the live world. Default: the best that works here.
    #[arg(long, value_name = "BACKEND", requires = "live", help_heading = WORLD)]
    pub backend: Option<live::BackendChoice>,
    /// The latency profile of the cloud (instant, aws or aws-recent). Overrides the file.
    #[arg(long, value_name = "PROFILE", help_heading = WORLD)]
    pub latency: Option<LatencyProfile>,
    /// Divides the durations of control loops and mocks. Overrides the file's `time-scale`.
    #[arg(long, value_name = "FACTOR", help_heading = WORLD, value_parser = host::time_scale, allow_negative_numbers = true)]
    pub time_scale: Option<f64>,
    /// The transport of calls in a simulation.
    #[arg(long, value_enum, default_value_t, conflicts_with = "live", help_heading = WORLD)]
    pub transport: Carrier,
    /// Enable planted defects by name, separated by commas: for builds with the feature `mutants`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide = !substrate::mutant::BUILT_IN, help_heading = WORLD)]
    pub mutant: Vec<String>,
    /// Keep the cluster up after a live run of one file, passed or failed, until Ctrl-C, and delete nothing in it.
    ///
    /// Prints the same as `mooring up`: the kubeconfig and the variables for aws. After steps that passed, the faults
    /// have ended and the nodes run, as at the end of every run. Leftovers (I5) are not checked. The exit code is that
    /// of the steps.
    #[arg(long, requires = "live", conflicts_with = "seeds", help_heading = WATCH)]
    pub keep: bool,
    /// Start no more runs after one has failed; running ones end normally.
    #[arg(long, help_heading = WATCH)]
    pub fail_fast: bool,
    /// Wall-clock limit of each run. Exceeding it is exit code 4, with the current step and the last state. Default:
    /// 5m, and in the live world never less than the deadlines of the file.
    #[arg(long, value_name = "DURATION", help_heading = WATCH)]
    pub timeout: Option<Span>,
    /// Write the trace as JSON lines, with every message of every link, to this file, or to standard output for `-`;
    /// the timeline then goes to standard error. With several runs it is a folder, with a file for each run.
    #[arg(long, value_name = "PATH", help_heading = RESULTS)]
    pub trace: Option<PathBuf>,
    /// Write a report as JUnit XML to this file: a suite for each file, a case for each seed.
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub junit: Option<PathBuf>,
    /// Write a report of the run to this file: one page that shows what happened, for a browser.
    #[arg(long, value_name = "FILE", help_heading = RESULTS, conflicts_with_all = ["check", "needed", "seeds"])]
    pub report: Option<PathBuf>,
    /// Write the output of each program of `run:` to NAME.log in this folder, without the secrets that it was given; at
    /// most 4 MiB, and the 4 MiB before that in NAME.log.1.
    #[arg(long, value_name = "DIR", help_heading = RESULTS, requires = "allow_exec", conflicts_with = "seeds")]
    pub logs: Option<PathBuf>,
    /// Records the run for the report.
    #[arg(skip)]
    pub listener: Listener,
    /// Print an annotation for each file that failed, with its line. Default: github if GITHUB_ACTIONS is true.
    #[arg(long, value_enum, value_name = "FOR", help_heading = RESULTS)]
    pub annotations: Option<Annotations>,
}

impl Args {
    /// World of these runs.
    pub fn world(&self) -> WorldKind {
        if self.live || self.target.is_some() { WorldKind::Live } else { WorldKind::Simulated }
    }

    /// Attaches the listener to `world` if there is to be a report.
    pub fn observe(&self, world: &World) {
        if self.report.is_some() {
            self.listener.attach(world.trace());
        }
    }

    /// Wall time limit of a simulation.
    pub fn limit(&self) -> Duration {
        self.timeout.map_or(LIMIT, |limit| limit.0)
    }

    /// Wall time limit of a live run of `scenario`: the deadline of the file, and the time to converge.
    pub fn live_limit(&self, scenario: &Scenario) -> Duration {
        let own = if self.target.is_some() { 1.0 } else { scenario.time_scale.live };
        let scale = TimeScale::new(self.time_scale.unwrap_or(own));
        let deadline = scale.live_limit(scenario.deadline, LEAST_RUN);
        let file = deadline.saturating_add(scale.apply(REST)).saturating_add(GRACE);
        self.timeout.map_or(file.max(LIMIT), |limit| limit.0)
    }

    /// Seeds with which each file runs.
    pub fn all_seeds(&self) -> Seeds {
        self.seeds.clone().unwrap_or_else(|| Seeds::one(self.seed))
    }

    /// Returns true if annotations are printed.
    pub fn annotates(&self) -> bool {
        self.annotations.map_or_else(crate::output::github::is_here, |a| a == Annotations::Github)
    }

    /// Flags that affect a run, as typed, except its seed.
    pub fn flags(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let name = |value: Option<clap::builder::PossibleValue>| value.map(|v| v.get_name().to_owned());
        let mut flag = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                all.extend([format!("--{name}"), value]);
            }
        };
        flag("backend", self.backend.and_then(|b| name(b.to_possible_value())));
        flag("latency", self.latency.map(|l| l.to_string()));
        flag("time-scale", self.time_scale.map(|f| f.to_string()));
        let carrier = Some(self.transport).filter(|t| *t != Carrier::default());
        flag("transport", carrier.and_then(|t| name(t.to_possible_value())));
        flag("target", self.target.and_then(|t| name(t.to_possible_value())));
        flag("project", self.project.clone());
        flag("mutant", Some(self.mutant.join(",")).filter(|m| !m.is_empty()));
        for (there, name) in [(self.live, "--live"), (self.allow_exec, "--allow-exec")] {
            all.extend(there.then(|| name.to_owned()));
        }
        all
    }

    /// Command that repeats the run of `file` with `seed`.
    pub fn again(&self, file: &str, seed: u64) -> String {
        let words = ["mooring".to_owned(), "run".to_owned(), file.to_owned(), "--seed".to_owned(), seed.to_string()];
        words.into_iter().chain(self.flags()).map(|word| crate::output::quoted(&word)).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn read(words: &str) -> Result<Args, String> {
        Line::try_parse_from(words.split(' ')).map(|line| line.args).map_err(|e| e.to_string())
    }

    #[test]
    fn conflicting_flags_are_refused() {
        for words in [
            "run",
            "run f.yaml --keep",
            "run f.yaml --keep --live --seeds 1..3",
            "run f.yaml --seed 1 --seeds 1..3",
            "run f.yaml --live --jobs 2",
            "run f.yaml --jobs 0",
            "run f.yaml --check --seeds 1..3",
            "run f.yaml --check --junit r.xml",
            "run f.yaml --check --timeout 1s",
            "run f.yaml --target compose --live",
            "run f.yaml --target compose --time-scale 10",
            "run f.yaml --project shop",
        ] {
            assert!(read(words).is_err(), "{words}");
        }
        assert!(read("run f.yaml --seeds 5..2").unwrap_err().contains("write the smaller number first"));
        assert_eq!(read("run a b --seeds 1..3 --jobs 2 --fail-fast").unwrap().all_seeds().all(), [1, 2, 3]);
        assert_eq!(read("run a").unwrap().all_seeds().all(), [1]);
    }

    #[test]
    fn the_command_that_runs_again_has_all_that_decides_what_happens() {
        let args = read("run f.yaml --live --backend directory --latency aws-recent --time-scale 10");
        assert_eq!(
            args.unwrap().again("it's here.yaml", 7),
            r"mooring run 'it'\''s here.yaml' --seed 7 --backend directory --latency aws-recent --time-scale 10 --live"
        );
        let args = read("run f.yaml --transport duplex --mutant a,b --jobs 3 --trace t --timeout 1m");
        assert_eq!(args.unwrap().again("f.yaml", 1), "mooring run f.yaml --seed 1 --transport duplex --mutant a,b");
    }
}
