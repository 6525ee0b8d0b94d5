//! Results of a pod's probes, as a pure machine: which probe is due, and what its result changes (upstream
//! `pkg/kubelet/prober/worker.go`). Only containers whose command runs are probed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use substrate::Ctx;

use crate::machine::api::{ContainerState, PodRecord};

/// Kind of a probe, in the order in which kubelet runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    /// Returns its name in Events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }

    /// Returns the grace period of its probe, if that has one (`setTerminationGracePeriod`).
    pub fn grace_of(self, container: &Container) -> Option<Duration> {
        let grace = self.of(container)?.termination_grace_period_seconds?;
        u64::try_from(grace).ok().map(Duration::from_secs)
    }

    fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
        }
    }
}

/// A container and one of its probes.
pub(crate) type Key = (String, Kind);

/// State of a probe for one start of its container.
#[derive(Clone, Debug)]
struct State {
    probe: Probe,
    attempt: u32,
    due: Duration,
    /// Last result, and how often it came in a row.
    last: (bool, i32),
    /// Result that counts.
    passed: bool,
    /// True if the probe is over until its container starts again.
    over: bool,
    /// True if the failure of its container was reported.
    reported: bool,
}

/// Probes of a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes {
    states: BTreeMap<Key, State>,
    /// Seeded bug: a success does not end a row of failures.
    adds_failures_up: bool,
}

impl Probes {
    /// Creates the probes of a pod whose containers do not run yet.
    pub fn new(ctx: &Ctx) -> Self {
        Self { adds_failures_up: substrate::mutant!(ctx, "stray-failures-add-up"), ..Self::default() }
    }

    /// Adopts the running containers of `record` at `now`. All waits are multiplied by `scale`.
    pub fn adopt(&mut self, pod: &Pod, record: &PodRecord, now: Duration, scale: impl Fn(Duration) -> Duration) {
        let spec = pod.spec.iter();
        for container in spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers)) {
            let one = record.container(&container.name);
            let one = one.filter(|one| matches!(one.state, ContainerState::Running { .. }));
            let has_program = container.command.as_ref().is_some_and(|words| !words.is_empty());
            for kind in [Kind::Startup, Kind::Liveness, Kind::Readiness] {
                let key = (container.name.clone(), kind);
                let (Some(probe), Some(one), true) = (kind.of(container), one, has_program) else {
                    self.states.remove(&key);
                    continue;
                };
                if self.states.get(&key).is_none_or(|state| state.attempt != one.attempt) {
                    let due = now + scale(seconds(probe.initial_delay_seconds, 0));
                    let passed = kind == Kind::Liveness;
                    let (probe, attempt) = (probe.clone(), one.attempt);
                    self.states.insert(
                        key,
                        State { probe, attempt, due, last: (passed, 0), passed, over: false, reported: false },
                    );
                }
            }
        }
    }

    /// Returns the probe that is due first, with its time.
    pub fn next(&self) -> Option<(Duration, &Key, &Probe)> {
        let active = self
            .states
            .iter()
            .filter(|((name, kind), state)| !state.over && (*kind == Kind::Startup || !self.starts(name)));
        active.map(|(key, state)| (state.due, key, &state.probe)).min_by_key(|(due, key, _)| (*due, *key))
    }

    /// Takes the result of a probe at `now`. Returns true if something changed.
    pub fn take(&mut self, key: &Key, passed: bool, now: Duration, scale: impl Fn(Duration) -> Duration) -> bool {
        let Some(state) = self.states.get_mut(key) else { return false };
        state.due = now + scale(seconds(state.probe.period_seconds, 10));
        if self.adds_failures_up && passed && state.passed {
            return false;
        }
        state.last = if state.last.0 == passed { (passed, state.last.1 + 1) } else { (passed, 1) };
        let (threshold, default) =
            if passed { (state.probe.success_threshold, 1) } else { (state.probe.failure_threshold, 3) };
        if state.last.1 < threshold.filter(|times| *times > 0).unwrap_or(default) {
            return false;
        }
        state.over = if passed { key.1 == Kind::Startup } else { key.1 != Kind::Readiness };
        let changed = state.passed != passed || state.over;
        state.passed = passed;
        changed
    }

    /// Returns true if the startup probe of a container has not passed.
    fn starts(&self, container: &str) -> bool {
        self.states.get(&(container.to_owned(), Kind::Startup)).is_some_and(|state| !state.passed)
    }

    /// Returns the running containers that have not started yet by their startup probe.
    pub fn starting(&self) -> BTreeSet<String> {
        self.states.keys().map(|(name, _)| name).filter(|name| self.starts(name)).cloned().collect()
    }

    /// Returns the running containers that are not ready by their probes.
    pub fn unready(&self) -> BTreeSet<String> {
        let failing = self.states.iter().filter(|((_, kind), state)| *kind == Kind::Readiness && !state.passed);
        failing.map(|((name, _), _)| name.clone()).chain(self.starting()).collect()
    }

    /// Takes the running containers that must start again, each with the probe that failed, once for each start.
    pub fn take_failed(&mut self) -> Vec<Key> {
        let failed = self
            .states
            .iter_mut()
            .filter(|((_, kind), state)| *kind != Kind::Readiness && state.over && !state.passed && !state.reported);
        let report = |(key, state): (&Key, &mut State)| {
            state.reported = true;
            key.clone()
        };
        failed.map(report).collect()
    }
}

/// Returns seconds of a probe. Zero and a missing number mean the default.
pub(crate) fn seconds(number: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(number.and_then(|number| u64::try_from(number).ok()).filter(|n| *n > 0).unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use substrate::Now;
    use substrate::json::{Value, from_value, json};

    use super::*;
    use crate::machine::api::{self, ContainerRecord};

    fn pod(fields: Value) -> Pod {
        let mut container = json!({ "name": "app", "command": ["true"] });
        for (key, value) in fields.as_object().into_iter().flatten() {
            container[&**key] = value.clone();
        }
        from_value(json!({ "metadata": { "name": "p" }, "spec": { "containers": [container] } })).unwrap()
    }

    fn running(attempt: u32) -> PodRecord {
        let since = Now::at(Duration::ZERO).wall;
        let state = ContainerState::Running { since };
        let containers = vec![ContainerRecord::new("app", "", attempt, state)];
        let (pod, uid) = ("d/p".to_owned(), "u".to_owned());
        PodRecord { pod, uid, attempt: 0, sandbox: 0, state: api::State::Running { since }, containers }
    }

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn key(kind: Kind) -> Key {
        ("app".to_owned(), kind)
    }

    #[test]
    fn a_container_is_ready_after_its_threshold_and_unready_after_three_failures() {
        let pod = pod(json!({ "readinessProbe": { "initialDelaySeconds": 5, "successThreshold": 2 } }));
        let mut probes = Probes::default();
        probes.adopt(&pod, &running(0), at(10), |wait| wait);
        assert_eq!(probes.next().map(|(due, key, _)| (due, key.1)), Some((at(15), Kind::Readiness)));
        assert_eq!(probes.unready().len(), 1, "not probed yet");
        let take = |probes: &mut Probes, passed| probes.take(&key(Kind::Readiness), passed, at(15), |wait| wait);
        assert!(!take(&mut probes, true) && take(&mut probes, true));
        assert_eq!((probes.unready().len(), probes.next().map(|(due, ..)| due)), (0, Some(at(25))));
        assert!(!take(&mut probes, false) && !take(&mut probes, false) && take(&mut probes, false));
        assert_eq!((probes.unready().len(), probes.take_failed().len()), (1, 0), "it is not started again");
    }

    #[test]
    fn a_failed_liveness_probe_ends_one_start_of_its_container() {
        let pod = pod(json!({ "livenessProbe": { "failureThreshold": 1 } }));
        let mut probes = Probes::default();
        probes.adopt(&pod, &running(0), at(0), |wait| wait);
        assert!(probes.unready().is_empty());
        assert!(probes.take(&key(Kind::Liveness), false, at(0), |wait| wait));
        assert_eq!((probes.take_failed(), probes.take_failed()), (vec![key(Kind::Liveness)], vec![]));
        assert!(probes.next().is_none(), "on hold until the next start");
        probes.adopt(&pod, &running(1), at(3), |wait| wait);
        assert!(probes.take_failed().is_empty() && probes.next().is_some());
    }

    #[test]
    fn failures_that_are_not_in_a_row_count_only_by_the_defect() {
        let failed = |adds_failures_up| {
            let pod = pod(json!({ "livenessProbe": {} }));
            let mut probes = Probes { adds_failures_up, ..Probes::default() };
            probes.adopt(&pod, &running(0), at(0), |wait| wait);
            for passed in [false, true, false, true, false] {
                probes.take(&key(Kind::Liveness), passed, at(0), |wait| wait);
            }
            probes.take_failed().len()
        };
        assert_eq!((failed(false), failed(true)), (0, 1));
    }

    #[test]
    fn a_probe_may_have_a_grace_period_of_its_own() {
        let pod = pod(json!({ "livenessProbe": { "terminationGracePeriodSeconds": 5 }, "startupProbe": {} }));
        let container = &pod.spec.as_ref().unwrap().containers[0];
        assert_eq!((Kind::Liveness.grace_of(container), Kind::Startup.grace_of(container)), (Some(at(5)), None));
    }

    #[test]
    fn other_probes_wait_for_the_startup_probe() {
        let pod = pod(json!({ "startupProbe": { "periodSeconds": 1 }, "readinessProbe": {} }));
        let mut probes = Probes::default();
        probes.adopt(&pod, &running(0), at(0), |wait| wait);
        assert_eq!(probes.next().map(|(_, key, _)| key.1), Some(Kind::Startup));
        assert_eq!(probes.starting().len(), 1);
        assert!(probes.take(&key(Kind::Startup), true, at(1), |wait| wait));
        assert_eq!(probes.next().map(|(_, key, _)| key.1), Some(Kind::Readiness));
        assert_eq!((probes.starting().len(), probes.unready().len()), (0, 1));
    }
}
