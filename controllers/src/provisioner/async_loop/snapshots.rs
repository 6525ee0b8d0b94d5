//! Releases snapshots that are no longer a source (upstream `snapshot_finalizer_controller.go`). A crash, or a claim
//! deleted too early, can leave them protected.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use substrate::mutant;

use super::super::source::SNAPSHOT_FINALIZER;
use super::Controller;
use super::sources::without_finalizer;
use crate::binder::object::claim_phase;
use crate::kube::{Informer, Kind, ListParams};
use crate::snapshot::{GROUP, VolumeSnapshot};

/// `--snapshot-orphan-sweep-interval`.
const INTERVAL: Duration = Duration::from_secs(300);

/// Runs the loop forever, if the cluster has snapshots at the sidecar's start.
pub(super) async fn run(controller: Arc<Controller>) {
    let version = format!("/apis/{GROUP}/v1");
    if controller.client.get(&version).await.is_err() {
        return;
    }
    let snapshots = Informer::<VolumeSnapshot>::start(&controller.ctx, controller.client.all(), ListParams::default());
    snapshots.synced().await;
    loop {
        controller.sweep(&snapshots).await;
        controller.ctx.sleep(INTERVAL).await;
    }
}

/// Returns the snapshot that a claim names, in its own namespace or in another.
fn snapshot_of(claim: &PersistentVolumeClaim) -> Option<(String, String)> {
    let spec = claim.spec.as_ref()?;
    let is_snapshot = |kind: &str, group: &Option<String>| {
        kind == "VolumeSnapshot" && group.as_ref().is_none_or(|group| group == GROUP)
    };
    if let Some(source) = &spec.data_source
        && is_snapshot(&source.kind, &source.api_group)
    {
        return Some((claim.namespace().to_owned(), source.name.clone()));
    }
    let source = spec.data_source_ref.as_ref().filter(|s| is_snapshot(&s.kind, &s.api_group))?;
    let namespace = source.namespace.clone().filter(|n| !n.is_empty());
    Some((namespace.unwrap_or_else(|| claim.namespace().to_owned()), source.name.clone()))
}

impl Controller {
    async fn sweep(&self, snapshots: &Informer<VolumeSnapshot>) {
        let mut wanted = BTreeSet::new();
        self.sources.claims.each(|claim| {
            if matches!(claim_phase(claim), "Pending" | "")
                && !mutant!(self.ctx, "snapshot-released-while-it-is-restored")
            {
                wanted.extend(snapshot_of(claim));
            }
        });
        for snapshot in snapshots.list() {
            let key = (snapshot.namespace().to_owned(), snapshot.name().to_owned());
            if !snapshot.has_finalizer(SNAPSHOT_FINALIZER) || wanted.contains(&key) {
                continue;
            }
            let freed = without_finalizer(&*snapshot, SNAPSHOT_FINALIZER);
            // A remaining one is retried in the next period.
            if let Err(e) = self.client.namespaced(snapshot.namespace()).replace(&freed).await {
                self.trace("release", snapshot.name(), &e);
            }
        }
    }
}
