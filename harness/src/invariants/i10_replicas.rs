//! I10: controllers keep to the numbers of pods that workloads ask for. A rollout of a Deployment has no more pods than
//! `replicas` and `maxSurge`, and removes none if fewer than `replicas` without `maxUnavailable` would remain. A Job has
//! no more running pods than its `parallelism`, and gets no pod after its end. The sizes of ReplicaSets count, not their
//! pods. An occasion is such a change by the controller.
//!
//! The bounds are the widest of all versions of a workload, so a cache that is behind breaks none. After a lost answer a
//! controller may create a pod twice, so faults at reads and creations excuse it for ten minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fake_apiserver::events::{Commit, Workload};
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::json::Text;

use super::stale_reads::{StaleReads, TEN_MINUTES};
use super::{Checked, Found, Id};

/// Bounds of a Deployment over all its versions; `None` for a bound that a version does not have.
#[derive(Debug)]
struct Bounds {
    most: Option<i64>,
    least: Option<i64>,
}

#[derive(Debug)]
struct Job {
    /// Largest parallelism that it has had.
    parallelism: i64,
    is_over: bool,
}

/// Workloads by uid, with their ReplicaSets or running pods.
#[derive(Debug, Default)]
pub(super) struct Replicas {
    deployments: BTreeMap<Text, Bounds>,
    /// Sizes of the ReplicaSets of each Deployment.
    sizes: BTreeMap<Text, BTreeMap<Arc<str>, i64>>,
    jobs: BTreeMap<Text, Job>,
    /// Running pods of each Job.
    active: BTreeMap<Text, BTreeSet<Arc<str>>>,
    stale_reads: StaleReads,
}

impl Replicas {
    /// Checks an event against the state before it.
    pub fn check(&mut self, checked: &mut Checked, event: &Event) -> Option<Found> {
        self.stale_reads.note(event, &["create"]);
        let commit = event.get::<Commit>()?;
        let workload = commit.workload.as_deref()?;
        let (acts, message) = match (commit.resource.as_str(), workload.owner.as_ref()) {
            ("deployments", _) => (false, self.on_deployment(commit, workload)),
            ("jobs", _) => (false, self.on_job(commit, workload)),
            ("replicasets", Some((kind, owner))) if kind == "Deployment" => self.on_set(commit, workload, owner),
            ("pods", Some((kind, owner))) if kind == "Job" => self.on_pod(commit, owner),
            _ => return None,
        };
        checked.add(Id::I10, u64::from(acts));
        let message = message.filter(|_| !self.stale_reads.within(TEN_MINUTES, event.ms))?;
        Some(Found { message, operation: commit.verb.to_string(), ..Found::default() })
    }

    fn on_deployment(&mut self, commit: &Commit, workload: &Workload) -> Option<String> {
        if commit.r#type == EventType::Deleted {
            self.deployments.remove(&workload.uid);
            self.sizes.remove(&workload.uid);
            return None;
        }
        let replicas = workload.replicas.unwrap_or(1);
        // A percentage of few pods is rounded down to zero: then one pod may be missing.
        let missing = workload.unavailable.map(|missing| match (workload.surge, missing) {
            (Some(0), 0) => 1,
            _ => missing,
        });
        let most = Some(replicas + workload.surge.unwrap_or(0));
        let least = missing.map(|missing| replicas - missing);
        let next = match self.deployments.get(&workload.uid) {
            Some(old) => Bounds { most: old.most.max(most), least: old.least.zip(least).map(|(a, b)| a.min(b)) },
            None => Bounds { most, least },
        };
        self.deployments.insert(workload.uid.clone(), next);
        None
    }

    fn on_set(&mut self, commit: &Commit, workload: &Workload, owner: &Text) -> (bool, Option<String>) {
        let sizes = self.sizes.entry(owner.clone()).or_default();
        if commit.r#type == EventType::Deleted {
            sizes.remove(&commit.object);
            return (false, None);
        }
        let size = workload.replicas.unwrap_or(1);
        let before = sizes.insert(commit.object.clone(), size).unwrap_or(0);
        let acts = size != before && commit.user.ends_with("/deployment-controller");
        let Some(bounds) = self.deployments.get(owner).filter(|_| acts) else { return (false, None) };
        let (sum, name) = (sizes.values().sum::<i64>(), &commit.object);
        let message = if size > before {
            let most = bounds.most.filter(|most| sum > *most);
            most.map(|most| format!("replicaset/{name} got {size} replicas: its Deployment has {sum}, at most {most}"))
        } else {
            let least = bounds.least.filter(|least| sum < *least);
            least.map(|least| {
                format!("replicaset/{name} got {size} replicas: its Deployment has {sum}, at least {least}")
            })
        };
        (true, message)
    }

    fn on_job(&mut self, commit: &Commit, workload: &Workload) -> Option<String> {
        if commit.r#type == EventType::Deleted {
            self.jobs.remove(&workload.uid);
            self.active.remove(&workload.uid);
            return None;
        }
        let parallelism = workload.replicas.unwrap_or(1);
        let job = self.jobs.entry(workload.uid.clone()).or_insert(Job { parallelism, is_over: false });
        job.parallelism = job.parallelism.max(parallelism);
        job.is_over = workload.finished;
        None
    }

    fn on_pod(&mut self, commit: &Commit, owner: &Text) -> (bool, Option<String>) {
        let Some(pod) = commit.pod.as_deref() else { return (false, None) };
        let active = self.active.entry(owner.clone()).or_default();
        let ended = pod.phase.as_deref().is_some_and(|phase| phase == "Failed" || phase == "Succeeded");
        if commit.r#type == EventType::Deleted || ended || pod.deleting {
            active.remove(&commit.object);
            return (false, None);
        }
        active.insert(commit.object.clone());
        let is_new = commit.r#type == EventType::Added && commit.user.ends_with("/job-controller");
        let Some(job) = self.jobs.get(owner).filter(|_| is_new) else { return (false, None) };
        let (count, most, name) = (active.len(), job.parallelism, &commit.object);
        let message = if job.is_over {
            Some(format!("pod/{name} was created, and its Job has ended"))
        } else if i64::try_from(count).is_ok_and(|count| count > most) {
            Some(format!("pod/{name} was created: its Job has {count} running pods, and its parallelism is {most}"))
        } else {
            None
        };
        (true, message)
    }
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::Pod;
    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    /// A commit: resource, object, user and details.
    type Write<'a> = (&'a str, &'a str, &'a str, Workload);

    fn found(writes: &[Write<'_>]) -> Vec<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        let mut known = BTreeSet::new();
        for (rv, (resource, object, user, workload)) in (1..).zip(writes) {
            let is_new = known.insert((*resource, *object));
            let r#type = if is_new { EventType::Added } else { EventType::Modified };
            let mut commit = Commit::new(*resource, *object, rv, r#type);
            commit.user = (*user).into();
            commit.workload = Some(Box::new(workload.clone()));
            commit.pod = (*resource == "pods").then(Box::<Pod>::default);
            trace.info(&"fake-apiserver".into(), commit);
        }
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        let all = invariants.violations().into_iter().filter(|violation| violation.id == "I10");
        all.map(|violation| violation.message).collect()
    }

    const ROLLS: &str = "kube-controller-manager/v1 kubernetes/mooring/deployment-controller";
    const RUNS: &str = "kube-controller-manager/v1 kubernetes/mooring/job-controller";

    fn of(kind: &str, replicas: i64) -> Workload {
        let owner = Some((kind.into(), "u".into()));
        Workload { replicas: Some(replicas), owner, ..Workload::default() }
    }

    fn deployment(replicas: i64) -> Workload {
        let (surge, unavailable) = (Some(1), Some(1));
        Workload { uid: "u".into(), replicas: Some(replicas), surge, unavailable, ..Workload::default() }
    }

    #[test]
    fn a_rollout_keeps_to_its_bounds() {
        let rolls = |old: i64, new: i64, then: i64| {
            found(&[
                ("deployments", "default/web", "me", deployment(4)),
                ("replicasets", "default/old", ROLLS, of("Deployment", 4)),
                ("replicasets", "default/old", ROLLS, of("Deployment", old)),
                ("replicasets", "default/new", ROLLS, of("Deployment", new)),
                ("replicasets", "default/old", ROLLS, of("Deployment", then)),
            ])
        };
        assert!(rolls(4, 1, 3).is_empty());
        assert!(rolls(3, 2, 3).is_empty());
        let more = ["replicaset/default/new got 2 replicas: its Deployment has 6, at most 5"];
        assert_eq!(rolls(4, 2, 3), more);
        let fewer = ["replicaset/default/old got 1 replicas: its Deployment has 2, at least 3"];
        assert_eq!(rolls(4, 1, 1), fewer);
        let before = ("deployments", "default/web", "me", deployment(6));
        let now = ("deployments", "default/web", "me", deployment(4));
        let late = ("replicasets", "default/web", ROLLS, of("Deployment", 7));
        assert!(found(&[before, now, late]).is_empty(), "the cache has the larger size");
        let by_user = ("replicasets", "default/web", "me", of("Deployment", 9));
        assert!(found(&[("deployments", "default/web", "me", deployment(4)), by_user]).is_empty());
    }

    #[test]
    fn a_job_runs_no_more_pods_than_its_parallelism() {
        let job = |finished| Workload { uid: "u".into(), replicas: Some(1), finished, ..Workload::default() };
        let first = ("pods", "default/once-a", RUNS, of("Job", 1));
        let second = ("pods", "default/once-b", RUNS, of("Job", 1));
        let message = "pod/default/once-b was created: its Job has 2 running pods, and its parallelism is 1";
        let begins = ("jobs", "default/once", "me", job(false));
        assert_eq!(found(&[begins.clone(), first.clone(), second.clone()]), [message]);
        assert!(found(&[begins, first.clone()]).is_empty());
        let over = ["pod/default/once-a was created, and its Job has ended"];
        assert_eq!(found(&[("jobs", "default/once", "me", job(true)), first.clone()]), over);
        let by_user = ("pods", "default/once-b", "me", of("Job", 1));
        assert!(found(&[("jobs", "default/once", "me", job(false)), first, by_user]).is_empty());
    }
}
