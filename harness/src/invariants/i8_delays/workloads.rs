//! Steps of workloads and of the garbage collector.

use substrate::json::Value;

use super::super::{Checked, Found};
use super::stored::{Change, is_deleting, text};
use super::{Delays, Step};

impl Delays {
    /// Awaits the report of a controller that it has seen the newest spec, and the number of pods of a ReplicaSet.
    pub(super) fn on_workload(&mut self, checked: &mut Checked, change: &Change<'_>) -> Option<Found> {
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let is_unseen = |object: &Value| {
            number(&object["metadata"]["generation"]) > number(&object["status"]["observedGeneration"])
        };
        let observed = self.until(checked, change, Step::Observed, is_unseen);
        let counts: [[&str; 2]; 2] = match change.object.split_once('/') {
            Some(("replicaset", _)) => [["spec", "replicas"], ["status", "replicas"]],
            Some(("daemonset", _)) => [["status", "desiredNumberScheduled"], ["status", "currentNumberScheduled"]],
            _ => return observed,
        };
        let differs = |set: &Value| {
            let [asked, there] = counts.map(|[part, count]| number(&set[part][count]));
            asked != there
        };
        self.until(checked, change, Step::Scaled, differs).or(observed)
    }

    /// Awaits the start of a Job, and the return of a PersistentVolume whose claim was removed by hand.
    pub(super) fn on_other(&mut self, checked: &mut Checked, change: &Change<'_>) -> Option<Found> {
        self.until(checked, change, Step::Observed, |object| match change.object.starts_with("job/") {
            true => object["status"]["startTime"].is_null() && object["spec"]["suspend"] != Value::Bool(true),
            false => object["spec"]["claimRef"].is_null() && object["status"]["phase"].as_str() == Some("Released"),
        })
    }

    /// Awaits the deletion of an object whose only owner is gone.
    pub(super) fn on_dependent(&mut self, checked: &mut Checked, change: &Change<'_>) -> Option<Found> {
        let goes = change.new.is_none() || change.becomes(is_deleting);
        let late = goes.then(|| self.end(checked, (Step::Collect, &change.object, ""), change.ms)).flatten();
        let [old, new] = [change.old, change.new].map(|object| object.and_then(only_owner));
        if old != new {
            self.due.remove(&(Step::Collect, change.object.as_str().into(), "".into()));
            if let Some(dependents) = old.and_then(|owner| self.dependents.get_mut(owner)) {
                dependents.remove(change.object.as_str());
            }
            if let Some(owner) = new {
                self.dependents.entry(owner.into()).or_default().insert(change.object.as_str().into());
            }
        }
        let gone = change.old.filter(|_| change.new.is_none()).and_then(|old| text(old, &["metadata", "uid"]));
        for dependent in gone.and_then(|uid| self.dependents.remove(uid)).unwrap_or_default() {
            self.begin(Step::Collect, &dependent, "", change.ms);
        }
        late
    }
}

/// Returns the uid of the owner of an object that is not being deleted and has one owner.
fn only_owner(object: &Value) -> Option<&str> {
    match object["metadata"]["ownerReferences"].as_array()?.as_slice() {
        [owner] if !is_deleting(object) => owner["uid"].as_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    /// Returns the findings of an object whose states follow each other, each with its second; the last one may be gone.
    fn found(object: &str, states: &[(u64, Option<Value>)]) -> Vec<String> {
        let (mut delays, mut checked) = (Delays::default(), Checked::default());
        let mut old = None;
        let mut all = Vec::new();
        for (second, new) in states {
            let change = Change { object: object.to_owned(), key: "", old, new: new.as_ref(), ms: second * 1000 };
            all.extend(delays.on_dependent(&mut checked, &change));
            all.extend(match object.split_once('/').unwrap_or_default().0 {
                "job" | "persistentvolume" => delays.on_other(&mut checked, &change),
                _ => delays.on_workload(&mut checked, &change),
            });
            old = new.as_ref();
        }
        all.into_iter().map(|found: Found| found.operation).collect()
    }

    fn set(generation: u64, observed: u64, replicas: u64, there: u64) -> Option<Value> {
        Some(json!({"metadata": {"generation": generation}, "spec": {"replicas": replicas},
            "status": {"observedGeneration": observed, "replicas": there}}))
    }

    #[test]
    fn a_workload_that_its_controller_sees_late_is_found() {
        let acted = "its controller had acted on its newest spec";
        let scaled = "its number of pods was as asked";
        let of = |object: &str, seconds: u64| found(object, &[(1, set(2, 1, 3, 3)), (1 + seconds, set(2, 2, 3, 3))]);
        assert_eq!(of("deployment/default/web", 11), [acted]);
        assert_eq!(of("deployment/default/web", 10), [] as [&str; 0]);
        let grows = |seconds: u64| [(1, set(1, 1, 3, 1)), (5, set(1, 1, 3, 2)), (1 + seconds, set(1, 1, 3, 3))];
        assert_eq!(found("replicaset/default/web", &grows(11)), [scaled]);
        assert_eq!(found("replicaset/default/web", &grows(10)), [] as [&str; 0]);
        assert_eq!(found("deployment/default/web", &grows(11)), [] as [&str; 0], "pods that are not ready");
        let job = |started: Option<&str>, suspend: bool| {
            Some(json!({"spec": {"suspend": suspend}, "status": {"startTime": started}}))
        };
        assert_eq!(found("job/default/once", &[(1, job(None, false)), (12, job(Some("t"), false))]), [acted]);
        assert_eq!(
            found("job/default/once", &[(1, job(None, true)), (12, job(None, false)), (13, job(Some("t"), false))]),
            [] as [&str; 0]
        );
        let volume = |phase: &str| Some(json!({"spec": {}, "status": {"phase": phase}}));
        assert_eq!(found("persistentvolume/pv", &[(1, volume("Released")), (12, volume("Available"))]), [acted]);
    }

    #[test]
    fn a_dependent_that_is_collected_late_is_found() {
        let pod = |owners: &[&str], deleting: Option<&str>| {
            let owners: Vec<Value> = owners.iter().map(|uid| json!({"uid": *uid})).collect();
            json!({"metadata": {"ownerReferences": owners, "deletionTimestamp": deleting}})
        };
        let found = |owners: &[&str], seconds: u64| {
            let (mut delays, mut checked) = (Delays::default(), Checked::default());
            let (owner, whole) = (json!({"metadata": {"uid": "u"}}), pod(owners, None));
            let going = pod(owners, Some("2026-01-01T00:00:00Z"));
            let of_pod = |old, new, ms| Change { object: "pod/default/p".to_owned(), key: "default/p", old, new, ms };
            let gone = Change { object: "job/default/j".to_owned(), key: "", old: Some(&owner), new: None, ms: 1000 };
            let changes =
                [of_pod(None, Some(&whole), 0), gone, of_pod(Some(&whole), Some(&going), 1000 + seconds * 1000)];
            changes.iter().filter_map(|change| delays.on_dependent(&mut checked, change)).count()
        };
        assert_eq!(found(&["u"], 46), 1);
        assert_eq!(found(&["u"], 45), 0);
        assert_eq!(found(&["u", "v"], 46), 0, "another owner holds it");
        assert_eq!(found(&["v"], 46), 0);
    }
}
