//! Informers → timers → deletions.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod, Taint};
use substrate::mutant;
use substrate::process::Ctx;
use tokio::sync::mpsc;

use super::EVENT_SOURCE;
use super::timers::{Effect, Evictions, PodKey, PodView};
use crate::kube::{ApiError, Client, DeleteParams, Delta, EventRecorder, Informer, Kind, ListParams};
use crate::pod_status;
use crate::taints::{self, NO_EXECUTE};

/// Attempts at a deletion, and the wait between them.
const TRIES: usize = 5;
const RETRY: Duration = Duration::from_millis(10);

/// Runs the controller forever.
pub async fn run(ctx: Ctx, client: Client) {
    let nodes = Informer::<Node>::start(&ctx, client.all(), ListParams::default());
    let pods = Informer::<Pod>::start(&ctx, client.all(), ListParams::default());
    nodes.synced().await;
    pods.synced().await;
    let (finished, mut ended) = mpsc::unbounded_channel();
    let mut async_loop = AsyncLoop {
        recorder: EventRecorder::new(&client, EVENT_SOURCE),
        evictions: Evictions::new(ctx.world().scale()),
        tainted: BTreeMap::new(),
        ctx: ctx.clone(),
        client,
        pods: pods.clone(),
        finished,
    };
    async_loop.evictions.is_hasty = mutant!(ctx, "toleration-seconds-ignored");
    async_loop.evictions.is_slow = mutant!(ctx, "evicted-late");
    async_loop.evictions.restarts_waits = mutant!(ctx, "taint-change-restarts-wait");
    let mut node_changes = nodes.subscribe();
    let mut pod_changes = pods.subscribe();
    loop {
        let deadline = async_loop.evictions.next_deadline();
        let due = async {
            match deadline {
                Some(at) => ctx.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        // Nodes before pods, so that a pod is evaluated with the newest taints.
        tokio::select! { biased;
            Some(delta) = node_changes.recv() => async_loop.node_changed(&delta),
            Some(delta) = pod_changes.recv() => async_loop.pod_changed(&delta),
            Some(key) = ended.recv() => async_loop.evictions.finished(&key),
            () = due => {
                for key in async_loop.evictions.due(ctx.now().mono) {
                    async_loop.evict(key);
                }
            }
        }
    }
}

struct AsyncLoop {
    ctx: Ctx,
    client: Client,
    recorder: EventRecorder,
    pods: Informer<Pod>,
    evictions: Evictions,
    /// Node → its NoExecute taints; only nodes with such taints.
    tainted: BTreeMap<String, Vec<Taint>>,
    /// Pods whose deletion has ended, with or without success.
    finished: mpsc::UnboundedSender<PodKey>,
}

fn no_execute(node: &Node) -> Vec<Taint> {
    taints::of(node).iter().filter(|taint| taint.effect == NO_EXECUTE).cloned().collect()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn view<'a>(ctx: &Ctx, pod: &'a Pod) -> PodView<'a> {
    let mut tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    if mutant!(ctx, "first-toleration-read") {
        tolerations = tolerations.get(..1).unwrap_or_default();
    }
    PodView { key: (pod.namespace(), pod.name()), tolerations }
}

impl AsyncLoop {
    fn node_changed(&mut self, delta: &Delta<Node>) {
        let node = match delta {
            Delta::Applied { new, .. } => new,
            Delta::Deleted(node) => {
                self.tainted.remove(node.name());
                return;
            }
        };
        let taints = no_execute(node);
        let before = self.tainted.get(node.name()).map(Vec::as_slice).unwrap_or_default();
        if before == taints {
            return;
        }
        if taints.is_empty() {
            self.tainted.remove(node.name());
        } else {
            self.tainted.insert(node.name().to_owned(), taints.clone());
        }
        if taints.is_empty() && mutant!(self.ctx, "eviction-not-called-off") {
            return;
        }
        let now = self.ctx.now().mono;
        let mut effects = Vec::new();
        let (ctx, pods, evictions) = (&self.ctx, &self.pods, &mut self.evictions);
        pods.each(|pod| {
            if node_of(pod) == Some(node.name()) {
                effects.extend(evictions.process(now, view(ctx, pod), &taints));
            }
        });
        self.perform(effects);
    }

    fn pod_changed(&mut self, delta: &Delta<Pod>) {
        let (old, pod) = match delta {
            Delta::Applied { old, new } => (old, new),
            Delta::Deleted(_) if mutant!(self.ctx, "former-pods-timer-kept") => return,
            Delta::Deleted(pod) => {
                let cancelled = self.evictions.cancel(&(pod.namespace().to_owned(), pod.name().to_owned()));
                self.perform(cancelled.into_iter().collect());
                return;
            }
        };
        let Some(node) = node_of(pod) else { return };
        let unchanged = old.as_ref().is_some_and(|old| {
            node_of(old) == Some(node) && view(&self.ctx, old).tolerations == view(&self.ctx, pod).tolerations
        });
        // A pod that was there before it got its node.
        let is_missed = old.is_some() && mutant!(self.ctx, "placed-pod-not-evicted");
        if unchanged || is_missed {
            return;
        }
        if let Some(taints) = self.tainted.get(node) {
            let effects = self.evictions.process(self.ctx.now().mono, view(&self.ctx, pod), taints);
            self.perform(effects);
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Evict(key) => self.evict(key),
                Effect::Cancelled(key) => {
                    let text = format!("Cancelling deletion of Pod {}/{}", key.0, key.1);
                    self.recorder.event(pod_reference(&key), "Normal", "TaintManagerEviction", text);
                }
            }
        }
    }

    fn evict(&self, key: PodKey) {
        let text = format!("Marking for deletion Pod {}/{}", key.0, key.1);
        self.recorder.event(pod_reference(&key), "Normal", "TaintManagerEviction", text);
        let (ctx, client, finished) = (self.ctx.clone(), self.client.clone(), self.finished.clone());
        self.ctx.spawn(async move {
            for _ in 0..TRIES {
                if mutant!(ctx, "no-execute-ignored") || delete(&ctx, &client, &key).await.is_ok() {
                    break;
                }
                ctx.sleep(RETRY).await;
            }
            // The receiver ends only with the process.
            let _ = finished.send(key);
        });
    }
}

fn pod_reference(key: &PodKey) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(key.0.clone()),
        name: Some(key.1.clone()),
        ..ObjectReference::default()
    }
}

/// Sets the DisruptionTarget condition, then deletes gracefully (`addConditionAndDeletePod`).
async fn delete(ctx: &Ctx, client: &Client, (namespace, name): &PodKey) -> Result<(), ApiError> {
    let pods = client.namespaced::<Pod>(namespace);
    let pod = pods.get(name).await?;
    let message = "Taint manager: deleting due to NoExecute taint";
    let condition = pod_status::disruption_target(&pod, "DeletionByTaintManager", message);
    let mut status = pod.status.clone().unwrap_or_default();
    if pod_status::update_condition(&mut status, condition, ctx.now().wall) {
        pod_status::patch(client, &pod, status).await?;
    }
    pods.delete(name, &DeleteParams::default()).await
}
