//! Many runs: several files, several seeds.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use substrate::Trace;
use substrate::host::Stop;
use substrate::world::simulate;
use tokio::time::Instant;

use super::args::Args;
use super::files;
use super::mistakes::{annotate, refuse_all};
use super::play::{self, Ended};
use super::pool::{self, Plan, Watched};
use super::report::{JunitFile, Report};
use super::{children, programs};
use crate::output::{self, Envelope, Exit, Failure, Format, Style};
use crate::report;
use crate::runner::Outcome;
use crate::scenario::Scenario;
use crate::seeds::Seeds;

/// Parsed files of a batch.
struct Batch {
    scenarios: Vec<Scenario>,
    seeds: Seeds,
    /// Folder of their traces, and the prefix of the trace names of each file.
    traces: Option<(PathBuf, Vec<String>)>,
}

impl Batch {
    /// Indices of a run's file and seed.
    fn place(&self, run: usize) -> (usize, usize) {
        let seeds = self.seeds.all().len();
        (run / seeds, run % seeds)
    }

    fn runs(&self) -> usize {
        self.scenarios.len() * self.seeds.all().len()
    }

    fn trace(&self, (file, seed): (usize, usize)) -> Option<PathBuf> {
        let (folder, names) = self.traces.as_ref()?;
        Some(folder.join(format!("{}.{}.jsonl", names[file], self.seeds.all()[seed])))
    }
}

/// Reads all files, runs each with each seed, and reports the results.
pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    let (scenarios, skipped) = match files::read(args) {
        Ok(found) => found,
        Err(failures) => return refuse_all(format, args, &failures),
    };
    let style = Style::stdout();
    let seeds = args.all_seeds();
    if scenarios.is_empty() {
        let why: Vec<String> = skipped.iter().map(|s| format!("{}: {}", s.file, s.why)).collect();
        let message = format!("there is nothing to run\n  {}", why.join("\n  "));
        let failure = Failure::new("usage", message).action("name a file with `steps:`, or a folder of them");
        return finish(format, &Envelope::failed("run", Exit::Usage, failure), "");
    }
    if let Some(failure) = scenarios.iter().find_map(|scenario| programs::refusal(args, scenario)) {
        return finish(format, &Envelope::failed("run", Exit::Usage, failure), "");
    }
    let names = scenarios.iter().map(|s| (s.name.clone(), s.source.clone()));
    let mut report = Report::new(names, seeds.all(), skipped);
    let environment = |why: String| {
        let failure = Failure::new("environment", why);
        finish(format, &Envelope::failed("run", Exit::Environment, failure), "")
    };
    let junit = match JunitFile::begin(args.junit.as_deref(), &report) {
        Ok(junit) => junit,
        Err(why) => return environment(why),
    };
    let traces = args.trace.clone().map(|folder| (folder, trace_names(scenarios.iter().map(|s| s.source.as_str()))));
    if let Some((folder, _)) = &traces
        && let Err(error) = std::fs::create_dir_all(folder)
    {
        return environment(format!("--trace {}: {error}: of several runs it is a folder", folder.display()));
    }
    let batch = Arc::new(Batch { scenarios, seeds, traces });
    let jobs = if args.live { 1 } else { args.jobs.map_or_else(processors, usize::from).min(batch.runs()) };
    let mut printer = ProgressPrinter::new(format, style);
    printer.say(&report.skipped_lines(style));
    let began = Instant::now();
    let mut on_end = |run: usize, ended: Ended| {
        report.take(batch.place(run), ended, began.elapsed());
        printer.say(&report.new_lines(style, false));
        printer.progress(report.counts());
    };
    let result = match args.live {
        true => one_after_another(args, &batch, &mut on_end),
        false => at_a_time(args, &batch, jobs, &mut on_end),
    };
    let wall = began.elapsed();
    match result {
        Ok(true) => {}
        Ok(false) => report.interrupt(),
        Err(why) => {
            printer.clear();
            return environment(why);
        }
    }
    printer.say(&report.new_lines(style, true));
    printer.clear();
    let text = report.end(args, wall, jobs, style);
    let data = report.data(args, wall, jobs);
    let mut exit = report.exit();
    let mut failure = report.failure(args);
    if let Err(why) = junit.end(&report) {
        exit = Exit::of([exit, Exit::Environment]);
        failure = failure.or_else(|| Some(Failure::new("environment", why)));
    }
    let envelope = match failure {
        Some(failure) => Envelope::failed("run", exit, failure).with_data(data),
        None => Envelope::passed("run", data),
    };
    let code = finish(format, &envelope, &text);
    annotate(args, format, &report.annotations(args));
    code
}

/// Number of processors of this machine.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Prefixes of trace names, unique for each file, from the words of its path.
fn trace_names<'a>(files: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let unique = |file: &'a str| {
        let path = Path::new(file).with_extension("");
        let words = path.components().filter_map(|part| match part {
            Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
            _ => None,
        });
        let name = words.collect::<Vec<_>>().join("-");
        let mut candidates = (2u32..).map(|n| format!("{name}-{n}"));
        let mut candidate = name.clone();
        while !taken.insert(candidate.clone()) {
            // There are more numbers than files.
            candidate = candidates.next().unwrap_or_default();
        }
        candidate
    };
    files.map(unique).collect()
}

/// Runs simulations on several threads. Returns false if the user interrupted them.
fn at_a_time(
    args: &Args,
    batch: &Arc<Batch>,
    jobs: usize,
    on_end: &mut impl FnMut(usize, Ended),
) -> Result<bool, String> {
    pool::keep_panics();
    let plan = Plan { runs: batch.runs(), jobs, limit: args.limit(), fail_fast: args.fail_fast };
    let work = {
        let (args, batch) = (args.clone(), batch.clone());
        move |run: usize, watched: &Watched| {
            let at = batch.place(run);
            simulated(&args, &batch.scenarios[at.0], batch.seeds.all()[at.1], batch.trace(at).as_deref(), watched)
        }
    };
    let late = |run: usize, trace: Option<&Trace>| {
        let events = trace.map(Trace::events).unwrap_or_default();
        report::Report::of(&batch.scenarios[batch.place(run).0], &Outcome::given_up(events, plan.limit)).failure()
    };
    with_signals(async |mut stop| {
        let stop = async { _ = stop.wait().await };
        let done = pool::run(plan, Box::new(work), stop, &late, on_end).await;
        done.map_err(|e| format!("no thread starts: {e}"))
    })
}

/// Runs one simulation on this thread, and frees its memory.
fn simulated(args: &Args, scenario: &Scenario, seed: u64, trace: Option<&Path>, watched: &Watched) -> Ended {
    let since = Instant::now();
    // The pool enforces the time limit.
    let result = simulate(play::options(args, scenario, seed), async |world| {
        // The cell is empty: each run has its own.
        let _ = watched.set(world.trace().clone());
        play::simulated(scenario, trace, world).await
    });
    match result {
        Ok(outcome) => Ended::of(scenario, &outcome, since.elapsed()),
        Err(trouble) => {
            let (exit, failure) = trouble.failure();
            Ended::without_outcome(exit, failure, since.elapsed())
        }
    }
}

/// Does live runs one after another. Returns false if the user interrupted them.
fn one_after_another(args: &Args, batch: &Batch, on_end: &mut impl FnMut(usize, Ended)) -> Result<bool, String> {
    with_signals(async |mut stop| {
        for run in 0..batch.runs() {
            let at = batch.place(run);
            let trace = batch.trace(at);
            let one = children::Run {
                file: &batch.scenarios[at.0].source,
                seed: batch.seeds.all()[at.1],
                trace: trace.as_deref(),
            };
            let ended = children::run(args, one, &mut stop).await;
            let Some(ended) = ended.map_err(|e| format!("mooring does not start: {e}"))? else { return Ok(false) };
            let failed = ended.exit != Exit::Passed;
            on_end(run, ended);
            if failed && args.fail_fast {
                break;
            }
        }
        Ok(true)
    })
}

/// Calls `work` with the handler of interrupt signals.
fn with_signals<F: Future<Output = Result<bool, String>>>(work: impl FnOnce(Stop) -> F) -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("cannot start the runtime: {e}"))?;
    crate::block_on(
        &runtime,
        Box::pin(async {
            let stop = Stop::install().map_err(|e| format!("cannot install the signal handlers: {e}"))?;
            work(stop).await
        }),
    )
}

fn finish(format: Format, envelope: &Envelope, text: &str) -> ExitCode {
    output::finish(format, envelope, text, Style::stderr()).into()
}

/// Prints lines to stdout as files end, and the progress on a terminal.
struct ProgressPrinter {
    lines: bool,
    terminal: bool,
    style: Style,
    last: Option<Instant>,
}

impl ProgressPrinter {
    fn new(format: Format, style: Style) -> Self {
        let terminal = Style::stderr().terminal && std::io::stderr().is_terminal();
        Self { lines: format == Format::Human, terminal, style, last: None }
    }

    /// Prints whole lines.
    fn say(&mut self, lines: &str) {
        if self.lines && !lines.is_empty() {
            self.clear();
            output::say(lines);
        }
    }

    /// Prints the progress, at most ten times a second.
    fn progress(&mut self, (all, ended, failed): (usize, usize, usize)) {
        if !self.terminal || self.last.is_some_and(|last| last.elapsed() < Duration::from_millis(100)) {
            return;
        }
        self.last = Some(Instant::now());
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        let mark = self.style.paint(output::Tone::Work, "…");
        output::complain(&format!("\r\x1b[K{mark} {ended} of {all} runs{failed}"));
    }

    /// Erases the line of [`ProgressPrinter::progress`].
    fn clear(&mut self) {
        if self.last.take().is_some() {
            output::complain("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_a_trace_of_its_own() {
        let files = ["scenarios/a.yaml", "../scenarios/a.yaml", "/scenarios/a.yml", "b.c.yaml"];
        assert_eq!(trace_names(files.into_iter()), ["scenarios-a", "scenarios-a-2", "scenarios-a-3", "b.c"]);
    }
}
