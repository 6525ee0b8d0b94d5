//! Creation of the content of a snapshot, and the snapshot's class.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, SecretReference};
use substrate::mutant;

use super::super::group::group_name;
use super::super::names::DEFAULT_CLASS;
use super::super::objects::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use super::super::secret::{self, Purpose};
use super::super::{class_missing, update_error};
use super::async_loop::Controller;
use super::binding::new_content;
use super::decide::{default_class, dynamic_content_name, is_volume_bound_to_claim, snapshot_key};
use crate::binder::object::{claim_phase, volume_name};
use crate::kube::{Kind, Operation, Patch, reference};

/// Error: the class of a snapshot is unknown.
pub(super) struct NoClass {
    /// True if the class does not exist.
    pub(super) not_found: bool,
}

impl Controller {
    /// Returns the snapshot with its class, or with the default class (`checkAndUpdateSnapshotClass`).
    pub(super) async fn check_and_update_snapshot_class(
        &self,
        snapshot: Arc<VolumeSnapshot>,
    ) -> Result<Arc<VolumeSnapshot>, NoClass> {
        let Some(name) = &snapshot.spec.volume_snapshot_class_name else {
            return match self.set_default_snapshot_class(&snapshot).await {
                Ok(changed) => Ok(changed),
                Err(why) => {
                    let message = format!("Failed to set default snapshot class with error {why}");
                    let _ = self.fail(&snapshot, false, "SetDefaultSnapshotClassFailed", &message).await;
                    Err(NoClass { not_found: false })
                }
            };
        };
        if self.classes.get("", name).is_none() {
            let message = format!("Failed to get snapshot class with error {}", class_missing(name));
            let _ = self.fail(&snapshot, false, "GetSnapshotClassFailed", &message).await;
            return Err(NoClass { not_found: true });
        }
        Ok(snapshot)
    }

    /// Writes the default class of the volume's driver to the snapshot (`SetDefaultSnapshotClass`).
    async fn set_default_snapshot_class(&self, snapshot: &Arc<VolumeSnapshot>) -> Result<Arc<VolumeSnapshot>, String> {
        // A member of a group has no class.
        if snapshot.spec.source.volume_snapshot_content_name.is_some() || group_name(snapshot).is_some() {
            return Ok(snapshot.clone());
        }
        let classes = self.classes.list();
        let volume = self.volume_of(snapshot).await?;
        let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
        let csi = csi.ok_or_else(|| {
            format!("snapshotting non-CSI volumes is not supported, snapshot:{}", snapshot_key(snapshot))
        })?;
        let class = match mutant!(self.ctx, "any-default-class-taken") {
            true => {
                let marked = classes.into_iter().find(|class| class.annotation(DEFAULT_CLASS) == Some("true"));
                marked.ok_or_else(|| "cannot find default snapshot class".to_owned())?
            }
            false => default_class(classes, &csi.driver)?,
        };
        let patch = Patch::json(&[Operation::Replace {
            path: "/spec/volumeSnapshotClassName".to_owned(),
            value: class.name().into(),
        }]);
        let written =
            self.client.namespaced::<VolumeSnapshot>(snapshot.namespace()).patch(snapshot.name(), &patch).await;
        // Upstream continues with the old object after a failed patch.
        let new = written.unwrap_or_else(|_| snapshot.clone());
        self.keep_snapshot(&new);
        Ok(new)
    }

    /// Returns the volume of the snapshot's claim (`getVolumeFromVolumeSnapshot`).
    async fn volume_of(&self, snapshot: &VolumeSnapshot) -> Result<Arc<PersistentVolume>, String> {
        let claim = self.claim_of(snapshot)?;
        if claim_phase(&claim) != "Bound" {
            let name = claim.name();
            return Err(format!("the PVC {name} is not yet bound to a PV, will not attempt to take a snapshot"));
        }
        let name = volume_name(&claim);
        let volume = self.client.all::<PersistentVolume>().get(name).await;
        let volume =
            volume.map_err(|e| format!("failed to retrieve PV {name} from the API server: {:?}", e.to_string()))?;
        if is_volume_bound_to_claim(&volume, &claim) {
            Ok(volume)
        } else {
            Err("claim in dataSource not bound or invalid".to_owned())
        }
    }

    /// Creates the content of a snapshot of a claim (`createSnapshotContent`).
    pub(super) async fn create_snapshot_content(
        &self,
        snapshot: &VolumeSnapshot,
    ) -> Result<Arc<VolumeSnapshotContent>, String> {
        self.ensure_claim_finalizer(snapshot).await?;
        let (class, volume, secret) = self
            .create_snapshot_input(snapshot)
            .await
            .map_err(|e| format!("failed to get input parameters to create snapshot {}: {e:?}", snapshot.name()))?;
        let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
        let csi = csi.ok_or_else(|| format!("cannot find CSI PersistentVolumeSource for volume {}", volume.name()))?;
        let mut content = new_content(snapshot, &class, &volume, &csi.volume_handle, secret.as_ref());
        if mutant!(self.ctx, "snapshot-policy-ignored") {
            "Delete".clone_into(&mut content.spec.deletion_policy);
        }
        if mutant!(self.ctx, "snapshot-of-wrong-volume")
            && let Some(handle) = self.any_other_volume(&csi.volume_handle).await
        {
            content.spec.source.volume_handle = Some(handle);
        }
        let key = snapshot_key(snapshot);
        let made = match self.client.all::<VolumeSnapshotContent>().create(&content).await {
            Ok(made) => made,
            // Upstream keeps the object that it sent, which has no version.
            Err(e) if e.is_already_exists() => Arc::new(content),
            Err(e) => {
                let message = format!("Error creating volume snapshot content object for snapshot {key}: {e}.");
                self.event(reference(snapshot), "Warning", "CreateSnapshotContentFailed", message);
                return Err(update_error(&key, &e));
            }
        };
        let message = format!("Waiting for a snapshot {key} to be created by the CSI driver.");
        self.event(reference(snapshot), "Normal", "CreatingSnapshot", message);
        self.keep_content(&made);
        Ok(made)
    }

    /// Returns class, volume and secret of a new content (`getCreateSnapshotInput`).
    async fn create_snapshot_input(
        &self,
        snapshot: &VolumeSnapshot,
    ) -> Result<(Arc<VolumeSnapshotClass>, Arc<PersistentVolume>, Option<SecretReference>), String> {
        let Some(name) = &snapshot.spec.volume_snapshot_class_name else {
            return Err(format!("failed to take snapshot {} without a snapshot class", snapshot.name()));
        };
        let class = self.classes.get("", name).ok_or_else(|| class_missing(name))?;
        let volume = self.volume_of(snapshot).await?;
        let content = dynamic_content_name(snapshot);
        let secret = secret::reference(Purpose::Snapshotter, &class.parameters, &content, Some(snapshot));
        Ok((class, volume, secret.map_err(|e| e.to_string())?))
    }

    /// Returns the handle of another volume, for a seeded bug.
    async fn any_other_volume(&self, handle: &str) -> Option<String> {
        let all = self.client.all::<PersistentVolume>().list(&crate::kube::ListParams::default()).await.ok()?;
        let handles = all.items.into_iter().filter_map(|volume| Some(volume.spec?.csi?.volume_handle));
        handles.into_iter().find(|other| other != handle)
    }
}
