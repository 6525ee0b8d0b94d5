//! Every twenty seconds: who is to go, and the writes.

use k8s_openapi::api::core::v1::{Node, Pod};
use substrate::process::Ctx;

use super::collect::{Collector, Reason};
use crate::events::PodCollected;
use crate::kube::{ApiError, Client, DeleteParams, Informer, Kind, ListParams};
use crate::pod_status::{self, Condition, phase};
use crate::timers::Timers;

/// Runs the controller for ever.
pub async fn run(ctx: Ctx, client: Client, timers: Timers) {
    let nodes = Informer::<Node>::start(&ctx, client.all(), ListParams::default());
    let pods = Informer::<Pod>::start(&ctx, client.all(), ListParams::default());
    nodes.synced().await;
    pods.synced().await;
    let mut collector = Collector::default();
    loop {
        let all = pods.list();
        let mut doomed = Collector::doomed(&all, |name| nodes.get("", name));
        let now = ctx.now().mono;
        let mut gone = Vec::new();
        for name in collector.missing_nodes(now, ctx.scaled(timers.pod_gc_quarantine), &all, &nodes) {
            // Any other answer than "not found" puts the node back into quarantine with the next turn.
            if client.all::<Node>().get(&name).await.is_err_and(|e| e.is_not_found()) {
                gone.push(name);
            }
        }
        doomed.extend(Collector::orphans(&all, &gone));
        for (reason, pod) in doomed {
            let result = force_delete(&ctx, &client, &pod, reason).await;
            ctx.trace().trace(ctx.name(), || PodCollected {
                pod: format!("{}/{}", pod.namespace(), pod.name()),
                reason: reason.label().into(),
                error: result.err().map(|e| e.to_string()),
            });
        }
        ctx.sleep(timers.pod_gc_period).await;
    }
}

/// Sets the phase to Failed where no kubelet will, then deletes without grace.
async fn force_delete(ctx: &Ctx, client: &Client, pod: &Pod, reason: Reason) -> Result<(), ApiError> {
    let pods = client.namespaced::<Pod>(pod.namespace());
    if !matches!(phase(pod), "Succeeded" | "Failed") {
        let condition = (reason == Reason::Orphaned).then_some(Condition {
            kind: "DisruptionTarget",
            status: "True",
            reason: Some("DeletionByPodGC"),
            message: Some("PodGC: node no longer exists"),
        });
        if let Some(patch) = pod_status::patch(pod, condition, Some("Failed"), ctx.now().wall) {
            pods.patch_status_unread(pod.name(), &patch).await?;
        }
    }
    pods.delete(pod.name(), &DeleteParams::force()).await
}
