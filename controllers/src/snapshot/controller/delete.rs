//! Deletion of a snapshot (`processSnapshotWithDeletionTimestamp`).

use std::sync::Arc;

use k8s_openapi::Metadata;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use substrate::mutant;

use super::super::group::names::MEMBER_FINALIZER;
use super::super::names::{SNAPSHOT_BOUND_FINALIZER, SNAPSHOT_SOURCE_FINALIZER};
use super::super::objects::{DELETE, VolumeSnapshot, VolumeSnapshotContent};
use super::super::update_error;
use super::async_loop::Controller;
use super::decide::{dynamic_content_name, is_snapshot_deletion_candidate, is_volume_being_created, snapshot_key};
use crate::kube::{DeleteParams, Kind, reference};
use crate::protection::finalizer::remove;

/// Returns the name of the content that is deleted with the snapshot. The status may lack it after a crash.
fn content_name(snapshot: &VolumeSnapshot) -> String {
    let named = snapshot.content().unwrap_or_default().to_owned();
    if named.is_empty() && snapshot.spec.source.persistent_volume_claim_name.is_some() {
        return dynamic_content_name(snapshot);
    }
    named
}

impl Controller {
    pub(super) async fn process_deletion(&self, snapshot: &VolumeSnapshot) -> Result<(), String> {
        let name = match mutant!(self.ctx, "unbound-content-left") {
            true => snapshot.content().unwrap_or_default().to_owned(),
            false => content_name(snapshot),
        };
        let content = self.content_store.get("", &name).filter(|content| content.is_of(snapshot));
        if !is_snapshot_deletion_candidate(snapshot) {
            return Ok(());
        }
        self.delete_content_and_release(snapshot, content).await
    }

    /// Deletes the content if its policy says so, and removes finalizers of the snapshot
    /// (`checkandRemoveSnapshotFinalizersAndCheckandDeleteContent`).
    async fn delete_content_and_release(
        &self,
        snapshot: &VolumeSnapshot,
        content: Option<Arc<VolumeSnapshotContent>>,
    ) -> Result<(), String> {
        let claims = self.claims.list();
        let looks_everywhere = mutant!(self.ctx, "restore-elsewhere-holds-snapshot");
        let is_restored_to = |claim: &PersistentVolumeClaim| {
            let mut namesake = snapshot.clone();
            namesake.metadata.namespace.clone_from(&claim.metadata.namespace);
            is_volume_being_created(&namesake, [claim])
        };
        let is_restored = is_volume_being_created(snapshot, claims.iter().map(|claim| &**claim))
            || looks_everywhere && claims.iter().any(|claim| is_restored_to(claim));
        if content.is_some() && is_restored && !mutant!(self.ctx, "snapshot-deleted-in-restore") {
            let message = "Snapshot is being used to restore a PVC";
            self.event(reference(snapshot), "Warning", "SnapshotDeletePending", message);
            let key = snapshot_key(snapshot);
            return Err(format!("snapshot {key} is in use (being used to restore a PVC), will retry deletion"));
        }
        self.check_group_is_gone(snapshot)?;
        let Some(content) = content else { return self.remove_finalizers(snapshot, true).await };
        // The annotation is set with each policy, so that the sidecar also works when an administrator deletes the
        // content.
        self.set_being_deleted(&content).await?;
        let goes = content.spec.deletion_policy == DELETE;
        if goes {
            let deleted =
                self.client.all::<VolumeSnapshotContent>().delete(content.name(), &DeleteParams::default()).await;
            if let Err(e) = deleted
                && !e.is_not_found()
            {
                let message = "Failed to delete snapshot content API object";
                self.event(reference(snapshot), "Warning", "SnapshotContentObjectDeleteError", message);
                let name = content.name();
                return Err(format!(
                    "failed to delete VolumeSnapshotContent {name} from API server: {:?}",
                    e.to_string()
                ));
            }
        }
        // A snapshot keeps its finalizer while its content is being deleted.
        self.remove_finalizers(snapshot, !goes).await
    }

    /// Refuses the deletion of a member while its group exists.
    fn check_group_is_gone(&self, snapshot: &VolumeSnapshot) -> Result<(), String> {
        let (Some(groups), Some(name)) = (&self.groups, snapshot.group()) else { return Ok(()) };
        if groups.get(snapshot.namespace(), name).is_none() {
            return Ok(());
        }
        let (key, group) = (snapshot_key(snapshot), format!("{}/{name}", snapshot.namespace()));
        let message = format!(
            "deletion of the individual volume snapshot {key} is not allowed as it belongs to group snapshot {group}. \
             Deleting the group snapshot will trigger the deletion of all the individual volume snapshots that are part \
             of the group."
        );
        self.event(reference(snapshot), "Warning", "SnapshotDeletePending", message.clone());
        Err(message)
    }

    /// Removes the finalizers of a source and of a member whose group is gone, and if `bound` that of a bound snapshot
    /// (`removeSnapshotFinalizer`).
    async fn remove_finalizers(&self, snapshot: &VolumeSnapshot, bound: bool) -> Result<(), String> {
        // After the end of the snapshot nothing would release its claim.
        let without_it = !mutant!(self.ctx, "own-snapshot-counted");
        self.release_claim(snapshot, without_it).await.map_err(|e| update_error(snapshot.name(), &e))?;
        let mut freed = Box::new(snapshot.clone());
        remove(freed.metadata_mut(), SNAPSHOT_SOURCE_FINALIZER);
        if bound {
            remove(freed.metadata_mut(), SNAPSHOT_BOUND_FINALIZER);
        }
        if self.groups.is_some() && snapshot.group().is_some() {
            remove(freed.metadata_mut(), MEMBER_FINALIZER);
        }
        let written = self.client.namespaced::<VolumeSnapshot>(snapshot.namespace()).replace(&freed).await;
        self.keep_snapshot(&written.map_err(|e| update_error(snapshot.name(), &e))?);
        Ok(())
    }
}
