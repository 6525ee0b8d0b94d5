//! Coverage of runs: points of the fault catalogue that fired, transitions of state machines, and errors that
//! components met. It measures how much a search has reached and gives no verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controllers::events::EventRecorded;
use controllers::node_agent::events::OperationFailed;
use csi_mock::events::CsiDone;
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use mock_ec2::events::{AttachmentChanged, InstanceChanged, ModificationChanged, VolumeChanged};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use substrate::Event;
use substrate::events::FaultFired;

use crate::scenario::Scenario;
use crate::spec::names::OPERATIONS;

/// Names of everything that was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Points of the catalogue: plane, operation, effect and moment.
    pub points: BTreeSet<String>,
    /// State transitions: kind of object, previous state, next state.
    pub steps: BTreeSet<String>,
    /// Errors: of the driver by call and code, of kubelet by operation, of components by the reason of their Events.
    pub errors: BTreeSet<String>,
}

impl Coverage {
    /// Coverage of the run of `scenario` with these events.
    pub fn of(scenario: &Scenario, events: &[Arc<Event>]) -> Self {
        let mut coverage = Self::default();
        // Last state of each object. The model has no phases of instances and modifications, and forgets what is gone.
        let mut last: BTreeMap<String, String> = BTreeMap::new();
        for event in events {
            if let Some(fired) = event.get::<FaultFired>() {
                if let Some(fault) = scenario.faults.iter().find(|fault| fault.name == fired.fault) {
                    let (plane, at) = (fault.matches.plane.name(), fault.at.name());
                    coverage.points.insert(format!("{plane} {} {} {at}", fired.op, fired.effect.kind().name()));
                }
            } else if let Some(error) = error(event) {
                coverage.errors.insert(error);
            }
            let Some((machine, thing, state)) = state(event) else { continue };
            let before = last.insert(format!("{machine} {thing}"), state.clone());
            if before.as_ref() != Some(&state) {
                coverage.steps.insert(format!("{machine} {} -> {state}", before.as_deref().unwrap_or("-")));
            }
        }
        coverage
    }

    /// Returns true if it is empty, also because coverage was not requested.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.steps.is_empty() && self.errors.is_empty()
    }

    /// Returns true if `more` has something that this one lacks.
    pub fn grows_by(&self, more: &Self) -> bool {
        let Self { points, steps, errors } = self;
        !(more.points.is_subset(points) && more.steps.is_subset(steps) && more.errors.is_subset(errors))
    }

    /// Adds the coverage of another run.
    pub fn add(&mut self, more: Self) {
        self.points.extend(more.points);
        self.steps.extend(more.steps);
        self.errors.extend(more.errors);
    }

    /// Short summary.
    pub fn text(&self) -> String {
        let Self { points, steps, errors } = self;
        let all = catalogue();
        format!(
            "{} of {all} points of the catalogue, {} state transitions, {} errors",
            points.len(),
            steps.len(),
            errors.len()
        )
    }

    /// Coverage as JSON. The union of several parts is the coverage of the whole.
    pub fn data(&self) -> Value {
        json!({ "points": self.points, "of": catalogue(), "transitions": self.steps, "errors": self.errors })
    }
}

/// Number of points of the catalogue.
fn catalogue() -> usize {
    let operations = OPERATIONS.iter().copied().flatten();
    operations.flat_map(|operation| operation.possible().map(|possible| possible.at.len())).sum()
}

fn error(event: &Event) -> Option<String> {
    if let Some(done) = event.get::<CsiDone>() {
        return (done.code != "OK").then(|| format!("csi {} {}", done.rpc, done.code));
    }
    if let Some(failed) = event.get::<OperationFailed>() {
        return Some(format!("kubelet {}", failed.operation));
    }
    let recorded = event.get::<EventRecorded>().filter(|recorded| recorded.r#type == "Warning")?;
    // The source can contain a node or a replica.
    let source = recorded.source.split([',', '/', '_']).next().unwrap_or_default();
    Some(format!("{source} {}", recorded.reason))
}

/// Kind of state machine that an event belongs to, the identity of the machine, and its state.
fn state(event: &Event) -> Option<(&'static str, String, String)> {
    if let Some(changed) = event.get::<AttachmentChanged>() {
        let thing = format!("{} {}", changed.volume, changed.instance);
        return Some(("ec2 attachment", thing, changed.state.as_str().to_owned()));
    }
    if let Some(changed) = event.get::<VolumeChanged>() {
        return Some(("ec2 volume", changed.volume.to_string(), changed.state.as_str().to_owned()));
    }
    if let Some(changed) = event.get::<InstanceChanged>() {
        return Some(("ec2 instance", changed.instance.to_string(), changed.state.as_str().to_owned()));
    }
    if let Some(changed) = event.get::<ModificationChanged>() {
        return Some(("ec2 modification", changed.volume.to_string(), changed.state.as_str().to_owned()));
    }
    let commit = event.get::<Commit>()?;
    let (kind, state) = of_commit(commit)?;
    let state = if commit.r#type == EventType::Deleted { "gone".to_owned() } else { state };
    Some((kind, commit.object.to_string(), state))
}

fn of_commit(commit: &Commit) -> Option<(&'static str, String)> {
    let word = |text: &Option<substrate::json::Text>| text.as_deref().unwrap_or("new").to_owned();
    let leaving = |deleting: bool, state: String| if deleting { format!("{state}, terminating") } else { state };
    if let Some(pod) = &commit.pod {
        return Some(("pod", leaving(pod.deleting, word(&pod.phase))));
    }
    if let Some(claim) = &commit.pvc {
        return Some(("claim", word(&claim.phase)));
    }
    if let Some(volume) = &commit.pv {
        return Some(("volume", word(&volume.phase)));
    }
    if let Some(attachment) = &commit.volumeattachment {
        let state = if attachment.attached { "attached" } else { "detached" };
        return Some(("attachment", leaving(attachment.deleting, state.to_owned())));
    }
    commit.node.as_ref().map(|node| ("node", word(&node.ready)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::judge::{Task, judge};

    const SCENARIO: &str = "
name: t
nodes: {count: 1}
faults:
  - {name: refused, match: {plane: csi, op: ControllerPublishVolume}, when: {nth: 1}, effect: {grpc: INTERNAL}}
steps:
  - claim: {name: data}
  - pod: {name: web, claim: data, grace: 1s}
  - wait: {object: pod/web, is: Running}
";

    #[test]
    fn a_run_reports_its_coverage_on_request() {
        let task = Task { text: SCENARIO.to_owned(), seed: 1, report_coverage: true, ..Task::default() };
        let coverage = judge(&task, None).coverage;
        assert_eq!(coverage.points.iter().collect::<Vec<_>>(), ["csi ControllerPublishVolume grpc before"]);
        for step in ["ec2 attachment attaching -> attached", "pod Pending -> Running", "claim Bound -> gone"] {
            assert!(coverage.steps.contains(step), "{step}: {:#?}", coverage.steps);
        }
        for error in ["csi ControllerPublishVolume INTERNAL", "attachdetach-controller FailedAttachVolume"] {
            assert!(coverage.errors.contains(error), "{error}: {:#?}", coverage.errors);
        }
        assert!(judge(&Task { report_coverage: false, ..task }, None).coverage.is_empty());
        assert!(catalogue() > 300);
        let mut twice = coverage.clone();
        twice.add(coverage.clone());
        assert_eq!(twice, coverage);
    }
}
