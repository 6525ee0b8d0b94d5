//! The TTL controller (`ttl-controller`, `pkg/controller/ttl/ttl_controller.go`): it annotates each node with the time
//! that its kubelet may cache secrets and config maps, longer in larger clusters.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use substrate::process::Ctx;

use crate::binder::object::{annotate, annotation};
use crate::kube::queue::Outcome;
use crate::kube::{Client, Delta, Guard, Informer, Kind, ListParams, WorkQueue};

/// Annotation with the time in seconds (`ObjectTTLAnnotationKey`).
const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";
/// Number of nodes processed at once.
const WORKERS: usize = 5;
/// Sizes of clusters and their times in seconds (`ttlBoundaries`). They overlap, so that a cluster that changes its
/// size a little keeps its time.
const SIZES: [(usize, usize, u32); 5] =
    [(0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, usize::MAX, 300)];

/// Returns the entry of [`SIZES`] after a change of the number of nodes by one.
fn moved(step: usize, nodes: usize) -> usize {
    let (least, most, _) = SIZES[step];
    match nodes {
        n if n > most => step + 1,
        n if n < least => step - 1,
        _ => step,
    }
}

/// Returns the node with the annotation, or None if it has it.
fn annotated(node: &Node, seconds: u32) -> Option<Node> {
    if annotation(&node.metadata, ANNOTATION).and_then(|value| value.parse().ok()) == Some(seconds) {
        return None;
    }
    let mut node = node.clone();
    annotate(&mut node.metadata, ANNOTATION, &seconds.to_string());
    Some(node)
}

struct Controller {
    client: Client,
    nodes: Informer<Node>,
    /// Current entry of [`SIZES`].
    step: AtomicUsize,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub async fn run(ctx: Ctx, client: Client) {
    let nodes: Informer<Node> = Informer::start(&ctx, client.all(), ListParams::default());
    nodes.synced().await;
    let mut changes = nodes.subscribe();
    // client-go's default controller rate limiter.
    let queue = WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000)).named("ttlcontroller");
    let controller = Arc::new(Controller { client, nodes, step: AtomicUsize::new(0) });
    ctx.spawn(queue.clone().run(WORKERS, {
        let controller = controller.clone();
        move |name| controller.clone().sync(name)
    }));
    let (mut count, mut step) = (0_usize, 0);
    while let Some(delta) = changes.recv().await {
        match &delta {
            Delta::Applied { old, .. } => count += usize::from(old.is_none()),
            Delta::Deleted(_) => count = count.saturating_sub(1),
        }
        step = moved(step, count);
        controller.step.store(step, Ordering::Relaxed);
        if let Delta::Applied { new, .. } = delta {
            queue.add(new.name().to_owned());
        }
    }
}

impl Controller {
    async fn sync(self: Arc<Self>, name: String) -> Outcome {
        let (_, _, seconds) = SIZES[self.step.load(Ordering::Relaxed)];
        let Some(old) = self.nodes.get("", &name) else { return Outcome::Done };
        let Some(new) = annotated(&old, seconds) else { return Outcome::Done };
        match self.client.all::<Node>().strategic_patch(&old, &new, Guard::None).await {
            Ok(_) => Outcome::Done,
            Err(_) => Outcome::Retry,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    #[test]
    fn the_time_follows_the_size_of_the_cluster_with_a_delay() {
        let mut step = 0;
        let seconds = |nodes: usize| {
            step = moved(step, nodes);
            SIZES[step].2
        };
        let seen = [1, 100, 101, 95, 90, 89, 101, 500, 501, 449].map(seconds);
        assert_eq!(seen, [0, 0, 15, 15, 15, 0, 15, 15, 30, 15]);
    }

    #[rstest]
    #[case::none(json!({}), Some("0"))]
    #[case::right(json!({ ANNOTATION: "0" }), None)]
    #[case::of_another_size(json!({ ANNOTATION: "15" }), Some("0"))]
    #[case::no_number(json!({ ANNOTATION: "soon" }), Some("0"))]
    fn a_node_gets_the_time_once(#[case] annotations: Value, #[case] expected: Option<&str>) {
        let node: Node =
            from_value(json!({ "metadata": { "name": "n", "annotations": annotations } })).expect("a node");
        let annotated = annotated(&node, 0);
        assert_eq!(annotated.as_ref().and_then(|node| annotation(&node.metadata, ANNOTATION)), expected);
    }
}
