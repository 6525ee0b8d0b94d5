//! Sync of a content of a group (`syncGroupSnapshotContent`).

use super::super::super::group::objects::VolumeGroupSnapshotContent;
use super::super::async_loop::Controller;
use super::decide::need_to_add_content_finalizer;
use super::{Groups, status};
use crate::kube::{Kind, reference};

impl Controller {
    pub(super) async fn sync_group_content(
        &self,
        groups: &Groups,
        content: &VolumeGroupSnapshotContent,
    ) -> Result<(), String> {
        let source = &content.spec.source;
        if source.group_snapshot_handles.is_some() != source.volume_handles.is_empty() {
            let error = "Exactly one of GroupSnapshotHandles and VolumeHandles should be specified";
            self.event(reference(content), "Warning", "GroupContentValidationError", error);
            return Err(error.to_owned());
        }
        if content.group_uid().is_empty() {
            return Ok(());
        }
        if need_to_add_content_finalizer(content) {
            return self.add_group_content_finalizer(groups, content).await;
        }
        let (namespace, name) = content.group_key();
        // A group with another uid is a newer one of the same name.
        let group = groups.store.get(&namespace, &name).filter(|group| group.uid() == content.group_uid());
        if group.is_some_and(|group| status::needs_update(&group, content)) {
            groups.queue.add((namespace, name));
        }
        Ok(())
    }
}
