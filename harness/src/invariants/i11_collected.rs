//! I11: kube-controller-manager deletes no object that is still needed. The garbage collector deletes no claim whose
//! owner exists. Pod garbage collection removes no pod because of an out-of-service taint if the node is Ready. Taint
//! eviction deletes no pod of a node without a NoExecute taint, and none before the end of its tolerationSeconds. An
//! occasion is a claim with an owner, or a pod on a node, that kube-controller-manager deletes.
//!
//! Only owners that are pods are known. The claims of a terminating pod may be deleted with the pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;

use super::stale_reads::{StaleReads, TEN_MINUTES};
use super::{Checked, Found, Id};
use crate::model::{RunModel, is_out_of_service};

/// Time in milliseconds after which each cache has the new state of a Ready node.
const NOTICE: u64 = 60 * 1000;
/// Tolerance in milliseconds of the end of a toleration.
const EARLY: u128 = 1_000;
/// Largest time in milliseconds from the end of a toleration to the eviction.
const LATE: u64 = 10_000;
/// Client of taint eviction and node-lifecycle; only the former deletes pods.
const EVICTION: &str = "/node-controller";

/// Nodes and their pods, with times.
#[derive(Debug, Default)]
pub(super) struct Collected {
    /// Faults after which an eviction may have been decided earlier.
    stale_reads: StaleReads,
    /// Time in milliseconds since which each node is Ready.
    ready: BTreeMap<Arc<str>, u64>,
    tainted: BTreeMap<Arc<str>, Tainted>,
    /// Time in milliseconds at which each pod was put on its node.
    placed: BTreeMap<Arc<str>, u64>,
}

/// NoExecute taints of a node.
#[derive(Debug, Default)]
struct Tainted {
    /// Time in milliseconds since which it has such taints, without an interruption that a cache may have missed.
    since: u64,
    /// Keys of all taints since then.
    keys: BTreeSet<String>,
    /// Time in milliseconds at which the last taint went; `None` while it has one.
    gone: Option<u64>,
}

impl Collected {
    /// Checks an event. `may_evict` returns true if taint eviction may have a taint of a node
    /// in its cache.
    pub fn check(
        &mut self,
        model: &RunModel,
        checked: &mut Checked,
        event: &Event,
        may_evict: impl Fn(&str) -> bool,
    ) -> Option<Found> {
        self.stale_reads.note(event, &["delete"]);
        let commit = event.get::<Commit>()?;
        if commit.resource == "nodes" {
            self.note_taints(commit, event.ms);
        }
        if let Some(node) = &commit.node {
            if node.ready.as_deref() == Some("True") && commit.r#type != EventType::Deleted {
                self.ready.entry(commit.object.clone()).or_insert(event.ms);
            } else {
                self.ready.remove(&commit.object);
            }
            return None;
        }
        let (object, is_gone) = (&commit.object, commit.r#type == EventType::Deleted);
        if let Some(pod) = &commit.pod {
            match (is_gone, &pod.node) {
                (true, _) => drop(self.placed.remove(object)),
                (false, Some(_)) => drop(self.placed.entry(object.clone()).or_insert(event.ms)),
                (false, None) => {}
            }
        }
        let by_controller = commit.user.starts_with("kube-controller-manager");
        let message = if let Some(claim) = &commit.pvc {
            let was_deleting = model.objects.before.claim.as_ref().is_some_and(|before| before.state.deleting);
            let begins = (claim.deleting || is_gone) && !was_deleting;
            let owner = claim.owner.as_ref().filter(|_| begins && by_controller)?;
            checked.add(Id::I11, 1);
            let (pod, _) = model.objects.pods().find(|(_, pod)| pod.state.uid == *owner && !pod.state.deleting)?;
            format!("pvc/{object} was deleted while its owner pod/{pod} exists")
        } else if let Some(node) = evicted(model, commit, is_gone) {
            checked.add(Id::I11, 1);
            if self.stale_reads.within(TEN_MINUTES, event.ms) {
                return None;
            }
            if may_evict(node) {
                if self.stale_reads.within(2 * TEN_MINUTES, event.ms) {
                    return None;
                }
                let seconds = self.tolerates_longer(model, commit, node, event.ms)?;
                format!("pod/{object} was evicted from {node}, whose taints it tolerates for {seconds} seconds")
            } else {
                format!("pod/{object} was evicted, and its node {node} has no NoExecute taint")
            }
        } else {
            let pod = commit.pod.as_ref().filter(|_| is_gone && by_controller)?;
            let name = pod.node.as_ref()?;
            checked.add(Id::I11, 1);
            let since = self.ready.get(name.as_str())?;
            let node = model.objects.nodes.get(name.as_str())?;
            if !is_out_of_service(&node.state) || event.ms < since + NOTICE {
                return None;
            }
            format!("pod/{object} was removed by force, and its node {name} is Ready")
        };
        Some(Found { message, operation: commit.verb.to_string(), ..Found::default() })
    }

    /// Returns a finding for I8: a pod that taint eviction deletes long after the end of its toleration, on a node that
    /// has had one such taint all the time.
    pub fn late(&self, model: &RunModel, event: &Event) -> Option<Found> {
        let commit = event.get::<Commit>()?;
        let node = evicted(model, commit, commit.r#type == EventType::Deleted)?;
        let tainted = self.tainted.get(node).filter(|tainted| tainted.gone.is_none() && tainted.keys.len() == 1)?;
        let key = tainted.keys.first()?;
        let mut tolerations = commit.spec.iter().flat_map(|spec| &spec.tolerations);
        let toleration = tolerations.find(|(of, _)| of.is_empty() || of == key.as_str());
        let seconds = toleration.map_or(Some(0), |(_, seconds)| *seconds)?;
        let since = tainted.since.max(*self.placed.get(&commit.object)?) + seconds * 1000;
        let late = event.ms.checked_sub(since).filter(|late| *late > LATE)? / 1000;
        let message =
            format!("pod/{} was evicted from {node} {late} s after it no longer tolerated its taint", commit.object);
        Some(Found { message, operation: commit.verb.to_string(), ..Found::default() })
    }

    /// Records the NoExecute taints of a node.
    fn note_taints(&mut self, commit: &Commit, ms: u64) {
        let taints = commit.node.as_deref().filter(|_| commit.r#type != EventType::Deleted);
        let keys = taints.into_iter().flat_map(|node| &node.taints);
        let keys: BTreeSet<String> =
            keys.filter_map(|taint| taint.strip_suffix(":NoExecute")).map(str::to_owned).collect();
        if keys.is_empty() {
            if let Some(tainted) = self.tainted.get_mut(&commit.object) {
                tainted.gone.get_or_insert(ms);
            }
            return;
        }
        let tainted = self.tainted.entry(commit.object.clone()).or_default();
        if tainted.keys.is_empty() || tainted.gone.is_some_and(|gone| ms >= gone + NOTICE) {
            *tainted = Tainted { since: ms, ..Tainted::default() };
        }
        tainted.gone = None;
        tainted.keys.extend(keys);
    }

    /// Returns the seconds for which a pod tolerates the NoExecute taints of its node, if they have not passed since it
    /// is there and the node has a taint.
    fn tolerates_longer(&self, model: &RunModel, commit: &Commit, node: &str, ms: u64) -> Option<u64> {
        let tolerations = &commit.spec.as_deref()?.tolerations;
        let tainted = self.tainted.get(node)?;
        let mut least: Option<u64> = None;
        for key in &tainted.keys {
            let (_, seconds) = tolerations.iter().find(|(of, _)| of.is_empty() || of == key.as_str())?;
            least = least.into_iter().chain(*seconds).min();
        }
        let seconds = least?;
        let since = tainted.since.max(*self.placed.get(&commit.object)?);
        let waits = model.scale.apply(Duration::from_secs(seconds)).as_millis();
        (u128::from(ms.saturating_sub(since)) + EARLY < waits).then_some(seconds)
    }
}

/// Returns the node of a pod whose deletion taint eviction begins.
fn evicted<'a>(model: &RunModel, commit: &'a Commit, is_gone: bool) -> Option<&'a str> {
    let pod = commit.pod.as_ref().filter(|pod| pod.deleting && !is_gone)?;
    let was_deleting = model.objects.before.pod.as_ref().is_some_and(|before| before.state.deleting);
    pod.node.as_deref().filter(|_| !was_deleting && commit.user.ends_with(EVICTION))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fake_apiserver::events::{Claim, Node, Pod, Spec};
    use substrate::clock::TimeScale;
    use substrate::events::FaultFired;
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

    #[test]
    fn a_pod_is_not_evicted_before_the_end_of_its_toleration() {
        let evicted = |after: u64, tolerations: &'static [(&'static str, Option<u64>)], removed_for: Option<u64>| {
            let events = simulate(Options::default(), async |world| {
                let commit = |resource: &str, object: &str, r#type, say: &dyn Fn(&mut Commit)| {
                    let mut commit = Commit::new(resource, object, 1, r#type);
                    commit.user = "kube-controller-manager/v1 kubernetes/mooring/node-controller".into();
                    say(&mut commit);
                    world.trace().info(&"fake-apiserver".into(), commit);
                };
                let node = |is_tainted: bool| {
                    commit("nodes", "node-a", EventType::Modified, &|commit| {
                        let taints = ["node.kubernetes.io/unreachable:NoExecute".into()];
                        let taints = taints.into_iter().filter(|_| is_tainted).collect();
                        commit.node = Some(Box::new(Node { taints, ready: Some("Unknown".into()), ..Node::default() }));
                    });
                };
                let pod = |r#type, deleting| {
                    commit("pods", "default/web", r#type, &|commit| {
                        let pod = Pod { deleting, node: Some("node-a".into()), ..Pod::default() };
                        let tolerations = tolerations.iter().map(|(key, seconds)| ((*key).into(), *seconds)).collect();
                        commit.pod = Some(Box::new(pod));
                        commit.spec = Some(Box::new(Spec { tolerations, ..Spec::default() }));
                    });
                };
                let at = async |seconds| world.clock().sleep_until(Duration::from_secs(seconds)).await;
                pod(EventType::Added, false);
                node(true);
                if let Some(removed_for) = removed_for {
                    at(100).await;
                    node(false);
                    at(100 + removed_for).await;
                    node(true);
                }
                at(after).await;
                pod(EventType::Modified, true);
                world.trace().events()
            });
            let invariants = Invariants::new(TimeScale::default());
            events.iter().for_each(|event| invariants.observe(event));
            let all = invariants.violations().into_iter();
            let all = all.filter(|violation| violation.id == "I11" || violation.message.contains("no longer"));
            all.map(|violation| violation.message).collect::<Vec<_>>()
        };
        let usual = &[("node.kubernetes.io/not-ready", Some(300)), ("node.kubernetes.io/unreachable", Some(300))];
        let message = ["pod/default/web was evicted from node-a, whose taints it tolerates for 300 seconds"];
        assert_eq!(evicted(200, usual, None), message);
        assert!(evicted(300, usual, None).is_empty());
        assert_eq!(evicted(200, &[("", Some(300))], None), message);
        let late = |seconds: u64| {
            [format!("pod/default/web was evicted from node-a {seconds} s after it no longer tolerated its taint")]
        };
        let other = evicted(200, &[("node.kubernetes.io/not-ready", Some(300))], None);
        assert_eq!(other, late(200), "it tolerates another taint");
        assert!(evicted(310, usual, None).is_empty());
        assert_eq!(evicted(311, usual, None), late(11));
        assert_eq!(evicted(301, usual, Some(70)), message, "the node was well meanwhile");
        assert!(evicted(301, usual, Some(1)).is_empty(), "a cache may have missed that the node was well");
    }
}
