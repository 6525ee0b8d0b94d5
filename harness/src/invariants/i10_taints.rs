//! I10: taints are set and respected. The scheduler puts no pod on a node with a NoSchedule taint that the pod does not
//! tolerate. Node-lifecycle gives a node the NoExecute taint of its condition Ready: `not-ready` for False, `unreachable`
//! for Unknown. An occasion is a pod that the scheduler puts on a node, and such a taint.
//!
//! Both decide by caches. So a taint counts for pods that were created a second after it, a condition counts for a minute
//! after its end, and a fault at reads of the API server ends the checks for ten minutes.

use std::collections::BTreeMap;
use std::sync::Arc;

use fake_apiserver::events::{Commit, Node};
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::json::Text;

use super::stale_reads::{StaleReads, TEN_MINUTES};
use super::{Checked, Found, Id};
use crate::model::RunModel;

/// Time in milliseconds after which the scheduler's cache has a taint.
const NOTICE: u64 = 1_000;
/// Time in milliseconds for which node-lifecycle may act on a condition that has changed.
const LATE: u64 = 60_000;
/// Client of node-lifecycle.
const LIFECYCLE: &str = "/node-controller";
/// NoExecute taints of node-lifecycle, each with the status of the condition Ready that they stand for.
const OF_CONDITION: [(&str, &str); 2] =
    [("node.kubernetes.io/not-ready:NoExecute", "False"), ("node.kubernetes.io/unreachable:NoExecute", "Unknown")];

/// Taints and conditions of nodes, with times in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Taints {
    /// By node: the keys of its NoSchedule taints, each with the time since which it has the taint.
    tainted: BTreeMap<Arc<str>, BTreeMap<Text, u64>>,
    /// By node: the last time at which Ready had each status.
    ready: BTreeMap<Arc<str>, BTreeMap<Text, u64>>,
    /// Time of the creation of each pod. For the model, a pod of a saved state is created at its first commit.
    created: BTreeMap<Arc<str>, u64>,
    stale_reads: StaleReads,
}

impl Taints {
    /// Checks an event.
    pub fn check(&mut self, model: &RunModel, checked: &mut Checked, event: &Event) -> Option<Found> {
        self.stale_reads.note(event, &[]);
        let commit = event.get::<Commit>()?;
        let is_stale = self.stale_reads.within(TEN_MINUTES, event.ms);
        let (message, node) = if let Some(node) = &commit.node {
            (self.wrongly_tainted(model, checked, commit, node, event.ms)?, commit.object.to_string())
        } else {
            commit.pod.as_ref()?;
            match commit.r#type {
                EventType::Added => drop(self.created.insert(commit.object.clone(), event.ms)),
                EventType::Deleted => drop(self.created.remove(&commit.object)),
                EventType::Modified => {}
            }
            let node = super::i10_placement::newly_placed(model, commit)?;
            checked.add(Id::I10, 1);
            let key = self.untolerated(commit, node)?;
            let message = format!(
                "pod/{} was put on {node}, and does not tolerate the NoSchedule taint {key} of this node",
                commit.object
            );
            (message, node.to_string())
        };
        let operation = commit.verb.to_string();
        (!is_stale).then(|| Found { message, operation, node: Some(node), ..Found::default() })
    }

    /// Returns a NoSchedule taint that a node had before the pod was created, and that the pod does not tolerate.
    fn untolerated(&self, commit: &Commit, node: &str) -> Option<&Text> {
        let (created, taints) = (self.created.get(&commit.object)?, self.tainted.get(node)?);
        let tolerated = commit.spec.iter().flat_map(|spec| &spec.no_schedule_tolerations).collect::<Vec<_>>();
        let is_tolerated = |key: &Text| tolerated.iter().any(|of| of.is_empty() || *of == key);
        taints.iter().find(|(key, since)| **since + NOTICE <= *created && !is_tolerated(key)).map(|(key, _)| key)
    }

    /// Records the state of a node. Returns the reason if node-lifecycle has just given it a taint of another condition.
    fn wrongly_tainted(
        &mut self,
        model: &RunModel,
        checked: &mut Checked,
        commit: &Commit,
        node: &Node,
        ms: u64,
    ) -> Option<String> {
        let name = &commit.object;
        if commit.r#type == EventType::Deleted {
            self.tainted.remove(name);
            self.ready.remove(name);
            return None;
        }
        let before = self.tainted.remove(name).unwrap_or_default();
        let keys = node.taints.iter().filter_map(|taint| taint.strip_suffix(":NoSchedule"));
        let kept = keys.map(|key| (Text::from(key), before.get(key).copied().unwrap_or(ms))).collect();
        self.tainted.insert(name.clone(), kept);
        let earlier = model.objects.before.node.as_ref().map(|earlier| &earlier.state);
        let was = self.ready.entry(name.clone()).or_default();
        // The former status lasted until now.
        for status in earlier.into_iter().chain([node]).filter_map(|node| node.ready.as_ref()) {
            was.insert(status.clone(), ms);
        }
        if !commit.user.ends_with(LIFECYCLE) {
            return None;
        }
        OF_CONDITION.iter().find_map(|(taint, status)| {
            let has = |node: &Node| node.taints.iter().any(|has| has == taint);
            if !has(node) || earlier.is_some_and(has) {
                return None;
            }
            checked.add(Id::I10, 1);
            let was_so = was.get(*status).is_some_and(|at| ms <= at + LATE);
            (!was_so)
                .then(|| format!("node/{name} was given the taint {taint}, and its condition Ready was not {status}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::{Pod, Spec};
    use substrate::clock::TimeScale;
    use substrate::world::{Options, simulate};

    use super::*;
    use crate::invariants::Invariants;

    fn found(
        taint: &'static str,
        ready: &'static str,
        user: &'static str,
        tolerates: &'static [&'static str],
    ) -> Vec<String> {
        let events = simulate(Options::default(), async move |world| {
            let commit = |resource: &str, object: &str, user: &str, r#type, say: &dyn Fn(&mut Commit)| {
                let mut commit = Commit::new(resource, object, 1, r#type);
                commit.user = user.into();
                say(&mut commit);
                world.trace().info(&"fake-apiserver".into(), commit);
            };
            let node = |user: &str, taints: &[&str]| {
                let taints = taints.iter().map(|taint| (*taint).into()).collect();
                let node = Node { ready: Some(ready.into()), taints, ..Node::default() };
                commit("nodes", "node-a", user, EventType::Modified, &|commit| {
                    commit.node = Some(Box::new(node.clone()))
                });
            };
            node("kubelet", &[]);
            node(user, &[taint]);
            tokio::time::sleep(std::time::Duration::from_secs(5)).await;
            for (user, on) in [("me", None), ("kube-scheduler", Some("node-a"))] {
                let r#type = if on.is_none() { EventType::Added } else { EventType::Modified };
                let pod = Pod { node: on.map(Into::into), ..Pod::default() };
                let tolerations = tolerates.iter().map(|key| (*key).into()).collect();
                let spec = Spec { no_schedule_tolerations: tolerations, ..Spec::default() };
                commit("pods", "default/web", user, r#type, &|commit| {
                    (commit.pod, commit.spec) = (Some(Box::new(pod.clone())), Some(Box::new(spec.clone())));
                });
            }
            world.trace().events()
        });
        let invariants = Invariants::new(TimeScale::default());
        events.iter().for_each(|event| invariants.observe(event));
        let all = invariants.violations().into_iter().filter(|violation| violation.id == "I10");
        all.map(|violation| violation.message).collect()
    }

    #[test]
    fn a_pod_is_not_put_on_a_node_whose_taint_it_does_not_tolerate() {
        let message =
            "pod/default/web was put on node-a, and does not tolerate the NoSchedule taint reserved of this node";
        assert_eq!(found("reserved:NoSchedule", "True", "me", &["other"]), [message]);
        assert!(found("reserved:NoSchedule", "True", "me", &["reserved"]).is_empty());
        assert!(found("reserved:NoSchedule", "True", "me", &[""]).is_empty());
        assert!(found("reserved:PreferNoSchedule", "True", "me", &[]).is_empty());
    }

    #[test]
    fn a_taint_of_node_lifecycle_follows_the_condition() {
        let (lifecycle, taint) =
            ("kube-controller-manager/v1/system:serviceaccount:kube-system/node-controller", OF_CONDITION[1].0);
        let message = format!("node/node-a was given the taint {taint}, and its condition Ready was not Unknown");
        assert_eq!(found(taint, "False", lifecycle, &[]), [message]);
        assert!(found(taint, "Unknown", lifecycle, &[]).is_empty());
        assert!(found(taint, "False", "me", &[]).is_empty(), "a user set it");
        assert!(found(OF_CONDITION[0].0, "False", lifecycle, &[]).is_empty());
    }
}
