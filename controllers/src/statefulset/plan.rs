//! Decisions about the pods of a set (`processReplica`, `processCondemned`, `updateStatefulSet`): pure functions of the
//! observed pods and claims.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::identity::{
    Ordinals, claim_name, claim_templates, claims, identity_matches, is_created, is_running_and_ready, is_unavailable,
    new_pod, ordinal, pod_revision, storage_matches,
};
use super::ownership::{Retention, has_stale_owner, is_up_to_date};
use super::status::strategy;
use crate::kube::Kind;
use crate::pod_status::phase;
use crate::workload::availability::{is_available, is_terminal};

/// Lookup of a claim of the set's namespace in the cache.
pub(super) type Claims<'a> = &'a (dyn Fn(&str) -> Option<Arc<PersistentVolumeClaim>> + Sync);

/// A set at its two revisions.
#[derive(Debug)]
pub(super) struct Sets {
    /// The set as observed.
    pub(super) set: StatefulSet,
    /// The set with the template of the current revision.
    pub(super) current: StatefulSet,
    /// The set with the template of the update revision.
    pub(super) update: StatefulSet,
    /// Name of the current revision.
    pub(super) current_revision: String,
    /// Name of the update revision.
    pub(super) update_revision: String,
}

/// Pods of a set by their place.
#[derive(Debug)]
pub(super) struct Places {
    /// Pod of each ordinal; a pod without a phase does not exist yet.
    pub(super) replicas: Vec<Arc<Pod>>,
    /// Pods outside the range, the highest ordinal first.
    pub(super) condemned: Vec<Arc<Pod>>,
    /// Uid of the first unavailable pod, in the order of ordinals.
    first_unavailable: Option<String>,
}

/// A write for one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// Delete the pod.
    Delete,
    /// Create the pod and its claims.
    Create,
    /// Create the claims that are missing.
    CreateMissingClaims,
    /// Correct identity, volumes and owners of the claims.
    Update,
    /// Correct the owners of the claims of a pod outside the range.
    UpdateClaims,
}

/// Decision about one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Writes, in this order.
    pub(super) writes: Vec<Write>,
    /// If set, an ordered set goes no further in this round.
    pub(super) blocks: bool,
}

impl Step {
    fn blocking(write: Option<Write>) -> Self {
        Self { writes: write.into_iter().collect(), blocks: true }
    }
}

fn min_ready_seconds(spec: &StatefulSetSpec) -> i32 {
    spec.min_ready_seconds.unwrap_or(0)
}

/// Returns true if the set works on one pod after the other.
pub(super) fn is_monotonic(spec: &StatefulSetSpec) -> bool {
    spec.pod_management_policy.as_deref() != Some("Parallel")
}

/// Places the pods, and adds the pods to create (`newVersionedStatefulSetPod`).
pub(super) fn places(sets: &Sets, spec: &StatefulSetSpec, pods: &[Arc<Pod>], now: Timestamp) -> Places {
    let range = Ordinals::of(spec);
    let (mut inside, mut condemned) = (std::collections::BTreeMap::new(), Vec::new());
    for pod in pods {
        let Some(ordinal) = ordinal(pod) else { continue };
        if range.contain(pod) {
            inside.insert(ordinal, pod.clone());
        } else {
            condemned.push(pod.clone());
        }
    }
    let of_current = current_until(&sets.current, spec, range);
    let build = |ordinal: i32| {
        let (set, revision) = if ordinal < of_current {
            (&sets.current, &sets.current_revision)
        } else {
            (&sets.update, &sets.update_revision)
        };
        new_pod(set, revision, ordinal).map(Arc::new)
    };
    let replicas: Vec<Arc<Pod>> =
        range.iter().filter_map(|ordinal| inside.remove(&ordinal).or_else(|| build(ordinal))).collect();
    condemned.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
    let first_unavailable = replicas
        .iter()
        .chain(condemned.iter().rev())
        .find(|pod| is_unavailable(pod, min_ready_seconds(spec), now))
        .map(|pod| pod.uid().to_owned());
    Places { replicas, condemned, first_unavailable }
}

/// Returns the ordinal below which a new pod gets the current revision.
fn current_until(current: &StatefulSet, spec: &StatefulSetSpec, range: Ordinals) -> i32 {
    if strategy(spec) != "RollingUpdate" {
        return i32::MIN;
    }
    let rolling = spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let count = match rolling {
        Some(rolling) => rolling.partition.unwrap_or(0),
        None => current.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0),
    };
    range.start + count
}

/// Returns true if the owners of the pod's claims are those of the policy (`ClaimsMatchRetentionPolicy`). A missing
/// claim is left to a later round.
pub(super) fn claims_match(set: &StatefulSet, pod: &Pod, cached: Claims<'_>) -> bool {
    let Some(ordinal) = ordinal(pod) else { return true };
    claim_templates(set).iter().all(|template| {
        let claim = cached(&claim_name(set, template, ordinal));
        claim.is_none_or(|claim| is_up_to_date(&claim, set, pod))
    })
}

/// Returns true if a claim of a pod to be created still belongs to the pod before it (`PodClaimIsStale`): the garbage
/// collector will delete the claim.
fn claim_is_stale(set: &StatefulSet, pod: &Pod, cached: Claims<'_>) -> bool {
    Retention::of(set).with_pod
        && claims(set, pod).iter().any(|claim| cached(claim.name()).is_some_and(|found| has_stale_owner(&found, pod)))
}

/// Decides about the pod of one ordinal (`processReplica`).
pub(super) fn replica(sets: &Sets, spec: &StatefulSetSpec, pod: &Pod, cached: Claims<'_>, now: Timestamp) -> Step {
    let monotonic = is_monotonic(spec);
    // The next round creates the pod again, once it is gone.
    if is_terminal(pod) {
        return Step::blocking((!pod.is_deleting()).then_some(Write::Delete));
    }
    let mut writes = Vec::new();
    if !is_created(pod) {
        if claim_is_stale(&sets.set, pod, cached) {
            return Step::blocking(None);
        }
        if monotonic {
            return Step::blocking(Some(Write::Create));
        }
        writes.push(Write::Create);
    }
    if phase(pod) == "Pending" {
        writes.push(Write::CreateMissingClaims);
    }
    let min_ready = min_ready_seconds(spec);
    if monotonic && (pod.is_deleting() || !is_running_and_ready(pod) || !is_available(pod, min_ready, now)) {
        return Step { writes, blocks: true };
    }
    let is_consistent = identity_matches(&sets.set, pod)
        && storage_matches(&sets.set, pod)
        // The claims of a new pod were corrected with its creation.
        && (!is_created(pod) || claims_match(&sets.update, pod, cached));
    if !is_consistent {
        writes.push(Write::Update);
    }
    Step { writes, blocks: false }
}

/// Decides about the claims of a pod outside the range.
pub(super) fn condemned_claims(sets: &Sets, pod: &Pod, cached: Claims<'_>) -> Step {
    let writes = if claims_match(&sets.update, pod, cached) { Vec::new() } else { vec![Write::UpdateClaims] };
    Step { writes, blocks: false }
}

/// Decides about a pod outside the range (`processCondemned`).
pub(super) fn condemned(spec: &StatefulSetSpec, places: &Places, pod: &Pod, now: Timestamp) -> Step {
    let monotonic = is_monotonic(spec);
    if pod.is_deleting() {
        return Step { writes: Vec::new(), blocks: monotonic };
    }
    let is_first_unavailable = places.first_unavailable.as_deref() == Some(pod.uid());
    let is_healthy = is_running_and_ready(pod) && is_available(pod, min_ready_seconds(spec), now);
    if monotonic && !is_healthy && !is_first_unavailable {
        return Step::blocking(None);
    }
    Step::blocking(Some(Write::Delete))
}

/// Returns the place of the pod to delete for a rolling update (`updateStatefulSet`): the highest ordinal that is not at
/// the update revision, unless a pod above it is unavailable. Kubernetes 1.36 ignores maxUnavailable, because the feature
/// `MaxUnavailableStatefulSet` is off.
pub(super) fn outdated(sets: &Sets, spec: &StatefulSetSpec, places: &Places, now: Timestamp) -> Option<usize> {
    if strategy(spec) == "OnDelete" {
        return None;
    }
    let rolling = spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
    let update_min = usize::try_from(partition).unwrap_or(0);
    let is_old = |pod: &Pod| pod_revision(pod) != sets.update_revision && !pod.is_deleting();
    let stops = |at: &usize| {
        let pod = &places.replicas[*at];
        is_old(pod) || is_unavailable(pod, min_ready_seconds(spec), now)
    };
    let found = (update_min..places.replicas.len()).rev().find(stops)?;
    is_old(&places.replicas[found]).then_some(found)
}

/// Decides about a pod outside the range without regard to the others: a seeded bug.
pub(super) fn condemned_at_once(pod: &Pod) -> Step {
    Step { writes: if pod.is_deleting() { Vec::new() } else { vec![Write::Delete] }, blocks: false }
}

/// Returns a spec whose rolling update concerns all pods: a seeded bug.
pub(super) fn without_partition(spec: &StatefulSetSpec) -> StatefulSetSpec {
    let mut spec = spec.clone();
    if let Some(rolling) = spec.update_strategy.as_mut().and_then(|strategy| strategy.rolling_update.as_mut()) {
        rolling.partition = None;
    }
    spec
}

/// Returns a spec whose partition is counted from ordinal 0: a seeded bug.
pub(super) fn partition_from_zero(spec: &StatefulSetSpec) -> StatefulSetSpec {
    let mut spec = spec.clone();
    let start = Ordinals::of(&spec).start;
    if let Some(rolling) = spec.update_strategy.as_mut().and_then(|strategy| strategy.rolling_update.as_mut()) {
        rolling.partition = rolling.partition.map(|partition| partition - start);
    }
    spec
}

/// Returns the places of all pods that are not at the update revision, for seeded bugs.
pub(super) fn all_outdated(sets: &Sets, places: &Places) -> impl DoubleEndedIterator<Item = usize> {
    let is_old = |pod: &Pod| is_created(pod) && pod_revision(pod) != sets.update_revision && !pod.is_deleting();
    (0..places.replicas.len()).filter(move |at| is_old(&places.replicas[*at]))
}
