//! Writes of groups and their contents, and their Events.

use std::sync::Arc;

use substrate::json::json;

use super::super::super::group::names::{BEING_DELETED, BOUND_FINALIZER, CONTENT_FINALIZER};
use super::super::super::group::objects::{VolumeGroupSnapshot, VolumeGroupSnapshotContent};
use super::super::super::names::YES;
use super::super::super::update_error;
use super::super::async_loop::Controller;
use super::decide::group_key;
use super::{Groups, status};
use crate::kube::{ApiError, Kind, Operation, Patch, reference};
use crate::protection::finalizer::{add, remove};

impl Controller {
    /// Writes an error to the group's status, with an Event, unless the status has it already
    /// (`updateGroupSnapshotErrorStatusWithEvent`).
    pub(super) async fn fail_group(
        &self,
        groups: &Groups,
        group: &VolumeGroupSnapshot,
        unready: bool,
        reason: &str,
        message: &str,
    ) -> Result<(), String> {
        let now = self.ctx.now().wall;
        let Some(status) = status::failed(group.status.as_ref(), message, unready, now) else { return Ok(()) };
        let mut new = Box::new(group.clone());
        new.status = Some(status);
        let written = self.client.namespaced::<VolumeGroupSnapshot>(group.namespace()).replace_status(&new).await;
        // After a failed write upstream records the Event about an empty object, which the server refuses.
        let about = written.as_ref().map_or_else(|_| reference(&VolumeGroupSnapshot::blank()), |new| reference(&**new));
        self.event(about, "Warning", reason, message);
        groups.keep(&written.map_err(|e| e.to_string())?);
        Ok(())
    }

    /// Copies the content's status to the group (`updateGroupSnapshotStatus`).
    pub(super) async fn update_group_status(
        &self,
        group: &VolumeGroupSnapshot,
        content: &VolumeGroupSnapshotContent,
    ) -> Result<Arc<VolumeGroupSnapshot>, String> {
        let key = group_key(group);
        let groups = self.client.namespaced::<VolumeGroupSnapshot>(group.namespace());
        let present = groups.get(group.name()).await;
        let present = present.map_err(|e| format!("error get group snapshot {key} from api server: {e}"))?;
        let Some(status) = status::updated(&present, content) else { return Ok(present) };
        let mut new = Box::new(VolumeGroupSnapshot::clone(&present));
        new.status = Some(status);
        if !present.is_created() && new.is_created() {
            let message = format!("GroupSnapshot {key} was successfully created by the CSI driver.");
            self.event(reference(group), "Normal", "GroupSnapshotCreated", message);
        }
        if !present.is_ready() && new.is_ready() {
            let message = format!("GroupSnapshot {key} is ready to use.");
            self.event(reference(group), "Normal", "GroupSnapshotReady", message);
        }
        groups.replace_status(&new).await.map_err(|e| update_error(&key, &e))
    }

    /// Sends a JSON patch of a content of a group.
    pub(super) async fn patch_group_content(
        &self,
        content: &VolumeGroupSnapshotContent,
        operations: &[Operation],
    ) -> Result<Arc<VolumeGroupSnapshotContent>, ApiError> {
        let contents = self.client.all::<VolumeGroupSnapshotContent>();
        contents.patch(content.name(), &Patch::json(operations)).await
    }

    /// Adds the finalizer of a bound content (`addGroupSnapshotContentFinalizer`).
    pub(super) async fn add_group_content_finalizer(
        &self,
        groups: &Groups,
        content: &VolumeGroupSnapshotContent,
    ) -> Result<(), String> {
        let has_some = content.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty());
        let operation = if has_some {
            Operation::Add { path: "/metadata/finalizers/-".to_owned(), value: CONTENT_FINALIZER.into() }
        } else {
            Operation::Add { path: "/metadata/finalizers".to_owned(), value: json!([CONTENT_FINALIZER]) }
        };
        let written = self.patch_group_content(content, &[operation]).await;
        groups.keep_content(&written.map_err(|e| update_error(content.name(), &e))?);
        Ok(())
    }

    /// Tells the sidecar by an annotation that the group is being deleted (`setAnnVolumeGroupSnapshotBeingDeleted`).
    pub(super) async fn set_group_being_deleted(
        &self,
        groups: &Groups,
        content: &VolumeGroupSnapshotContent,
    ) -> Result<(), String> {
        if content.annotation(BEING_DELETED).is_some() {
            return Ok(());
        }
        let mut annotations = content.metadata.annotations.clone().unwrap_or_default();
        annotations.insert(BEING_DELETED.to_owned(), YES.to_owned());
        let operation = Operation::Replace { path: "/metadata/annotations".to_owned(), value: json!(annotations) };
        let written = self.patch_group_content(content, &[operation]).await;
        groups.keep_content(&written.map_err(|e| update_error(content.name(), &e))?);
        Ok(())
    }

    /// Adds the finalizer of a bound group (`addGroupSnapshotFinalizer`).
    pub(super) async fn add_group_finalizer(&self, groups: &Groups, group: &VolumeGroupSnapshot) -> Result<(), String> {
        let of_namespace = self.client.namespaced::<VolumeGroupSnapshot>(group.namespace());
        let has_none = group.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
        let written = if has_none {
            let mut new = Box::new(group.clone());
            add(&mut new.metadata, BOUND_FINALIZER);
            of_namespace.replace(&new).await
        } else {
            let value = BOUND_FINALIZER.into();
            let operation = Operation::Add { path: "/metadata/finalizers/-".to_owned(), value };
            of_namespace.patch(group.name(), &Patch::json(&[operation])).await
        };
        groups.keep(&written.map_err(|e| update_error(&group_key(group), &e))?);
        Ok(())
    }

    /// Removes the finalizer of a bound group (`removeGroupSnapshotFinalizer`).
    pub(super) async fn remove_group_finalizer(
        &self,
        groups: &Groups,
        group: &VolumeGroupSnapshot,
    ) -> Result<(), String> {
        let mut freed = Box::new(group.clone());
        remove(&mut freed.metadata, BOUND_FINALIZER);
        let written = self.client.namespaced::<VolumeGroupSnapshot>(group.namespace()).replace(&freed).await;
        groups.keep(&written.map_err(|e| update_error(group.name(), &e))?);
        Ok(())
    }
}
