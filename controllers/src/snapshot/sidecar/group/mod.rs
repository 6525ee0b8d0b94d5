//! Groups of snapshots in csi-snapshotter (`groupsnapshot_helper.go`): CreateVolumeGroupSnapshot and
//! DeleteVolumeGroupSnapshot for VolumeGroupSnapshotContents.
//!
//! [`decide`] and [`status`] are pure. For a pre-provisioned group the sidecar calls GetVolumeGroupSnapshot instead. As
//! upstream, each change of a content is processed at once, also the sidecar's own: a group that is not ready is polled
//! without a pause.

mod check;
mod create;
pub mod decide;
mod delete;
mod driver;
pub mod status;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use substrate::mutant;
use substrate::process::Ctx;

use super::super::group::names::{SECRET_NAME, SECRET_NAMESPACE};
use super::super::group::objects::{VolumeGroupSnapshotClass, VolumeGroupSnapshotContent};
use super::super::objects::DELETE;
use super::super::store::Store;
use super::super::{secret, trace_error};
use super::async_loop::Sidecar;
use crate::kube::{Client, Delta, Informer, Kind, ListParams, Outcome, WorkQueue};
use crate::timers::Timers;
use decide::should_delete;
pub(super) use driver::takes_groups;

/// Caches and queue of groups.
pub(super) struct Groups {
    contents: Informer<VolumeGroupSnapshotContent>,
    classes: Informer<VolumeGroupSnapshotClass>,
    queue: WorkQueue<String>,
    store: Store<VolumeGroupSnapshotContent>,
}

impl Groups {
    pub(super) fn start(ctx: &Ctx, client: &Client, timers: &Timers) -> Self {
        Self {
            contents: Informer::start(ctx, client.all(), ListParams::default()),
            classes: Informer::start(ctx, client.all(), ListParams::default()),
            queue: WorkQueue::new(ctx, timers.sidecar_retry_start, timers.sidecar_retry_max)
                .named("csi-snapshotter-groupsnapshotcontent"),
            store: Store::default(),
        }
    }

    /// Waits for the caches.
    pub(super) async fn synced(&self) {
        self.contents.synced().await;
        self.classes.synced().await;
    }

    /// Stores a content that was read or written (`storeGroupSnapshotContentUpdate`). Returns true if it is not older
    /// than the stored one.
    fn keep(&self, content: &Arc<VolumeGroupSnapshotContent>) -> bool {
        self.store.update(content).unwrap_or(false)
    }

    /// Returns true if content and class are of this driver (`isDriverMatch`).
    fn is_driver_match(&self, content: &VolumeGroupSnapshotContent, driver: &str) -> bool {
        let spec = &content.spec;
        let class = spec.volume_group_snapshot_class_name.as_deref().and_then(|name| self.classes.get("", name));
        (spec.source.group_snapshot_handles.is_some() || !spec.source.volume_handles.is_empty())
            && spec.driver == driver
            && class.is_none_or(|class| class.driver == driver)
    }
}

impl Sidecar {
    /// Starts the workers of groups.
    pub(super) fn run_groups(self: &Arc<Self>, timers: &Timers) {
        let Some(groups) = &self.groups else { return };
        let worker = self.clone();
        self.ctx.spawn(
            groups.queue.clone().run(timers.workers.snapshots, move |name| worker.clone().sync_group_by_key(name)),
        );
        self.ctx.spawn(self.clone().enqueue_groups());
        self.ctx.spawn(self.clone().resync_groups(timers.snapshot_resync));
    }

    /// Adds changed contents to the queue, forever.
    async fn enqueue_groups(self: Arc<Self>) {
        let Some(groups) = &self.groups else { return };
        let mut changes = groups.contents.subscribe();
        while let Some(Delta::Applied { new: content, .. } | Delta::Deleted(content)) = changes.recv().await {
            groups.queue.add(content.name().to_owned());
        }
    }

    /// Adds all contents to the queue once a period (`--resync-period`).
    async fn resync_groups(self: Arc<Self>, period: Duration) {
        let Some(groups) = &self.groups else { return };
        loop {
            self.ctx.sleep(period).await;
            groups.contents.list().iter().for_each(|one| groups.queue.add(one.name().to_owned()));
        }
    }

    /// Processes a content (`syncGroupSnapshotContentByKey`).
    async fn sync_group_by_key(self: Arc<Self>, name: String) -> Outcome {
        let Some(groups) = &self.groups else { return Outcome::Done };
        let Some(content) = groups.contents.get("", &name) else {
            groups.store.remove("", &name);
            return Outcome::Done;
        };
        if !groups.is_driver_match(&content, self.driver()) || !groups.keep(&content) {
            return Outcome::Done;
        }
        match self.sync_group_content(groups, &content).await {
            Ok(true) => Outcome::Retry,
            Ok(false) => Outcome::Done,
            Err(error) => {
                trace_error(&self.ctx, "group content", &name, error);
                Outcome::Retry
            }
        }
    }

    /// Syncs a content (`syncGroupSnapshotContent`). The result is true if it must be processed again.
    async fn sync_group_content(
        &self,
        groups: &Groups,
        content: &Arc<VolumeGroupSnapshotContent>,
    ) -> Result<bool, String> {
        if should_delete(content) {
            let goes = content.spec.deletion_policy == DELETE && !mutant!(self.ctx, "group-left-in-cloud");
            let deleted =
                if goes && content.handle().is_some() { self.delete_group(content).await? } else { content.clone() };
            return self.remove_group_finalizer(groups, &deleted).await.map(|()| false);
        }
        if content.is_ready() {
            self.remove_group_being_created(groups, content).await?;
            return Ok(false);
        }
        let is_new = !content.spec.source.volume_handles.is_empty() && content.status.is_none();
        let (reason, act) = if is_new {
            ("GroupSnapshotCreationFailed", "create group snapshot")
        } else {
            ("GroupSnapshotContentCheckandUpdateFailed", "check and update group snapshot content")
        };
        let result = match &content.spec.source.group_snapshot_handles {
            Some(existing) if !is_new => self.check_group(groups, content, existing).await,
            _ => self.create_group(groups, content).await,
        };
        match result {
            Ok(new) => {
                groups.keep(&new);
                Ok(!new.is_ready())
            }
            Err((last, error)) => {
                self.fail_group(groups, &last, reason, &format!("Failed to {act}: {error}")).await;
                Err(error)
            }
        }
    }

    /// Reads the secret that the content's annotations name (`GetCredentialsFromAnnotationForGroupSnapshot`).
    async fn group_credentials(
        &self,
        content: &VolumeGroupSnapshotContent,
    ) -> Result<BTreeMap<String, String>, String> {
        let of = format!("group snapshot content {:?}", content.name());
        let (name, namespace) = (content.annotation(SECRET_NAME), content.annotation(SECRET_NAMESPACE));
        secret::annotated(&self.client, name, namespace, &of).await
    }
}
