//! Registration of the Node object, and the status loop: a check every 10 s, a write after a change (upstream
//! `kubelet_node_status.go`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeStatus, ObjectReference};
use substrate::seed::unit;

use super::context::NodeContext;
use super::node_object::{StatusInputs, adopted, changed, initial, status};
use crate::events::NodeReady;
use crate::kube::{Api, ApiError};
use crate::node_agent::config::NodeAgentConfig;
use crate::node_agent::events::RegisterFailed;

/// Attempts at a write in one tick (`nodeStatusUpdateRetry`).
const TRIES: u32 = 5;
/// Largest jitter of a tick, as a fraction of the interval.
const JITTER: f64 = 0.04;
/// First and longest wait between attempts to register.
const REGISTER_BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(7));

/// Creates the Node, or adopts the existing one. Retries until it succeeds.
pub(crate) async fn register(room: &NodeContext) -> Arc<Node> {
    let api = room.client.all::<Node>();
    room.recorder.event(reference_to(&room.config), "Normal", "Starting", "Starting kubelet.");
    let mut wait = REGISTER_BACKOFF.0;
    loop {
        match try_register(room, &api).await {
            Ok(node) => return node,
            Err(error) => room.ctx.emit(RegisterFailed { error: error.to_string(), node: room.config.name() }),
        }
        room.ctx.sleep(wait).await;
        wait = (wait * 2).min(REGISTER_BACKOFF.1);
    }
}

async fn try_register(room: &NodeContext, api: &Api<Node>) -> Result<Arc<Node>, ApiError> {
    match api.create(&initial(&room.config, &inputs(room))).await {
        Err(error) if error.is_already_exists() => {}
        other => return other,
    }
    let existing = api.get(&room.config.node_name).await?;
    match adopted(&room.config, &existing) {
        Some(node) => api.patch_node_status(&existing, &node).await,
        None => Ok(existing),
    }
}

fn inputs(room: &NodeContext) -> StatusInputs {
    let volumes_in_use = room.volumes.lock().volumes_in_use();
    let dropped = volumes_in_use.is_none() && substrate::mutant!(room.ctx, "volumes-in-use-dropped");
    StatusInputs {
        now: room.ctx.now().wall,
        not_ready: (!room.readiness.csi_node_exists()).then(|| "CSINode is not yet initialized".to_owned()),
        volumes_in_use: if dropped { Some(Vec::new()) } else { volumes_in_use },
    }
}

/// Returns a reference to the node, for events. Upstream uses the node's name as uid too.
fn reference_to(config: &NodeAgentConfig) -> ObjectReference {
    ObjectReference {
        kind: Some("Node".to_owned()),
        name: Some(config.node_name.clone()),
        uid: Some(config.node_name.clone()),
        ..ObjectReference::default()
    }
}

/// State of the status loop.
#[derive(Default)]
struct Reporter {
    reported_at: Option<Duration>,
    /// Number of status writes.
    writes: u64,
    ready: bool,
    /// Inputs of the last tick that wrote nothing. Equal inputs need no comparison.
    seen: Option<Seen>,
}

/// Inputs of a status except the time.
struct Seen {
    node: Arc<Node>,
    not_ready: Option<String>,
    volumes_in_use: Option<Vec<String>>,
}

impl Seen {
    fn is(&self, node: &Arc<Node>, inputs: &StatusInputs) -> bool {
        Arc::ptr_eq(&self.node, node)
            && self.not_ready == inputs.not_ready
            && self.volumes_in_use == inputs.volumes_in_use
    }
}

/// Runs the status loop; never returns.
pub(crate) async fn run(room: Arc<NodeContext>) {
    let api = room.heartbeat.all::<Node>();
    let mut rng = room.ctx.rng("node status");
    let mut reporter = Reporter::default();
    let mut fast = false;
    loop {
        reporter.tick(&room, &api, fast).await;
        let interval = room.config.timers.node_status_update;
        let next = room.ctx.now().mono + room.ctx.scaled(interval + interval.mul_f64(JITTER * unit(&mut rng)));
        tokio::select! { biased;
            // Only until the node is ready for the first time (`fastStatusUpdateOnce`).
            () = room.readiness.status_due.notified(), if !reporter.ready => fast = true,
            () = room.ctx.sleep_until(next) => fast = false,
        }
    }
}

impl Reporter {
    /// Updates the status once. A `fast` update reports that the node is ready. It takes no volumes from the cached
    /// node, which may be older than the status that this kubelet has just written (`fastNodeStatusUpdate`).
    async fn tick(&mut self, room: &NodeContext, api: &Api<Node>, fast: bool) {
        for attempt in 0..TRIES {
            let writes = self.writes;
            match self.try_update(room, api, attempt == 0).await {
                Ok(_) if fast && self.writes == writes => return,
                Ok(node) => {
                    let in_use = node.status.iter().flat_map(|s| s.volumes_in_use.iter().flatten());
                    let in_use: BTreeSet<&str> = in_use.map(String::as_str).collect();
                    if room.volumes.lock().mark_reported_in_use(&in_use) {
                        room.changes.signal();
                    }
                    return;
                }
                // The node was deleted. kubelet registers again only when it restarts.
                Err(error) if error.is_not_found() => return,
                Err(_) if substrate::mutant!(room.ctx, "failed-report-counts") => {
                    let unwritten = room.volumes.lock().volumes_in_use().unwrap_or_default();
                    let in_use: BTreeSet<&str> = unwritten.iter().map(String::as_str).collect();
                    if room.volumes.lock().mark_reported_in_use(&in_use) {
                        room.changes.signal();
                    }
                }
                Err(_) => {}
            }
        }
    }

    async fn try_update(&mut self, room: &NodeContext, api: &Api<Node>, cached: bool) -> Result<Arc<Node>, ApiError> {
        let name = &room.config.node_name;
        let node = match room.node.get("", name).filter(|_| cached) {
            Some(node) => node,
            None => api.get(name).await?,
        };
        let inputs = inputs(room);
        let now = room.ctx.now().mono;
        let report = room.ctx.scaled(room.config.timers.node_status_report);
        let due = self.reported_at.is_none_or(|at| now >= at + report)
            || substrate::mutant!(room.ctx, "node-status-each-time");
        if !due && self.seen.as_ref().is_some_and(|seen| seen.is(&node, &inputs)) {
            return Ok(node);
        }
        let nothing = NodeStatus::default();
        let old = node.status.as_ref().unwrap_or(&nothing);
        let mut known = old.clone();
        if substrate::mutant!(room.ctx, "extended-resource-dropped") {
            known.capacity = None;
        }
        let new = status(&room.config, &inputs, &known);
        if !due && !changed(old, &new) {
            let StatusInputs { not_ready, volumes_in_use, .. } = inputs;
            self.seen = Some(Seen { node: node.clone(), not_ready, volumes_in_use });
            return Ok(node);
        }
        let changed = Node { metadata: node.metadata.clone(), spec: node.spec.clone(), status: Some(new) };
        let written = api.patch_node_status(&node, &changed).await?;
        self.reported_at = Some(now);
        self.writes += 1;
        self.announce(room, old, changed.status.as_ref().unwrap_or(&nothing));
        Ok(written)
    }

    /// Emits the events of changed conditions.
    fn announce(&mut self, room: &NodeContext, old: &NodeStatus, new: &NodeStatus) {
        let of = |status: &NodeStatus, type_: &str| {
            let conditions = status.conditions.iter().flatten();
            conditions.into_iter().find(|c| c.type_ == type_).map(|c| c.status.clone())
        };
        let reasons = [
            ("MemoryPressure", "False", "NodeHasSufficientMemory"),
            ("DiskPressure", "False", "NodeHasNoDiskPressure"),
            ("PIDPressure", "False", "NodeHasSufficientPID"),
            ("Ready", "True", "NodeReady"),
            ("Ready", "False", "NodeNotReady"),
        ];
        for (type_, value, reason) in reasons {
            let (before, after) = (of(old, type_), of(new, type_));
            if after.as_deref() == Some(value) && before != after {
                let message = format!("Node {} status is now: {reason}", room.config.node_name);
                room.recorder.event(reference_to(&room.config), "Normal", reason, message);
            }
        }
        if of(new, "Ready").as_deref() == Some("True") {
            if !self.ready || of(old, "Ready").as_deref() != Some("True") {
                room.ctx.emit(NodeReady { node: room.config.name() });
            }
            self.ready = true;
        }
    }
}
