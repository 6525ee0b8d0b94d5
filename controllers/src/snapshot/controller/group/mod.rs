//! Groups of snapshots in the snapshot-controller (`groupsnapshot_controller_helper.go`): it creates the content of a
//! group, the VolumeSnapshots of its members, and deletes them with the group.
//!
//! A pre-provisioned group is bound to its content; the user creates its members.
//!
//! [`decide`], [`binding`], [`preprovisioned`] and [`status`] are pure.

pub mod binding;
mod content;
mod create;
pub mod decide;
mod delete;
mod members;
pub mod preprovisioned;
pub mod status;
mod sync;
mod write;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use substrate::process::Ctx;

use super::super::group::objects::{VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent};
use super::super::objects::{VolumeSnapshot, VolumeSnapshotContent};
use super::super::store::Store;
use super::async_loop::{Controller, Key, outcome};
use crate::kube::{Client, Delta, Informer, Kind, ListParams, Outcome, WorkQueue};
use crate::timers::Timers;

/// Caches and queues of groups.
pub(super) struct Groups {
    groups: Informer<VolumeGroupSnapshot>,
    contents: Informer<VolumeGroupSnapshotContent>,
    classes: Informer<VolumeGroupSnapshotClass>,
    volumes: Informer<PersistentVolume>,
    queue: WorkQueue<Key>,
    content_queue: WorkQueue<String>,
    store: Store<VolumeGroupSnapshot>,
    content_store: Store<VolumeGroupSnapshotContent>,
}

impl Groups {
    pub(super) fn start(ctx: &Ctx, client: &Client, timers: &Timers) -> Self {
        let (first, longest) = (timers.sidecar_retry_start, timers.sidecar_retry_max);
        Self {
            groups: Informer::start(ctx, client.all(), ListParams::default()),
            contents: Informer::start(ctx, client.all(), ListParams::default()),
            classes: Informer::start(ctx, client.all(), ListParams::default()),
            volumes: Informer::start(ctx, client.all(), ListParams::default()),
            queue: WorkQueue::new(ctx, first, longest).named("snapshot-controller-group-snapshot"),
            content_queue: WorkQueue::new(ctx, first, longest).named("snapshot-controller-group-content"),
            store: Store::default(),
            content_store: Store::default(),
        }
    }

    /// Waits for the caches, and stores the present objects.
    pub(super) async fn synced(&self) {
        self.groups.synced().await;
        self.contents.synced().await;
        self.classes.synced().await;
        self.volumes.synced().await;
        for group in self.groups.list() {
            self.keep(&group);
        }
        for content in self.contents.list() {
            self.keep_content(&content);
        }
    }

    /// Stores a group that was read or written (`storeGroupSnapshotUpdate`). Returns true if it is not older than the
    /// stored one.
    fn keep(&self, group: &Arc<VolumeGroupSnapshot>) -> bool {
        self.store.update(group).unwrap_or(false)
    }

    /// Stores a content that was read or written (`storeGroupSnapshotContentUpdate`). Returns true if it is not older
    /// than the stored one.
    fn keep_content(&self, content: &Arc<VolumeGroupSnapshotContent>) -> bool {
        self.content_store.update(content).unwrap_or(false)
    }

    /// Returns the group of a member from the cache.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<VolumeGroupSnapshot>> {
        self.groups.get(namespace, name)
    }

    /// Returns the name of the group of a member, found by the driver's id of the group (`updateSnapshotStatus`). None
    /// if the content is not a member.
    ///
    /// # Errors
    /// If no content of a group has this id.
    pub(super) fn name_for(
        &self,
        snapshot: &VolumeSnapshot,
        content: &VolumeSnapshotContent,
    ) -> Result<Option<String>, String> {
        let handle = content.status.as_ref().and_then(|status| status.volume_group_snapshot_handle.as_deref());
        let Some(handle) = handle else { return Ok(None) };
        let group = self.contents.list().into_iter().find(|group| group.handle() == Some(handle));
        let group = group.ok_or_else(|| {
            let key = super::decide::snapshot_key(snapshot);
            format!("the group of the snapshot {key} is unknown, its status is not updated")
        })?;
        Ok(Some(group.group_key().1).filter(|name| !name.is_empty()))
    }
}

fn key(group: &VolumeGroupSnapshot) -> Key {
    (group.namespace().to_owned(), group.name().to_owned())
}

impl Controller {
    /// Starts the workers of groups.
    pub(super) fn run_groups(self: &Arc<Self>, timers: &Timers) {
        let Some(groups) = &self.groups else { return };
        let (of_groups, of_contents) = (self.clone(), self.clone());
        self.ctx.spawn(
            groups.queue.clone().run(timers.workers.snapshots, move |key| of_groups.clone().sync_group_by_key(key)),
        );
        self.ctx.spawn(
            groups
                .content_queue
                .clone()
                .run(timers.workers.snapshots, move |name| of_contents.clone().sync_group_content_by_key(name)),
        );
        self.ctx.spawn(self.clone().enqueue_groups());
        self.ctx.spawn(self.clone().resync_groups(timers.snapshot_resync));
    }

    /// Adds changed objects to the queues, forever.
    async fn enqueue_groups(self: Arc<Self>) {
        let Some(groups) = &self.groups else { return };
        let (mut changed, mut contents) = (groups.groups.subscribe(), groups.contents.subscribe());
        loop {
            tokio::select! { biased;
                Some(delta) = changed.recv() => match delta {
                    Delta::Applied { new: one, .. } | Delta::Deleted(one) => groups.queue.add(key(&one)),
                },
                Some(delta) = contents.recv() => match delta {
                    Delta::Applied { new: one, .. } | Delta::Deleted(one) => {
                        groups.content_queue.add(one.name().to_owned());
                    }
                },
            }
        }
    }

    /// Adds all objects to the queues once a period (`--resync-period`).
    async fn resync_groups(self: Arc<Self>, period: Duration) {
        let Some(groups) = &self.groups else { return };
        loop {
            self.ctx.sleep(period).await;
            groups.groups.list().iter().for_each(|one| groups.queue.add(key(one)));
            groups.contents.list().iter().for_each(|one| groups.content_queue.add(one.name().to_owned()));
        }
    }

    /// Processes a group (`syncGroupSnapshotByKey`).
    async fn sync_group_by_key(self: Arc<Self>, (namespace, name): Key) -> Outcome {
        let Some(groups) = &self.groups else { return Outcome::Done };
        let Some(group) = groups.groups.get(&namespace, &name) else {
            if let Some(gone) = groups.store.remove(&namespace, &name) {
                gone.content().into_iter().for_each(|content| groups.content_queue.add(content.to_owned()));
            }
            return Outcome::Done;
        };
        let group = match self.check_and_update_group_class(groups, group.clone()).await {
            Ok(group) => group,
            // A group that is being deleted does not need its class.
            Err(why) if why.not_found && group.is_deleting() => group,
            Err(_) => return Outcome::Retry,
        };
        if !groups.keep(&group) {
            return Outcome::Done;
        }
        outcome(&self.ctx, "group", &name, self.sync_group(groups, &group).await)
    }

    /// Processes a content of a group (`syncGroupSnapshotContentByKey`).
    async fn sync_group_content_by_key(self: Arc<Self>, name: String) -> Outcome {
        let Some(groups) = &self.groups else { return Outcome::Done };
        let Some(content) = groups.contents.get("", &name) else {
            if let Some(gone) = groups.content_store.remove("", &name) {
                groups.queue.add(gone.group_key());
            }
            return Outcome::Done;
        };
        if !groups.keep_content(&content) {
            return Outcome::Done;
        }
        outcome(&self.ctx, "group content", &name, self.sync_group_content(groups, &content).await)
    }
}
