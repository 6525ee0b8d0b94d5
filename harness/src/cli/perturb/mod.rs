//! `mooring perturb`: breaks each call of a program, one perturbation in each trial.

mod args;
mod carry;
mod conclude;
mod given;
mod real;
mod references;

use std::process::ExitCode;

pub(super) use args::Args;

use substrate::host::Signals;

use self::given::Refused;
use super::search;
use crate::cluster::live::Site;
use crate::output::{self, Envelope, Exit, Failure, Format, Progress, Style, took};
use crate::perturb::baseline::{self, Baseline};
use crate::perturb::campaign::Campaign;
use crate::perturb::plan;
use crate::perturb::report::{self, About};
use crate::perturb::runs::Runs;
use crate::search::workers::Since;

/// Reason why a command ends before its report.
enum Trouble {
    Environment(String),
    /// The workload does not finish with this program, even without a perturbation.
    Unbroken(Failure),
    Interrupted,
}

impl From<Trouble> for (Exit, Failure) {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Environment(why) => (
                Exit::Environment,
                Failure::new("environment", why).action("run `mooring doctor` to see what this machine can do"),
            ),
            Trouble::Unbroken(failure) => (Exit::Failed, failure),
            Trouble::Interrupted => {
                (Exit::Interrupted, Failure::new("interrupted", "interrupted; everything was taken down"))
            }
        }
    }
}

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    let given = match given::read(args) {
        Ok(given) => given,
        Err(Refused { wrong, next: None }) => return search::usage("perturb", format, wrong),
        Err(Refused { wrong, next: Some(next) }) => return refuse(format, wrong, &next),
    };
    let baseline = match known(args) {
        Ok(baseline) => baseline,
        Err(why) => return search::usage("perturb", format, why),
    };
    let progress = if format == Format::Json { Progress::silent() } else { Progress::stderr() };
    match perturb(args, &given, &baseline, &progress) {
        Ok((campaign, about, whole)) => conclude::finish(args, &campaign, &about, &baseline, whole, format),
        Err(trouble) => {
            let (exit, failure) = trouble.into();
            output::finish(format, &Envelope::failed("perturb", exit, failure), "", Style::stderr()).into()
        }
    }
}

fn refuse(format: Format, wrong: search::Wrong, next: &str) -> ExitCode {
    match wrong {
        search::Wrong::Line(message) => {
            let failure = Failure::new("usage", message).action(next);
            output::finish(format, &Envelope::failed("perturb", Exit::Usage, failure), "", Style::stderr()).into()
        }
        file @ search::Wrong::File(_) => search::usage("perturb", format, file),
    }
}

fn known(args: &Args) -> Result<Baseline, String> {
    let Some(path) = &args.baseline else { return Ok(Baseline::default()) };
    let failed = |why: String| format!("--baseline {}: {why}", path.display());
    let length = std::fs::metadata(path).map_err(|e| failed(e.to_string()))?.len();
    if length > baseline::LONGEST {
        return Err(failed(format!("it has {length} bytes, and at most {} are read", baseline::LONGEST)));
    }
    let text = std::fs::read_to_string(path).map_err(|e| failed(e.to_string()))?;
    Baseline::read(&text).map_err(failed)
}

/// Runs the workload without a perturbation, then the trials, then each finding again. The last returned value is false
/// if the user interrupted it.
fn perturb(
    args: &Args,
    given: &given::Given,
    baseline: &Baseline,
    progress: &Progress,
) -> Result<(Campaign, About, bool), Trouble> {
    // Before the directory of the runs exists: a signal must not leave it behind.
    let signals = Signals::install().map_err(|e| Trouble::Environment(format!("signals cannot be waited for: {e}")))?;
    // Must happen before any thread starts, because with loop devices it enters a mount namespace.
    let site = Site::prepare(Some(args.backend), None).map_err(|e| Trouble::Environment(e.to_string()))?;
    let mut runs = Runs::new(signals).map_err(Trouble::Environment)?;
    let since = Since::now();
    let mut references = references::carry_out(args, given, &site, &mut runs, progress)?;
    let calls = references.calls.clone();
    let all = plan::trials(&calls, &args.kinds(), args.at.as_deref());
    let all = plan::spread(all, args.trials.map(|most| most as usize));
    let trials = references.with_changed_workloads(args, given, all, &site, &mut runs, progress)?;
    let mut about = About {
        scenario: given.scenario.name.clone(),
        source: given.source.clone(),
        command: command(args),
        varying_values: references.usual.varying(),
        notes: [given.notes.clone(), references.notes.clone()].concat(),
        ..About::default()
    };
    let mut campaign = Campaign { calls, trials, ..Campaign::default() };
    if args.list {
        return Ok((campaign, about, true));
    }
    let work = carry::Work { args, given, site: &site, references: &references };
    let phase = progress.phase(format!("perturb {}", about.scenario));
    let evidence = work.trials(&mut campaign, &mut runs, &phase)?;
    about.wall_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let seconds = (campaign.walls.values().sum::<u64>() as f64 / 1_000.0).max(0.001);
    let wording = format!(
        "{} of {} trials in {}, {:.2}s each",
        campaign.verdicts.len(),
        campaign.trials.len(),
        took(about.wall_ms),
        seconds / campaign.walls.len().max(1) as f64
    );
    let whole = !runs.is_halted();
    if whole {
        phase.done(&wording);
    } else {
        phase.interrupted(&wording);
    }
    campaign.gather(&evidence, baseline);
    if whole && args.again > 0 && !campaign.findings.is_empty() {
        let phase = progress.phase("each finding again, alone");
        work.again(&mut campaign, &mut runs, &phase)?;
        phase.done("");
    }
    if let Some(binaries) =
        args.real_apiserver.as_deref().filter(|_| !runs.is_halted() && !campaign.findings.is_empty())
    {
        let phase = progress.phase("each finding with the real API server");
        about.notes.extend(real::repeat(&work, binaries, &mut campaign, &mut runs, &phase)?);
        phase.done("");
    }
    if let Some(folder) = &args.out {
        work.write(&mut campaign, folder, &about).map_err(Trouble::Environment)?;
    }
    about.missing = if whole { baseline.missing(&campaign.signatures()) } else { Vec::new() };
    Ok((campaign, about, !runs.is_halted()))
}

/// The command line, for notes.
fn command(args: &Args) -> String {
    let mut words = vec!["mooring".to_owned(), "perturb".to_owned()];
    if let Some(file) = &args.scenario {
        words.extend(["--scenario".to_owned(), file.display().to_string()]);
    }
    if !args.replaces.is_empty() {
        words.extend(["--replaces".to_owned(), args.replaces.join(",")]);
    }
    if args.allow_exec {
        words.push("--allow-exec".to_owned());
    }
    if !args.command.is_empty() {
        words.push("--".to_owned());
        words.extend(args.command.iter().cloned());
    }
    words.iter().map(|word| crate::output::quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Returns the report for programs, for output and files.
fn data(campaign: &Campaign, about: &About) -> serde_json::Value {
    report::data(campaign, about)
}
