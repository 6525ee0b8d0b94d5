//! The four writes of a binding and the writes of phases (`pv_controller.go`: `bind`, `unbindVolume`,
//! `updateVolumePhase`, `updateClaimStatus`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};

use super::annotations::{BIND_COMPLETED, BOUND_BY_CONTROLLER};
use super::object::{
    annotate, annotation, capacity_bytes, claim_phase, name, refers_to, remove_annotation, volume_name, volume_phase,
    volume_spec,
};
use super::quantity;
use super::step::{Call, Step, SyncError};

/// Returns the next of the four writes that bind `volume` and `claim`; done after all.
pub fn bind(volume: &Arc<PersistentVolume>, claim: &Arc<PersistentVolumeClaim>) -> Step {
    if let Some(volume) = bind_volume_to_claim(volume, claim) {
        return Step::then_again(Call::ReplaceVolume(Box::new(volume)));
    }
    if let Some(volume) = with_phase(volume, "Bound", "") {
        return Step::then_again(Call::ReplaceVolumeStatus(Box::new(volume)));
    }
    if let Some(claim) = bind_claim_to_volume(claim, volume) {
        return Step::then_again(Call::ReplaceClaim(Box::new(claim)));
    }
    match with_status(claim, "Bound", Some(volume)) {
        Err(error) => Step::failed(error),
        Ok(None) => Step::done(),
        Ok(Some(claim)) => Step { call: Some(Call::ReplaceClaimStatus(Box::new(claim))), ..Step::default() },
    }
}

/// Builds a reference to a claim, like `ref.GetReference`.
pub fn claim_reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
        resource_version: claim.metadata.resource_version.clone(),
        field_path: None,
    }
}

/// Returns the volume with its claimRef, or None if it has it (`GetBindVolumeToClaim`).
pub fn bind_volume_to_claim(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<PersistentVolume> {
    // A claimRef without a uid was written by the user. A volume without a claimRef is bound by the controller.
    let by_controller = !refers_to(volume, claim);
    let complete = volume_spec(volume).claim_ref.as_ref().is_some_and(|reference| {
        reference.name == claim.metadata.name
            && reference.namespace == claim.metadata.namespace
            && reference.uid == claim.metadata.uid
    });
    let mark = by_controller && annotation(&volume.metadata, BOUND_BY_CONTROLLER).is_none();
    if complete && !mark {
        return None;
    }
    let mut volume = volume.clone();
    if !complete {
        volume.spec.get_or_insert_default().claim_ref = Some(claim_reference(claim));
    }
    if mark {
        annotate(&mut volume.metadata, BOUND_BY_CONTROLLER, "yes");
    }
    Some(volume)
}

fn bind_claim_to_volume(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<PersistentVolumeClaim> {
    let volume = name(&volume.metadata);
    let by_controller = volume_name(claim) != volume;
    let mark = by_controller && annotation(&claim.metadata, BOUND_BY_CONTROLLER).is_none();
    if !by_controller && !mark && annotation(&claim.metadata, BIND_COMPLETED).is_some() {
        return None;
    }
    let mut claim = claim.clone();
    if by_controller {
        claim.spec.get_or_insert_default().volume_name = Some(volume.to_owned());
    }
    if mark {
        annotate(&mut claim.metadata, BOUND_BY_CONTROLLER, "yes");
    }
    if annotation(&claim.metadata, BIND_COMPLETED).is_none() {
        annotate(&mut claim.metadata, BIND_COMPLETED, "yes");
    }
    Some(claim)
}

/// Returns the volume in another phase, or None if it is in that phase.
pub fn with_phase(volume: &PersistentVolume, phase: &str, message: &str) -> Option<PersistentVolume> {
    if volume_phase(volume) == phase {
        return None;
    }
    let mut volume = volume.clone();
    let status = volume.status.get_or_insert_default();
    status.phase = Some(phase.to_owned());
    status.message = (!message.is_empty()).then(|| message.to_owned());
    Some(volume)
}

/// Returns the claim with a phase and the fields from its volume, or None if it has both.
///
/// Capacity is written only when the claim enters the phase. Later a difference can be intended: the filesystem has not
/// grown yet.
///
/// # Errors
/// If the volume has no capacity.
pub fn with_status(
    claim: &PersistentVolumeClaim,
    phase: &str,
    volume: Option<&PersistentVolume>,
) -> Result<Option<PersistentVolumeClaim>, SyncError> {
    let entering = claim_phase(claim) != phase;
    let modes = volume.and_then(|v| volume_spec(v).access_modes.clone());
    let status = claim.status.as_ref();
    let same_modes = status.and_then(|s| s.access_modes.as_ref()) == modes.as_ref();
    let has_capacity = status.is_some_and(|s| s.capacity.is_some());
    let resets = volume.is_none() && has_capacity;
    if !entering && same_modes && !resets {
        return Ok(None);
    }
    let mut claim = claim.clone();
    let status = claim.status.get_or_insert_default();
    status.phase = Some(phase.to_owned());
    status.access_modes = modes;
    match volume {
        None => status.capacity = None,
        Some(volume) if entering => {
            let spec = volume_spec(volume);
            if !spec.capacity.as_ref().is_some_and(|c| c.contains_key("storage")) {
                return Err(SyncError::NoCapacity(name(&volume.metadata).to_owned()));
            }
            let have = status.capacity.as_ref().and_then(|c| c.get("storage")).map(quantity::value);
            if have != Some(capacity_bytes(volume)) {
                status.capacity = spec.capacity.clone();
            }
            if let Some(class) = spec.volume_attributes_class_name.clone().filter(|class| !class.is_empty()) {
                status.current_volume_attributes_class_name = Some(class);
            }
        }
        Some(_) => {}
    }
    Ok(Some(claim))
}

/// Returns the volume with the binding rolled back: free if the controller had bound it, reserved again if the user
/// had.
pub fn unbind(volume: &PersistentVolume) -> PersistentVolume {
    let mut volume = volume.clone();
    let by_controller = annotation(&volume.metadata, BOUND_BY_CONTROLLER).is_some();
    if let Some(spec) = &mut volume.spec {
        if by_controller {
            spec.claim_ref = None;
        } else if let Some(reference) = &mut spec.claim_ref {
            reference.uid = None;
        }
    }
    if by_controller {
        remove_annotation(&mut volume.metadata, BOUND_BY_CONTROLLER);
    }
    volume
}
