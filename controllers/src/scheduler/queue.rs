//! Scheduling queue (`backend/queue/scheduling_queue.go`): active pods, pods in backoff, and unschedulable pods that
//! wait for an event.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::fit_error::Plugin;
use super::node_info::{PodKey, priority};
use crate::kube::Kind;

/// Durations, already divided by `time-scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// First backoff.
    pub initial_backoff: Duration,
    /// Longest backoff.
    pub max_backoff: Duration,
    /// Time without an event after which an unschedulable pod is retried.
    pub flush_after: Duration,
    /// Period of checking backoffs: 1 s.
    pub backoff_tick: Duration,
    /// Period of checking unschedulable pods: 30 s.
    pub flush_tick: Duration,
}

/// Result of an attempt that did not place the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No node fits; these plugins rejected them.
    Unschedulable(BTreeSet<Plugin>),
    /// An error; only a backoff helps.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum QueueState {
    Active,
    /// In backoff until then. After an error no event shortens it.
    Backoff {
        until: Duration,
        error: bool,
    },
    Unschedulable {
        since: Duration,
    },
    /// Being scheduled or bound.
    InFlight,
}

#[derive(Clone, Debug)]
struct Queued {
    pod: Arc<Pod>,
    place: QueueState,
    /// Time of the last enqueue.
    timestamp: Duration,
    unschedulable: u32,
    errors: u32,
    plugins: BTreeSet<Plugin>,
}

impl Queued {
    /// Time since which the pod waits for an event; None if it does not.
    fn unschedulable_since(&self) -> Option<Duration> {
        match self.place {
            QueueState::Unschedulable { since } => Some(since),
            _ => None,
        }
    }
}

type Order = (Reverse<i32>, Duration, PodKey);

/// Scheduling queue.
#[derive(Clone, Debug)]
pub struct SchedulingQueue {
    waits: Waits,
    /// Monotonic time of the start; the ticks count from it.
    started: Duration,
    pods: BTreeMap<PodKey, Queued>,
    active: BTreeSet<Order>,
    backoff: BTreeSet<(Duration, PodKey)>,
    unschedulable: BTreeSet<PodKey>,
    /// The same pods with the times at which they are retried without an event.
    flushes: BTreeSet<(Duration, PodKey)>,
    /// Pods that a scheduling gate holds. They were never tried.
    gated: BTreeSet<PodKey>,
}

impl SchedulingQueue {
    /// Creates an empty queue that starts `now` (monotonic).
    pub fn new(waits: Waits, now: Duration) -> Self {
        Self {
            waits,
            started: now,
            pods: BTreeMap::new(),
            active: BTreeSet::new(),
            backoff: BTreeSet::new(),
            unschedulable: BTreeSet::new(),
            flushes: BTreeSet::new(),
            gated: BTreeSet::new(),
        }
    }

    /// Records a pod that a scheduling gate holds.
    pub fn hold(&mut self, key: PodKey) {
        self.gated.insert(key);
    }

    /// Returns the number of pods by the name of their queue, as `scheduler_pending_pods` counts them.
    pub fn counts(&self) -> [(&'static str, u64); 4] {
        let count = |number: usize| number as u64;
        [
            ("active", count(self.active.len())),
            ("backoff", count(self.backoff.len())),
            ("unschedulable", count(self.unschedulable.len())),
            ("gated", count(self.gated.len())),
        ]
    }

    /// Adds a new pod.
    pub fn add(&mut self, now: Duration, pod: Arc<Pod>) {
        let key = PodKey::of(&pod);
        self.delete(&key);
        let queued = Queued {
            pod,
            place: QueueState::Active,
            timestamp: now,
            unschedulable: 0,
            errors: 0,
            plugins: BTreeSet::new(),
        };
        self.active.insert(order(&key, &queued));
        self.pods.insert(key, queued);
    }

    /// Updates a pod without a node. If it may now fit (`relevant`), it is retried.
    pub fn update(&mut self, now: Duration, pod: Arc<Pod>, relevant: bool) {
        let key = PodKey::of(&pod);
        match self.pods.get_mut(&key) {
            None => self.add(now, pod),
            // Another pod of the same name.
            Some(queued) if queued.pod.uid() != pod.uid() => self.add(now, pod),
            Some(queued) => {
                queued.pod = pod;
                if relevant && matches!(queued.place, QueueState::Unschedulable { .. }) {
                    self.bring_back(now, &key);
                }
            }
        }
    }

    /// Removes a pod: it has a node, or was deleted.
    pub fn delete(&mut self, key: &PodKey) {
        self.gated.remove(key);
        if let Some(queued) = self.pods.remove(key) {
            self.leave(key, &queued);
        }
    }

    fn leave(&mut self, key: &PodKey, queued: &Queued) {
        match queued.place {
            QueueState::Active => drop(self.active.remove(&order(key, queued))),
            QueueState::Backoff { until, .. } => drop(self.backoff.remove(&(until, key.clone()))),
            QueueState::Unschedulable { since } => self.end_wait(key, since),
            QueueState::InFlight => {}
        }
    }

    /// Returns the next pod. If none is active, takes one in backoff, except after an error (gate
    /// SchedulerPopFromBackoffQ, on since 1.33).
    pub fn pop(&mut self, now: Duration) -> Option<Arc<Pod>> {
        self.tick(now);
        let key = match self.active.pop_first() {
            Some((_, _, key)) => key,
            None => {
                let early = |(_, key): &&(Duration, PodKey)| {
                    matches!(self.pods.get(key), Some(Queued { place: QueueState::Backoff { error: false, .. }, .. }))
                };
                let entry = self.backoff.iter().find(early)?.clone();
                self.backoff.remove(&entry);
                entry.1
            }
        };
        let queued = self.pods.get_mut(&key)?;
        queued.place = QueueState::InFlight;
        Some(queued.pod.clone())
    }

    /// Returns a pod that could not be placed.
    pub fn put_back(&mut self, now: Duration, key: &PodKey, failure: Failure) {
        let waits = self.waits;
        let Some(queued) = self.pods.get_mut(key).filter(|q| q.place == QueueState::InFlight) else { return };
        queued.timestamp = now;
        match failure {
            Failure::Unschedulable(plugins) if !plugins.is_empty() => {
                queued.errors = 0;
                queued.unschedulable += 1;
                queued.plugins = plugins;
                queued.place = QueueState::Unschedulable { since: now };
                let flush = self.flush_at(now);
                self.unschedulable.insert(key.clone());
                self.flushes.insert((flush, key.clone()));
            }
            // Without a rejecting plugin there is no event to wait for.
            Failure::Unschedulable(_) | Failure::Error => {
                queued.errors += 1;
                queued.plugins.clear();
                let until = self.started + ceil(now + backoff(waits, queued.errors) - self.started, waits.backoff_tick);
                queued.place = QueueState::Backoff { until, error: true };
                self.backoff.insert((until, key.clone()));
            }
        }
    }

    /// Requeues the pods for which `worth` returns true after an event.
    pub fn happened(&mut self, now: Duration, worth: impl Fn(&Pod, &BTreeSet<Plugin>) -> bool) {
        let helped = |key: &&PodKey| self.pods.get(*key).is_some_and(|q| worth(&q.pod, &q.plugins));
        let keys: Vec<PodKey> = self.unschedulable.iter().filter(helped).cloned().collect();
        for key in keys {
            self.bring_back(now, &key);
        }
    }

    /// Makes a waiting pod active at once (`Activate`).
    pub fn activate(&mut self, now: Duration, key: &PodKey) {
        let Some(queued) = self.pods.get(key).cloned() else { return };
        if matches!(queued.place, QueueState::Unschedulable { .. } | QueueState::Backoff { .. }) {
            self.leave(key, &queued);
            let queued = Queued { place: QueueState::Active, timestamp: now, ..queued };
            self.active.insert(order(key, &queued));
            self.pods.insert(key.clone(), queued);
        }
    }

    /// Returns true if no pod waits for an event; then events need no evaluation.
    pub fn has_no_waiting(&self) -> bool {
        self.unschedulable.is_empty()
    }

    fn bring_back(&mut self, now: Duration, key: &PodKey) {
        let waits = self.waits;
        let Some(since) = self.pods.get(key).and_then(Queued::unschedulable_since) else { return };
        self.end_wait(key, since);
        let Some(queued) = self.pods.get_mut(key) else { return };
        let until = queued.timestamp + backoff(waits, queued.unschedulable);
        if until > now {
            let until = self.started + ceil(until - self.started, waits.backoff_tick);
            queued.place = QueueState::Backoff { until, error: false };
            self.backoff.insert((until, key.clone()));
        } else {
            queued.place = QueueState::Active;
            queued.timestamp = now;
            self.active.insert(order(key, queued));
        }
    }

    /// Performs due actions: ends backoffs, and retries pods that have waited too long.
    fn tick(&mut self, now: Duration) {
        while self.backoff.first().is_some_and(|(until, _)| *until <= now) {
            let Some((until, key)) = self.backoff.pop_first() else { break };
            if let Some(queued) = self.pods.get_mut(&key) {
                queued.place = QueueState::Active;
                queued.timestamp = until;
                self.active.insert(order(&key, queued));
            }
        }
        while self.flushes.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.flushes.pop_first() else { break };
            self.bring_back(now, &key);
        }
    }

    /// Returns the time at which a pod that is unschedulable `since` then is retried without an event.
    fn flush_at(&self, since: Duration) -> Duration {
        self.started + ceil(since + self.waits.flush_after - self.started, self.waits.flush_tick)
    }

    /// Takes out a pod that waits for an event.
    fn end_wait(&mut self, key: &PodKey, since: Duration) {
        self.unschedulable.remove(key);
        self.flushes.remove(&(self.flush_at(since), key.clone()));
    }

    /// Returns the next monotonic time at which a pod is requeued without an event.
    pub fn next_deadline(&self) -> Option<Duration> {
        let backoff = self.backoff.first().map(|(until, _)| *until);
        let flush = self.flushes.first().map(|(at, _)| *at);
        backoff.into_iter().chain(flush).min()
    }

    /// Returns the pod as last stored.
    pub fn get(&self, key: &PodKey) -> Option<&Arc<Pod>> {
        self.pods.get(key).map(|queued| &queued.pod)
    }
}

fn order(key: &PodKey, queued: &Queued) -> Order {
    (Reverse(priority(&queued.pod)), queued.timestamp, key.clone())
}

/// Returns the backoff after the `count`th failure in a row.
fn backoff(waits: Waits, count: u32) -> Duration {
    let factor = 2u32.checked_pow(count.saturating_sub(1)).unwrap_or(u32::MAX);
    waits.initial_backoff.checked_mul(factor).unwrap_or(waits.max_backoff).min(waits.max_backoff)
}

/// Rounds `at` up to a multiple of `tick`.
fn ceil(at: Duration, tick: Duration) -> Duration {
    let tick = tick.as_nanos().max(1);
    let ticks = at.as_nanos().div_ceil(tick);
    Duration::from_nanos(u64::try_from(ticks * tick).unwrap_or(u64::MAX))
}
