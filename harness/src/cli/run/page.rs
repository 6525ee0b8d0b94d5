//! Report page of one run.

use std::time::Duration;

use super::args::Args;
use super::figures::judged;
use crate::cli::report;
use crate::output::Exit;
use crate::program::MASK;
use crate::report::{Report, TAIL};
use crate::report_html::{Command, File, Page, Run, Tone, Verdict};
use crate::runner::Outcome;
use crate::scenario::model::Scenario;

/// Page of a run of `scenario` that the listener of `args` has recorded.
fn of(args: &Args, scenario: &Scenario, seed: u64, outcome: &Outcome, wall: Duration) -> Page {
    let report = Report::of(scenario, outcome);
    let exit = report.exit();
    let declared = outcome.violations.iter().any(|violation| violation.declared.is_some());
    let tone = match exit {
        Exit::Passed if declared => Tone::Warning,
        Exit::Passed => Tone::Good,
        _ => Tone::Bad,
    };
    let message = if exit == Exit::Passed { String::new() } else { report_text(&report) };
    let (timeline, summary) = judged(args, scenario, seed, outcome, wall, exit);
    let mut run = Run::new(&scenario.name, seed, &args.listener, timeline, &outcome.violations);
    (run.facts, run.end_ms, run.counted) = (summary.parts(), summary.end_ms(), summary.events);
    run.facts.extend(outcome.programs.iter().map(|program| format!("program {}", program.line())));
    run.verdict = Verdict { tone, word: exit.word().to_owned(), message };
    let does = |does: &str, text: String| Command { does: does.to_owned(), text };
    run.commands.push(does("Run it again", args.again(&scenario.source, seed)));
    // `mooring replay` supports only simulations with the settings of the file.
    if !args.live && args.target.is_none() && args.latency.is_none() && args.time_scale.is_none() {
        let file = crate::output::quoted(&scenario.source);
        let flags = crate::cli::search::flags(seed, &args.mutant);
        run.commands.push(does("Go through it step by step", format!("mooring replay {file} {flags} --step")));
    }
    let mut text = args.paths.first().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    for secret in scenario.programs.iter().flat_map(|program| program.secrets()) {
        text = text.replace(secret, MASK);
    }
    run.file = File::new(&scenario.source, &text);
    let command = args.again(&scenario.source, seed);
    Page { title: scenario.name.clone(), command, runs: vec![run], ..Page::default() }
}

/// Writes the page to the path in `args`.
pub(super) fn write(
    args: &Args,
    scenario: &Scenario,
    seed: u64,
    outcome: &Outcome,
    wall: Duration,
) -> Result<(), String> {
    let Some(path) = args.report.as_deref() else { return Ok(()) };
    report::write(of(args, scenario, seed, outcome, wall), path)
}

/// Text of a report, without trace lines: the page has all of them.
fn report_text(report: &Report) -> String {
    let mut lines: Vec<String> = Vec::new();
    if let Some(failed) = &report.failed {
        lines.push(failed.step.clone());
        lines.push(format!("expected  {}", failed.expected));
        lines.push(format!("seen      {}", failed.seen.trim_end().replace('\n', "\n          ")));
    }
    lines.extend(report.violations.iter().map(|violation| format!("{}  {}", violation.id, violation.message)));
    lines.extend(report.silent_faults.iter().map(|fault| format!("fault {} never fired", fault.name)));
    lines.extend(report.programs.iter().map(|program| program.paragraph(TAIL)));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}
