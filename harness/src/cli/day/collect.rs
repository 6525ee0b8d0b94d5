//! `mooring collect`: writes the data for a bug report into one file.

use std::fs::File;
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Done;
use super::bundle::Bundle;
use super::client::Running;
use super::mask::{MASK, mask};
use super::state_directory::Which;
use super::timeline;
use crate::cli::doctor;
use crate::cli::refusal::{Refusal, lacking};
use crate::output::Style;
use crate::timeline::Timeline;

/// Arguments of `mooring collect`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    /// Path of the file; mooring-NAME.tar.gz if absent. An existing file is replaced.
    #[arg(long, value_name = "PATH")]
    to: Option<PathBuf>,
}

pub(super) fn main(args: &Args) -> Result<Done, Refusal> {
    let running = Running::at(args.which.place()?)?;
    let client = running.client()?;
    let path = args.to.clone().unwrap_or_else(|| PathBuf::from(format!("mooring-{}.tar.gz", running.place.name())));
    let events = timeline::events(&client)?;
    let mut trace = String::new();
    for event in &events {
        trace.push_str(&event.line().text());
        trace.push('\n');
    }
    let timeline = Timeline::build(&events);
    let timeline = timeline.render(Style::PLAIN, timeline.volumes.len());
    let (mut state, mut ready) = (client.get("/state")?, running.ready.clone());
    let mut faults =
        json!({ "faults": client.get("/faults")?["faults"], "crashes": client.get("/crashes")?["crashes"] });
    [&mut state, &mut ready, &mut faults].into_iter().for_each(mask);
    let record = running.place.record();
    let version = json!({
        "version": record.version, "started": record.started, "os": std::env::consts::OS,
        "architecture": std::env::consts::ARCH,
        "kernel": rustix::system::uname().release().to_string_lossy(),
    });
    let log = std::fs::read_to_string(running.place.log()).unwrap_or_default();
    let pretty = |value: &Value| substrate::encode::pretty(value);
    let files = [
        ("version.json", pretty(&version)),
        ("doctor.txt", doctor::report()),
        ("ready.json", pretty(&ready)),
        ("state.json", pretty(&state)),
        ("faults.json", pretty(&faults)),
        ("timeline.txt", timeline),
        ("trace.jsonl", trace),
        ("log.txt", log),
    ];
    let failed = |e: std::io::Error| lacking(format!("{}: {e}", path.display()));
    // Written atomically.
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let part = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    let root = format!("mooring-{}", running.place.name());
    let token = running.place.token();
    let mut bundle = Bundle::new(part.as_file().try_clone().map_err(failed)?, Timestamp::now().as_second());
    let mut names = Vec::new();
    for (name, text) in files {
        // The token could be in any text.
        let text = token.as_ref().map_or_else(|| text.clone(), |token| text.replace(token.reveal(), MASK));
        bundle.add(&format!("{root}/{name}"), text.as_bytes()).map_err(failed)?;
        names.push(name);
    }
    let file: File = bundle.finish().map_err(failed)?;
    file.sync_all().map_err(failed)?;
    part.persist(&path).map_err(|e| failed(e.error))?;
    let text = format!(
        "{}: {}\nSecrets are masked; look through it before you send it: tar xzf {}\n",
        path.display(),
        names.join(", "),
        path.display()
    );
    Ok(Done::new(json!({ "file": path, "holds": names }), text))
}
