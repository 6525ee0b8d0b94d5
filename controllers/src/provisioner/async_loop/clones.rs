//! Releases a claim that others were cloned from, once none of them is Pending (upstream `clone_controller.go`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use substrate::mutant;

use super::super::source::CLONE_FINALIZER;
use super::Controller;
use super::sources::without_finalizer;
use crate::binder::object::claim_phase;
use crate::kube::{Delta, Kind, Outcome, WorkQueue};

/// Runs the loop forever.
pub(super) async fn run(controller: Arc<Controller>) {
    let timers = &controller.config.timers;
    let queue =
        WorkQueue::new(&controller.ctx, timers.sidecar_retry_start, timers.sidecar_retry_max).named("claim-cleanup");
    let mut changes = controller.sources.claims.subscribe();
    let worker = controller.clone();
    controller.ctx.spawn(queue.clone().run(timers.workers.cloning_protection, move |key: (String, String)| {
        let worker = worker.clone();
        async move { worker.release_claim(&key.0, &key.1).await }
    }));
    while let Some(delta) = changes.recv().await {
        if let Delta::Applied { new, .. } = delta
            && new.is_deleting()
        {
            queue.add((new.namespace().to_owned(), new.name().to_owned()));
        }
    }
}

/// Returns true if `other` is a clone of `claim`, finished or not. Seeded bug: `anywhere` ignores namespaces.
fn is_clone(claim: &PersistentVolumeClaim, other: &PersistentVolumeClaim, anywhere: bool) -> bool {
    let source = other.spec.as_ref().and_then(|s| s.data_source.as_ref());
    (anywhere || other.namespace() == claim.namespace())
        && source.is_some_and(|s| s.kind == "PersistentVolumeClaim" && s.name == claim.name())
}

impl Controller {
    async fn release_claim(&self, namespace: &str, name: &str) -> Outcome {
        let Some(claim) = self.sources.claims.get(namespace, name) else { return Outcome::Done };
        if !claim.has_finalizer(CLONE_FINALIZER) {
            return Outcome::Done;
        }
        let mut cloned = false;
        let counts_finished = mutant!(self.ctx, "clone-holds-its-source");
        let anywhere = mutant!(self.ctx, "clone-counted-across-namespaces");
        self.sources.claims.each(|other| {
            cloned |= is_clone(&claim, other, anywhere) && (counts_finished || claim_phase(other) == "Pending");
        });
        if cloned {
            return Outcome::Retry;
        }
        match self.client.namespaced(namespace).replace(&without_finalizer(&*claim, CLONE_FINALIZER)).await {
            Ok(_) => Outcome::Done,
            Err(e) if e.is_not_found() => Outcome::Done,
            Err(_) => Outcome::Retry,
        }
    }
}
