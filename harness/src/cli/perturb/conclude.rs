//! The end of the command: output, files, and the exit code.

use std::path::Path;
use std::process::ExitCode;

use super::args::Args;
use super::data;
use crate::cli::search;
use crate::output::{self, Envelope, Exit, Failure, Format, Style, junit};
use crate::perturb::baseline::Baseline;
use crate::perturb::campaign::Campaign;
use crate::perturb::page;
use crate::perturb::report::{self, About};

pub(super) fn finish(
    args: &Args,
    campaign: &Campaign,
    about: &About,
    baseline: &Baseline,
    whole: bool,
    format: Format,
) -> ExitCode {
    if args.list {
        return list(campaign, about, format);
    }
    let data = data(campaign, about);
    let written = [
        write(args.json.as_deref(), "--json", || format!("{data:#}\n")),
        write(args.junit.as_deref(), "--junit", || junit::render(&report::suites(campaign, about))),
        write(args.report.as_deref(), "--report", || page::html(campaign, about)),
        write(args.write_baseline.as_deref(), "--write-baseline", || baseline.write(&campaign.signatures())),
    ];
    if let Some(why) = written.into_iter().find_map(Result::err) {
        return search::environment("perturb", format, why);
    }
    let (ended, planned, failing) = (campaign.verdicts.len(), campaign.trials.len(), campaign.failing());
    let envelope = if !whole {
        let message =
            format!("interrupted after {ended} of {planned} trials, {failing} found; everything was taken down");
        Envelope::failed("perturb", Exit::Interrupted, Failure::new("interrupted", message)).with_data(data)
    } else if planned == 0 {
        let failure = Failure::new("nothing-to-try", "the program makes no call that these perturbations are for")
            .action("look at its calls with --list, and leave out --only and --at");
        Envelope::failed("perturb", Exit::Usage, failure).with_data(data)
    } else if failing == 0 {
        Envelope::passed("perturb", data)
    } else {
        let failure = Failure::new("found", format!("{failing} found")).action(match &args.out {
            Some(folder) => format!("the files in {} repeat them", folder.display()),
            None => "perturb again with --out FOLDER, which writes a scenario file for each".to_owned(),
        });
        Envelope::failed("perturb", Exit::Failed, failure).with_data(data)
    };
    output::finish(format, &envelope, &report::text(campaign, about), Style::stderr()).into()
}

/// Prints the calls and their perturbations.
fn list(campaign: &Campaign, about: &About, format: Format) -> ExitCode {
    let mut text = String::new();
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    for trial in &campaign.trials {
        let name = trial.call.to_string();
        match rows.iter_mut().find(|(row, _)| *row == name) {
            Some((_, kinds)) => kinds.push(trial.kind.word()),
            None => rows.push((name, vec![trial.kind.word()])),
        }
    }
    for (name, kinds) in rows {
        text += &format!("{name}\n  {}\n", kinds.join(", "));
    }
    text += &format!("{} trials\n", campaign.trials.len());
    text += &report::varying(campaign);
    output::finish(format, &Envelope::passed("perturb", data(campaign, about)), &text, Style::stderr()).into()
}

fn write(path: Option<&Path>, flag: &str, text: impl FnOnce() -> String) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, text()).map_err(|e| format!("{flag} {}: {e}", path.display()))
}
