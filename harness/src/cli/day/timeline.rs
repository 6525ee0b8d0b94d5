//! `mooring timeline`: the phases of the volumes of a Mooring that is up, by its trace.

use std::sync::Arc;

use serde_json::json;
use substrate::{Clock, Event, Level, Line, Trace};

use super::Done;
use super::client::{Client, Running};
use super::place::Which;
use crate::cli::refusal::{Refusal, lacking, next, usage};
use crate::output::Style;
use crate::scenario::object::{Kind, ObjectRef};
use crate::timeline::Timeline;

/// Arguments of `mooring timeline`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    /// The claim whose volume is shown, as in pvc/data or pvc/team-a/data; all volumes when absent.
    #[arg(value_name = "pvc/NAME")]
    claim: Option<ObjectRef>,
}

pub(super) fn main(args: &Args) -> Result<Done, Refusal> {
    if let Some(other) = args.claim.as_ref().filter(|claim| claim.kind != Kind::claim()) {
        return Err(usage(format!("{other} is no claim: write pvc/NAME, as in pvc/data")));
    }
    let running = Running::at(args.which.place()?)?;
    let mut timeline = Timeline::build(&events(&running.client()?)?);
    let all = timeline.volumes.len();
    if let Some(claim) = &args.claim {
        let key = claim.key();
        timeline.volumes.retain(|volume| volume.claim.as_deref() == Some(key.as_str()));
        if timeline.volumes.is_empty() {
            let refusal = usage(format!("{claim} is in no event that is still kept"));
            return Err(next(refusal, "`mooring timeline` shows all volumes"));
        }
    }
    let data = serde_json::to_value(&timeline).unwrap_or_default();
    if timeline.volumes.is_empty() {
        return Ok(Done::new(data, "there is no volume yet; a claim and a pod make one\n"));
    }
    let text = timeline.render(Style::stdout(), timeline.volumes.len());
    Ok(Done::new(json!({ "timeline": data, "volumes": all }), text))
}

/// The events of a Mooring that it still keeps, as they were recorded.
pub(super) fn events(client: &Client) -> Result<Vec<Arc<Event>>, Refusal> {
    let bytes = client.bytes(http::Method::GET, "/trace", None)?;
    let failed = |why: String| lacking(format!("the trace cannot be read: {why}"));
    let text = std::str::from_utf8(&bytes).map_err(|e| failed(e.to_string()))?;
    let (trace, kinds) = (empty(), crate::events::all());
    for line in text.lines() {
        let line: Line = serde_json::from_str(line).map_err(|e| failed(e.to_string()))?;
        trace.adopt(&kinds, line).map_err(|e| failed(e.to_string()))?;
    }
    Ok(trace.events())
}

/// A trace of nobody. Its clock is not read: events bring their times.
fn empty() -> Trace {
    Trace::new(Clock::live(), Level::Info)
}
