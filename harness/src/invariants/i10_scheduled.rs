//! I10: the scheduler puts a pod only where it may use its volumes. A node has no more volumes than its CSINode allows,
//! one pod uses a ReadWriteOncePod claim, and the claim of an ephemeral volume belongs to the pod. No more volumes are
//! attached to a node than its CSINode ever allowed. An occasion is a pod that the scheduler puts on a node with a limit,
//! or with such a claim, and a volume that begins to be attached to a node with a limit.
//!
//! The scheduler decides by its caches. So a node is checked only if its CSINode has had a limit since before the pod
//! was created, and the largest limit since then applies. After a fault at reads of the API server, the scheduler's
//! caches may be stale, so no pod is checked for ten minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fake_apiserver::events::{Commit, Pod};
use fake_apiserver::state::EventType;
use mock_ec2::events::{AttachmentChanged, AttachmentPhase};
use substrate::Event;

use super::stale_reads::{StaleReads, TEN_MINUTES};
use super::{Checked, Found, Id};
use crate::model::{ClaimKey, NodeName, PodKey, RunModel, Stored, claims_of};

/// Number of an event, and the limit of a node from then on; `None` for no limit.
type Since = (u64, Option<u64>);

/// Limits of nodes, and pods that the scheduler has placed.
#[derive(Debug, Default)]
pub(super) struct Scheduled {
    /// By node: the changes of its limit, oldest first. The run model has only the present one.
    limits: BTreeMap<NodeName, Vec<Since>>,
    /// Number of the event that created each pod.
    created: BTreeMap<PodKey, u64>,
    /// Pods that the scheduler has placed.
    placed: BTreeSet<PodKey>,
    stale_reads: StaleReads,
}

impl Scheduled {
    /// Checks an event.
    pub fn check(&mut self, model: &RunModel, checked: &mut Checked, event: &Event) -> Option<Found> {
        self.stale_reads.note(event, &[]);
        if let Some(changed) = event.get::<AttachmentChanged>() {
            return self.attaches(model, checked, changed);
        }
        let commit = event.get::<Commit>()?;
        let object = &commit.object;
        if let Some(node) = &commit.csinode {
            // A volume handle does not name its driver: volumes are counted only if exactly one driver has a limit.
            let mut limits = node.drivers.iter().filter_map(|driver| driver.limit);
            let limit = limits.next().filter(|_| limits.next().is_none());
            self.note(object, event.n, limit.filter(|_| commit.r#type != EventType::Deleted));
        } else if commit.resource == "csinodes" {
            self.note(object, event.n, None);
        }
        commit.pod.as_ref()?;
        match commit.r#type {
            EventType::Added => drop(self.created.insert(object.into(), event.n)),
            EventType::Deleted => {
                self.created.remove(&**object);
                self.placed.remove(&**object);
            }
            EventType::Modified => {}
        }
        let node = super::i10_placement::newly_placed(model, commit)?;
        self.placed.insert(object.into());
        if self.stale_reads.within(TEN_MINUTES, event.ms) {
            return None;
        }
        let why = self.misplaced(model, checked, commit, node)?;
        let message = format!("pod/{object} was put on {node} {why}");
        Some(Found { message, operation: commit.verb.to_string(), node: Some(node.to_string()), ..Found::default() })
    }

    fn note(&mut self, node: &Arc<str>, n: u64, limit: Option<u64>) {
        let limits = self.limits.entry(node.into()).or_default();
        if limits.last().is_none_or(|(_, last)| *last != limit) {
            limits.push((n, limit));
        }
    }

    /// Returns the reason why a pod must not be on a node, as the end of a sentence.
    fn misplaced(&self, model: &RunModel, checked: &mut Checked, commit: &Commit, node: &str) -> Option<String> {
        let (object, pod) = (&commit.object, commit.pod.as_ref()?);
        let (namespace, _) = object.split_once('/')?;
        for name in commit.spec.iter().flat_map(|spec| &spec.ephemeral_claims) {
            let Some(claim) = model.objects.claim(&ClaimKey::new(namespace, name)) else { continue };
            checked.add(Id::I10, 1);
            if claim.state.owner.as_ref() != Some(&pod.uid) {
                return Some(format!("with its ephemeral volume pvc/{namespace}/{name}, which does not belong to it"));
            }
        }
        for key in claims_of(object, pod) {
            let is_for_one = |claim: &&Stored<_>| claim.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod");
            if model.objects.claim(&key).filter(is_for_one).is_none() {
                continue;
            }
            checked.add(Id::I10, 1);
            let mut others =
                model.objects.users(&key).filter(|(user, _)| **user != **object && self.placed.contains(*user));
            if let Some((other, _)) = others.next() {
                return Some(format!("with pvc/{key} of ReadWriteOncePod, which pod/{other} uses"));
            }
        }
        let limit = self.limit_since(node, *self.created.get(&**object)?)?;
        let (has, adds) = volumes(model, object, pod, node);
        checked.add(Id::I10, u64::from(!adds.is_empty()));
        let all = has.union(&adds).count() as u64;
        (!adds.is_subset(&has) && all > limit)
            .then(|| format!("as the pod with volume number {all}, and its CSINode allows {limit}"))
    }

    /// Returns the largest limit of a node since `created`, if the node had a limit all the time.
    fn limit_since(&self, node: &str, created: u64) -> Option<u64> {
        let limits = self.limits.get(node)?;
        let before = limits.iter().rposition(|(since, _)| *since <= created)?;
        limits[before..].iter().map(|(_, limit)| *limit).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Finds a volume that is attached to a node beyond every limit that its CSINode has had.
    fn attaches(&self, model: &RunModel, checked: &mut Checked, changed: &AttachmentChanged) -> Option<Found> {
        let (volume, node) = (changed.volume.as_str(), model.name(changed.instance.as_str()));
        if changed.state != AttachmentPhase::Attaching || !model.was_saved(volume) {
            return None;
        }
        let limit = self.limits.get(node)?.iter().filter_map(|(_, limit)| *limit).max()?;
        checked.add(Id::I10, 1);
        let here =
            model.cloud.keys().filter(|at| at.node == *node && at.volume != *volume && model.was_saved(&at.volume));
        let all = here.count() as u64 + 1;
        let message = (all > limit)
            .then(|| format!("{volume} is volume number {all} attached to {node}, and its CSINode allows {limit}"))?;
        let (volume, node) = (Some(volume.to_owned()), Some(node.to_owned()));
        Some(Found { message, operation: "AttachVolume".to_owned(), volume, node, ..Found::default() })
    }
}

/// Returns the names of the volumes that other pods on a node use, and of those that the pod uses.
fn volumes<'a>(model: &'a RunModel, object: &str, pod: &Pod, node: &str) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
    let volume = |claim: ClaimKey| model.objects.claim(&claim)?.state.volume.as_deref();
    let is_here = |pod: &Stored<Pod>| {
        pod.state.node.as_deref() == Some(node) && !matches!(pod.state.phase.as_deref(), Some("Succeeded" | "Failed"))
    };
    let here = model.objects.pods().filter(|(key, pod)| **key != *object && is_here(pod));
    let has = here.flat_map(|(key, pod)| claims_of(key, &pod.state).filter_map(volume));
    (has.collect(), claims_of(object, pod).filter_map(volume).collect())
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::{Claim, CsiNode, Driver, Spec};
    use substrate::clock::TimeScale;
    use substrate::events::FaultFired;
    use substrate::fault::Effect;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    /// A cluster of one node.
    struct Run(Trace, u64);

    impl Run {
        fn new() -> Self {
            Self(Trace::new(Clock::live(), Level::Info), 0)
        }

        fn commit(
            mut self,
            resource: &str,
            object: &str,
            user: &str,
            r#type: EventType,
            say: impl FnOnce(&mut Commit),
        ) -> Self {
            self.1 += 1;
            let mut commit = Commit::new(resource, object, self.1, r#type);
            commit.user = user.into();
            say(&mut commit);
            self.0.info(&"fake-apiserver".into(), commit);
            self
        }

        /// Sets the limit of the node; `None` before its driver has registered.
        fn limit(self, limit: Option<u64>) -> Self {
            let drivers = limit.iter().map(|limit| Driver { limit: Some(*limit), name: "ebs".into() }).collect();
            self.commit("csinodes", "node-a", "kubelet", EventType::Modified, |commit| {
                commit.csinode = Some(Box::new(CsiNode { drivers }));
            })
        }

        /// Creates a claim of these access modes that has a volume of its name.
        fn claim(self, name: &str, mode: &str, owner: Option<&str>) -> Self {
            let claim = Claim { volume: Some(name.into()), owner: owner.map(Into::into), ..Claim::default() };
            let spec = Spec { access_modes: vec![mode.into()], ..Spec::default() };
            self.commit("persistentvolumeclaims", &format!("default/{name}"), "me", EventType::Added, |commit| {
                (commit.pvc, commit.spec) = (Some(Box::new(claim)), Some(Box::new(spec)));
            })
        }

        fn pod(self, name: &str, claim: &str, user: &str, r#type: EventType, node: Option<&str>) -> Self {
            let ephemeral = claim.starts_with(&format!("{name}-"));
            let claims = if ephemeral { Vec::new() } else { vec![claim.into()] };
            let pod = Pod { claims, node: node.map(Into::into), uid: name.into(), ..Pod::default() };
            let ephemeral_claims = if ephemeral { vec![claim.into()] } else { Vec::new() };
            self.commit("pods", &format!("default/{name}"), user, r#type, |commit| {
                commit.pod = Some(Box::new(pod));
                commit.spec = Some(Box::new(Spec { ephemeral_claims, ..Spec::default() }));
            })
        }

        fn created(self, name: &str, claim: &str) -> Self {
            self.pod(name, claim, "me", EventType::Added, None)
        }

        fn placed(self, name: &str, claim: &str) -> Self {
            self.pod(name, claim, "kube-scheduler", EventType::Modified, Some("node-a"))
        }

        fn late(self) -> Self {
            let fired = FaultFired {
                fault: "f".into(),
                op: "watch".into(),
                effect: Effect::Hang(true),
                attributes: Default::default(),
            };
            self.0.info(&"fake-apiserver".into(), fired);
            self
        }

        fn found(self) -> Vec<String> {
            let invariants = Invariants::new(TimeScale::default());
            self.0.events().iter().for_each(|event| invariants.observe(event));
            let all = invariants.violations().into_iter().filter(|violation| violation.id == "I10");
            all.map(|violation| violation.message).collect()
        }
    }

    fn two_claims() -> Run {
        Run::new().claim("a", "ReadWriteOnce", None).claim("b", "ReadWriteOnce", None)
    }

    #[test]
    fn a_pod_beyond_the_limit_of_its_node_is_a_violation() {
        let both = |run: Run| run.created("one", "a").created("two", "b").placed("one", "a").placed("two", "b").found();
        let beyond = "pod/default/two was put on node-a as the pod with volume number 2, and its CSINode allows 1";
        assert_eq!(both(two_claims().limit(Some(1))), [beyond]);
        assert!(both(two_claims().limit(Some(2))).is_empty());
        assert!(both(two_claims().limit(Some(1)).late()).is_empty(), "its caches may be behind");
        let unknown = two_claims().limit(None).created("one", "a").created("two", "b").limit(Some(1));
        assert!(unknown.placed("one", "a").placed("two", "b").found().is_empty(), "there was no limit at first");
        let shared = two_claims().limit(Some(1)).created("one", "a").created("two", "a");
        assert!(shared.placed("one", "a").placed("two", "a").found().is_empty(), "one volume");
        let by_hand = two_claims().limit(Some(1)).created("one", "a").placed("one", "a").created("two", "b");
        let by_hand = by_hand.pod("two", "b", "me", EventType::Modified, Some("node-a"));
        assert!(by_hand.found().is_empty(), "a user chose the node");
    }

    #[test]
    fn a_second_pod_with_a_claim_for_one_pod_is_a_violation() {
        let both = |mode| {
            let run = Run::new().claim("a", mode, None).created("one", "a").created("two", "a");
            run.placed("one", "a").placed("two", "a").found()
        };
        let found =
            "pod/default/two was put on node-a with pvc/default/a of ReadWriteOncePod, which pod/default/one uses";
        assert_eq!(both("ReadWriteOncePod"), [found]);
        assert!(both("ReadWriteOnce").is_empty());
    }

    #[test]
    fn a_pod_with_the_ephemeral_claim_of_another_is_a_violation() {
        let of = |owner| {
            let run = Run::new().created("one", "one-scratch").claim("one-scratch", "ReadWriteOnce", owner);
            run.placed("one", "one-scratch").found()
        };
        let found = "pod/default/one was put on node-a with its ephemeral volume pvc/default/one-scratch, which does not \
                     belong to it";
        assert_eq!(of(Some("another")), [found]);
        assert_eq!(of(None), [found]);
        assert!(of(Some("one")).is_empty());
    }
}
