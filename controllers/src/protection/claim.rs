//! PVC protection: a claim that a scheduled pod names is not removed (`pvcprotection/pvc_protection_controller.go`).

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use substrate::mutant;
use substrate::process::Ctx;

use super::finalizer::{self, Decision};
use crate::binder::object::pod_claims;
use crate::kube::queue::Outcome;
use crate::kube::{ApiError, Client, Delta, Informer, Kind, ListParams, WorkQueue};

/// Name of the finalizer.
pub const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// Returns true if `pod` keeps the claim alive: only a pod with a node does, completed or not. A kubelet starts no pod
/// whose claim is being deleted, so a pod without a node has never used it.
pub fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let scheduled = pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).is_some_and(|node| !node.is_empty());
    scheduled
        && pod.namespace() == claim.namespace()
        && pod_claims(pod).any(|(name, ephemeral)| name == claim.name() && (!ephemeral || owned_by(claim, pod)))
}

fn owned_by(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    claim.metadata.owner_references.iter().flatten().any(|o| o.controller == Some(true) && o.uid == pod.uid())
}

/// Pods with a node, by the claims that they name.
#[derive(Debug, Default)]
struct Users(BTreeMap<(String, String), BTreeMap<String, Arc<Pod>>>);

impl Users {
    fn apply(&mut self, delta: &Delta<Pod>) {
        let (gone, here) = match delta {
            Delta::Applied { old, new } => (old.as_ref(), Some(new)),
            Delta::Deleted(pod) => (Some(pod), None),
        };
        if let Some(pod) = gone {
            for (claim, _) in pod_claims(pod) {
                let key = (pod.namespace().to_owned(), claim);
                if let Some(pods) = self.0.get_mut(&key) {
                    pods.remove(pod.name());
                    if pods.is_empty() {
                        self.0.remove(&key);
                    }
                }
            }
        }
        if let Some(pod) = here {
            for (claim, _) in pod_claims(pod) {
                let key = (pod.namespace().to_owned(), claim);
                self.0.entry(key).or_default().insert(pod.name().to_owned(), pod.clone());
            }
        }
    }

    fn any_uses(&self, claim: &PersistentVolumeClaim) -> bool {
        let key = (claim.namespace().to_owned(), claim.name().to_owned());
        self.0.get(&key).is_some_and(|pods| pods.values().any(|pod| uses(pod, claim)))
    }
}

#[derive(Default)]
struct State {
    users: Users,
    /// Claims to check, by namespace: one live LIST of pods serves all of a namespace.
    waiting: BTreeMap<String, BTreeSet<String>>,
}

struct Controller {
    ctx: Ctx,
    client: Client,
    claims: Informer<PersistentVolumeClaim>,
    queue: WorkQueue<String>,
    state: Mutex<State>,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub async fn run(ctx: Ctx, client: Client) {
    let claims: Informer<PersistentVolumeClaim> = Informer::start(&ctx, client.all(), ListParams::default());
    let pods: Informer<Pod> = Informer::start(&ctx, client.all(), ListParams::default());
    claims.synced().await;
    pods.synced().await;
    let (mut claim_changes, mut pod_changes) = (claims.subscribe(), pods.subscribe());
    // client-go's default controller rate limiter.
    let queue = WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000)).named("pvcprotection");
    let controller = Arc::new(Controller { ctx: ctx.clone(), client, claims, queue, state: Mutex::default() });
    let worker = controller.clone();
    ctx.spawn(controller.queue.clone().run(1, move |namespace| worker.clone().sync(namespace)));
    loop {
        tokio::select! { biased;
            Some(delta) = pod_changes.recv() => controller.pod_changed(&delta),
            Some(delta) = claim_changes.recv() => {
                if let Delta::Applied { new, .. } = delta {
                    controller.enqueue(&new);
                }
            }
        }
    }
}

impl Controller {
    fn pod_changed(&self, delta: &Delta<Pod>) {
        self.state().users.apply(delta);
        // A pod that is deleted, finished, or replaced by another of its name may free claims.
        let affected = match delta {
            Delta::Deleted(_) if mutant!(self.ctx, "freed-claim-not-checked") => return,
            Delta::Deleted(pod) => pod,
            Delta::Applied { old: Some(old), new }
                if old.uid() != new.uid() && !mutant!(self.ctx, "replaced-pod-frees-no-claim") =>
            {
                old
            }
            Delta::Applied { new, .. } => new,
        };
        for (name, _) in pod_claims(affected) {
            if let Some(claim) = self.claims.get(affected.namespace(), &name).filter(|claim| claim.is_deleting()) {
                self.enqueue(&claim);
            }
        }
    }

    fn enqueue(&self, claim: &PersistentVolumeClaim) {
        // The cheap half of the decision; the worker checks the use of the claim.
        if finalizer::decide(&claim.metadata, FINALIZER, || false) == Decision::Keep {
            return;
        }
        self.state().waiting.entry(claim.namespace().to_owned()).or_default().insert(claim.name().to_owned());
        if mutant!(self.ctx, "freed-claim-found-late") {
            return self.queue.add_after(claim.namespace().to_owned(), Duration::from_secs(20));
        }
        self.queue.add(claim.namespace().to_owned());
    }

    async fn sync(self: Arc<Self>, namespace: String) -> Outcome {
        let names = self.state().waiting.remove(&namespace).unwrap_or_default();
        let mut live: Option<Vec<Pod>> = None;
        let mut failed = BTreeSet::new();
        for name in names {
            if self.sync_claim(&namespace, &name, &mut live).await.is_err() {
                failed.insert(name);
            }
        }
        if failed.is_empty() {
            return Outcome::Done;
        }
        if !mutant!(self.ctx, "failed-claims-dropped") {
            self.state().waiting.entry(namespace).or_default().extend(failed);
        }
        Outcome::Retry
    }

    async fn sync_claim(&self, namespace: &str, name: &str, live: &mut Option<Vec<Pod>>) -> Result<(), ApiError> {
        let Some(claim) = self.claims.get(namespace, name) else { return Ok(()) };
        let decision = finalizer::decide(&claim.metadata, FINALIZER, || {
            let is_careless =
                mutant!(self.ctx, "claim-in-use-removed") || mutant!(self.ctx, "terminating-pod-not-counted");
            !is_careless && self.state().users.any_uses(&claim)
        });
        let mut changed = PersistentVolumeClaim::clone(&claim);
        match decision {
            Decision::Keep => return Ok(()),
            Decision::Add => finalizer::add(&mut changed.metadata, FINALIZER),
            Decision::Remove if mutant!(self.ctx, "claim-finalizer-kept") => return Ok(()),
            Decision::Remove => {
                // The cache may lack the newest pod: ask the API server before removing the finalizer.
                let none = Vec::new();
                let pods = match live {
                    _ if mutant!(self.ctx, "live-pods-not-read") => &none,
                    Some(pods) => pods,
                    None => {
                        let list = self.client.namespaced::<Pod>(namespace).list(&ListParams::default()).await?;
                        live.insert(list.items)
                    }
                };
                let counts = |pod: &Pod| !(pod.is_deleting() && mutant!(self.ctx, "terminating-pod-not-counted"));
                let is_used = pods.iter().any(|pod| uses(pod, &claim) && counts(pod));
                if is_used && !mutant!(self.ctx, "claim-in-use-removed") {
                    return Ok(());
                }
                finalizer::remove(&mut changed.metadata, FINALIZER);
            }
        }
        match self.client.namespaced::<PersistentVolumeClaim>(namespace).replace(&changed).await {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    #[rstest]
    #[case::running(json!({ "nodeName": "n", "volumes": [claim("data")] }), "Running", true)]
    #[case::completed_pods_still_block(json!({ "nodeName": "n", "volumes": [claim("data")] }), "Succeeded", true)]
    #[case::without_a_node(json!({ "volumes": [claim("data")] }), "Pending", false)]
    #[case::another_claim(json!({ "nodeName": "n", "volumes": [claim("other")] }), "Running", false)]
    fn a_claim_is_in_use_while_a_scheduled_pod_names_it(
        #[case] spec: substrate::json::Value,
        #[case] phase: &str,
        #[case] expected: bool,
    ) {
        let mut spec = spec;
        spec["containers"] = json!([]);
        let pod: Pod = substrate::json::from_value(json!({
            "metadata": { "namespace": "default", "name": "p" },
            "spec": spec,
            "status": { "phase": phase },
        }))
        .unwrap();
        let data: PersistentVolumeClaim =
            substrate::json::from_value(json!({ "metadata": { "namespace": "default", "name": "data" } })).unwrap();
        assert_eq!(uses(&pod, &data), expected);
    }

    fn claim(name: &str) -> substrate::json::Value {
        json!({ "name": "v", "persistentVolumeClaim": { "claimName": name } })
    }
}
