//! What `mooring run` is told on its command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use mock_ec2::LatencyProfile;
use substrate::fault::Span;
use substrate::host;
use substrate::world::Transport;
use substrate::{TimeScale, World, WorldKind};

use crate::cli::announce;
use crate::cluster::live;
use crate::report_html::Listener;
use crate::scenario::Scenario;
use crate::seeds::Seeds;

/// What carries calls in a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Carrier {
    /// The server's service is called directly.
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

/// A cluster that others have started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Target {
    /// The containers of compose.yaml.
    Compose,
}

/// Who reads annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Annotations {
    /// GitHub Actions: `::error file=…,line=…`.
    Github,
    /// Nobody.
    None,
}

/// The most wall time of a run that says nothing else.
const LIMIT: Duration = Duration::from_secs(5 * 60);
/// How long a cluster may take to come to rest after its story, in the scenario's own time.
const REST: Duration = Duration::from_secs(20 * 60);
/// What a machine may take for itself.
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
    /// Of a folder all .yaml and .yml files run, also those in folders below, in the order of their paths. Of several
    /// files one without `steps:` is no scenario: it is skipped, and a line says so. With one file and one seed the
    /// timeline of its volumes is printed; otherwise a line for each file, and what failed.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// The seed of all randomness.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = RUNS)]
    pub seed: u64,
    /// Run each file with each of these seeds: 7, 1..100 (100 is one of them), 1,5,9, or several of these with commas.
    #[arg(long, value_name = "SEEDS", conflicts_with = "seed", help_heading = RUNS)]
    pub seeds: Option<Seeds>,
    /// Simulations at a time; one for each processor when absent. Live runs go one after another.
    #[arg(long, value_name = "N", conflicts_with = "live", help_heading = RUNS, value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Run nothing: read the files and show each mistake with its place. Exit code 2 when there is one.
    #[arg(
        long,
        help_heading = RUNS,
        conflicts_with_all = [
            "seed", "seeds", "jobs", "processes", "backend", "latency", "time_scale", "transport", "mutant",
            "keep", "fail_fast", "timeout", "trace", "junit",
        ]
    )]
    pub check: bool,
    /// Take faults and steps out one by one: the rest of a scenario must fail, or the part is not needed, or nothing looks
    /// at what it does. Names each part without which a file passes with every seed; exit code 1 when there is one.
    #[arg(long, help_heading = RUNS, conflicts_with_all = ["check", "live", "jobs", "keep", "fail_fast", "trace", "junit", "transport"])]
    pub needed: bool,
    /// Run over real sockets, on loop devices with ext4 when root on Linux, on directories otherwise.
    #[arg(long, help_heading = WORLD)]
    pub live: bool,
    /// Run against a cluster that runs already, and start nothing: the containers of compose.yaml. docker crashes them and
    /// cuts them off. The cluster must have no pod and no claim; at the end all that the run has made is deleted.
    #[arg(
        long,
        value_enum,
        value_name = "TARGET",
        help_heading = WORLD,
        conflicts_with_all = ["live", "seeds", "jobs", "check", "needed", "latency", "time_scale", "transport", "keep"]
    )]
    pub target: Option<Target>,
    /// The compose project; the only one that runs our servers when absent.
    #[arg(long, value_name = "NAME", requires = "target", help_heading = WORLD)]
    pub project: Option<String>,
    /// In the live world: every component is an OS process of its own.
    #[arg(long, requires = "live", help_heading = WORLD)]
    pub processes: bool,
    /// Lets a file start the programs that its `run:` names, on this machine and as you. Only for files that you trust.
    #[arg(long, requires = "live", help_heading = WORLD)]
    pub allow_exec: bool,
    /// The backend of the disks in the live world; what works here when absent.
    #[arg(long, value_name = "BACKEND", requires = "live", help_heading = WORLD)]
    pub backend: Option<live::BackendChoice>,
    /// The latency profile of the cloud (instant, aws or aws-recent), instead of the file's.
    #[arg(long, value_name = "PROFILE", help_heading = WORLD)]
    pub latency: Option<LatencyProfile>,
    /// Divides the durations that loops wait and mocks take, instead of the file's `time-scale`.
    #[arg(long, value_name = "FACTOR", help_heading = WORLD, value_parser = host::time_scale, allow_negative_numbers = true)]
    pub time_scale: Option<f64>,
    /// What carries calls in a simulation.
    #[arg(long, value_enum, default_value_t, conflicts_with = "live", help_heading = WORLD)]
    pub transport: Carrier,
    /// Switch on planted defects by name, separated by commas: for builds with the feature `mutants`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide = !cfg!(feature = "mutants"), help_heading = WORLD)]
    pub mutant: Vec<String>,
    /// After a live run of one file, passed or failed, the cluster stays up until Ctrl-C, and nothing in it is deleted.
    ///
    /// What is printed then is what `mooring up` prints: the kubeconfig and the variables for aws. After a story that
    /// passed its faults are over and its nodes run, as at the end of every run. What it leaves behind (I5) is not looked
    /// at. The exit code is that of the story.
    #[arg(long, requires = "live", conflicts_with_all = ["processes", "seeds"], help_heading = WATCH)]
    pub keep: bool,
    /// Start no more runs once one has failed; those under way end.
    #[arg(long, help_heading = WATCH)]
    pub fail_fast: bool,
    /// Wall-clock limit of each run; exceeding it is exit code 4 and says at which step, and what was seen last. When
    /// absent 5m, and in the live world never before the deadlines of the file.
    #[arg(long, value_name = "DURATION", help_heading = WATCH)]
    pub timeout: Option<Span>,
    /// Write the trace as JSON lines, with every message of every link, to this file, or to standard output for `-`; the
    /// timeline then goes to standard error. Of several runs it is a folder, with a file for each run.
    #[arg(long, value_name = "PATH", help_heading = RESULTS)]
    pub trace: Option<PathBuf>,
    /// Write a report as JUnit XML to this file: a suite for each file, a case for each seed.
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub junit: Option<PathBuf>,
    /// Write a report of the run to this file: one page that shows what happened, for a browser.
    #[arg(long, value_name = "FILE", help_heading = RESULTS, conflicts_with_all = ["check", "needed", "seeds"])]
    pub report: Option<PathBuf>,
    /// Write what each program of `run:` prints to NAME.log in this folder, without the secrets that it was given; at most
    /// 4 MiB, and as much before that in NAME.log.1.
    #[arg(long, value_name = "DIR", help_heading = RESULTS, requires = "allow_exec", conflicts_with = "seeds")]
    pub logs: Option<PathBuf>,
    /// Hears the run for the report.
    #[arg(skip)]
    pub listener: Listener,
    /// Print an annotation for each file that failed, with its line; github where GITHUB_ACTIONS is true.
    #[arg(long, value_enum, value_name = "FOR", help_heading = RESULTS)]
    pub annotations: Option<Annotations>,
}

impl Args {
    /// The world that these runs are in.
    pub fn world(&self) -> WorldKind {
        if self.live || self.target.is_some() { WorldKind::Live } else { WorldKind::Simulated }
    }

    /// Has `world` heard from its first event on, if there is to be a report of it.
    pub fn hear(&self, world: &World) {
        if self.report.is_some() {
            self.listener.attach(world.trace());
        }
    }

    /// The most wall time of a simulation.
    pub fn limit(&self) -> Duration {
        self.timeout.map_or(LIMIT, |limit| limit.0)
    }

    /// The most wall time of a live run of `scenario`: what the file itself allows comes first, and then it comes to rest.
    pub fn live_limit(&self, scenario: &Scenario) -> Duration {
        let own = if self.target.is_some() { 1.0 } else { scenario.time_scale.live };
        let scale = TimeScale::new(self.time_scale.unwrap_or(own));
        let file = scale.apply(scenario.deadline.saturating_add(REST)).saturating_add(GRACE);
        self.timeout.map_or(file.max(LIMIT), |limit| limit.0)
    }

    /// The seeds to run each file with.
    pub fn all_seeds(&self) -> Seeds {
        self.seeds.clone().unwrap_or_else(|| Seeds::one(self.seed))
    }

    /// Whether annotations are printed.
    pub fn annotates(&self) -> bool {
        self.annotations.map_or_else(crate::output::github::is_here, |a| a == Annotations::Github)
    }

    /// The flags that decide what a run does, as they are written, but for its seed.
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
        for (there, name) in [(self.live, "--live"), (self.processes, "--processes"), (self.allow_exec, "--allow-exec")]
        {
            all.extend(there.then(|| name.to_owned()));
        }
        all
    }

    /// The command that runs `file` with `seed` again.
    pub fn again(&self, file: &str, seed: u64) -> String {
        let words = ["mooring".to_owned(), "run".to_owned(), file.to_owned(), "--seed".to_owned(), seed.to_string()];
        words.into_iter().chain(self.flags()).map(|word| announce::quoted(&word)).collect::<Vec<_>>().join(" ")
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
    fn what_makes_no_sense_together_is_refused() {
        for words in [
            "run",
            "run f.yaml --keep",
            "run f.yaml --keep --live --processes",
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
        let args = read("run f.yaml --live --processes --backend directory --latency aws-recent --time-scale 10");
        assert_eq!(
            args.unwrap().again("it's here.yaml", 7),
            r"mooring run 'it'\''s here.yaml' --seed 7 --backend directory --latency aws-recent --time-scale 10 --live --processes"
        );
        let args = read("run f.yaml --transport duplex --mutant a,b --jobs 3 --trace t --timeout 1m");
        assert_eq!(args.unwrap().again("f.yaml", 1), "mooring run f.yaml --seed 1 --transport duplex --mutant a,b");
    }
}
