//! `mooring state`: the whole state of a Mooring.

use serde_json::Value;

use super::Done;
use super::client::Running;
use super::state_directory::Which;
use crate::cli::refusal::Refusal;

/// Arguments of `mooring state`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
}

pub(super) fn main(args: &Args) -> Result<Done, Refusal> {
    let state: Value = Running::at(args.which.place()?)?.client()?.get("/state")?;
    let text = substrate::encode::pretty(&state);
    Ok(Done::new(state, text))
}
