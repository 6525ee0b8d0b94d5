//! Restarts of the containers of one pod, as a pure machine: which container starts again, which one waits, and when the
//! pod is finished (upstream `kuberuntime_manager.go` doBackOff, `container/helpers.go` ShouldContainerBeRestarted,
//! `client-go/util/flowcontrol/backoff.go`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec};
use substrate::Ctx;

use crate::machine::api::ContainerState::{Created, Exited, Running};
use crate::machine::api::{ContainerRecord, Exit, PodRecord};

/// First wait before a container starts again (`initialCrashLoopBackOff`).
pub(crate) const INITIAL: Duration = Duration::from_secs(10);
/// Longest wait (`MaxCrashLoopBackOff`).
pub(crate) const MAX: Duration = Duration::from_secs(300);
/// Reason of a container that waits.
pub(crate) const REASON: &str = "CrashLoopBackOff";

/// Exit code of a container that ended with its machine.
pub(crate) const LOST: i32 = 255;

/// Next steps for the containers of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Containers to start now, with the numbers of their earlier starts.
    pub start: Vec<(String, u32)>,
    /// Messages of containers that wait before they start again.
    pub waiting: BTreeMap<String, String>,
    /// Shortest of these waits.
    pub wait: Option<Duration>,
    /// True if all containers have exited for good.
    pub finished: bool,
}

/// Wait of a container after its last exit.
#[derive(Clone, Copy, Debug)]
struct Entry {
    wait: Duration,
    /// Exit that set it, and the time at which it was set.
    set: (u32, Duration),
}

/// Waits of the containers of a pod (`flowcontrol.Backoff`). A kubelet that restarts forgets them.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    /// Seeded bug: waits do not grow.
    never_grows: bool,
    /// Seeded bug: waits do not start again from the first one.
    never_resets: bool,
    /// True if the kubelet runs startup probes.
    probes: bool,
    /// Running containers whose startup probes have not succeeded yet.
    pub starting: BTreeSet<String>,
    /// By [`wait_key`].
    waits: BTreeMap<String, Entry>,
    /// Latest known exit of each container: the attempt that ended, and the time at which it was first seen.
    exits: BTreeMap<String, (u32, Duration)>,
}

impl Restarts {
    /// Creates the waits of a pod whose containers have not failed yet. `probes` is true if startup probes run.
    pub fn new(ctx: &Ctx, probes: bool) -> Self {
        Self {
            probes,
            never_grows: substrate::mutant!(ctx, "restart-wait-not-doubled"),
            never_resets: substrate::mutant!(ctx, "restart-wait-not-reset"),
            ..Self::default()
        }
    }

    /// Plans the next steps at `now`. All waits are multiplied by `scale`.
    pub fn plan(&mut self, pod: &Pod, record: &PodRecord, now: Duration, scale: impl Fn(Duration) -> Duration) -> Plan {
        let Some(spec) = &pod.spec else { return Plan::default() };
        let mut plan = Plan { finished: is_finished(spec, record), ..Plan::default() };
        if plan.finished {
            return plan;
        }
        let inits = spec.init_containers.iter().flatten();
        let is_initialized = is_initialized(spec, record);
        for container in inits.chain(&spec.containers) {
            let Some(one) = record.container(&container.name) else { continue };
            let is_init = spec.containers.iter().all(|regular| regular.name != container.name);
            // The next containers wait for an init container that has not succeeded, and for the startup probe of a
            // sidecar.
            let blocks = is_init && !is_sidecar(container);
            let is_probed = is_init && !blocks && self.probes && container.startup_probe.is_some() && !is_initialized;
            let exit = match one.state {
                Created => {
                    plan.start.push((one.name.clone(), one.attempt));
                    if blocks || is_probed { break } else { continue }
                }
                Running { .. } if blocks || is_probed && self.starting.contains(&one.name) => break,
                Exited(Exit { code: 0, .. }) if blocks => continue,
                Running { .. } => continue,
                Exited(exit) => exit,
            };
            if restarts_after(container, spec, exit.code) {
                match self.left(container, one, now, &scale) {
                    None => plan.start.push((one.name.clone(), one.attempt + 1)),
                    Some((wait, left)) => {
                        let message = format!(
                            "back-off {} restarting failed container={} pod={}",
                            go_text(wait),
                            one.name,
                            name_with_uid(pod)
                        );
                        plan.waiting.insert(one.name.clone(), message);
                        plan.wait = Some(plan.wait.map_or(left, |before| before.min(left)));
                    }
                }
            }
            if blocks || is_probed {
                break;
            }
        }
        plan
    }

    /// Returns the whole wait of a container that has exited, and what is left of it. None if it may start now.
    fn left(
        &mut self,
        container: &Container,
        one: &ContainerRecord,
        now: Duration,
        scale: &impl Fn(Duration) -> Duration,
    ) -> Option<(Duration, Duration)> {
        let seen = self.exits.entry(one.name.clone()).or_insert((one.attempt, now));
        if seen.0 != one.attempt {
            *seen = (one.attempt, now);
        }
        let since = seen.1;
        let is_old = |entry: &Entry| since.saturating_sub(entry.set.1) > scale(MAX * 2);
        let expired = |entry: &Entry| is_old(entry) && !self.never_resets;
        let key = wait_key(container);
        let entry = self.waits.get(&key).copied().filter(|entry| !expired(entry));
        if let Some(entry) = entry {
            if entry.set.0 == one.attempt {
                // The container was to start, and did not yet.
                return None;
            }
            let left = (since + scale(entry.wait)).saturating_sub(now);
            if !left.is_zero() {
                return Some((entry.wait, left));
            }
        }
        let doubled = |entry: Entry| if self.never_grows { entry.wait } else { (entry.wait * 2).min(MAX) };
        let wait = entry.map_or(INITIAL, doubled);
        self.waits.insert(key, Entry { wait, set: (one.attempt, now) });
        None
    }
}

/// Returns the key of a container's waits (`GetBackoffKey`): another image, and other resources, begin without a wait.
fn wait_key(container: &Container) -> String {
    let image = container.image.as_deref().unwrap_or_default();
    format!("{}_{image}_{:?}", container.name, container.resources)
}

/// Returns the containers of a pod that run until they are stopped: sidecars and regular ones.
pub(crate) fn restartable(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    let sidecars = spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    sidecars.chain(&spec.containers)
}

/// Returns true for an init container that runs beside the regular ones (`IsRestartableInitContainer`).
pub(crate) fn is_sidecar(init: &Container) -> bool {
    init.restart_policy.as_deref() == Some("Always")
}

/// Returns true if all regular containers have exited and none of them starts again, or if an init container has failed
/// for good.
pub(crate) fn is_finished(spec: &PodSpec, record: &PodRecord) -> bool {
    let exit = |container: &Container| record.container(&container.name).and_then(ContainerRecord::exit);
    let is_over = |container: &Container| exit(container).filter(|exit| !restarts_after(container, spec, exit.code));
    let mut inits = spec.init_containers.iter().flatten().filter(|init| !is_sidecar(init));
    inits.any(|init| is_over(init).is_some_and(|exit| exit.code != 0))
        || spec.containers.iter().all(|container| is_over(container).is_some())
}

/// Returns true if a regular container of the pod has started.
pub(crate) fn is_initialized(spec: &PodSpec, record: &PodRecord) -> bool {
    let mut regular = spec.containers.iter().filter_map(|container| record.container(&container.name));
    regular.any(|one| one.state != Created)
}

/// Returns true if none of the regular containers starts again after the machine is lost with them.
pub(crate) fn ends_with_machine(spec: &PodSpec) -> bool {
    spec.containers.iter().all(|container| !restarts_after(container, spec, LOST))
}

/// Returns true if a container starts again after an exit with this code (`ContainerShouldRestart`).
pub(crate) fn restarts_after(container: &Container, spec: &PodSpec, code: i32) -> bool {
    let by = |policy: &str| match policy {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    };
    let of_pod = || by(spec.restart_policy.as_deref().unwrap_or("Always"));
    let Some(policy) = container.restart_policy.as_deref() else { return of_pod() };
    let mut rules = container.restart_policy_rules.iter().flatten();
    let matching = rules.find(|rule| {
        rule.exit_codes.as_ref().is_some_and(|codes| {
            let listed = codes.values.iter().flatten().any(|value| *value == code);
            match codes.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        })
    });
    matching.is_some_and(|rule| rule.action == "Restart") || by(policy)
}

/// Formats whole seconds as Go prints a duration.
pub(crate) fn go_text(wait: Duration) -> String {
    match (wait.as_secs() / 60, wait.as_secs() % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

/// Returns `<name>_<namespace>(<uid>)` (`format.Pod`).
pub(crate) fn name_with_uid(pod: &Pod) -> String {
    let part = |value: &Option<String>| value.clone().unwrap_or_default();
    format!("{}_{}({})", part(&pod.metadata.name), part(&pod.metadata.namespace), part(&pod.metadata.uid))
}

/// Returns how often a container was restarted. None if it never ran.
pub(crate) fn restarts(status: &ContainerStatus) -> Option<u32> {
    let ended = status.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
    let ran = status.container_id.is_some() || ended;
    ran.then(|| u32::try_from(status.restart_count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::Now;
    use substrate::json::{Value, from_value, json};

    use super::*;
    use crate::machine::api::{ContainerState, State};

    fn pod(policy: &str) -> Pod {
        let spec = json!({ "containers": [{ "name": "app" }], "restartPolicy": policy });
        from_value(json!({ "metadata": { "name": "p", "namespace": "d", "uid": "u" }, "spec": spec })).unwrap()
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn record(attempt: u32, code: Option<i32>) -> PodRecord {
        let since = Now::at(Duration::ZERO).wall;
        let state = code.map_or(ContainerState::Running { since }, |code| Exited(Exit { since, at: since, code }));
        let containers = vec![ContainerRecord::new("app", "", attempt, state)];
        let (pod, uid) = ("d/p".to_owned(), "u".to_owned());
        PodRecord { pod, uid, attempt: 0, sandbox: 0, state: State::Running { since }, containers }
    }

    #[test]
    fn waits_double_from_ten_seconds_to_five_minutes() {
        let (pod, mut restarts, mut now) = (pod("Always"), Restarts::default(), seconds(100));
        let mut waits = Vec::new();
        for attempt in 0..8 {
            let exited = record(attempt, Some(1));
            let mut plan = restarts.plan(&pod, &exited, now, |wait| wait);
            if let Some(wait) = plan.wait {
                waits.push(wait.as_secs());
                let early = restarts.plan(&pod, &exited, now + wait - seconds(1), |wait| wait);
                assert_eq!((early.wait, early.start), (Some(seconds(1)), vec![]));
                now += wait;
                plan = restarts.plan(&pod, &exited, now, |wait| wait);
            }
            assert_eq!(plan.start, [("app".to_owned(), attempt + 1)]);
            let same = restarts.plan(&pod, &exited, now, |wait| wait);
            assert_eq!(same, plan, "a start that failed is tried again at once");
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
        // A container that ran for ten minutes begins again without a wait.
        let rested = restarts.plan(&pod, &record(8, Some(1)), now + seconds(601), |wait| wait);
        assert_eq!(rested.start, [("app".to_owned(), 9)]);
    }

    /// Returns the containers that a plan starts. The pod has a sidecar with a startup probe before its regular container.
    fn starts(restarts: &mut Restarts, sidecar: ContainerState, app: ContainerState) -> Vec<String> {
        let pod: Pod = from_value(json!({ "spec": {
            "initContainers": [{ "name": "mesh", "restartPolicy": "Always", "startupProbe": { "exec": { "command": ["true"] } } }],
            "containers": [{ "name": "app" }],
        } }))
        .unwrap();
        let mut record = record(0, None);
        record.containers = vec![ContainerRecord::new("mesh", "", 0, sidecar), ContainerRecord::new("app", "", 0, app)];
        restarts.plan(&pod, &record, seconds(1), |wait| wait).start.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn containers_wait_for_the_startup_probe_of_a_sidecar() {
        let (since, mut restarts) = (Now::at(Duration::ZERO).wall, Restarts { probes: true, ..Restarts::default() });
        let (runs, ended) = (ContainerState::Running { since }, Exited(Exit { since, at: since, code: 1 }));
        assert_eq!(starts(&mut restarts, Created, Created), ["mesh"]);
        restarts.starting = ["mesh".to_owned()].into();
        assert!(starts(&mut restarts, runs, Created).is_empty());
        assert_eq!(starts(&mut restarts, ended, Created), ["mesh"]);
        restarts.starting.clear();
        assert_eq!(starts(&mut restarts, runs, Created), ["app"]);
        // An initialized pod does not wait again, and a kubelet without probes never does.
        restarts.starting = ["mesh".to_owned()].into();
        assert_eq!(starts(&mut restarts, ended, ended), ["mesh", "app"]);
        assert_eq!(starts(&mut Restarts::default(), Created, Created), ["mesh", "app"]);
    }

    #[rstest]
    #[case(10, "10s")]
    #[case(80, "1m20s")]
    #[case(300, "5m0s")]
    fn waits_are_printed_as_in_go(#[case] wait: u64, #[case] text: &str) {
        assert_eq!(go_text(seconds(wait)), text);
    }

    #[test]
    fn a_container_that_waits_says_so_and_waits_are_scaled() {
        let (pod, mut restarts) = (pod("OnFailure"), Restarts::default());
        restarts.plan(&pod, &record(0, Some(1)), seconds(1), |wait| wait / 10);
        let plan = restarts.plan(&pod, &record(1, Some(1)), seconds(2), |wait| wait / 10);
        assert_eq!(plan.wait, Some(seconds(1)));
        assert_eq!(plan.waiting["app"], "back-off 10s restarting failed container=app pod=p_d(u)");
        assert_eq!(restarts.plan(&pod, &record(2, None), seconds(3), |wait| wait), Plan::default());
    }

    #[test]
    fn another_image_starts_without_a_wait_and_the_former_one_waits_on() {
        let (old, mut restarts) = (pod("Always"), Restarts::default());
        let mut new = old.clone();
        new.spec.as_mut().unwrap().containers[0].image = Some("busybox:2".to_owned());
        let mut plan = |pod: &Pod, attempt: u32| restarts.plan(pod, &record(attempt, Some(1)), seconds(1), |wait| wait);
        assert_eq!(plan(&old, 0).start.len(), 1);
        assert_eq!(plan(&old, 1).wait, Some(seconds(10)));
        assert_eq!(plan(&new, 1).start, [("app".to_owned(), 2)]);
        assert_eq!(plan(&old, 2).wait, Some(seconds(10)));
    }

    #[rstest]
    #[case("Always", 0, true)]
    #[case("Always", 1, true)]
    #[case("OnFailure", 0, false)]
    #[case("OnFailure", 1, true)]
    #[case("Never", 0, false)]
    #[case("Never", 1, false)]
    fn the_policy_of_the_pod_decides(#[case] policy: &str, #[case] code: i32, #[case] again: bool) {
        let plan = Restarts::default().plan(&pod(policy), &record(0, Some(code)), seconds(1), |wait| wait);
        assert_eq!((plan.start.len() == 1, plan.finished), (again, !again));
    }

    #[test]
    fn init_containers_start_one_after_the_other_and_then_the_rest() {
        let of = |policy: &str| -> Pod {
            let inits = json!([{ "name": "a" }, { "name": "side", "restartPolicy": "Always" }, { "name": "b" }]);
            let spec = json!({ "initContainers": inits, "containers": [{ "name": "app" }], "restartPolicy": policy });
            from_value(json!({ "metadata": { "name": "p" }, "spec": spec })).unwrap()
        };
        let since = Now::at(Duration::ZERO).wall;
        let (created, running) = (ContainerState::Created, ContainerState::Running { since });
        let exited = |code: i32| Exited(Exit { since, at: since, code });
        let plan = |policy: &str, states: [ContainerState; 4]| {
            let named = ["a", "side", "b", "app"].into_iter().zip(states);
            let containers = named.map(|(name, state)| ContainerRecord::new(name, "", 0, state));
            let record = PodRecord { containers: containers.collect(), ..record(0, None) };
            let plan = Restarts::default().plan(&of(policy), &record, seconds(1), |wait| wait);
            (
                plan.start.into_iter().map(|(name, attempt)| format!("{name}{attempt}")).collect::<Vec<_>>(),
                plan.finished,
            )
        };
        let rest = [created, created, created];
        let with = |first: ContainerState, rest: [ContainerState; 3]| [first, rest[0], rest[1], rest[2]];
        assert_eq!(plan("Always", with(created, rest)), (vec!["a0".to_owned()], false));
        assert_eq!(plan("Always", with(running, rest)), (vec![], false));
        assert_eq!(plan("Always", with(exited(1), rest)), (vec!["a1".to_owned()], false));
        assert_eq!(plan("Never", with(exited(1), rest)), (vec![], true), "the pod has failed");
        assert_eq!(plan("Never", with(exited(0), rest)), (vec!["side0".to_owned(), "b0".to_owned()], false));
        assert_eq!(plan("Never", [exited(0), running, exited(0), created]), (vec!["app0".to_owned()], false));
        assert_eq!(plan("Never", [exited(0), running, exited(0), exited(0)]), (vec![], true));
    }

    #[rstest]
    #[case(json!({ "restartPolicy": "Never" }), 1, false)]
    #[case(json!({ "restartPolicy": "OnFailure" }), 0, false)]
    #[case(json!({ "restartPolicy": "OnFailure" }), 1, true)]
    #[case(rules("In"), 42, true)]
    #[case(rules("In"), 1, false)]
    #[case(rules("NotIn"), 42, false)]
    #[case(rules("NotIn"), 1, true)]
    #[case::of_the_whole_pod(json!({ "restartPolicy": "Never", "restartPolicyRules": [{ "action": "RestartAllContainers",
        "exitCodes": { "operator": "In", "values": [42] } }] }), 42, false)]
    fn a_policy_of_the_container_precedes(#[case] fields: Value, #[case] code: i32, #[case] again: bool) {
        let container: Container = from_value(fields).unwrap();
        let spec = PodSpec { restart_policy: Some("Always".to_owned()), ..PodSpec::default() };
        assert_eq!(restarts_after(&container, &spec, code), again);
    }

    fn rules(operator: &str) -> Value {
        let codes = json!({ "operator": operator, "values": [42] });
        json!({ "restartPolicy": "Never", "restartPolicyRules": [{ "action": "Restart", "exitCodes": codes }] })
    }
}
