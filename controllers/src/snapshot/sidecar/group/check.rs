//! Status of a pre-provisioned group (`checkandUpdateGroupSnapshotContentStatusOperation`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::super::group::class_missing;
use super::super::super::group::objects::{GroupHandles, VolumeGroupSnapshotContent};
use super::super::super::secret::{self, Purpose};
use super::super::async_loop::Sidecar;
use super::{Groups, driver};
use crate::kube::Kind;

type Content = Arc<VolumeGroupSnapshotContent>;

impl Sidecar {
    /// Reads the group from the driver and writes its status. An error contains the content.
    pub(super) async fn check_group(
        &self,
        groups: &Groups,
        content: &Content,
        existing: &GroupHandles,
    ) -> Result<Content, (Content, String)> {
        let fail = |error: String| (content.clone(), error);
        let secrets = self.get_secrets(groups, content).await.map_err(fail)?;
        let found = driver::get_group(&self.connection, content, existing, secrets).await.map_err(fail)?;
        self.update_group_status(content, &found).await.map_err(fail)
    }

    /// Reads the secret of GetVolumeGroupSnapshot, which the class of the content names.
    async fn get_secrets(&self, groups: &Groups, content: &Content) -> Result<BTreeMap<String, String>, String> {
        let Some(class) = &content.spec.volume_group_snapshot_class_name else { return Ok(BTreeMap::new()) };
        let name = content.name();
        let found = groups.classes.get("", class).ok_or_else(|| {
            let error = class_missing(class);
            format!("failed to get group snapshot class {class} for group snapshot content {name}: {error}")
        })?;
        let named = secret::group_reference(Purpose::GroupSnapshotterGet, &found.parameters, name, None)
            .map_err(|e| format!("failed to get secret reference for group snapshot content {name}: {e}"))?;
        let Some((secret, namespace)) = named.and_then(|one| one.name.zip(one.namespace)) else {
            return Ok(BTreeMap::new());
        };
        let read = secret::credentials(&self.client, &namespace, &secret).await;
        read.map_err(|e| format!("failed to get credentials for group snapshot content {name}: {e}"))
    }
}
