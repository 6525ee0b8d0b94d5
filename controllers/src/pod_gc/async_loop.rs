//! The pass every twenty seconds, and its writes.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use substrate::mutant;
use substrate::process::Ctx;

use super::collect::{Collector, Reason};
use crate::events::PodCollected;
use crate::kube::{ApiError, Client, DeleteParams, Informer, Kind, ListParams};
use crate::mirror_pod::is_stand_in;
use crate::pod_status::{self, phase};
use crate::timers::Timers;

/// Runs the controller forever.
pub async fn run(ctx: Ctx, client: Client, timers: Timers) {
    let nodes = Informer::<Node>::start(&ctx, client.all(), ListParams::default());
    let pods = Informer::<Pod>::start(&ctx, client.all(), ListParams::default());
    nodes.synced().await;
    pods.synced().await;
    let mut collector = Collector::default();
    loop {
        let mut all = pods.list();
        all.retain(|pod| !is_stand_in(pod));
        let mut doomed = Collector::doomed(&all, |name| {
            let mut node = nodes.get("", name)?;
            if mutant!(ctx, "pods-of-ready-node-collected") {
                Arc::make_mut(&mut node).status = None;
            }
            Some(node)
        });
        let now = ctx.now().mono;
        let mut gone = Vec::new();
        let quarantine =
            if mutant!(ctx, "quarantine-skipped") { Duration::ZERO } else { ctx.scaled(timers.pod_gc_quarantine) };
        for name in collector.missing_nodes(now, quarantine, &all, &nodes) {
            // Any other answer than "not found" puts the node back into quarantine at the next pass.
            if client.all::<Node>().get(&name).await.is_err_and(|e| e.is_not_found()) {
                gone.push(name);
            }
        }
        doomed.extend(Collector::orphans(&all, &gone));
        for (reason, pod) in doomed {
            let result = force_delete(&ctx, &client, &pod, reason).await;
            ctx.trace().emit_lazily(ctx.name(), || PodCollected {
                pod: format!("{}/{}", pod.namespace(), pod.name()),
                reason: reason.label().into(),
                error: result.err().map(|e| e.to_string()),
            });
        }
        ctx.sleep(timers.pod_gc_period).await;
    }
}

/// Sets the phase to Failed, since no kubelet will, then deletes without grace (`markFailedAndDeletePodWithCondition`).
async fn force_delete(ctx: &Ctx, client: &Client, pod: &Pod, reason: Reason) -> Result<(), ApiError> {
    if !matches!(phase(pod), "Succeeded" | "Failed") || mutant!(ctx, "ended-pod-marked-failed") {
        let mut status = pod.status.clone().unwrap_or_default();
        status.phase = Some("Failed".to_owned());
        status.observed_generation = pod.metadata.generation;
        if reason == Reason::Orphaned {
            let condition = pod_status::disruption_target(pod, "DeletionByPodGC", "PodGC: node no longer exists");
            pod_status::update_condition(&mut status, condition, ctx.now().wall);
        }
        pod_status::patch(client, pod, status).await?;
    }
    client.namespaced::<Pod>(pod.namespace()).delete(pod.name(), &DeleteParams::force()).await
}
