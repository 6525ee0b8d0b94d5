//! Creation of a group (`createGroupSnapshotWrapper`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::super::group::class_missing;
use super::super::super::group::objects::{VolumeGroupSnapshotClass, VolumeGroupSnapshotContent};
use super::super::super::secret;
use super::super::async_loop::Sidecar;
use super::{Groups, driver};
use crate::kube::Kind;

type Content = Arc<VolumeGroupSnapshotContent>;

impl Sidecar {
    /// Makes one attempt. It also checks whether a group that the driver has taken is ready. An error contains the last
    /// state of the content.
    pub(super) async fn create_group(&self, groups: &Groups, content: &Content) -> Result<Content, (Content, String)> {
        let name = content.name().to_owned();
        let input = self.create_group_input(groups, content).await;
        let (class, secrets) = input.map_err(|e| {
            let error = format!(
                "failed to get input parameters to create group snapshot for group snapshot content {name}: {e:?}"
            );
            (content.clone(), error)
        })?;
        // The annotation stays if the call does not end, so that the content is not removed while the driver may take
        // the snapshots.
        let content = &self.set_group_being_created(groups, content).await.map_err(|e| {
            let error = format!(
                "failed to add VolumeGroupSnapshotBeingCreated annotation on the group snapshot content {name}: {e:?}"
            );
            (content.clone(), error)
        })?;
        let mut parameters = secret::for_driver(&class.parameters)
            .map_err(|e| (content.clone(), format!("failed to remove CSI Parameters of prefixed keys: {e}")))?;
        secret::add_names(&mut parameters, "volumegroupsnapshot", &content.spec.volume_group_snapshot_ref, &name);
        let taken = match driver::create_group(&self.connection, content, parameters, secrets).await {
            Ok(taken) => taken,
            Err(error) => {
                let mut last = content.clone();
                if error.is_final() {
                    last = self.remove_group_being_created(groups, content).await.map_err(|e| {
                        let annotation = "VolumeGroupSnapshotBeingCreated annotation";
                        let error =
                            format!("failed to remove {annotation} from the group snapshot content {name}: {e}");
                        (content.clone(), error)
                    })?;
                }
                let volumes = content.spec.source.volume_handles.join(" ");
                let text = error.to_string();
                return Err((last, format!("failed to take group snapshot of the volumes [{volumes}]: {text:?}")));
            }
        };
        let written = self.update_group_status(content, &taken).await.map_err(|e| {
            (content.clone(), format!("error updating status for volume group snapshot content {name}: {e}"))
        })?;
        self.remove_group_being_created(groups, &written).await.map_err(|e| {
            let annotation = "VolumeGroupSnapshotBeingCreated annotation";
            (written.clone(), format!("failed to remove {annotation} on the groupSnapshotContent {name}: {e:?}"))
        })
    }

    /// Returns class and secrets of a creation (`getCSIGroupSnapshotInput`).
    async fn create_group_input(
        &self,
        groups: &Groups,
        content: &VolumeGroupSnapshotContent,
    ) -> Result<(Arc<VolumeGroupSnapshotClass>, BTreeMap<String, String>), String> {
        let Some(name) = &content.spec.volume_group_snapshot_class_name else {
            return Err(format!("failed to take group snapshot {} without a group snapshot class", content.name()));
        };
        let class = groups.classes.get("", name).ok_or_else(|| class_missing(name))?;
        Ok((class, self.group_credentials(content).await?))
    }
}
