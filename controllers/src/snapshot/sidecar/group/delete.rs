//! Deletion of a group (`deleteCSIGroupSnapshotOperation`).

use std::sync::Arc;

use super::super::super::group::objects::VolumeGroupSnapshotContent;
use super::super::super::update_error;
use super::super::async_loop::Sidecar;
use super::{driver, status};
use crate::kube::{Kind, reference};

impl Sidecar {
    /// Deletes the driver's snapshots and clears the content's status, so that they are not deleted twice.
    pub(super) async fn delete_group(
        &self,
        content: &VolumeGroupSnapshotContent,
    ) -> Result<Arc<VolumeGroupSnapshotContent>, String> {
        let name = content.name();
        let fail =
            |message: &str| self.recorder.event(reference(content), "Warning", "GroupSnapshotDeleteError", message);
        let secrets = self.group_credentials(content).await.map_err(|e| {
            fail("Failed to get snapshot credentials");
            format!("failed to get input parameters to delete group snapshot for group snapshot content {name}: {e:?}")
        })?;
        driver::delete_group(&self.connection, content, secrets).await.map_err(|e| {
            fail("Failed to delete group snapshot");
            format!("failed to delete group snapshot {name:?}, err: {e}")
        })?;
        self.clear_group_status(name).await.inspect_err(|_| fail("Failed to clear content status"))
    }

    async fn clear_group_status(&self, name: &str) -> Result<Arc<VolumeGroupSnapshotContent>, String> {
        let contents = self.client.all::<VolumeGroupSnapshotContent>();
        let present = contents.get(name).await;
        let present = present.map_err(|e| format!("error get group snapshot content {name} from api server: {e}"))?;
        let mut new = Box::new(VolumeGroupSnapshotContent::clone(&present));
        new.status = new.status.as_ref().map(status::cleared);
        contents.replace_status(&new).await.map_err(|e| update_error(name, &e))
    }
}
