//! Deletion of released volumes: first the driver's volume, then the object (lib's `syncVolume`).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, SecretReference};
use substrate::mutant;

use super::super::decide::{self, FinalizerChange};
use super::super::parameters::{Secret, secret};
use super::super::persistent_volume::{DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, FINALIZER};
use super::Controller;
use crate::binder::object::{volume_class, volume_phase};
use crate::kube::queue::Outcome;
use crate::kube::{ApiError, DeleteParams, Guard, Kind, reference};
use crate::metrics::families;

impl Controller {
    /// Syncs one volume (`syncVolume`).
    pub(super) async fn volume(self: Arc<Self>, name: String) -> Outcome {
        let Some(volume) = self.sources.volumes.get("", &name) else { return Outcome::Done };
        if !decide::is_ours(&volume, &self.driver.name) {
            return Outcome::Done;
        }
        let mut current = volume;
        let keeps_finalizer = mutant!(self.ctx, "finalizer-kept-after-retain");
        let change = decide::finalizer_change(&current);
        if let Some(change) = change.filter(|change| !(keeps_finalizer && *change == FinalizerChange::Remove)) {
            let changed = decide::with_finalizer(&current, change);
            match self.client.all().strategic_patch(&*current, &changed, Guard::None).await {
                Ok(patched) => current = patched.unwrap_or(current),
                Err(e) if e.is_not_found() => return Outcome::Done,
                Err(e) => {
                    self.trace("finalizer", &name, &e);
                    return Outcome::Retry;
                }
            }
        }
        let ignores_policy = mutant!(self.ctx, "retain-ignored") && volume_phase(&current) == "Released";
        if !decide::should_delete(&current) && !ignores_policy {
            return Outcome::Done;
        }
        let (began, class) = (self.ctx.now().mono, volume_class(&current).to_owned());
        if let Err(message) = self.delete_behind(&current).await {
            self.metrics.count(&families::DELETE_FAILED, &[&class]);
            self.recorder.event(reference(&*current), "Warning", "VolumeFailedDelete", message);
            return Outcome::Retry;
        }
        if let Some(capacity) = &self.capacity {
            capacity.volume_deleted(&current);
        }
        match self.remove_object(&current).await {
            Ok(()) => {
                let took = self.ctx.now().mono.saturating_sub(began);
                self.metrics.observe(&families::DELETE_SECONDS, &[&class], took);
                self.metrics.count(&families::DELETE_TOTAL, &[&class]);
                Outcome::Done
            }
            Err(e) => {
                self.metrics.count(&families::DELETE_FAILED, &[&class]);
                self.trace("delete", &name, &e);
                Outcome::Retry
            }
        }
    }

    /// Deletes the driver's volume, unless it is still attached to a node.
    async fn delete_behind(&self, volume: &PersistentVolume) -> Result<(), String> {
        let Some(csi) = volume.spec.as_ref().and_then(|s| s.csi.as_ref()) else {
            return Err("invalid CSI PV".to_owned());
        };
        if mutant!(self.ctx, "pv-deleted-not-volume") {
            return Ok(());
        }
        let secrets = self.deletion_secrets(volume).await?;
        let attachments = self.sources.attachments.list();
        if let Some(node) = decide::attached_to(volume, attachments.iter().map(|va| &**va))
            && !mutant!(self.ctx, "attached-volume-deleted")
        {
            return Err(format!("persistentvolume {} is still attached to node {node}", volume.name()));
        }
        match self.delete_volume(&csi.volume_handle, secrets).await {
            Err(_) if mutant!(self.ctx, "delete-error-is-success") => Ok(()),
            deleted => deleted.map_err(|e| e.to_string()),
        }
    }

    /// Reads the secret that the object's annotations name, else the one of its class. A missing secret is ignored: it
    /// may have been deleted first.
    async fn deletion_secrets(&self, volume: &PersistentVolume) -> Result<BTreeMap<String, String>, String> {
        let named = (volume.annotation(DELETION_SECRET_NAME), volume.annotation(DELETION_SECRET_NAMESPACE));
        let found = match named {
            (Some(name), Some(namespace)) => (!name.is_empty() && !namespace.is_empty())
                .then(|| SecretReference { name: Some(name.to_owned()), namespace: Some(namespace.to_owned()) }),
            _ => self.class_secret(volume)?,
        };
        match found {
            None => Ok(BTreeMap::new()),
            Some(reference) => Ok(self.credentials(&reference).await.unwrap_or_default()),
        }
    }

    fn class_secret(&self, volume: &PersistentVolume) -> Result<Option<SecretReference>, String> {
        let class = self.sources.classes.get("", volume_class(volume));
        let claim = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
        let (Some(class), Some(claim)) = (class, claim) else { return Ok(None) };
        let mut stand_in = PersistentVolumeClaim::default();
        stand_in.metadata.name.clone_from(&claim.name);
        stand_in.metadata.namespace.clone_from(&claim.namespace);
        let parameters = class.parameters.clone().unwrap_or_default();
        secret(Secret::Provisioner, &parameters, volume.name(), &stand_in)
            .map_err(|e| format!("failed to get secretreference for volume {}: {e}", volume.name()))
    }

    /// Deletes the object, then removes its finalizer.
    async fn remove_object(&self, volume: &PersistentVolume) -> Result<(), ApiError> {
        let volumes = self.client.all::<PersistentVolume>();
        volumes.delete(volume.name(), &DeleteParams::default()).await?;
        // The cached object may have gained or lost other finalizers meanwhile.
        let Some(current) = self.sources.volumes.get("", volume.name()) else { return Ok(()) };
        if !current.has_finalizer(FINALIZER) {
            return Ok(());
        }
        let changed = decide::with_finalizer(&current, FinalizerChange::Remove);
        match volumes.strategic_patch(&*current, &changed, Guard::None).await {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }
}
