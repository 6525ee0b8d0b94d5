//! Writes of snapshots and contents, and their Events.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use substrate::json::json;
use substrate::mutant;

use super::super::names::{BEING_DELETED, CONTENT_FINALIZER, YES};
use super::super::objects::{DELETE, VolumeSnapshot, VolumeSnapshotContent};
use super::super::update_error;
use super::async_loop::Controller;
use super::decide::{is_snapshot_created, snapshot_key};
use super::status;
use crate::kube::{ApiError, Kind, Operation, Patch, reference, time};

impl Controller {
    pub(super) fn event(&self, object: ObjectReference, kind: &str, reason: &str, message: impl Into<String>) {
        self.recorder.event(object, kind, reason, message);
    }

    /// Writes an error to the snapshot's status, with an Event, unless the status has it already
    /// (`updateSnapshotErrorStatusWithEvent`).
    pub(super) async fn fail(
        &self,
        snapshot: &VolumeSnapshot,
        unready: bool,
        reason: &str,
        message: &str,
    ) -> Result<(), String> {
        let now = self.ctx.now().wall;
        let Some(status) = status::failed(snapshot.status.as_ref(), message, unready, now) else { return Ok(()) };
        let mut new = Box::new(snapshot.clone());
        new.status = Some(status);
        let written = self.client.namespaced::<VolumeSnapshot>(snapshot.namespace()).replace_status(&new).await;
        // After a failed write client-go returns an empty object, and upstream records the Event about that one. The
        // server refuses such an Event.
        let about = written.as_ref().map_or_else(|_| reference(&VolumeSnapshot::blank()), |new| reference(&**new));
        self.event(about, "Warning", reason, message);
        self.keep_snapshot(&written.map_err(|e| e.to_string())?);
        Ok(())
    }

    /// Copies the content's status to the snapshot (`updateSnapshotStatus`).
    pub(super) async fn update_snapshot_status(
        &self,
        snapshot: &VolumeSnapshot,
        content: &VolumeSnapshotContent,
    ) -> Result<Arc<VolumeSnapshot>, String> {
        let key = snapshot_key(snapshot);
        let group = match &self.groups {
            Some(groups) => groups.name_for(snapshot, content)?,
            None => None,
        };
        let present = self.get_snapshot(snapshot).await?;
        let Some(mut status) = status::updated(&present, content, group) else { return Ok(present) };
        if mutant!(self.ctx, "snapshot-ready-early") {
            status.ready_to_use = Some(true);
        }
        if mutant!(self.ctx, "snapshot-error-kept") && status.error.is_none() {
            status.error = present.status.as_ref().and_then(|status| status.error.clone());
        }
        if mutant!(self.ctx, "restore-size-dropped") {
            status.restore_size = None;
        }
        if mutant!(self.ctx, "creation-time-lost") {
            status.creation_time = status.creation_time.map(|_| time(Timestamp::UNIX_EPOCH));
        }
        let mut new = Box::new(VolumeSnapshot::clone(&present));
        new.status = Some(status);
        if !is_snapshot_created(&present) && is_snapshot_created(&new) {
            let message = format!("Snapshot {key} was successfully created by the CSI driver.");
            self.event(reference(snapshot), "Normal", "SnapshotCreated", message);
        }
        if !present.is_ready() && new.is_ready() {
            self.event(reference(snapshot), "Normal", "SnapshotReady", format!("Snapshot {key} is ready to use."));
        }
        let written = self.client.namespaced::<VolumeSnapshot>(snapshot.namespace()).replace_status(&new).await;
        written.map_err(|e| update_error(&key, &e))
    }

    /// Reads the snapshot from the API server.
    pub(super) async fn get_snapshot(&self, snapshot: &VolumeSnapshot) -> Result<Arc<VolumeSnapshot>, String> {
        let read = self.client.namespaced::<VolumeSnapshot>(snapshot.namespace()).get(snapshot.name()).await;
        read.map_err(|e| format!("error get snapshot {} from api server: {e}", snapshot_key(snapshot)))
    }

    /// Sends a JSON patch of a content.
    pub(super) async fn patch_content(
        &self,
        content: &VolumeSnapshotContent,
        operations: &[Operation],
    ) -> Result<Arc<VolumeSnapshotContent>, ApiError> {
        self.client.all::<VolumeSnapshotContent>().patch(content.name(), &Patch::json(operations)).await
    }

    /// Adds the finalizer of a bound content (`addContentFinalizer`).
    pub(super) async fn add_content_finalizer(&self, content: &VolumeSnapshotContent) -> Result<(), String> {
        let has_some = content.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty());
        let operation = if has_some {
            Operation::Add { path: "/metadata/finalizers/-".to_owned(), value: CONTENT_FINALIZER.into() }
        } else {
            Operation::Add { path: "/metadata/finalizers".to_owned(), value: json!([CONTENT_FINALIZER]) }
        };
        let written = self.patch_content(content, &[operation]).await;
        self.keep_content(&written.map_err(|e| update_error(content.name(), &e))?);
        Ok(())
    }

    /// Tells the sidecar by an annotation that the snapshot is being deleted (`setAnnVolumeSnapshotBeingDeleted`).
    ///
    /// Upstream changes the cached object before the patch. So after a failed patch it does not patch this version of
    /// the content again.
    pub(super) async fn set_being_deleted(&self, content: &VolumeSnapshotContent) -> Result<(), String> {
        if content.spec.deletion_policy != DELETE && mutant!(self.ctx, "retained-content-not-marked") {
            return Ok(());
        }
        let (name, version) = (content.name(), content.resource_version());
        let is_marked = self.marked.lock().get(name).is_some_and(|marked| marked == version);
        if is_marked || content.annotation(BEING_DELETED).is_some() {
            return Ok(());
        }
        let mut annotations = content.metadata.annotations.clone().unwrap_or_default();
        annotations.insert(BEING_DELETED.to_owned(), YES.to_owned());
        let operation = Operation::Replace { path: "/metadata/annotations".to_owned(), value: json!(annotations) };
        match self.patch_content(content, &[operation]).await {
            Ok(written) => self.content_store.update(&written).map(drop),
            Err(e) => {
                self.marked.lock().insert(name.to_owned(), version.to_owned());
                Err(update_error(name, &e))
            }
        }
    }
}
