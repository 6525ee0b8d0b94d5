//! `mooring reset`: resets a Mooring at the same addresses.

use http::Method;
use serde_json::json;
use substrate::fault::Span;

use super::Done;
use super::client::Running;
use super::state_directory::Which;
use super::wait;
use crate::cli::refusal::Refusal;

/// Arguments of `mooring reset`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    /// Time limit for the nodes to be Ready again.
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    timeout: Span,
}

pub(super) fn main(args: &Args) -> Result<Done, Refusal> {
    let running = Running::at(args.which.place()?)?;
    running.client()?.json(Method::POST, "/reset", Some(&json!({})))?;
    wait::nodes(&running, args.timeout.0)?;
    Ok(Done::new(json!({ "name": running.place.name() }), format!("{} was reset\n", running.place.name())))
}
