//! Writes of contents: annotation, finalizer and status, all as JSON patches.

use std::sync::Arc;

use substrate::json::{self, Value, json};

use super::super::names::{BEING_CREATED, CONTENT_FINALIZER, YES};
use super::super::objects::{VolumeSnapshotContent, VolumeSnapshotContentStatus};
use super::super::update_error;
use super::async_loop::Sidecar;
use super::status::{self, Taken};
use crate::kube::{Kind, Operation, Patch, reference};

fn replace(path: &str, value: Value) -> Operation {
    Operation::Replace { path: path.to_owned(), value }
}

fn encoded<T: serde::Serialize>(value: &T) -> Result<Value, String> {
    json::to_value(value).map_err(|e| e.to_string())
}

impl Sidecar {
    /// Sends a patch of the content and stores the answer.
    async fn patch(
        &self,
        content: &VolumeSnapshotContent,
        operation: Operation,
    ) -> Result<Arc<VolumeSnapshotContent>, String> {
        let name = content.name();
        let written = self.client.all::<VolumeSnapshotContent>().patch(name, &Patch::json(&[operation])).await;
        let written = written.map_err(|e| update_error(name, &e))?;
        self.keep(&written);
        Ok(written)
    }

    /// Adds the annotation of a running CreateSnapshot (`setAnnVolumeSnapshotBeingCreated`).
    pub(super) async fn set_being_created(
        &self,
        content: &Arc<VolumeSnapshotContent>,
    ) -> Result<Arc<VolumeSnapshotContent>, String> {
        if content.annotation(BEING_CREATED).is_some() {
            return Ok(content.clone());
        }
        let mut annotations = content.metadata.annotations.clone().unwrap_or_default();
        annotations.insert(BEING_CREATED.to_owned(), YES.to_owned());
        self.patch(content, replace("/metadata/annotations", json!(annotations))).await
    }

    /// Removes the annotation, once the call has certainly ended (`removeAnnVolumeSnapshotBeingCreated`).
    pub(super) async fn remove_being_created(
        &self,
        content: &Arc<VolumeSnapshotContent>,
    ) -> Result<Arc<VolumeSnapshotContent>, String> {
        if content.annotation(BEING_CREATED).is_none() {
            return Ok(content.clone());
        }
        let path = format!("/metadata/annotations/{}", BEING_CREATED.replace('/', "~1"));
        self.patch(content, Operation::Remove { path }).await
    }

    /// Removes the finalizer of a content (`removeContentFinalizer`).
    pub(super) async fn remove_content_finalizer(&self, content: &VolumeSnapshotContent) -> Result<(), String> {
        if !content.has_finalizer(CONTENT_FINALIZER) {
            return Ok(());
        }
        let others: Vec<&String> =
            content.metadata.finalizers.iter().flatten().filter(|one| *one != CONTENT_FINALIZER).collect();
        // Go writes an empty list as null.
        let value = if others.is_empty() { Value::Null } else { json!(others) };
        self.patch(content, replace("/metadata/finalizers", value)).await.map(drop)
    }

    /// Writes the driver's description to the content (`updateSnapshotContentStatus`).
    pub(super) async fn update_status(
        &self,
        content: &VolumeSnapshotContent,
        taken: &Taken,
    ) -> Result<Arc<VolumeSnapshotContent>, String> {
        let name = content.name();
        let contents = self.client.all::<VolumeSnapshotContent>();
        let present = contents.get(name).await;
        let present = present.map_err(|e| format!("error get snapshot content {name} from api server: {e}"))?;
        let Some(new) = status::updated(present.status.as_ref(), taken) else { return Ok(present) };
        let patch = Patch::json(&[replace("/status", encoded(&new)?)]);
        contents.patch_status(name, &patch).await.map_err(|e| update_error(name, &e))
    }

    /// Writes an error to the content's status, with an Event, unless the status has it already
    /// (`updateContentErrorStatusWithEvent`).
    pub(super) async fn fail(&self, content: &Arc<VolumeSnapshotContent>, reason: &str, message: &str) {
        let status = content.status.as_ref();
        let Some(error) = status::failed(status, message, self.ctx.now().wall) else { return };
        let operations = match status {
            None => encoded(&VolumeSnapshotContentStatus {
                ready_to_use: Some(false),
                error: Some(error),
                ..VolumeSnapshotContentStatus::default()
            })
            .map(|status| vec![replace("/status", status)]),
            Some(_) => encoded(&error)
                .map(|error| vec![replace("/status/error", error), replace("/status/readyToUse", false.into())]),
        };
        // The types encode as objects.
        let Ok(operations) = operations else { return };
        let contents = self.client.all::<VolumeSnapshotContent>();
        let written = contents.patch_status(content.name(), &Patch::json(&operations)).await;
        let about = written.as_ref().unwrap_or(content);
        self.recorder.event(reference(&**about), "Warning", reason, message);
        if let Ok(written) = &written {
            self.keep(written);
        }
    }
}
