//! The rows of the catalogue: an operation, a moment, an effect; and the fault that each one is.

use std::time::Duration;

use harness::cluster::{ClusterSpec, names};
use serde_json::json;
use substrate::fault::catalogue::{Operation, Possible, Values};
use substrate::fault::{Fault, Kind, Moment, Plane, Span, When};

use crate::stories::{Story, all_stories};

/// The planes of operations that are met one by one; clocks are read, and told of once.
pub const PLANES: [Plane; 6] = [Plane::Ec2, Plane::K8s, Plane::Csi, Plane::Link, Plane::Disk, Plane::Process];
/// The name of the fault of a row.
pub const ROW: &str = "row";

/// One row of the catalogue.
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
    /// Its operation, in words.
    pub fn operation(&self) -> String {
        format!("{} {}", self.operation.plane.name(), self.operation.name)
    }

    /// All rows of the operations of these planes.
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

    /// Whether it lasts, and has no turns.
    pub fn lasts(&self) -> bool {
        matches!(self.possible.effect, Kind::Partition | Kind::PartitionOneWay | Kind::Skew)
    }

    /// Whether it changes something only if it goes on: from when on what is stale has changed, or until the power goes.
    pub fn goes_on(&self) -> bool {
        matches!(self.possible.effect, Kind::StaleRead | Kind::LoseUnsynced)
    }

    /// The fault of the row from `since` on, each time.
    pub fn fault_since(&self, since: u64) -> Fault {
        let mut fault = self.fault(1);
        let lasting = (self.operation.plane == Plane::K8s).then_some(Span(Duration::from_secs(10)));
        fault.when = When { after: Some(Span(Duration::from_millis(since))), lasting, ..When::default() };
        fault
    }

    /// The fault of the row at the `turn`th time.
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

    /// The stories that reach the operation at this moment, the one that does so first before the others.
    pub fn stories(&self) -> Vec<(&'static Story, u64)> {
        let key = (self.operation.plane, self.operation.name.to_owned(), self.at);
        let mut found: Vec<_> = all_stories()
            .iter()
            .filter_map(|story| story.reaches.get(&key).map(|(at, times)| (at, *times, story)))
            .collect();
        // The later stories are there for what goes on, and for what no other reaches.
        if !self.goes_on() && found.iter().any(|(.., story)| !story.is_long()) {
            found.retain(|(.., story)| !story.is_long());
        }
        found.sort_by_key(|(at, ..)| **at);
        found.into_iter().map(|(_, times, story)| (story, times)).collect()
    }
}
