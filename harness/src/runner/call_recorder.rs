//! Records calls, requests and actions from their events, and the ids behind names: volumes of claims, instances of
//! nodes.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use controllers::events::Detach;
use csi_mock::events::{CsiCall, CsiDone};
use fake_apiserver::events::{Commit, RequestEnded as KubernetesRequest};
use fake_apiserver::state::EventType;
use mock_ec2::events::{InstanceChanged, RequestEnded as CloudRequest};
use substrate::fault::{Names, wild};
use substrate::json::Text;
use substrate::{Event, EventType as _, Trace};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::mirror::{self, Mirror};
use crate::events::ClusterNode;
use crate::model::CallKey;
use crate::scenario::model::{Action, Expectation, Scenario};
use crate::scenario::predicate::{CallPlane, Calls, Cloud, Forbidden, MetricsOf, Never, Pattern};
use crate::spec::names::RUNNER;
use crate::spec::object::{Kind, ObjectRef};

/// Access key with which the runner signs.
pub(super) const CALLER: &str = "AKIAMOORINGSCENARIO0";
/// Maximum number of calls in a report.
const SHOWN: usize = 6;

/// A recorded call.
#[derive(Debug)]
struct RecordedCall {
    ms: u64,
    plane: CallPlane,
    process: Arc<str>,
    operation: Text,
    attributes: Vec<(&'static str, Text)>,
    outcome: Option<Text>,
    /// True if the runner made it.
    own: bool,
}

/// A forbidden number of calls.
#[derive(Debug)]
struct Limit {
    never: usize,
    calls: Calls,
    from: usize,
}

/// A forbidden state of the cloud.
#[derive(Debug)]
struct Ban {
    never: usize,
    cloud: Cloud,
    /// True once its subject existed.
    looked: bool,
}

/// A limit that was reached: index of the `never`, time in milliseconds, and description.
pub(super) type Reached = (usize, u64, String);

/// Its names, unlike those of the model, refer to an object after its deletion, too.
#[derive(Debug, Default)]
struct State {
    calls: Vec<RecordedCall>,
    /// Calls of the driver that have not been answered.
    open: BTreeMap<CallKey, usize>,
    /// PersistentVolumes of claims, by `namespace/name`.
    volumes: BTreeMap<String, Text>,
    /// Volume handles of PersistentVolumes.
    handles: BTreeMap<String, Text>,
    instances: BTreeMap<String, Text>,
    mirror: Mirror,
    limits: Vec<Limit>,
    bans: Vec<Ban>,
    reached: Vec<Reached>,
}

/// Observes a run, only as far as the scenario needs.
#[derive(Debug, Default)]
pub(super) struct CallRecorder {
    names: Names,
    planes: Vec<CallPlane>,
    /// True if every commit can change a forbidden metric of the API server.
    commits: bool,
    state: Mutex<State>,
    reached: Notify,
    cloud: Notify,
}

impl CallRecorder {
    /// Starts to record everything that `scenario` counts or refers to. Records nothing if the scenario does neither.
    pub(super) fn listen(scenario: &Scenario, names: Names, trace: &Trace) -> Arc<Self> {
        let mut planes: Vec<CallPlane> = scenario.steps.iter().filter_map(|step| plane(&step.action)).collect();
        planes.sort_unstable();
        planes.dedup();
        if planes.contains(&CallPlane::K8s) {
            trace.subscribe(KubernetesRequest::KIND);
        }
        if planes.contains(&CallPlane::Ec2) {
            trace.subscribe(CloudRequest::KIND);
        }
        let cloud = |action: &Action| {
            use {Expectation as E, Forbidden as F};
            matches!(action, Action::Expect(E::Cloud(_)))
                || matches!(action, Action::Never(Never { what: F::Cloud(_) | F::Metric(_), .. }))
        };
        let counts_objects = |action: &Action| {
            let of = MetricsOf::FakeApiserver;
            matches!(action, Action::Never(Never { what: Forbidden::Metric(metric), .. }) if metric.of == of)
        };
        let commits = scenario.steps.iter().any(|step| counts_objects(&step.action));
        let needed = !planes.is_empty() || scenario.steps.iter().any(|step| cloud(&step.action));
        let call_recorder = Arc::new(Self { names, planes, commits, ..Self::default() });
        if needed {
            let listener = call_recorder.clone();
            trace.observe(move |event| listener.observe(event));
        }
        call_recorder
    }

    fn observe(&self, event: &Event) {
        let mut state = self.state();
        if state.mirror.observe(event) || event.is::<InstanceChanged>() {
            self.cloud.notify_waiters();
            return self.check_bans(&mut state, event.ms);
        }
        if self.commits && event.is::<Commit>() || event.is::<Detach>() {
            self.cloud.notify_waiters();
        }
        let Some(changed) = self.take(&mut state, event) else { return };
        if matches!(changed, Changed::Name) {
            self.check_bans(&mut state, event.ms);
        }
        let State { limits, .. } = &*state;
        let broken: Vec<usize> = limits
            .iter()
            .filter(|limit| match changed {
                Changed::Call(plane) => limit.calls.plane == plane,
                Changed::Name => limit.calls.attributes.values().any(|p| matches!(p, Pattern::Volume(_))),
            })
            .filter(|limit| self.count(&state, &limit.calls, limit.from) >= limit.calls.times.at_least)
            .map(|limit| limit.never)
            .collect();
        for never in broken {
            let Some(at) = state.limits.iter().position(|limit| limit.never == never) else { continue };
            let limit = state.limits.remove(at);
            let seen = self.shown(&state, &limit.calls, limit.from);
            state.reached.push((never, event.ms, seen));
            self.reached.notify_waiters();
        }
    }

    /// Checks the forbidden states of the cloud.
    fn check_bans(&self, state: &mut State, ms: u64) {
        let mut bans = std::mem::take(&mut state.bans);
        bans.retain_mut(|ban| {
            let id = match mirror::volume(&ban.cloud) {
                Some(Pattern::Volume(object)) => state.volume(object),
                Some(Pattern::Word(id)) => Some(id.into()),
                _ => None,
            };
            let node = |id: &str| state.node(id).unwrap_or_else(|| id.to_owned());
            let Some((holds, seen)) = id.and_then(|id| state.mirror.look(&ban.cloud, &id, node)) else { return true };
            ban.looked = true;
            if holds {
                state.reached.push((ban.never, ms, seen));
                self.reached.notify_waiters();
            }
            !holds
        });
        state.bans = bans;
    }

    /// Reports from now on when the cloud enters a forbidden state.
    pub(super) fn ban(&self, never: usize, cloud: &Cloud, ms: u64) {
        let mut state = self.state();
        state.bans.push(Ban { never, cloud: cloud.clone(), looked: false });
        self.check_bans(&mut state, ms);
    }

    /// Undoes [`CallRecorder::ban`]. Returns true if its subject existed.
    pub(super) fn lift(&self, never: usize) -> bool {
        let mut state = self.state();
        let looked = state.bans.iter().any(|ban| ban.never == never && ban.looked);
        state.bans.retain(|ban| ban.never != never);
        looked
    }

    /// Records `event`.
    fn take(&self, state: &mut State, event: &Event) -> Option<Changed> {
        if let Some(call) = event.get::<CsiCall>() {
            if !self.planes.contains(&CallPlane::Csi) {
                return None;
            }
            state.open.insert(CallKey::new(event, call.ordinal), state.calls.len());
            let reported =
                [("volume", &call.volume), ("node", &call.node), ("target", &call.target), ("caller", &call.caller)];
            let reported = reported.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect();
            let own = call.caller.as_ref().is_some_and(|caller| *caller == RUNNER);
            state.calls.push(recorded_call(event, CallPlane::Csi, call.rpc.clone(), reported, None, own));
            return Some(Changed::Call(CallPlane::Csi));
        }
        if let Some(done) = event.get::<CsiDone>() {
            let at = state.open.remove(&CallKey::new(event, done.ordinal))?;
            let call = state.calls.get_mut(at)?;
            call.outcome = Some(done.code.clone());
            if let Some(made) = &done.volume
                && !call.attributes.iter().any(|(name, _)| *name == "volume")
            {
                call.attributes.push(("volume", made.clone()));
            }
            return Some(Changed::Call(CallPlane::Csi));
        }
        if let Some(request) = event.get::<KubernetesRequest>() {
            let reported = vec![
                ("resource", request.resource.clone()),
                ("subresource", request.subresource.clone()),
                ("verb", request.verb.clone()),
                ("namespace", request.namespace.clone().unwrap_or_default()),
                ("object", request.object.clone()),
                ("caller", request.caller.clone()),
                ("userAgent", request.caller.clone()),
                ("reads", request.reads.clone()),
            ];
            let status = request.status.map(|status| Text::from(status.to_string()));
            let own = request.caller == RUNNER;
            state.calls.push(recorded_call(event, CallPlane::K8s, request.verb.clone(), reported, status, own));
            return Some(Changed::Call(CallPlane::K8s));
        }
        if let Some(request) = event.get::<CloudRequest>() {
            let many = [
                ("volume", &request.volumes),
                ("instance", &request.instances),
                ("snapshot", &request.snapshots),
                ("zone", &request.zones),
            ];
            let many =
                many.into_iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value.clone())));
            let agent = request.user_agent.clone().map(|agent| ("userAgent", agent));
            let reported = many.chain(agent).chain([("caller", request.caller.clone())]).collect();
            let code = request.error.clone().unwrap_or(Text::new_static("OK"));
            let own = request.caller == CALLER;
            state.calls.push(recorded_call(event, CallPlane::Ec2, request.action.clone(), reported, Some(code), own));
            return Some(Changed::Call(CallPlane::Ec2));
        }
        if let Some(node) = event.get::<ClusterNode>() {
            state.instances.insert(node.node.to_string(), node.instance.clone());
            return Some(Changed::Name);
        }
        // A deleted object's name still refers to it until it is created again.
        let commit = event.get::<Commit>().filter(|commit| commit.r#type != EventType::Deleted)?;
        if let Some(volume) = commit.pvc.as_ref().and_then(|claim| claim.volume.clone()) {
            state.volumes.insert(commit.object.to_string(), volume);
            return Some(Changed::Name);
        }
        let handle = commit.pv.as_ref().and_then(|volume| volume.handle.clone())?;
        state.handles.insert(commit.object.to_string(), handle);
        Some(Changed::Name)
    }

    /// Number of recorded calls.
    pub(super) fn len(&self) -> usize {
        self.state().calls.len()
    }

    /// Number of matching calls since the call number `from`, and a description.
    pub(super) fn look(&self, calls: &Calls, from: usize) -> (u64, String) {
        let state = self.state();
        (self.count(&state, calls, from), self.shown(&state, calls, from))
    }

    /// Reports from now on when `calls` have reached their forbidden number.
    pub(super) fn forbid(&self, never: usize, calls: &Calls) {
        let mut state = self.state();
        let from = state.calls.len();
        state.limits.push(Limit { never, calls: calls.clone(), from });
    }

    /// Undoes [`CallRecorder::forbid`].
    pub(super) fn allow(&self, never: usize) {
        self.state().limits.retain(|limit| limit.never != never);
    }

    /// Takes the limits that were reached since the last call.
    pub(super) fn take_reached(&self) -> Vec<Reached> {
        std::mem::take(&mut self.state().reached)
    }

    /// Waits until a limit is reached.
    pub(super) fn limit_reached(&self) -> Notified<'_> {
        self.reached.notified()
    }

    /// Waits for a change that the cloud or a metric shows.
    pub(super) fn cloud_changed(&self) -> Notified<'_> {
        self.cloud.notified()
    }

    /// Volume id of a claim or PersistentVolume.
    pub(super) fn volume(&self, object: &ObjectRef) -> Option<Text> {
        self.state().volume(object)
    }

    /// Instance id of a node.
    pub(super) fn instance(&self, node: &str) -> Option<Text> {
        self.state().instances.get(node).cloned()
    }

    /// Node of an instance.
    pub(super) fn node(&self, instance: &str) -> Option<String> {
        self.state().node(instance)
    }

    fn count(&self, state: &State, calls: &Calls, from: usize) -> u64 {
        state.calls.iter().skip(from).filter(|recorded_call| self.is(state, calls, recorded_call)).count() as u64
    }

    fn is(&self, state: &State, calls: &Calls, recorded_call: &RecordedCall) -> bool {
        recorded_call.plane == calls.plane
            && calls.operations.contains(recorded_call.operation.as_str())
            && (!recorded_call.own || ["caller", "userAgent"].iter().any(|name| calls.attributes.contains_key(*name)))
            && calls
                .outcome
                .as_ref()
                .is_none_or(|code| recorded_call.outcome.as_ref().is_some_and(|seen| wild(code, seen)))
            && calls.attributes.iter().all(|(name, pattern)| match pattern {
                Pattern::Process(process) => {
                    wild(process, &recorded_call.process)
                        || self.names.resolve(process).contains(&recorded_call.process.to_string())
                }
                Pattern::Word(word) => recorded_call.has(name, |value| wild(word, value)),
                Pattern::Node(node) => {
                    let instance = state.instances.get(node);
                    recorded_call.has(name, |value| value == node || instance.is_some_and(|id| id == value))
                }
                Pattern::Volume(object) => {
                    state.volume(object).is_some_and(|id| recorded_call.has(name, |value| value == id.as_str()))
                }
            })
    }

    /// Describes the calls since the call number `from`: the matching ones, or else others of the same operations.
    fn shown(&self, state: &State, calls: &Calls, from: usize) -> String {
        let list = |of: &dyn Fn(&RecordedCall) -> bool| -> Vec<String> {
            state.calls.iter().skip(from).filter(|recorded_call| of(recorded_call)).map(RecordedCall::text).collect()
        };
        let meant = list(&|recorded_call| self.is(state, calls, recorded_call));
        let others = || {
            list(&|recorded_call| {
                !recorded_call.own
                    && recorded_call.plane == calls.plane
                    && calls.operations.contains(recorded_call.operation.as_str())
            })
        };
        let (head, all) = match meant.len() {
            0 => ("there was none; there were ", others()),
            n => (if n == 1 { "there was one: " } else { "there were " }, meant),
        };
        if all.is_empty() {
            return "there was none, and none of its operation".to_owned();
        }
        let rest = all.len().saturating_sub(SHOWN);
        let last = &all[rest..];
        let count = if all.len() == 1 { String::new() } else { format!("{}: ", all.len()) };
        let before = if rest > 0 { format!("{rest} before; ") } else { String::new() };
        format!("{head}{count}{before}{}", last.join("; "))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Effect of an event.
enum Changed {
    Call(CallPlane),
    Name,
}

impl State {
    fn node(&self, instance: &str) -> Option<String> {
        self.instances.iter().find(|(_, id)| *id == instance).map(|(node, _)| node.clone())
    }

    fn volume(&self, object: &ObjectRef) -> Option<Text> {
        if object.kind == Kind::claim() {
            let name = self.volumes.get(&object.key())?;
            return self.handles.get(name.as_str()).cloned();
        }
        self.handles.get(&object.name).cloned()
    }
}

impl RecordedCall {
    fn has(&self, name: &str, is: impl Fn(&str) -> bool) -> bool {
        self.attributes.iter().any(|(known, value)| *known == name && is(value))
    }

    fn text(&self) -> String {
        let reported =
            self.attributes.iter().filter(|(name, value)| !value.is_empty() && !["verb", "userAgent"].contains(name));
        let reported: Vec<String> = reported.map(|(name, value)| format!("{name}={value}")).collect();
        let outcome = self.outcome.as_ref().map(|code| format!(" → {code}")).unwrap_or_default();
        let (s, ms) = (self.ms / 1000, self.ms % 1000);
        format!("at {s}.{ms:03}s {} {}{outcome}", self.operation, reported.join(" "))
    }
}

fn recorded_call(
    event: &Event,
    plane: CallPlane,
    operation: Text,
    attributes: Vec<(&'static str, Text)>,
    outcome: Option<Text>,
    own: bool,
) -> RecordedCall {
    RecordedCall { ms: event.ms, plane, process: event.process.clone(), operation, attributes, outcome, own }
}

/// Plane of the calls that a step counts.
fn plane(action: &Action) -> Option<CallPlane> {
    match action {
        Action::Expect(Expectation::Calls(calls)) | Action::Never(Never { what: Forbidden::Calls(calls), .. }) => {
            Some(calls.plane)
        }
        _ => None,
    }
}
