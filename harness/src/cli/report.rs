//! Shared parts of the commands that write a report with `--report`.

use std::path::Path;
use std::time::Duration;

use substrate::WorldKind;

use crate::invariants::Violation;
use crate::output::{Exit, quoted};
use crate::report_html::{Command, File, Listener, Page, Run, Table, Tone, Verdict as Word};
use crate::runner::Outcome;
use crate::search::judge::{Class, Task, Verdict, judge_and_show};
use crate::search::sweep;
use crate::timeline::{Summary, Timeline};

/// Repeats the run of `task` with a listener. If `verdict` says that there is no result, the report has no events.
pub(super) fn run(name: &str, task: &Task, verdict: &Verdict, limit: Duration) -> Run {
    if matches!(verdict.class, Class::Broke | Class::Hung | Class::Unreadable) {
        return Run::without_events(name, task.seed, word(verdict));
    }
    let listener = Listener::default();
    let (_, outcome) = judge_and_show(task, Some(limit), &listener);
    recorded(name, task.seed, verdict, &listener, outcome.as_ref())
}

/// Report of the run that `listener` has recorded.
pub(super) fn recorded(
    name: &str,
    seed: u64,
    verdict: &Verdict,
    listener: &Listener,
    outcome: Option<&Outcome>,
) -> Run {
    let timeline = outcome.map_or_else(Timeline::default, timeline);
    let violations: &[Violation] = outcome.map_or(&[], |outcome| &outcome.violations);
    let torn_down_ms = timeline.steps_end_ms.map(|_| timeline.end_ms);
    let mut run = Run::new(name, seed, listener, timeline, violations);
    run.verdict = word(verdict);
    run.facts = vec![format!("seed {seed}")];
    if let Some(outcome) = outcome {
        let summary = Summary { torn_down_ms, seed, ..Summary::new(name, WorldKind::Simulated, Exit::Passed) };
        let summary = Summary { events: outcome.events.len() as u64, ..summary.times(outcome.elapsed, Duration::ZERO) };
        (run.end_ms, run.counted) = (summary.end_ms(), summary.events);
        // A search does not measure the wall time of one run.
        run.facts = summary.parts().into_iter().filter(|part| !part.starts_with("wall time")).collect();
    }
    run
}

/// Timeline of the volumes of a run.
pub(super) fn timeline(outcome: &Outcome) -> Timeline {
    let over = u64::try_from(outcome.steps_over.as_millis()).unwrap_or(u64::MAX);
    Timeline::build(&outcome.events).steps_over(over)
}

fn word(verdict: &Verdict) -> Word {
    let tone = match verdict.class {
        Class::Survived => Tone::Good,
        Class::Declared => Tone::Warning,
        _ => Tone::Bad,
    };
    Word { tone, word: verdict.class.word().to_owned(), message: verdict.message.clone() }
}

/// Commands that repeat a finding, with the file that contains it if there is one.
pub(super) fn commands(file: Option<&Path>, flags: &str) -> Vec<Command> {
    let does = |does: &str, text: String| Command { does: does.to_owned(), text };
    let (name, first) = match file {
        Some(file) => (quoted(&file.display().to_string()), "Run it again, byte for byte"),
        None => ("finding.yaml".to_owned(), "Save the scenario as finding.yaml, and run it again"),
    };
    vec![
        does(first, format!("mooring replay {name} {flags}")),
        does("Go through it step by step", format!("mooring replay {name} {flags} --step")),
        does("Take out what it does not need", format!("mooring shrink {name} --out small.yaml")),
    ]
}

/// A scenario to show.
pub(super) fn file(path: Option<&Path>, text: &str) -> File {
    File::new(&path.map_or_else(|| "finding.yaml".to_owned(), |path| path.display().to_string()), text)
}

/// Table of a sweep's results.
pub(super) fn table(table: &sweep::Table) -> Table {
    let classes: Vec<Class> = Class::ALL.iter().copied().filter(|class| table.total(*class) > 0).collect();
    let count = |n: usize| if n == 0 { "·".to_owned() } else { n.to_string() };
    let words = classes.iter().map(|class| class.word().to_owned());
    let row = |name: &str, of: &dyn Fn(Class) -> usize| {
        let all: usize = classes.iter().map(|class| of(*class)).sum();
        [name.to_owned(), count(all)].into_iter().chain(classes.iter().map(|class| count(of(*class)))).collect()
    };
    let rows =
        table.counts.iter().map(|(name, counts)| row(name.word(), &|class| counts.get(&class).copied().unwrap_or(0)));
    Table {
        columns: ["what breaks".to_owned(), "points".to_owned()].into_iter().chain(words).collect(),
        rows: rows.chain([row("all", &|class| table.total(class))]).collect(),
    }
}

/// Writes a page. An error names the flag.
pub(super) fn write(page: Page, path: &Path) -> Result<(), String> {
    page.write(path).map_err(|why| format!("--report {why}"))
}
