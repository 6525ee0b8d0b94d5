//! `mooring explore --mutants`: enables each seeded bug and prints the number of runs that find it.
//!
//! All defects use the same sequence: some drawn runs, then points of a sweep of the migration scenario, then drawn
//! runs again. A run finds the defect if its verdict differs without the defect.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::search::{self, How};
use crate::mutants;
use crate::output::{self, Envelope, Exit, Failure, Format, Progress, Style, took};
use crate::search::document::Document;
use crate::search::explore::Plan;
use crate::search::judge::{Class, Task, Verdict};
use crate::search::shrink::{shrink, size};
use crate::search::sweep::{self, Sweep};
use crate::search::workers::Since;

/// Scenario of the sweep.
const SCENARIO: &str = include_str!("../../../scenarios/migration.yaml");
/// Number of drawn runs before the sweep.
const FIRST: usize = 100;
/// Number of points of the sweep.
const POINTS: usize = 300;

/// Parameters of a hunt for seeded bugs.
pub(super) struct Hunt<'a> {
    /// Seed of all draws and of the sweep.
    pub seed: u64,
    /// Maximum number of drawn runs for each defect.
    pub most: usize,
    /// If set, findings are shrunk.
    pub shrinks: bool,
    /// Names of the defects; empty for all.
    pub only: &'a [String],
    /// Settings of the runs.
    pub how: &'a How,
}

/// First run that shows a seeded bug.
struct Found {
    /// `swarm` or `sweep`.
    by: &'static str,
    task: Task,
    verdict: Verdict,
}

struct Row {
    name: &'static str,
    /// Number of runs with the defect.
    runs: usize,
    found: Option<Found>,
    wall_ms: u64,
    /// Number of faults, steps and objects of the run that shows it, before and after shrinking.
    sizes: Option<(usize, usize)>,
}

/// Reason for which a search ended early.
enum Stopped {
    /// The user interrupted it.
    User,
    /// It cannot continue.
    Trouble(String),
}

impl Hunt<'_> {
    /// Hunts all defects and prints the table.
    pub(super) fn table(&self, format: Format) -> ExitCode {
        let mut all = mutants::all();
        if all.is_empty() {
            let message = "--mutants: this release has no planted defects; build it with `--features mutants`";
            return search::usage("explore", format, message);
        }
        all.retain(|mutant| self.only.is_empty() || self.only.iter().any(|name| name == mutant.name));
        let usual = match usual(self.seed, self.how) {
            Ok(usual) => usual,
            Err(why) => return search::environment("explore", format, why),
        };
        let progress = if format == Format::Json { Progress::silent() } else { Progress::stderr() };
        let phase = progress.phase("explore planted defects");
        let mut rows = Vec::new();
        let mut whole = true;
        for mutant in &all {
            phase.update(&format!("{} of {}: {}", rows.len() + 1, all.len(), mutant.name));
            match self.row(mutant.name, &usual) {
                Ok(row) => rows.push(row),
                Err(Stopped::User) => {
                    whole = false;
                    break;
                }
                Err(Stopped::Trouble(why)) => return search::environment("explore", format, why),
            }
        }
        let wording = format!("{} of {} planted defects", rows.len(), all.len());
        if whole {
            phase.done(&wording)
        } else {
            phase.interrupted(&wording)
        }
        self.conclude(&rows, all.len(), whole, format)
    }

    fn row(&self, name: &'static str, usual: &Verdict) -> Result<Row, Stopped> {
        let since = Since::now();
        let mut runs = 0;
        let found = self.find(name, usual, &mut runs)?;
        let wall_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let sizes = found.as_ref().filter(|_| self.shrinks).map(|found| self.shrunk(found)).transpose()?;
        Ok(Row { name, runs, found, wall_ms, sizes })
    }

    fn find(&self, name: &str, usual: &Verdict, runs: &mut usize) -> Result<Option<Found>, Stopped> {
        let plan = Plan { seed: self.seed, mutants: vec![name.to_owned()], ..Plan::default() };
        let drawn = |at: usize| Task { report_coverage: false, ..plan.task(at) };
        let first = self.first("swarm", &drawn, 0..FIRST.min(self.most), runs)?;
        if first.is_some() {
            return Ok(first);
        }
        let plan = sweep::Plan { mutants: plan.mutants.clone(), sample: Some(POINTS), ..plan_of(self.seed) };
        let sweep = prepare(plan, self.how).map_err(Stopped::Trouble)?;
        let swept = |at: usize| {
            // The first run has no fault.
            let broken = at.checked_sub(1).map_or(usize::MAX, |point| point);
            Task { ends: Some(usual.ends.clone()), ..sweep.task(broken) }
        };
        let second = self.first("sweep", &swept, 0..sweep.len() + 1, runs)?;
        if second.is_some() {
            return Ok(second);
        }
        self.first("swarm", &drawn, FIRST.min(self.most)..self.most, runs)
    }

    /// First run of `range` that finds the defect: its verdict differs without the defect.
    fn first(
        &self,
        by: &'static str,
        task: &dyn Fn(usize) -> Task,
        range: std::ops::Range<usize>,
        runs: &mut usize,
    ) -> Result<Option<Found>, Stopped> {
        let mut from = range.start;
        while from < range.end {
            // A batch small enough to waste few runs.
            let to = range.end.min(from + self.how.jobs() * 4);
            let tasks: Vec<Task> = (from..to).map(task).collect();
            let wrong = self.all(tasks.clone())?;
            if wrong.iter().any(|verdict| verdict.class.is_finding()) {
                let without = tasks.iter().map(|task| Task { mutants: Vec::new(), ..task.clone() }).collect();
                let right = self.all(without)?;
                let shows = |(wrong, right): (&Verdict, &Verdict)| {
                    wrong.class.is_finding() && wrong.signature != right.signature
                };
                if let Some(at) = wrong.iter().zip(&right).position(shows) {
                    *runs += at + 1;
                    return Ok(Some(Found { by, task: tasks[at].clone(), verdict: wrong[at].clone() }));
                }
            }
            *runs += to - from;
            from = to;
        }
        Ok(None)
    }

    /// Verdicts of runs, in order.
    fn all(&self, tasks: Vec<Task>) -> Result<Vec<Verdict>, Stopped> {
        let mut verdicts: Vec<Option<Verdict>> = vec![None; tasks.len()];
        let work = move |at: usize| tasks.get(at).cloned();
        let whole = search::carry_out(self.how.settings(), Box::new(work), |at, verdict| {
            verdicts[at] = Some(verdict);
            true
        });
        match whole {
            Ok(true) => Ok(verdicts.into_iter().flatten().collect()),
            Ok(false) => Err(Stopped::User),
            Err(why) => Err(Stopped::Trouble(why)),
        }
    }

    /// Number of items of the run that shows the defect, before and after shrinking.
    fn shrunk(&self, found: &Found) -> Result<(usize, usize), Stopped> {
        let whole = Document::of_text("found.yaml", &found.task.text).map_err(|e| Stopped::Trouble(e.to_string()))?;
        // The expected end state of a smaller run is unknown.
        if found.verdict.class == Class::EndDiffers {
            return Ok((size(&whole), size(&whole)));
        }
        let mut stopped = None;
        let small = shrink(&whole, &mut |candidates: &[Document]| {
            let task = |document: &Document| Task { text: document.text(), ..found.task.clone() };
            match self.all(candidates.iter().map(task).collect()) {
                Ok(all) => Ok(all.iter().position(|verdict| verdict.signature == found.verdict.signature)),
                Err(why) => {
                    stopped = Some(why);
                    Err("stopped".to_owned())
                }
            }
        });
        match (small, stopped) {
            (Ok(small), _) => Ok((size(&whole), size(&small))),
            (Err(_), Some(why)) => Err(why),
            (Err(why), None) => Err(Stopped::Trouble(why)),
        }
    }

    fn conclude(&self, rows: &[Row], planted: usize, whole: bool, format: Format) -> ExitCode {
        let mut text =
            format!("{:<30}{:>6}{:>10}  {:<6}{:>9}  {}\n", "planted defect", "runs", "took", "by", "items", "seen as");
        text.extend(rows.iter().map(|row| line(row, self.most)));
        let missed: Vec<&str> = rows.iter().filter(|row| row.found.is_none()).map(|row| row.name).collect();
        let mut runs: Vec<usize> = rows.iter().filter(|row| row.found.is_some()).map(|row| row.runs).collect();
        runs.sort_unstable();
        let median = runs.get(runs.len() / 2).copied();
        let wording = median.map(|median| format!(", the median after {median} runs")).unwrap_or_default();
        text += &format!("{} of {planted} found{wording}\n", rows.len() - missed.len());
        let row = |row: &Row| -> Value {
            json!({
                "mutant": row.name,
                "runs": row.runs,
                "by": row.found.as_ref().map(|found| found.by),
                "class": row.found.as_ref().map(|found| found.verdict.class),
                "signature": row.found.as_ref().map(|found| &found.verdict.signature),
                "items": row.sizes.map(|(items, _)| items),
                "shrunk": row.sizes.map(|(_, items)| items),
            })
        };
        let rows: Vec<Value> = rows.iter().map(row).collect();
        let data = json!({ "seed": self.seed, "most": self.most, "median": median, "rows": rows });
        let envelope = if !whole {
            let message = format!("interrupted after {} of {planted} planted defects", rows.len());
            Envelope::failed("explore", Exit::Interrupted, Failure::new("interrupted", message)).with_data(data)
        } else if missed.is_empty() {
            Envelope::passed("explore", data)
        } else {
            let message = format!("{} planted defects were not found: {}", missed.len(), missed.join(", "));
            let failure = Failure::new("not-found", message).action("give it more --runs");
            Envelope::failed("explore", Exit::Failed, failure).with_data(data)
        };
        output::finish(format, &envelope, &text, Style::stderr()).into()
    }
}

fn line(row: &Row, most: usize) -> String {
    let Row { name, runs, found, wall_ms, sizes } = row;
    let (by, seen) = match found {
        Some(found) => (found.by, found.verdict.signature.clone()),
        None => ("·", format!("not in {most} drawn runs")),
    };
    let sizes = sizes.map_or_else(|| "·".to_owned(), |(items, small)| format!("{items} → {small}"));
    format!("{name:<30}{runs:>6}{:>10}  {by:<6}{sizes:>9}  {seen}\n", took(*wall_ms))
}

fn plan_of(seed: u64) -> sweep::Plan {
    sweep::Plan { seed, mutants: Vec::new(), only: Vec::new(), sample: Some(1), pairs: 0 }
}

fn prepare(plan: sweep::Plan, how: &How) -> Result<Sweep, String> {
    let document = Document::of_text("migration.yaml", SCENARIO).map_err(|e| e.to_string())?;
    Sweep::prepare(&document, plan, Some(how.timeout.0))
}

/// Verdict of the unbroken run without any defect.
fn usual(seed: u64, how: &How) -> Result<Verdict, String> {
    prepare(plan_of(seed), how).map(|sweep| sweep.unbroken)
}
