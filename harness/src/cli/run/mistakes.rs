//! Errors that prevent runs, and their annotations.

use std::process::ExitCode;

use serde_json::json;

use super::args::Args;
use crate::cli::refusal::{details, show};
use crate::output::github::Annotation;
use crate::output::{self, Envelope, Exit, Failure, Format, Style};
use crate::scenario::ScenarioError;

/// Prints annotations if they are enabled: to standard output, or to standard error if the output is JSON.
pub(super) fn annotate(args: &Args, format: Format, annotations: &[Annotation]) {
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
pub(super) struct Mistakes {
    /// Messages about paths that do not exist.
    pub(super) missing: Vec<String>,
    /// Errors in scenario files.
    pub(super) in_files: Vec<ScenarioError>,
}

impl Mistakes {
    pub(super) fn is_empty(&self) -> bool {
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
pub(super) fn refuse(format: Format, args: &Args, errors: Vec<ScenarioError>) -> ExitCode {
    if format == Format::Json {
        return refuse_all(format, args, &Mistakes { missing: Vec::new(), in_files: errors });
    }
    show(&errors);
    let all: Vec<Annotation> = errors.iter().map(annotation).collect();
    annotate(args, format, &all);
    Exit::Usage.into()
}

/// Refuses several files, with each error.
pub(super) fn refuse_all(format: Format, args: &Args, mistakes: &Mistakes) -> ExitCode {
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
    let action = match (args.check, mistakes.in_files.is_empty()) {
        (false, false) => "correct what is named, and see with --check",
        _ => "correct what is named",
    };
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
