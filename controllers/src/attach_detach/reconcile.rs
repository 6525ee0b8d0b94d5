//! One pass of the reconciler: detaches, then attaches, then node statuses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;

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

/// What the reconciler looks at in a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Condition Ready is True.
    pub ready: bool,
    /// Has the out-of-service taint.
    pub out_of_service: bool,
}

/// Why a detach goes ahead without the safety check (label of the `forced_detaches` metric).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedReason {
    /// The wish is older than `max_wait_for_unmount`.
    Timeout,
    /// The node has the out-of-service taint.
    OutOfService,
}

impl ForcedReason {
    /// The label's value.
    pub fn label(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::OutOfService => "out-of-service",
        }
    }
}

/// A write or an operation, to be done in the order given.
#[derive(Clone, Debug)]
pub enum Action {
    /// First write the node's status without the volume (nothing to write when absent); when that fails, call
    /// [`Reconciler::detach_aborted`], else detach, then call [`Reconciler::detached`].
    Detach {
        /// Key of the pending operation.
        key: OperationKey,
        /// Unique volume name.
        volume: String,
        /// Node name.
        node: String,
        /// What the volume is, when known.
        spec: Option<Arc<VolumeSpec>>,
        /// `status.volumesAttached` to write first.
        report: Option<Vec<String>>,
        /// Why the safety check is skipped; the check is made when absent.
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
        /// What the volume is.
        spec: Arc<VolumeSpec>,
        /// The pods that wait for it.
        pods: Vec<Arc<ObjectReference>>,
    },
    /// Warn a pod with `FailedAttachVolume`.
    MultiAttach {
        /// The pod that waits.
        pod: Arc<ObjectReference>,
        /// The event's text.
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

/// What a pass asks for, and when the next one can find something new by the passing of time alone.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// In order.
    pub actions: Vec<Action>,
    /// Monotonic time; nothing when only events matter.
    pub next: Option<Duration>,
}

/// The controller's state and its pure decisions. Durations are already divided by `time-scale`.
#[derive(Clone, Debug)]
pub struct Reconciler {
    /// What the pods need.
    pub desired: DesiredStateOfWorld,
    /// What is attached.
    pub actual: ActualStateOfWorld,
    /// Operations in flight and in backoff.
    pub pending: PendingOperations,
    nodes: BTreeMap<String, NodeView>,
    max_wait_for_unmount: Duration,
    disable_force_detach: bool,
    differences: Differences,
}

/// A volume on a node that no pod there needs, and that is not known to wait for anything.
struct Candidate {
    key: OperationKey,
    node: String,
    mounted: bool,
    spec: Option<Arc<VolumeSpec>>,
}

fn key<'a>(volume: &'a str, node: &'a str, multi_attach: bool) -> OperationKeyRef<'a> {
    OperationKeyRef { volume, pod: "", node: if multi_attach { node } else { "" } }
}

impl Reconciler {
    /// An empty world.
    pub fn new(pending: PendingOperations, max_wait_for_unmount: Duration, disable_force_detach: bool) -> Self {
        Self {
            desired: DesiredStateOfWorld::default(),
            actual: ActualStateOfWorld::default(),
            pending,
            nodes: BTreeMap::new(),
            max_wait_for_unmount,
            disable_force_detach,
            differences: Differences::default(),
        }
    }

    /// One pass at the monotonic time `now`. The operations in the plan count as started.
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

    /// A node that exists.
    pub fn node(&self, name: &str) -> Option<&NodeView> {
        self.nodes.get(name)
    }

    /// Records what a node is like; true when that is new.
    pub fn set_node(&mut self, name: &str, view: NodeView) -> bool {
        if self.nodes.get(name) == Some(&view) {
            return false;
        }
        self.nodes.insert(name.to_owned(), view);
        self.differences.wake_node(name);
        true
    }

    /// Records that a node does not exist any more.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.differences.wake_node(name);
    }

    /// Has the next pass look at all that is desired or attached.
    #[cfg(test)]
    pub(super) fn doubt_everything(&mut self) {
        let desired = self.desired.volumes().map(|(node, volume, _)| (volume.to_owned(), node.to_owned()));
        let of = |(volume, entry): (&String, &AttachedVolume)| {
            entry.nodes.keys().map(|node| (volume.clone(), node.clone())).collect::<Vec<_>>()
        };
        for place in desired.chain(self.actual.volumes().iter().flat_map(of)) {
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

    /// What a difference waits for, after a pass at `now`; nothing when it has to be looked at by the next one.
    fn waits(&self, now: Duration, (volume, node): &VolumeOnNode) -> Option<Wait> {
        let blocked = |key, operation| {
            if self.pending.is_pending(key) {
                return Some(Wait::Event);
            }
            self.pending.blocked_until(now, key, operation).map(Wait::Until)
        };
        if let Some(wanted) = self.desired.get(volume, node) {
            let multi_attach = wanted.spec.multi_attach;
            let key = key(volume, node, multi_attach);
            if self.pending.is_pending(key) {
                return Some(Wait::Event);
            }
            if self.actual.on_node(volume, node).is_some_and(|on| on.confirmed) {
                return None;
            }
            if !multi_attach && self.actual.is_confirmed_anywhere(volume) {
                return wanted.multi_attach_reported.then_some(Wait::Event);
            }
            return blocked(key, ATTACH);
        }
        let entry = self.actual.volumes().get(volume)?;
        let on = entry.nodes.get(node)?;
        blocked(key(volume, node, entry.multi_attach()), DETACH).or_else(|| {
            let since = on.detach_requested?;
            if self.may_detach(now, since, node, on.mounted) {
                return None;
            }
            Some(self.end_of_wait(now, since).map_or(Wait::Event, Wait::Until))
        })
    }

    fn detaches(&mut self, now: Duration, plan: &mut Plan) {
        for Candidate { key, node, mounted, spec } in self.detachable(now) {
            // A detach that began in this pass may be of the same volume, from another node.
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
            // The kubelet must learn that the volume is no longer safe to mount before it is detached (k#27836).
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

    /// The volumes that nobody needs where they are, by volume and node, without those that wait.
    fn detachable(&self, now: Duration) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for (volume, node) in self.differences.awake() {
            if self.desired.has_volume(volume, node) {
                continue;
            }
            let Some(entry) = self.actual.volumes().get(volume) else { continue };
            let Some(on) = entry.nodes.get(node) else { continue };
            let key = key(volume, node, entry.multi_attach());
            if !self.pending.is_pending(key) && self.pending.blocked_until(now, key, DETACH).is_none() {
                let (node, spec) = (node.clone(), entry.spec.clone());
                candidates.push(Candidate { key: key.into(), node, mounted: on.mounted, spec });
            }
        }
        candidates
    }

    /// Whether the wish to detach, which is there since `since`, is older than the wait for an unmount.
    fn expired(&self, now: Duration, since: Duration) -> bool {
        !self.disable_force_detach && now.saturating_sub(since) > self.max_wait_for_unmount
    }

    fn is_out_of_service(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|node| node.out_of_service)
    }

    /// A mounted volume is detached only from a node that is out of service, or unhealthy for too long.
    fn may_detach(&self, now: Duration, since: Duration, node: &str, mounted: bool) -> bool {
        let healthy = || self.nodes.get(node).is_some_and(|node| node.ready);
        !mounted || self.expired(now, since) && !healthy() || self.is_out_of_service(node)
    }

    /// Monotonic time from which time alone permits a detach that has to wait at `now`.
    fn end_of_wait(&self, now: Duration, since: Duration) -> Option<Duration> {
        (!self.expired(now, since) && !self.disable_force_detach)
            .then(|| since + self.max_wait_for_unmount + Duration::from_millis(1))
    }

    fn attaches(&mut self, now: Duration, plan: &mut Plan) {
        let mut touched = Vec::new();
        let mut reported = Vec::new();
        // Node by node, as upstream walks through what is desired.
        let mut open: Vec<_> = self.differences.awake().collect();
        open.sort_by(|(a, on_a), (b, on_b)| (on_a, a).cmp(&(on_b, b)));
        for (volume, node) in open {
            let Some(wanted) = self.desired.get(volume, node) else { continue };
            let on = self.actual.on_node(volume, node);
            if on.is_some_and(AttachedNode::is_settled) {
                continue;
            }
            let multi_attach = wanted.spec.multi_attach;
            let key = key(volume, node, multi_attach);
            if self.pending.is_pending(key) {
                continue;
            }
            if on.is_some_and(|on| on.confirmed) {
                touched.push((volume.to_owned(), node.to_owned()));
                continue;
            }
            if !multi_attach && self.actual.is_confirmed_anywhere(volume) {
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

    /// The node's status could not be written before a detach: nothing was detached.
    pub fn detach_aborted(&mut self, key: &OperationKey, volume: &str, node: &str) {
        self.pending.cancel(key);
        self.differences.wake_volume(volume);
        self.actual.report(volume, node);
        self.actual.touch_report(node);
    }

    /// A detach ended. A failed one leaves the volume uncertain and unreported: the next attach must succeed before
    /// the node may use it again.
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
            Err(_) => self.actual.add(volume, None, node, false),
        }
        self.pending.finish(now, key, result);
    }

    /// An attach ended.
    pub fn attached(
        &mut self,
        now: Duration,
        key: &OperationKey,
        spec: &Arc<VolumeSpec>,
        node: &str,
        result: Result<(), String>,
    ) {
        self.actual.add(&spec.unique_name(), Some(spec), node, result.is_ok());
        self.pending.finish(now, key, result);
    }

    /// A node's status could not be written: it is written again with the next pass.
    pub fn report_failed(&mut self, node: &str) {
        self.actual.touch_report(node);
    }

    /// The cloud's volume id of a unique volume name.
    pub fn handle(volume: &str) -> &str {
        parse_unique_name(volume).map_or(volume, |(_, handle)| handle)
    }
}

impl Plan {
    fn wake(&mut self, at: Duration) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// The text for one waiting pod: it must not see the names of pods in other namespaces.
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

#[cfg(test)]
mod tests {
    use super::super::actual::AttachState;
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;
    const SIX_MINUTES: Duration = Duration::from_secs(360);

    fn world() -> Reconciler {
        let pending = PendingOperations::new(Duration::from_millis(500), S(122));
        let mut world = Reconciler::new(pending, SIX_MINUTES, false);
        for node in ["a", "b"] {
            world.desired.add_node(node);
            world.set_node(node, NodeView { ready: true, out_of_service: false });
        }
        world
    }

    fn spec() -> Arc<VolumeSpec> {
        let (pv, driver, handle) = ("pv-1".to_owned(), "ebs.csi.aws.com".to_owned(), "vol-1".to_owned());
        Arc::new(VolumeSpec { pv, driver, handle, multi_attach: false })
    }

    fn pod(namespace: &str, name: &str) -> Arc<ObjectReference> {
        let (namespace, name) = (Some(namespace.to_owned()), Some(name.to_owned()));
        Arc::new(ObjectReference { namespace, name, ..ObjectReference::default() })
    }

    fn attach(world: &mut Reconciler, now: Duration) {
        let plan = world.reconcile(now);
        let [Action::Attach { key, node, spec, .. }] = plan.actions.as_slice() else { panic!("{plan:?}") };
        world.attached(now, key, spec, node, Ok(()));
    }

    /// A volume attached to `a` and in use there, its pod gone.
    fn abandoned() -> Reconciler {
        let mut world = world();
        world.desired.add_pod("uid-1", &pod("default", "one"), &spec(), "a");
        attach(&mut world, S(1));
        world.reconcile(S(1));
        world.actual.set_mounted("a", &[spec().unique_name()]);
        world.desired.delete_pod("uid-1", &spec().unique_name(), "a");
        world
    }

    fn detach_of(plan: &Plan) -> Option<(&str, Option<ForcedReason>)> {
        plan.actions.iter().find_map(|action| match action {
            Action::Detach { node, forced, .. } => Some((node.as_str(), *forced)),
            _ => None,
        })
    }

    #[test]
    fn an_attach_is_reported_in_the_node_status_afterwards() {
        let mut world = world();
        world.desired.add_pod("uid-1", &pod("default", "one"), &spec(), "a");
        attach(&mut world, S(1));
        let plan = world.reconcile(S(2));
        let [Action::Report { node, volumes }] = plan.actions.as_slice() else { panic!("{plan:?}") };
        assert_eq!((node.as_str(), volumes.as_slice()), ("a", &[spec().unique_name()][..]));
        assert!(world.reconcile(S(3)).actions.is_empty());
    }

    #[test]
    fn a_mounted_volume_is_left_alone_until_the_node_reports_it_unused() {
        let mut world = abandoned();
        assert!(world.reconcile(S(10)).actions.is_empty());
        assert!(world.actual.set_mounted("a", &[]));
        let plan = world.reconcile(S(20));
        assert_eq!(detach_of(&plan), Some(("a", None)));
        let Some(Action::Detach { report, .. }) = plan.actions.first() else { panic!("{plan:?}") };
        assert_eq!(report.as_deref(), Some(&[][..]), "the status is written before the detach");
    }

    #[test]
    fn the_six_minute_rule_needs_more_than_six_minutes_and_an_unhealthy_node() {
        let mut world = abandoned();
        let plan = world.reconcile(S(10));
        assert_eq!(plan.next, Some(S(370) + Duration::from_millis(1)));
        world.set_node("a", NodeView::default());
        assert_eq!(detach_of(&world.reconcile(S(370))), None, "exactly six minutes are not more than six minutes");
        let late = world.reconcile(S(370) + Duration::from_millis(1));
        assert_eq!(detach_of(&late), Some(("a", Some(ForcedReason::Timeout))));
    }

    #[test]
    fn a_healthy_node_keeps_a_mounted_volume_for_ever() {
        let mut world = abandoned();
        world.reconcile(S(10));
        assert_eq!(detach_of(&world.reconcile(S(100_000))), None);
    }

    #[test]
    fn force_detach_can_be_switched_off() {
        let mut world = abandoned();
        world.disable_force_detach = true;
        world.remove_node("a");
        world.reconcile(S(10));
        let plan = world.reconcile(S(100_000));
        assert_eq!((detach_of(&plan), plan.next), (None, None));
    }

    #[test]
    fn the_out_of_service_taint_detaches_at_once() {
        let mut world = abandoned();
        world.set_node("a", NodeView { ready: false, out_of_service: true });
        assert_eq!(detach_of(&world.reconcile(S(10))), Some(("a", Some(ForcedReason::OutOfService))));
    }

    #[test]
    fn timeout_wins_over_out_of_service_as_the_reason() {
        let mut world = abandoned();
        world.reconcile(S(10));
        world.set_node("a", NodeView { ready: false, out_of_service: true });
        assert_eq!(detach_of(&world.reconcile(S(371))), Some(("a", Some(ForcedReason::Timeout))));
    }

    #[test]
    fn a_second_node_gets_one_multi_attach_warning_and_no_attach() {
        let mut world = world();
        world.desired.add_pod("uid-1", &pod("default", "one"), &spec(), "a");
        attach(&mut world, S(1));
        world.reconcile(S(1));
        world.desired.add_pod("uid-2", &pod("default", "two"), &spec(), "b");
        let plan = world.reconcile(S(2));
        let [Action::MultiAttach { message, .. }] = plan.actions.as_slice() else { panic!("{plan:?}") };
        assert_eq!(message, "Multi-Attach error for volume \"pv-1\" Volume is already used by pod(s) one");
        assert!(world.reconcile(S(3)).actions.is_empty());
    }

    #[test]
    fn an_uncertain_attachment_elsewhere_does_not_stop_an_attach() {
        let mut world = world();
        world.actual.add(&spec().unique_name(), Some(&spec()), "a", false);
        world.desired.add_pod("uid-2", &pod("default", "two"), &spec(), "b");
        let plan = world.reconcile(S(2));
        assert!(plan.actions.iter().any(|a| matches!(a, Action::Attach { node, .. } if node == "b")), "{plan:?}");
    }

    #[test]
    fn multi_attach_texts_hide_names_of_other_namespaces() {
        let me = pod("default", "me");
        let prefix = "Multi-Attach error for volume \"pv-1\" Volume is already ";
        let others = [pod("default", "a"), pod("default", "b"), pod("secret", "c")];
        let text = |others: &[Arc<ObjectReference>]| multi_attach_message("pv-1", &me, others);
        assert_eq!(text(&[]), format!("{prefix}exclusively attached to one node and can't be attached to another"));
        assert_eq!(text(&others[..2]), format!("{prefix}used by pod(s) a, b"));
        assert_eq!(text(&others), format!("{prefix}used by pod(s) a, b and 1 pod(s) in different namespaces"));
        assert_eq!(text(&others[2..]), format!("{prefix}used by 1 pod(s) in different namespaces"));
    }

    #[test]
    fn a_failed_detach_leaves_the_volume_uncertain_and_backs_off() {
        let mut world = abandoned();
        world.actual.set_mounted("a", &[]);
        let plan = world.reconcile(S(10));
        let Some(Action::Detach { key, volume, node, .. }) = plan.actions.first() else { panic!("{plan:?}") };
        world.detached(S(11), key, volume, node, Err("no".to_owned()));
        assert_eq!(world.actual.state(volume, node), AttachState::Uncertain);
        let blocked = world.reconcile(S(11));
        assert_eq!((detach_of(&blocked), blocked.next), (None, Some(Duration::from_millis(11_501))));
        assert!(detach_of(&world.reconcile(S(12))).is_some());
    }

    #[test]
    fn a_status_that_cannot_be_written_stops_the_detach() {
        let mut world = abandoned();
        world.actual.set_mounted("a", &[]);
        let plan = world.reconcile(S(10));
        let Some(Action::Detach { key, volume, node, .. }) = plan.actions.first() else { panic!("{plan:?}") };
        world.detach_aborted(key, volume, node);
        let again = world.reconcile(S(11));
        assert!(detach_of(&again).is_some(), "without backoff: {again:?}");
    }

    #[test]
    fn a_recreated_node_gets_its_list_back() {
        let mut world = abandoned();
        world.actual.touch_report("a");
        let plan = world.reconcile(S(10));
        assert!(matches!(plan.actions.as_slice(), [Action::Report { volumes, .. }] if volumes.len() == 1), "{plan:?}");
    }
}
