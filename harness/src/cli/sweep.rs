//! `mooring sweep`: breaks everything that can break in a scenario, one thing per run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Value, json};
use substrate::fault::Fault;

use super::report;
use super::search::{self, How};
use crate::mutants;
use crate::output::{self, Envelope, Exit, Failure, Format, Progress, Style, Tone, took};
use crate::report_html::{Page, RUNS};
use crate::search::bundle::Bundle;
use crate::search::document::Document;
use crate::search::judge::{Class, Task, Verdict};
use crate::search::points::PointKind;
use crate::search::shard::Shard;
use crate::search::sweep::{Plan, Sweep, Table};
use crate::search::workers::Since;

const WHAT: &str = "What is broken";
/// Number of runs of a finding that are listed.
const NAMED: usize = 3;
/// Number of points that are also run from the start, to compare.
const SAMPLE: usize = 10;

/// Arguments of `mooring sweep`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// The scenario file.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// The seed of every run.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = WHAT)]
    seed: u64,
    /// Only these kinds of points, separated by commas.
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_enum, help_heading = WHAT)]
    only: Vec<Kind>,
    /// The maximum number of points, spread evenly over all of them.
    #[arg(long, value_name = "N", help_heading = WHAT, value_parser = clap::value_parser!(u32).range(1..))]
    points: Option<u32>,
    /// The number of additional pairs of points, drawn by the seed: two things break in one run.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = WHAT)]
    pairs: u32,
    /// Only the k-th of n parts of the runs; other machines do the others.
    #[arg(long, value_name = "K/N", default_value_t, help_heading = WHAT)]
    shard: Shard,
    /// Run every point from the start, instead of copying one run at each point. The result is the same.
    #[arg(long)]
    from_start: bool,
    /// Write a scenario file for each finding, with its trace, into this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Write a report to this file: one page with the table and a run of each finding, for a browser.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    how: How,
}

/// [`PointKind`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind(PointKind);

impl ValueEnum for Kind {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Kind; PointKind::ALL.len()] = {
            let mut all = [Kind(PointKind::Crash); PointKind::ALL.len()];
            let mut at = 0;
            while at < all.len() {
                all[at] = Kind(PointKind::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.word()))
    }
}

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    if let Err(message) = mutants::check(&args.how.mutant) {
        return search::usage("sweep", format, message);
    }
    let document = match Document::load(&args.scenario) {
        Ok(document) => document,
        Err(error) => return search::usage("sweep", format, error),
    };
    let plan = Plan {
        seed: args.seed,
        mutants: args.how.mutant.clone(),
        only: args.only.iter().map(|kind| kind.0).collect(),
        sample: args.points.map(|n| n as usize),
        pairs: args.pairs as usize,
    };
    let sweep = match Sweep::prepare(&document, plan, Some(args.how.timeout.0)) {
        Ok(sweep) => sweep,
        Err(message) => return search::usage("sweep", format, message),
    };
    let runs: Vec<usize> =
        (0..sweep.len()).map(|run| args.shard.whole(run)).take_while(|run| *run < sweep.len()).collect();
    let progress = if format == Format::Json { Progress::silent() } else { Progress::stderr() };
    let phase = progress.phase(format!("sweep {}", sweep_name(&document)));
    let since = Since::now();
    let mut verdicts: BTreeMap<usize, Verdict> = BTreeMap::new();
    let mut found = 0;
    let mut whole = true;
    let mut tell = |verdicts: &mut BTreeMap<usize, Verdict>, run: usize, verdict: Verdict| {
        found += usize::from(verdict.class.is_finding());
        verdicts.insert(run, verdict);
        phase.update(&format!("{} of {} points, {found} found", verdicts.len(), runs.len()));
    };
    if !args.from_start {
        let branches: Vec<(usize, Fault)> = runs.iter().filter_map(|run| Some((*run, sweep.branch(*run)?))).collect();
        let on_verdict = |run, verdict| tell(&mut verdicts, run, verdict);
        match search::carry_out_branches(workers_of(args, &sweep), &sweep.trunk(), branches, on_verdict) {
            Ok(all) => whole = all,
            Err(why) => return search::environment("sweep", format, why),
        }
    }
    let branched = (verdicts.len(), since.elapsed());
    // Pairs, and points that could not be branched, run from the start.
    let rest: Vec<usize> = runs.iter().copied().filter(|run| !verdicts.contains_key(run)).collect();
    if whole && !rest.is_empty() {
        let on_verdict = |run, verdict| tell(&mut verdicts, run, verdict);
        match from_start(args, &sweep, rest, on_verdict) {
            Ok(all) => whole = all,
            Err(why) => return search::environment("sweep", format, why),
        }
    }
    let wall = since.elapsed();
    let rate = per_second(verdicts.len(), wall);
    let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
    let mut wording =
        format!("{} of {} points in {}, {rate:.1} points per second", verdicts.len(), runs.len(), took(wall_ms));
    if whole && branched.0 > SAMPLE * 2 {
        match sample(args, &sweep, &verdicts) {
            Ok(alone) => {
                let times = per_second(branched.0, branched.1) / alone.max(1e-3);
                wording += &format!("; {times:.1} times as many as from the start of each");
            }
            Err(failure) => {
                let envelope = Envelope::failed("sweep", Exit::Diverged, failure);
                return output::finish(format, &envelope, "", Style::stderr()).into();
            }
        }
    }
    if whole {
        phase.done(&wording)
    } else {
        phase.interrupted(&wording)
    }
    conclude(args, &sweep, &verdicts, runs.len(), whole, format)
}

fn per_second(runs: usize, wall: Duration) -> f64 {
    runs as f64 / wall.as_secs_f64().max(1e-3)
}

/// Carries out `runs`, each from its start. Returns false if the user interrupted them.
fn from_start(
    args: &Args,
    sweep: &Sweep,
    runs: Vec<usize>,
    mut on_verdict: impl FnMut(usize, Verdict),
) -> Result<bool, String> {
    let work = {
        let (sweep, runs) = (sweep.clone(), runs.clone());
        move |at: usize| runs.get(at).map(|run| sweep.task(*run))
    };
    search::carry_out(workers_of(args, sweep), Box::new(work), |at, verdict| {
        on_verdict(runs[at], verdict);
        true
    })
}

/// Repeats some of the points from the start: the verdicts must be equal. Returns the number of such runs per second.
fn sample(args: &Args, sweep: &Sweep, verdicts: &BTreeMap<usize, Verdict>) -> Result<f64, Failure> {
    let ended = |verdict: &Verdict| !matches!(verdict.class, Class::Broke | Class::Hung);
    let all: Vec<usize> = verdicts
        .iter()
        .filter(|(run, verdict)| sweep.branch(**run).is_some() && ended(verdict))
        .map(|(run, _)| *run)
        .collect();
    let some: Vec<usize> = (0..SAMPLE).filter_map(|at| all.get(at * all.len() / SAMPLE).copied()).collect();
    let (since, mut wrong) = (Since::now(), None);
    let many = some.len();
    let done = from_start(args, sweep, some, |run, verdict| {
        if verdicts.get(&run) != Some(&verdict) {
            wrong.get_or_insert((run, verdict));
        }
    });
    let rate = per_second(many, since.elapsed());
    match (done, wrong) {
        (Err(why), _) => Err(Failure::new("environment", why)),
        (Ok(_), None) => Ok(rate),
        (Ok(_), Some((run, alone))) => {
            let class = verdicts.get(&run).map_or("nothing", |verdict| verdict.class.word());
            let message = format!(
                "{}: as a branch it came to `{class}`, and from the start to `{}`, with other events",
                sweep.about(run),
                alone.class.word()
            );
            let action = "this is a mistake in mooring: sweep with --from-start, and report it";
            Err(Failure::new("branch-differs", message).action(action))
        }
    }
}

fn sweep_name(document: &Document) -> String {
    document.name().to_owned()
}

fn workers_of(args: &Args, sweep: &Sweep) -> crate::search::workers::Settings {
    // If the unbroken run fails, there is no expected end state.
    let ends = (sweep.unbroken.class == Class::Survived || sweep.unbroken.class == Class::Declared)
        .then(|| sweep.unbroken.ends.clone());
    crate::search::workers::Settings { ends, ..args.how.settings() }
}

/// A bug, and the runs that show it.
struct Finding<'a> {
    verdict: &'a Verdict,
    runs: &'a [Option<usize>],
    file: Option<PathBuf>,
}

fn conclude(
    args: &Args,
    sweep: &Sweep,
    verdicts: &BTreeMap<usize, Verdict>,
    runs: usize,
    whole: bool,
    format: Format,
) -> ExitCode {
    let table = sweep.table(verdicts);
    let mut findings = Vec::new();
    for runs in table.findings.values() {
        let verdict = match runs.first() {
            Some(Some(run)) => verdicts.get(run),
            _ => Some(&sweep.unbroken),
        };
        let Some(verdict) = verdict else { continue };
        let file = match args.out.as_ref().map(|folder| keep(args, folder, sweep, runs, verdict)).transpose() {
            Ok(file) => file,
            Err(why) => return search::environment("sweep", format, format!("--out {why}")),
        };
        findings.push(Finding { verdict, runs, file });
    }
    // The worst and most frequent first; equal ones in the order of their signatures.
    findings.sort_by_key(|finding| (finding.verdict.class, std::cmp::Reverse(finding.runs.len())));
    if let Some(path) = &args.report
        && let Err(why) = report::write(page(args, sweep, &table, &findings), path)
    {
        return search::environment("sweep", format, why);
    }
    let text = text(args, sweep, &table, &findings, runs, verdicts.len());
    let data = data(args, sweep, &table, &findings, runs, verdicts.len());
    let envelope = match (whole, findings.len()) {
        (false, _) => {
            let message = format!("interrupted after {} of {runs} points, {} found", verdicts.len(), findings.len());
            Envelope::failed("sweep", Exit::Interrupted, Failure::new("interrupted", message)).with_data(data)
        }
        (true, 0) => Envelope::passed("sweep", data),
        (true, n) => {
            let failure = Failure::new("found", format!("{n} found")).action(match &args.out {
                Some(folder) => format!("`mooring run` each file in {} with the seed that it names", folder.display()),
                None => "sweep again with --out FOLDER, which writes a scenario file for each".to_owned(),
            });
            Envelope::failed("sweep", Exit::Failed, failure).with_data(data)
        }
    };
    output::finish(format, &envelope, &text, Style::stderr()).into()
}

/// Report page: the table, and the first run of each finding; the unbroken run if there is none.
fn page(args: &Args, sweep: &Sweep, table: &Table, findings: &[Finding<'_>]) -> Page {
    let flags = search::flags(args.seed, &args.how.mutant);
    let limit = args.how.timeout.0;
    let mut page = Page {
        title: format!("sweep of {}", sweep_name(sweep.document())),
        command: format!("mooring sweep {} {flags}", args.scenario.display()),
        table: Some(report::table(table)),
        ..Page::default()
    };
    for (id, count) in &table.declared {
        page.notes.push(format!("Declared: {id} in {count} runs."));
    }
    for Finding { verdict, runs, file } in findings.iter().take(RUNS) {
        let broken = runs.first().copied().flatten();
        let document = sweep.broken(broken.unwrap_or(usize::MAX));
        let ends = (verdict.class == Class::EndDiffers).then(|| sweep.unbroken.ends.clone());
        let task = Task { ends, ..task_of_sweep(sweep, broken) };
        let name = broken.map_or_else(|| "the unbroken run".to_owned(), |run| sweep.about(run));
        let mut run = report::run(&name, &task, verdict, limit);
        (run.commands, run.file) =
            (report::commands(file.as_deref(), &flags), report::file(file.as_deref(), &document.text()));
        page.runs.push(run);
    }
    if findings.len() > RUNS {
        page.notes.push(format!("{} more findings are not shown.", findings.len() - RUNS));
    }
    if findings.is_empty() {
        page.runs.push(report::run("the unbroken run", &task_of_sweep(sweep, None), &sweep.unbroken, limit));
    }
    page
}

fn task_of_sweep(sweep: &Sweep, run: Option<usize>) -> Task {
    sweep.task(run.unwrap_or(usize::MAX))
}

/// Writes the first run of a finding as a file.
fn keep(
    args: &Args,
    folder: &std::path::Path,
    sweep: &Sweep,
    runs: &[Option<usize>],
    verdict: &Verdict,
) -> Result<PathBuf, String> {
    let run = runs.first().copied().flatten();
    let document = sweep.broken(run.unwrap_or(usize::MAX));
    let flags = search::flags(args.seed, &args.how.mutant);
    let notes = vec![
        format!("Found by `mooring sweep {} {flags}`.", args.scenario.display()),
        format!("What breaks: {}", run.map_or_else(|| "nothing".to_owned(), |run| sweep.about(run))),
        format!("{}: {}", verdict.class.word(), verdict.message),
        match verdict.class {
            Class::EndDiffers => {
                "`mooring sweep` compares where runs end; `mooring run` passes with this file.".to_owned()
            }
            _ => format!("`mooring run FILE {flags}` fails with it."),
        },
    ];
    let name = search::file_name(&verdict.signature, run.map_or(0, |run| run as u64 + 1));
    let mut bundle = Bundle::new(document, args.seed, &args.how.mutant, verdict, notes);
    bundle.record.breaks = run.map(|run| sweep.faults(run)).unwrap_or_default();
    search::keep(bundle, folder, &name, args.how.timeout.0)
}

fn text(args: &Args, sweep: &Sweep, table: &Table, findings: &[Finding<'_>], runs: usize, ended: usize) -> String {
    let style = Style::stdout();
    let mut out = table.text();
    let mut notes = vec![format!("{} points in all", sweep.found)];
    if runs < sweep.found || args.pairs > 0 {
        notes.push(format!("{runs} chosen"));
    }
    if ended < runs {
        notes.push(format!("{} not run", runs - ended));
    }
    notes.push(format!("{} renewals of leases left alone", sweep.heartbeats));
    if sweep.left_out > 0 {
        notes.push(format!(
            "{} expectations about counts, durations and states in between were left out",
            sweep.left_out
        ));
    }
    if table.silent > 0 {
        notes.push(format!("{} runs in which a second fault did not fire", table.silent));
    }
    out += &format!("{}\n", style.paint(Tone::Faint, &notes.join(" · ")));
    for (id, count) in &table.declared {
        out += &format!("{} {id} in {count} runs\n", style.paint(Tone::Warning, "declared"));
    }
    for Finding { verdict, runs, file } in findings {
        out += &format!("\n{} {}\n", style.paint(Tone::Bad, verdict.class.word()), verdict.signature);
        for line in verdict.message.lines() {
            out += &format!("  {line}\n");
        }
        let count = if runs.len() == 1 { "1 run".to_owned() } else { format!("{} runs", runs.len()) };
        out += &format!("  {}\n", style.paint(Tone::Faint, &format!("in {count}:")));
        for run in runs.iter().take(NAMED) {
            let about = run.map_or_else(|| "the unbroken run".to_owned(), |run| sweep.about(run));
            out += &format!("    {about}\n");
        }
        if let Some(file) = file {
            let flags = search::flags(args.seed, &args.how.mutant);
            out += &format!("  {} mooring replay {} {flags}\n", style.paint(Tone::Faint, "again:"), file.display());
        }
    }
    out
}

fn data(args: &Args, sweep: &Sweep, table: &Table, findings: &[Finding<'_>], runs: usize, ended: usize) -> Value {
    let finding = |finding: &Finding<'_>| {
        let points = finding.runs.iter().map(|run| run.map(|run| sweep.about(run)));
        json!({
            "class": finding.verdict.class,
            "signature": finding.verdict.signature,
            "message": finding.verdict.message,
            "points": points.collect::<Vec<_>>(),
            "file": finding.file,
        })
    };
    json!({
        "scenario": args.scenario,
        "seed": args.seed,
        "mutants": args.how.mutant,
        "shard": args.shard,
        "points": sweep.found,
        "runs": runs,
        "ended": ended,
        "leasesLeftAlone": sweep.heartbeats,
        "demandsLeftOut": sweep.left_out,
        "table": table.data(),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}
