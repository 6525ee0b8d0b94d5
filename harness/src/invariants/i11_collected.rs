//! I11: kube-controller-manager deletes no object that is still needed. The garbage collector deletes no claim whose
//! owner exists. Pod garbage collection removes no pod because of an out-of-service taint if the node is Ready. Taint
//! eviction deletes no pod of a node without a NoExecute taint. An occasion is a claim with an owner, or a pod on a node,
//! that kube-controller-manager deletes.
//!
//! Only owners that are pods are known. The claims of a terminating pod may be deleted with the pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::events::FaultFired;

use super::asked::Asked;
use super::facts::Facts;
use super::{Checked, Found, Id, MAKE_LATE};

/// Time in milliseconds after which each cache has the new state of a Ready node.
const NOTICE: u64 = 60 * 1000;
/// Time in milliseconds for which a deletion may be in progress after a fault.
const LATE: u64 = 10 * 60 * 1000;
/// Client of taint eviction and node-lifecycle; only the former deletes pods.
const EVICTION: &str = "/node-controller";

/// Claims and pods whose deletion has begun, and nodes that are Ready.
#[derive(Debug, Default)]
pub(super) struct Collected {
    deleting: BTreeSet<Arc<str>>,
    leaving: BTreeSet<Arc<str>>,
    /// Time in milliseconds until which an eviction may have been decided earlier.
    late_until: u64,
    /// Time in milliseconds since which each node is Ready.
    ready: BTreeMap<Arc<str>, u64>,
}

impl Collected {
    /// Checks an event against the state before it. `may_evict` returns true if taint eviction may have a taint of a node
    /// in its cache.
    pub fn check(
        &mut self,
        asked: &Asked,
        facts: &Facts,
        checked: &mut Checked,
        event: &Event,
        may_evict: impl Fn(&str) -> bool,
    ) -> Option<Found> {
        if let Some(FaultFired { op, .. }) = event.get() {
            if MAKE_LATE.contains(&op.as_str()) || op.as_str() == "delete" {
                self.late_until = event.ms + LATE;
            }
            return None;
        }
        let commit = event.get::<Commit>()?;
        if let Some(node) = &commit.node {
            if node.ready.as_deref() == Some("True") && commit.r#type != EventType::Deleted {
                self.ready.entry(commit.object.clone()).or_insert(event.ms);
            } else {
                self.ready.remove(&commit.object);
            }
            return None;
        }
        let (object, is_gone) = (&commit.object, commit.r#type == EventType::Deleted);
        let by_controller = commit.user.starts_with("kube-controller-manager");
        let message = if let Some(claim) = &commit.pvc {
            let begins = (claim.deleting || is_gone) && self.deleting.insert(object.clone());
            if is_gone || !claim.deleting {
                self.deleting.remove(object);
            }
            let owner = claim.owner.as_ref().filter(|_| begins && by_controller)?;
            checked.add(Id::I11, 1);
            let (pod, _) = asked.pods().find(|(_, pod)| pod.state.uid == *owner && !pod.state.deleting)?;
            format!("pvc/{object} was deleted while its owner pod/{pod} exists")
        } else if let Some(node) = self.evicted(commit, is_gone) {
            checked.add(Id::I11, 1);
            if event.ms < self.late_until || may_evict(node) {
                return None;
            }
            format!("pod/{object} was evicted, and its node {node} has no NoExecute taint")
        } else {
            let pod = commit.pod.as_ref().filter(|_| is_gone && by_controller)?;
            let name = pod.node.as_ref()?;
            checked.add(Id::I11, 1);
            let since = self.ready.get(name.as_str())?;
            let node = facts.nodes.get(name.as_str())?;
            if !node.out_of_service || event.ms < since + NOTICE {
                return None;
            }
            format!("pod/{object} was removed by force, and its node {name} is Ready")
        };
        Some(Found { message, operation: commit.verb.to_string(), ..Found::default() })
    }

    /// Returns the node of a pod whose deletion taint eviction begins.
    fn evicted<'a>(&mut self, commit: &'a Commit, is_gone: bool) -> Option<&'a str> {
        let (pod, object) = (commit.pod.as_ref()?, &commit.object);
        if is_gone {
            self.leaving.remove(object);
            return None;
        }
        let begins = pod.deleting && self.leaving.insert(object.clone());
        pod.node.as_deref().filter(|_| begins && commit.user.ends_with(EVICTION))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fake_apiserver::events::{Claim, Node, Pod};
    use substrate::clock::TimeScale;
    use substrate::world::{Options, simulate};

    use super::*;
    use crate::invariants::Invariants;
    use crate::invariants::i11_lifetimes::tests::removals;

    #[test]
    fn a_claim_whose_owner_exists_is_not_collected() {
        let pod = |uid: &'static str, deleting| {
            move |commit: &mut Commit| {
                commit.pod = Some(Box::new(Pod { uid: uid.into(), deleting, ..Pod::default() }));
            }
        };
        let claim = |deleting| {
            move |commit: &mut Commit| {
                commit.pvc = Some(Box::new(Claim { owner: Some("u".into()), deleting, ..Claim::default() }));
            }
        };
        let collector = "kube-controller-manager/v1 generic-garbage-collector";
        let deleted = |user, pod: &dyn Fn(&mut Commit)| {
            removals(&[
                ("pods", "default/web", "me", EventType::Added, pod),
                ("persistentvolumeclaims", "default/web-scratch", "me", EventType::Added, &claim(false)),
                ("persistentvolumeclaims", "default/web-scratch", user, EventType::Modified, &claim(true)),
                ("persistentvolumeclaims", "default/web-scratch", user, EventType::Deleted, &claim(true)),
            ])
        };
        let message = ["pvc/default/web-scratch was deleted while its owner pod/default/web exists"];
        assert_eq!(deleted(collector, &pod("u", false)), message);
        assert!(deleted("kubectl", &pod("u", false)).is_empty(), "a user deleted it");
        assert!(deleted(collector, &pod("u", true)).is_empty(), "the owner goes");
        assert!(deleted(collector, &pod("new", false)).is_empty(), "a new pod of that name");
    }

    #[test]
    fn a_pod_of_a_node_without_a_taint_is_not_evicted() {
        let evicted = |taints: &'static [&'static str], user: &'static str, fault: Option<&'static str>| {
            let events = simulate(Options::default(), async |world| {
                let commit = |resource: &str, object: &str, rv: u64, r#type, say: &dyn Fn(&mut Commit)| {
                    let mut commit = Commit::new(resource, object, rv, r#type);
                    commit.user = user.into();
                    say(&mut commit);
                    world.trace().info(&"fake-apiserver".into(), commit);
                };
                let pod = |deleting| {
                    move |commit: &mut Commit| {
                        let node = Some("node-a".into());
                        commit.pod = Some(Box::new(Pod { deleting, node, ..Pod::default() }));
                    }
                };
                commit("nodes", "node-a", 1, EventType::Added, &|commit| {
                    let taints = taints.iter().map(|taint| (*taint).into()).collect();
                    commit.node = Some(Box::new(Node { taints, ..Node::default() }));
                });
                commit("pods", "default/web", 2, EventType::Added, &pod(false));
                if let Some(op) = fault {
                    let mut fired = FaultFired::new("f", "get", substrate::fault::Effect::DropReply(true));
                    fired.op = op.into();
                    world.trace().info(&"fake-apiserver".into(), fired);
                }
                world.clock().sleep_until(Duration::from_secs(90)).await;
                commit("pods", "default/web", 3, EventType::Modified, &pod(true));
                world.trace().events()
            });
            let invariants = Invariants::new(TimeScale::default());
            events.iter().for_each(|event| invariants.observe(event));
            let all = invariants.violations().into_iter().filter(|violation| violation.id == "I11");
            all.map(|violation| violation.message).collect::<Vec<_>>()
        };
        let eviction = "kube-controller-manager/v1 kubernetes/mooring/node-controller";
        let message = ["pod/default/web was evicted, and its node node-a has no NoExecute taint"];
        assert_eq!(evicted(&[], eviction, None), message);
        assert_eq!(evicted(&["node.kubernetes.io/unreachable:NoSchedule"], eviction, None), message);
        assert!(evicted(&["node.kubernetes.io/unreachable:NoExecute"], eviction, None).is_empty());
        assert!(evicted(&[], "kubectl", None).is_empty(), "a user deleted it");
        assert!(evicted(&[], eviction, Some("delete")).is_empty(), "the deletion may be older than the node's state");
    }

    #[test]
    fn a_pod_of_a_ready_node_is_not_collected() {
        let removed = |ready: &'static str, user: &'static str, after: u64| {
            let events = simulate(Options::default(), async |world| {
                let commit = |resource: &str, object: &str, r#type, say: &dyn Fn(&mut Commit)| {
                    let mut commit = Commit::new(resource, object, 1, r#type);
                    commit.user = user.into();
                    say(&mut commit);
                    world.trace().info(&"fake-apiserver".into(), commit);
                };
                commit("nodes", "node-a", EventType::Added, &|commit| {
                    let taints = vec!["node.kubernetes.io/out-of-service:NoExecute".into()];
                    commit.node = Some(Box::new(Node { ready: Some(ready.into()), taints, ..Node::default() }));
                });
                world.clock().sleep_until(Duration::from_secs(after)).await;
                commit("pods", "default/web", EventType::Deleted, &|commit| {
                    let (node, phase) = (Some("node-a".into()), Some("Failed".into()));
                    commit.pod = Some(Box::new(Pod { deleting: true, node, phase, ..Pod::default() }));
                });
                world.trace().events()
            });
            let invariants = Invariants::new(TimeScale::default());
            events.iter().for_each(|event| invariants.observe(event));
            let all = invariants.violations().into_iter().filter(|violation| violation.id == "I11");
            all.map(|violation| violation.message).collect::<Vec<_>>()
        };
        let collector = "kube-controller-manager/v1 pod-garbage-collector";
        let message = ["pod/default/web was removed by force, and its node node-a is Ready"];
        assert_eq!(removed("True", collector, 90), message);
        assert!(removed("Unknown", collector, 90).is_empty());
        assert!(removed("True", "kubectl", 90).is_empty());
        assert!(removed("True", collector, 1).is_empty(), "its cache may not know yet that the node is Ready");
    }
}
