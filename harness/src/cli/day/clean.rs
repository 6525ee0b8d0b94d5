//! `mooring clean`: removes the files of killed Moorings and killed live runs.

use serde_json::json;

use super::Done;
use super::state_directory::{self, State};
use crate::cli::refusal::Refusal;
use crate::cluster::live;

/// Arguments of `mooring clean`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {}

pub(super) fn main(_: &Args) -> Result<Done, Refusal> {
    let (mut removed, mut warnings) = (Vec::new(), Vec::new());
    for place in state_directory::all()? {
        if place.state() == Some(State::Killed) {
            match place.clean() {
                Ok(paths) => removed.extend(paths),
                // A Mooring that is just starting under this name clears it by itself.
                Err((_, failure)) => warnings.push(failure.message),
            }
        }
    }
    // Runs keep their directories in the temporary directory.
    let runs = live::sweep(&std::env::temp_dir()).into_iter();
    removed.extend(runs.map(|run| format!("{}, of a run that was killed", run.display())));
    let text = match removed.as_slice() {
        [] => "nothing was left behind\n".to_owned(),
        removed => removed.iter().map(|what| format!("removed {what}\n")).collect(),
    };
    Ok(Done { warnings, ..Done::new(json!({ "removed": removed }), text) })
}
