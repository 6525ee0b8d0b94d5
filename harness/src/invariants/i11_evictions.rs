//! I11: an eviction of a ready pod spends a disruption that its budget allows. The API server lowers
//! `status.disruptionsAllowed` of the budget in the same request, and refuses the eviction at zero. An occasion is an
//! evicted pod that is ready and has one budget.
//!
//! A budget whose selector has expressions is not compared. A pod that is not ready may go without a budget.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fake_apiserver::events::{Commit, Workload};
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::json::Text;

use super::{Checked, Found, Id};

/// Commits of an eviction: the budget, the condition of the pod, and its deletion.
const COMMITS: u64 = 3;

#[derive(Debug)]
struct Budget {
    labels: BTreeMap<Text, Text>,
    /// Disruptions that it allowed before its last change, and that it allows now.
    allowed: (i64, i64),
    /// Revision of that change.
    rv: u64,
}

/// Budgets, and pods that are ready.
#[derive(Debug, Default)]
pub(super) struct Evictions {
    budgets: BTreeMap<Arc<str>, Budget>,
    /// Budgets that may select any pod of their namespace.
    unknown: BTreeSet<Arc<str>>,
    ready: BTreeMap<Arc<str>, BTreeMap<Text, Text>>,
}

fn namespace(object: &str) -> &str {
    object.split_once('/').map_or("", |(namespace, _)| namespace)
}

impl Evictions {
    /// Checks an event against the state before it.
    pub fn check(&mut self, checked: &mut Checked, event: &Event) -> Option<Found> {
        let commit = event.get::<Commit>()?;
        if commit.resource == "poddisruptionbudgets" {
            self.on_budget(commit);
            return None;
        }
        let pod = commit.pod.as_deref()?;
        let leaves = pod.deleting || commit.r#type == EventType::Deleted;
        // Of the requests that create something, only an eviction changes a pod that exists into one that leaves.
        let evicted = leaves && commit.verb == "create";
        let labels = self.ready.get(&commit.object).filter(|_| evicted).cloned();
        let found = labels.and_then(|labels| self.evicted(checked, commit, &labels));
        match commit.workload.as_deref() {
            Some(Workload { ready: true, labels, .. })
                if !leaves && pod.phase.as_deref() == Some("Running") && !labels.is_empty() =>
            {
                self.ready.insert(commit.object.clone(), labels.clone());
            }
            _ => drop(self.ready.remove(&commit.object)),
        }
        found
    }

    fn on_budget(&mut self, commit: &Commit) {
        self.unknown.remove(&commit.object);
        let old = self.budgets.remove(&commit.object);
        let Some(workload) = commit.workload.as_deref().filter(|_| commit.r#type != EventType::Deleted) else { return };
        if workload.labels.is_empty() {
            self.unknown.insert(commit.object.clone());
            return;
        }
        let before = old.map_or(0, |old| old.allowed.1);
        let budget =
            Budget { labels: workload.labels.clone(), allowed: (before, workload.allowed.unwrap_or(0)), rv: commit.rv };
        self.budgets.insert(commit.object.clone(), budget);
    }

    fn evicted(&self, checked: &mut Checked, commit: &Commit, labels: &BTreeMap<Text, Text>) -> Option<Found> {
        let within = namespace(&commit.object);
        if self.unknown.iter().any(|budget| namespace(budget) == within) {
            return None;
        }
        let selects = |budget: &Budget| budget.labels.iter().all(|(key, value)| labels.get(key) == Some(value));
        let mut all = self.budgets.iter().filter(|(name, budget)| namespace(name) == within && selects(budget));
        let (name, budget) = all.next()?;
        if all.next().is_some() {
            return None;
        }
        checked.add(Id::I11, 1);
        let (before, now) = budget.allowed;
        let is_spent = commit.rv - budget.rv < COMMITS && now == before - 1;
        if is_spent && before > 0 {
            return None;
        }
        let object = &commit.object;
        let message = if is_spent || now <= 0 {
            format!("pod/{object} was evicted, and its budget {name} allows no disruption")
        } else {
            format!("pod/{object} was evicted, and its budget {name} allows {now} disruptions as before")
        };
        Some(Found { message, operation: commit.verb.to_string(), ..Found::default() })
    }
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::Pod;
    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    /// Returns the findings of a run in which the status of a budget allows these disruptions, and then a pod leaves by
    /// a request with `verb`.
    fn found(allowed: &[i64], ready: bool, verb: &str) -> Vec<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        let mut rv = 0;
        let labels: BTreeMap<Text, Text> = [("app".into(), "db".into())].into();
        let mut commit = |resource: &str, object: &str, verb: &str, say: &dyn Fn(&mut Commit)| {
            rv += 1;
            let mut commit = Commit::new(resource, object, rv, EventType::Modified);
            commit.verb = verb.into();
            say(&mut commit);
            trace.info(&"fake-apiserver".into(), commit);
        };
        let pod = |deleting: bool| {
            let labels = labels.clone();
            move |commit: &mut Commit| {
                commit.pod = Some(Box::new(Pod { deleting, phase: Some("Running".into()), ..Pod::default() }));
                commit.workload = Some(Box::new(Workload { ready, labels: labels.clone(), ..Workload::default() }));
            }
        };
        commit("pods", "default/db-0", "patch", &pod(false));
        for allowed in allowed {
            commit("poddisruptionbudgets", "default/db", "create", &|commit| {
                let (labels, allowed) = (labels.clone(), Some(*allowed));
                commit.workload = Some(Box::new(Workload { labels, allowed, ..Workload::default() }));
            });
        }
        commit("pods", "default/db-0", verb, &pod(false));
        commit("pods", "default/db-0", verb, &pod(true));
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        let all = invariants.violations().into_iter().filter(|violation| violation.id == "I11");
        all.map(|violation| violation.message).collect()
    }

    #[test]
    fn an_eviction_spends_an_allowed_disruption() {
        let none = "pod/default/db-0 was evicted, and its budget default/db allows no disruption";
        assert_eq!(found(&[0], true, "create"), [none]);
        let same = "pod/default/db-0 was evicted, and its budget default/db allows 1 disruptions as before";
        assert_eq!(found(&[1], true, "create"), [same]);
        assert!(found(&[1, 0], true, "create").is_empty());
        assert!(found(&[0], false, "create").is_empty(), "a pod that is not ready may go");
        assert!(found(&[0], true, "delete").is_empty(), "a deletion needs no budget");
    }
}
