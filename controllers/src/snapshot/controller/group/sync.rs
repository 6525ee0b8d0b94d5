//! Sync of a group (`syncGroupSnapshot`).

use std::sync::Arc;

use super::super::super::group::objects::{VolumeGroupSnapshot, VolumeGroupSnapshotContent};
use super::super::async_loop::Controller;
use super::super::binding::Misfit;
use super::Groups;
use super::binding::dynamically_provisioned;
use super::decide::{dynamic_content_name, group_key, need_to_add_bound_finalizer};
use super::preprovisioned::{bind, preprovisioned};
use crate::kube::{Kind, reference};

/// Error of a group whose content does not exist.
const MISSING: &str = "VolumeGroupSnapshotContent is missing";

impl Controller {
    pub(super) async fn sync_group(&self, groups: &Groups, group: &VolumeGroupSnapshot) -> Result<(), String> {
        if group.is_deleting() {
            return self.delete_group(groups, group).await;
        }
        let source = &group.spec.source;
        if source.selector.is_some() == source.volume_group_snapshot_content_name.is_some() {
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

    /// Returns the content that the group names, or the one that is named after it; None if there is none. If it belongs
    /// to another group, this is an error of this one.
    async fn content_of_group(
        &self,
        groups: &Groups,
        group: &VolumeGroupSnapshot,
    ) -> Result<Option<Arc<VolumeGroupSnapshotContent>>, String> {
        let (name, check) = match &group.spec.source.volume_group_snapshot_content_name {
            Some(name) if name.is_empty() => {
                return Err(format!("empty VolumeGroupSnapshotContentName for group snapshot {}", group_key(group)));
            }
            Some(name) => (name.clone(), preprovisioned as fn(&VolumeGroupSnapshot, _) -> _),
            None => (dynamic_content_name(group), dynamically_provisioned as fn(&VolumeGroupSnapshot, _) -> _),
        };
        let Some(content) = groups.content_store.get("", &name) else { return Ok(None) };
        match check(group, content) {
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
            None => self.fail_group(groups, group, true, "GroupSnapshotContentMissing", MISSING).await,
            Some(content) if !content.is_of(group) => {
                let message = "VolumeGroupSnapshotContent is not bound to the VolumeGroupSnapshot correctly";
                self.fail_group(groups, group, true, "GroupSnapshotMisbound", message).await
            }
            Some(_) => Ok(()),
        }
    }

    /// Binds a pre-provisioned group. For another one, creates the content, or the members of a group that was taken.
    /// Copies the content's status (`syncUnreadyGroupSnapshot`).
    async fn sync_unready_group(&self, groups: &Groups, group: &VolumeGroupSnapshot) -> Result<(), String> {
        if let Some(name) = &group.spec.source.volume_group_snapshot_content_name {
            let Some(content) = self.content_of_group(groups, group).await? else {
                let _ = self.fail_group(groups, group, true, "GroupSnapshotContentMissing", MISSING).await;
                let key = group_key(group);
                return Err(format!("group snapshot {key} requests an non-existing group snapshot content {name}"));
            };
            return self.bind_preprovisioned_group(groups, group, &content).await;
        }
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

    /// Binds a pre-provisioned content to the group, then copies its status.
    async fn bind_preprovisioned_group(
        &self,
        groups: &Groups,
        group: &VolumeGroupSnapshot,
        content: &Arc<VolumeGroupSnapshotContent>,
    ) -> Result<(), String> {
        let bound = match self.check_and_bind_group_content(groups, group, content).await {
            Ok(bound) => bound,
            Err(error) => {
                let message = format!("GroupSnapshot failed to bind VolumeGroupSnapshotContent, {error}");
                let _ = self.fail_group(groups, group, true, "GroupSnapshotBindFailed", &message).await;
                return Err(format!(
                    "group snapshot {} is bound, but VolumeGroupSnapshotContent {} is not bound to the \
                     VolumeGroupSnapshot correctly, {error}",
                    group_key(group),
                    content.name()
                ));
            }
        };
        self.copy_group_status(groups, group, &bound, false).await.map(drop)
    }

    /// Writes uid and class of the group to its content (`checkAndBindGroupSnapshotContent`).
    async fn check_and_bind_group_content(
        &self,
        groups: &Groups,
        group: &VolumeGroupSnapshot,
        content: &Arc<VolumeGroupSnapshotContent>,
    ) -> Result<Arc<VolumeGroupSnapshotContent>, String> {
        let operations = bind(group, content)?;
        if operations.is_empty() {
            return Ok(content.clone());
        }
        let bound = self.patch_group_content(content, &operations).await.map_err(|e| e.to_string())?;
        groups.content_store.update(&bound)?;
        Ok(bound)
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
