//! I3: an ordered StatefulSet works on its pods in their order. It creates a pod only after each pod of a lower ordinal
//! has been ready. It deletes the surplus pod of the highest ordinal first, and the next one after that is gone. A
//! rolling update goes from the highest ordinal down to its partition, and waits for each pod that it replaces. An
//! occasion is a pod that the controller creates or deletes.
//!
//! Pods that have ended, and pods that anyone else deletes, have no order. The controller knows its own writes, so a
//! stale cache of its own pods does not excuse it; faults at reads do, because another replica may lead since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fake_apiserver::events::{Commit, Workload};
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::json::Text;

use super::stale_reads::{StaleReads, TEN_MINUTES};
use super::{Checked, Found, Id};

/// End of the controller's User-Agent.
const CONTROLLER: &str = "/statefulset-controller";
/// Label with the revision of a pod.
const REVISION: &str = "controller-revision-hash";

/// A set, with the bounds of all its versions.
#[derive(Debug)]
struct Set {
    parallel: bool,
    first: i64,
    replicas: i64,
    /// Smallest partition that it has had.
    partition: i64,
}

/// A pod of a set.
#[derive(Debug)]
struct Member {
    object: Arc<str>,
    uid: Text,
    revision: Option<Text>,
    /// True if it has been ready.
    was_ready: bool,
    /// True if it has ended, or its deletion has begun by anyone but the controller.
    is_lost: bool,
    deleting: bool,
}

/// Sets by uid, and their pods by ordinal.
#[derive(Debug, Default)]
pub(super) struct Ordinals {
    sets: BTreeMap<Text, Set>,
    members: BTreeMap<Text, BTreeMap<i64, Member>>,
    /// Uids and ordinals of all pods that have been ready.
    ready: BTreeSet<(Text, i64)>,
    /// Uids and ordinals of pods that the controller deleted, and that are gone.
    replaced: BTreeSet<(Text, i64)>,
    stale_reads: StaleReads,
}

/// Returns the ordinal of a pod, the number at the end of its name.
fn ordinal(object: &str) -> Option<i64> {
    object.rsplit_once('-')?.1.parse().ok()
}

impl Ordinals {
    /// Checks an event against the state before it.
    pub fn check(&mut self, checked: &mut Checked, event: &Event) -> Option<Found> {
        self.stale_reads.note(event, &["create", "delete"]);
        let commit = event.get::<Commit>()?;
        let workload = commit.workload.as_deref()?;
        if commit.resource == "statefulsets" {
            self.on_set(commit, workload);
            return None;
        }
        let (kind, owner) = workload.owner.as_ref().filter(|_| commit.resource == "pods")?;
        let ordinal = ordinal(&commit.object).filter(|_| kind == "StatefulSet")?;
        let by_controller = commit.user.ends_with(CONTROLLER);
        let message = if commit.r#type == EventType::Added {
            by_controller.then(|| self.created(owner, ordinal, &commit.object)).flatten()
        } else {
            let begins = self.begins(owner, ordinal, commit);
            (by_controller && begins).then(|| self.deleted(owner, ordinal)).flatten()
        };
        let acts = by_controller && (commit.r#type == EventType::Added || commit.verb == "delete");
        checked.add(Id::I3, u64::from(acts));
        self.on_pod(owner, ordinal, commit, workload, by_controller);
        let message = message.filter(|_| !self.stale_reads.within(TEN_MINUTES, event.ms))?;
        Some(Found { message, operation: commit.verb.to_string(), ..Found::default() })
    }

    fn on_set(&mut self, commit: &Commit, workload: &Workload) {
        if commit.r#type == EventType::Deleted {
            self.sets.remove(&workload.uid);
            self.members.remove(&workload.uid);
            self.ready.retain(|(set, _)| *set != workload.uid);
            self.replaced.retain(|(set, _)| *set != workload.uid);
            return;
        }
        let partition = self.sets.get(&workload.uid).map_or(workload.partition, |set| set.partition);
        let set = Set {
            parallel: workload.parallel,
            first: workload.start,
            replicas: workload.replicas.unwrap_or(1),
            partition: partition.min(workload.partition),
        };
        self.sets.insert(workload.uid.clone(), set);
    }

    /// Returns true if the deletion of a pod begins that has not ended.
    fn begins(&self, owner: &Text, ordinal: i64, commit: &Commit) -> bool {
        let leaves = commit.pod.as_ref().is_some_and(|pod| pod.deleting) || commit.r#type == EventType::Deleted;
        let member = self.members.get(owner).and_then(|pods| pods.get(&ordinal));
        leaves && member.is_some_and(|member| !member.deleting && !member.is_lost)
    }

    fn created(&self, owner: &Text, ordinal: i64, object: &str) -> Option<String> {
        let set = self.sets.get(owner).filter(|set| !set.parallel)?;
        let lower = (set.first..ordinal).find(|lower| !self.ready.contains(&(owner.clone(), *lower)))?;
        Some(format!("pod/{object} was created, and the pod of ordinal {lower} has never been ready"))
    }

    /// Returns the reason why the controller must not delete the pod of an ordinal now.
    fn deleted(&self, owner: &Text, ordinal: i64) -> Option<String> {
        let (set, members) = (self.sets.get(owner)?, self.members.get(owner)?);
        let own = members.get(&ordinal)?;
        let range = set.first..set.first + set.replicas;
        let higher = || members.range(ordinal + 1..).filter(|(_, member)| !member.is_lost);
        let name = &own.object;
        if !range.contains(&ordinal) {
            // A rolling update may have chosen the pod before it became surplus.
            let mut same = higher().filter(|(at, member)| !range.contains(*at) && member.revision == own.revision);
            let (_, member) = same.next().filter(|_| !set.parallel)?;
            return Some(format!("pod/{name} was deleted before pod/{}, whose ordinal is higher", member.object));
        }
        if ordinal - set.first < set.partition {
            return Some(format!("pod/{name} was replaced, and the partition of its set is {}", set.partition));
        }
        for at in ordinal + 1..range.end {
            let Some(member) = members.get(&at) else {
                if self.replaced.contains(&(owner.clone(), at)) {
                    return Some(format!("pod/{name} was deleted before the pod of ordinal {at} was created again"));
                }
                continue;
            };
            if member.is_lost {
                continue;
            }
            let other = &member.object;
            if member.deleting || !member.was_ready {
                return Some(format!("pod/{name} was deleted before pod/{other} was ready again"));
            }
            if member.revision == own.revision {
                return Some(format!("pod/{name} was replaced before pod/{other}, whose ordinal is higher"));
            }
        }
        None
    }

    fn on_pod(&mut self, owner: &Text, ordinal: i64, commit: &Commit, workload: &Workload, by_controller: bool) {
        let Some(pod) = commit.pod.as_deref() else { return };
        let members = self.members.entry(owner.clone()).or_default();
        if commit.r#type == EventType::Deleted {
            if members.remove(&ordinal).is_some_and(|member| member.deleting && !member.is_lost) {
                self.replaced.insert((owner.clone(), ordinal));
            }
            return;
        }
        let ended = pod.phase.as_deref().is_some_and(|phase| phase == "Failed" || phase == "Succeeded");
        let is_ready = workload.ready && pod.phase.as_deref() == Some("Running");
        let old = members.remove(&ordinal).filter(|old| old.uid == pod.uid);
        let was_deleting = old.as_ref().is_some_and(|old| old.deleting);
        let by_other = pod.deleting && !was_deleting && !by_controller;
        let member = Member {
            object: commit.object.clone(),
            uid: pod.uid.clone(),
            revision: workload.labels.get(REVISION).cloned(),
            was_ready: is_ready || old.as_ref().is_some_and(|old| old.was_ready),
            is_lost: ended || by_other || old.as_ref().is_some_and(|old| old.is_lost),
            deleting: pod.deleting,
        };
        members.insert(ordinal, member);
        self.replaced.remove(&(owner.clone(), ordinal));
        if is_ready {
            self.ready.insert((owner.clone(), ordinal));
        }
    }
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::Pod;
    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    /// A write of a pod: ordinal, revision, readiness, true if its deletion begins, true if it is gone, and its user.
    type Write = (i64, &'static str, bool, bool, bool, &'static str);

    const US: &str = "kube-controller-manager/v1 kubernetes/mooring/statefulset-controller";

    /// Returns the findings of a run in which a set of `replicas` has these writes of its pods.
    fn found(replicas: i64, partition: i64, writes: &[Write]) -> Vec<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        let mut rv = 0;
        let mut commit = |resource: &str, object: String, r#type, user: &str, say: &dyn Fn(&mut Commit)| {
            rv += 1;
            let mut commit = Commit::new(resource, object, rv, r#type);
            commit.user = user.into();
            say(&mut commit);
            trace.info(&"fake-apiserver".into(), commit);
        };
        commit("statefulsets", "default/db".to_owned(), EventType::Added, "me", &|commit| {
            let (uid, replicas) = ("s".into(), Some(replicas));
            commit.workload = Some(Box::new(Workload { uid, replicas, partition, ..Workload::default() }));
        });
        let mut known: BTreeSet<i64> = BTreeSet::new();
        for (ordinal, revision, ready, deleting, gone, user) in writes {
            let r#type = match (*gone, known.insert(*ordinal)) {
                (true, _) => EventType::Deleted,
                (false, true) => EventType::Added,
                (false, false) => EventType::Modified,
            };
            commit("pods", format!("default/db-{ordinal}"), r#type, user, &|commit| {
                let (phase, uid) = (Some("Running".into()), format!("{ordinal}{revision}").into());
                commit.pod = Some(Box::new(Pod { phase, uid, deleting: *deleting, ..Pod::default() }));
                commit.workload = Some(Box::new(Workload {
                    labels: [(REVISION.into(), (*revision).into())].into(),
                    owner: Some(("StatefulSet".into(), "s".into())),
                    ready: *ready,
                    ..Workload::default()
                }));
            });
            if *gone {
                known.remove(ordinal);
            }
        }
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        let all = invariants.violations().into_iter().filter(|violation| violation.id == "I3");
        all.map(|violation| violation.message).collect()
    }

    fn up(ordinal: i64) -> [Write; 2] {
        [(ordinal, "old", false, false, false, US), (ordinal, "old", true, false, false, US)]
    }

    fn with(more: &[Write]) -> Vec<Write> {
        let begins = [up(0), up(1), up(2)].into_iter().flatten();
        begins.chain(more.iter().copied()).collect()
    }

    #[test]
    fn a_pod_is_created_after_the_lower_ones_were_ready() {
        let early = [(0, "old", false, false, false, US), (1, "old", false, false, false, US)];
        let message = "pod/default/db-1 was created, and the pod of ordinal 0 has never been ready";
        assert_eq!(found(2, 0, &early), [message]);
        assert!(found(2, 0, &[up(0), up(1)].concat()).is_empty());
        let by_user = [(0, "old", false, false, false, US), (1, "old", false, false, false, "me")];
        assert!(found(2, 0, &by_user).is_empty());
    }

    #[test]
    fn a_surplus_pod_is_deleted_from_the_highest_ordinal_down() {
        let message = "pod/default/db-1 was deleted before pod/default/db-2, whose ordinal is higher";
        assert_eq!(found(1, 0, &with(&[(1, "old", true, true, false, US)])), [message]);
        let both = [(2, "old", true, true, false, US), (1, "old", true, true, false, US)];
        assert_eq!(found(1, 0, &with(&both)), [message], "the higher one is still there");
        let gone = (2, "old", true, true, true, US);
        assert!(found(1, 0, &with(&[both[0], gone, both[1]])).is_empty());
        assert!(found(1, 0, &with(&[(1, "old", true, true, false, "me")])).is_empty());
    }

    #[test]
    fn a_rolling_update_waits_for_each_pod() {
        let (goes, gone) = ((2, "old", true, true, false, US), (2, "old", true, true, true, US));
        let again = [(2, "new", false, false, false, US), (2, "new", true, false, false, US)];
        let next = (1, "old", true, true, false, US);
        let message = "pod/default/db-1 was deleted before pod/default/db-2 was ready again";
        assert_eq!(found(3, 0, &with(&[goes, next])), [message]);
        assert_eq!(found(3, 0, &with(&[goes, gone, again[0], next])), [message]);
        let missing = "pod/default/db-1 was deleted before the pod of ordinal 2 was created again";
        assert_eq!(found(3, 0, &with(&[goes, gone, next])), [missing]);
        assert!(found(3, 0, &with(&[goes, gone, again[0], again[1], next])).is_empty());
        let lowest = "pod/default/db-1 was replaced before pod/default/db-2, whose ordinal is higher";
        assert_eq!(found(3, 0, &with(&[next])), [lowest]);
        let kept = "pod/default/db-1 was replaced, and the partition of its set is 2";
        assert_eq!(found(3, 2, &with(&[goes, gone, again[0], again[1], next])), [kept]);
    }
}
