//! Connects to the driver, and the queue of the loop (`snapshot_controller_base.go`).

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::controller_service_capability::rpc::Type as Rpc;
use substrate::body::HttpService;
use substrate::mutant;
use substrate::process::Ctx;

use super::super::objects::{VolumeSnapshotClass, VolumeSnapshotContent};
use super::super::store::Store;
use super::super::{groups_defined, trace_error};
use super::decide::should_enqueue_change;
use super::group::{Groups, takes_groups};
use crate::csi::{Connection, Driver};
use crate::kube::{Client, Delta, EventRecorder, Informer, Kind, ListParams, Outcome, WorkQueue};
use crate::timers::Timers;

/// csi-snapshotter after its driver answered.
pub struct Reached {
    connection: Connection,
    driver: Driver,
}

impl Reached {
    /// Waits until the driver with the controller socket `csi` answers.
    pub async fn connect(ctx: &Ctx, csi: HttpService, timers: &Timers) -> Self {
        let connection = Connection::new(ctx, csi, timers.snapshotter_timeout);
        let driver = connection.driver().await;
        Self { connection, driver }
    }

    /// Returns the driver's name.
    pub fn driver(&self) -> &str {
        &self.driver.name
    }
}

pub(super) struct Sidecar {
    pub(super) ctx: Ctx,
    pub(super) client: Client,
    pub(super) connection: Connection,
    driver: String,
    pub(super) recorder: EventRecorder,
    contents: Informer<VolumeSnapshotContent>,
    classes: Informer<VolumeSnapshotClass>,
    queue: WorkQueue<String>,
    store: Store<VolumeSnapshotContent>,
    /// Caches and queue of groups; None if they are not handled.
    pub(super) groups: Option<Groups>,
}

/// Runs csi-snapshotter forever. With a driver that takes no snapshots it does nothing; upstream exits.
pub async fn run(ctx: Ctx, client: Client, reached: Reached, timers: Timers) {
    let Reached { connection, driver } = reached;
    if !driver.can(Rpc::CreateDeleteSnapshot) {
        return pending().await;
    }
    let has_groups = timers.volume_group_snapshots && groups_defined(&ctx, &client).await;
    if has_groups && !takes_groups(&connection).await {
        let error = "the driver takes no snapshots of groups: each VolumeGroupSnapshot will fail";
        trace_error(&ctx, "driver", &driver.name, error.to_owned());
    }
    let sidecar = Arc::new(Sidecar {
        recorder: EventRecorder::new(&client, &format!("csi-snapshotter {}", driver.name)),
        contents: Informer::start(&ctx, client.all(), ListParams::default()),
        classes: Informer::start(&ctx, client.all(), ListParams::default()),
        queue: WorkQueue::new(&ctx, timers.sidecar_retry_start, timers.sidecar_retry_max)
            .named("csi-snapshotter-content"),
        store: Store::default(),
        groups: has_groups.then(|| Groups::start(&ctx, &client, &timers)),
        ctx: ctx.clone(),
        client,
        connection,
        driver: driver.name,
    });
    sidecar.contents.synced().await;
    sidecar.classes.synced().await;
    if let Some(groups) = &sidecar.groups {
        groups.synced().await;
    }
    for content in sidecar.contents.list() {
        if sidecar.is_driver_match(&content) {
            sidecar.keep(&content);
        }
    }
    let worker = sidecar.clone();
    ctx.spawn(sidecar.queue.clone().run(timers.workers.snapshots, move |name| worker.clone().sync_by_key(name)));
    ctx.spawn(sidecar.clone().resync(timers.snapshot_resync));
    sidecar.run_groups(&timers);
    sidecar.enqueue().await;
}

impl Sidecar {
    /// Adds changed contents to the queue, forever.
    async fn enqueue(&self) {
        let mut changes = self.contents.subscribe();
        while let Some(delta) = changes.recv().await {
            match delta {
                Delta::Applied { old: Some(old), new } if !should_enqueue_change(&old, &new) => {}
                Delta::Applied { old: None, new } if mutant!(self.ctx, "new-content-found-late") => {
                    self.queue.add_after(new.name().to_owned(), Duration::from_secs(20));
                }
                Delta::Applied { new, .. } if new.is_deleting() && mutant!(self.ctx, "marked-content-found-late") => {
                    self.queue.add_after(new.name().to_owned(), Duration::from_secs(20));
                }
                Delta::Applied { new: content, .. } | Delta::Deleted(content) => {
                    self.queue.add(content.name().to_owned());
                }
            }
        }
    }

    /// Adds all contents to the queue once a period (`--resync-period`).
    async fn resync(self: Arc<Self>, period: Duration) {
        loop {
            self.ctx.sleep(period).await;
            self.contents.list().iter().for_each(|one| self.queue.add(one.name().to_owned()));
        }
    }

    /// Stores a content that was read or written (`storeContentUpdate`). Returns true if it is not older than the
    /// stored one.
    pub(super) fn keep(&self, content: &Arc<VolumeSnapshotContent>) -> bool {
        // The server gives every content a version.
        self.store.update(content).unwrap_or(false)
    }

    /// Returns the driver's name.
    pub(super) fn driver(&self) -> &str {
        &self.driver
    }

    /// Returns a class from the cache (`getSnapshotClass`).
    pub(super) fn class(&self, name: &str) -> Option<Arc<VolumeSnapshotClass>> {
        self.classes.get("", name)
    }

    /// Returns true if content and class are of this driver (`isDriverMatch`).
    fn is_driver_match(&self, content: &VolumeSnapshotContent) -> bool {
        let spec = &content.spec;
        let class = spec.volume_snapshot_class_name.as_deref().and_then(|name| self.class(name));
        (spec.source.volume_handle.is_some() || spec.source.snapshot_handle.is_some())
            && (spec.driver == self.driver || mutant!(self.ctx, "foreign-content-handled"))
            && class.is_none_or(|class| class.driver == self.driver)
    }

    /// Processes a content (`syncContentByKey`).
    async fn sync_by_key(self: Arc<Self>, name: String) -> Outcome {
        let Some(content) = self.contents.get("", &name) else {
            self.store.remove("", &name);
            return Outcome::Done;
        };
        if !self.is_driver_match(&content) || !self.keep(&content) {
            return Outcome::Done;
        }
        match self.sync_content(&content).await {
            Ok(true) => Outcome::Retry,
            Ok(false) => Outcome::Done,
            Err(error) => {
                trace_error(&self.ctx, "content", &name, error);
                Outcome::Retry
            }
        }
    }
}
