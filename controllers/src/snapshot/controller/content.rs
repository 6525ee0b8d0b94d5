//! Sync of a content (`syncContent`).

use substrate::mutant;

use super::super::objects::VolumeSnapshotContent;
use super::async_loop::Controller;
use super::decide::{is_snapshot_deletion_candidate, need_to_add_content_finalizer};
use super::status;
use crate::kube::{Kind, reference};

impl Controller {
    pub(super) async fn sync_content(&self, content: &VolumeSnapshotContent) -> Result<(), String> {
        let source = &content.spec.source;
        if source.volume_handle.is_some() == source.snapshot_handle.is_some() {
            let error = "Exactly one of VolumeHandle and SnapshotHandle should be specified";
            self.event(reference(content), "Warning", "ContentValidationError", error);
            return Err(error.to_owned());
        }
        if content.snapshot_uid().is_empty() {
            // It is reserved for a snapshot, whose sync binds it.
            return Ok(());
        }
        if need_to_add_content_finalizer(content) && !mutant!(self.ctx, "content-not-protected") {
            return self.add_content_finalizer(content).await;
        }
        let (namespace, name) = content.snapshot_key();
        // A snapshot with another uid is a newer one of the same name: the content's own snapshot no longer exists.
        let snapshot = self.snapshot_store.get(&namespace, &name).filter(|one| one.uid() == content.snapshot_uid());
        // A content without its snapshot stays: its manifest may come from a backup.
        let Some(snapshot) = snapshot else { return Ok(()) };
        if status::needs_update(&snapshot, content) {
            self.snapshot_queue.add((namespace, name));
        }
        if is_snapshot_deletion_candidate(&snapshot) {
            return self.set_being_deleted(content).await;
        }
        Ok(())
    }
}
