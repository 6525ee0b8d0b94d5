//! Creation of a snapshot (`createSnapshotWrapper`).

use std::collections::BTreeMap;
use std::sync::Arc;

use substrate::mutant;

use super::super::objects::{VolumeSnapshotClass, VolumeSnapshotContent};
use super::super::{class_missing, secret};
use super::async_loop::Sidecar;
use super::driver;
use crate::kube::Kind;

type Content = Arc<VolumeSnapshotContent>;

impl Sidecar {
    /// Makes one attempt. It also checks whether a snapshot that the driver has taken is ready. An error contains the
    /// last state of the content.
    pub(super) async fn create(&self, content: &Content) -> Result<Content, (Content, String)> {
        let name = content.name().to_owned();
        let input = self.create_input(content).await;
        let (class, secrets) = input.map_err(|e| {
            let error = format!("failed to get input parameters to create snapshot for content {name}: {e:?}");
            (content.clone(), error)
        })?;
        // The annotation stays if the call does not end, so that the content is not removed while the driver may take
        // the snapshot.
        let content = &self.set_being_created(content).await.map_err(|e| {
            let error = format!("failed to add VolumeSnapshotBeingCreated annotation on the content {name}: {e:?}");
            (content.clone(), error)
        })?;
        let mut parameters = secret::for_driver(&class.parameters)
            .map_err(|e| (content.clone(), format!("failed to remove CSI Parameters of prefixed keys: {e}")))?;
        secret::add_names(&mut parameters, "volumesnapshot", &content.spec.volume_snapshot_ref, &name);
        let mut asked = content.clone();
        if mutant!(self.ctx, "snapshot-named-by-name") {
            let of = &mut Arc::make_mut(&mut asked).spec.volume_snapshot_ref;
            of.uid.clone_from(&of.name);
        }
        let taken = match driver::create_snapshot(&self.connection, &asked, parameters, secrets).await {
            Ok(taken) => taken,
            Err(error) => {
                let mut last = content.clone();
                let has_ended = error.is_final() && !mutant!(self.ctx, "creation-mark-kept");
                if has_ended || mutant!(self.ctx, "snapshot-timeout-is-final") {
                    last = self.remove_being_created(content).await.map_err(|e| {
                        let error = format!(
                            "failed to remove VolumeSnapshotBeingCreated annotation from the content {name}: {e}"
                        );
                        (content.clone(), error)
                    })?;
                }
                let volume = content.spec.source.volume_handle.as_deref().unwrap_or_default();
                let text = error.to_string();
                return Err((last, format!("failed to take snapshot of the volume {volume}: {text:?}")));
            }
        };
        let written = self
            .update_status(content, &taken)
            .await
            .map_err(|e| (content.clone(), format!("error updating status for volume snapshot content {name}: {e}")))?;
        self.remove_being_created(&written).await.map_err(|e| {
            let error = format!("failed to remove VolumeSnapshotBeingCreated annotation on the content {name}: {e:?}");
            (written.clone(), error)
        })
    }

    /// Returns class and secrets of a creation (`getCSISnapshotInput`).
    async fn create_input(
        &self,
        content: &VolumeSnapshotContent,
    ) -> Result<(Arc<VolumeSnapshotClass>, BTreeMap<String, String>), String> {
        let Some(name) = &content.spec.volume_snapshot_class_name else {
            return Err(format!("failed to take snapshot {} without a snapshot class", content.name()));
        };
        let class = self.class(name).ok_or_else(|| class_missing(name))?;
        Ok((class, self.credentials(content).await?))
    }
}
