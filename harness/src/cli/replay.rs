//! `mooring replay`: repeats a run, byte for byte, or up to a moment.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use substrate::fault::Span;

use super::report;
use super::search::{self, Which};
use crate::output::{self, Envelope, Exit, Failure, Format, Style, Tone};
use crate::report::trace_line;
use crate::report_html::{Listener, Page, Run, Tone as Look, Verdict as Word};
use crate::search::bundle::{Record, trace_beside};
use crate::search::document::Document;
use crate::search::judge::{Class, Task, Verdict, judge_and_keep, judge_and_show, judge_and_trace, task_of};
use crate::search::replay::{Difference, Moment, first_difference, state_text, to_moment};
use crate::search::step::{Setup, debug};
use crate::timeline::Timeline;

/// Number of events that are shown before a moment.
const SHOWN: usize = 20;
const MOMENT: &str = "Up to a moment";
const STEP: &str = "Step by step";
const COMPARE: &str = "What it is compared with";

/// Arguments of `mooring replay`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
    /// Enable planted defects by name. Default: those of the record.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide = !substrate::mutant::BUILT_IN)]
    mutant: Vec<String>,
    /// Stop at this time of the world (6m30s), or at the event with this number (#120).
    #[arg(long, value_name = "TIME", help_heading = MOMENT, value_parser = Moment::of_time)]
    until: Option<Moment>,
    /// Stop when an object enters a state: 'pvc/data Bound', 'volumeattachment/csi-* attached'.
    #[arg(long, value_name = "OBJECT STATE", conflicts_with = "until", help_heading = MOMENT, value_parser = Moment::of_object)]
    at: Option<Moment>,
    /// Go through the run in a debugger: forward and back, with breakpoints. It reads commands from standard input;
    /// `help` lists them.
    #[arg(long, help_heading = STEP, conflicts_with_all = ["until", "at", "state", "against", "record", "report"])]
    step: bool,
    /// Go back by running from the start, instead of keeping copies of the run. The result is the same.
    #[arg(long, requires = "step", help_heading = STEP)]
    from_start: bool,
    /// Show the state at that moment: objects, volumes of the cloud, devices and mounts of each node. Reading takes
    /// some milliseconds of the world's time.
    #[arg(long, help_heading = MOMENT)]
    state: bool,
    /// The trace to compare with. Default: the one beside the file.
    #[arg(long, value_name = "TRACE", conflicts_with_all = ["until", "at", "state"], help_heading = COMPARE)]
    against: Option<PathBuf>,
    /// Write the trace to this file, to compare with later.
    #[arg(long, value_name = "TRACE", conflicts_with_all = ["until", "at", "state"], help_heading = COMPARE)]
    record: Option<PathBuf>,
    /// Write a report of the run to this file: one page that shows what happened, up to the moment if there is one.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Wall-clock limit; exceeding it is exit code 4.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    timeout: Span,
}

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    let usage = |wrong: search::Wrong| search::usage("replay", format, wrong);
    let (document, record, mine) = match args.which.read(&args.mutant) {
        Ok(read) => read,
        Err(message) => return usage(message),
    };
    if args.state && args.until.is_none() && args.at.is_none() {
        return usage("--state: say when, with --until or --at".into());
    }
    if args.step {
        return step(args, &document, &mine, format);
    }
    // A record with another seed or other defects belongs to another run.
    let record = record.filter(|r| r.seed == mine.seed && r.mutants == mine.mutants);
    match args.until.clone().or_else(|| args.at.clone()) {
        Some(moment) => stop_at(args, &document, &mine, moment, format),
        None => compare(args, &document, &mine, record.as_ref(), format),
    }
}

/// Runs the debugger with commands from standard input.
fn step(args: &Args, document: &Document, mine: &Record, format: Format) -> ExitCode {
    if format == Format::Json {
        return search::usage("replay", format, "--step: it speaks with people; leave --output json out");
    }
    let task = Task { text: document.text(), seed: mine.seed, mutants: mine.mutants.clone(), ..Task::default() };
    let prompts = std::io::stdin().is_terminal();
    match debug(&Setup { task, from_start: args.from_start, prompts }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => search::usage("replay", format, message),
    }
}

/// Runs to a moment, and shows it.
fn stop_at(args: &Args, document: &Document, mine: &Record, moment: Moment, format: Format) -> ExitCode {
    let task = Task { text: document.text(), seed: mine.seed, mutants: mine.mutants.clone(), ..Task::default() };
    let listener = Listener::default();
    let awaited = moment.to_string();
    let recorder = args.report.is_some().then_some(&listener);
    let seen = match to_moment(&task, moment, args.state, Some(args.timeout.0), recorder) {
        Ok(seen) => seen,
        Err(message) => return search::usage("replay", format, message),
    };
    if let Some(path) = &args.report {
        let word = if seen.came { "stopped" } else { "ended before" };
        let timeline = Timeline::build(&seen.events);
        let mut run = Run::new(document.name(), mine.seed, &listener, timeline, &[]);
        run.verdict = Word { tone: Look::Warning, word: word.to_owned(), message: String::new() };
        if let Err(why) = report::write(page(args, document, mine, run), path) {
            return search::environment("replay", format, why);
        }
    }
    let from = seen.events.len().saturating_sub(SHOWN);
    let lines: Vec<_> = seen.events[from..].iter().map(|event| event.line()).collect();
    let mut text: String = lines.iter().map(|line| trace_line(line) + "\n").collect();
    if args.state {
        text += &state_text(&seen.state);
    }
    let data = json!({ "came": seen.came, "events": seen.events.len(), "last": lines, "state": seen.state });
    let envelope = if seen.came {
        Envelope::passed("replay", data)
    } else {
        let failure = Failure::new("moment-never-came", format!("the run ended before {awaited}"))
            .action("the events that are shown are its last ones");
        Envelope::failed("replay", Exit::Failed, failure).with_data(data)
    };
    output::finish(format, &envelope, &text, Style::stderr()).into()
}

/// Runs to the end, and compares the trace with the recorded one, or with a second run if there is no record.
fn compare(args: &Args, document: &Document, mine: &Record, record: Option<&Record>, format: Format) -> ExitCode {
    let limit = Some(args.timeout.0);
    let task = task_of(document, mine, limit);
    let listener = Listener::default();
    let (verdict, outcome) = match args.report {
        Some(_) => judge_and_show(&task, limit, &listener),
        None => judge_and_keep(&task, limit),
    };
    let lines: Vec<String> =
        outcome.iter().flat_map(|outcome| &outcome.events).map(|event| event.line().text()).collect();
    if verdict.class == Class::Unreadable {
        return search::usage("replay", format, verdict.message);
    }
    if let Some(path) = &args.record
        && let Err(e) = std::fs::write(path, lines.join("\n") + "\n")
    {
        return search::environment("replay", format, format!("--record {}: {e}", path.display()));
    }
    if let Some(path) = &args.report {
        let run = report::recorded(document.name(), mine.seed, &verdict, &listener, outcome.as_ref());
        if let Err(why) = report::write(page(args, document, mine, run), path) {
            return search::environment("replay", format, why);
        }
    }
    let beside = args.against.clone().or_else(|| {
        let beside = trace_beside(&args.which.file);
        (record.is_some() && beside.exists()).then_some(beside)
    });
    let recorded = match beside.map(|path| std::fs::read_to_string(&path).map_err(|e| (path, e))).transpose() {
        Ok(recorded) => recorded,
        Err((path, e)) => return search::usage("replay", format, format!("{}: {e}", path.display())),
    };
    let (with, difference) = match (&recorded, record) {
        (Some(text), _) => ("the recorded trace", first_difference(text.lines(), &lines).map(differs)),
        (None, Some(record)) => ("the recorded digest", by_digest(record, &verdict)),
        (None, None) => {
            let (_, again) = judge_and_trace(&task, limit);
            ("a second run", first_difference(again.iter().map(String::as_str), &lines).map(differs))
        }
    };
    let data = json!({
        "seed": mine.seed,
        "comparedWith": with,
        "class": verdict.class,
        "signature": verdict.signature,
        "message": verdict.message,
        "events": verdict.events,
        "digest": verdict.digest,
    });
    let envelope = match (difference, verdict.never_fired()) {
        (None, None) => Envelope::passed("replay", data),
        (None, Some(why)) => search::never_fired("replay", why).with_data(data),
        (Some(why), _) => {
            let failure = Failure::new("diverged", why)
                .action("was it recorded by another build? Then the files are not to blame");
            Envelope::failed("replay", Exit::Diverged, failure).with_data(data)
        }
    };
    let style = Style::stdout();
    let mut text = String::new();
    if envelope.exit() != Exit::Diverged {
        let all = format!("{} events, byte for byte as in {with}", verdict.events);
        text += &format!("{} {all}\n", style.paint(Tone::Good, "✓"));
    }
    // A run that survives has no signature, and that of a declared deviation begins with the class.
    let (class, signature) = (verdict.class.word(), &verdict.signature);
    let line = if signature.starts_with(class) { signature.clone() } else { format!("{class} {signature}") };
    text += &format!("{}\n", line.trim_end());
    text += &verdict.message.lines().map(|line| format!("  {line}\n")).collect::<String>();
    output::finish(format, &envelope, &text, Style::stderr()).into()
}

/// Report page of the run.
fn page(args: &Args, document: &Document, mine: &Record, mut run: Run) -> Page {
    let flags = search::flags(mine.seed, &mine.mutants);
    let path = Some(args.which.file.as_path());
    let text = std::fs::read_to_string(&args.which.file).unwrap_or_else(|_| document.text());
    (run.commands, run.file) = (report::commands(path, &flags), report::file(path, &text));
    let command = run.commands.first().map(|command| command.text.clone()).unwrap_or_default();
    Page { title: document.name().to_owned(), command, runs: vec![run], ..Page::default() }
}

fn differs(Difference { n, recorded, now }: Difference) -> String {
    let side = |line: Option<String>| line.unwrap_or_else(|| "(it had ended)".to_owned());
    format!("event {n} differs\n  recorded  {}\n  now       {}", side(recorded), side(now))
}

fn by_digest(record: &Record, now: &Verdict) -> Option<String> {
    let same = record.digest == now.digest && record.events == now.events;
    (!same).then(|| {
        let before = format!("{} events with the digest {}", record.events, record.digest);
        format!(
            "recorded were {before}, and now {} with {}\nrecord a trace to see where they differ",
            now.events, now.digest
        )
    })
}
