//! Registration of the Node object, and the status loop: a check every 10 s, a write after a change (upstream
//! `kubelet_node_status.go`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeStatus, ObjectReference};
use substrate::seed::unit;

use super::node_object::{StatusInputs, adopted, changed, initial, status};
use crate::events::NodeReady;
use crate::kube::{Api, ApiError};
use crate::node_agent::agent::Agent;
use crate::node_agent::config::NodeAgentConfig;
use crate::node_agent::events::RegisterFailed;

/// Attempts at a write in one tick (`nodeStatusUpdateRetry`).
const TRIES: u32 = 5;
/// Largest jitter of a tick, as a fraction of the interval.
const JITTER: f64 = 0.04;
/// First and longest wait between attempts to register.
const REGISTER_BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(7));

/// Creates the Node, or adopts the existing one. Retries until it succeeds.
pub(crate) async fn register(agent: &Agent) -> Arc<Node> {
    let api = agent.client.all::<Node>();
    agent.recorder.event(reference_to(&agent.config), "Normal", "Starting", "Starting kubelet.");
    let mut wait = REGISTER_BACKOFF.0;
    loop {
        match try_register(agent, &api).await {
            Ok(node) => return node,
            Err(error) => agent.ctx.emit(RegisterFailed { error: error.to_string(), node: agent.config.name() }),
        }
        agent.ctx.sleep(wait).await;
        wait = (wait * 2).min(REGISTER_BACKOFF.1);
    }
}

async fn try_register(agent: &Agent, api: &Api<Node>) -> Result<Arc<Node>, ApiError> {
    match api.create(&initial(&agent.config, &inputs(agent))).await {
        Err(error) if error.is_already_exists() => {}
        other => return other,
    }
    let existing = api.get(&agent.config.node_name).await?;
    match adopted(&agent.config, &existing) {
        Some(node) => api.patch_node_status(&existing, &node).await,
        None => Ok(existing),
    }
}

fn inputs(agent: &Agent) -> StatusInputs {
    let volumes_in_use = agent.volumes.lock().volumes_in_use();
    let dropped = volumes_in_use.is_none() && substrate::mutant!(agent.ctx, "volumes-in-use-dropped");
    StatusInputs {
        now: agent.ctx.now().wall,
        not_ready: (!agent.readiness.csi_node_exists()).then(|| "CSINode is not yet initialized".to_owned()),
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
pub(crate) async fn run(agent: Arc<Agent>) {
    let api = agent.heartbeat.all::<Node>();
    let mut rng = agent.ctx.rng("node status");
    let mut reporter = Reporter::default();
    let mut fast = false;
    loop {
        reporter.tick(&agent, &api, fast).await;
        let interval = agent.config.timers.node_status_update;
        let next = agent.ctx.now().mono + agent.ctx.scaled(interval + interval.mul_f64(JITTER * unit(&mut rng)));
        tokio::select! { biased;
            // Only until the node is ready for the first time (`fastStatusUpdateOnce`).
            () = agent.readiness.status_due.notified(), if !reporter.ready => fast = true,
            () = agent.ctx.sleep_until(next) => fast = false,
        }
    }
}

impl Reporter {
    /// Updates the status once. A `fast` update reports that the node is ready. It takes no volumes from the cached
    /// node, which may be older than the status that this kubelet has just written (`fastNodeStatusUpdate`).
    async fn tick(&mut self, agent: &Agent, api: &Api<Node>, fast: bool) {
        for attempt in 0..TRIES {
            let writes = self.writes;
            match self.try_update(agent, api, attempt == 0).await {
                Ok(_) if fast && self.writes == writes => return,
                Ok(node) => {
                    let in_use = node.status.iter().flat_map(|s| s.volumes_in_use.iter().flatten());
                    let in_use: BTreeSet<&str> = in_use.map(String::as_str).collect();
                    if agent.volumes.lock().mark_reported_in_use(&in_use) {
                        agent.changes.signal();
                    }
                    return;
                }
                // The node was deleted. kubelet registers again only when it restarts.
                Err(error) if error.is_not_found() => return,
                Err(_) if substrate::mutant!(agent.ctx, "failed-report-counts") => {
                    let unwritten = agent.volumes.lock().volumes_in_use().unwrap_or_default();
                    let in_use: BTreeSet<&str> = unwritten.iter().map(String::as_str).collect();
                    if agent.volumes.lock().mark_reported_in_use(&in_use) {
                        agent.changes.signal();
                    }
                }
                Err(_) => {}
            }
        }
    }

    async fn try_update(&mut self, agent: &Agent, api: &Api<Node>, cached: bool) -> Result<Arc<Node>, ApiError> {
        let name = &agent.config.node_name;
        let node = match agent.node.get("", name).filter(|_| cached) {
            Some(node) => node,
            None => api.get(name).await?,
        };
        let inputs = inputs(agent);
        let now = agent.ctx.now().mono;
        let report = agent.ctx.scaled(agent.config.timers.node_status_report);
        let due = self.reported_at.is_none_or(|at| now >= at + report);
        if !due && self.seen.as_ref().is_some_and(|seen| seen.is(&node, &inputs)) {
            return Ok(node);
        }
        let nothing = NodeStatus::default();
        let old = node.status.as_ref().unwrap_or(&nothing);
        let mut known = old.clone();
        if substrate::mutant!(agent.ctx, "extended-resource-dropped") {
            known.capacity = None;
        }
        let new = status(&agent.config, &inputs, &known);
        if !due && !changed(old, &new) {
            let StatusInputs { not_ready, volumes_in_use, .. } = inputs;
            self.seen = Some(Seen { node: node.clone(), not_ready, volumes_in_use });
            return Ok(node);
        }
        let changed = Node { metadata: node.metadata.clone(), spec: node.spec.clone(), status: Some(new) };
        let written = api.patch_node_status(&node, &changed).await?;
        self.reported_at = Some(now);
        self.writes += 1;
        self.announce(agent, old, changed.status.as_ref().unwrap_or(&nothing));
        Ok(written)
    }

    /// Emits the events of changed conditions.
    fn announce(&mut self, agent: &Agent, old: &NodeStatus, new: &NodeStatus) {
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
                let message = format!("Node {} status is now: {reason}", agent.config.node_name);
                agent.recorder.event(reference_to(&agent.config), "Normal", reason, message);
            }
        }
        if of(new, "Ready").as_deref() == Some("True") {
            if !self.ready || of(old, "Ready").as_deref() != Some("True") {
                agent.ctx.emit(NodeReady { node: agent.config.name() });
            }
            self.ready = true;
        }
    }
}
