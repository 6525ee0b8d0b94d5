//! A work queue with per-item backoff (client-go `util/workqueue`, the rate-limiting queue).

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use substrate::mutant;
use substrate::process::Ctx;
use tokio::sync::{Notify, Semaphore};

use crate::metrics::{Metrics, families};

/// Wait of a seeded bug before a retry.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Result of processing an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done; its failures are forgotten.
    Done,
    /// Retry after the item's exponential backoff.
    Retry,
    /// Repeat after this time; its failures are forgotten.
    After(Duration),
}

/// Queue with at most one worker for each item. An item that is added while it waits stays one item. An item that is
/// added while it is processed is processed once more. Clones share the queue.
pub struct WorkQueue<T>(Arc<Inner<T>>);

impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Inner<T> {
    ctx: Ctx,
    base: Duration,
    max: Duration,
    state: Mutex<State<T>>,
    changed: Notify,
    measured: OnceLock<Measured>,
}

/// Metrics of a queue.
struct Measured {
    name: &'static str,
    metrics: Metrics,
}

impl Measured {
    fn depth(&self, depth: usize) {
        self.metrics.set(&families::QUEUE_DEPTH, &[self.name], depth as u64);
    }

    /// Measures how long an item waited, and how many wait still.
    fn was_taken(&self, waited: Duration, depth: usize) {
        self.metrics.observe(&families::QUEUE_WAIT, &[self.name], waited);
        self.depth(depth);
    }
}

struct State<T> {
    ready: VecDeque<T>,
    /// Items that wait for a worker, with the time since which they wait. Items that were added while they are processed are
    /// among them.
    dirty: BTreeMap<T, Duration>,
    processing: BTreeSet<T>,
    waiting: BTreeSet<(Duration, u64, T)>,
    waits: BTreeMap<T, (Duration, u64)>,
    number: u64,
    failures: BTreeMap<T, u32>,
}

impl<T: Ord + Clone + Send + 'static> WorkQueue<T> {
    /// Creates an empty queue whose items back off from `base`, doubling, up to `max` (both before `time-scale`).
    pub fn new(ctx: &Ctx, base: Duration, max: Duration) -> Self {
        let state = State {
            ready: VecDeque::new(),
            dirty: BTreeMap::new(),
            processing: BTreeSet::new(),
            waiting: BTreeSet::new(),
            waits: BTreeMap::new(),
            number: 0,
            failures: BTreeMap::new(),
        };
        Self(Arc::new(Inner {
            ctx: ctx.clone(),
            base,
            max,
            state: Mutex::new(state),
            changed: Notify::new(),
            measured: OnceLock::new(),
        }))
    }

    /// Sets the queue's name, which the metrics of its process show.
    #[must_use]
    pub fn named(self, name: &'static str) -> Self {
        let metrics = Metrics::of(&self.0.ctx);
        use families::{QUEUE_ADDS, QUEUE_DEPTH, QUEUE_RETRIES, QUEUE_WAIT, QUEUE_WORK};
        for family in [&QUEUE_DEPTH, &QUEUE_ADDS, &QUEUE_WAIT, &QUEUE_WORK, &QUEUE_RETRIES] {
            metrics.begin(family, &[name]);
        }
        self.0.measured.get_or_init(|| Measured { name, metrics });
        self
    }

    /// Adds an item for the next free worker.
    pub fn add(&self, item: T) {
        let now = self.0.ctx.now().mono;
        let (added, depth) = {
            let mut state = self.state();
            (state.add(item, now), state.dirty.len())
        };
        let Some(is_ready) = added else { return };
        self.was_added(1, depth);
        if is_ready {
            self.0.changed.notify_one();
        }
    }

    /// Counts added items.
    fn was_added(&self, added: u64, depth: usize) {
        if let Some(measured) = self.0.measured.get() {
            measured.metrics.add(&families::QUEUE_ADDS, &[measured.name], added);
            measured.depth(depth);
        }
    }

    /// Adds an item after `delay` (before `time-scale`); an earlier pending time is kept.
    pub fn add_after(&self, item: T, delay: Duration) {
        // Each call counts as a retry, as in client-go (`AddAfter`).
        if let Some(measured) = self.0.measured.get() {
            measured.metrics.count(&families::QUEUE_RETRIES, &[measured.name]);
        }
        if delay.is_zero() {
            return self.add(item);
        }
        let at = self.0.ctx.now().mono + self.0.ctx.scaled(delay);
        let mut state = self.state();
        if let Some(&(present, number)) = state.waits.get(&item) {
            if present <= at {
                return;
            }
            state.waiting.remove(&(present, number, item.clone()));
        }
        state.number += 1;
        let number = state.number;
        state.waits.insert(item.clone(), (at, number));
        state.waiting.insert((at, number, item));
        drop(state);
        self.0.changed.notify_one();
    }

    /// Adds an item after its backoff, which grows with each call until [`forget`](Self::forget).
    pub fn add_rate_limited(&self, item: T) {
        let failures = {
            let mut state = self.state();
            let failures = state.failures.entry(item.clone()).or_default();
            *failures += 1;
            *failures
        };
        let delay = 2u32.checked_pow(failures - 1).and_then(|n| self.0.base.checked_mul(n)).unwrap_or(self.0.max);
        if mutant!(self.0.ctx, "retries-without-backoff") {
            return self.add_after(item, AT_ONCE);
        }
        self.add_after(item, delay.min(self.0.max));
    }

    /// Forgets the item's failures.
    pub fn forget(&self, item: &T) {
        self.state().failures.remove(item);
    }

    /// Returns how often the item was rate limited since it was last forgotten.
    pub fn requeues(&self, item: &T) -> u32 {
        self.state().failures.get(item).copied().unwrap_or_default()
    }

    /// Returns the outcome of a round: a failed one is retried `most` times, after which only a change starts it again
    /// (upstream's `maxRetries`).
    pub fn retried<E>(&self, item: &T, most: u32, round: Result<(), E>) -> Outcome {
        if round.is_ok() || self.requeues(item) >= most { Outcome::Done } else { Outcome::Retry }
    }

    /// Waits for an item. It must be returned with [`done`](Self::done).
    pub async fn get(&self) -> T {
        loop {
            let next = {
                let now = self.0.ctx.now().mono;
                let mut state = self.state();
                let added = state.promote(now);
                if added > 0 {
                    self.was_added(added, state.dirty.len());
                }
                if let Some(item) = state.ready.pop_front() {
                    let since = state.dirty.remove(&item);
                    if let (Some(measured), Some(since)) = (self.0.measured.get(), since) {
                        measured.was_taken(now.saturating_sub(since), state.dirty.len());
                    }
                    state.processing.insert(item.clone());
                    // Several items may have come due at once, with several waiting workers.
                    if !state.ready.is_empty() {
                        self.0.changed.notify_one();
                    }
                    return item;
                }
                state.waiting.first().map(|(at, _, _)| *at)
            };
            match next {
                None => self.0.changed.notified().await,
                Some(at) => tokio::select! { biased;
                    () = self.0.changed.notified() => {}
                    () = self.0.ctx.sleep_until(at) => {}
                },
            }
        }
    }

    /// Returns an item; it is queued again if it was added meanwhile.
    pub fn done(&self, item: &T) {
        let mut state = self.state();
        state.processing.remove(item);
        if state.dirty.contains_key(item) {
            state.ready.push_back(item.clone());
            drop(state);
            self.0.changed.notify_one();
        }
    }

    /// Processes items forever, at most `workers` at a time.
    pub async fn run<F>(self, workers: usize, handle: impl Fn(T) -> F + Send + 'static)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let free = Arc::new(Semaphore::new(workers.max(1)));
        loop {
            // The semaphore is never closed.
            let Ok(permit) = free.clone().acquire_owned().await else { return };
            let item = self.get().await;
            let work = handle(item.clone());
            let queue = self.clone();
            let began = self.0.ctx.now().mono;
            self.0.ctx.spawn(async move {
                let outcome = work.await;
                if let Some(Measured { name, metrics }) = queue.0.measured.get() {
                    let took = queue.0.ctx.now().mono.saturating_sub(began);
                    metrics.observe(&families::QUEUE_WORK, &[name], took);
                }
                match outcome {
                    Outcome::Done => queue.forget(&item),
                    Outcome::Retry => queue.add_rate_limited(item.clone()),
                    Outcome::After(delay) => {
                        queue.forget(&item);
                        queue.add_after(item.clone(), delay);
                    }
                }
                queue.done(&item);
                drop(permit);
            });
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.state.lock()
    }
}

impl<T: Ord + Clone> State<T> {
    /// Adds an item. Returns None if it already waits, and false if it must wait until it has been processed.
    fn add(&mut self, item: T, now: Duration) -> Option<bool> {
        if self.dirty.contains_key(&item) {
            return None;
        }
        self.dirty.insert(item.clone(), now);
        let is_ready = !self.processing.contains(&item);
        if is_ready {
            self.ready.push_back(item);
        }
        Some(is_ready)
    }

    /// Makes due items ready. Returns the number of new ones.
    fn promote(&mut self, now: Duration) -> u64 {
        let mut added = 0;
        while self.waiting.first().is_some_and(|(at, _, _)| *at <= now) {
            if let Some((_, _, item)) = self.waiting.pop_first() {
                self.waits.remove(&item);
                added += u64::from(self.add(item, now).is_some());
            }
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use std::future;

    use substrate::Process;
    use substrate::world::{Options, simulate};

    use super::*;

    #[test]
    fn a_queue_is_measured_as_in_client_go() {
        simulate(Options::default(), async |world| {
            let process = Process::start(&world, "loop", |_| future::pending());
            let ctx = process.ctx().expect("it runs");
            let second = Duration::from_secs(1);
            let queue = WorkQueue::new(&ctx, second, second).named("q");
            queue.add("a");
            ctx.sleep(2 * second).await;
            assert_eq!(queue.get().await, "a");
            // It is processed: the second of these additions changes nothing.
            queue.add("a");
            queue.add("a");
            queue.add_after("b", second);
            queue.add_rate_limited("c");
            let text = Metrics::of(&ctx).text();
            let samples = [
                "workqueue_adds_total{name=\"q\"} 2",
                "workqueue_depth{name=\"q\"} 1",
                "workqueue_queue_duration_seconds_sum{name=\"q\"} 2",
                "workqueue_queue_duration_seconds_count{name=\"q\"} 1",
                "workqueue_retries_total{name=\"q\"} 2",
            ];
            for sample in samples {
                assert!(text.contains(sample), "{sample}\n{text}");
            }
        });
    }
}
