//! `mooring explore`: drawn clusters, workloads and faults.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use substrate::fault::Span;

use super::report;
use super::search::{self, How};
use crate::mutants;
use crate::output::{self, Envelope, Exit, Failure, Format, Progress, Style, Tone, took};
use crate::report_html::{Page, RUNS as SHOWN, Table};
use crate::search::bundle::Bundle;
use crate::search::explore::{Finding, Found, Plan};
use crate::search::judge::{Class, Task, Verdict};
use crate::search::shard::Shard;
use crate::search::workers::Since;

const WHAT: &str = "What is explored";

/// Arguments of `mooring explore`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// What all draws come from.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = WHAT)]
    seed: u64,
    /// So many runs; 100 when neither this nor --time is there. With --mutants, at most so many for each.
    #[arg(long, value_name = "N", help_heading = WHAT, value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Begin no more runs after this time.
    #[arg(long, value_name = "DURATION", conflicts_with = "mutants", help_heading = WHAT)]
    time: Option<Span>,
    /// Only the k-th of n parts of the runs; the others are somebody else's.
    #[arg(long, value_name = "K/N", default_value_t, help_heading = WHAT)]
    shard: Shard,
    /// Switch on each planted defect, one after the other, and print how many runs it takes to find it: for builds with
    /// the feature `mutants`.
    #[arg(long, hide = !cfg!(feature = "mutants"), conflicts_with_all = ["mutant", "out", "shard"], help_heading = WHAT)]
    mutants: bool,
    /// Write a scenario file for each finding, with its trace, into this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Write a report to this file: one page with a run of each finding, for a browser.
    #[arg(long, value_name = "FILE", conflicts_with = "mutants")]
    report: Option<PathBuf>,
    #[command(flatten)]
    how: How,
}

/// Runs where nobody says how many.
const RUNS: u32 = 100;

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    if let Err(message) = mutants::check(&args.how.mutant) {
        return search::usage("explore", format, message);
    }
    if args.mutants {
        return table(args, format);
    }
    let plan = Plan { seed: args.seed, mutants: args.how.mutant.clone(), shard: args.shard };
    let most = match (args.runs, args.time) {
        (Some(runs), _) => runs as usize,
        (None, Some(_)) => usize::MAX,
        (None, None) => RUNS as usize,
    };
    let progress = if format == Format::Json { Progress::silent() } else { Progress::stderr() };
    let phase = progress.phase("explore");
    let (since, limit) = (Since::now(), args.time.map(|time| time.0));
    let mut found = Found::default();
    let work = {
        let plan = plan.clone();
        move |at: usize| (at < most && limit.is_none_or(|limit| since.elapsed() < limit)).then(|| plan.task(at))
    };
    let whole = search::carry_out(args.how.settings(), Box::new(work), |at, verdict| {
        found.take(at, verdict);
        let rate = found.runs as f64 / since.elapsed().as_secs_f64().max(1e-3);
        let hours = found.world_ms as f64 / 3.6e6;
        let bugs = found.findings.len();
        phase.update(&format!("{} runs, {rate:.1} per second, {hours:.1} simulated hours, {bugs} found", found.runs));
        true
    });
    let whole = match whole {
        Ok(whole) => whole,
        Err(why) => return search::environment("explore", format, why),
    };
    let wall = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let rate = found.runs as f64 / since.elapsed().as_secs_f64().max(1e-3);
    phase.done(&format!("{} runs in {}, {rate:.1} runs per second", found.runs, took(wall)));
    conclude(args, &plan, &found, whole, format)
}

fn conclude(args: &Args, plan: &Plan, found: &Found, whole: bool, format: Format) -> ExitCode {
    let style = Style::stdout();
    let mut text = String::new();
    for (class, runs) in &found.classes {
        text += &format!("{:<14}{runs:>8}\n", class.word());
    }
    for (id, runs) in &found.declared {
        text += &format!("{} {id} in {runs} runs\n", style.paint(Tone::Warning, "declared"));
    }
    let mut files = Vec::new();
    for finding in found.ordered() {
        let number = plan.number(finding.at);
        let verdict = &finding.verdict;
        text += &format!("\n{} {}\n", style.paint(Tone::Bad, verdict.class.word()), verdict.signature);
        text += &verdict.message.lines().map(|line| format!("  {line}\n")).collect::<String>();
        let runs = if finding.runs == 1 { "1 run".to_owned() } else { format!("{} runs", finding.runs) };
        text += &format!("  {}\n", style.paint(Tone::Faint, &format!("in {runs}, first in number {number}")));
        if let Some(folder) = &args.out {
            match keep(args, plan, folder, finding) {
                Ok(file) => {
                    let again = style.paint(Tone::Faint, "again:");
                    text += &format!("  {again} mooring replay {}\n", file.display());
                    files.push(file);
                }
                Err(why) => return search::environment("explore", format, format!("--out {why}")),
            }
        }
    }
    if let Some(path) = &args.report
        && let Err(why) = report::write(page(args, plan, found, &files), path)
    {
        return search::environment("explore", format, why);
    }
    let data = found.data(plan);
    let envelope = match (whole, found.findings.len()) {
        (false, bugs) => {
            let message = format!("interrupted after {} runs, {bugs} found", found.runs);
            Envelope::failed("explore", Exit::Interrupted, Failure::new("interrupted", message)).with_data(data)
        }
        (true, 0) => Envelope::passed("explore", data),
        (true, bugs) => {
            let failure = Failure::new("found", format!("{bugs} found")).action(match &args.out {
                Some(_) => "`mooring shrink FILE` makes a finding as small as it can be".to_owned(),
                None => "explore again with --out FOLDER, which writes a scenario file for each".to_owned(),
            });
            Envelope::failed("explore", Exit::Failed, failure).with_data(data)
        }
    };
    output::finish(format, &envelope, &text, Style::stderr()).into()
}

/// The report: what the runs came to, and the first run of each finding, whose files are `files` where they were written.
fn page(args: &Args, plan: &Plan, found: &Found, files: &[PathBuf]) -> Page {
    let total = ["all".to_owned(), found.runs.to_string()];
    let rows = found.classes.iter().map(|(class, runs)| vec![class.word().to_owned(), runs.to_string()]);
    let mut page = Page {
        title: format!("exploration, seed {}", plan.seed),
        command: format!("mooring explore --seed {} --runs {}", plan.seed, found.runs),
        table: Some(Table {
            columns: ["what became of it".to_owned(), "runs".to_owned()].into(),
            rows: rows.chain([total.into()]).collect(),
        }),
        notes: found.declared.iter().map(|(id, runs)| format!("Declared: {id} in {runs} runs.")).collect(),
        ..Page::default()
    };
    for (at, finding) in found.ordered().into_iter().enumerate() {
        if at == SHOWN {
            page.notes.push(format!("{} more findings are not shown.", found.findings.len() - SHOWN));
            break;
        }
        let flags = search::flags(plan.number(finding.at), &plan.mutants);
        let task = plan.task(finding.at);
        let file = files.get(at).map(PathBuf::as_path);
        let mut run = report::run(&finding.verdict.signature, &task, &finding.verdict, args.how.timeout.0);
        (run.commands, run.file) = (report::commands(file, &flags), report::file(file, &task.text));
        page.runs.push(run);
    }
    page
}

/// Writes the first run of a finding as a file.
fn keep(args: &Args, plan: &Plan, folder: &std::path::Path, finding: &Finding) -> Result<PathBuf, String> {
    let (number, verdict) = (plan.number(finding.at), &finding.verdict);
    let flags = search::flags(number, &plan.mutants);
    let notes = vec![
        format!("Found by `mooring explore --seed {}`, number {number}.", plan.seed),
        format!("{}: {}", verdict.class.word(), verdict.message),
        format!("`mooring run FILE {flags}` fails with it."),
    ];
    let bundle = Bundle::new(plan.document(finding.at), number, &plan.mutants, verdict, notes);
    search::keep(bundle, folder, &search::file_name(&verdict.signature), args.how.timeout.0)
}

/// How a planted defect was found.
struct Row {
    name: &'static str,
    /// The run that shows it, from 1, and what that came to.
    found: Option<(usize, Verdict)>,
    wall_ms: u64,
}

/// Switches on each planted defect.
fn table(args: &Args, format: Format) -> ExitCode {
    let all = mutants::all();
    if all.is_empty() {
        let message = "--mutants: this build has no planted defects; build it with `--features mutants`";
        return search::usage("explore", format, message);
    }
    let most = args.runs.unwrap_or(RUNS) as usize;
    let progress = if format == Format::Json { Progress::silent() } else { Progress::stderr() };
    let phase = progress.phase("explore planted defects");
    let mut rows = Vec::new();
    let mut whole = true;
    for mutant in &all {
        phase.update(&format!("{} of {}: {}", rows.len() + 1, all.len(), mutant.name));
        let plan = Plan { seed: args.seed, mutants: vec![mutant.name.to_owned()], shard: Shard::default() };
        let since = Since::now();
        match first(args, &plan, most) {
            Ok(Some(found)) => {
                let wall_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                rows.push(Row { name: mutant.name, found, wall_ms });
            }
            Ok(None) => {
                whole = false;
                break;
            }
            Err(why) => return search::environment("explore", format, why),
        }
    }
    phase.done(&format!("{} planted defects", rows.len()));
    let mut text = format!("{:<30}{:>6}{:>10}  {}\n", "planted defect", "runs", "took", "seen as");
    for Row { name, found, wall_ms } in &rows {
        text += &match found {
            Some((runs, verdict)) => format!("{name:<30}{runs:>6}{:>10}  {}\n", took(*wall_ms), verdict.signature),
            None => format!("{name:<30}{:>6}{:>10}  not in {most} runs\n", "·", took(*wall_ms)),
        };
    }
    let missed: Vec<&str> = rows.iter().filter(|row| row.found.is_none()).map(|row| row.name).collect();
    text += &format!("{} of {} found\n", rows.len() - missed.len(), rows.len());
    let row = |row: &Row| {
        json!({
            "mutant": row.name,
            "runs": row.found.as_ref().map(|(runs, _)| runs),
            "class": row.found.as_ref().map(|(_, verdict)| verdict.class),
            "signature": row.found.as_ref().map(|(_, verdict)| &verdict.signature),
        })
    };
    let data = json!({ "seed": args.seed, "most": most, "rows": rows.iter().map(row).collect::<Vec<_>>() });
    let envelope = if !whole {
        Envelope::failed("explore", Exit::Interrupted, Failure::new("interrupted", "interrupted")).with_data(data)
    } else if missed.is_empty() {
        Envelope::passed("explore", data)
    } else {
        let message = format!("{} planted defects were not found: {}", missed.len(), missed.join(", "));
        let failure = Failure::new("not-found", message).action("give it more --runs");
        Envelope::failed("explore", Exit::Failed, failure).with_data(data)
    };
    output::finish(format, &envelope, &text, Style::stderr()).into()
}

/// The first of `most` runs that a planted defect spoils: without it the same run comes to something else. Gives nothing
/// when the user ended it.
fn first(args: &Args, plan: &Plan, most: usize) -> Result<Option<Option<(usize, Verdict)>>, String> {
    let mut from = 0;
    while from < most {
        // So many at a time that few are in vain.
        let many = (args.how.jobs() * 4).min(most - from);
        let tasks: Vec<Task> = (from..from + many).map(|at| plan.task(at)).collect();
        let without: Vec<Task> = tasks.iter().map(|task| Task { mutants: Vec::new(), ..task.clone() }).collect();
        let Some(wrong) = all(args, tasks)? else { return Ok(None) };
        if wrong.iter().any(|verdict| verdict.class.is_finding()) {
            let Some(right) = all(args, without)? else { return Ok(None) };
            let shows = |(wrong, right): &(&Verdict, &Verdict)| {
                wrong.class.is_finding() && wrong.class != Class::Unreadable && wrong.signature != right.signature
            };
            if let Some(at) = wrong.iter().zip(&right).position(|pair| shows(&pair)) {
                return Ok(Some(Some((from + at + 1, wrong[at].clone()))));
            }
        }
        from += many;
    }
    Ok(Some(None))
}

/// What all of some runs come to; nothing when the user ended them.
fn all(args: &Args, tasks: Vec<Task>) -> Result<Option<Vec<Verdict>>, String> {
    let mut verdicts: Vec<Option<Verdict>> = vec![None; tasks.len()];
    let work = move |at: usize| tasks.get(at).cloned();
    let whole = search::carry_out(args.how.settings(), Box::new(work), |at, verdict| {
        verdicts[at] = Some(verdict);
        true
    })?;
    Ok(whole.then(|| verdicts.into_iter().flatten().collect()))
}
