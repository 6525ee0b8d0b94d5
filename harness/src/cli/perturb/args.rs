//! The command line of `mooring perturb`.

use std::path::PathBuf;

use clap::ValueEnum;
use substrate::fault::Span;

use crate::cluster::live;
use crate::perturb::kind::Kind;

const PROGRAM: &str = "Program and scenario";
const TRIALS: &str = "Trials";
const HOW: &str = "How they are carried out";
const RESULTS: &str = "Results";

/// Arguments of `mooring perturb`.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Scenario file in which the user does what the program works on. When absent, one that comes with the tool for
    /// what the program replaces.
    #[arg(long, value_name = "FILE", help_heading = PROGRAM)]
    pub scenario: Option<PathBuf>,
    /// Components that the program stands for, by their upstream names, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = PROGRAM)]
    pub replaces: Vec<String>,
    /// The program's name in faults and reports; when absent that of the one component that it replaces, or of its file.
    #[arg(long, value_name = "NAME", help_heading = PROGRAM)]
    pub name: Option<String>,
    /// Lets the file start the programs that its `run:` names, on this machine and as you. Only for files that you trust.
    #[arg(long, help_heading = PROGRAM)]
    pub allow_exec: bool,
    /// Only these perturbations, separated by commas.
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_enum, help_heading = TRIALS)]
    pub only: Vec<Word>,
    /// Only at calls in whose name this is, as --list prints them.
    #[arg(long, value_name = "TEXT", help_heading = TRIALS)]
    pub at: Option<String>,
    /// At most so many trials, evenly spread over all of them.
    #[arg(long, value_name = "N", help_heading = TRIALS, value_parser = clap::value_parser!(u32).range(1..))]
    pub trials: Option<u32>,
    /// Run the scenario unbroken three times, print what would be tried, and try nothing.
    #[arg(long, help_heading = TRIALS, conflicts_with_all = ["out", "baseline", "write_baseline", "json", "junit", "report"])]
    pub list: bool,
    /// How often each finding is tried again, alone; 0 for never.
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = TRIALS, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub again: u16,
    /// Trials at a time.
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = HOW, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub jobs: u16,
    /// Wall time that a run may take from its first step on before it counts as stuck; when absent four times that of
    /// the unbroken run, and at least 20s.
    #[arg(long, value_name = "DURATION", help_heading = HOW)]
    pub within: Option<Span>,
    /// Wall time that the program has to come to the end of the unbroken run, once nothing else happens.
    #[arg(long, value_name = "DURATION", default_value = "5s", help_heading = HOW)]
    pub settle: Span,
    /// The seed of all randomness but that of the program and of real time.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = HOW)]
    pub seed: u64,
    /// The backend of the disks: loop needs root on Linux.
    #[arg(long, value_name = "BACKEND", default_value = "directory", help_heading = HOW)]
    pub backend: live::BackendChoice,
    /// Repeat each finding with the etcd and kube-apiserver of this directory instead of Mooring's API server, and report
    /// if it comes there, too. Mooring's API server stays in front of the real one and causes the faults.
    #[arg(long, value_name = "DIR", help_heading = HOW, conflicts_with = "list")]
    pub real_apiserver: Option<PathBuf>,
    /// Write a scenario file for each finding into this folder, which `mooring run --live --allow-exec` repeats.
    #[arg(long, value_name = "FOLDER", help_heading = RESULTS)]
    pub out: Option<PathBuf>,
    /// Findings that are known: they are reported, and do not fail the command.
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub baseline: Option<PathBuf>,
    /// Write the findings to this file, which --baseline reads.
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub write_baseline: Option<PathBuf>,
    /// Write the report as JSON to this file; --output json prints it.
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub json: Option<PathBuf>,
    /// Write a report as JUnit XML to this file: a suite for each perturbation, a case for each call.
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub junit: Option<PathBuf>,
    /// Write the report to this file: one HTML page that needs no script and no network.
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub report: Option<PathBuf>,
    /// The program and its arguments; `$(NAME)` stands for a variable that it gets, as $(KUBECONFIG).
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// [`Kind`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Word(pub Kind);

impl ValueEnum for Word {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Word; Kind::ALL.len()] = {
            let mut all = [Word(Kind::CrashBefore); Kind::ALL.len()];
            let mut at = 0;
            while at < all.len() {
                all[at] = Word(Kind::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.word()).help(self.0.about()))
    }
}

impl Args {
    /// The perturbations that are asked for; all when empty.
    pub fn kinds(&self) -> Vec<Kind> {
        self.only.iter().map(|word| word.0).collect()
    }
}
