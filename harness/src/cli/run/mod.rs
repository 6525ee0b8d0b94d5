//! `mooring run`: runs one or many scenarios and reports the results.
//!
//! `one` runs a file with one seed and prints its timeline. `batch` runs several files or seeds (`pool` runs
//! simulations on threads, `children` live runs one after another). `check` only reads the files, `needed` removes
//! parts of them. `play` holds the shared code.

mod args;
mod batch;
mod check;
mod children;
mod compose;
mod files;
mod keep;
mod lacking;
mod needed;
mod one;
mod page;
mod play;
mod pool;
mod programs;
mod report;
mod watchdog;

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::refusal::{details, show};
use crate::mutants;
use crate::output::github::Annotation;
use crate::output::{self, Envelope, Exit, Failure, Format, Style};
use crate::scenario::ScenarioError;

pub(super) use args::Args;

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    let usage = |message: String| {
        let failure = Failure::new("usage", message);
        output::finish(format, &Envelope::failed("run", Exit::Usage, failure), "", Style::stderr()).into()
    };
    if args.check {
        return check::main(args, format);
    }
    let seeds = args.all_seeds();
    let one = match (&args.paths[..], seeds.all()) {
        ([path], [seed]) if files::is_one_file(path) => Some(*seed),
        _ => None,
    };
    if args.keep && one.is_none() {
        return usage("--keep: one cluster can stay up, so name one file".to_owned());
    }
    if args.target.is_some() && one.is_none() {
        return usage("--target: one run at a time is in a cluster, so name one file".to_owned());
    }
    if args.report.is_some() && one.is_none() {
        return usage("--report: a report is about one run, so name one file".to_owned());
    }
    if args.logs.is_some() && one.is_none() {
        return usage("--logs: a folder holds the output of one run, so name one file".to_owned());
    }
    if let Err(message) = mutants::check(&args.mutant) {
        return usage(message);
    }
    if args.trace.as_deref().is_some_and(is_stdout) {
        if one.is_none() {
            return usage("--trace -: several runs have a trace each, so name a folder".to_owned());
        }
        if format == Format::Json {
            return usage("--trace -: the result goes to standard output, so name a file".to_owned());
        }
    }
    if args.needed {
        return needed::main(args, format);
    }
    match one {
        Some(seed) => one::main(args, seed, format),
        None => batch::main(args, format),
    }
}

/// Returns true if a trace goes to standard output.
fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Prints annotations if they are enabled: to standard output, or to standard error if the output is JSON.
fn annotate(args: &Args, format: Format, annotations: &[Annotation]) {
    if !args.annotates() {
        return;
    }
    for annotation in annotations {
        match format {
            Format::Human => output::say(&format!("{annotation}\n")),
            Format::Json => output::complain(&format!("{annotation}\n")),
        }
    }
}

/// Errors that prevent the runs.
struct Mistakes {
    /// Messages about paths that do not exist.
    missing: Vec<String>,
    /// Errors in scenario files.
    in_files: Vec<ScenarioError>,
}

impl Mistakes {
    fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.in_files.is_empty()
    }
}

fn annotation(error: &ScenarioError) -> Annotation {
    let help = error.advice().map(|help| format!("\n{help}")).unwrap_or_default();
    Annotation {
        file: error.source_name().to_owned(),
        position: (error.line() > 0).then(|| (error.line(), error.column())),
        title: "a mistake in a scenario".to_owned(),
        message: format!("{error}{help}"),
    }
}

/// Refuses one file, with each error.
fn refuse(format: Format, args: &Args, errors: Vec<ScenarioError>) -> ExitCode {
    if format == Format::Json {
        return refuse_all(format, args, &Mistakes { missing: Vec::new(), in_files: errors });
    }
    show(&errors);
    let all: Vec<Annotation> = errors.iter().map(annotation).collect();
    annotate(args, format, &all);
    Exit::Usage.into()
}

/// Refuses several files, with each error.
fn refuse_all(format: Format, args: &Args, mistakes: &Mistakes) -> ExitCode {
    let count = mistakes.missing.len() + mistakes.in_files.len();
    if format == Format::Human {
        show(&mistakes.in_files);
    }
    // For people, errors in files were already printed with their source lines.
    let in_files = mistakes.in_files.iter().filter(|_| format == Format::Json).map(ToString::to_string);
    let lines: Vec<String> = mistakes.missing.iter().cloned().chain(in_files).collect();
    let what = if count == 1 { "a mistake".to_owned() } else { format!("{count} mistakes") };
    let nothing = if args.check { "" } else { "; nothing was run" };
    let message = match &lines[..] {
        [] => format!("{what} in the files{nothing}"),
        [line] if count == 1 => line.clone(),
        _ => format!("{what}{nothing}\n  {}", lines.join("\n  ")),
    };
    let details = details(&mistakes.in_files);
    let action = if args.check { "correct what is named" } else { "correct what is named, and see with --check" };
    // Suggestions; for people they were already printed at their place.
    let help = mistakes.in_files.iter().filter(|_| format == Format::Json).filter_map(ScenarioError::advice);
    let failure = help.fold(Failure::new("scenario", message), Failure::action).action(action);
    let data = json!({ "missing": mistakes.missing, "mistakes": details });
    let envelope = Envelope::failed("run", Exit::Usage, failure).with_data(data);
    let exit = output::finish(format, &envelope, "", Style::stderr());
    let all: Vec<Annotation> = mistakes.in_files.iter().map(annotation).collect();
    annotate(args, format, &all);
    exit.into()
}
