//! Connects to the driver, fills the queues, runs the workers.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use substrate::body::HttpService;
use substrate::mutant;
use substrate::process::Ctx;

use super::driver::{Capabilities, Driver};
use super::handler::Handler;
use super::patches::finalizer;
use crate::csi::Connection;
use crate::kube::{Client, Delta, Informer, Kind, ListParams, WorkQueue};
use crate::timers::Timers;

/// external-attacher after its driver answered.
pub struct Reached {
    driver: Driver,
    driver_name: String,
    capabilities: Capabilities,
}

impl Reached {
    /// Waits until the driver with the controller socket `csi` answers.
    pub async fn connect(ctx: &Ctx, csi: HttpService, timers: &Timers) -> Self {
        let connection = Connection::new(ctx, csi, timers.attacher_timeout);
        let driver = connection.driver().await;
        Self { capabilities: Capabilities::from(&driver), driver_name: driver.name, driver: Driver(connection) }
    }

    /// Returns the driver's name.
    pub fn driver(&self) -> &str {
        &self.driver_name
    }
}

/// Runs external-attacher forever.
pub async fn run(ctx: Ctx, client: Client, reached: Reached, timers: Timers) {
    let Reached { driver, driver_name, capabilities } = reached;
    let attachments = Informer::<VolumeAttachment>::start(&ctx, client.all(), ListParams::default());
    let volumes = Informer::<PersistentVolume>::start(&ctx, client.all(), ListParams::default());
    let nodes = Informer::start(&ctx, client.all(), ListParams::default());
    attachments.synced().await;
    volumes.synced().await;
    nodes.synced().await;
    let handler = Arc::new(Handler {
        ctx: ctx.clone(),
        client,
        driver,
        finalizer: finalizer(&driver_name),
        driver_name,
        capabilities,
        attachments: attachments.clone(),
        volumes: volumes.clone(),
        nodes,
        force: Mutex::new(BTreeSet::new()),
    });
    let attachment_queue =
        WorkQueue::new(&ctx, timers.sidecar_retry_start, timers.sidecar_retry_max).named("csi-attacher-va");
    let volume_queue =
        WorkQueue::new(&ctx, timers.sidecar_retry_start, timers.sidecar_retry_max).named("csi-attacher-pv");
    let worker = handler.clone();
    ctx.spawn(attachment_queue.clone().run(timers.workers.attacher, move |name: String| {
        let worker = worker.clone();
        async move { worker.sync_attachment(&name).await }
    }));
    let worker = handler.clone();
    ctx.spawn(volume_queue.clone().run(timers.workers.attacher, move |name: String| {
        let worker = worker.clone();
        async move { worker.sync_volume(&name).await }
    }));
    let mut attachment_changes = attachments.subscribe();
    let mut volume_changes = volumes.subscribe();
    let reconcile_sync = ctx.scaled(timers.attacher_reconcile_sync);
    let mut reconcile_at = ctx.now().mono + reconcile_sync;
    loop {
        tokio::select! { biased;
            Some(delta) = attachment_changes.recv() => match delta {
                Delta::Applied { old, new } => {
                    if old.is_none_or(|old| is_worth_a_sync(&old, &new)) {
                        attachment_queue.add(new.name().to_owned());
                    }
                }
                Delta::Deleted(gone) => {
                    // It may have been the last attachment of a deleting volume.
                    if let Some(pv) = gone.spec.source.persistent_volume_name.clone()
                        && !mutant!(ctx, "last-attachment-not-noticed")
                    {
                        volume_queue.add(pv);
                    }
                }
            },
            Some(delta) = volume_changes.recv() => {
                if let Delta::Applied { new, .. } = delta && new.is_deleting() && new.has_finalizer(&handler.finalizer) {
                    volume_queue.add(new.name().to_owned());
                }
            }
            () = ctx.sleep_until(reconcile_at), if capabilities.list_published => {
                reconcile_at = ctx.now().mono + reconcile_sync;
                // A driver that cannot list now is asked again in the next period.
                if let Ok(published) = handler.driver.published().await {
                    for name in handler.diverged(&published) {
                        handler.force.lock().insert(name.clone());
                        attachment_queue.add(name);
                    }
                }
            }
        }
    }
}

/// Returns false if only the recorded errors changed: the attacher wrote them itself, and they must not trigger a retry
/// at once.
fn is_worth_a_sync(old: &VolumeAttachment, new: &VolumeAttachment) -> bool {
    old.resource_version() == new.resource_version()
        || old.spec != new.spec
        || status_but_errors(old) != status_but_errors(new)
        || metadata_but_versions(&old.metadata) != metadata_but_versions(&new.metadata)
}

fn status_but_errors(attachment: &VolumeAttachment) -> Option<impl PartialEq + use<'_>> {
    let VolumeAttachmentStatus { attach_error: _, attached, attachment_metadata, detach_error: _ } =
        attachment.status.as_ref()?;
    Some((attached, attachment_metadata))
}

/// Returns the metadata without the fields that every write changes.
fn metadata_but_versions(metadata: &ObjectMeta) -> impl PartialEq + use<'_> {
    let ObjectMeta {
        annotations,
        creation_timestamp,
        deletion_grace_period_seconds,
        deletion_timestamp,
        finalizers,
        generate_name,
        generation,
        labels,
        managed_fields: _,
        name,
        namespace,
        owner_references,
        resource_version: _,
        self_link,
        uid,
    } = metadata;
    let identity = (name, namespace, uid, generate_name, self_link, creation_timestamp);
    let life = (generation, deletion_timestamp, deletion_grace_period_seconds, finalizers);
    (identity, life, annotations, labels, owner_references)
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, json};

    use super::*;

    fn attachment(version: &str, status: Value) -> VolumeAttachment {
        let spec = json!({ "attacher": "d", "nodeName": "n", "source": { "persistentVolumeName": "pv" } });
        let metadata = json!({ "name": "csi-1", "resourceVersion": version });
        substrate::json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status }))
            .expect("an attachment")
    }

    #[test]
    fn a_recorded_error_alone_is_not_worth_a_sync() {
        let before = attachment("1", json!({ "attached": false }));
        let failed = attachment("2", json!({ "attached": false, "attachError": { "message": "no" } }));
        let attached = attachment("3", json!({ "attached": true }));
        assert!(!is_worth_a_sync(&before, &failed));
        assert!(is_worth_a_sync(&failed, &attached));
    }
}
