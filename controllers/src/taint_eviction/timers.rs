//! Deletion times of pods (`processPodOnNode` and the timed workers upstream).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::taints::tolerates;

/// Namespace and name.
pub type PodKey = (String, String);

/// Relevant fields of a pod.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    /// Namespace and name.
    pub key: (&'a str, &'a str),
    /// Its tolerations.
    pub tolerations: &'a [Toleration],
}

/// Action on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Delete the pod now, with an event.
    Evict(PodKey),
    /// Emit the event of a cancelled deletion.
    Cancelled(PodKey),
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    created: Duration,
    fires: Duration,
}

/// Timers of all pods on tainted nodes.
#[derive(Clone, Debug)]
pub struct Evictions {
    /// Divides tolerationSeconds.
    scale: substrate::clock::TimeScale,
    /// Seeded bug: deletes pods at once, however long they tolerate a taint.
    pub(super) is_hasty: bool,
    /// Seeded bug: deletes pods 30 s late.
    pub(super) is_slow: bool,
    /// Seeded bug: a change of the taints starts a wait again.
    pub(super) restarts_waits: bool,
    /// Timers by pod. A pod whose deletion is under way has an entry without a timer.
    workers: BTreeMap<PodKey, Option<Timer>>,
    /// Running timers, by due time.
    alarms: BTreeSet<(Duration, PodKey)>,
}

/// Returns how long the taints are tolerated together: None if they are not tolerated, an inner None for no limit.
fn tolerated(taints: &[Taint], tolerations: &[Toleration]) -> Option<Option<Duration>> {
    let mut least: Option<u64> = None;
    for taint in taints {
        let toleration = tolerations.iter().find(|t| tolerates(t, taint))?;
        if let Some(seconds) = toleration.toleration_seconds {
            let seconds = u64::try_from(seconds).unwrap_or(0);
            least = Some(least.map_or(seconds, |l| l.min(seconds)));
        }
    }
    Some(least.map(Duration::from_secs))
}

impl Evictions {
    /// Creates an empty table. `scale` divides tolerationSeconds.
    pub fn new(scale: substrate::clock::TimeScale) -> Self {
        Self {
            scale,
            is_hasty: false,
            is_slow: false,
            restarts_waits: false,
            workers: BTreeMap::new(),
            alarms: BTreeSet::new(),
        }
    }

    /// Evaluates a pod on a node with these NoExecute taints.
    pub fn process(&mut self, now: Duration, pod: PodView<'_>, taints: &[Taint]) -> Vec<Effect> {
        let key = (pod.key.0.to_owned(), pod.key.1.to_owned());
        let mut effects = Vec::new();
        if taints.is_empty() {
            effects.extend(self.cancel(&key));
            return effects;
        }
        match tolerated(taints, pod.tolerations) {
            None => {
                effects.extend(self.cancel(&key));
                effects.extend(self.add(now, key, now, now));
            }
            Some(None) => effects.extend(self.cancel(&key)),
            Some(Some(seconds)) => {
                let seconds = if self.is_hasty { Duration::ZERO } else { self.scale.apply(seconds) };
                let seconds = if self.is_slow { seconds + Duration::from_secs(30) } else { seconds };
                let mut created = now;
                if let Some(Some(timer)) = self.workers.get(&key) {
                    created = timer.created;
                    if created + seconds < now + seconds && !self.restarts_waits {
                        return effects;
                    }
                    effects.extend(self.cancel(&key));
                }
                effects.extend(self.add(now, key, created, now + seconds));
            }
        }
        effects
    }

    fn add(&mut self, now: Duration, key: PodKey, created: Duration, fires: Duration) -> Option<Effect> {
        if self.workers.contains_key(&key) {
            return None;
        }
        if fires <= now {
            self.workers.insert(key.clone(), None);
            return Some(Effect::Evict(key));
        }
        self.alarms.insert((fires, key.clone()));
        self.workers.insert(key, Some(Timer { created, fires }));
        None
    }

    /// Cancels a deletion; returns an event if it was still pending.
    pub fn cancel(&mut self, key: &PodKey) -> Option<Effect> {
        let timer = self.workers.remove(key)??;
        self.alarms.remove(&(timer.fires, key.clone()));
        Some(Effect::Cancelled(key.clone()))
    }

    /// Takes the pods whose time has come.
    pub fn due(&mut self, now: Duration) -> Vec<PodKey> {
        let mut due = Vec::new();
        while self.alarms.first().is_some_and(|(fires, _)| *fires <= now) {
            due.extend(self.alarms.pop_first().map(|(_, key)| key));
        }
        due.sort();
        for key in &due {
            self.workers.insert(key.clone(), None);
        }
        due
    }

    /// Forgets a deletion that has ended, with or without success (`getWrappedWorkerFunc`). If the taints of its node change
    /// while the pod terminates, it is deleted again.
    pub fn finished(&mut self, key: &PodKey) {
        if matches!(self.workers.get(key), Some(None)) {
            self.workers.remove(key);
        }
    }

    /// Returns the next due time.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.alarms.first().map(|(fires, _)| *fires)
    }
}

#[cfg(test)]
mod tests {
    use substrate::clock::TimeScale;

    use super::*;
    use crate::taints::{NO_EXECUTE, UNREACHABLE, taint};

    const S: fn(u64) -> Duration = Duration::from_secs;
    const KEY: (&str, &str) = ("default", "p");

    fn key() -> PodKey {
        ("default".to_owned(), "p".to_owned())
    }

    fn for_seconds(seconds: Option<i64>) -> Vec<Toleration> {
        let (key, operator) = (Some(UNREACHABLE.to_owned()), Some("Exists".to_owned()));
        vec![Toleration { key, operator, toleration_seconds: seconds, ..Toleration::default() }]
    }

    fn evictions() -> Evictions {
        Evictions::new(TimeScale::default())
    }

    #[test]
    fn a_pod_goes_when_its_toleration_ends() {
        let (mut evictions, tolerations) = (evictions(), for_seconds(Some(300)));
        let pod = PodView { key: KEY, tolerations: &tolerations };
        assert!(evictions.process(S(55), pod, &[taint(UNREACHABLE, NO_EXECUTE)]).is_empty());
        assert_eq!(evictions.next_deadline(), Some(S(355)));
        assert!(evictions.due(S(354)).is_empty());
        assert_eq!(evictions.due(S(355)), [key()]);
        assert_eq!(evictions.next_deadline(), None);
    }

    #[test]
    fn tolerance_is_divided_by_the_time_scale() {
        let tolerations = for_seconds(Some(300));
        let mut evictions = Evictions::new(TimeScale::new(100.0));
        evictions.process(S(1), PodView { key: KEY, tolerations: &tolerations }, &[taint(UNREACHABLE, NO_EXECUTE)]);
        assert_eq!(evictions.next_deadline(), Some(S(4)));
    }

    #[test]
    fn without_toleration_it_goes_at_once_and_again_after_another_change() {
        let mut evictions = evictions();
        let pod = PodView { key: KEY, tolerations: &[] };
        let taints = [taint("node.kubernetes.io/out-of-service", NO_EXECUTE)];
        assert_eq!(evictions.process(S(1), pod, &taints), [Effect::Evict(key())]);
        assert_eq!(evictions.next_deadline(), None);
        assert_eq!(evictions.process(S(3), pod, &taints), [Effect::Evict(key())]);
    }

    #[test]
    fn no_timer_starts_before_a_deletion_has_ended() {
        let (mut evictions, tolerations) = (evictions(), for_seconds(Some(300)));
        let pod = PodView { key: KEY, tolerations: &tolerations };
        let taints = [taint(UNREACHABLE, NO_EXECUTE)];
        evictions.process(S(0), pod, &taints);
        assert_eq!(evictions.due(S(300)), [key()]);
        evictions.process(S(301), pod, &taints);
        assert_eq!(evictions.next_deadline(), None);
        evictions.finished(&key());
        evictions.process(S(302), pod, &taints);
        assert_eq!(evictions.next_deadline(), Some(S(602)));
    }

    #[test]
    fn a_second_intolerable_taint_overtakes_a_running_timer() {
        let (mut evictions, tolerations) = (evictions(), for_seconds(Some(300)));
        let pod = PodView { key: KEY, tolerations: &tolerations };
        let mut taints = vec![taint(UNREACHABLE, NO_EXECUTE)];
        evictions.process(S(55), pod, &taints);
        taints.push(taint("node.kubernetes.io/out-of-service", NO_EXECUTE));
        assert_eq!(evictions.process(S(60), pod, &taints), [Effect::Cancelled(key()), Effect::Evict(key())]);
    }

    #[test]
    fn a_timer_that_runs_is_not_put_off() {
        let (mut evictions, tolerations) = (evictions(), for_seconds(Some(300)));
        let pod = PodView { key: KEY, tolerations: &tolerations };
        evictions.process(S(55), pod, &[taint(UNREACHABLE, NO_EXECUTE)]);
        evictions.process(S(60), pod, &[taint(UNREACHABLE, NO_EXECUTE)]);
        assert_eq!(evictions.next_deadline(), Some(S(355)));
    }

    #[test]
    fn eternal_tolerance_and_removed_taints_call_the_deletion_off() {
        let (mut evictions, tolerations) = (evictions(), for_seconds(Some(300)));
        let pod = PodView { key: KEY, tolerations: &tolerations };
        evictions.process(S(55), pod, &[taint(UNREACHABLE, NO_EXECUTE)]);
        assert_eq!(evictions.process(S(60), pod, &[]), [Effect::Cancelled(key())]);
        let eternal = for_seconds(None);
        let pod = PodView { key: KEY, tolerations: &eternal };
        assert!(evictions.process(S(61), pod, &[taint(UNREACHABLE, NO_EXECUTE)]).is_empty());
        assert_eq!(evictions.next_deadline(), None);
    }
}
