//! Rules for a claim (`pv_controller.go`: `syncClaim`, `syncUnboundClaim`, `syncBoundClaim`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::annotations::{
    BETA_STORAGE_PROVISIONER, BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, STORAGE_PROVISIONER,
};
use super::bind::{bind, with_status};
use super::cache::BinderCache;
use super::in_tree;
use super::matching::check_satisfies;
use super::object::{
    ClaimKey, annotate, annotation, capacity_bytes, claim_class, claim_has_class, claim_phase, name, refers_to, uid,
    volume_name, volume_spec,
};
use super::quantity;
use super::step::{About, Call, Notice, Step, SyncError};

/// Returns the next step for the claim `key`.
pub fn sync_claim(cache: &BinderCache, key: &ClaimKey) -> Step {
    let Some(claim) = cache.claim(key) else { return Step::done() };
    if let Some(claim) = in_tree::remarked_claim(claim) {
        return Step::then_again(Call::ReplaceClaim(Box::new(claim)));
    }
    if annotation(&claim.metadata, BIND_COMPLETED).is_some() {
        sync_bound(cache, claim)
    } else {
        sync_unbound(cache, key, claim)
    }
}

fn sync_unbound(cache: &BinderCache, key: &ClaimKey, claim: &Arc<PersistentVolumeClaim>) -> Step {
    if !volume_name(claim).is_empty() {
        return sync_requested(cache, claim);
    }
    let delay_binding = match delay_binding(cache, claim) {
        Ok(delay) => delay,
        Err(error) => return Step::failed(error),
    };
    if let Some(volume) = cache.best_match(claim, delay_binding) {
        return bind(&volume, claim);
    }
    if let Some(claim) = with_default_class(cache, claim) {
        // The informer delivers the update, and the sync of the claim starts again.
        return Step { call: Some(Call::ReplaceClaim(Box::new(claim))), ..Step::default() };
    }
    if delay_binding && annotation(&claim.metadata, SELECTED_NODE).is_none() {
        let (reason, message) = match cache.waiting_pods(key).as_slice() {
            [] => ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned()),
            [pod] => ("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
            pods => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
        };
        return pending(claim).notice_claim(claim, "Normal", reason, message);
    }
    if !claim_class(claim).is_empty() {
        return provision(cache, claim);
    }
    pending(claim).notice_claim(
        claim,
        "Normal",
        "FailedBinding",
        "no persistent volumes available for this claim and no storage class is set",
    )
}

/// Returns true if the scheduler, not the binder, picks a volume for the claim (`IsDelayBindingMode`).
fn delay_binding(cache: &BinderCache, claim: &PersistentVolumeClaim) -> Result<bool, SyncError> {
    match cache.class(claim_class(claim)) {
        None => Ok(false),
        Some(class) => match class.volume_binding_mode.as_deref() {
            Some(mode) => Ok(mode == "WaitForFirstConsumer"),
            None => Err(SyncError::NoBindingMode(name(&class.metadata).to_owned())),
        },
    }
}

/// Returns the claim with the default class, if it has none and one exists (`assignDefaultStorageClass`).
fn with_default_class(cache: &BinderCache, claim: &PersistentVolumeClaim) -> Option<PersistentVolumeClaim> {
    if claim_has_class(claim) {
        return None;
    }
    let class = cache.default_class()?;
    let mut claim = claim.clone();
    claim.spec.get_or_insert_default().storage_class_name = class.metadata.name.clone();
    Some(claim)
}

/// Requests a volume from the external provisioner (`provisionClaim`, `provisionClaimOperationExternal`).
fn provision(cache: &BinderCache, claim: &Arc<PersistentVolumeClaim>) -> Step {
    let Some(class) = cache.class(claim_class(claim)) else {
        let message = format!("storageclass.storage.k8s.io {:?} not found", claim_class(claim));
        return Step::done().notice_claim(claim, "Warning", "ProvisioningFailed", message);
    };
    if let Some(error) = in_tree::cannot_provision(&class.provisioner) {
        return Step::done().notice_claim(claim, "Warning", "ProvisioningFailed", error);
    }
    let provisioner = in_tree::driver_of(&class.provisioner).unwrap_or(class.provisioner.as_str());
    if annotation(&claim.metadata, STORAGE_PROVISIONER) != Some(provisioner) {
        let mut claim = PersistentVolumeClaim::clone(claim);
        annotate(&mut claim.metadata, BETA_STORAGE_PROVISIONER, provisioner);
        annotate(&mut claim.metadata, STORAGE_PROVISIONER, provisioner);
        in_tree::mark_migrated(&mut claim.metadata, provisioner);
        return Step::then_again(Call::ReplaceClaim(Box::new(claim)));
    }
    if provisioner == in_tree::HOST_PATH {
        // The flag `--enable-hostpath-provisioner` is off.
        let message =
            format!("Failed to create provisioner: provisioning in volume plugin {provisioner:?} is disabled");
        return Step::done().notice_claim(claim, "Warning", "ProvisioningFailed", message);
    }
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
         system administrator. If volume creation is delayed, please verify that the provisioner is running and \
         correctly registered."
    );
    Step::done().notice_claim(claim, "Normal", "ExternalProvisioning", message)
}

/// Handles an unbound claim that names a volume.
fn sync_requested(cache: &BinderCache, claim: &Arc<PersistentVolumeClaim>) -> Step {
    let wanted = volume_name(claim);
    let Some(volume) = cache.volume(wanted) else { return pending(claim) };
    let Some(reference) = &volume_spec(volume).claim_ref else {
        return match check_satisfies(volume, claim) {
            Ok(()) => bind(volume, claim),
            Err(_) if cache.trusts_names => bind(volume, claim),
            Err(why) => pending(claim).notice_claim(
                claim,
                "Warning",
                "VolumeMismatch",
                format!("Cannot bind to requested volume {wanted:?}: {why}"),
            ),
        };
    };
    if refers_to(volume, claim) {
        return bind(volume, claim);
    }
    let message = format!("volume {wanted:?} already bound to a different claim.");
    let step = if annotation(&claim.metadata, BOUND_BY_CONTROLLER).is_none() {
        // The user requested this volume; it may become free.
        pending(claim)
    } else {
        // The annotation bind-completed must have been removed from the claim.
        Step::failed(SyncError::InvalidBinding {
            claim: ClaimKey::of(claim).to_string(),
            volume: wanted.to_owned(),
            by: format!(
                "{}/{}",
                reference.namespace.as_deref().unwrap_or_default(),
                reference.name.as_deref().unwrap_or_default()
            ),
        })
    };
    step.notice_claim(claim, "Warning", "FailedBinding", message)
}

fn sync_bound(cache: &BinderCache, claim: &Arc<PersistentVolumeClaim>) -> Step {
    if volume_name(claim).is_empty() {
        let message = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        return lost(claim, "ClaimLost", message);
    }
    let Some(volume) = cache.volume(volume_name(claim)) else {
        return lost(claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    };
    match &volume_spec(volume).claim_ref {
        // An unbound volume, or one whose update has not arrived yet: the repair is the same.
        None => bind(volume, claim),
        Some(reference) if reference.uid.as_deref() == Some(uid(&claim.metadata)) => {
            let step = bind(volume, claim);
            if cache.copies_growth && step == Step::done() { grown(claim, volume) } else { step }
        }
        Some(_) => {
            lost(claim, "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
        }
    }
}

/// Writes the capacity of a volume that grew to its claim: a seeded bug.
fn grown(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Step {
    let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref()?.get("storage"));
    if capacity.map(quantity::value) == Some(capacity_bytes(volume)) {
        return Step::done();
    }
    let mut claim = claim.clone();
    claim.status.get_or_insert_default().capacity.clone_from(&volume_spec(volume).capacity);
    Step { call: Some(Call::ReplaceClaimStatus(Box::new(claim))), ..Step::default() }
}

/// Keeps or makes the claim Pending.
fn pending(claim: &PersistentVolumeClaim) -> Step {
    match with_status(claim, "Pending", None) {
        Ok(Some(claim)) => Step { call: Some(Call::ReplaceClaimStatus(Box::new(claim))), ..Step::default() },
        Ok(None) => Step::done(),
        Err(error) => Step::failed(error),
    }
}

/// Makes the claim Lost. The event comes with the change, not with every sync (`updateClaimStatusWithEvent`).
fn lost(claim: &Arc<PersistentVolumeClaim>, reason: &'static str, message: &str) -> Step {
    if claim_phase(claim) == "Lost" {
        return Step::done();
    }
    match with_status(claim, "Lost", None) {
        Ok(Some(changed)) => Step {
            call: Some(Call::ReplaceClaimStatus(Box::new(changed))),
            after: vec![Notice {
                about: About::Claim(claim.clone()),
                kind: "Warning",
                reason,
                message: message.to_owned(),
            }],
            ..Step::default()
        },
        Ok(None) => Step::done(),
        Err(error) => Step::failed(error),
    }
}
