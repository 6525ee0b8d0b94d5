//! Schedule of compactions of the history: every tenth of an interval, up to the revision of an interval ago.
//!
//! etcd's client in the API server (apiserver `storage/etcd3/compact.go`) compacts once per interval, up to the
//! revision of the interval before, and so keeps between one and two intervals. Compacting every tenth keeps nearly
//! half of that.

use std::collections::VecDeque;
use std::time::Duration;

/// Number of compactions per interval.
const STEPS: u32 = 10;

/// The clock of compactions.
#[derive(Debug)]
pub(super) struct Compactor {
    interval: Duration,
    /// Time of the next compaction; `None` before the first call of `begin`, and if compaction is off.
    next: Option<Duration>,
    /// Newest revision at each step of the last interval, oldest first, with the time of the step.
    seen: VecDeque<(Duration, u64)>,
}

impl Compactor {
    /// Creates a schedule that keeps at least `interval` of history. With zero it never compacts.
    pub fn new(interval: Duration) -> Self {
        Self { interval, next: None, seen: VecDeque::new() }
    }

    /// Starts the schedule, the first time that it is called: the first step is due a tenth of the interval later.
    pub fn begin(&mut self, now: Duration) {
        if self.next.is_none() && !self.interval.is_zero() {
            self.next = Some(now + self.step());
        }
    }

    fn step(&self) -> Duration {
        (self.interval / STEPS).max(Duration::from_nanos(1))
    }

    /// Returns the time of the next compaction.
    pub fn due(&self) -> Option<Duration> {
        self.next
    }

    /// Does the steps that are due up to `until`, with `revision` as the newest revision. Returns the revision to
    /// compact up to.
    pub fn pass(&mut self, until: Duration, revision: u64) -> Option<u64> {
        let next = self.next.filter(|next| *next <= until)?;
        // Several steps may be due at once. The revision did not change between them.
        let more = (until - next).as_nanos() / self.step().as_nanos();
        let last = next.saturating_add(self.step().saturating_mul(u32::try_from(more).unwrap_or(u32::MAX)));
        self.next = Some(last.saturating_add(self.step()));
        self.seen.push_back((next, revision));
        if last > next {
            self.seen.push_back((last, revision));
        }
        let mut compacted = None;
        while let Some((at, revision)) = self.seen.front().copied()
            && at.saturating_add(self.interval) <= last
        {
            compacted = Some(revision);
            self.seen.pop_front();
        }
        compacted.filter(|revision| *revision > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_up_to_the_revision_of_an_interval_ago() {
        let seconds = Duration::from_secs;
        let mut compactor = Compactor::new(seconds(300));
        assert_eq!(compactor.due(), None);
        compactor.begin(seconds(7));
        assert_eq!((compactor.due(), compactor.pass(seconds(36), 5)), (Some(seconds(37)), None));
        // For the first interval it only records revisions.
        for step in 1..=10 {
            assert_eq!(compactor.pass(seconds(7 + 30 * step), 10 * step), None);
        }
        assert_eq!((compactor.pass(seconds(337), 110), compactor.pass(seconds(338), 115)), (Some(10), None));
        assert_eq!(compactor.pass(seconds(367), 120), Some(20));
        // Several steps may be due at once. The revision did not change between them.
        assert_eq!((compactor.pass(seconds(1600), 130), compactor.due()), (Some(130), Some(seconds(1627))));
        assert!(compactor.seen.len() <= 2);
    }

    #[test]
    fn an_interval_of_zero_is_never_over() {
        let mut compactor = Compactor::new(Duration::ZERO);
        compactor.begin(Duration::ZERO);
        assert_eq!((compactor.due(), compactor.pass(Duration::MAX, 9)), (None, None));
    }
}
