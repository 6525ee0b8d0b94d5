//! Finalizer of a claim while a snapshot is taken of it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use substrate::mutant;
use substrate::seed::unit;

use super::super::names::CLAIM_FINALIZER;
use super::super::objects::VolumeSnapshot;
use super::super::update_error;
use super::async_loop::Controller;
use super::decide::{is_claim_being_used, snapshot_key};
use crate::kube::{ApiError, Kind, reference};
use crate::protection::finalizer::{add, remove};

/// Attempts of a write that conflicts, and the pause between two (client-go `retry.DefaultRetry`).
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);
const JITTER: f64 = 0.1;

impl Controller {
    /// Returns the claim of a snapshot from the cache (`getClaimFromVolumeSnapshot`).
    pub(super) fn claim_of(&self, snapshot: &VolumeSnapshot) -> Result<Arc<PersistentVolumeClaim>, String> {
        let name = snapshot.spec.source.persistent_volume_claim_name.as_deref();
        let name = name.ok_or("the snapshot source PVC name is not specified")?;
        if name.is_empty() {
            return Err(format!("the PVC name is not specified in snapshot {}", snapshot_key(snapshot)));
        }
        self.claims.get(snapshot.namespace(), name).ok_or_else(|| {
            let missing = format!("persistentvolumeclaim {name:?} not found");
            format!("failed to retrieve PVC {name} from the lister: {missing:?}")
        })
    }

    /// Adds the finalizer (`ensurePVCFinalizer`).
    pub(super) async fn ensure_claim_finalizer(&self, snapshot: &VolumeSnapshot) -> Result<(), String> {
        if snapshot.spec.source.persistent_volume_claim_name.is_none() {
            return Ok(());
        }
        let claim =
            self.claim_of(snapshot).map_err(|_| update_error(snapshot.name(), &"cannot get claim from snapshot"))?;
        if claim.has_finalizer(CLAIM_FINALIZER) {
            return Ok(());
        }
        if claim.is_deleting() {
            let why = "cannot add finalizer on claim because it is being deleted";
            return Err(update_error(claim.name(), &why));
        }
        let mut held = Box::new(PersistentVolumeClaim::clone(&claim));
        add(&mut held.metadata, CLAIM_FINALIZER);
        let written = self.client.namespaced::<PersistentVolumeClaim>(claim.namespace()).replace(&held).await;
        written.map(drop).map_err(|e| update_error(claim.name(), &e))
    }

    /// Removes the finalizer if no snapshot is being taken of the claim (`checkandRemovePVCFinalizer`). If
    /// `without_it`, this snapshot is ignored. Records an Event about a failure.
    pub(super) async fn release_claim(&self, snapshot: &VolumeSnapshot, without_it: bool) -> Result<(), String> {
        let Ok(claim) = self.claim_of(snapshot) else { return Ok(()) };
        if !claim.has_finalizer(CLAIM_FINALIZER) {
            return Ok(());
        }
        let besides = without_it.then(|| snapshot.name());
        let mut snapshots = self.snapshots.list();
        if mutant!(self.ctx, "snapshot-elsewhere-holds-claim") {
            for one in &mut snapshots {
                Arc::make_mut(one).metadata.namespace.clone_from(&claim.metadata.namespace);
            }
        }
        let is_used = is_claim_being_used(&claim, snapshots.iter().map(|one| &**one), besides);
        if is_used && !mutant!(self.ctx, "snapshot-source-released-early") {
            return Ok(());
        }
        self.remove_claim_finalizer(&claim).await.map_err(|e| {
            let message = "Error check and remove PVC Finalizer for VolumeSnapshot";
            self.event(reference(snapshot), "Warning", "ErrorPVCFinalizer", message);
            update_error(claim.name(), &e)
        })
    }

    /// Removes the finalizer from the claim in its state on the server (`removePVCFinalizer`).
    async fn remove_claim_finalizer(&self, claim: &PersistentVolumeClaim) -> Result<(), ApiError> {
        let claims = self.client.namespaced::<PersistentVolumeClaim>(claim.namespace());
        let mut attempt = 1;
        loop {
            let mut freed = Box::new(PersistentVolumeClaim::clone(&*claims.get(claim.name()).await?));
            remove(&mut freed.metadata, CLAIM_FINALIZER);
            match claims.replace(&freed).await {
                Err(e) if e.is_conflict() && attempt < ATTEMPTS => {}
                result => return result.map(drop),
            }
            attempt += 1;
            let share = unit(&mut self.ctx.rng("conflict of a source claim"));
            self.ctx.sleep(PAUSE + PAUSE.mul_f64(JITTER * share)).await;
        }
    }
}
