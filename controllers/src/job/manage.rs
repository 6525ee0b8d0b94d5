//! Decision about the pods of a Job (`manageJob`).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::JobSpec;
use k8s_openapi::api::core::v1::Pod;

use super::indexes::{is_indexed, pending, valid_index};
use super::pods::replaces_failed_only;
use crate::workload::ranking::compare_plain;

/// Largest number of creations or deletions in one round (`MaxPodCreateDeletePerSync`).
const BURST: usize = 500;

/// Writes for the pods of a Job.
#[derive(Debug)]
pub(super) enum Manage {
    /// Nothing.
    Keep,
    /// Wait before the next creation.
    Wait(Duration),
    /// Create so many pods, with these indexes if the Job is indexed.
    Create(usize, Vec<i32>),
    /// Delete these pods.
    Delete(Vec<Arc<Pod>>),
}

/// Observed state of a Job.
#[derive(Debug)]
pub(super) struct Observed<'a> {
    pub(super) active: &'a [Arc<Pod>],
    /// Number of pods that have succeeded, counted or not.
    pub(super) succeeded: i32,
    /// Indexes that get no pod any more: they have succeeded or failed.
    pub(super) ended_indexes: &'a BTreeSet<i32>,
    /// Pods that are being deleted.
    pub(super) terminating: &'a [Arc<Pod>],
    /// Time until a pod may be created after failures; zero if the Job has a limit per index.
    pub(super) wait: Duration,
    /// Times until a pod of these indexes may be created, if the Job has a limit per index.
    pub(super) index_waits: &'a BTreeMap<i32, Duration>,
}

/// Decides about the pods of a Job that has not finished.
pub(super) fn manage(spec: &JobSpec, observed: &Observed<'_>) -> Manage {
    let active = i32::try_from(observed.active.len()).unwrap_or(i32::MAX);
    if spec.suspend == Some(true) {
        return Manage::Delete(for_removal(spec, observed.active, observed.active.len()));
    }
    let parallelism = spec.parallelism.unwrap_or(1);
    let wanted = match spec.completions {
        // After the first success no pod is created any more.
        None if observed.succeeded > 0 => active,
        None => parallelism,
        Some(completions) => (completions - observed.succeeded).min(parallelism).max(0),
    };
    let surplus = usize::try_from(active - wanted).unwrap_or(0);
    let mut gone = for_removal(spec, observed.active, surplus);
    gone.truncate(BURST);
    if !gone.is_empty() {
        return Manage::Delete(gone);
    }
    let awaited: &[Arc<Pod>] = if replaces_failed_only(spec) { observed.terminating } else { &[] };
    let terminating = i32::try_from(awaited.len()).unwrap_or(i32::MAX);
    let missing = usize::try_from(wanted - terminating - active).unwrap_or(0).min(BURST);
    if missing == 0 {
        return Manage::Keep;
    }
    if !observed.wait.is_zero() {
        return Manage::Wait(observed.wait);
    }
    if !is_indexed(spec) {
        return Manage::Create(missing, Vec::new());
    }
    let taken = observed.active.iter().chain(awaited).map(|pod| &**pod);
    let indexes = pending(spec, observed.ended_indexes, taken, missing);
    let ready: Vec<i32> = indexes.iter().filter(|index| !observed.index_waits.contains_key(*index)).copied().collect();
    let least = indexes.iter().filter_map(|index| observed.index_waits.get(index)).min();
    match least {
        Some(wait) if ready.is_empty() => Manage::Wait(*wait),
        _ => Manage::Create(ready.len(), ready),
    }
}

/// Returns at least `count` pods to delete (`activePodsForRemoval`): pods with a wrong or repeated index, then pods of
/// the earliest stages.
fn for_removal(spec: &JobSpec, active: &[Arc<Pod>], count: usize) -> Vec<Arc<Pod>> {
    let (mut gone, mut left) = (Vec::new(), Vec::new());
    if is_indexed(spec) {
        let mut by_index: Vec<(Option<i32>, Arc<Pod>)> =
            active.iter().map(|pod| (valid_index(pod, spec), pod.clone())).collect();
        by_index.sort_by(|(a, p), (b, q)| match a.cmp(b) {
            // The pod to keep is last.
            Ordering::Equal => compare_plain(p, q),
            order => order,
        });
        for at in 0..by_index.len() {
            let (index, pod) = &by_index[at];
            let is_last = by_index.get(at + 1).is_none_or(|(next, _)| next != index);
            if index.is_some() && is_last { left.push(pod.clone()) } else { gone.push(pod.clone()) }
        }
    } else {
        left = active.to_vec();
    }
    if gone.len() < count {
        left.sort_by(|a, b| compare_plain(a, b));
        let more = count - gone.len();
        gone.extend(left.into_iter().take(more));
    }
    gone
}
