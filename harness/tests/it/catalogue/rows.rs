//! The rows of the catalogue, each an operation, a moment and an effect, and the fault for each.

use std::time::Duration;

use harness::cluster::{ClusterSpec, names};
use serde_json::json;
use substrate::fault::catalogue::{Operation, Possible, Values};
use substrate::fault::{Fault, Kind, Moment, Plane, Span, When};

use crate::catalogue::scenario_runs::{ScenarioRun, all_scenario_runs};

/// Planes whose operations are matched one by one. A clock is only read, and fires once.
pub const PLANES: [Plane; 6] = [Plane::Ec2, Plane::K8s, Plane::Csi, Plane::Link, Plane::Disk, Plane::Process];
/// Name of the fault of a row.
pub const ROW: &str = "row";

/// A row of the catalogue.
#[derive(Clone, Copy)]
pub struct Row {
    pub operation: &'static Operation,
    pub possible: Possible,
    pub at: Moment,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Operation { plane, name, .. } = self.operation;
        write!(f, "{} {name} {} {}", plane.name(), self.possible.effect.name(), self.at.name())
    }
}

impl Row {
    /// Formats its operation.
    pub fn operation(&self) -> String {
        format!("{} {}", self.operation.plane.name(), self.operation.name)
    }

    /// Returns all rows of the operations of these planes.
    pub fn of(planes: &[Plane]) -> Vec<Self> {
        let catalogue = names::catalogue(&ClusterSpec::of_nodes(2));
        let operations = catalogue.operations().filter(|o| planes.contains(&o.plane));
        let rows = operations.flat_map(|operation| {
            let possible: Vec<Possible> = operation.possible().collect();
            possible
                .into_iter()
                .flat_map(move |possible| possible.at.iter().map(move |at| Self { operation, possible, at: *at }))
        });
        rows.collect()
    }

    /// Returns true if the fault lasts, and has no occurrences.
    pub fn lasts(&self) -> bool {
        matches!(self.possible.effect, Kind::Partition | Kind::PartitionOneWay | Kind::Skew)
    }

    /// Returns true if the effect shows only when it continues: until stale objects have changed, or until a power
    /// loss.
    pub fn goes_on(&self) -> bool {
        matches!(self.possible.effect, Kind::StaleRead | Kind::LoseUnsynced)
    }

    /// Returns the fault of the row from `since` on, at each occurrence.
    pub fn fault_since(&self, since: u64) -> Fault {
        let mut fault = self.fault(1);
        let lasting = (self.operation.plane == Plane::K8s).then_some(Span(Duration::from_secs(10)));
        fault.when = When { after: Some(Span(Duration::from_millis(since))), lasting, ..When::default() };
        fault
    }

    /// Returns the fault of the row at the `turn`th occurrence.
    pub fn fault(&self, turn: u64) -> Fault {
        let name = self.operation.name;
        let value = match self.possible.values {
            Values::Flag => json!(true),
            // A kubelet waits a second for the registrar.
            Values::Span if ["GetInfo", "NotifyRegistrationStatus"].contains(&name) => json!("400ms"),
            Values::Span => json!("7s"),
            Values::Number { least, .. } if self.possible.effect == Kind::Duplicate => json!(least),
            Values::Number { least, most } if self.possible.effect == Kind::StaleRead => {
                json!((least + 19).min(most))
            }
            Values::Number { least, most } => json!(least.midpoint(most)),
            Values::OneOf(words) | Values::Folded(words) => json!(words[name.len() % words.len()]),
            Values::Text | Values::Code(_) => json!("SomeWord"),
            Values::Process => json!("self"),
            Values::Node => json!("node-a"),
            Values::Ends => json!(["node-a", "apiserver"]),
            Values::Skew => json!("+1h"),
        };
        let mut fault = json!({
            "name": ROW,
            "match": { "plane": self.operation.plane, "op": name },
            "effect": { (self.possible.effect.name()): value },
            "at": self.at,
        });
        match (self.lasts(), turn) {
            (true, _) => {}
            (false, 1) => fault["when"] = json!({ "first": 1 }),
            (false, nth) => fault["when"] = json!({ "nth": nth }),
        }
        serde_json::from_value(fault).unwrap()
    }

    /// Returns the scenarios that reach the operation at this moment and how often they do, ordered by when they reach
    /// it first.
    pub fn scenario_runs(&self) -> Vec<(&'static ScenarioRun, u64)> {
        let key = (self.operation.plane, self.operation.name.to_owned(), self.at);
        let mut found: Vec<_> = all_scenario_runs()
            .iter()
            .filter_map(|scenario_run| scenario_run.reaches.get(&key).map(|(at, times)| (at, *times, scenario_run)))
            .collect();
        // Long scenarios are only for lasting effects, and for operations that no other scenario reaches.
        if !self.goes_on() && found.iter().any(|(.., scenario_run)| !scenario_run.is_long()) {
            found.retain(|(.., scenario_run)| !scenario_run.is_long());
        }
        found.sort_by_key(|(at, ..)| **at);
        found.into_iter().map(|(_, times, scenario_run)| (scenario_run, times)).collect()
    }
}
