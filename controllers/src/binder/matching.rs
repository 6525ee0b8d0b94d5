//! Matching of volumes and claims (component-helpers `storage/volume/pv_helpers.go`, `FindMatchingVolume`).
//!
//! The binder matches without a node, the scheduler for each node. [`candidates`] applies all rules that do not depend
//! on the node; the scheduler then only checks node affinities.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::object::{
    access_modes_satisfied, attributes_classes_agree, capacity_bytes, claim_class, name, refers_to, requested_bytes,
    volume_class, volume_modes_differ, volume_phase, volume_spec,
};
use super::selectors::{Labels, check_node_affinity, label_selector_matches};

/// Volumes that a claim may get, regardless of the node.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// Volume that is reserved for this claim. If set, no other volume is considered.
    pub reserved: Option<Arc<PersistentVolume>>,
    /// Matching Available volumes, smallest first, ties by name.
    pub free: Vec<Arc<PersistentVolume>>,
}

/// Selects the volumes that match `claim`.
pub fn candidates<'a>(
    claim: &PersistentVolumeClaim,
    volumes: impl Iterator<Item = &'a Arc<PersistentVolume>>,
) -> Candidates {
    let requested = requested_bytes(claim);
    let class = claim_class(claim);
    let selector = claim.spec.as_ref().and_then(|s| s.selector.as_ref());
    let mut found = Candidates::default();
    let mut free = Vec::new();
    for volume in volumes {
        let ours = refers_to(volume, claim);
        if volume_spec(volume).claim_ref.is_some() && !ours
            || capacity_bytes(volume) < requested
            || volume_modes_differ(claim, volume)
            || !attributes_classes_agree(claim, volume)
            || volume.metadata.deletion_timestamp.is_some()
        {
            continue;
        }
        if ours {
            found.reserved.get_or_insert_with(|| volume.clone());
            continue;
        }
        if volume_phase(volume) != "Available"
            || selector.is_some_and(|s| !label_selector_matches(s, volume.metadata.labels.as_ref()))
            || volume_class(volume) != class
        {
            continue;
        }
        free.push((capacity_bytes(volume), volume.clone()));
    }
    free.sort_by(|a, b| (a.0, name(&a.1.metadata)).cmp(&(b.0, name(&b.1.metadata))));
    found.free = free.into_iter().map(|(_, volume)| volume).collect();
    found
}

impl Candidates {
    /// Returns the volume for this claim on a node with `labels`, without those that are `taken` by other claims of the
    /// same pod.
    pub fn on_node(
        &self,
        claim: &PersistentVolumeClaim,
        labels: &Labels,
        taken: impl Fn(&str) -> bool,
    ) -> Option<&Arc<PersistentVolume>> {
        if let Some(reserved) = self.reserved.as_ref().filter(|v| !taken(name(&v.metadata))) {
            // If the node cannot use the reserved volume, the node does not suit the claim.
            return check_node_affinity(reserved, labels).is_ok().then_some(reserved);
        }
        self.free.iter().find(|volume| {
            !taken(name(&volume.metadata))
                && access_modes_satisfied(claim, volume)
                && check_node_affinity(volume, labels).is_ok()
        })
    }
}

/// Returns the best match without a node, as the binder does: the reserved volume, or the smallest of those with the
/// fewest access modes beyond the claim's. With `delay_binding` only a reserved one is considered
/// (`findBestMatchForClaim`).
pub fn best_match<'a>(
    claim: &PersistentVolumeClaim,
    volumes: impl Iterator<Item = &'a Arc<PersistentVolume>>,
    delay_binding: bool,
) -> Option<Arc<PersistentVolume>> {
    // Upstream's index by access modes hides volumes that lack a mode, including reserved ones.
    let found = candidates(claim, volumes.filter(|volume| access_modes_satisfied(claim, volume)));
    if let Some(reserved) = found.reserved {
        return Some(reserved);
    }
    if delay_binding {
        return None;
    }
    let modes = |volume: &Arc<PersistentVolume>| volume_spec(volume).access_modes.as_ref().map_or(0, Vec::len);
    // `min_by_key` returns the first of equals, and `free` is sorted by size and name.
    found.free.into_iter().min_by_key(modes)
}

/// Reason why the volume that a claim names cannot be bound to it (`checkVolumeSatisfyClaim`).
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum Mismatch {
    /// the volume is marked for deletion {0:?}
    Deleting(String),
    /// requested PV is too small
    TooSmall,
    /// storageClassName does not match
    Class,
    /// volumeAttributesClassName does not match
    AttributesClass,
    /// incompatible volumeMode
    VolumeMode,
    /// incompatible accessMode
    AccessMode,
}

/// Checks the volume that a claim names.
///
/// # Errors
/// The first rule that the volume breaks.
pub fn check_satisfies(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Result<(), Mismatch> {
    if volume.metadata.deletion_timestamp.is_some() {
        return Err(Mismatch::Deleting(name(&volume.metadata).to_owned()));
    }
    if capacity_bytes(volume) < requested_bytes(claim) {
        return Err(Mismatch::TooSmall);
    }
    if volume_class(volume) != claim_class(claim) {
        return Err(Mismatch::Class);
    }
    if !attributes_classes_agree(claim, volume) {
        return Err(Mismatch::AttributesClass);
    }
    if volume_modes_differ(claim, volume) {
        return Err(Mismatch::VolumeMode);
    }
    if !access_modes_satisfied(claim, volume) {
        return Err(Mismatch::AccessMode);
    }
    Ok(())
}
