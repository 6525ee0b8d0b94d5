//! NoSchedule taints from conditions of a node, and old names of its labels (`doNodeProcessingPassWorker`,
//! `doNoScheduleTaintingPass`).

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use substrate::mutant;
use substrate::process::Ctx;

use super::labels;
use crate::kube::queue::Outcome;
use crate::kube::{Client, Delta, Informer, Kind, WorkQueue};
use crate::taints::{self, NO_SCHEDULE, NOT_READY, UNREACHABLE};

/// Nodes processed at a time (`UpdateWorkerSize`).
const WORKERS: usize = 8;

/// Condition, status, and the corresponding taint.
const MIRRORED: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Follows the nodes forever.
pub(super) async fn run(ctx: Ctx, client: Client, nodes: Informer<Node>) {
    let mut changes = nodes.subscribe();
    let queue =
        WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000)).named("node_lifecycle_controller");
    let keeps_cordon = mutant!(ctx, "uncordoned-node-stays-tainted");
    let work = queue.clone().run(WORKERS, move |name: String| {
        let (node, client) = (nodes.get("", &name), client.clone());
        async move {
            if let Some(node) = node {
                let (add, mut remove) = differences(&node);
                if keeps_cordon {
                    remove.retain(|taint| taint.key != UNSCHEDULABLE);
                }
                // The node's next change triggers a retry, as upstream.
                let _ = taints::swap(&client, &node, &add, &remove).await;
                let labels = labels::missing(&node);
                if !labels.is_empty() {
                    let _ = labels::write(&client, node.name(), &labels).await;
                }
            }
            Outcome::Done
        }
    });
    ctx.spawn(work);
    while let Some(delta) = changes.recv().await {
        if let Delta::Applied { new, .. } = delta
            && (differences(&new) != (Vec::new(), Vec::new()) || !labels::missing(&new).is_empty())
        {
            queue.add(new.name().to_owned());
        }
    }
}

/// Returns the missing taints, in the order of the node's conditions, and the surplus ones.
fn differences(node: &Node) -> (Vec<Taint>, Vec<Taint>) {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let mirrored = |kind: &str, status: &str| {
        MIRRORED.iter().find(|(of, when, _)| *of == kind && *when == status).map(|(_, _, taint)| *taint)
    };
    let mut wanted: Vec<&str> = conditions.iter().filter_map(|c| mirrored(&c.type_, &c.status)).collect();
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        wanted.push(UNSCHEDULABLE);
    }
    let missing = wanted.iter().filter(|key| !taints::has(node, key, NO_SCHEDULE));
    let ours = |key: &str| key == UNSCHEDULABLE || MIRRORED.iter().any(|(_, _, taint)| *taint == key);
    let surplus = taints::of(node)
        .iter()
        .filter(|t| t.effect == NO_SCHEDULE && ours(&t.key) && !wanted.contains(&t.key.as_str()));
    (missing.map(|key| taints::taint(key, NO_SCHEDULE)).collect(), surplus.cloned().collect())
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn taints_follow_the_conditions_in_their_order() {
        let node: Node = substrate::json::from_value(json!({
            "metadata": { "name": "a" },
            "spec": { "unschedulable": true, "taints": [
                { "key": "own", "effect": "NoSchedule" },
                { "key": NOT_READY, "effect": "NoSchedule" },
                { "key": NOT_READY, "effect": "NoExecute" },
            ] },
            "status": { "conditions": [
                { "type": "PIDPressure", "status": "True" },
                { "type": "DiskPressure", "status": "False" },
                { "type": "Ready", "status": "Unknown" },
            ] },
        }))
        .expect("a node");
        let (add, remove) = differences(&node);
        let keys = |taints: &[Taint]| taints.iter().map(|t| t.key.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&add), ["node.kubernetes.io/pid-pressure", UNREACHABLE, UNSCHEDULABLE]);
        assert_eq!((keys(&remove), remove[0].effect.as_str()), (vec![NOT_READY.to_owned()], NO_SCHEDULE));
    }
}
