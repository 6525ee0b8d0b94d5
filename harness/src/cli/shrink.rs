//! `mooring shrink`: removes the parts of a finding that it does not need.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::search::{self, How, Which};
use crate::output::{self, Envelope, Exit, Failure, Format, Progress, Style, Tone};
use crate::search::bundle::{Bundle, Record};
use crate::search::document::Document;
use crate::search::judge::{Class, Task, Verdict};
use crate::search::shrink::{first_sound, shrink, size, unbroken};

/// Arguments of `mooring shrink`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
    /// Write the small file here, with its trace beside it. Default: print it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    how: How,
}

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    let usage = |wrong: search::Wrong| search::usage("shrink", format, wrong);
    let (document, _, mine) = match args.which.read(&args.how.mutant) {
        Ok(read) => read,
        Err(message) => return usage(message),
    };
    let first = match verdicts(args, &mine, std::slice::from_ref(&document), &mut |_| false) {
        Ok(mut all) => all.pop().flatten(),
        Err(Stopped::Trouble(why)) => return search::environment("shrink", format, why),
        Err(Stopped::User) => return interrupted(format),
    };
    if let Some(why) = first.as_ref().and_then(Verdict::never_fired) {
        return output::finish(format, &search::never_fired("shrink", why), "", Style::stderr()).into();
    }
    let Some(first) = first.filter(|verdict| verdict.class.is_finding()) else {
        let why = format!(
            "{}: it has no failure that is not declared, so there is nothing to shrink",
            args.which.file.display()
        );
        return usage(why.into());
    };
    let progress = if format == Format::Json { Progress::silent() } else { Progress::stderr() };
    let phase = progress.phase("shrink");
    let mut runs = 0;
    let mut stopped = None;
    // A smaller scenario can fail in the same way only because a part is missing. Then it fails without faults, too.
    let passes = |twin: &Document| {
        let twin = verdicts(args, &mine, std::slice::from_ref(twin), &mut |_| false)?;
        Ok(twin.iter().flatten().all(|verdict| !verdict.class.is_finding()))
    };
    let has_twin = match passes(&unbroken(&document)) {
        Ok(passes) => passes && first.class != Class::EndDiffers,
        Err(Stopped::Trouble(why)) => return search::environment("shrink", format, why),
        Err(Stopped::User) => return interrupted(format),
    };
    let same = |verdict: &Verdict| verdict.signature == first.signature;
    let shown = |candidates: &[Document]| {
        let all = verdicts(args, &mine, candidates, &mut |verdict| same(verdict))?;
        Ok(all.iter().position(|verdict| verdict.as_ref().is_some_and(same)))
    };
    let mut shows = |candidates: &[Document]| {
        runs += candidates.len();
        phase.update(&format!("{runs} candidates"));
        first_sound(candidates, shown, |twin| if has_twin { passes(twin) } else { Ok(true) }).map_err(|why| {
            stopped = Some(why);
            "stopped".to_owned()
        })
    };
    let small = shrink(&document, &mut shows);
    let small = match (small, stopped) {
        (Ok(small), _) => small,
        (Err(_), Some(Stopped::Trouble(why))) => return search::environment("shrink", format, why),
        (Err(_), _) => return interrupted(format),
    };
    phase.done(&format!("{} items of {}", size(&small), size(&document)));
    let flags = search::flags(mine.seed, &mine.mutants);
    let notes = vec![
        format!("{}: {}", first.class.word(), first.message),
        match first.class {
            Class::EndDiffers => format!("`mooring replay FILE {flags}` shows where it ends."),
            _ => format!("`mooring run FILE {flags}` fails with it."),
        },
    ];
    let mut bundle = Bundle::new(small.clone(), mine.seed, &mine.mutants, &first, notes);
    bundle.record.breaks.clone_from(&mine.breaks);
    let data = json!({
        "signature": first.signature,
        "before": size(&document),
        "after": size(&small),
        "candidates": runs,
        "file": args.out,
        "scenario": small.tree(),
    });
    let mut text = String::new();
    match &args.out {
        Some(out) => {
            let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
            let name = out.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let folder = folder.map_or_else(|| PathBuf::from("."), std::path::Path::to_owned);
            match search::keep(bundle, &folder, &name, args.how.timeout.0) {
                Ok(path) => text += &format!("{} {}\n", Style::stdout().paint(Tone::Good, "✓"), path.display()),
                Err(why) => return search::environment("shrink", format, format!("--out {why}")),
            }
        }
        None => text += &bundle.text(),
    }
    output::finish(format, &Envelope::passed("shrink", data), &text, Style::stderr()).into()
}

fn interrupted(format: Format) -> ExitCode {
    let envelope = Envelope::failed("shrink", Exit::Interrupted, Failure::new("interrupted", "interrupted"));
    output::finish(format, &envelope, "", Style::stderr()).into()
}

/// Reason for which there are no verdicts.
enum Stopped {
    User,
    Trouble(String),
}

/// Verdicts of the runs of documents, in their order, up to the first that is `enough`; later ones may be missing.
fn verdicts(
    args: &Args,
    record: &Record,
    documents: &[Document],
    enough: &mut dyn FnMut(&Verdict) -> bool,
) -> Result<Vec<Option<Verdict>>, Stopped> {
    let task = |document: &Document| Task {
        text: document.text(),
        seed: record.seed,
        mutants: record.mutants.clone(),
        ends: None,
        report_coverage: false,
        report_ends: record.class == Class::EndDiffers,
    };
    let tasks: Vec<Task> = documents.iter().map(task).collect();
    // The expected end state is that of the same document without its faults.
    let tasks = match record.class {
        Class::EndDiffers => {
            let unbroken: Vec<Task> =
                documents.iter().map(|document| task(&document.clone().without_faults(&record.breaks))).collect();
            let ends = in_order(args, unbroken, &mut |_| false)?;
            let with = |(task, usual): (Task, Option<Verdict>)| Task { ends: usual.map(|v| v.ends), ..task };
            tasks.into_iter().zip(ends).map(with).collect()
        }
        _ => tasks,
    };
    in_order(args, tasks, enough)
}

fn in_order(
    args: &Args,
    tasks: Vec<Task>,
    enough: &mut dyn FnMut(&Verdict) -> bool,
) -> Result<Vec<Option<Verdict>>, Stopped> {
    let mut all: Vec<Option<Verdict>> = vec![None; tasks.len()];
    let work = move |run: usize| tasks.get(run).cloned();
    let whole = search::carry_out(args.how.settings(), Box::new(work), |run, verdict| {
        all[run] = Some(verdict);
        // The first match is known once all runs before it have ended.
        let known = all.iter().take_while(|verdict| verdict.is_some()).flatten();
        !known.into_iter().any(&mut *enough)
    });
    match whole {
        Ok(true) => Ok(all),
        Ok(false) => Err(Stopped::User),
        Err(why) => Err(Stopped::Trouble(why)),
    }
}
