//! `mooring ls`: lists the Moorings of this user.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Done;
use super::state_directory::{self, State};
use super::table::table;
use crate::cli::refusal::Refusal;

/// Arguments of `mooring ls`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {}

pub(super) fn main(_: &Args) -> Result<Done, Refusal> {
    let (mut rows, mut data, mut killed) = (Vec::new(), Vec::new(), false);
    for place in state_directory::all()? {
        // It may have ended since.
        let Some(state) = place.state() else { continue };
        let record = place.record();
        let ready = match &state {
            State::Up(ready) => ready.clone(),
            State::Starting | State::Killed => Value::Null,
        };
        killed |= state == State::Killed;
        let text = |key: &str| ready[key].as_str().unwrap_or("-").to_owned();
        let nodes = ready["nodes"].as_array().map_or_else(|| "-".to_owned(), |nodes| nodes.len().to_string());
        let row = [
            place.name().to_owned(),
            state.word().to_owned(),
            nodes,
            age(&record.started),
            record.pid.to_string(),
            text("kubernetes"),
            text("ec2"),
        ];
        rows.push(row.to_vec());
        data.push(json!({
            "name": place.name(), "status": state.word(), "pid": record.pid, "started": record.started,
            "directory": place.directory(), "ready": ready,
        }));
    }
    let mut text = match rows.is_empty() {
        true => "no Mooring is up; `mooring up --detach` starts one\n".to_owned(),
        false => table(&["NAME", "STATUS", "NODES", "AGE", "PID", "KUBERNETES", "CLOUD"], &rows),
    };
    if killed {
        text.push_str("\n`mooring clean` removes what killed ones left behind.\n");
    }
    Ok(Done::new(json!(data), text))
}

/// Formats the age of a time, as kubectl does.
pub(super) fn age(since: &str) -> String {
    let Ok(since) = since.parse::<Timestamp>() else { return "-".to_owned() };
    let seconds = Timestamp::now().duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
