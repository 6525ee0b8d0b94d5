//! `mooring import`: makes the initial state of a scenario from a real cluster.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use super::refusal::{Refusal, usage};
use crate::import::{Imported, Input, MAX_BYTES, import};
use crate::output::{self, Envelope, Failure, Format, Style};
use crate::scenario;

/// Arguments of `mooring import`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Output files of `kubectl get -o yaml` or `-o json`, `aws ec2 describe-volumes` and `aws ec2 describe-instances`;
    /// - is standard input.
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
    /// Path of the scenario; standard output if absent.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// The name of the scenario.
    #[arg(long, default_value = "imported", value_name = "NAME")]
    name: String,
    /// Replace names of nodes, namespaces and objects, ids, account numbers and addresses; leave out images, and labels
    /// and annotations that neither Kubernetes nor the driver reads.
    #[arg(long)]
    anonymise: bool,
}

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    match run(args, format) {
        Ok(()) => ExitCode::SUCCESS,
        Err((exit, failure)) => {
            output::finish(format, &Envelope::failed("import", exit, failure), "", Style::stderr()).into()
        }
    }
}

fn run(args: &Args, format: Format) -> Result<(), Refusal> {
    let inputs: Vec<Input> = args.files.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let imported = import(&args.name, &inputs, args.anonymise).map_err(|e| usage(e.to_string()))?;
    let Imported { scenario: text, notes, counts } = &imported;
    if text.len() > scenario::MAX_BYTES {
        let most = scenario::MAX_BYTES;
        let why = format!("the scenario would have {} bytes, and at most {most} are read", text.len());
        return Err((
            output::Exit::Usage,
            Failure::new("usage", why).action("import fewer objects, such as those of one namespace"),
        ));
    }
    // Validate the result: a file that cannot run is of no use, and the server has rules that import does not check.
    if let Err(mistakes) = scenario::parse_all("the scenario", text) {
        let why: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        return Err(usage(format!("the imported objects are not a valid start of a scenario:\n{}", why.join("\n"))));
    }
    if let Some(path) = &args.out {
        std::fs::write(path, text).map_err(|e| usage(format!("--out {}: {e}", path.display())))?;
    }
    if format == Format::Json {
        let mut data = json!({ "counts": counts, "notes": notes });
        match &args.out {
            Some(path) => data["out"] = path.display().to_string().into(),
            None => data["scenario"] = text.as_str().into(),
        }
        print(&Envelope::passed("import", data).line());
        return Ok(());
    }
    for note in notes {
        eprintln!("{note}");
    }
    let into = args.out.as_ref().map(|path| format!(" into {}", path.display())).unwrap_or_default();
    let (nodes, objects, volumes) = (counts.nodes, counts.objects, counts.volumes);
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let (nodes, objects, volumes) = (count(nodes, "node"), count(objects, "object"), count(volumes, "volume"));
    eprintln!("imported {nodes}, {objects} and {volumes}{into}");
    if args.out.is_none() {
        print(text);
    }
    Ok(())
}

/// Prints to standard output.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    // A closed pipe is fine.
    let _ = write!(out, "{text}{end}").and_then(|()| out.flush());
}

fn read(path: &Path) -> Result<Input, Refusal> {
    let is_standard = path.as_os_str() == "-";
    let name = if is_standard { "standard input".to_owned() } else { path.display().to_string() };
    let unreadable = |e: std::io::Error| usage(format!("{name}: {e}"));
    let mut bytes = Vec::new();
    let limit = MAX_BYTES as u64 + 1;
    if is_standard {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
    } else {
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
    }
    let text = String::from_utf8(bytes).map_err(|e| usage(format!("{name}: it is not UTF-8 text: {e}")))?;
    Ok(Input { name, text })
}
