//! Sync of a group (`syncGroupSnapshot`).

use std::sync::Arc;

use super::super::super::group::objects::{VolumeGroupSnapshot, VolumeGroupSnapshotContent};
use super::super::async_loop::Controller;
use super::super::binding::Misfit;
use super::Groups;
use super::binding::dynamically_provisioned;
use super::decide::{dynamic_content_name, need_to_add_bound_finalizer};
use crate::kube::{Kind, reference};

impl Controller {
    pub(super) async fn sync_group(&self, groups: &Groups, group: &VolumeGroupSnapshot) -> Result<(), String> {
        if group.is_deleting() {
            return self.delete_group(groups, group).await;
        }
        if group.spec.source.selector.is_none() {
            let error = "Exactly one of Selector and VolumeGroupSnapshotContentName should be specified";
            let _ = self.fail_group(groups, group, true, "GroupSnapshotValidationError", error).await;
            return Err(error.to_owned());
        }
        if let Err(error) = self.add_missing_group_finalizer(groups, group).await {
            let message = format!("Failed to check and update group snapshot: {error}");
            self.event(reference(group), "Warning", "GroupSnapshotFinalizerError", message);
            return Err(error);
        }
        match group.content() {
            Some(content) if group.is_ready() => self.sync_ready_group(groups, group, content).await,
            _ => self.sync_unready_group(groups, group).await,
        }
    }

    /// Adds the finalizer of a bound group (`checkandAddGroupSnapshotFinalizers`).
    async fn add_missing_group_finalizer(&self, groups: &Groups, group: &VolumeGroupSnapshot) -> Result<(), String> {
        let content = self.content_of_group(groups, group).await?;
        if content.is_none() || !need_to_add_bound_finalizer(group) {
            return Ok(());
        }
        self.add_group_finalizer(groups, group).await
    }

    /// Returns the content that is named after the group; None if there is none. If it belongs to another group, this is
    /// an error of this one.
    async fn content_of_group(
        &self,
        groups: &Groups,
        group: &VolumeGroupSnapshot,
    ) -> Result<Option<Arc<VolumeGroupSnapshotContent>>, String> {
        let Some(content) = groups.content_store.get("", &dynamic_content_name(group)) else { return Ok(None) };
        match dynamically_provisioned(group, content) {
            Ok(content) => Ok(Some(content)),
            Err(Misfit { reason, message, error }) => {
                let _ = self.fail_group(groups, group, true, reason, &message).await;
                Err(error)
            }
        }
    }

    /// Checks that a ready group is still bound (`syncReadyGroupSnapshot`).
    async fn sync_ready_group(
        &self,
        groups: &Groups,
        group: &VolumeGroupSnapshot,
        content: &str,
    ) -> Result<(), String> {
        match groups.content_store.get("", content) {
            None => {
                let message = "VolumeGroupSnapshotContent is missing";
                self.fail_group(groups, group, true, "GroupSnapshotContentMissing", message).await
            }
            Some(content) if !content.is_of(group) => {
                let message = "VolumeGroupSnapshotContent is not bound to the VolumeGroupSnapshot correctly";
                self.fail_group(groups, group, true, "GroupSnapshotMisbound", message).await
            }
            Some(_) => Ok(()),
        }
    }

    /// Creates the content, or the members of a group that was taken, and copies the content's status
    /// (`syncUnreadyGroupSnapshot`).
    async fn sync_unready_group(&self, groups: &Groups, group: &VolumeGroupSnapshot) -> Result<(), String> {
        if let Some(content) = self.content_of_group(groups, group).await? {
            self.create_members(groups, group, &content).await?;
            let written = self.copy_group_status(groups, group, &content, true).await?;
            groups.keep(&written);
            return Ok(());
        }
        let content = match self.create_group_content(groups, group).await {
            Ok(content) => content,
            Err(error) => {
                let message = format!("failed to create group snapshot content with error {error}");
                let _ = self.fail_group(groups, group, true, "GroupSnapshotContentCreationFailed", &message).await;
                return Err(error);
            }
        };
        self.copy_group_status(groups, group, &content, false).await.map(drop)
    }

    /// Copies the content's status; a failure becomes an error of the group.
    async fn copy_group_status(
        &self,
        groups: &Groups,
        group: &VolumeGroupSnapshot,
        content: &VolumeGroupSnapshotContent,
        unready: bool,
    ) -> Result<Arc<VolumeGroupSnapshot>, String> {
        match self.update_group_status(group, content).await {
            Ok(written) => Ok(written),
            Err(error) => {
                let message = format!("GroupSnapshot status update failed, {error}");
                let _ = self.fail_group(groups, group, unready, "GroupSnapshotStatusUpdateFailed", &message).await;
                Err(error)
            }
        }
    }
}
