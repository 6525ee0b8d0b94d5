//! The state as a scenario file.

use serde_json::{Value, json};

use super::state::State;
use crate::search;

/// Returns the scenario called `name`.
pub(super) fn scenario(name: &str, state: &State) -> String {
    let State { nodes, zones, volumes, objects } = state;
    let document = json!({
        "name": name,
        "description": "The state of a cluster, imported.",
        "nodes": nodes,
        "zones": zones,
        "teardown": false,
        "begin": { "volumes": volumes, "objects": objects },
        "steps": [Value::from_iter([("sleep", "1m")])],
    });
    let head = "# Made by `mooring import`. Add faults and steps, and run it: mooring run FILE.\n";
    format!("{head}{}", search::yaml::write(&document))
}
