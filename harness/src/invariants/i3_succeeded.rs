//! I3: a kubelet reports a pod as Succeeded only after all its containers ended with code 0 (upstream `kubelet_pods.go`,
//! `getPhase`).
//!
//! The content of pods is in events for observers of the same OS process, so clusters of containers are not checked.
//! Other clients may set any phase. A kubelet patches the status that it has read, so the rule says nothing for ten
//! minutes after a fault at a read or a patch.

use fake_apiserver::events::{Commit, ObjectStored};
use substrate::Event;
use substrate::json::Value;

use super::Found;
use super::stale_reads::{StaleReads, TEN_MINUTES};

/// The newest commit.
#[derive(Debug, Default)]
pub(super) struct Succeeded {
    /// Its revision, if it is a kubelet's write of a pod.
    rv: Option<u64>,
    stale_reads: StaleReads,
}

impl Succeeded {
    /// Records commits and faults.
    pub fn learn(&mut self, event: &Event) {
        self.stale_reads.note(event, &["patch"]);
        if let Some(commit) = event.get::<Commit>() {
            let is_report = commit.resource == "pods" && commit.user.starts_with("kubelet");
            self.rv = is_report.then_some(commit.rv);
        }
    }

    /// Checks the content of a commit. Call [`learn`](Self::learn) with the commit first.
    pub fn check(&self, event: &Event) -> Option<Found> {
        let stored = event.get::<ObjectStored>().filter(|stored| !stored.dry_run && self.rv == Some(stored.rv))?;
        let change = stored.change.get().filter(|_| !self.stale_reads.within(TEN_MINUTES, event.ms))?;
        let (old, new) = (change.old.as_ref()?.value.read(), change.new.as_ref()?.value.read());
        let container = contradiction(&old["status"], &new["status"])?;
        let message = format!(
            "pod/{} was reported as Succeeded, and its container {container} has not ended with code 0",
            change.key
        );
        Some(Found { message, operation: stored.verb.to_string(), ..Found::default() })
    }
}

/// Returns a container whose state contradicts the phase Succeeded, if a pod gets this phase.
fn contradiction<'s>(old: &Value, new: &'s Value) -> Option<&'s str> {
    let succeeded = |status: &Value| status["phase"].as_str() == Some("Succeeded");
    let containers = new["containerStatuses"].as_array().filter(|_| succeeded(new) && !succeeded(old))?;
    let other = containers.iter().find(|one| one["state"]["terminated"]["exitCode"].as_i64() != Some(0))?;
    Some(other["name"].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fake_apiserver::events::Held;
    use fake_apiserver::kinds;
    use fake_apiserver::state::{Event as Change, EventType, Object, key};
    use substrate::clock::TimeScale;
    use substrate::json::json;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    /// Returns the findings of a report by `user` that changes the phase from `phase` to Succeeded.
    fn found(user: &'static str, phase: &str, states: [Value; 2]) -> Vec<String> {
        let trace = Trace::new(Clock::live(), Level::Trace);
        let kind = kinds::all().iter().find(|kind| kind.plural == "pods").unwrap();
        let [a, b] = states;
        let pod = |phase: &str, statuses: Value| {
            json!({"metadata": {"name": "p", "namespace": "default", "uid": "u"},
                "status": {"phase": phase, "containerStatuses": statuses}})
        };
        let old = Object::new(kind, pod(phase, json!([])), 1, EventType::Added);
        let statuses = json!([{"name": "a", "state": a}, {"name": "b", "state": b}]);
        let new = Object::new(kind, pod("Succeeded", statuses), 2, EventType::Modified);
        let place = key(Some("default"), "p");
        let change = Change::new(2, kind.into(), place.clone(), Some(old), Some(new));
        let mut commit = Commit::new("pods", place, 2, EventType::Modified);
        commit.user = user.into();
        let process = Arc::from("fake-apiserver");
        trace.info(&process, commit);
        let (change, verb) = (Held::new(change), "patch".into());
        trace.info(&process, ObjectStored { asked: None, change, dry_run: false, rv: 2, verb });
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        let all = invariants.violations().into_iter().filter(|violation| violation.id == "I3");
        all.map(|violation| violation.message).collect()
    }

    #[test]
    fn a_pod_succeeds_with_all_its_containers() {
        let ended = |code: i32| json!({"terminated": {"exitCode": code}});
        let message = "pod/default/p was reported as Succeeded, and its container b has not ended with code 0";
        assert_eq!(found("kubelet", "Running", [ended(0), ended(1)]), [message]);
        assert_eq!(found("kubelet", "Running", [ended(0), json!({"running": {}})]), [message]);
        assert!(found("kubelet", "Running", [ended(0), ended(0)]).is_empty());
        assert!(found("kubelet", "Succeeded", [ended(0), ended(1)]).is_empty(), "it was reported before");
        assert!(found("me", "Running", [ended(0), ended(1)]).is_empty(), "a user set the phase");
    }
}
