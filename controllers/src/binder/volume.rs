//! Rules for a volume (`pv_controller.go`: `syncVolume`, `reclaimVolume`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::annotations::{MIGRATED_TO, PROVISIONED_BY};
use super::bind::{unbind, with_phase};
use super::cache::BinderCache;
use super::in_tree::{self, Deleter};
use super::object::{ClaimKey, annotation, name, uid, volume_modes_differ, volume_name, volume_phase, volume_spec};
use super::step::{About, Call, Notice, Step};

/// Result of a GET of the claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Live {
    /// Not requested.
    #[default]
    NotAsked,
    /// The claim does not exist.
    Missing,
    /// The claim.
    Found(Arc<PersistentVolumeClaim>),
}

/// Returns the next step for the volume `name`. A step with [`Call::ReadClaim`] must be followed by a call with its
/// answer.
pub fn sync_volume(cache: &BinderCache, name: &str, live: &Live) -> Step {
    let Some(volume) = cache.volume(name) else { return Step::done() };
    if let Some(volume) = in_tree::remarked_volume(volume) {
        return Step::then_again(Call::ReplaceVolume(Box::new(volume)));
    }
    let Some(reference) = &volume_spec(volume).claim_ref else { return phase(volume, "Available") };
    let claim_uid = reference.uid.as_deref().unwrap_or_default();
    if claim_uid.is_empty() {
        // Reserved by the user for a claim that is not bound to it yet.
        return phase(volume, "Available");
    }
    let Some(key) = ClaimKey::of_volume(volume) else { return Step::done() };
    let is_same = |claim: &PersistentVolumeClaim| cache.ignores_uids || uid(&claim.metadata) == claim_uid;
    let given_up = matches!(volume_phase(volume), "Released" | "Failed");
    let claim = match (cache.claim(&key), live) {
        // A claim with the right uid in the cache is sufficient.
        (Some(claim), _) if is_same(claim) => Some(claim),
        // Otherwise the cache may be stale, and a wrong release loses data: ask the API server. The absence from the
        // cache is trusted only if the volume was released before.
        (None, Live::NotAsked) if given_up => None,
        (_, Live::NotAsked) => return Step { call: Some(Call::ReadClaim(key)), again: true, ..Step::default() },
        (_, Live::Found(claim)) if is_same(claim) => Some(claim),
        (_, Live::Found(_) | Live::Missing) => None,
    };
    match claim {
        None if cache.offers_released && policy(volume) == "Retain" && given_up => {
            Step::then_again(Call::ReplaceVolume(Box::new(unbind(volume))))
        }
        None => release(volume),
        Some(claim) => sync_with_claim(volume, &key, claim, cache.keeps_unneeded),
    }
}

/// Syncs a volume whose claim exists. Seeded bug: `keeps_unneeded` never releases it.
fn sync_with_claim(
    volume: &Arc<PersistentVolume>,
    key: &ClaimKey,
    claim: &Arc<PersistentVolumeClaim>,
    keeps_unneeded: bool,
) -> Step {
    if volume_name(claim).is_empty() {
        if volume_modes_differ(claim, volume) {
            // The claim's own sync would never consider this volume, so both sides get an event here.
            return Step::done()
                .notice_volume(
                    volume,
                    "Warning",
                    "VolumeMismatch",
                    format!(
                        "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible \
                         volumeMode.",
                        key.name
                    ),
                )
                .notice_claim(
                    claim,
                    "Warning",
                    "VolumeMismatch",
                    format!(
                        "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to incompatible \
                         volumeMode.",
                        name(&volume.metadata)
                    ),
                );
        }
        // The claim's sync binds it. This is how a claim learns of the volume that was provisioned for it.
        return Step { enqueue: Some(key.clone()), ..Step::default() };
    }
    if volume_name(claim) == name(&volume.metadata) {
        return phase(volume, "Bound");
    }
    let dynamic = annotation(&volume.metadata, PROVISIONED_BY).is_some();
    if dynamic && policy(volume) == "Delete" && !keeps_unneeded {
        // The volume was provisioned for this claim, but the claim is bound to another volume: it is not needed.
        return release(volume);
    }
    Step::then_again(Call::ReplaceVolume(Box::new(unbind(volume))))
}

fn policy(volume: &PersistentVolume) -> &str {
    volume_spec(volume).persistent_volume_reclaim_policy.as_deref().unwrap_or("Retain")
}

fn phase(volume: &PersistentVolume, phase: &str) -> Step {
    let call = with_phase(volume, phase, "").map(|volume| Call::ReplaceVolumeStatus(Box::new(volume)));
    Step { call, ..Step::default() }
}

/// Releases a volume whose claim is gone. Keeps an earlier Failed for the user to see. Then applies the reclaim policy.
fn release(volume: &Arc<PersistentVolume>) -> Step {
    if !matches!(volume_phase(volume), "Released" | "Failed") {
        return Step { again: true, ..phase(volume, "Released") };
    }
    reclaim(volume)
}

fn reclaim(volume: &Arc<PersistentVolume>) -> Step {
    if annotation(&volume.metadata, MIGRATED_TO).is_some_and(|driver| !driver.is_empty()) {
        // The driver's external provisioner deletes it.
        return Step::done();
    }
    match policy(volume) {
        "Retain" => Step::done(),
        "Delete" => match Deleter::of(volume) {
            Deleter::External => Step::done(),
            Deleter::HostPath => delete_host_path(volume),
            Deleter::Missing(error) => fail(volume, "VolumeFailedDelete", error),
        },
        "Recycle" => fail(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!".to_owned()),
        _ => fail(
            volume,
            "VolumeUnknownReclaimPolicy",
            "Volume has unrecognized PersistentVolumeReclaimPolicy".to_owned(),
        ),
    }
}

/// Deletes a hostPath volume (`hostPathDeleter.Delete`). Its files stay, because they are those of the user's machine.
fn delete_host_path(volume: &Arc<PersistentVolume>) -> Step {
    let path = volume_spec(volume).host_path.as_ref().map_or("", |source| source.path.as_str());
    if path.split_once("/tmp/").is_none_or(|(_, rest)| rest.is_empty()) {
        let error = format!("host_path deleter only supports /tmp/.+ but received provided {path}");
        return fail(volume, "VolumeFailedDelete", error);
    }
    if volume.metadata.deletion_timestamp.is_some() {
        return Step::done();
    }
    Step { call: Some(Call::DeleteVolume(name(&volume.metadata).to_owned())), ..Step::default() }
}

/// Makes the volume Failed; the event comes with the change (`updateVolumePhaseWithEvent`).
fn fail(volume: &Arc<PersistentVolume>, reason: &'static str, message: String) -> Step {
    let Some(changed) = with_phase(volume, "Failed", &message) else { return Step::done() };
    let notice = Notice { about: About::Volume(volume.clone()), kind: "Warning", reason, message };
    Step { call: Some(Call::ReplaceVolumeStatus(Box::new(changed))), after: vec![notice], ..Step::default() }
}
