//! Operations in flight and in backoff (`nestedPendingOperations` and `exponentialbackoff` upstream).
//!
//! At most one operation runs per overlapping key. After a failure the same operation waits; another operation on the
//! same key does not.

use std::collections::BTreeMap;
use std::time::Duration;

/// Key of an operation. An empty pod or node overlaps with every pod or node of the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationKey {
    /// Unique volume name.
    pub volume: String,
    /// Unique pod name (uid), or empty.
    pub pod: String,
    /// Node name, or empty.
    pub node: String,
}

impl OperationKey {
    /// Creates a key for all pods and nodes of a volume.
    pub fn volume(volume: &str) -> Self {
        Self { volume: volume.to_owned(), ..Self::default() }
    }

    /// Creates a key for a volume on one node.
    pub fn on_node(volume: &str, node: &str) -> Self {
        Self { volume: volume.to_owned(), node: node.to_owned(), ..Self::default() }
    }

    /// Creates a key for a volume and one pod.
    pub fn for_pod(volume: &str, pod: &str) -> Self {
        Self { volume: volume.to_owned(), pod: pod.to_owned(), ..Self::default() }
    }

    /// Returns the borrowed key.
    pub fn get(&self) -> OperationKeyRef<'_> {
        OperationKeyRef { volume: &self.volume, pod: &self.pod, node: &self.node }
    }
}

/// Borrowed [`OperationKey`] for lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationKeyRef<'a> {
    /// Unique volume name.
    pub volume: &'a str,
    /// Unique pod name (uid), or empty.
    pub pod: &'a str,
    /// Node name, or empty.
    pub node: &'a str,
}

impl<'a> OperationKeyRef<'a> {
    /// Creates a key for all pods and nodes of a volume.
    pub fn volume(volume: &'a str) -> Self {
        Self { volume, pod: "", node: "" }
    }

    fn overlaps(self, other: OperationKeyRef<'_>) -> bool {
        let meets = |a: &str, b: &str| a.is_empty() || b.is_empty() || a == b;
        meets(self.pod, other.pod) && meets(self.node, other.node)
    }
}

impl From<OperationKeyRef<'_>> for OperationKey {
    fn from(key: OperationKeyRef<'_>) -> Self {
        Self { volume: key.volume.to_owned(), pod: key.pod.to_owned(), node: key.node.to_owned() }
    }
}

/// Reason why an operation may not start. Both are silent upstream: logged, no event.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum NotStarted {
    /// an operation on this volume is running
    Pending,
    /// the last try failed; no retry is permitted until {until:?}
    Backoff {
        /// Monotonic time from which a retry is permitted.
        until: Duration,
        /// The last error.
        error: String,
    },
}

#[derive(Clone, Debug)]
struct Operation {
    key: OperationKey,
    name: &'static str,
    running: bool,
    /// Wait before the next retry; zero before the first failure.
    backoff: Duration,
    failed_at: Duration,
    error: String,
}

impl Operation {
    /// Returns true within the backoff. Like upstream, the time since the failure must *exceed* the backoff.
    fn blocked(&self, now: Duration) -> bool {
        !self.backoff.is_zero() && now.saturating_sub(self.failed_at) <= self.backoff
    }

    /// Returns the first unblocked instant, with millisecond resolution.
    fn free_at(&self) -> Duration {
        if self.backoff.is_zero() { Duration::ZERO } else { self.failed_at + self.backoff + Duration::from_millis(1) }
    }
}

/// Table of operations in flight and in backoff.
#[derive(Clone, Debug)]
pub struct PendingOperations {
    initial: Duration,
    max: Duration,
    volumes: BTreeMap<String, Vec<Operation>>,
}

impl PendingOperations {
    /// Creates an empty table with backoff from `initial`, doubling, up to `max` (500 ms and 2 m 2 s upstream; pass
    /// them already divided by `time-scale`).
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, volumes: BTreeMap::new() }
    }

    /// Marks `name` as running on `key`.
    ///
    /// # Errors
    /// If an operation on an overlapping key runs, or `name` itself is in backoff on `key`.
    pub fn start(&mut self, now: Duration, key: &OperationKey, name: &'static str) -> Result<(), NotStarted> {
        let operations = self.volumes.entry(key.volume.clone()).or_default();
        if operations.iter().any(|op| op.running && op.key.get().overlaps(key.get())) {
            return Err(NotStarted::Pending);
        }
        let Some(op) = operations.iter_mut().find(|op| op.key == *key) else {
            operations.push(Operation {
                key: key.clone(),
                name,
                running: true,
                backoff: Duration::ZERO,
                failed_at: Duration::ZERO,
                error: String::new(),
            });
            return Ok(());
        };
        if op.name == name {
            if op.blocked(now) {
                return Err(NotStarted::Backoff { until: op.free_at(), error: op.error.clone() });
            }
        } else if op.blocked(now) {
            // A different operation starts without a backoff.
            op.backoff = Duration::ZERO;
            op.error.clear();
        }
        op.name = name;
        op.running = true;
        Ok(())
    }

    /// Records the end of the operation that runs on `key`.
    pub fn finish<E: ToString>(&mut self, now: Duration, key: &OperationKey, result: Result<(), E>) {
        let Some(operations) = self.volumes.get_mut(&key.volume) else { return };
        let Some(at) = operations.iter().position(|op| op.running && op.key == *key) else { return };
        match result {
            Ok(()) => {
                operations.swap_remove(at);
                if operations.is_empty() {
                    self.volumes.remove(&key.volume);
                }
            }
            Err(error) => {
                let op = &mut operations[at];
                op.running = false;
                op.backoff = if op.backoff.is_zero() { self.initial } else { (op.backoff * 2).min(self.max) };
                op.failed_at = now;
                op.error = error.to_string();
            }
        }
    }

    /// Cancels a start whose operation had no effect: no success, no failure, no backoff.
    pub fn cancel(&mut self, key: &OperationKey) {
        let Some(operations) = self.volumes.get_mut(&key.volume) else { return };
        if let Some(op) = operations.iter_mut().find(|op| op.running && op.key == *key) {
            op.running = false;
        }
        operations.retain(|op| op.running || !op.backoff.is_zero());
        if operations.is_empty() {
            self.volumes.remove(&key.volume);
        }
    }

    /// Returns true if an operation runs on an overlapping key.
    pub fn is_pending(&self, key: OperationKeyRef<'_>) -> bool {
        let operations = self.volumes.get(key.volume);
        operations.is_some_and(|ops| ops.iter().any(|op| op.running && op.key.get().overlaps(key)))
    }

    /// Returns the monotonic time until which backoff blocks `name` on `key`; None if it may start now.
    pub fn blocked_until(&self, now: Duration, key: OperationKeyRef<'_>, name: &str) -> Option<Duration> {
        let op = self.volumes.get(key.volume)?.iter().find(|op| op.key.get() == key && op.name == name)?;
        op.blocked(now).then(|| op.free_at())
    }

    /// Returns true if no operation runs (some may be in backoff).
    pub fn is_idle(&self) -> bool {
        !self.volumes.values().flatten().any(|op| op.running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> PendingOperations {
        PendingOperations::new(Duration::from_millis(500), Duration::from_secs(122))
    }

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn backoff_doubles_from_500_ms_to_two_minutes_two_seconds() {
        let (mut table, key) = (table(), OperationKey::volume("v"));
        let mut now = MS(0);
        let mut waits = Vec::new();
        for _ in 0..10 {
            assert_eq!(table.start(now, &key, "volume_attach"), Ok(()));
            table.finish(now, &key, Err("no"));
            let until = table.blocked_until(now, key.get(), "volume_attach").expect("in backoff");
            waits.push((until - now).as_millis() - 1);
            now = until;
        }
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 122_000, 122_000]);
    }

    #[test]
    fn a_retry_is_refused_up_to_and_at_the_end_of_its_backoff() {
        let (mut table, key) = (table(), OperationKey::volume("v"));
        assert_eq!(table.start(MS(0), &key, "volume_attach"), Ok(()));
        table.finish(MS(100), &key, Err("no"));
        assert!(matches!(table.start(MS(600), &key, "volume_attach"), Err(NotStarted::Backoff { .. })));
        assert_eq!(table.start(MS(601), &key, "volume_attach"), Ok(()));
    }

    #[test]
    fn a_failing_attach_does_not_delay_a_detach() {
        let (mut table, key) = (table(), OperationKey::volume("v"));
        assert_eq!(table.start(MS(0), &key, "volume_attach"), Ok(()));
        table.finish(MS(1), &key, Err("no"));
        assert_eq!(table.start(MS(2), &key, "volume_detach"), Ok(()));
        table.finish(MS(3), &key, Err("no"));
        // The detach's first failure starts its own backoff from the initial value.
        assert_eq!(table.blocked_until(MS(3), key.get(), "volume_detach"), Some(MS(504)));
    }

    #[test]
    fn keys_without_a_node_overlap_with_every_node() {
        let mut table = table();
        assert_eq!(table.start(MS(0), &OperationKey::on_node("v", "a"), "volume_attach"), Ok(()));
        assert_eq!(table.start(MS(0), &OperationKey::on_node("v", "b"), "volume_attach"), Ok(()));
        assert_eq!(table.start(MS(0), &OperationKey::volume("v"), "volume_detach"), Err(NotStarted::Pending));
        assert_eq!(table.start(MS(0), &OperationKey::on_node("w", "a"), "volume_attach"), Ok(()));
    }

    #[test]
    fn success_clears_the_record() {
        let (mut table, key) = (table(), OperationKey::volume("v"));
        assert_eq!(table.start(MS(0), &key, "volume_attach"), Ok(()));
        assert!(table.is_pending(key.get()));
        table.finish::<String>(MS(1), &key, Ok(()));
        assert!(!table.is_pending(key.get()) && table.is_idle());
        assert_eq!(table.start(MS(1), &key, "volume_attach"), Ok(()));
    }
}
