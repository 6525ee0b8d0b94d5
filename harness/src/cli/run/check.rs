//! `mooring run --check`: reads the files, and shows each error with its position.

use std::process::ExitCode;

use serde_json::json;

use super::args::Args;
use super::files::{self, Opened};
use super::mistakes::{Mistakes, refuse_all};
use super::report::skipped_line;
use crate::output::{self, Envelope, Format, Style};

/// Reads all files; exit code 2 if there is an error.
pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    let style = Style::stdout();
    let found = files::find(&args.paths);
    // A single named file must be a scenario.
    let meant = matches!(&args.paths[..], [path] if files::is_one_file(path));
    let mut mistakes = Mistakes { missing: found.missing, in_files: Vec::new() };
    let (mut text, mut read, mut skipped) = (String::new(), Vec::new(), Vec::new());
    let mut warnings = Vec::new();
    for file in found.found {
        match files::open(&file, meant, None) {
            Opened::Scenario(scenario) => {
                warnings.extend(scenario.remarks.iter().map(ToString::to_string));
                let mark = style.paint(output::Tone::Good, "✓");
                text += &format!("{mark} {}  {}\n", scenario.source, style.paint(output::Tone::Faint, &scenario.name));
                read.push(json!({ "file": scenario.source, "scenario": scenario.name }));
            }
            Opened::Skipped(why) => {
                text += &skipped_line(&why, style);
                skipped.push(why);
            }
            Opened::Wrong(errors) => {
                text += &format!("{} {}\n", style.paint(output::Tone::Bad, "✗"), file.display());
                mistakes.in_files.extend(errors);
            }
        }
    }
    let data = json!({ "files": read, "skipped": skipped });
    if mistakes.is_empty() {
        let envelope = Envelope { warnings, ..Envelope::passed("run", data) };
        return output::finish(format, &envelope, &text, Style::stderr()).into();
    }
    if format == Format::Human {
        output::say(&text);
    }
    refuse_all(format, args, &mistakes)
}
