//! Creation of the content of a group, and the group's class.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, SecretReference};
use substrate::mutant;

use super::super::super::group::class_missing;
use super::super::super::group::objects::{VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent};
use super::super::super::secret::{self, Purpose};
use super::super::super::update_error;
use super::super::async_loop::Controller;
use super::super::create::NoClass;
use super::super::decide::is_volume_bound_to_claim;
use super::Groups;
use super::binding::new_content;
use super::decide::{default_class, dynamic_content_name, group_key, handles, selector};
use crate::binder::object::{claim_phase, volume_name};
use crate::kube::{Kind, ListParams, reference};

impl Controller {
    /// Returns the group with its class, or with the default class (`checkAndUpdateGroupSnapshotClass`).
    pub(super) async fn check_and_update_group_class(
        &self,
        groups: &Groups,
        group: Arc<VolumeGroupSnapshot>,
    ) -> Result<Arc<VolumeGroupSnapshot>, NoClass> {
        let Some(name) = &group.spec.volume_group_snapshot_class_name else {
            // A pre-provisioned group needs no class.
            if group.spec.source.volume_group_snapshot_content_name.is_some() {
                return Ok(group);
            }
            return match self.set_default_group_class(groups, &group).await {
                Ok(changed) => Ok(changed),
                Err(why) => {
                    let message = format!("Failed to set default group snapshot class with error {why}");
                    let reason = "SetDefaultGroupSnapshotClassFailed";
                    let _ = self.fail_group(groups, &group, false, reason, &message).await;
                    Err(NoClass { not_found: false })
                }
            };
        };
        if groups.classes.get("", name).is_none() {
            let message = format!("failed to get group snapshot class with error {}", class_missing(name));
            let _ = self.fail_group(groups, &group, false, "GetGroupSnapshotClassFailed", &message).await;
            return Err(NoClass { not_found: true });
        }
        Ok(group)
    }

    /// Writes the default class of the driver of the group's first volume to the group
    /// (`SetDefaultGroupSnapshotClass`).
    async fn set_default_group_class(
        &self,
        groups: &Groups,
        group: &VolumeGroupSnapshot,
    ) -> Result<Arc<VolumeGroupSnapshot>, String> {
        let classes = groups.classes.list();
        let volumes = self.volumes_of_group(group).await?;
        let csi = volumes.first().and_then(|volume| volume.spec.as_ref()?.csi.as_ref());
        let csi = csi.ok_or_else(|| {
            format!("snapshotting non-CSI volumes is not supported, group snapshot:{}", group_key(group))
        })?;
        let class = default_class(classes, &csi.driver)?;
        let mut new = Box::new(group.clone());
        new.spec.volume_group_snapshot_class_name = Some(class.name().to_owned());
        // Upstream continues with an empty object after a failed write. This is retried.
        let written = self.client.namespaced::<VolumeGroupSnapshot>(group.namespace()).replace(&new).await;
        let written = written.map_err(|e| update_error(&group_key(group), &e))?;
        groups.keep(&written);
        Ok(written)
    }

    /// Returns the volumes of the claims that the group selects (`getVolumesFromVolumeGroupSnapshot`). There is at least
    /// one.
    async fn volumes_of_group(&self, group: &VolumeGroupSnapshot) -> Result<Vec<Arc<PersistentVolume>>, String> {
        let labels = selector(group);
        let shown = if labels.is_empty() { "<none>" } else { &labels };
        let claims = self.client.namespaced::<PersistentVolumeClaim>(group.namespace());
        let selected = Some(labels.clone()).filter(|labels| !labels.is_empty());
        let params = ListParams { label_selector: selected, ..ListParams::default() };
        let claims = claims.list(&params).await.map_err(|e| {
            let error = e.to_string();
            format!("failed to list PVCs with label selector {shown}: {error:?}")
        })?;
        if claims.items.is_empty() {
            return Err(format!("label selector {shown} for group snapshot not applied to any PVC"));
        }
        let mut volumes = Vec::new();
        for claim in &claims.items {
            if claim_phase(claim) != "Bound" {
                let name = claim.name();
                return Err(format!(
                    "the PVC {name} is not yet bound to a PV, will not attempt to take a group snapshot"
                ));
            }
            let name = volume_name(claim);
            let volume = self.client.all::<PersistentVolume>().get(name).await;
            let volume =
                volume.map_err(|e| format!("failed to retrieve PV {name} from the API server: {:?}", e.to_string()))?;
            if !is_volume_bound_to_claim(&volume, claim) {
                return Err("claim in dataSource not bound or invalid".to_owned());
            }
            volumes.push(volume);
        }
        Ok(volumes)
    }

    /// Creates the content of a group (`createGroupSnapshotContent`).
    pub(super) async fn create_group_content(
        &self,
        groups: &Groups,
        group: &VolumeGroupSnapshot,
    ) -> Result<Arc<VolumeGroupSnapshotContent>, String> {
        let key = group_key(group);
        let (class, volumes, secret) = self
            .create_group_input(groups, group)
            .await
            .map_err(|e| format!("failed to get input parameters to create group snapshot {}: {e:?}", group.name()))?;
        let mut handles = handles(&key, &class, volumes.iter().map(|volume| &**volume)).map_err(|foreign| {
            self.event(reference(group), "Warning", "CreateGroupSnapshotContentFailed", foreign.message);
            foreign.error
        })?;
        if mutant!(self.ctx, "group-member-left-out") && handles.len() > 1 {
            handles.pop();
        }
        let content = new_content(group, &class, handles, secret.as_ref());
        let made = match self.client.all::<VolumeGroupSnapshotContent>().create(&content).await {
            Ok(made) => made,
            // Upstream keeps the object that it sent, which has no version.
            Err(e) if e.is_already_exists() => Arc::new(content),
            Err(e) => {
                let message =
                    format!("Error creating volume group snapshot content object for group snapshot {key}: {e}.");
                self.event(reference(group), "Warning", "CreateGroupSnapshotContentFailed", message);
                return Err(update_error(&key, &e));
            }
        };
        let message = format!("Waiting for a group snapshot {key} to be created by the CSI driver.");
        self.event(reference(group), "Normal", "CreatingGroupSnapshot", message);
        groups.keep_content(&made);
        Ok(made)
    }

    /// Returns class, volumes and secret of a new content (`getCreateGroupSnapshotInput`).
    async fn create_group_input(
        &self,
        groups: &Groups,
        group: &VolumeGroupSnapshot,
    ) -> Result<(Arc<VolumeGroupSnapshotClass>, Vec<Arc<PersistentVolume>>, Option<SecretReference>), String> {
        let Some(name) = &group.spec.volume_group_snapshot_class_name else {
            return Err(format!("failed to take group snapshot {} without a group snapshot class", group.name()));
        };
        let class = groups.classes.get("", name).ok_or_else(|| class_missing(name))?;
        let volumes = self.volumes_of_group(group).await?;
        let secret = secret::group_reference(
            Purpose::GroupSnapshotter,
            &class.parameters,
            &dynamic_content_name(group),
            Some(group),
        );
        Ok((class, volumes, secret.map_err(|e| e.to_string())?))
    }
}
