//! I10: a Deployment with the strategy Recreate gets new pods only after all of its old pods have ended
//! (`rolloutRecreate` upstream). Otherwise two pods would use its volumes at once. An occasion is a ReplicaSet that the
//! controller enlarges.
//!
//! A Deployment is not checked after its strategy or its size has changed: the controller scales the newest set without
//! a wait. A pod of the last second is not known to the controller yet, and faults at reads excuse it for ten minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fake_apiserver::events::{Commit, Workload};
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::json::Text;

use super::stale_reads::{StaleReads, TEN_MINUTES};
use super::{Checked, Found, Id};

/// Time after which the controller knows a new pod, in milliseconds.
const NOTICE: u64 = 1_000;

/// Deployments, their ReplicaSets and pods by uid.
#[derive(Debug, Default)]
pub(super) struct Recreate {
    /// First sizes of the Deployments that always had the strategy and this size.
    deployments: BTreeMap<Text, i64>,
    /// Other Deployments.
    others: BTreeSet<Text>,
    /// Deployment and size of each ReplicaSet.
    sets: BTreeMap<Text, (Text, i64)>,
    /// Pods of each ReplicaSet that have not ended, with the times of their creation.
    pods: BTreeMap<Text, BTreeMap<Arc<str>, u64>>,
    stale_reads: StaleReads,
}

impl Recreate {
    /// Checks an event against the state before it.
    pub fn check(&mut self, checked: &mut Checked, event: &Event) -> Option<Found> {
        self.stale_reads.note(event, &[]);
        let commit = event.get::<Commit>()?;
        let workload = commit.workload.as_deref()?;
        match (commit.resource.as_str(), workload.owner.as_ref()) {
            ("deployments", _) => self.on_deployment(commit, workload),
            ("pods", Some((kind, set))) if kind == "ReplicaSet" => self.on_pod(commit, set, event.ms),
            ("replicasets", Some((kind, owner))) if kind == "Deployment" => {
                let message = self.on_set(checked, commit, workload, owner, event.ms)?;
                return Some(Found { message, operation: commit.verb.to_string(), ..Found::default() });
            }
            _ => {}
        }
        None
    }

    fn on_deployment(&mut self, commit: &Commit, workload: &Workload) {
        let (uid, size) = (&workload.uid, workload.replicas.unwrap_or(1));
        // Only rolling Deployments have bounds.
        let recreates = workload.surge.is_none() && workload.unavailable.is_none();
        let is_same = self.deployments.get(uid).is_none_or(|first| *first == size);
        if commit.r#type == EventType::Deleted || !recreates || !is_same {
            self.deployments.remove(uid);
            self.others.insert(uid.clone());
        } else if !self.others.contains(uid) {
            self.deployments.insert(uid.clone(), size);
        }
    }

    fn on_pod(&mut self, commit: &Commit, set: &Text, ms: u64) {
        let Some(pod) = commit.pod.as_deref() else { return };
        let pods = self.pods.entry(set.clone()).or_default();
        let has_ended = pod.phase.as_deref().is_some_and(|phase| phase == "Failed" || phase == "Succeeded");
        if commit.r#type == EventType::Deleted || has_ended {
            pods.remove(&commit.object);
        } else {
            pods.entry(commit.object.clone()).or_insert(ms);
        }
    }

    /// Records a ReplicaSet. Returns the reason if the controller has enlarged it too early.
    fn on_set(
        &mut self,
        checked: &mut Checked,
        commit: &Commit,
        set: &Workload,
        owner: &Text,
        ms: u64,
    ) -> Option<String> {
        if commit.r#type == EventType::Deleted {
            self.sets.remove(&set.uid);
            return None;
        }
        let size = set.replicas.unwrap_or(1);
        let before = self.sets.insert(set.uid.clone(), (owner.clone(), size)).map_or(0, |(_, size)| size);
        let acts = size > before && commit.user.ends_with("/deployment-controller");
        if !acts || !self.deployments.contains_key(owner) {
            return None;
        }
        checked.add(Id::I10, 1);
        let siblings = self.sets.iter().filter(|(uid, (of, _))| **uid != set.uid && of == owner);
        let mut old = siblings.filter_map(|(uid, _)| self.pods.get(uid)).flatten();
        let (pod, _) = old.find(|(_, since)| **since + NOTICE <= ms)?;
        let message = format!(
            "replicaset/{} got {size} replicas: its Deployment recreates its pods, and the old pod/{pod} has not ended",
            commit.object
        );
        (!self.stale_reads.within(TEN_MINUTES, ms)).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::Pod;
    use substrate::clock::TimeScale;
    use substrate::world::{Options, simulate};

    use super::*;
    use crate::invariants::Invariants;

    const CONTROLLER: &str = "kube-controller-manager/v1 kubernetes/mooring/deployment-controller";

    /// Returns the findings of a rollout after which the old pod is in `phase`, or gone.
    fn found(phase: Option<&'static str>, bounds: Option<i64>, user: &'static str, sizes: [i64; 2]) -> Vec<String> {
        let events = simulate(Options::default(), async move |world| {
            let write = |resource: &str, object: &str, r#type, workload: Workload, phase: Option<&str>| {
                let mut commit = Commit::new(resource, object, 1, r#type);
                commit.user = user.into();
                commit.workload = Some(Box::new(workload));
                let pod = Pod { phase: phase.map(Into::into), ..Pod::default() };
                commit.pod = (resource == "pods").then(|| Box::new(pod));
                world.trace().info(&"fake-apiserver".into(), commit);
            };
            let of = |kind: &str, owner: &str, uid: &str, replicas| Workload {
                owner: Some((kind.into(), owner.into())),
                uid: uid.into(),
                replicas: Some(replicas),
                ..Workload::default()
            };
            for size in sizes {
                let (replicas, surge) = (Some(size), bounds);
                let deployment =
                    Workload { uid: "d".into(), replicas, surge, unavailable: bounds, ..Workload::default() };
                write("deployments", "default/web", EventType::Modified, deployment, None);
            }
            write("replicasets", "default/old", EventType::Added, of("Deployment", "d", "o", 1), None);
            write("pods", "default/old-a", EventType::Added, of("ReplicaSet", "o", "", 1), Some("Pending"));
            tokio::time::sleep(std::time::Duration::from_secs(5)).await;
            write("replicasets", "default/old", EventType::Modified, of("Deployment", "d", "o", 0), None);
            let end = if phase.is_some() { EventType::Modified } else { EventType::Deleted };
            write("pods", "default/old-a", end, of("ReplicaSet", "o", "", 1), phase);
            write("replicasets", "default/new", EventType::Added, of("Deployment", "d", "n", 1), None);
            world.trace().events()
        });
        let invariants = Invariants::new(TimeScale::default());
        events.iter().for_each(|event| invariants.observe(event));
        let all = invariants.violations().into_iter().filter(|violation| violation.id == "I10");
        all.map(|violation| violation.message).collect()
    }

    #[test]
    fn new_pods_come_after_the_end_of_the_old_ones() {
        let message = "replicaset/default/new got 1 replicas: its Deployment recreates its pods, and the old \
            pod/default/old-a has not ended";
        assert_eq!(found(Some("Running"), None, CONTROLLER, [1, 1]), [message]);
        assert!(found(None, None, CONTROLLER, [1, 1]).is_empty());
        assert!(found(Some("Failed"), None, CONTROLLER, [1, 1]).is_empty());
        assert!(found(Some("Running"), Some(1), CONTROLLER, [1, 1]).is_empty(), "it rolls");
        assert!(found(Some("Running"), None, "me", [1, 1]).is_empty(), "a user enlarged the set");
        assert!(found(Some("Running"), None, CONTROLLER, [2, 1]).is_empty(), "its size has changed");
    }
}
