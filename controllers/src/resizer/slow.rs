//! Claims with delayed retries (csi-lib-utils `slowset`).

use std::collections::BTreeMap;
use std::time::Duration;

use super::async_loop::Key;

/// Times at which claims failed with an infeasible error.
#[derive(Debug)]
pub(super) struct SlowSet {
    retention: Duration,
    since: BTreeMap<Key, Duration>,
}

impl SlowSet {
    /// Creates a set that drops each item after `retention`.
    pub(super) fn new(retention: Duration) -> Self {
        Self { retention, since: BTreeMap::new() }
    }

    /// Adds a claim; an existing entry keeps its time.
    pub(super) fn add(&mut self, key: &Key, now: Duration) {
        if self.remaining(key, now).is_none() {
            self.since.insert(key.clone(), now);
        }
    }

    /// Removes a claim.
    pub(super) fn remove(&mut self, key: &Key) {
        self.since.remove(key);
    }

    /// Returns the remaining delay of a claim; None if it is not delayed.
    pub(super) fn remaining(&self, key: &Key, now: Duration) -> Option<Duration> {
        let end = *self.since.get(key)? + self.retention;
        (now < end).then(|| end - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_leaves_after_its_time_and_keeps_the_first() {
        let (s, key) = (Duration::from_secs, ("shop".to_owned(), "data".to_owned()));
        let mut slow = SlowSet::new(s(300));
        assert_eq!(slow.remaining(&key, s(0)), None);
        slow.add(&key, s(10));
        slow.add(&key, s(200));
        assert_eq!(slow.remaining(&key, s(200)), Some(s(110)));
        assert_eq!(slow.remaining(&key, s(310)), None);
        slow.add(&key, s(310));
        assert_eq!(slow.remaining(&key, s(311)), Some(s(299)));
        slow.remove(&key);
        assert_eq!(slow.remaining(&key, s(311)), None);
    }
}
