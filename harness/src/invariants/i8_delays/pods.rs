//! Steps of claims and pods that the content of these objects shows, and the end of a pod's wait for room.

use fake_apiserver::events::Commit;
use substrate::json::Value;

use super::super::{Checked, Found};
use super::stored::{Change, is_deleting, text};
use super::{Delays, Step};
use crate::model::RunModel;

/// Time in milliseconds after a change in which the scheduler finds that a pod has room now: a backoff is at most 10 s.
const WAKES: u64 = 60 * 1000;
/// Resources whose changes make no room for a pod.
const NO_ROOM: [&str; 4] = ["events", "leases", "endpoints", "endpointslices"];

impl Delays {
    /// Awaits CreateVolume for a claim that pv-controller has given to a provisioner, and the end of a claim that only its
    /// protection holds.
    pub(super) fn on_claim(&mut self, change: &Change<'_>) -> Option<Found> {
        let is_asked = |claim: &Value| {
            let annotations = &claim["metadata"]["annotations"];
            annotations["volume.kubernetes.io/storage-provisioner"].is_string() && claim["spec"]["volumeName"].is_null()
        };
        if change.kept().is_some() && change.becomes(is_asked) {
            self.begin(Step::Create, text(change.new?, &["metadata", "uid"])?, "", change.ms);
        }
        let is_protected = |claim: &Value| {
            let finalizers = claim["metadata"]["finalizers"].as_array();
            is_deleting(claim) && finalizers.is_some_and(|all| *all == [Value::from("kubernetes.io/pvc-protection")])
        };
        match change.new.is_some_and(is_protected) {
            true => self.protected.insert(change.key.into()),
            false => self.protected.remove(change.key),
        };
        None
    }

    /// Awaits the end of claims that no pod names and that only their protection holds.
    pub(super) fn on_unused(&mut self, model: &RunModel, ms: u64) {
        for claim in self.protected.clone() {
            match model.objects.pods_of(&claim).next() {
                Some(_) => drop(self.due.remove(&(Step::Free, claim.clone(), "".into()))),
                None => self.begin(Step::Free, &claim, "", ms),
            }
        }
    }

    /// Awaits the end of a pod's containers after its grace period, and the end of the pod after that.
    pub(super) fn on_pod_end(&mut self, checked: &mut Checked, change: &Change<'_>) -> Option<Found> {
        let runs = |pod: &Value| {
            let statuses = pod["status"]["containerStatuses"].as_array();
            statuses.is_some_and(|all| all.iter().any(|status| status["state"]["running"].is_object()))
        };
        let ended = |step: Step| (step, change.object.as_str().into(), "".into());
        let Some(pod) = change.new else {
            self.due.remove(&ended(Step::Stop));
            return self.end(checked, (Step::Leave, &change.object, ""), change.ms);
        };
        if !is_deleting(pod) || !pod["spec"]["nodeName"].is_string() {
            return None;
        }
        if !runs(pod) {
            let is_held = pod["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
            match is_held {
                true => drop(self.due.remove(&ended(Step::Leave))),
                false => self.begin(Step::Leave, &change.object, "", change.ms),
            }
            return self.end(checked, (Step::Stop, &change.object, ""), change.ms);
        }
        let grace = |pod: &Value| pod["metadata"]["deletionGracePeriodSeconds"].as_u64();
        if change.old.and_then(grace) != grace(pod) {
            self.due.remove(&ended(Step::Stop));
            self.begin(Step::Stop, &change.object, "", change.ms + grace(pod).unwrap_or_default() * 1000);
        }
        None
    }

    /// Sets the time of the end of a pod again: one of its volumes was unmounted. A failure ends the wait.
    pub(super) fn on_unmounted(&mut self, model: &RunModel, volume: &str, node: &str, is_done: bool, ms: u64) {
        let claim = model.objects.volume_of(volume).and_then(|pv| pv.state.claim.as_deref());
        let pods = claim.into_iter().flat_map(|claim| model.objects.pods_of(claim));
        for (key, _) in pods.filter(|(_, pod)| pod.node() == Some(node)) {
            let object = format!("pod/{key}");
            if self.due.remove(&(Step::Leave, object.as_str().into(), "".into())).is_some() && is_done {
                self.begin(Step::Leave, &object, "", ms);
            }
        }
    }

    /// Records the time of a change of a Node that may make room; its reports of health do not.
    pub(super) fn on_node(&mut self, change: &Change<'_>) -> Option<Found> {
        let parts = |node: &Value| {
            let metadata = &node["metadata"];
            let status = &node["status"];
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let conditions: Vec<_> = conditions.map(|c| [c["type"].clone(), c["status"].clone()]).collect();
            let rest = ["allocatable", "volumesAttached", "declaredFeatures"].map(|part| status[part].clone());
            (metadata["labels"].clone(), metadata["annotations"].clone(), node["spec"].clone(), conditions, rest)
        };
        if change.old.map(parts) != change.new.map(parts) {
            self.room_since = change.ms;
        }
        None
    }

    /// Checks that a pod that waited for room is bound soon after a change that may have made it: the scheduler flushes the
    /// pods of which it has missed such a change after five minutes.
    pub(super) fn on_room(
        &mut self,
        model: &RunModel,
        checked: &mut Checked,
        commit: &Commit,
        ms: u64,
    ) -> Option<Found> {
        let is_own = commit.user.starts_with("kube-scheduler");
        let before = model.objects.before.pod.as_ref();
        let is_bound = commit.pod.as_ref().is_some_and(|pod| pod.node.is_some());
        if is_own && is_bound && before.is_some_and(|pod| pod.node().is_none()) {
            let waited = ms.saturating_sub(self.room_since);
            checked.add(super::Id::I8, 1);
            let is_late = waited > WAKES && self.judges(ms);
            let message = || {
                let object = &commit.object;
                let seconds = waited / 1000;
                format!("{object}: kube-scheduler bound it {seconds} s after the last change that may have made room")
            };
            return is_late.then(|| Found { message: message(), operation: "binding".to_owned(), ..Found::default() });
        }
        if !is_own && commit.node.is_none() && !NO_ROOM.contains(&&*commit.resource) {
            self.room_since = ms;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    const OBJECT: &str = "pod/default/p";

    fn pod(deleting: bool, runs: bool, finalizers: &[&str]) -> Value {
        let state = if runs { json!({"running": {}}) } else { json!({"terminated": {}}) };
        let deletion = deleting.then_some("2026-01-01T00:00:00Z");
        let finalizers: Vec<Value> = finalizers.iter().map(|name| (*name).into()).collect();
        json!({"metadata": {"deletionTimestamp": deletion, "deletionGracePeriodSeconds": deleting.then_some(30),
                "finalizers": finalizers},
            "spec": {"nodeName": "node-a"}, "status": {"containerStatuses": [{"name": "a", "state": state}]}})
    }

    /// Returns the findings of a pod whose containers end some seconds after its deletion, and that goes some seconds later.
    fn found(ends: u64, goes: u64, finalizers: &[&str]) -> Vec<String> {
        let (mut delays, mut checked) = (Delays::default(), Checked::default());
        let states = [pod(false, true, finalizers), pod(true, true, finalizers), pod(true, false, finalizers)];
        let of = |old, new, ms| Change { object: OBJECT.to_owned(), key: "default/p", old, new, ms };
        let [ran, deleted, ended] = [0, 1, 2].map(|index| Some(&states[index]));
        let changes = [
            of(ran, deleted, 1000),
            of(deleted, ended, 1000 + ends * 1000),
            of(ended, None, 1000 + (ends + goes) * 1000),
        ];
        let all = changes.iter().filter_map(|change| delays.on_pod_end(&mut checked, change));
        all.map(|found| found.operation).collect()
    }

    #[test]
    fn a_deleted_pod_ends_in_time() {
        assert_eq!(found(75, 45, &[]), [] as [&str; 0], "a grace period of 30 s");
        assert_eq!(found(76, 1, &[]), ["its containers had ended"]);
        assert_eq!(found(1, 46, &[]), ["it went"]);
        assert_eq!(found(1, 46, &["example.com/waits"]), [] as [&str; 0]);
    }

    #[test]
    fn a_claim_that_only_its_protection_holds_goes_in_time() {
        let found = |finalizers: &[&str]| {
            let mut delays = Delays::default();
            let finalizers: Vec<Value> = finalizers.iter().map(|name| (*name).into()).collect();
            let claim = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}, "spec": {}});
            let object = "persistentvolumeclaim/default/data".to_owned();
            delays.on_claim(&Change { object, key: "default/data", old: None, new: Some(&claim), ms: 1000 });
            delays.on_unused(&RunModel::default(), 1000);
            let ended = (Step::Free, "default/data", "");
            delays.end(&mut Checked::default(), ended, 12_000).map(|found| found.operation)
        };
        assert_eq!(found(&["kubernetes.io/pvc-protection"]).as_deref(), Some("it went"));
        assert_eq!(found(&["kubernetes.io/pvc-protection", "example.com/waits"]), None);
    }

    #[test]
    fn reports_of_health_make_no_room() {
        let node = |heartbeat: &str, cpu: &str| {
            json!({"metadata": {"name": "node-a"}, "status": {"allocatable": {"cpu": cpu},
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}]}})
        };
        let mut delays = Delays::default();
        let mut changed = |old: &Value, new: &Value, ms: u64| {
            delays.on_node(&Change { object: String::new(), key: "node-a", old: Some(old), new: Some(new), ms });
            delays.room_since
        };
        assert_eq!(changed(&node("a", "1"), &node("b", "1"), 5), 0);
        assert_eq!(changed(&node("a", "1"), &node("b", "2"), 6), 6);
    }
}
