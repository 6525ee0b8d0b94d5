//! VolumeRestrictions, NodeVolumeLimits and VolumeZone.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolume, Pod};

use super::cache::{CountedVolume, SchedulerCache, counted_volume};
use super::fit_error::{Plugin, Rejection};
use super::incoming::Others;
use super::inline_disks::{Disk, disks, taken};
use super::node_info::{NodeInfo, Placed};
use super::volume_binding::PodClaims;
use crate::binder::object::{ClaimKey, claim_modes, pod_claims};
use crate::binder::selectors::node_labels;
use crate::kube::Kind;

/// Topology labels of volumes and nodes, each with its older name.
const ZONE_LABELS: [(&str, &str); 2] = [
    ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
];

/// Results of these plugins' PreFilter for a pod.
#[derive(Clone, Debug, Default)]
pub struct PodVolumeFacts {
    /// ReadWriteOncePod claims of the pod.
    once_pod_claims: BTreeSet<ClaimKey>,
    /// Disks that the pod names itself.
    inline_disks: Vec<Disk>,
    /// Volumes of the pod, as limits count them.
    volumes: BTreeSet<CountedVolume>,
    /// Zone and region labels of its bound volumes, with the allowed values.
    zones: Vec<(&'static str, &'static str, Vec<String>)>,
}

impl PodVolumeFacts {
    /// Returns the number of ReadWriteOncePod claims that other pods use. A claim has one user at most.
    pub fn once_pod_uses(&self, cache: &SchedulerCache) -> i64 {
        self.once_pod_claims.iter().map(|claim| i64::from(cache.is_used(claim))).sum()
    }

    /// Returns the number of these claims that a pod uses.
    pub fn once_pod_uses_of(&self, placed: &Placed) -> i64 {
        placed.claims.iter().map(|claim| i64::from(self.once_pod_claims.contains(claim))).sum()
    }
}

/// Evaluates the pod before any node.
pub fn pre_filter(cache: &SchedulerCache, pod: &Pod, claims: &PodClaims) -> PodVolumeFacts {
    let mut facts = PodVolumeFacts::default();
    for (name, _) in pod_claims(pod) {
        let key = ClaimKey::new(pod.namespace(), &name);
        let Some(claim) = cache.claims.get(&key) else { continue };
        let once_pod = claim_modes(claim).iter().any(|mode| mode == "ReadWriteOncePod");
        facts.volumes.extend(cache.counted(&key));
        if once_pod && !cache.seeded_bugs.ignores_once_pod {
            facts.once_pod_claims.insert(key);
        }
    }
    facts.inline_disks = disks(pod).collect();
    for volume in claims.bound.iter().flatten() {
        facts.zones.extend(zones(volume));
    }
    facts
}

/// Returns the zone and region labels of a volume, each with its older name and the allowed values.
pub fn zones(volume: &PersistentVolume) -> Vec<(&'static str, &'static str, Vec<String>)> {
    let label = |key: &str| volume.label(key);
    let allowed = |(key, old): (&'static str, &'static str)| {
        // Several zones are joined by two underscores.
        let value = label(key).or_else(|| label(old))?;
        Some((key, old, value.split("__").map(str::to_owned).collect()))
    };
    ZONE_LABELS.into_iter().filter_map(allowed).collect()
}

/// Applies VolumeRestrictions.
///
/// # Errors
/// The rejection.
pub fn restrictions(facts: &PodVolumeFacts, others: &Others, info: &NodeInfo) -> Result<(), Rejection> {
    if info.pods.values().any(|placed| taken(&facts.inline_disks, &placed.pod)) {
        return Err(Rejection::resolvable(Plugin::VolumeRestrictions, "node(s) had no available disk"));
    }
    if others.once_pod_uses > 0 {
        return Err(Rejection::resolvable(
            Plugin::VolumeRestrictions,
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
             another pod",
        ));
    }
    Ok(())
}

/// Returns true if the driver must be on a node before pods with its volumes go there, and is not
/// (`checkCSIDriverOnNode`).
fn is_missing(cache: &SchedulerCache, driver: &str, info: &NodeInfo) -> bool {
    let prevents = cache.drivers.get(driver).is_some_and(|d| d.spec.prevent_pod_scheduling_if_missing == Some(true));
    prevents && info.drivers.as_ref().is_none_or(|drivers| !drivers.contains(driver))
}

/// Applies NodeVolumeLimits: the node's volumes, each counted once, plus the pod's must stay within the limits of its
/// CSINode. Without a CSINode, without the driver in it, or without a count there is no limit (kubernetes#95911), unless
/// the CSIDriver prevents pods on such nodes. Attachments count as long as they exist, so the preemption of a pod whose
/// volume is attached makes no room at once.
///
/// # Errors
/// The rejection.
pub fn limits(cache: &SchedulerCache, facts: &PodVolumeFacts, info: &NodeInfo) -> Result<(), Rejection> {
    if let Some(volume) = facts.volumes.iter().find(|volume| is_missing(cache, &volume.driver, info)) {
        let reason = format!("{} CSI driver is not installed on the node", volume.driver);
        let reasons = [reason.into()];
        return Rejection::of(Plugin::NodeVolumeLimits, reasons, false).map_or(Ok(()), Err);
    }
    let limited = |volume: &&CountedVolume| info.limits.contains_key(volume.driver.as_str());
    let adds: Vec<&CountedVolume> = facts.volumes.iter().filter(limited).collect();
    let Some(least) = adds.iter().filter_map(|volume| info.limits.get(volume.driver.as_str())).min() else {
        return Ok(());
    };
    // Fast path: on most nodes even an overcount of all uses and attachments is within the limit.
    let at_most = info.claim_uses + info.attachments.len() + adds.len();
    if i64::try_from(at_most).is_ok_and(|n| n <= *least) {
        return Ok(());
    }
    let used = used_volumes(cache, info);
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for volume in &used {
        *counts.entry(&volume.driver).or_default() += 1;
    }
    if cache.seeded_bugs.counts_each_use {
        let mut seen = BTreeSet::new();
        for volume in info.pods.values().flat_map(|placed| &placed.claims).filter_map(|claim| cache.counted(claim)) {
            let again = seen.replace(volume.clone()).is_some();
            if let Some(count) = counts.get_mut(volume.driver.as_str()).filter(|_| again) {
                *count += 1;
            }
        }
    }
    let mut exceeded = false;
    for volume in adds.into_iter().filter(|volume| !used.contains(volume)) {
        let count = counts.entry(&volume.driver).or_default();
        *count += 1;
        let more = i64::from(cache.seeded_bugs.one_too_many);
        exceeded |= info.limits.get(volume.driver.as_str()).is_some_and(|limit| *count > *limit + more);
    }
    if exceeded && !cache.seeded_bugs.ignores_limits {
        return Err(Rejection::resolvable(Plugin::NodeVolumeLimits, "node(s) exceed max volume count"));
    }
    Ok(())
}

/// Returns the volumes on a node: those of its pods, and those that are still attached.
pub fn used_volumes(cache: &SchedulerCache, info: &NodeInfo) -> BTreeSet<CountedVolume> {
    let by_pods = info.pods.values().flat_map(|placed| &placed.claims).filter_map(|claim| cache.counted(claim));
    let counted = !cache.seeded_bugs.ignores_attachments;
    let attached = info.attachments.values().filter(|_| counted);
    let attached = attached.filter_map(|name| counted_volume(cache.volumes.get(name)?));
    by_pods.chain(attached).collect()
}

/// Applies VolumeZone: the node must match the volume's labels. A node without such labels passes.
///
/// # Errors
/// The rejection.
pub fn zone(facts: &PodVolumeFacts, info: &NodeInfo) -> Result<(), Rejection> {
    let Some(node) = info.node.as_ref().filter(|_| !facts.zones.is_empty()) else { return Ok(()) };
    let labels = node_labels(node);
    let get = |(key, old): (&str, &str)| labels.get(key).or_else(|| labels.get(old));
    if ZONE_LABELS.into_iter().all(|keys| get(keys).is_none()) {
        return Ok(());
    }
    let matches =
        |(key, old, allowed): &(&str, &str, Vec<String>)| get((key, old)).is_some_and(|value| allowed.contains(value));
    if facts.zones.iter().all(matches) {
        return Ok(());
    }
    Err(Rejection::hopeless(Plugin::VolumeZone, "node(s) had no available volume zone"))
}
