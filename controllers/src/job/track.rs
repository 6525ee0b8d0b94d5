//! Counting of finished pods (`trackJobStatusAndRemoveFinalizers`): the uids of pods to count go into the status, then
//! the pods lose their finalizer, then the counters grow.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::failure_policy::Reaction;
use super::index_failures::{Delayed, is_delayed};
use super::indexes::{is_indexed, valid_index};
use super::pods::{is_failed, is_tracked};
use crate::kube::Kind;
use crate::pod_status::phase;

/// Largest number of uncounted pods in a status (`MaxUncountedPods`).
const MOST: usize = 500;

/// State of a Job in this round.
#[derive(Debug)]
pub(super) struct Tracked<'a> {
    pub(super) spec: &'a JobSpec,
    pub(super) is_deleting: bool,
    /// If set, the Job has finished; with true, successfully.
    pub(super) finished: Option<bool>,
    /// Uids of pods whose finalizer was removed, but the cache does not show it yet.
    pub(super) removed: &'a BTreeSet<String>,
    /// Failed pods that keep their finalizer until their successors exist.
    pub(super) delayed: &'a Delayed,
    pub(super) pods: &'a [Arc<Pod>],
}

/// Result of [`Tracked::count`].
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Pods that lose their finalizer.
    pub(super) release: Vec<Arc<Pod>>,
    /// Indexes that succeeded.
    pub(super) succeeded_indexes: BTreeSet<i32>,
    /// True if the status changed.
    pub(super) changed: bool,
    /// True if more pods wait for the next round.
    pub(super) is_full: bool,
}

impl Tracked<'_> {
    /// Returns the uids of the pods with a finalizer.
    pub(super) fn with_finalizer(&self) -> BTreeSet<String> {
        let own = self.pods.iter().filter(|pod| is_tracked(pod) && !self.removed.contains(pod.uid()));
        own.map(|pod| pod.uid().to_owned()).collect()
    }

    /// Adds finished pods to the status. `known` are the indexes that had succeeded before.
    pub(super) fn count(&self, status: &mut JobStatus, known: &BTreeSet<i32>) -> Counted {
        let mut counted = Counted::default();
        let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
        let mut pods: Vec<&Arc<Pod>> = self.pods.iter().collect();
        if is_indexed(self.spec) {
            pods.sort_by_key(|pod| valid_index(pod, self.spec).unwrap_or(-1));
        }
        let before = uncounted.clone();
        let had = |list: &Option<Vec<String>>, uid: &str| list.iter().flatten().any(|one| one == uid);
        for pod in pods {
            if !is_tracked(pod) || self.removed.contains(pod.uid()) {
                continue;
            }
            let (uid, has_failed, has_succeeded) = (pod.uid(), is_failed(pod, self.spec), phase(pod) == "Succeeded");
            let is_over = self.is_deleting || self.finished.is_some() || has_succeeded;
            if !is_over && (!has_failed || is_delayed(self.delayed, pod)) {
                continue;
            }
            counted.release.push(pod.clone());
            if has_succeeded && !had(&before.failed, uid) {
                if is_indexed(self.spec) {
                    let index = valid_index(pod, self.spec).filter(|index| !known.contains(index));
                    counted.changed |= index.is_some();
                    counted.succeeded_indexes.extend(index);
                } else if !had(&before.succeeded, uid) {
                    counted.changed = true;
                    uncounted.succeeded.get_or_insert_default().push(uid.to_owned());
                }
            } else if (has_failed || self.finished == Some(false))
                && !had(&before.failed, uid)
                && (!is_indexed(self.spec) || valid_index(pod, self.spec).is_some())
                && Reaction::to(self.spec, pod).counts()
            {
                counted.changed = true;
                uncounted.failed.get_or_insert_default().push(uid.to_owned());
            }
            let number = |list: &Option<Vec<String>>| list.as_ref().map_or(0, Vec::len);
            let waiting = number(&uncounted.succeeded) + number(&uncounted.failed);
            if counted.succeeded_indexes.len() + waiting >= MOST {
                counted.is_full = true;
                break;
            }
        }
        counted
    }
}

/// Moves uncounted pods without finalizer to the counters (`cleanUncountedPodsWithoutFinalizers`). Returns true if the
/// status changed.
pub(super) fn clean(status: &mut JobStatus, with_finalizer: &BTreeSet<String>) -> bool {
    let Some(uncounted) = &mut status.uncounted_terminated_pods else { return false };
    let take = |list: &mut Option<Vec<String>>| -> i32 {
        let Some(uids) = list else { return 0 };
        let before = uids.len();
        uids.retain(|uid| with_finalizer.contains(uid));
        let gone = before - uids.len();
        if uids.is_empty() {
            *list = None;
        }
        i32::try_from(gone).unwrap_or(i32::MAX)
    };
    let (succeeded, failed) = (take(&mut uncounted.succeeded), take(&mut uncounted.failed));
    let add = |counter: &mut Option<i32>, more: i32| {
        if more > 0 {
            *counter = Some(counter.unwrap_or(0) + more);
        }
    };
    add(&mut status.succeeded, succeeded);
    add(&mut status.failed, failed);
    succeeded + failed > 0
}

/// Returns the number of pods in the status that are not counted yet.
pub(super) fn uncounted(status: &JobStatus) -> usize {
    let of = |list: &Option<Vec<String>>| list.as_ref().map_or(0, Vec::len);
    status.uncounted_terminated_pods.as_ref().map_or(0, |pods| of(&pods.succeeded) + of(&pods.failed))
}
