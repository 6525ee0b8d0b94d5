//! Sync of a snapshot (`syncSnapshot`).

use std::sync::Arc;

use k8s_openapi::Metadata;
use substrate::mutant;

use super::super::group::{group_name, owner};
use super::super::objects::{VolumeSnapshot, VolumeSnapshotContent};
use super::super::update_error;
use super::async_loop::Controller;
use super::binding::{Misfit, bind, dynamically_provisioned, preprovisioned};
use super::decide::{dynamic_content_name, is_bound_content_name_set, missing_finalizers, snapshot_key};
use crate::kube::{Kind, Operation, Patch, reference};

impl Controller {
    pub(super) async fn sync_snapshot(&self, snapshot: &Arc<VolumeSnapshot>) -> Result<(), String> {
        if !mutant!(self.ctx, "claim-held-by-ready-snapshot") {
            // A failure is recorded as an Event, and does not end the sync.
            let _ = self.release_claim(snapshot, false).await;
        }
        if snapshot.is_deleting() {
            return self.process_deletion(snapshot).await;
        }
        let source = &snapshot.spec.source;
        if source.persistent_volume_claim_name.is_some() == source.volume_snapshot_content_name.is_some() {
            let error = "Exactly one of PersistentVolumeClaimName and VolumeSnapshotContentName should be specified";
            let _ = self.fail(snapshot, true, "SnapshotValidationError", error).await;
            return Err(error.to_owned());
        }
        if let Err(error) = self.add_missing_finalizers(snapshot).await {
            let message = format!("Failed to check and update snapshot: {error}");
            self.event(reference(&**snapshot), "Warning", "SnapshotFinalizerError", message);
            return Err(error);
        }
        if snapshot.is_ready() && is_bound_content_name_set(snapshot) {
            self.sync_ready(snapshot).await
        } else {
            self.sync_unready(snapshot).await
        }
    }

    /// Adds the finalizers that the snapshot lacks (`checkandAddSnapshotFinalizers`, `addSnapshotFinalizer`).
    async fn add_missing_finalizers(&self, snapshot: &VolumeSnapshot) -> Result<(), String> {
        let content = self.content_of(snapshot).await?;
        let missing = missing_finalizers(snapshot, content.as_deref());
        if missing.is_empty() {
            return Ok(());
        }
        let snapshots = self.client.namespaced::<VolumeSnapshot>(snapshot.namespace());
        let has_none = snapshot.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
        let written = if has_none {
            let mut new = Box::new(snapshot.clone());
            new.metadata_mut().finalizers = Some(missing.into_iter().map(str::to_owned).collect());
            snapshots.replace(&new).await
        } else {
            let add =
                |finalizer: &str| Operation::Add { path: "/metadata/finalizers/-".to_owned(), value: finalizer.into() };
            let operations: Vec<Operation> = missing.into_iter().map(add).collect();
            snapshots.patch(snapshot.name(), &Patch::json(&operations)).await
        };
        self.keep_snapshot(&written.map_err(|e| update_error(&snapshot_key(snapshot), &e))?);
        Ok(())
    }

    /// Returns the content of a snapshot: the content that its spec names, or the content that is named after it. None
    /// if there is none. If the content belongs to another snapshot, this is an error of this one.
    async fn content_of(&self, snapshot: &VolumeSnapshot) -> Result<Option<Arc<VolumeSnapshotContent>>, String> {
        let (name, check) = match &snapshot.spec.source.volume_snapshot_content_name {
            Some(name) if name.is_empty() => {
                return Err(format!("empty VolumeSnapshotContentName for snapshot {}", snapshot_key(snapshot)));
            }
            Some(name) => (name.clone(), preprovisioned as fn(&VolumeSnapshot, _) -> _),
            None => (dynamic_content_name(snapshot), dynamically_provisioned as fn(&VolumeSnapshot, _) -> _),
        };
        let Some(content) = self.content_store.get("", &name) else { return Ok(None) };
        match check(snapshot, content) {
            Ok(content) => Ok(Some(content)),
            Err(Misfit { reason, message, error }) => {
                let _ = self.fail(snapshot, true, reason, &message).await;
                Err(error)
            }
        }
    }

    /// Checks that a ready snapshot is still bound (`syncReadySnapshot`).
    async fn sync_ready(&self, snapshot: &VolumeSnapshot) -> Result<(), String> {
        let name = snapshot.content().unwrap_or_default();
        match self.content_store.get("", name) {
            None => self.fail(snapshot, true, "SnapshotContentMissing", MISSING).await,
            Some(content) if !content.is_of(snapshot) => {
                let message = "VolumeSnapshotContent is not bound to the VolumeSnapshot correctly";
                self.fail(snapshot, true, "SnapshotMisbound", message).await
            }
            Some(_) => self.add_owner(snapshot).await,
        }
    }

    /// Makes the group of a pre-provisioned member its owner (`addVolumeGroupSnapshotOwnership`).
    async fn add_owner(&self, snapshot: &VolumeSnapshot) -> Result<(), String> {
        let name = snapshot.group().filter(|name| !name.is_empty());
        let (Some(groups), Some(name), None) = (&self.groups, name, group_name(snapshot)) else { return Ok(()) };
        let group = groups.get(snapshot.namespace(), name);
        let group =
            group.ok_or_else(|| format!("volumegroupsnapshot.groupsnapshot.storage.k8s.io {name:?} not found"))?;
        let mut owned = Box::new(snapshot.clone());
        owned.metadata.owner_references.get_or_insert_default().push(owner(&group));
        let written = self.client.namespaced::<VolumeSnapshot>(snapshot.namespace()).replace(&owned).await;
        written.map(drop).map_err(|e| e.to_string())
    }

    /// Binds a snapshot, or copies the progress of its content (`syncUnreadySnapshot`).
    async fn sync_unready(&self, snapshot: &Arc<VolumeSnapshot>) -> Result<(), String> {
        let key = snapshot_key(snapshot);
        if let Some(name) = &snapshot.spec.source.volume_snapshot_content_name {
            let Some(content) = self.content_of(snapshot).await? else {
                let _ = self.fail(snapshot, true, "SnapshotContentMissing", MISSING).await;
                return Err(format!("snapshot {key} requests an non-existing content {name}"));
            };
            return self.bind_preprovisioned(snapshot, &content).await;
        }
        if group_name(snapshot).is_some() {
            return self.sync_member(snapshot).await;
        }
        if let Some(content) = self.content_of(snapshot).await? {
            if content.spec.source.snapshot_handle.is_some() {
                let message = format!("Snapshot handle should not be set in content {key} for dynamic provisioning");
                let _ = self.fail(snapshot, true, "SnapshotHandleSet", &message).await;
                return Err(format!(
                    "snapshotHandle should not be set in the content for dynamic provisioning for snapshot {key}"
                ));
            }
            return self.bind_and_update(snapshot, &content).await;
        }
        let content = match self.create_snapshot_content(snapshot).await {
            Ok(content) => content,
            Err(error) => {
                let message = format!("Failed to create snapshot content with error {error}");
                let _ = self.fail(snapshot, true, "SnapshotContentCreationFailed", &message).await;
                return Err(error);
            }
        };
        self.copy_status(snapshot, &content, false).await.map(drop)
    }

    /// Copies the progress of the content of a member of a group, which the sync of the group binds.
    async fn sync_member(&self, snapshot: &VolumeSnapshot) -> Result<(), String> {
        let key = snapshot_key(snapshot);
        let Some(name) = snapshot.content() else {
            return Err(format!("detected group snapshot member {key} with no content, retrying"));
        };
        let Some(content) = self.content_store.get("", name) else {
            return Err(format!("group snapshot member {key} requests an non-existing content {name}"));
        };
        self.copy_status(snapshot, &content, false).await.map(drop)
    }

    /// Binds a pre-provisioned content to the snapshot, then copies its status.
    async fn bind_preprovisioned(
        &self,
        snapshot: &VolumeSnapshot,
        content: &Arc<VolumeSnapshotContent>,
    ) -> Result<(), String> {
        let bound = match self.check_and_bind(snapshot, content).await {
            Ok(bound) => bound,
            Err(error) => {
                let message = format!("Snapshot failed to bind VolumeSnapshotContent, {error}");
                let _ = self.fail(snapshot, true, "SnapshotBindFailed", &message).await;
                return Err(format!(
                    "snapshot {} is bound, but VolumeSnapshotContent {} is not bound to the VolumeSnapshot correctly, \
                     {error}",
                    snapshot_key(snapshot),
                    content.name()
                ));
            }
        };
        self.copy_status(snapshot, &bound, false).await.map(drop)
    }

    /// Writes uid and class of the snapshot to its content (`checkandBindSnapshotContent`).
    async fn check_and_bind(
        &self,
        snapshot: &VolumeSnapshot,
        content: &Arc<VolumeSnapshotContent>,
    ) -> Result<Arc<VolumeSnapshotContent>, String> {
        let operations = bind(snapshot, content)?;
        if operations.is_empty() {
            return Ok(content.clone());
        }
        let bound = self.patch_content(content, &operations).await.map_err(|e| e.to_string())?;
        self.content_store.update(&bound)?;
        Ok(bound)
    }

    /// Binds a snapshot to its content and copies the status (`bindandUpdateVolumeSnapshot`).
    async fn bind_and_update(&self, snapshot: &VolumeSnapshot, content: &VolumeSnapshotContent) -> Result<(), String> {
        // Upstream reads it here, and once more before the write.
        let present = self.get_snapshot(snapshot).await?;
        let written = self.copy_status(&present, content, true).await?;
        self.keep_snapshot(&written);
        Ok(())
    }

    /// Copies the content's status; a failure becomes an error of the snapshot.
    async fn copy_status(
        &self,
        snapshot: &VolumeSnapshot,
        content: &VolumeSnapshotContent,
        unready: bool,
    ) -> Result<Arc<VolumeSnapshot>, String> {
        match self.update_snapshot_status(snapshot, content).await {
            Ok(written) => Ok(written),
            Err(error) => {
                let message = format!("Snapshot status update failed, {error}");
                let _ = self.fail(snapshot, unready, "SnapshotStatusUpdateFailed", &message).await;
                Err(error)
            }
        }
    }
}

const MISSING: &str = "VolumeSnapshotContent is missing";
