//! Sync of a content (`syncContent`). The result is true if the content must be processed again.

use std::collections::BTreeMap;
use std::sync::Arc;

use substrate::mutant;

use super::super::group::is_member;
use super::super::names::{SECRET_NAME, SECRET_NAMESPACE};
use super::super::objects::{DELETE, VolumeSnapshotContent};
use super::super::{class_missing, secret};
use super::async_loop::Sidecar;
use super::decide::should_delete;
use super::driver;
use crate::kube::Kind;

/// Returns true if the status names a group of the driver.
fn has_group(content: &VolumeSnapshotContent) -> bool {
    content.status.as_ref().is_some_and(|status| status.volume_group_snapshot_handle.is_some())
}

impl Sidecar {
    pub(super) async fn sync_content(&self, content: &Arc<VolumeSnapshotContent>) -> Result<bool, String> {
        if should_delete(content) {
            let goes = content.spec.deletion_policy == DELETE || mutant!(self.ctx, "snapshot-retain-ignored");
            // The snapshot of a member goes with its group.
            let goes = goes && content.handle().is_some() && !has_group(content);
            if goes && mutant!(self.ctx, "content-goes-before-snapshot") {
                let secrets = self.credentials(content).await?;
                self.remove_content_finalizer(content).await?;
                return driver::delete_snapshot(&self.connection, content, secrets).await.map(|()| false);
            }
            let deleted = if goes { self.delete_snapshot(content).await? } else { content.clone() };
            return self.remove_content_finalizer(&deleted).await.map(|()| false);
        }
        if content.spec.source.volume_handle.is_some() && content.status.is_none() && !is_member(content) {
            return self.settle(self.create(content).await, "SnapshotCreationFailed", "create snapshot").await;
        }
        if content.is_ready() {
            self.remove_being_created(content).await?;
            return Ok(false);
        }
        let is_known =
            content.spec.source.snapshot_handle.is_some() || (has_group(content) && content.handle().is_some());
        let looked = if is_known {
            self.look(content).await.map_err(|error| (content.clone(), error))
        } else if is_member(content) {
            // snapshot-controller writes its first status.
            Ok(content.clone())
        } else {
            self.create(content).await
        };
        self.settle(looked, "SnapshotContentCheckandUpdateFailed", "check and update snapshot content").await
    }

    /// Ends an attempt: stores the content, or writes the error to its last state.
    async fn settle(
        &self,
        result: Result<Arc<VolumeSnapshotContent>, (Arc<VolumeSnapshotContent>, String)>,
        reason: &str,
        act: &str,
    ) -> Result<bool, String> {
        match result {
            Ok(new) => {
                self.keep(&new);
                Ok(!new.is_ready() && !mutant!(self.ctx, "pending-snapshot-not-polled"))
            }
            Err((last, error)) => {
                if !mutant!(self.ctx, "snapshot-failure-not-told") {
                    self.fail(&last, reason, &format!("Failed to {act}: {error}")).await;
                }
                Err(error)
            }
        }
    }

    /// Reads an existing snapshot and writes its state (`checkandUpdateContentStatusOperation`).
    async fn look(&self, content: &Arc<VolumeSnapshotContent>) -> Result<Arc<VolumeSnapshotContent>, String> {
        let name = content.name();
        let mut secrets = BTreeMap::new();
        if let Some(class_name) = &content.spec.volume_snapshot_class_name {
            let class = self.class(class_name).ok_or_else(|| {
                let missing = class_missing(class_name);
                format!("failed to get snapshot class {class_name} for snapshot content {name}: {missing}")
            })?;
            let secret = secret::reference(secret::Purpose::List, &class.parameters, name, None)
                .map_err(|e| format!("failed to get secret reference for snapshot content {name}: {e}"))?;
            if let Some((secret, namespace)) = secret.and_then(|secret| secret.name.zip(secret.namespace)) {
                let read = secret::credentials(&self.client, &namespace, &secret).await;
                secrets = read.map_err(|e| format!("failed to get credentials for snapshot content {name}: {e}"))?;
            }
        }
        // A member has no class; its annotations name the secret.
        if has_group(content) {
            let read = self.credentials(content).await;
            secrets = read
                .map_err(|e| format!("failed to get credentials from annotation for snapshot content {name}: {e}"))?;
        }
        let found = driver::snapshot_status(&self.connection, content, secrets, self.ctx.now().wall).await?;
        self.update_status(content, &found).await
    }

    /// Reads the secret that the content's annotations name (`GetCredentialsFromAnnotation`).
    pub(super) async fn credentials(
        &self,
        content: &VolumeSnapshotContent,
    ) -> Result<BTreeMap<String, String>, String> {
        let of = format!("snapshot content {:?}", content.name());
        let (name, namespace) = (content.annotation(SECRET_NAME), content.annotation(SECRET_NAMESPACE));
        secret::annotated(&self.client, name, namespace, &of).await
    }
}
