//! One pass of the reconciler: detaches, then attaches, then node statuses.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::actual::AttachedVolume;
use super::actual::{ActualStateOfWorld, AttachedNode};
use super::desired::DesiredStateOfWorld;
use super::differences::{Differences, Wait};
use super::volume::{VolumeOnNode, VolumeSpec, parse_unique_name};
use crate::pending::{OperationKey, OperationKeyRef, PendingOperations};

/// Operation name of an attach; backoff is per name.
pub const ATTACH: &str = "volume_attach";
/// Operation name of a detach.
pub const DETACH: &str = "volume_detach";

/// Reconciler's view of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// True if condition Ready is True.
    pub ready: bool,
    /// True if it has the out-of-service taint.
    pub out_of_service: bool,
}

/// Reason for a detach without the safety check (label of the `forced_detaches` metric).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForcedReason {
    /// The request is older than `max_wait_for_unmount`.
    Timeout,
    /// The node has the out-of-service taint.
    OutOfService,
}

impl ForcedReason {
    /// Returns the label of the `forced_detaches` metric.
    pub fn label(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::OutOfService => "out-of-service",
        }
    }
}

/// Write or operation; actions run in the given order.
#[derive(Clone, Debug)]
pub enum Action {
    /// First write the node's status without the volume (absent: nothing to write). If that fails, call
    /// [`Reconciler::detach_aborted`]. Otherwise detach, then call [`Reconciler::detached`].
    Detach {
        /// Key of the pending operation.
        key: OperationKey,
        /// Unique volume name.
        volume: String,
        /// Node name.
        node: String,
        /// Spec of the volume, if known.
        spec: Option<Arc<VolumeSpec>>,
        /// `status.volumesAttached` to write first.
        report: Option<Vec<String>>,
        /// Reason to skip the safety check. None: perform the check.
        forced: Option<ForcedReason>,
    },
    /// Attach, then call [`Reconciler::attached`].
    Attach {
        /// Key of the pending operation.
        key: OperationKey,
        /// Unique volume name.
        volume: String,
        /// Node name.
        node: String,
        /// Spec of the volume.
        spec: Arc<VolumeSpec>,
        /// Pods that wait for it.
        pods: Vec<Arc<ObjectReference>>,
    },
    /// Warn a pod with `FailedAttachVolume`.
    MultiAttach {
        /// Pod that waits.
        pod: Arc<ObjectReference>,
        /// Text of the event.
        message: String,
    },
    /// Write the node's `status.volumesAttached`; on failure call [`Reconciler::report_failed`].
    Report {
        /// Node name.
        node: String,
        /// Unique volume names.
        volumes: Vec<String>,
    },
}

/// Actions of a pass, and the time of the next pass that is needed without an event.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Actions in order.
    pub actions: Vec<Action>,
    /// Monotonic time; None if only events matter.
    pub next: Option<Duration>,
}

/// The controller's state and its pure decisions. Durations are already divided by `time-scale`.
#[derive(Clone, Debug)]
pub struct Reconciler {
    /// Volumes that the pods need.
    pub desired: DesiredStateOfWorld,
    /// Attached volumes.
    pub actual: ActualStateOfWorld,
    /// Operations in flight and in backoff.
    pub pending: PendingOperations,
    nodes: BTreeMap<String, NodeView>,
    max_wait_for_unmount: Duration,
    disable_force_detach: bool,
    differences: Differences,
    /// Seeded bug: ignores attachments of a single-node volume elsewhere.
    pub(super) ignores_other_nodes: bool,
    /// Seeded bug: ignores mounts.
    pub(super) ignores_mounts: bool,
    /// Seeded bug: keeps a node out of service after its taint was removed.
    pub(super) remembers_out_of_service: bool,
    /// Seeded bug: treats a node that was not Ready once as not Ready.
    pub(super) remembers_unready: bool,
    /// Seeded bug: forces a detach from a Ready node.
    pub(super) forces_ready_nodes: bool,
    /// Seeded bug: treats an attach that failed as one without effect.
    pub(super) forgets_failed_attaches: bool,
    /// Seeded bug: treats a volume as attached after a detach that failed.
    pub(super) ignores_failed_detaches: bool,
    /// Seeded bug: keeps the request to detach a volume that is needed again.
    pub(super) keeps_detach_requests: bool,
    /// Seeded bug: runs one operation of a shared volume at a time.
    pub(super) serializes_shared: bool,
    /// Seeded bug: keeps no wait after an attach that failed.
    pub(super) retries_attaches_at_once: bool,
}

/// Volume on a node that no pod there needs, and without a known reason to wait.
struct Candidate {
    key: OperationKey,
    node: String,
    mounted: bool,
    spec: Option<Arc<VolumeSpec>>,
}

impl Reconciler {
    fn key<'a>(&self, volume: &'a str, node: &'a str, multi_attach: bool) -> OperationKeyRef<'a> {
        let node = if multi_attach && !self.serializes_shared { node } else { "" };
        OperationKeyRef { volume, pod: "", node }
    }

    /// Creates an empty world.
    pub fn new(pending: PendingOperations, max_wait_for_unmount: Duration, disable_force_detach: bool) -> Self {
        Self {
            desired: DesiredStateOfWorld::default(),
            actual: ActualStateOfWorld::default(),
            pending,
            nodes: BTreeMap::new(),
            max_wait_for_unmount,
            disable_force_detach,
            differences: Differences::default(),
            ignores_other_nodes: false,
            ignores_mounts: false,
            remembers_out_of_service: false,
            remembers_unready: false,
            forces_ready_nodes: false,
            forgets_failed_attaches: false,
            ignores_failed_detaches: false,
            keeps_detach_requests: false,
            serializes_shared: false,
            retries_attaches_at_once: false,
        }
    }

    /// Returns true if a volume must not be attached because it is attached elsewhere.
    fn is_taken(&self, volume: &str, multi_attach: bool) -> bool {
        !multi_attach && !self.ignores_other_nodes && self.actual.is_confirmed_anywhere(volume)
    }

    /// Runs one pass at the monotonic time `now`. The operations in the plan count as started.
    pub fn reconcile(&mut self, now: Duration) -> Plan {
        let mut plan = Plan::default();
        self.look_for_differences(now);
        self.detaches(now, &mut plan);
        self.attaches(now, &mut plan);
        for (node, volumes) in self.actual.take_reports() {
            plan.actions.push(Action::Report { node, volumes });
        }
        let mut differences = std::mem::take(&mut self.differences);
        differences.settle(|place| self.waits(now, place));
        if let Some(at) = differences.next() {
            plan.wake(at);
        }
        self.differences = differences;
        plan
    }

    /// Returns an existing node.
    pub fn node(&self, name: &str) -> Option<&NodeView> {
        self.nodes.get(name)
    }

    /// Sets the view of a node. Returns true if it changed.
    pub fn set_node(&mut self, name: &str, mut view: NodeView) -> bool {
        view.out_of_service |= self.remembers_out_of_service && self.is_out_of_service(name);
        view.ready &= !self.remembers_unready || self.nodes.get(name).is_none_or(|node| node.ready);
        if self.nodes.get(name) == Some(&view) {
            return false;
        }
        self.nodes.insert(name.to_owned(), view);
        self.differences.wake_node(name);
        true
    }

    /// Removes a deleted node.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.differences.wake_node(name);
    }

    /// Makes the next pass check all desired and attached volumes.
    #[cfg(test)]
    pub(super) fn doubt_everything(&mut self) {
        let desired = self.desired.volumes().map(|(node, volume, _)| (volume.to_owned(), node.to_owned()));
        let of = |(volume, entry): (&str, &AttachedVolume)| {
            entry.nodes.keys().map(|node| (volume.to_owned(), node.clone())).collect::<Vec<_>>()
        };
        for place in desired.chain(self.actual.volumes().flat_map(of)) {
            self.differences.touch(place);
        }
    }

    fn look_for_differences(&mut self, now: Duration) {
        for place in self.desired.take_touched().into_iter().chain(self.actual.take_touched()) {
            self.differences.touch(place);
        }
        self.differences.wake_due(now);
        let (desired, actual) = (&self.desired, &self.actual);
        self.differences.retain(|(volume, node)| match actual.on_node(volume, node) {
            Some(on) => !on.is_settled() || !desired.has_volume(volume, node),
            None => desired.has_volume(volume, node),
        });
    }

    /// Returns the reason for a difference to wait after a pass at `now`. None if the next pass must check it.
    fn waits(&self, now: Duration, (volume, node): &VolumeOnNode) -> Option<Wait> {
        let blocked = |key, operation| self.pending.blocked_until(now, key, operation).map(Wait::Until);
        if let Some(wanted) = self.desired.get(volume, node) {
            let multi_attach = wanted.spec.multi_attach;
            let key = self.key(volume, node, multi_attach);
            if self.pending.is_pending(key) {
                return Some(Wait::Event);
            }
            if self.actual.on_node(volume, node).is_some_and(|on| on.confirmed) {
                return None;
            }
            if self.is_taken(volume, multi_attach) {
                return wanted.multi_attach_reported.then_some(Wait::Event);
            }
            return blocked(key, ATTACH);
        }
        let entry = self.actual.get(volume)?;
        let on = entry.nodes.get(node)?;
        let key = self.key(volume, node, entry.multi_attach());
        if self.pending.is_pending(key) {
            return Some(Wait::Event);
        }
        blocked(key, DETACH).or_else(|| {
            let since = on.detach_requested?;
            if self.may_detach(now, since, node, on.mounted) {
                return None;
            }
            Some(self.end_of_wait(now, since).map_or(Wait::Event, Wait::Until))
        })
    }

    fn detaches(&mut self, now: Duration, plan: &mut Plan) {
        for Candidate { key, node, mounted, spec } in self.detachable(now) {
            // An earlier detach of this pass may be of the same volume, from another node.
            if self.pending.is_pending(key.get()) {
                continue;
            }
            let volume = key.volume.clone();
            let since = self.actual.request_detach(&volume, &node, now);
            if !self.may_detach(now, since, &node, mounted) {
                continue;
            }
            if self.pending.start(now, &key, DETACH).is_err() {
                continue;
            }
            self.differences.wake_volume(&volume);
            // The kubelet must learn that the volume is no longer safe to mount before it is detached
            // (kubernetes#27836).
            self.actual.unreport(&volume, &node);
            let report = self.actual.take_report(&node);
            let forced = if self.expired(now, since) {
                Some(ForcedReason::Timeout)
            } else {
                self.is_out_of_service(&node).then_some(ForcedReason::OutOfService)
            };
            plan.actions.push(Action::Detach { key, volume, node, spec, report, forced });
        }
    }

    /// Returns the volumes without a need on their node, by volume and node, except those that wait.
    fn detachable(&self, now: Duration) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for (volume, node) in self.differences.awake() {
            if self.desired.has_volume(volume, node) {
                continue;
            }
            let Some(entry) = self.actual.get(volume) else { continue };
            let Some(on) = entry.nodes.get(node) else { continue };
            let key = self.key(volume, node, entry.multi_attach());
            if !self.pending.is_pending(key) && self.pending.blocked_until(now, key, DETACH).is_none() {
                let (node, spec) = (node.clone(), entry.spec.clone());
                candidates.push(Candidate { key: key.into(), node, mounted: on.mounted, spec });
            }
        }
        candidates
    }

    /// Returns true if the detach request, made at `since`, is older than the wait for an unmount.
    fn expired(&self, now: Duration, since: Duration) -> bool {
        !self.disable_force_detach && now.saturating_sub(since) > self.max_wait_for_unmount
    }

    fn is_out_of_service(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|node| node.out_of_service)
    }

    /// Returns true for an unmounted volume. A mounted one is detached only from a node that is out of service, or
    /// unhealthy for too long.
    fn may_detach(&self, now: Duration, since: Duration, node: &str, mounted: bool) -> bool {
        let healthy = || self.nodes.get(node).is_some_and(|node| node.ready) && !self.forces_ready_nodes;
        !mounted || self.ignores_mounts || self.expired(now, since) && !healthy() || self.is_out_of_service(node)
    }

    /// Returns the monotonic time after which a detach that waits at `now` is permitted without an event.
    fn end_of_wait(&self, now: Duration, since: Duration) -> Option<Duration> {
        (!self.expired(now, since) && !self.disable_force_detach)
            .then(|| since + self.max_wait_for_unmount + Duration::from_millis(1))
    }

    fn attaches(&mut self, now: Duration, plan: &mut Plan) {
        let mut touched = Vec::new();
        let mut reported = Vec::new();
        // Node by node, in upstream's order.
        let mut open: Vec<_> = self.differences.awake().collect();
        open.sort_by(|(a, on_a), (b, on_b)| (on_a, a).cmp(&(on_b, b)));
        for (volume, node) in open {
            let Some(wanted) = self.desired.get(volume, node) else { continue };
            let on = self.actual.on_node(volume, node);
            if on.is_some_and(AttachedNode::is_settled) {
                continue;
            }
            let multi_attach = wanted.spec.multi_attach;
            let key = self.key(volume, node, multi_attach);
            if self.pending.is_pending(key) {
                continue;
            }
            if on.is_some_and(|on| on.confirmed) {
                if !self.keeps_detach_requests {
                    touched.push((volume.to_owned(), node.to_owned()));
                }
                continue;
            }
            if self.is_taken(volume, multi_attach) {
                if !wanted.multi_attach_reported {
                    let elsewhere = self.actual.confirmed_nodes(volume);
                    let others = self.desired.pods_on(volume, &elsewhere);
                    for pod in wanted.pods.values() {
                        let message = multi_attach_message(&wanted.spec.pv, pod, &others);
                        plan.actions.push(Action::MultiAttach { pod: pod.clone(), message });
                    }
                    reported.push((volume.to_owned(), node.to_owned()));
                }
                continue;
            }
            if self.pending.blocked_until(now, key, ATTACH).is_some() {
                continue;
            }
            let key = OperationKey::from(key);
            if self.pending.start(now, &key, ATTACH).is_ok() {
                plan.actions.push(Action::Attach {
                    key,
                    volume: volume.to_owned(),
                    node: node.to_owned(),
                    spec: wanted.spec.clone(),
                    pods: wanted.pods.values().cloned().collect(),
                });
            }
        }
        for action in &plan.actions {
            if let Action::Attach { volume, .. } = action {
                self.differences.wake_volume(volume);
            }
        }
        for (volume, node) in touched {
            self.actual.reset_detach_request(&volume, &node);
        }
        for (volume, node) in reported {
            self.desired.set_multi_attach_reported(&volume, &node);
        }
    }

    /// Handles a failed write of the node's status before a detach: the detach did not run. Without `restores` the
    /// volume stays unreported (a seeded bug).
    pub fn detach_aborted(&mut self, key: &OperationKey, volume: &str, node: &str, restores: bool) {
        self.pending.cancel(key);
        self.differences.wake_volume(volume);
        if restores {
            self.actual.report(volume, node);
            self.actual.touch_report(node);
        }
    }

    /// Handles the end of a detach. A failed one leaves the volume uncertain and unreported: the next attach must
    /// succeed before the node may use it again.
    pub fn detached(
        &mut self,
        now: Duration,
        key: &OperationKey,
        volume: &str,
        node: &str,
        result: Result<(), String>,
    ) {
        match &result {
            Ok(()) => self.actual.remove(volume, node),
            Err(_) => self.actual.add(volume, None, node, self.ignores_failed_detaches),
        }
        self.pending.finish(now, key, result);
    }

    /// Handles the end of an attach.
    pub fn attached(
        &mut self,
        now: Duration,
        key: &OperationKey,
        spec: &Arc<VolumeSpec>,
        node: &str,
        result: Result<(), String>,
    ) {
        if result.is_ok() || !self.forgets_failed_attaches {
            self.actual.add(&spec.unique_name(), Some(spec), node, result.is_ok());
        }
        let result = if self.retries_attaches_at_once { Ok(()) } else { result };
        self.pending.finish(now, key, result);
    }

    /// Handles a failed write of a node's status: the next pass repeats it.
    pub fn report_failed(&mut self, node: &str) {
        self.actual.touch_report(node);
    }

    /// Returns the cloud's volume id of a unique volume name.
    pub fn handle(volume: &str) -> &str {
        parse_unique_name(volume).map_or(volume, |(_, handle)| handle)
    }
}

impl Plan {
    fn wake(&mut self, at: Duration) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// Builds the text for one waiting pod. It must not contain names of pods in other namespaces.
fn multi_attach_message(pv: &str, pod: &ObjectReference, others: &[Arc<ObjectReference>]) -> String {
    let prefix = format!("Multi-Attach error for volume \"{pv}\" ");
    if others.is_empty() {
        return prefix + "Volume is already exclusively attached to one node and can't be attached to another";
    }
    let local: Vec<&str> =
        others.iter().filter(|o| o.namespace == pod.namespace).filter_map(|o| o.name.as_deref()).collect();
    let foreign = others.len() - local.len();
    if local.is_empty() {
        return format!("{prefix}Volume is already used by {foreign} pod(s) in different namespaces");
    }
    let mut text = format!("{prefix}Volume is already used by pod(s) {}", local.join(", "));
    if foreign > 0 {
        text.push_str(&format!(" and {foreign} pod(s) in different namespaces"));
    }
    text
}
