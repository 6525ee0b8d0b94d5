//! Report of many runs: a line for each file, the failures, JSON, JUnit, annotations.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::args::Args;
use super::files::Skipped;
use super::play::{Ended, millis};
use crate::output::github::Annotation;
use crate::output::{Exit, Failure, Style, Tone, cut, cut_front, junit, took, wrapped};
use crate::seeds;

/// Minimum number of characters of a shortened path; a shorter rest is dropped.
const SHORT: usize = 12;
/// Number of lines of a failure in an annotation.
const ANNOTATED: usize = 12;

/// All runs of a command, including future ones.
#[derive(Debug)]
pub(super) struct Report {
    files: Vec<FileRuns>,
    seeds: Vec<u64>,
    skipped: Vec<Skipped>,
    /// Number of files whose line was printed.
    printed: usize,
    interrupted: bool,
}

/// Runs of one file.
#[derive(Debug)]
struct FileRuns {
    name: String,
    file: String,
    runs: Vec<Option<Ended>>,
    /// Start of its first run and end of its last one, since the start of the command.
    times: Option<(Duration, Duration)>,
}

impl FileRuns {
    fn ended(&self) -> impl Iterator<Item = (usize, &Ended)> {
        self.runs.iter().enumerate().filter_map(|(at, run)| Some((at, run.as_ref()?)))
    }

    fn failed(&self) -> impl Iterator<Item = (usize, &Ended)> {
        self.ended().filter(|(_, run)| run.exit != Exit::Passed)
    }

    fn not_run(&self) -> usize {
        self.runs.iter().filter(|run| run.is_none()).count()
    }
}

impl Report {
    /// Creates a report on files, by scenario name and path, that each run with all `seeds`.
    pub fn new(files: impl IntoIterator<Item = (String, String)>, seeds: &[u64], skipped: Vec<Skipped>) -> Self {
        let runs = || seeds.iter().map(|_| None).collect();
        let files = files.into_iter().map(|(name, file)| FileRuns { name, file, runs: runs(), times: None }).collect();
        Self { files, seeds: seeds.to_vec(), skipped, printed: 0, interrupted: false }
    }

    /// Adds the result of a run, by the indices of its file and seed. It ended at `now`, measured from the start of the
    /// command.
    pub fn take(&mut self, (file, seed): (usize, usize), ended: Ended, now: Duration) {
        let Some(runs) = self.files.get_mut(file) else { return };
        let began = now.saturating_sub(Duration::from_millis(ended.wall_ms));
        runs.times = Some(runs.times.map_or((began, now), |(first, last)| (first.min(began), last.max(now))));
        if let Some(run) = runs.runs.get_mut(seed) {
            *run = Some(ended);
        }
    }

    /// Records that the user interrupted the command.
    pub fn interrupt(&mut self) {
        self.interrupted = true;
    }

    /// Number of all, ended and failed runs.
    pub fn counts(&self) -> (usize, usize, usize) {
        let ended = self.files.iter().map(|f| f.ended().count()).sum();
        let failed = self.files.iter().map(|f| f.failed().count()).sum();
        (self.files.len() * self.seeds.len(), ended, failed)
    }

    /// Exit code of the command.
    pub fn exit(&self) -> Exit {
        let runs = self.files.iter().flat_map(FileRuns::ended).map(|(_, run)| run.exit);
        Exit::of(runs.chain(self.interrupted.then_some(Exit::Interrupted)))
    }

    /// Lines about skipped files.
    pub fn skipped_lines(&self, style: Style) -> String {
        self.skipped.iter().map(|s| skipped_line(s, style)).collect()
    }

    /// Lines about files that have ended since the last call, in the order of the files. If `end` is set, includes
    /// files that have not ended.
    pub fn new_lines(&mut self, style: Style, end: bool) -> String {
        let mut out = String::new();
        while let Some(file) = self.files.get(self.printed).filter(|f| end || f.not_run() == 0) {
            out += &self.line(file, style);
            self.printed += 1;
        }
        out
    }

    fn line(&self, file: &FileRuns, style: Style) -> String {
        let width = self.files.iter().map(|f| f.name.chars().count()).max().unwrap_or(0);
        // A name leaves room for the rest of the line.
        let width = style.limit().map_or(width, |limit| width.min(limit * 2 / 5));
        let (failed, not_run, all) = (file.failed().count(), file.not_run(), file.runs.len());
        let (tone, mark) = match (failed, not_run) {
            (0, 0) => (Tone::Good, "✓"),
            (0, _) => (Tone::Warning, "–"),
            _ => (Tone::Bad, "✗"),
        };
        let digits = all.to_string().len();
        let mut passed = format!("{:>digits$} of {all} {} passed", all - failed - not_run, one_or(all, "seed"));
        if not_run > 0 {
            passed += &format!(", {not_run} not run");
        }
        let time =
            file.times.map_or(String::new(), |(from, to)| format!("({})", took(millis(to.saturating_sub(from)))));
        let begin = format!("{:<width$}  {passed}", cut(&file.name, width));
        // The path is shortened first, at its front: its end says more.
        let used = 2 + begin.chars().count() + 2 + if time.is_empty() { 0 } else { time.chars().count() + 2 };
        let room = style.limit().map_or(usize::MAX, |limit| limit.saturating_sub(used));
        let path =
            if room < file.file.chars().count().min(SHORT) { String::new() } else { cut_front(&file.file, room) };
        let end = format!("{time}  {path}");
        format!("{} {begin}  {}\n", style.paint(tone, mark), style.paint(Tone::Faint, end.trim()))
    }

    /// Final text: the first failure of each file in full, a table of failing seeds, and the figures.
    pub fn end(&self, args: &Args, wall: Duration, jobs: usize, style: Style) -> String {
        let mut out = String::new();
        let failing: Vec<&FileRuns> = self.files.iter().filter(|f| f.failed().next().is_some()).collect();
        for file in &failing {
            let Some((at, run)) = file.failed().next() else { continue };
            let (seed, word) = (self.seeds[at], run.exit.word());
            let title = style.paint(Tone::Title, &format!("{} with seed {seed}: {word}", file.file));
            out += &format!("\n{title}\n");
            if let Some(failure) = &run.failure {
                out += &format!("{}\n", failure.message.trim_end());
            }
            out += &format!("{} {}\n", style.paint(Tone::Faint, "again:"), args.again(&file.file, seed));
        }
        if !failing.is_empty() {
            let width = failing.iter().map(|f| f.name.chars().count()).max().unwrap_or(0).max("scenario".len());
            let title = format!("{:<width$}  {:>7}  seeds", "scenario", "failed");
            out += &format!("\n{}\n", style.paint(Tone::Faint, &title));
            for file in &failing {
                let bad: Vec<u64> = file.failed().map(|(at, _)| self.seeds[at]).collect();
                let room = style.limit().map_or(usize::MAX, |limit| limit.saturating_sub(width + 11));
                let seeds = cut(&seeds::short(&bad), room);
                out += &format!("{:<width$}  {:>7}  {seeds}\n", file.name, bad.len());
            }
        }
        let (all, ended, failed) = self.counts();
        let mut parts = vec![
            format!("{} {}", self.files.len(), one_or(self.files.len(), "file")),
            format!("{ended} {}", one_or(ended, "run")),
            format!("{} passed", ended - failed),
        ];
        parts.extend((failed > 0).then(|| format!("{failed} failed")));
        parts.extend((all > ended).then(|| format!("{} not run", all - ended)));
        // For live runs; a simulation has only one backend.
        let backend = self.files.iter().flat_map(FileRuns::ended).find_map(|(_, run)| run.backend.as_deref());
        parts.extend(backend.filter(|_| args.live).map(|backend| format!("live on the {backend} backend")));
        parts.push(took(millis(wall)));
        parts.push(format!("{:.1} runs per second with {jobs} {}", rate(ended, wall), one_or(jobs, "job")));
        let (tone, mark) = match self.exit() {
            Exit::Passed if all == ended => (Tone::Good, "✓"),
            Exit::Passed => (Tone::Warning, "–"),
            _ => (Tone::Bad, "✗"),
        };
        let limit = style.limit().map(|limit| limit.saturating_sub(2));
        out + &format!("\n{} {}\n", style.paint(tone, mark), wrapped(&parts, limit))
    }

    /// A one-sentence failure, and the command that repeats its first run.
    pub fn failure(&self, args: &Args) -> Option<Failure> {
        let (all, ended, failed) = self.counts();
        let first = self.files.iter().find_map(|f| f.failed().next().map(|(at, _)| (f, self.seeds[at])));
        let failure = match (self.interrupted, failed) {
            (true, _) => {
                Failure::new("interrupted", format!("interrupted after {ended} of {all} runs, {failed} failed"))
            }
            (false, 0) => return None,
            (false, _) => Failure::new("runs-failed", format!("{failed} of {ended} {} failed", one_or(ended, "run"))),
        };
        Some(match first {
            Some((file, seed)) => failure.action(format!("{} shows the first", args.again(&file.file, seed))),
            None => failure,
        })
    }

    /// All runs as JSON, one entry each.
    pub fn data(&self, args: &Args, wall: Duration, jobs: usize) -> Value {
        let world = if args.live { "live" } else { "simulated" };
        let entry = |file: &FileRuns, at: usize, run: &Ended| {
            json!({
                "file": file.file,
                "scenario": file.name,
                "seed": self.seeds[at],
                "world": world,
                "exit": run.exit.code(),
                "verdict": run.exit,
                "failure": run.failure,
                "position": run.position,
                "checked": run.checked,
                "backend": run.backend,
                "elapsedMs": run.elapsed_ms,
                "wallMs": run.wall_ms,
            })
        };
        let runs: Vec<Value> =
            self.files.iter().flat_map(|f| f.ended().map(move |(at, run)| entry(f, at, run))).collect();
        let (all, ended, failed) = self.counts();
        json!({
            "runs": runs,
            "skipped": self.skipped,
            "summary": {
                "files": self.files.len(),
                "runs": ended,
                "passed": ended - failed,
                "failed": failed,
                "notRun": all - ended,
                "jobs": jobs,
                "wallMs": millis(wall),
                "runsPerSecond": (rate(ended, wall) * 10.0).round() / 10.0,
            },
        })
    }

    /// Suites of a JUnit report. Runs that have not ended get `missing`.
    pub fn suites(&self, missing: &junit::Ended) -> Vec<junit::Suite> {
        let case = |(at, run): (usize, &Option<Ended>)| junit::Case {
            name: format!("seed {}", self.seeds[at]),
            at: run.as_ref().and_then(|run| run.position.as_ref()).map(|at| (at.file.clone(), at.line)),
            seconds: run.as_ref().map_or(0.0, |run| run.wall_ms as f64 / 1e3),
            ended: run.as_ref().map_or_else(|| missing.clone(), verdict),
        };
        let suite = |file: &FileRuns| junit::Suite {
            name: file.name.clone(),
            file: file.file.clone(),
            cases: file.runs.iter().enumerate().map(case).collect(),
        };
        self.files.iter().map(suite).collect()
    }

    /// An annotation for each file that failed, with its first failure.
    pub fn annotations(&self, args: &Args) -> Vec<Annotation> {
        let annotation = |file: &FileRuns| {
            let (at, run) = file.failed().next()?;
            let bad: Vec<u64> = file.failed().map(|(at, _)| self.seeds[at]).collect();
            let (count, all) = (bad.len(), file.runs.len());
            let text = run.failure.as_ref().map_or(run.exit.word(), |f| f.message.as_str());
            Some(Annotation {
                file: run.position.as_ref().map_or(&file.file, |at| &at.file).clone(),
                position: run.position.as_ref().map(|at| (at.line, at.column)),
                title: format!(
                    "{}: {count} of {all} {} failed: {}",
                    file.name,
                    one_or(all, "seed"),
                    seeds::short(&bad)
                ),
                message: format!("{}\n\nagain: {}", head(text), args.again(&file.file, self.seeds[at])),
            })
        };
        self.files.iter().filter_map(annotation).collect()
    }
}

/// First lines of a failure, which fit beside a line of code and say the most.
fn head(text: &str) -> String {
    let (shown, all) = (text.trim_end().lines().take(ANNOTATED).collect::<Vec<_>>(), text.trim_end().lines().count());
    let more = if all > shown.len() { "\n…" } else { "" };
    format!("{}{more}", shown.join("\n"))
}

/// Line about a skipped file.
pub(super) fn skipped_line(skipped: &Skipped, style: Style) -> String {
    format!("{}\n", style.paint(Tone::Faint, &format!("– {} skipped: {}", skipped.file, skipped.why)))
}

/// Result of a JUnit case.
fn verdict(run: &Ended) -> junit::Ended {
    let (code, text) =
        run.failure.as_ref().map_or((run.exit.word(), ""), |failure| (failure.code.as_str(), failure.message.as_str()));
    let (code, text) = (code.to_owned(), text.to_owned());
    match run.exit {
        Exit::Passed => junit::Ended::Passed,
        Exit::Failed | Exit::Leaked | Exit::Diverged if code != "panicked" => junit::Ended::Failed(code, text),
        _ => junit::Ended::Broken(code, text),
    }
}

fn rate(runs: usize, wall: Duration) -> f64 {
    runs as f64 / wall.as_secs_f64().max(1e-3)
}

fn one_or(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// A JUnit file that is known to be writable.
#[derive(Debug)]
pub(super) struct JunitFile<'a>(Option<&'a Path>);

impl<'a> JunitFile<'a> {
    /// Writes a report in which no run has ended. It stays if this process is killed.
    ///
    /// # Errors
    /// If the file cannot be written, with the reason.
    pub fn begin(path: Option<&'a Path>, report: &Report) -> Result<Self, String> {
        let file = Self(path);
        let why = "the process ended before the run did: by a signal, or by its watchdog at --timeout";
        file.write(report, &junit::Ended::Broken("did-not-end".to_owned(), why.to_owned()))?;
        Ok(file)
    }

    /// Writes the final report.
    ///
    /// # Errors
    /// As [`JunitFile::begin`].
    pub fn end(&self, report: &Report) -> Result<(), String> {
        let why = if report.interrupted { "interrupted" } else { "--fail-fast: a run before it failed" };
        self.write(report, &junit::Ended::Skipped(why.to_owned()))
    }

    fn write(&self, report: &Report, missing: &junit::Ended) -> Result<(), String> {
        let Some(path) = self.0 else { return Ok(()) };
        let text = junit::render(&report.suites(missing));
        std::fs::write(path, text).map_err(|e| format!("--junit {}: {e}", path.display()))
    }
}
