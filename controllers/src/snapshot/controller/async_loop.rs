//! Queues of the loop, and the steps between a queue and a sync (`snapshot_controller_base.go`).

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use substrate::mutant;
use substrate::process::Ctx;

use super::super::objects::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use super::super::store::Store;
use super::super::{defined, groups_defined, trace_error};
use super::group::Groups;
use crate::kube::{Client, Delta, EventRecorder, Informer, Kind, ListParams, Outcome, WorkQueue};
use crate::timers::Timers;

/// Source of its Events.
const SOURCE: &str = "snapshot-controller";

/// Namespace and name of a snapshot.
pub(super) type Key = (String, String);

pub(super) struct Controller {
    pub(super) ctx: Ctx,
    pub(super) client: Client,
    pub(super) recorder: EventRecorder,
    pub(super) snapshots: Informer<VolumeSnapshot>,
    pub(super) contents: Informer<VolumeSnapshotContent>,
    pub(super) classes: Informer<VolumeSnapshotClass>,
    pub(super) claims: Informer<PersistentVolumeClaim>,
    pub(super) snapshot_queue: WorkQueue<Key>,
    pub(super) content_queue: WorkQueue<String>,
    pub(super) snapshot_store: Store<VolumeSnapshot>,
    pub(super) content_store: Store<VolumeSnapshotContent>,
    /// Versions, by name, of contents whose cached object has the annotation of a deletion, although the patch that
    /// adds it failed.
    pub(super) marked: Mutex<BTreeMap<String, String>>,
    /// Caches and queues of groups; None if they are not handled.
    pub(super) groups: Option<Groups>,
}

/// Runs the loop forever.
pub async fn run(ctx: Ctx, client: Client, timers: Timers) {
    defined(&ctx, &client).await;
    let has_groups = timers.volume_group_snapshots && groups_defined(&ctx, &client).await;
    let (first, longest) = (timers.sidecar_retry_start, timers.sidecar_retry_max);
    let controller = Arc::new(Controller {
        recorder: EventRecorder::new(&client, SOURCE),
        snapshots: Informer::start(&ctx, client.all(), ListParams::default()),
        contents: Informer::start(&ctx, client.all(), ListParams::default()),
        classes: Informer::start(&ctx, client.all(), ListParams::default()),
        claims: Informer::start(&ctx, client.all(), ListParams::default()),
        snapshot_queue: WorkQueue::new(&ctx, first, longest).named("snapshot-controller-snapshot"),
        content_queue: WorkQueue::new(&ctx, first, longest).named("snapshot-controller-content"),
        snapshot_store: Store::default(),
        content_store: Store::default(),
        marked: Mutex::default(),
        groups: has_groups.then(|| Groups::start(&ctx, &client, &timers)),
        ctx: ctx.clone(),
        client,
    });
    controller.snapshots.synced().await;
    controller.contents.synced().await;
    controller.classes.synced().await;
    controller.claims.synced().await;
    controller.initialize_caches();
    if let Some(groups) = &controller.groups {
        groups.synced().await;
    }
    let (of_snapshots, of_contents) = (controller.clone(), controller.clone());
    ctx.spawn(
        controller
            .snapshot_queue
            .clone()
            .run(timers.workers.snapshots, move |key| of_snapshots.clone().sync_snapshot_by_key(key)),
    );
    ctx.spawn(
        controller
            .content_queue
            .clone()
            .run(timers.workers.snapshots, move |name| of_contents.clone().sync_content_by_key(name)),
    );
    ctx.spawn(controller.clone().resync(timers.snapshot_resync));
    controller.run_groups(&timers);
    controller.enqueue().await;
}

fn key(snapshot: &VolumeSnapshot) -> Key {
    (snapshot.namespace().to_owned(), snapshot.name().to_owned())
}

impl Controller {
    /// Stores the present objects, before any is processed (`initializeCaches`).
    fn initialize_caches(&self) {
        for snapshot in self.snapshots.list() {
            self.keep_snapshot(&snapshot);
        }
        for content in self.contents.list() {
            self.keep_content(&content);
        }
    }

    /// Adds changed objects to the queues, forever.
    async fn enqueue(&self) {
        let (mut snapshots, mut contents) = (self.snapshots.subscribe(), self.contents.subscribe());
        loop {
            tokio::select! { biased;
                Some(delta) = snapshots.recv() => match delta {
                    Delta::Applied { new: one, .. } | Delta::Deleted(one) => self.snapshot_queue.add(key(&one)),
                },
                Some(delta) = contents.recv() => match delta {
                    Delta::Applied { old: Some(_), new } if mutant!(self.ctx, "ready-content-found-late") => {
                        self.content_queue.add_after(new.name().to_owned(), Duration::from_secs(20));
                    }
                    Delta::Applied { new: one, .. } | Delta::Deleted(one) => self.content_queue.add(one.name().to_owned()),
                },
            }
        }
    }

    /// Adds all objects to the queues once a period (`--resync-period`).
    async fn resync(self: Arc<Self>, period: Duration) {
        loop {
            self.ctx.sleep(period).await;
            self.snapshots.list().iter().for_each(|one| self.snapshot_queue.add(key(one)));
            self.contents.list().iter().for_each(|one| self.content_queue.add(one.name().to_owned()));
        }
    }

    /// Stores an object that was read or written (`storeSnapshotUpdate`). Returns true if it is not older than the
    /// stored one.
    pub(super) fn keep_snapshot(&self, snapshot: &Arc<VolumeSnapshot>) -> bool {
        // The server gives every snapshot a version.
        self.snapshot_store.update(snapshot).unwrap_or(false)
    }

    /// Stores an object that was read or written (`storeContentUpdate`). Returns true if it is not older than the
    /// stored one.
    pub(super) fn keep_content(&self, content: &Arc<VolumeSnapshotContent>) -> bool {
        // Upstream logs the error, and does not process the object.
        self.content_store.update(content).unwrap_or(false)
    }

    /// Processes a snapshot (`syncSnapshotByKey`).
    async fn sync_snapshot_by_key(self: Arc<Self>, (namespace, name): Key) -> Outcome {
        let Some(snapshot) = self.snapshots.get(&namespace, &name) else {
            if let Some(gone) = self.snapshot_store.remove(&namespace, &name) {
                // The content is processed at once, not at the next resync (`deleteSnapshot`).
                gone.content().filter(|name| !name.is_empty()).into_iter().for_each(|content| {
                    self.content_queue.add(content.to_owned());
                });
            }
            return Outcome::Done;
        };
        let snapshot = match self.check_and_update_snapshot_class(snapshot.clone()).await {
            Ok(snapshot) => snapshot,
            // A snapshot that is being deleted does not need its class.
            Err(why) if why.not_found && snapshot.is_deleting() => snapshot,
            Err(_) => return Outcome::Retry,
        };
        if !self.keep_snapshot(&snapshot) {
            return Outcome::Done;
        }
        outcome(&self.ctx, "snapshot", &name, self.sync_snapshot(&snapshot).await)
    }

    /// Processes a content (`syncContentByKey`).
    async fn sync_content_by_key(self: Arc<Self>, name: String) -> Outcome {
        let Some(content) = self.contents.get("", &name) else {
            self.marked.lock().remove(&name);
            if let Some(gone) = self.content_store.remove("", &name) {
                self.snapshot_queue.add(gone.snapshot_key());
            }
            return Outcome::Done;
        };
        if !self.keep_content(&content) {
            return Outcome::Done;
        }
        outcome(&self.ctx, "content", &name, self.sync_content(&content).await)
    }
}

pub(super) fn outcome(ctx: &Ctx, kind: &str, name: &str, result: Result<(), String>) -> Outcome {
    match result {
        Ok(()) => Outcome::Done,
        Err(error) => {
            trace_error(ctx, kind, name, error);
            Outcome::Retry
        }
    }
}
