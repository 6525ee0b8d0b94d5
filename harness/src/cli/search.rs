//! Shared parts of the search commands: settings of runs, files of findings, and errors.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use substrate::fault::{Fault, Span};
use substrate::host::Stop;

use super::refusal;
use crate::mutants;
use crate::output::{self, Envelope, Exit, Failure, Format, Style};
use crate::scenario::ScenarioError;
use crate::search::bundle::{self, Bundle, Record};
use crate::search::document::{Document, DocumentError, Mistakes};
use crate::search::judge::{Class, Task, Verdict, judge_and_trace, task_of};
use crate::search::workers::{self, Next, Settings, processors};
use crate::search::{forks, worker};

const HOW: &str = "How runs are carried out";

/// Settings of the runs.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct How {
    /// The number of runs at a time, each in a separate process. Default: one for each processor. The result is the
    /// same.
    #[arg(long, value_name = "N", help_heading = HOW, value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Wall-clock limit of a run; exceeding it is a finding.
    #[arg(long, value_name = "DURATION", default_value = "1m", help_heading = HOW)]
    pub timeout: Span,
    /// Memory limit of a run in MiB; exceeding it is a finding.
    #[arg(long, value_name = "MIB", default_value_t = 4096, help_heading = HOW, value_parser = clap::value_parser!(u64).range(256..=1_048_576))]
    pub memory: u64,
    /// Enable planted defects by name, separated by commas: for builds with the feature `mutants`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide = !substrate::mutant::BUILT_IN, help_heading = HOW)]
    pub mutant: Vec<String>,
}

impl How {
    /// Number of runs at a time.
    pub fn jobs(&self) -> usize {
        self.jobs.map_or_else(processors, usize::from)
    }

    /// Settings for the child processes.
    pub fn settings(&self) -> Settings {
        Settings { jobs: self.jobs(), limit: self.timeout.0, memory: self.memory << 20, ends: None, program: None }
    }
}

/// Selects a finding or a scenario.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct Which {
    /// The file that a search wrote, or any scenario.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The seed. Default: that of the record, or 1 if there is none.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl Which {
    /// Reads the file: the document, its record, and the settings to run it with. If `mutants` is not empty, it
    /// replaces the recorded defects.
    ///
    /// # Errors
    /// Describes the error in the file or in a name.
    pub fn read(&self, named: &[String]) -> Result<(Document, Option<Record>, Record), Wrong> {
        let (document, recorded) = bundle::read(&self.file)?;
        let known = recorded.clone().unwrap_or_default();
        let seed = self.seed.or(recorded.as_ref().map(|record| record.seed)).unwrap_or(1);
        let mutants = if named.is_empty() { known.mutants.clone() } else { named.to_vec() };
        mutants::check(&mutants)?;
        Ok((document, recorded, Record { seed, mutants, ..known }))
    }
}

/// Carries out runs until there are no more, `on_verdict` returns false, or the user interrupts. Returns false in the last case.
pub(in crate::cli) fn carry_out(
    settings: Settings,
    work: Box<Next>,
    on_verdict: impl FnMut(usize, Verdict) -> bool,
) -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("cannot start the runtime: {e}"))?;
    crate::block_on(
        &runtime,
        Box::pin(async {
            let mut stop = Stop::install().map_err(|e| format!("cannot install the signal handlers: {e}"))?;
            let stop = async {
                stop.wait().await;
            };
            workers::run(settings, work, stop, on_verdict).await.map_err(|e| format!("a worker does not start: {e}"))
        }),
    )
}

/// Carries out the branches of one run. Returns false if the user interrupted them.
pub(in crate::cli) fn carry_out_branches(
    settings: Settings,
    trunk: &Task,
    branches: Vec<(usize, Fault)>,
    on_verdict: impl FnMut(usize, Verdict),
) -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("cannot start the runtime: {e}"))?;
    crate::block_on(
        &runtime,
        Box::pin(async {
            let mut stop = Stop::install().map_err(|e| format!("cannot install the signal handlers: {e}"))?;
            let stop = async {
                stop.wait().await;
            };
            forks::run(settings, trunk, branches, stop, on_verdict)
                .await
                .map_err(|e| format!("a worker does not start: {e}"))
        }),
    )
}

/// Writes a finding into `folder`, with its trace if it has one, and returns its path.
pub(in crate::cli) fn keep(mut bundle: Bundle, folder: &Path, name: &str, limit: Duration) -> Result<PathBuf, String> {
    // No trace for a run that breaks the program: it would break this process, too.
    if matches!(bundle.record.class, Class::Broke | Class::Hung | Class::Diverged) {
        return bundle.write(folder, name, &[]);
    }
    let task = task_of(&bundle.document, &bundle.record, Some(limit));
    let (verdict, trace) = judge_and_trace(&task, Some(limit));
    (bundle.record.events, bundle.record.digest) = (verdict.events, verdict.digest);
    bundle.write(folder, name, &trace)
}

/// Flags that affect the runs of a command, after the file: seed and planted defects.
pub(in crate::cli) fn flags(seed: u64, mutants: &[String]) -> String {
    let mutants = if mutants.is_empty() { String::new() } else { format!(" --mutant {}", mutants.join(",")) };
    format!("--seed {seed}{mutants}")
}

/// An error on the command line, or errors in a file.
#[derive(Debug)]
pub(in crate::cli) enum Wrong {
    Line(String),
    File(Vec<ScenarioError>),
}

impl From<String> for Wrong {
    fn from(message: String) -> Self {
        Self::Line(message)
    }
}

impl From<&str> for Wrong {
    fn from(message: &str) -> Self {
        Self::Line(message.to_owned())
    }
}

impl From<DocumentError> for Wrong {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::Scenario(Mistakes(all)) => Self::File(all),
            other => Self::Line(other.to_string()),
        }
    }
}

/// Ends a command with a usage error. Errors of a file are printed with their source lines.
pub(in crate::cli) fn usage(command: &str, format: Format, wrong: impl Into<Wrong>) -> ExitCode {
    let (message, mistakes) = match wrong.into() {
        Wrong::Line(message) => (message, Vec::new()),
        Wrong::File(all) => {
            let all = Mistakes(all);
            (all.to_string(), all.0)
        }
    };
    if format == Format::Human && !mistakes.is_empty() {
        refusal::show(&mistakes);
        return Exit::Usage.into();
    }
    let help = mistakes.iter().filter_map(ScenarioError::advice);
    let failure = help.fold(Failure::new("usage", message), Failure::action);
    let data = if mistakes.is_empty() { Value::Null } else { json!({ "mistakes": refusal::details(&mistakes) }) };
    let envelope = Envelope::failed(command, Exit::Usage, failure).with_data(data);
    output::finish(format, &envelope, "", Style::stderr()).into()
}

/// Ends a command because the machine lacks something.
pub(in crate::cli) fn environment(command: &str, format: Format, message: impl Into<String>) -> ExitCode {
    let envelope = Envelope::failed(command, Exit::Environment, Failure::new("environment", message.into()));
    output::finish(format, &envelope, "", Style::stderr()).into()
}

/// Envelope of a run in which a fault never fired, with the exit code of `mooring run`.
pub(in crate::cli) fn never_fired(command: &str, why: String) -> Envelope {
    let failure = Failure::new("fault-never-fired", why).action("`mooring run` shows the calls that nearly matched");
    Envelope::failed(command, Exit::Failed, failure)
}

/// Unique file name for a finding: its shortened signature, and the number of the run that shows it.
pub(in crate::cli) fn file_name(signature: &str, run: u64) -> String {
    format!("{}-{run}", word(signature))
}

fn word(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        match c.is_ascii_alphanumeric() {
            true => name.push(c.to_ascii_lowercase()),
            false if !name.ends_with('-') => name.push('-'),
            false => {}
        }
    }
    let name: String = name.trim_matches('-').chars().take(60).collect();
    name.trim_matches('-').to_owned()
}

/// Arguments of a worker.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct WorkerArgs {
    /// Wall-clock limit of a run, in milliseconds.
    #[arg(long, value_name = "MS")]
    limit_ms: u64,
    /// Memory limit of this process in bytes.
    #[arg(long, value_name = "BYTES")]
    memory: u64,
}

/// Carries out runs until the input ends.
pub(in crate::cli) fn worker(args: &WorkerArgs) -> ExitCode {
    match worker::main(Duration::from_millis(args.limit_ms), args.memory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            Exit::Environment.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_that_begin_alike_have_files_of_their_own() {
        let finding = |state: &str| {
            format!(
                "I2 csi-controller ControllerUnpublishVolume: it was called for vol-* on node-* while it is {state}"
            )
        };
        let (one, other) = (file_name(&finding("published there"), 347), file_name(&finding("staged there"), 309));
        assert_eq!(one, "i2-csi-controller-controllerunpublishvolume-it-was-called-fo-347");
        assert_ne!(one, other);
    }
}
