//! Writes of contents of groups: annotation, finalizer and status.

use std::sync::Arc;

use substrate::json::{self, Value, json};

use super::super::super::group::names::{BEING_CREATED, CONTENT_FINALIZER};
use super::super::super::group::objects::{ContentStatus, VolumeGroupSnapshotContent};
use super::super::super::names::YES;
use super::super::super::update_error;
use super::super::async_loop::Sidecar;
use super::Groups;
use super::status::{self, TakenGroup};
use crate::kube::{Kind, Operation, Patch, reference};

fn replace(path: &str, value: Value) -> Operation {
    Operation::Replace { path: path.to_owned(), value }
}

impl Sidecar {
    /// Sends a patch of the content and stores the answer.
    async fn patch_group(
        &self,
        groups: &Groups,
        content: &VolumeGroupSnapshotContent,
        operation: Operation,
    ) -> Result<Arc<VolumeGroupSnapshotContent>, String> {
        let name = content.name();
        let written = self.client.all::<VolumeGroupSnapshotContent>().patch(name, &Patch::json(&[operation])).await;
        let written = written.map_err(|e| update_error(name, &e))?;
        groups.keep(&written);
        Ok(written)
    }

    /// Adds the annotation of a running CreateVolumeGroupSnapshot (`setAnnVolumeGroupSnapshotBeingCreated`).
    pub(super) async fn set_group_being_created(
        &self,
        groups: &Groups,
        content: &Arc<VolumeGroupSnapshotContent>,
    ) -> Result<Arc<VolumeGroupSnapshotContent>, String> {
        if content.annotation(BEING_CREATED).is_some() {
            return Ok(content.clone());
        }
        let mut annotations = content.metadata.annotations.clone().unwrap_or_default();
        annotations.insert(BEING_CREATED.to_owned(), YES.to_owned());
        self.patch_group(groups, content, replace("/metadata/annotations", json!(annotations))).await
    }

    /// Removes the annotation, once the call has certainly ended (`removeAnnVolumeGroupSnapshotBeingCreated`).
    pub(super) async fn remove_group_being_created(
        &self,
        groups: &Groups,
        content: &Arc<VolumeGroupSnapshotContent>,
    ) -> Result<Arc<VolumeGroupSnapshotContent>, String> {
        if content.annotation(BEING_CREATED).is_none() {
            return Ok(content.clone());
        }
        let path = format!("/metadata/annotations/{}", BEING_CREATED.replace('/', "~1"));
        self.patch_group(groups, content, Operation::Remove { path }).await
    }

    /// Removes the finalizer of a content (`removeGroupSnapshotContentFinalizer`).
    pub(super) async fn remove_group_finalizer(
        &self,
        groups: &Groups,
        content: &VolumeGroupSnapshotContent,
    ) -> Result<(), String> {
        if !content.has_finalizer(CONTENT_FINALIZER) {
            return Ok(());
        }
        let others: Vec<&String> =
            content.metadata.finalizers.iter().flatten().filter(|one| *one != CONTENT_FINALIZER).collect();
        // Go writes an empty list as null.
        let value = if others.is_empty() { Value::Null } else { json!(others) };
        self.patch_group(groups, content, replace("/metadata/finalizers", value)).await.map(drop)
    }

    /// Writes the driver's description to the content (`updateGroupSnapshotContentStatus`).
    pub(super) async fn update_group_status(
        &self,
        content: &VolumeGroupSnapshotContent,
        taken: &TakenGroup,
    ) -> Result<Arc<VolumeGroupSnapshotContent>, String> {
        let name = content.name();
        let contents = self.client.all::<VolumeGroupSnapshotContent>();
        let present = contents.get(name).await;
        let present = present.map_err(|e| format!("error get group snapshot content {name} from api server: {e}"))?;
        let Some(status) = status::updated(present.status.as_ref(), taken) else { return Ok(present) };
        let mut new = Box::new(VolumeGroupSnapshotContent::clone(&present));
        new.status = Some(status);
        contents.replace_status(&new).await.map_err(|e| update_error(name, &e))
    }

    /// Writes an error to the content's status, with an Event, unless the status has it already
    /// (`updateGroupSnapshotContentErrorStatusWithEvent`).
    pub(super) async fn fail_group(
        &self,
        groups: &Groups,
        content: &Arc<VolumeGroupSnapshotContent>,
        reason: &str,
        message: &str,
    ) {
        let status = content.status.as_ref();
        let Some(error) = status::failed(status, message, self.ctx.now().wall) else { return };
        let operations = match status {
            None => {
                let failed =
                    ContentStatus { ready_to_use: Some(false), error: Some(error), ..ContentStatus::default() };
                json::to_value(&failed).map(|status| vec![replace("/status", status)])
            }
            Some(_) => json::to_value(&error)
                .map(|error| vec![replace("/status/error", error), replace("/status/readyToUse", false.into())]),
        };
        // The types encode as objects.
        let Ok(operations) = operations else { return };
        let contents = self.client.all::<VolumeGroupSnapshotContent>();
        let written = contents.patch_status(content.name(), &Patch::json(&operations)).await;
        let about = written.as_ref().unwrap_or(content);
        self.recorder.event(reference(&**about), "Warning", reason, message);
        if let Ok(written) = &written {
            groups.keep(written);
        }
    }
}
