//! `mooring clean`: removes what killed Moorings left behind.

use serde_json::json;

use super::Done;
use super::place::{self, State};
use crate::cli::refusal::Refusal;

/// Arguments of `mooring clean`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {}

pub(super) fn main(_: &Args) -> Result<Done, Refusal> {
    let (mut removed, mut warnings) = (Vec::new(), Vec::new());
    for place in place::all()? {
        if place.state() == Some(State::Killed) {
            match place.clean() {
                Ok(paths) => removed.extend(paths),
                // One that begins just now clears by itself.
                Err((_, failure)) => warnings.push(failure.message),
            }
        }
    }
    let text = match removed.as_slice() {
        [] => "nothing was left behind\n".to_owned(),
        removed => removed.iter().map(|what| format!("removed {what}\n")).collect(),
    };
    Ok(Done { warnings, ..Done::new(json!({ "removed": removed }), text) })
}
