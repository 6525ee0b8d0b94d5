//! Handling of a single VolumeAttachment or PersistentVolume (`csi_handler.go` and `trivial_handler.go` upstream).

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use csi_proto::csi::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeSpec, Secret, SecretReference};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use substrate::mutant;
use substrate::process::Ctx;

use super::driver::{Capabilities, Driver};
use super::patches::{self, NODE_ID_ANNOTATION};
use crate::csi::{RpcError, volume_capability};
use crate::events::AttacherError;
use crate::kube::{Api, ApiError, Client, Informer, Kind, Outcome, Patch};

/// Volume of an attachment.
enum Volume<'a> {
    /// The PersistentVolume that the attachment names.
    Stored(Arc<PersistentVolume>),
    /// A volume that the attachment describes.
    Inline(&'a PersistentVolumeSpec),
}

impl Volume<'_> {
    fn spec(&self) -> Option<&PersistentVolumeSpec> {
        match self {
            Self::Stored(volume) => volume.spec.as_ref(),
            Self::Inline(spec) => Some(spec),
        }
    }
}

/// State shared by the workers.
pub struct Handler {
    pub ctx: Ctx,
    pub client: Client,
    pub driver: Driver,
    pub driver_name: String,
    pub capabilities: Capabilities,
    pub finalizer: String,
    pub attachments: Informer<VolumeAttachment>,
    pub volumes: Informer<PersistentVolume>,
    pub nodes: Informer<CSINode>,
    /// Attachments to sync even though their status needs no work.
    pub force: Mutex<BTreeSet<String>>,
}

impl Handler {
    fn api(&self) -> Api<VolumeAttachment> {
        self.client.all()
    }

    /// Syncs one VolumeAttachment.
    pub async fn sync_attachment(&self, name: &str) -> Outcome {
        let Some(attachment) = self.attachments.get("", name) else { return Outcome::Done };
        if attachment.spec.attacher != self.driver_name {
            return Outcome::Done;
        }
        let done = match (self.capabilities.publish, attachment.is_deleting()) {
            (false, _) => self.attach_trivially(&attachment).await,
            (true, false) => self.sync_attach(attachment).await,
            (true, true) => self.sync_detach(&attachment).await,
        };
        if done { Outcome::Done } else { Outcome::Retry }
    }

    fn take_force(&self, name: &str) -> bool {
        self.force.lock().remove(name)
    }

    /// Patches the attachment from `old` to `new`, even if the patch is empty.
    async fn patch(&self, old: &VolumeAttachment, new: &VolumeAttachment) -> Result<Arc<VolumeAttachment>, ApiError> {
        self.api().patch(old.name(), &Patch::merge(old, new)?).await
    }

    /// Patches the attachment's status from `old` to `new`.
    async fn patch_status(&self, old: &VolumeAttachment, new: &VolumeAttachment) -> Result<(), ApiError> {
        self.api().patch_status_unread(old.name(), &Patch::merge(old, new)?).await
    }

    /// Handles a driver without ControllerPublish: attached at once, no finalizer.
    async fn attach_trivially(&self, attachment: &VolumeAttachment) -> bool {
        if attachment.is_deleting() || attachment.status.as_ref().is_some_and(|s| s.attached) {
            return true;
        }
        self.patch_status(attachment, &patches::attached(attachment, BTreeMap::new())).await.is_ok()
    }

    async fn sync_attach(&self, mut attachment: Arc<VolumeAttachment>) -> bool {
        let forced = self.take_force(attachment.name());
        if !forced && attachment.status.as_ref().is_some_and(|s| s.attached) {
            return true;
        }
        if mutant!(self.ctx, "attached-before-publish") {
            let early = patches::attached(&attachment, BTreeMap::new());
            // The true status is written again after the attach.
            let _ = self.patch_status(&attachment, &early).await;
        }
        match self.attach(&mut attachment).await {
            Ok(mut context) => {
                if mutant!(self.ctx, "publish-context-dropped") {
                    context.clear();
                }
                let mut attached = patches::attached(&attachment, context);
                if mutant!(self.ctx, "attach-error-kept")
                    && let (Some(new), Some(old)) = (&mut attached.status, &attachment.status)
                {
                    new.attach_error.clone_from(&old.attach_error);
                }
                let written = self.patch_status(&attachment, &attached).await.is_ok();
                written || mutant!(self.ctx, "attached-status-not-retried")
            }
            Err(_) if mutant!(self.ctx, "attach-error-not-told") => false,
            Err(e) => {
                self.save(&attachment, &patches::attach_failed(&attachment, &e, self.ctx.now().wall), &e).await;
                mutant!(self.ctx, "failed-attach-not-retried")
            }
        }
    }

    /// Attaches the volume. All checks without side effects come before the finalizer, which blocks deletion.
    async fn attach(&self, attachment: &mut Arc<VolumeAttachment>) -> Result<BTreeMap<String, String>, RpcError> {
        let read = attachment.clone();
        let volume = self.volume_of(&read)?;
        if let Volume::Stored(pv) = &volume {
            if pv.is_deleting() {
                return Err(format!("PersistentVolume \"{}\" is marked for deletion", pv.name()).into());
            }
            if let Some(patch) = patches::add_pv_finalizer(pv, &self.finalizer) {
                self.client
                    .all::<PersistentVolume>()
                    .patch_unread(pv.name(), &patch)
                    .await
                    .map_err(|e| format!("could not add PersistentVolume finalizer: {e}"))?;
            }
        }
        let spec = volume.spec().ok_or_else(not_csi)?;
        let csi = spec.csi.as_ref().ok_or_else(not_csi)?;
        let capability = volume_capability(spec, self.capabilities.single_node_multi_writer)?;
        let secrets = self.secrets(csi.controller_publish_secret_ref.as_ref()).await?;
        let node_id = self.node_id(&attachment.spec.node_name, None)?;
        if let Some(prepared) = patches::prepared(attachment, &self.finalizer, &node_id) {
            *attachment =
                self.patch(attachment, &prepared).await.map_err(|e| format!("could not save VolumeAttachment: {e}"))?;
        }
        self.driver
            .publish(ControllerPublishVolumeRequest {
                volume_id: csi.volume_handle.clone(),
                node_id,
                volume_capability: Some(capability),
                readonly: self.capabilities.readonly
                    && csi.read_only.unwrap_or_default()
                    && !mutant!(self.ctx, "publish-read-only-dropped"),
                secrets,
                volume_context: csi.volume_attributes.clone().unwrap_or_default(),
            })
            .await
    }

    async fn sync_detach(&self, attachment: &VolumeAttachment) -> bool {
        let forced = self.take_force(attachment.name());
        if !forced && !attachment.has_finalizer(&self.finalizer) {
            return true;
        }
        if mutant!(self.ctx, "finalizer-removed-early") {
            let _ = self.patch(attachment, &patches::released(attachment, &self.finalizer)).await;
        }
        let result = match self.detach(attachment).await {
            Ok(()) => self.mark_detached(attachment).await,
            Err(RpcError::Grpc { .. }) if mutant!(self.ctx, "detach-error-is-success") => {
                self.mark_detached(attachment).await
            }
            // After any error, NOT_FOUND included, the volume may still be attached (external-attacher#165).
            Err(e) => Err(e),
        };
        let Err(e) = result else { return true };
        self.save(attachment, &patches::detach_failed(attachment, &e, self.ctx.now().wall), &e).await;
        mutant!(self.ctx, "never-retries-detach")
    }

    async fn detach(&self, attachment: &VolumeAttachment) -> Result<(), RpcError> {
        let is_attached = attachment.status.as_ref().is_some_and(|s| s.attached);
        if !is_attached && mutant!(self.ctx, "failed-attach-not-undone") {
            return Ok(());
        }
        let volume = self.volume_of(attachment)?;
        let csi = volume.spec().and_then(|spec| spec.csi.as_ref()).ok_or_else(not_csi)?;
        let secrets = self.secrets(csi.controller_publish_secret_ref.as_ref()).await?;
        if mutant!(self.ctx, "missing-node-is-detached") && self.nodes.get("", &attachment.spec.node_name).is_none() {
            return Ok(());
        }
        let node_id = self.node_id(&attachment.spec.node_name, Some(attachment))?;
        let volume_id = csi.volume_handle.clone();
        self.driver.unpublish(ControllerUnpublishVolumeRequest { volume_id, node_id, secrets }).await
    }

    /// Marks the attachment as detached: removes the finalizer first. The other order caused a second Unpublish
    /// (external-attacher#587).
    async fn mark_detached(&self, attachment: &VolumeAttachment) -> Result<(), RpcError> {
        if mutant!(self.ctx, "attachment-finalizer-kept") {
            return Ok(());
        }
        let unmarked = |e: ApiError| RpcError::Other(format!("could not mark as detached: {e}"));
        let is_attached = attachment.status.as_ref().is_some_and(|s| s.attached);
        let released = if attachment.has_finalizer(&self.finalizer) {
            let released = patches::released(attachment, &self.finalizer);
            self.patch(attachment, &released).await.map_err(unmarked)?
        } else if is_attached {
            Arc::new(attachment.clone())
        } else {
            return Ok(());
        };
        match self.patch_status(&released, &patches::detached(&released)).await {
            // The usual case: without its finalizer the object is gone.
            Err(e) if e.is_not_found() => Ok(()),
            written => written.map_err(unmarked),
        }
    }

    /// Writes an error to the status.
    async fn save(&self, old: &VolumeAttachment, new: &VolumeAttachment, error: &RpcError) {
        if let Err(e) = self.patch_status(old, new).await {
            self.ctx.trace().emit_lazily(self.ctx.name(), || AttacherError {
                attachment: old.name().into(),
                error: error.to_string(),
                saving: e.to_string(),
            });
        }
    }

    fn volume_of<'a>(&self, attachment: &'a VolumeAttachment) -> Result<Volume<'a>, RpcError> {
        if let Some(spec) = &attachment.spec.source.inline_volume_spec {
            return Ok(Volume::Inline(spec));
        }
        let Some(name) = attachment.spec.source.persistent_volume_name.as_deref() else {
            return Err("neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source"
                .to_owned()
                .into());
        };
        // From the cache only: a missing PersistentVolume leaves the attachment stuck (external-attacher#235).
        let stored = self.volumes.get("", name).map(Volume::Stored);
        stored.ok_or_else(|| format!("persistentvolume \"{name}\" not found").into())
    }

    /// Returns the node's id at the driver: from its CSINode, else from the attachment's annotation.
    fn node_id(&self, node: &str, attachment: Option<&VolumeAttachment>) -> Result<String, RpcError> {
        let found = self.nodes.get("", node);
        if let Some(csi_node) = &found
            && let Some(driver) = csi_node.spec.drivers.iter().find(|d| d.name == self.driver_name)
        {
            return Ok(driver.node_id.clone());
        }
        let attachment = attachment.filter(|_| !mutant!(self.ctx, "recorded-node-id-ignored"));
        if let Some(id) = attachment.and_then(|a| a.annotation(NODE_ID_ANNOTATION)) {
            return Ok(id.to_owned());
        }
        Err(match found {
            Some(_) => format!("CSINode {node} does not contain driver {}", self.driver_name).into(),
            None => format!("csinode.storage.k8s.io \"{node}\" not found").into(),
        })
    }

    async fn secrets(&self, reference: Option<&SecretReference>) -> Result<BTreeMap<String, String>, RpcError> {
        let Some(reference) = reference else { return Ok(BTreeMap::new()) };
        let (namespace, name) =
            (reference.namespace.as_deref().unwrap_or_default(), reference.name.as_deref().unwrap_or_default());
        let secret = self
            .client
            .namespaced::<Secret>(namespace)
            .get(name)
            .await
            .map_err(|e| format!("failed to load secret \"{namespace}/{name}\": {e}"))?;
        let text = |bytes: &k8s_openapi::ByteString| String::from_utf8_lossy(&bytes.0).into_owned();
        Ok(secret.data.iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect())
    }

    /// Drops the finalizer of a deleting PersistentVolume that no attachment refers to.
    pub async fn sync_volume(&self, name: &str) -> Outcome {
        let Some(pv) = self.volumes.get("", name) else { return Outcome::Done };
        if !pv.is_deleting() || !pv.has_finalizer(&self.finalizer) {
            return Outcome::Done;
        }
        let mut used = false;
        let spares = mutant!(self.ctx, "deleting-attachment-not-counted");
        self.attachments.each(|a| {
            let refers = a.spec.source.persistent_volume_name.as_deref() == Some(name);
            used |= refers && !(spares && a.is_deleting());
        });
        if used && !mutant!(self.ctx, "volume-goes-before-attachment") {
            return Outcome::Done;
        }
        let Some(patch) = patches::remove_pv_finalizer(&pv, &self.finalizer) else { return Outcome::Done };
        match self.client.all::<PersistentVolume>().patch_unread(name, &patch).await {
            Ok(()) => Outcome::Done,
            Err(_) if mutant!(self.ctx, "attacher-finalizer-not-retried") => Outcome::Done,
            Err(_) => Outcome::Retry,
        }
    }

    /// Returns the attachments whose status differs from the driver's list.
    pub fn diverged(&self, published: &BTreeMap<String, Vec<String>>) -> Vec<String> {
        let mut names = Vec::new();
        let ignores_nodes = mutant!(self.ctx, "listed-volume-counts-as-attached");
        self.attachments.each(|attachment| {
            if attachment.spec.attacher != self.driver_name {
                return;
            }
            let Ok(volume) = self.volume_of(attachment) else { return };
            let Some(csi) = volume.spec().and_then(|spec| spec.csi.as_ref()) else { return };
            let Ok(node_id) = self.node_id(&attachment.spec.node_name, Some(attachment)) else { return };
            let listed =
                published.get(&csi.volume_handle).is_some_and(|nodes| ignores_nodes || nodes.contains(&node_id));
            let listed = listed && !mutant!(self.ctx, "listed-volume-attached-again");
            if listed != attachment.status.as_ref().is_some_and(|s| s.attached) {
                names.push(attachment.name().to_owned());
            }
        });
        names
    }
}

fn not_csi() -> String {
    "pv spec contained non-csi source that was not migrated".to_owned()
}
