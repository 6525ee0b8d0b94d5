//! One run of one file: the timeline of its volumes and its verdict.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use substrate::host::{Signals, Stop};
use substrate::world::simulate_and_leave;
use substrate::{World, WorldKind};

use super::args::Args;
use super::figures::judged;
use super::keep::Kept;
use super::mistakes::{annotate, refuse};
use super::play::{self, Ended, Position, Trouble, close_trace, is_stdout, open_trace, options};
use super::report::{JunitFile, Report};
use super::{compose, keep, lacking, page, programs, watchdog};
use crate::cli::pause;
use crate::cluster::{Cluster, ClusterSpec, live};
use crate::output::{self, Envelope, Exit, Failure, Format, Progress, Style};
use crate::report;
use crate::runner::{self, Outcome, PauseHook};
use crate::scenario::model::{Action, Scenario, Step};

/// Maximum number of volumes whose timeline is drawn in full.
const VOLUMES_SHOWN: usize = 4;

/// Time allowed for the end of a run after its steps.
const GRACE: Duration = Duration::from_secs(2);

/// Output of a run.
struct RunOutput {
    envelope: Envelope,
    text: String,
    exit: Exit,
}

impl RunOutput {
    /// Adds the access to a kept cluster to the data.
    fn keeps(&mut self, ready: &Value) {
        if self.envelope.data.is_null() {
            self.envelope.data = json!({});
        }
        self.envelope.data["kept"] = ready.clone();
    }
}

/// Runs the one file with the one seed.
pub(super) fn main(args: &Args, seed: u64, format: Format) -> ExitCode {
    let Some(file) = args.paths.first() else { return Exit::Usage.into() };
    let mut scenario = match crate::scenario::load_all(file) {
        Ok(scenario) => scenario,
        Err(errors) => return refuse(format, args, errors),
    };
    if let Some(profile) = args.latency {
        scenario.latency = profile;
    }
    if let Some(failure) = programs::refusal(args, &scenario) {
        return output::finish(format, &Envelope::failed("run", Exit::Usage, failure), "", Style::stderr()).into();
    }
    if !scenario.runs_in(args.world()) {
        let (this, instead) = match args.world() {
            WorldKind::Simulated => ("in simulation", "run it with --live"),
            WorldKind::Live => ("live", "run it without --live"),
        };
        let message = format!("{}: `worlds` says that it does not run {this}", scenario.source);
        let envelope = Envelope::failed("run", Exit::Usage, Failure::new("scenario", message).action(instead));
        return output::finish(format, &envelope, "", Style::stderr()).into();
    }
    if args.target.is_some()
        && let Err(message) = crate::cluster::compose::check(&scenario)
    {
        let failure = Failure::new("usage", format!("{}: {message}", file.display()));
        return output::finish(format, &Envelope::failed("run", Exit::Usage, failure), "", Style::stderr()).into();
    }
    if args.keep {
        keep::prepare(&mut scenario);
    }
    let mut report = Report::new([(scenario.name.clone(), scenario.source.clone())], &[seed], Vec::new());
    let junit = match JunitFile::begin(args.junit.as_deref(), &report) {
        Ok(junit) => junit,
        Err(why) => return print(args, format, &give_up(Trouble::Environment(why))),
    };
    let mut conclude = |outcome: Result<&Outcome, Trouble>, wall: Duration, kept: Option<Kept>| {
        let page = outcome.as_ref().map_or(Ok(()), |outcome| page::write(args, &scenario, seed, outcome, wall));
        let (mut wording, ended) = match outcome {
            Ok(outcome) => (judge(args, &scenario, seed, outcome, wall), Ended::of(&scenario, outcome, wall)),
            Err(trouble) => {
                let wording = give_up(trouble);
                let failure = wording.envelope.error.clone().unwrap_or_else(|| Failure::new("failed", ""));
                let ended = Ended::without_outcome(wording.exit, failure, wall);
                (wording, ended)
            }
        };
        report.take((0, 0), ended, wall);
        if let Some(kept) = &kept {
            wording.keeps(&kept.ready);
        }
        let code = self::print(args, format, &wording);
        annotate(args, format, &report.annotations(args));
        if let (Some(kept), Format::Human) = (&kept, format) {
            output::say(&format!("\n{}\n", kept.text));
        }
        match page.and(junit.end(&report)) {
            Ok(()) => code,
            Err(why) => {
                output::complain(&format!("error: {why}\n"));
                Exit::of([wording.exit, Exit::Environment]).into()
            }
        }
    };
    let wall = jiff::Timestamp::now();
    let since = || Duration::try_from(jiff::Timestamp::now().duration_since(wall)).unwrap_or_default();
    if args.target.is_some() {
        let result = compose::run(args, &scenario, seed, format);
        let wall = since();
        return match result {
            Ok(outcome) => conclude(Ok(&outcome), wall, None),
            Err(trouble) => conclude(Err(trouble), wall, None),
        };
    }
    if args.live {
        return run_live(args, &scenario, seed, format, |result, kept| {
            let wall = since();
            conclude(result, wall, kept)
        });
    }
    let trace = args.trace.as_deref();
    let watched = watchdog::start(args.limit(), &scenario, format);
    let result = simulate_and_leave(options(args, &scenario, seed), async |world| {
        watched.looks_at(world.trace());
        args.observe(&world);
        play::simulated(&scenario, trace, world).await
    });
    watched.call_off();
    let wall = since();
    match result {
        Ok(outcome) => conclude(Ok(&outcome), wall, None),
        Err(trouble) => conclude(Err(trouble), wall, None),
    }
}

/// Runs in the live world and calls `conclude`: after everything was taken down or, with --keep, before the user ends
/// it.
fn run_live(
    args: &Args,
    scenario: &Scenario,
    seed: u64,
    format: Format,
    conclude: impl FnOnce(Result<&Outcome, Trouble>, Option<Kept>) -> ExitCode,
) -> ExitCode {
    let progress = if format == Format::Json { Progress::silent() } else { Progress::stderr() };
    // Before the directory of the run exists: a signal must not leave it behind.
    let signals = match Signals::install() {
        Ok(signals) => signals,
        Err(e) => return conclude(Err(Trouble::Environment(format!("cannot install the signal handlers: {e}"))), None),
    };
    let site = match live::Site::prepare(args.backend, None) {
        Ok(site) => site,
        Err(e) => return conclude(Err(Trouble::Environment(e.to_string())), None),
    };
    progress.note(&site.describe());
    if let Some(failure) = lacking::of(scenario, site.backend()) {
        return conclude(Err(Trouble::Lacking(failure)), None);
    }
    let runtime = match live::runtime() {
        Ok(runtime) => runtime,
        Err(e) => return conclude(Err(Trouble::Environment(format!("cannot start the runtime: {e}"))), None),
    };
    let trace = args.trace.as_deref();
    let mut conclude = Some(conclude);
    let result = crate::block_on(
        &runtime,
        Box::pin(async {
            let mut stop = Stop::of(signals);
            let world = World::live(options(args, scenario, seed));
            args.observe(&world);
            open_trace(trace, &world)?;
            let spec = ClusterSpec { program_logs: programs::logs(args)?, ..ClusterSpec::of_scenario(scenario) };
            let cluster = Cluster::live(&world, spec, &site, &live::Addresses::default());
            let cluster = cluster.map_err(|e| Trouble::Environment(e.to_string()))?;
            let limit = args.live_limit(scenario);
            let pause_hook =
                pause::pause_hook(&site, &progress, format).map(|pause_hook| pause_hook.with_timeout(limit));
            let note = |step: &Step| {
                progress.note(&format!("  {step}"));
                if let (Action::Pause(text), Err(why)) = (&step.action, &pause_hook) {
                    // Printed even without progress: the author of the step expects the pause.
                    output::complain(&format!("note: the pause \"{text}\" is skipped: {why}\n"));
                }
            };
            let no_pauses = PauseHook::none().with_timeout(limit);
            let pause_hook = pause_hook.as_ref().unwrap_or(&no_pauses);
            let begin = tokio::time::Instant::now();
            let scenario_run = runner::run_with_pauses(scenario, &cluster, note, pause_hook);
            let outcome = tokio::select! { biased;
                outcome = scenario_run => Ok(outcome),
                _ = stop.wait() => Err(Trouble::Interrupted),
                // The steps themselves end at the limit.
                () = pause_hook.outlast(begin, limit.saturating_add(GRACE)) => Err(Trouble::Timeout(limit)),
            };
            let mut kept = None;
            if args.keep && !matches!(outcome, Err(Trouble::Interrupted)) {
                // Report the result before waiting: the user inspects the cluster because of it.
                let result = match &outcome {
                    Ok(outcome) => Ok(outcome),
                    Err(_) => Err(Trouble::Timeout(limit)),
                };
                match keep::stand(&cluster, &site) {
                    Ok(stands) => {
                        kept = conclude.take().map(|conclude| conclude(result, Some(stands)));
                        let _ = stop.wait().await;
                        progress.note("taking everything down");
                    }
                    Err(why) => output::complain(&format!("error: {why}\n")),
                }
            }
            cluster.stop().await;
            close_trace(trace, &world)?;
            outcome.map(|outcome| (outcome, kept))
        }),
    );
    runtime.shutdown_timeout(Duration::from_millis(500));
    match (result, conclude) {
        (Ok((_, Some(code))), _) => code,
        (Ok((outcome, None)), Some(conclude)) => conclude(Ok(&outcome), None),
        (Err(trouble), Some(conclude)) => conclude(Err(trouble), None),
        // Concluded before the cluster was taken down.
        (Err(trouble), None) => trouble.failure().0.into(),
        (Ok((_, None)), None) => Exit::Failed.into(),
    }
}

/// Returns the timeline, the failures, and the exit code.
fn judge(args: &Args, scenario: &Scenario, seed: u64, outcome: &Outcome, wall: Duration) -> RunOutput {
    let style = Style::stdout();
    let report = report::Report::of(scenario, outcome);
    let exit = report.exit();
    let (timeline, summary) = judged(args, scenario, seed, outcome, wall, exit);
    let mut text = format!("{}\n{}", timeline.render(style, VOLUMES_SHOWN), summary.render(style));
    if exit == Exit::Passed {
        // On failure the report says more about them.
        text.extend(outcome.programs.iter().map(|program| format!("\n  program {}", program.line())));
    }
    let mut data = json!({
        "summary": summary,
        "timeline": timeline,
        "violations": outcome.violations,
        "checked": outcome.checked,
        "leftovers": outcome.leftovers,
        "silentFaults": outcome.silent_faults,
        "position": Position::of(&report),
    });
    if !outcome.programs.is_empty() {
        data["programs"] = json!(outcome.programs);
    }
    let envelope = match exit {
        Exit::Passed => Envelope::passed("run", data),
        _ => {
            let again =
                format!("{} shows it again; with --trace FILE every message too", args.again(&scenario.source, seed));
            let failure = report.failure();
            // Only a timeout keeps its other suggestions; those of other failures would suggest a bug report.
            let more = failure.actions.iter().filter(|_| exit == Exit::Timeout).cloned();
            let failure = Failure { actions: more.chain([again]).collect(), ..failure };
            Envelope::failed("run", exit, failure).with_data(data)
        }
    };
    RunOutput { envelope, text, exit }
}

fn give_up(trouble: Trouble) -> RunOutput {
    let (exit, failure) = trouble.failure();
    RunOutput { envelope: Envelope::failed("run", exit, failure), text: String::new(), exit }
}

fn print(args: &Args, format: Format, wording: &RunOutput) -> ExitCode {
    if args.trace.as_deref().is_some_and(is_stdout) {
        output::complain(&wording.text);
        return output::finish(format, &wording.envelope, "", Style::stderr()).into();
    }
    output::finish(format, &wording.envelope, &wording.text, Style::stderr()).into()
}
