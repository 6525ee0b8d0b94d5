//! `mooring run --needed`: removes faults and steps one at a time, and lists those without which a scenario still
//! passes.

use std::process::ExitCode;

use serde_json::json;
use substrate::world::{Options, simulate};

use super::args::Args;
use super::files;
use super::mistakes::refuse_all;
use super::play::{Ended, options, simulated};
use super::report::skipped_line;
use crate::output::{self, Envelope, Exit, Failure, Format, Style, Tone};
use crate::scenario::model::Scenario;
use crate::scenario::needed::Lacking;

/// Number of passes of a scenario without one part.
struct Part {
    lacking: Lacking,
    passed: usize,
    runs: usize,
}

impl Part {
    /// Returns true if the scenario passes with every seed without the part. If one seed fails, the others pass by
    /// chance.
    fn is_needless(&self) -> bool {
        self.passed == self.runs
    }
}

/// Runs each file without each of its parts.
pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    let (out, err) = (Style::stdout(), Style::stderr());
    let (scenarios, skipped) = match files::read(args) {
        Ok(read) => read,
        Err(mistakes) => return refuse_all(format, args, &mistakes),
    };
    let mut tables = Vec::new();
    let mut needless = 0;
    for scenario in scenarios {
        let parts: Vec<Part> = scenario.lacking_one().into_iter().map(|lacking| without(args, lacking)).collect();
        needless += parts.iter().filter(|part| part.is_needless()).count();
        if format == Format::Human {
            output::say(&table(&scenario, &parts, out));
        }
        tables.push(json!({
            "file": scenario.source,
            "parts": parts.iter().map(|part| json!({
                "part": part.lacking.part,
                "line": part.lacking.line,
                "passed": part.passed,
                "runs": part.runs,
            })).collect::<Vec<_>>(),
        }));
    }
    if format == Format::Human {
        for why in &skipped {
            output::say(&skipped_line(why, out));
        }
    }
    let data = json!({ "files": tables, "skipped": skipped });
    let envelope = match needless {
        0 => Envelope::passed("run", data),
        n => {
            let parts = if n == 1 { "a part is".to_owned() } else { format!("{n} parts are") };
            let message = format!("{parts} not needed: the scenario passes without");
            let failure = Failure::new("not-needed", message)
                .action("take it out, or demand what it does, as with `expect` or `never`");
            Envelope::failed("run", Exit::Failed, failure).with_data(data)
        }
    };
    output::finish(format, &envelope, "", err).into()
}

/// Runs the rest of a scenario with every seed.
fn without(args: &Args, lacking: Lacking) -> Part {
    let seeds = args.all_seeds();
    let passes = |seed: &&u64| {
        let outcome = simulate(
            Options { watchdog: Some(args.limit()), ..options(args, &lacking.scenario, **seed) },
            async |world| simulated(&lacking.scenario, None, world).await,
        );
        let ended = outcome.map(|outcome| Ended::of(&lacking.scenario, &outcome, std::time::Duration::ZERO).exit);
        matches!(ended, Ok(Exit::Passed))
    };
    let (passed, runs) = (seeds.all().iter().filter(passes).count(), seeds.all().len());
    Part { lacking, passed, runs }
}

fn table(scenario: &Scenario, parts: &[Part], style: Style) -> String {
    let all = parts.len();
    let (mark, said) = match parts.iter().filter(|part| part.is_needless()).count() {
        0 => (style.paint(Tone::Good, "✓"), format!("fails without any of its {all} parts")),
        needless => (style.paint(Tone::Bad, "✗"), format!("does not need {needless} of its {all} parts")),
    };
    let mut text = format!("{mark} {}  {}\n", scenario.source, style.paint(Tone::Faint, &said));
    for Part { lacking, runs, .. } in parts.iter().filter(|part| part.is_needless()) {
        let line = lacking.line.map(|line| format!(":{line}")).unwrap_or_default();
        let often = if *runs == 1 { String::new() } else { format!(" with each of {runs} seeds") };
        text += &format!("    passes without {}{often} ({}{line})\n", lacking.part, scenario.source);
    }
    text
}
