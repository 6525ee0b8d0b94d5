//! `mooring explore`: drawn clusters, workloads and faults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use substrate::fault::Span;

use super::explore_mutants::Hunt;
use super::report;
use super::search::{self, How};
use crate::mutants;
use crate::output::{self, Envelope, Exit, Failure, Format, Progress, Style, Tone, took, wrapped};
use crate::report_html::{Page, RUNS as SHOWN, Table};
use crate::search::bundle::Bundle;
use crate::search::explore::{Finding, Found, Plan};
use crate::search::guide::{Guide, ROUND};
use crate::search::judge::{Class, Verdict};
use crate::search::shard::Shard;
use crate::search::workers::{Settings, Since};

const WHAT: &str = "What is explored";

/// Arguments of `mooring explore`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// The seed of all draws.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = WHAT)]
    seed: u64,
    /// The number of runs. Default: 100, or no limit with --time. With --mutants: the maximum for each, by default
    /// 2000.
    #[arg(long, value_name = "N", help_heading = WHAT, value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Start no more runs after this time.
    #[arg(long, value_name = "DURATION", conflicts_with = "mutants", help_heading = WHAT)]
    time: Option<Span>,
    /// Let every second run, from the 101st on, begin like an earlier one that reached something new, and go on
    /// otherwise. The runs depend on the seed and the part only.
    #[arg(long, conflicts_with = "mutants", help_heading = WHAT)]
    guided: bool,
    /// Do each run again in another process: a trace that is not the same byte for byte is a finding.
    #[arg(long, conflicts_with_all = ["mutants", "time"], help_heading = WHAT)]
    twice: bool,
    /// With --twice, use this `mooring` for the second time, such as a debug build beside a release.
    #[arg(long, value_name = "PROGRAM", requires = "twice", help_heading = WHAT)]
    by: Option<PathBuf>,
    /// Only the k-th of n parts of the runs; other machines do the others.
    #[arg(long, value_name = "K/N", default_value_t, help_heading = WHAT)]
    shard: Shard,
    /// Enable each planted defect, or each of --mutant, one after the other, and print the number of runs that find it:
    /// for builds with the feature `mutants`.
    #[arg(long, hide = !substrate::mutant::BUILT_IN, conflicts_with_all = ["out", "shard"], help_heading = WHAT)]
    mutants: bool,
    /// With --mutants, also shrink each finding, and print how many items are left.
    #[arg(long, hide = !substrate::mutant::BUILT_IN, requires = "mutants", help_heading = WHAT)]
    shrink: bool,
    /// Write a scenario file for each finding, with its trace, into this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Write a report to this file: one page with a run of each finding, for a browser.
    #[arg(long, value_name = "FILE", conflicts_with = "mutants")]
    report: Option<PathBuf>,
    #[command(flatten)]
    how: How,
}

/// Default number of runs.
const RUNS: u32 = 100;
/// Default number of runs for each planted defect.
const HUNT: u32 = 2000;

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    if let Err(message) = mutants::check(&args.how.mutant) {
        return search::usage("explore", format, message);
    }
    if args.mutants {
        let most = args.runs.unwrap_or(HUNT) as usize;
        let (only, how) = (&args.how.mutant[..], &args.how);
        return Hunt { seed: args.seed, most, shrinks: args.shrink, only, how }.table(format);
    }
    let (seed, mutants) = (args.seed, args.how.mutant.clone());
    let mut plan = Plan { seed, mutants, shard: args.shard, ..Plan::default() };
    let most = match (args.runs, args.time) {
        (Some(runs), _) => runs as usize,
        (None, Some(_)) => usize::MAX,
        (None, None) => RUNS as usize,
    };
    let progress = if format == Format::Json { Progress::silent() } else { Progress::stderr() };
    let phase = progress.phase("explore");
    let (since, limit) = (Since::now(), args.time.map(|time| time.0));
    let mut found = Found::default();
    let mut digests = BTreeMap::new();
    let mut guide = Guide::new(args.seed);
    let mut whole = true;
    let mut from = 0;
    while whole && from < most && limit.is_none_or(|limit| since.elapsed() < limit) {
        // Without a guide there is one round.
        let until = if args.guided { most.min(from + ROUND) } else { most };
        if args.guided {
            let guided = (from..until).filter(|at| at % 2 == 1);
            let guided = guided.filter_map(|at| Some((at, Arc::new(guide.run(plan.number(at))?))));
            plan.guided.extend(guided.collect::<Vec<_>>());
        }
        let work = {
            let plan = plan.clone();
            move |at: usize| {
                let at = from + at;
                (at < until && limit.is_none_or(|limit| since.elapsed() < limit)).then(|| plan.task(at))
            }
        };
        let round = search::carry_out(args.how.settings(), Box::new(work), |at, verdict| {
            let at = from + at;
            if args.twice {
                digests.insert(at, verdict.digest.clone());
            }
            if args.guided {
                guide.learn(plan.number(at), verdict.coverage.clone(), plan.beginning(at));
            }
            found.take(at, verdict);
            found.drew(plan.kinds(at));
            let rate = found.runs as f64 / since.elapsed().as_secs_f64().max(1e-3);
            let hours = found.world_ms as f64 / 3.6e6;
            let bugs = found.findings.len();
            let seen = found.coverage.text();
            let far = far(found.runs, args, since);
            phase.update(&format!("{far}, {bugs} found, {rate:.1} per second, {hours:.1} simulated hours · {seen}"));
            true
        });
        whole = match round {
            Ok(whole) => whole,
            Err(why) => return search::environment("explore", format, why),
        };
        guide.end_round();
        from = until;
    }
    let whole = match whole && args.twice {
        true => match again(args, &plan, &digests, &mut found) {
            Ok(whole) => whole,
            Err(why) => return search::environment("explore", format, why),
        },
        false => whole,
    };
    let wall = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let rate = found.runs as f64 / since.elapsed().as_secs_f64().max(1e-3);
    let wording = format!("{} in {}, {rate:.1} runs per second", far(found.runs, args, since), took(wall));
    if whole {
        phase.done(&wording)
    } else {
        phase.interrupted(&wording)
    }
    conclude(args, &plan, &found, whole, format)
}

/// Progress: `120 of 500 runs`, or `120 runs, 2m of 30m` if the time is limited.
fn far(runs: usize, args: &Args, since: Since) -> String {
    let most = args.runs.or(args.time.is_none().then_some(RUNS));
    let runs = most.map_or_else(|| format!("{runs} runs"), |most| format!("{runs} of {most} runs"));
    let time = args.time.map(|limit| format!(", {} of {limit}", Span(Duration::from_secs(since.elapsed().as_secs()))));
    format!("{runs}{}", time.unwrap_or_default())
}

/// Repeats all runs in new processes; returns false if the user ended it.
fn again(args: &Args, plan: &Plan, before: &BTreeMap<usize, String>, found: &mut Found) -> Result<bool, String> {
    let runs: Vec<usize> = before.keys().copied().collect();
    let work = {
        let (plan, runs) = (plan.clone(), runs.clone());
        move |at: usize| runs.get(at).map(|run| plan.task(*run))
    };
    let settings = Settings { program: args.by.clone(), ..args.how.settings() };
    search::carry_out(settings, Box::new(work), |at, verdict| {
        let run = runs[at];
        if before.get(&run) != Some(&verdict.digest) {
            let message = match &args.by {
                Some(program) => format!("the same run by {} has another trace", program.display()),
                None => "the same run in another process has another trace".to_owned(),
            };
            found.differs(run, Verdict::without_outcome(Class::Diverged, &message));
        }
        true
    })
}

fn conclude(args: &Args, plan: &Plan, found: &Found, whole: bool, format: Format) -> ExitCode {
    let style = Style::stdout();
    let mut text = String::new();
    for (class, runs) in &found.classes {
        text += &format!("{:<14}{runs:>8}\n", class.word());
    }
    text += &format!("{}\n", style.paint(Tone::Faint, &format!("seen: {}", found.coverage.text())));
    let mut drawn = found.kinds();
    if let Some(first) = drawn.first_mut() {
        first.insert_str(0, "drawn: ");
    }
    text += &format!("{}\n", style.paint(Tone::Faint, &wrapped(&drawn, style.limit())));
    for (id, runs) in &found.declared {
        text += &format!("{} {id} in {}\n", style.paint(Tone::Warning, "declared"), found.frequency(*runs));
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
            let most = args.runs.or(args.time.is_none().then_some(RUNS)).map(|most| format!(" of {most}"));
            let message = format!("interrupted after {}{} runs, {bugs} found", found.runs, most.unwrap_or_default());
            Envelope::failed("explore", Exit::Interrupted, Failure::new("interrupted", message)).with_data(data)
        }
        (true, 0) => Envelope::passed("explore", data),
        (true, bugs) => {
            let failure = Failure::new("found", format!("{bugs} found")).action(match &args.out {
                Some(_) => "`mooring shrink FILE` minimizes a finding".to_owned(),
                None => "explore again with --out FOLDER, which writes a scenario file for each".to_owned(),
            });
            Envelope::failed("explore", Exit::Failed, failure).with_data(data)
        }
    };
    output::finish(format, &envelope, &text, Style::stderr()).into()
}

/// Report page: the classes of the runs, and the first run of each finding. `files` are the files of the findings, if
/// they were written.
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
        notes: found
            .declared
            .iter()
            .map(|(id, runs)| format!("Declared: {id} in {}.", found.frequency(*runs)))
            .collect(),
        ..Page::default()
    };
    for (at, finding) in found.ordered().into_iter().enumerate() {
        if at == SHOWN {
            page.notes.push(format!("{} more findings are not shown.", found.findings.len() - SHOWN));
            break;
        }
        let flags = search::flags(plan.world_seed(finding.at), &plan.mutants);
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
    let (number, seed, verdict) = (plan.number(finding.at), plan.world_seed(finding.at), &finding.verdict);
    let flags = search::flags(seed, &plan.mutants);
    let guided = if args.guided { " --guided" } else { "" };
    let notes = vec![
        format!("Found by `mooring explore --seed {}{guided}`, number {number}.", plan.seed),
        format!("{}: {}", verdict.class.word(), verdict.message),
        format!("`mooring run FILE {flags}` fails with it."),
    ];
    let bundle = Bundle::new(plan.document(finding.at), seed, &plan.mutants, verdict, notes);
    search::keep(bundle, folder, &search::file_name(&verdict.signature, number), args.how.timeout.0)
}
