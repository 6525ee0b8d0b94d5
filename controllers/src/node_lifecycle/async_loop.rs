//! The monitor every five seconds, the pass of NoExecute taints, and the pods of unready nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeStatus, ObjectReference, Pod, PodCondition};
use substrate::mutant;
use substrate::process::Ctx;

use super::EVENT_SOURCE;
use super::health::{Grace, NodeHealth, Ready};
use super::mirror;
use super::zones::{TaintQueue, ZoneState, is_ready, zone_key, zone_state};
use crate::events::{NodeNotReady, NodeReady, NodeUnknown};
use crate::kube::{Client, Delta, EventRecorder, Informer, Kind, ListParams, reference};
use crate::pod_status;
use crate::taints::{self, NO_EXECUTE, NOT_READY, UNREACHABLE};
use crate::tick_schedule::TickSchedule;
use crate::timers::Timers;

/// Namespace of the nodes' leases.
const LEASES: &str = "kube-node-lease";
/// Attempts at a status write after conflicts (`NodeHealthUpdateRetry`), and the wait between them.
const TRIES: usize = 5;
const RETRY: Duration = Duration::from_millis(20);
/// Period of the tainting pass (`NodeEvictionPeriod`).
const TAINT_PASS: Duration = Duration::from_millis(100);

/// Runs the controller forever.
pub async fn run(ctx: Ctx, client: Client, timers: Timers) {
    let nodes = Informer::<Node>::start(&ctx, client.all(), ListParams::default());
    let pods = Informer::<Pod>::start(&ctx, client.all(), ListParams::default());
    let leases = Informer::<Lease>::start(&ctx, client.namespaced(LEASES), ListParams::default());
    nodes.synced().await;
    pods.synced().await;
    leases.synced().await;
    ctx.spawn(mirror::run(ctx.clone(), client.clone(), nodes.clone()));
    let interval = |rate: f64| (rate > 0.0).then(|| ctx.scaled(Duration::from_secs_f64(1.0 / rate)));
    let monitor_grace = match () {
        () if mutant!(ctx, "node-unknown-early") => Duration::from_secs(20),
        () if mutant!(ctx, "lost-node-stays-ready") => Duration::from_secs(1 << 30),
        () => timers.node_monitor_grace,
    };
    let async_loop = AsyncLoop {
        recorder: EventRecorder::new(&client, EVENT_SOURCE),
        grace: Grace { monitor: ctx.scaled(monitor_grace), startup: ctx.scaled(timers.node_startup_grace) },
        normal: interval(timers.node_eviction_rate),
        ctx: ctx.clone(),
        client,
        timers,
        nodes,
        pods,
        leases,
        known: BTreeMap::new(),
        zones: BTreeMap::new(),
        retry: BTreeSet::new(),
    };
    async_loop.serve().await;
}

/// Node with its zone.
type Zoned = (Arc<str>, Arc<Node>);

/// Remembered state of a node.
struct Known {
    uid: String,
    /// State of the node from which its zone was read.
    read: Arc<Node>,
    zone: Arc<str>,
    health: Option<NodeHealth>,
    /// Ready status of the last event.
    reported: Option<Ready>,
}

struct Zone {
    state: ZoneState,
    queue: TaintQueue,
}

struct AsyncLoop {
    ctx: Ctx,
    client: Client,
    timers: Timers,
    recorder: EventRecorder,
    grace: Grace,
    normal: Option<Duration>,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    leases: Informer<Lease>,
    known: BTreeMap<String, Known>,
    zones: BTreeMap<Arc<str>, Zone>,
    /// Nodes with pods that could not be marked.
    retry: BTreeSet<String>,
}

fn node_reference(name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

impl AsyncLoop {
    async fn serve(mut self) {
        let mut pods = self.pods.subscribe();
        let start = self.ctx.now().mono;
        let period = self.ctx.scaled(self.timers.node_monitor_period);
        let pass = TickSchedule::new(start, self.ctx.scaled(TAINT_PASS));
        let mut monitor_at = start;
        let mut passed: Option<Duration> = None;
        loop {
            let now = self.ctx.now().mono;
            let turn = self.zones.values().filter_map(|zone| zone.queue.next_turn()).min();
            let pass_at = turn.map(|turn| pass.at_or_after(turn.max(now), passed));
            let wake = pass_at.map_or(monitor_at, |at| at.min(monitor_at));
            tokio::select! { biased;
                Some(delta) = pods.recv() => if let Delta::Applied { old, new } = delta {
                    self.pod_assigned(old.as_deref(), &new).await;
                },
                () = self.ctx.sleep_until(wake) => {
                    let now = self.ctx.now().mono;
                    if now >= monitor_at {
                        self.monitor().await;
                        monitor_at = self.ctx.now().mono + period;
                    } else {
                        passed = Some(now);
                        self.taint_pass().await;
                    }
                }
            }
        }
    }

    /// Runs one pass of the monitor (`monitorNodeHealth`).
    async fn monitor(&mut self) {
        let nodes = self.classify().await;
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (zone, node) in &nodes {
            let mut node = node.clone();
            let Some((observed, current)) = self.update_health(&mut node).await else { continue };
            if node.label("node.kubernetes.io/exclude-disruption").is_none() {
                let count = counts.entry(zone).or_default();
                if is_ready(current) { count.0 += 1 } else { count.1 += 1 }
            }
            let Some(current) = current else { continue };
            self.report(node.name(), current);
            self.taint_by_condition(zone, &node, current).await;
            let went_away = current != Ready::True && observed == Ready::True;
            if went_away {
                let text = format!("Node {} status is now: NodeNotReady", node.name());
                self.recorder.event(node_reference(node.name(), node.uid()), "Normal", "NodeNotReady", text);
            }
            let again = self.retry.remove(node.name()) && observed != Ready::True;
            let marks = went_away || again;
            if marks && !self.mark_pods_of(node.name()).await && !mutant!(self.ctx, "failed-marking-not-repeated") {
                self.retry.insert(node.name().to_owned());
            }
        }
        self.handle_disruption(&counts, &nodes).await;
    }

    /// Emits an event after a change of a node's Ready condition.
    fn report(&mut self, node: &str, current: Ready) {
        let Some(known) = self.known.get_mut(node) else { return };
        if known.reported == Some(current) {
            return;
        }
        known.reported = Some(current);
        let node = node.into();
        match current {
            Ready::True => self.ctx.emit(NodeReady { node }),
            Ready::False => self.ctx.emit(NodeNotReady { node }),
            Ready::Unknown => self.ctx.emit(NodeUnknown { node }),
        }
    }

    /// Returns the existing nodes with their zones, and handles new and deleted ones.
    async fn classify(&mut self) -> Vec<Zoned> {
        let mut nodes = Vec::with_capacity(self.known.len());
        for node in self.nodes.list() {
            let zone = match self.known.get_mut(node.name()) {
                Some(known) if Arc::ptr_eq(&known.read, &node) => known.zone.clone(),
                Some(known) => {
                    known.zone = zone_key(&node).into();
                    known.read = node.clone();
                    known.zone.clone()
                }
                None => zone_key(&node).into(),
            };
            nodes.push((zone, node));
        }
        for (zone, node) in &nodes {
            if !self.zones.contains_key(zone) {
                let fresh = Zone { state: ZoneState::Initial, queue: TaintQueue::new(self.normal) };
                self.zones.insert(zone.clone(), fresh);
            }
            if !self.known.contains_key(node.name()) {
                let (uid, read, zone) = (node.uid().to_owned(), node.clone(), zone.clone());
                let known = Known { uid, read, zone: zone.clone(), health: None, reported: None };
                self.known.insert(node.name().to_owned(), known);
                let text = format!("Node {0} event: Registered Node {0} in Controller", node.name());
                self.recorder.event(node_reference(node.name(), node.uid()), "Normal", "RegisteredNode", text);
                self.mark_reachable(&zone, node).await;
            }
        }
        if self.known.len() != nodes.len() {
            let present: BTreeSet<&str> = nodes.iter().map(|(_, node)| node.name()).collect();
            for (name, known) in self.known.extract_if(.., |name, _| !present.contains(name.as_str())) {
                let text = format!("Node {name} event: Removing Node {name} from Controller");
                self.recorder.event(node_reference(&name, &known.uid), "Normal", "RemovingNode", text);
            }
        }
        nodes
    }

    /// Observes one node and writes its conditions if they must change. Returns None if that failed. After a refused
    /// write, `node` is the state read live.
    async fn update_health(&mut self, node: &mut Arc<Node>) -> Option<(Ready, Option<Ready>)> {
        for _ in 0..TRIES {
            let renewed = self
                .leases
                .get(LEASES, node.name())
                .and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref().map(|t| t.0));
            let health = &mut self.known.get_mut(node.name())?.health;
            let seen = NodeHealth::observe(health, self.ctx.now(), node, renewed, self.grace);
            let Some(conditions) = seen.write else { return Some((seen.observed, seen.current)) };
            // Boxed: the future would otherwise hold kilobytes while it waits.
            let mut changed = Box::new(Node::clone(node));
            changed.status.get_or_insert_with(NodeStatus::default).conditions = Some(conditions);
            if self.client.all::<Node>().replace_status(&changed).await.is_ok() {
                return Some((seen.observed, seen.current));
            }
            *node = self.client.all::<Node>().get(node.name()).await.ok()?;
            self.ctx.sleep(RETRY).await;
        }
        None
    }

    /// Taints a node by its status after this pass (`processTaintBaseEviction`): the taint follows Unknown at once.
    async fn taint_by_condition(&mut self, zone: &str, node: &Node, current: Ready) {
        let (taint, opposite) = match current {
            Ready::True => return self.mark_reachable(zone, node).await,
            Ready::False if mutant!(self.ctx, "not-ready-told-as-unreachable") => (UNREACHABLE, NOT_READY),
            Ready::False => (NOT_READY, UNREACHABLE),
            Ready::Unknown => (UNREACHABLE, NOT_READY),
        };
        if taints::has(node, opposite, NO_EXECUTE) {
            // A node that is tainted already is not rate limited. The next pass repeats a failed swap.
            let _ = self.swap(node, taint, opposite).await;
            return;
        }
        let Some(zone) = self.zones.get_mut(zone) else { return };
        if !taints::has(node, taint, NO_EXECUTE) {
            // Not tainted yet, or the taint was removed: queue it again.
            zone.queue.remove(node.name());
        }
        zone.queue.add(node.name());
    }

    async fn swap(&self, node: &Node, add: &str, remove: &str) -> bool {
        let [add, remove] = [add, remove].map(|key| [taints::taint(key, NO_EXECUTE)]);
        taints::swap(&self.client, node, &add, &remove).await.is_ok()
    }

    async fn mark_reachable(&mut self, zone: &str, node: &Node) {
        for key in [UNREACHABLE, NOT_READY] {
            if key == UNREACHABLE && mutant!(self.ctx, "unreachable-taint-kept") {
                continue;
            }
            if taints::take_off(&self.client, node, &[taints::taint(key, NO_EXECUTE)]).await.is_err() {
                return;
            }
        }
        if let Some(zone) = self.zones.get_mut(zone) {
            zone.queue.remove(node.name());
        }
    }

    /// Taints the queued nodes (`doNoExecuteTaintingPass`).
    async fn taint_pass(&mut self) {
        for key in self.zones.keys().cloned().collect::<Vec<_>>() {
            loop {
                let now = self.ctx.now().mono;
                let Some(name) = self.zones.get_mut(&key).and_then(|zone| zone.queue.take(now)) else { break };
                let Some(node) = self.nodes.get("", &name) else { continue };
                let done = match Ready::of(&node) {
                    Some(Ready::False) if mutant!(self.ctx, "not-ready-told-as-unreachable") => {
                        self.swap(&node, UNREACHABLE, NOT_READY).await
                    }
                    Some(Ready::False) => self.swap(&node, NOT_READY, UNREACHABLE).await,
                    Some(Ready::Unknown) => self.swap(&node, UNREACHABLE, NOT_READY).await,
                    // It is ready again.
                    Some(Ready::True) => true,
                    None => false,
                };
                if !done {
                    if let Some(zone) = self.zones.get_mut(&key) {
                        zone.queue.put_back(name);
                    }
                    break;
                }
            }
        }
    }

    /// Sets the rate of every zone, and stops all evictions if no node is ready (`handleDisruption`).
    async fn handle_disruption(&mut self, counts: &BTreeMap<&str, (usize, usize)>, nodes: &[Zoned]) {
        let next: BTreeMap<&str, ZoneState> =
            counts.iter().map(|(zone, (ready, not_ready))| (*zone, zone_state(*ready, *not_ready))).collect();
        let goes_on = mutant!(self.ctx, "total-outage-evicts");
        let all_down = next.values().all(|state| *state == ZoneState::FullDisruption) && !goes_on;
        self.zones.retain(|zone, _| counts.contains_key(&**zone) || nodes.iter().any(|(of, _)| of == zone));
        let counted = |(key, _): &(&Arc<str>, &Zone)| counts.contains_key(&***key);
        let were_down = self.zones.iter().filter(counted).all(|(_, zone)| zone.state == ZoneState::FullDisruption);
        let all_were_down = were_down && !goes_on;
        if all_down && all_were_down {
            return;
        }
        let now = self.ctx.now().mono;
        if all_down {
            for (zone, node) in nodes {
                self.mark_reachable(zone, node).await;
            }
            for zone in self.zones.values_mut() {
                zone.state = ZoneState::FullDisruption;
                zone.queue.set_interval(now, None);
            }
            return;
        }
        if all_were_down {
            for health in self.known.values_mut().filter_map(|known| known.health.as_mut()) {
                health.probed = now;
            }
        }
        for (key, zone) in &mut self.zones {
            let (Some(&state), Some((ready, not_ready))) = (next.get(&**key), counts.get(&**key)) else {
                continue;
            };
            if zone.state == state && !all_were_down {
                continue;
            }
            zone.state = state;
            let (normal, secondary) = (self.timers.node_eviction_rate, self.timers.secondary_node_eviction_rate);
            let rate = state.rate(ready + not_ready, normal, secondary);
            let interval = (rate > 0.0).then(|| self.ctx.scaled(Duration::from_secs_f64(1.0 / rate)));
            zone.queue.set_interval(now, interval);
        }
    }

    /// Marks the pods of a node as not ready. Returns false if one could not be marked.
    async fn mark_pods_of(&self, node: &str) -> bool {
        if mutant!(self.ctx, "pods-of-lost-node-stay-ready") {
            return true;
        }
        let mut pods = Vec::new();
        self.pods.each(|pod| {
            if assigned_to(pod) == Some(node) || mutant!(self.ctx, "pods-of-all-nodes-marked") {
                pods.push(pod.clone());
            }
        });
        let mut all = true;
        for pod in pods {
            all &= self.mark_pod(&pod).await;
        }
        all
    }

    /// Marks one pod (`MarkPodsNotReady`). The event follows the write, even a failed one.
    async fn mark_pod(&self, pod: &Pod) -> bool {
        let Some(ready) = pod_status::conditions(pod).iter().find(|c| c.type_ == "Ready") else { return true };
        let ready = PodCondition { status: "False".to_owned(), ..ready.clone() };
        // Boxed: the future would otherwise hold kilobytes while it waits.
        let mut changed = Box::new(pod.clone());
        let status = changed.status.get_or_insert_default();
        if !pod_status::update_condition(status, ready, self.ctx.now().wall) {
            return true;
        }
        let done = match self.client.namespaced::<Pod>(pod.namespace()).replace_status(&changed).await {
            Ok(_) => true,
            Err(e) if e.is_not_found() => return true,
            Err(_) => false,
        };
        self.recorder.event(reference(pod), "Warning", "NodeNotReady", "Node is not ready");
        done
    }

    /// Marks a pod that was assigned to an unready node as not ready.
    async fn pod_assigned(&self, old: Option<&Pod>, new: &Pod) {
        let Some(node) = assigned_to(new) else { return };
        if old.and_then(assigned_to) == Some(node) || self.known.get(node).is_none_or(|known| known.health.is_none()) {
            return;
        }
        let away = self.nodes.get("", node).and_then(|node| Ready::of(&node)).is_some_and(|ready| ready != Ready::True);
        if away {
            self.mark_pod(new).await;
        }
    }
}

fn assigned_to(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}
