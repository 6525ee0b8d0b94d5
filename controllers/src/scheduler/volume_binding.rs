//! VolumeBinding: checks a pod's claims against a node, and computes the writes for that node
//! (`plugins/volumebinding`).

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::cache::SchedulerCache;
use super::fit_error::{Plugin, Rejection};
use super::node_info::NodeInfo;
use crate::binder::annotations::SELECTED_NODE;
use crate::binder::bind::bind_volume_to_claim;
use crate::binder::matching::{Candidates, candidates};
use crate::binder::object::{
    ClaimKey, annotate, annotation, claim_class, claim_phase, fully_bound, pod_claims, requested_bytes, volume_name,
};
use crate::binder::quantity;
use crate::binder::selectors::{Labels, check_node_affinity, label_selector_matches, node_labels, topology_allowed};
use crate::kube::Kind;

/// Result of PreFilter for a pod's claims; independent of the node.
#[derive(Clone, Debug, Default)]
pub struct PodClaims {
    /// Bound claims with their volumes, if those exist.
    pub bound: Vec<Option<Arc<PersistentVolume>>>,
    /// Claims that wait for this pod, smallest request first, with the volumes that they could get.
    waiting: Vec<Waiting>,
}

#[derive(Clone, Debug)]
struct Waiting {
    claim: Arc<PersistentVolumeClaim>,
    candidates: Candidates,
}

/// Writes for a pod that goes to a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodVolumes {
    /// Volumes to reserve for claims.
    pub static_bindings: Vec<(Arc<PersistentVolume>, Arc<PersistentVolumeClaim>)>,
    /// Claims to provision on the node.
    pub provisions: Vec<Arc<PersistentVolumeClaim>>,
}

impl PodVolumes {
    /// Returns true if there is no write.
    pub fn is_empty(&self) -> bool {
        self.static_bindings.is_empty() && self.provisions.is_empty()
    }
}

/// Returns the name of a claim of the pod that does not exist. The claims of ephemeral volumes do not count
/// (`VolumeRestrictions.PreFilter`).
pub fn missing_claim(cache: &SchedulerCache, pod: &Pod) -> Option<String> {
    let is_missing = |name: &String| cache.claims.get(&ClaimKey::new(pod.namespace(), name)).is_none();
    pod_claims(pod).filter(|(_, ephemeral)| !ephemeral).map(|(name, _)| name).find(is_missing)
}

/// Evaluates the pod's claims before any node.
///
/// # Errors
/// The reason why the pod cannot be scheduled.
pub fn pre_filter(cache: &SchedulerCache, pod: &Pod) -> Result<PodClaims, String> {
    let mut claims = PodClaims::default();
    let mut immediate = false;
    for (name, ephemeral) in pod_claims(pod) {
        let Some(claim) = cache.claims.get(&ClaimKey::new(pod.namespace(), &name)) else {
            return Err(if ephemeral {
                format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}")
            } else {
                format!("persistentvolumeclaim {name:?} not found")
            });
        };
        if claim_phase(claim) == "Lost" {
            let volume = volume_name(claim);
            return Err(format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"));
        }
        if claim.is_deleting() {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        if ephemeral && !owned_by(claim, pod) && !cache.seeded_bugs.takes_foreign_claims {
            return Err(format!(
                "PVC {}/{name} was not created for pod {}/{} (pod is not owner)",
                pod.namespace(),
                pod.namespace(),
                pod.name()
            ));
        }
        if fully_bound(claim) {
            claims.bound.push(cache.volumes.get(volume_name(claim)).cloned());
        } else if volume_name(claim).is_empty() && waits_for_consumer(cache, claim) {
            let candidates = if annotation(&claim.metadata, SELECTED_NODE).is_some() {
                Candidates::default()
            } else {
                candidates(claim, cache.volumes_for(claim))
            };
            claims.waiting.push(Waiting { claim: claim.clone(), candidates });
        } else {
            immediate = true;
        }
    }
    if immediate {
        return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
    }
    // The smallest requests choose first, so that larger volumes remain for larger ones; the sort is stable.
    claims.waiting.sort_by_key(|waiting| requested_bytes(&waiting.claim));
    Ok(claims)
}

fn owned_by(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    claim.metadata.owner_references.iter().flatten().any(|o| o.controller == Some(true) && o.uid == pod.uid())
}

fn waits_for_consumer(cache: &SchedulerCache, claim: &PersistentVolumeClaim) -> bool {
    let class = cache.classes.get(claim_class(claim));
    class.is_some_and(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"))
}

/// Checks the pod's claims against the node, and returns the writes.
///
/// # Errors
/// The reasons for a rejection.
pub fn filter(cache: &SchedulerCache, claims: &PodClaims, info: &NodeInfo) -> Result<PodVolumes, Rejection> {
    let Some(node) = &info.node else { return Ok(PodVolumes::default()) };
    let labels = node_labels(node);
    let mut reasons = Vec::new();
    match bound_claims(claims, labels) {
        Bound::Conflict if cache.seeded_bugs.ignores_zones => {}
        Bound::Fine => {}
        Bound::Conflict => reasons.push("node(s) didn't match PersistentVolume's node affinity"),
        Bound::Missing => reasons.push("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
    }
    let found = unbound_claims(cache, claims, node.name(), labels);
    match &found {
        Ok(_) => {}
        // Upstream lists the reasons in this order: conflict, no volume, no space, missing volume.
        Err(reason) if reasons.first().is_some_and(|r| r.starts_with("node(s) unavailable")) => {
            reasons.insert(0, reason);
        }
        Err(reason) => reasons.push(reason),
    }
    Rejection::of(Plugin::VolumeBinding, reasons.into_iter().map(Into::into), true)
        .map_or_else(|| Ok(found.unwrap_or_default()), Err)
}

enum Bound {
    Fine,
    Conflict,
    Missing,
}

fn bound_claims(claims: &PodClaims, labels: &Labels) -> Bound {
    for volume in &claims.bound {
        match volume {
            None => return Bound::Missing,
            Some(volume) if check_node_affinity(volume, labels).is_err() => return Bound::Conflict,
            Some(_) => {}
        }
    }
    Bound::Fine
}

fn unbound_claims(
    cache: &SchedulerCache,
    claims: &PodClaims,
    node: &str,
    labels: &Labels,
) -> Result<PodVolumes, &'static str> {
    const NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";
    let mut volumes = PodVolumes::default();
    let mut to_provision = Vec::new();
    for Waiting { claim, .. } in &claims.waiting {
        // A claim with another selected node stays there.
        match annotation(&claim.metadata, SELECTED_NODE) {
            Some(selected) if selected != node => return Err(NO_VOLUME),
            Some(_) => to_provision.push(claim),
            None => {}
        }
    }
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for Waiting { claim, candidates } in &claims.waiting {
        if annotation(&claim.metadata, SELECTED_NODE).is_some() {
            continue;
        }
        match candidates.on_node(claim, labels, |name| taken.contains(name)) {
            Some(volume) => {
                taken.insert(volume.name().to_owned());
                volumes.static_bindings.push((volume.clone(), claim.clone()));
            }
            None => to_provision.push(claim),
        }
    }
    for claim in to_provision {
        let Some(class) = cache.classes.get(claim_class(claim)) else { return Err(NO_VOLUME) };
        let provisioner = class.provisioner.as_str();
        if matches!(provisioner, "" | "kubernetes.io/no-provisioner")
            || !topology_allowed(class.allowed_topologies.as_deref(), labels)
        {
            return Err(NO_VOLUME);
        }
        if !enough_capacity(cache, claim, class.name(), provisioner, labels) {
            return Err("node(s) did not have enough free storage");
        }
        volumes.provisions.push(claim.clone());
    }
    Ok(volumes)
}

/// Returns the largest volume that a published capacity allows (`capacitySufficient`).
pub fn volume_limit(capacity: &CSIStorageCapacity) -> Option<&Quantity> {
    capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref())
}

/// Returns true if a published capacity suffices (`hasEnoughCapacity`). Applies only to drivers that opt in.
fn enough_capacity(
    cache: &SchedulerCache,
    claim: &PersistentVolumeClaim,
    class: &str,
    provisioner: &str,
    labels: &Labels,
) -> bool {
    if cache.seeded_bugs.ignores_capacity
        || cache.drivers.get(provisioner).is_none_or(|d| d.spec.storage_capacity != Some(true))
    {
        return true;
    }
    let size = requested_bytes(claim);
    cache.capacities.values().any(|capacity| {
        let limit = volume_limit(capacity);
        capacity.storage_class_name == class
            && limit.is_some_and(|limit| quantity::value(limit) >= size)
            && capacity.node_topology.as_ref().is_some_and(|topology| label_selector_matches(topology, Some(labels)))
    })
}

/// Stores the pending writes in the caches, and returns those objects (`AssumePodVolumes`).
pub fn reserve(cache: &mut SchedulerCache, volumes: &PodVolumes, node: &str) -> PodVolumes {
    let mut assumed = PodVolumes::default();
    for (volume, claim) in &volumes.static_bindings {
        let volume = match bind_volume_to_claim(volume, claim) {
            Some(changed) => {
                let changed = Arc::new(changed);
                cache.volumes.assume(&changed.name().to_owned(), changed.clone());
                changed
            }
            None => volume.clone(),
        };
        assumed.static_bindings.push((volume, claim.clone()));
    }
    for claim in &volumes.provisions {
        let mut changed = PersistentVolumeClaim::clone(claim);
        annotate(&mut changed.metadata, SELECTED_NODE, node);
        let changed = Arc::new(changed);
        cache.claims.assume(&ClaimKey::of(&changed), changed.clone());
        assumed.provisions.push(changed);
    }
    assumed
}

/// Reverts the assumptions (`RevertAssumedPodVolumes`).
pub fn unreserve(cache: &mut SchedulerCache, volumes: &PodVolumes) {
    if cache.seeded_bugs.keeps_assumed {
        return;
    }
    for (volume, _) in &volumes.static_bindings {
        cache.volumes.restore(&volume.name().to_owned());
    }
    for claim in &volumes.provisions {
        cache.claims.restore(&ClaimKey::of(claim));
    }
}
