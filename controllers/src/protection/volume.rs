//! PV protection: a volume that is Bound is not removed (`pvprotection/pv_protection_controller.go`).
//!
//! Only the phase matters; attachments have their own protection finalizers.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use substrate::mutant;
use substrate::process::Ctx;

use super::finalizer::{self, Decision};
use crate::binder::object::volume_phase;
use crate::kube::queue::Outcome;
use crate::kube::{Client, Delta, Informer, Kind, ListParams, WorkQueue};

/// Name of the finalizer.
pub const FINALIZER: &str = "kubernetes.io/pv-protection";

/// Decides about a volume's finalizer.
pub fn decide(volume: &PersistentVolume) -> Decision {
    finalizer::decide(&volume.metadata, FINALIZER, || volume_phase(volume) == "Bound")
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub async fn run(ctx: Ctx, client: Client) {
    let volumes: Informer<PersistentVolume> = Informer::start(&ctx, client.all(), ListParams::default());
    volumes.synced().await;
    let is_careless = mutant!(ctx, "bound-volume-removed");
    let holds_released = mutant!(ctx, "released-volume-held");
    let takes_all = mutant!(ctx, "foreign-finalizers-removed");
    let decide = move |volume: &PersistentVolume| match (is_careless, holds_released) {
        (true, _) => finalizer::decide(&volume.metadata, FINALIZER, || false),
        (false, true) => finalizer::decide(&volume.metadata, FINALIZER, || {
            volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_some())
        }),
        (false, false) => decide(volume),
    };
    // client-go's default controller rate limiter.
    let queue = WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000)).named("pvprotection");
    let mut changes = volumes.subscribe();
    let worker = queue.clone().run(1, move |name: String| {
        let (volume, client) = (volumes.get("", &name), client.clone());
        async move {
            match volume {
                Some(mut volume) => {
                    let decision = decide(&volume);
                    if takes_all && decision == Decision::Remove {
                        Arc::make_mut(&mut volume).metadata.finalizers = None;
                    }
                    finalizer::settle(&client, &*volume, FINALIZER, decision).await
                }
                None => Outcome::Done,
            }
        }
    });
    ctx.spawn(worker);
    while let Some(delta) = changes.recv().await {
        if let Delta::Applied { new, .. } = delta
            && decide(&new) != Decision::Keep
        {
            queue.add(new.name().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn only_the_phase_bound_holds_a_deleted_volume() {
        for (phase, expected) in
            [("Bound", Decision::Keep), ("Released", Decision::Remove), ("Failed", Decision::Remove)]
        {
            let volume: PersistentVolume = substrate::json::from_value(json!({
                "metadata": {
                    "name": "v",
                    "finalizers": [FINALIZER],
                    "deletionTimestamp": "2026-01-01T00:00:00Z",
                },
                "status": { "phase": phase },
            }))
            .unwrap();
            assert_eq!(decide(&volume), expected, "{phase}");
        }
    }
}
