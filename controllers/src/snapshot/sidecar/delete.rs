//! Deletion of a snapshot (`deleteCSISnapshotOperation`).

use std::sync::Arc;

use super::super::objects::VolumeSnapshotContent;
use super::super::update_error;
use super::async_loop::Sidecar;
use super::{driver, status};
use crate::kube::{Kind, reference};

impl Sidecar {
    /// Deletes the driver's snapshot and clears the content's status, so that it is not deleted twice.
    pub(super) async fn delete_snapshot(
        &self,
        content: &VolumeSnapshotContent,
    ) -> Result<Arc<VolumeSnapshotContent>, String> {
        let name = content.name();
        let fail = |message: &str| self.recorder.event(reference(content), "Warning", "SnapshotDeleteError", message);
        let secrets = self.credentials(content).await.map_err(|e| {
            fail("Failed to get snapshot credentials");
            format!("failed to get input parameters to delete snapshot for content {name}: {e:?}")
        })?;
        driver::delete_snapshot(&self.connection, content, secrets).await.map_err(|e| {
            fail("Failed to delete snapshot");
            format!("failed to delete snapshot {name:?}, err: {e}")
        })?;
        self.clear_status(name).await.inspect_err(|_| fail("Failed to clear content status"))
    }

    async fn clear_status(&self, name: &str) -> Result<Arc<VolumeSnapshotContent>, String> {
        let contents = self.client.all::<VolumeSnapshotContent>();
        let present = contents.get(name).await;
        let present = present.map_err(|e| format!("error get snapshot content {name} from api server: {e}"))?;
        let mut new = Box::new(VolumeSnapshotContent::clone(&present));
        new.status = new.status.as_ref().map(status::cleared);
        contents.replace_status(&new).await.map_err(|e| update_error(name, &e))
    }
}
