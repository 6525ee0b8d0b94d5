//! When the history is compacted: every tenth of an interval, up to the revision of an interval ago.
//!
//! etcd's client in the API server (apiserver `storage/etcd3/compact.go`) does it once in an interval, up to the revision
//! of the one before, and so holds between one and two intervals. Tenths hold nearly half of that.

use std::collections::VecDeque;
use std::time::Duration;

/// So many times in an interval.
const STEPS: u32 = 10;

/// The clock of compactions.
#[derive(Debug)]
pub(super) struct Compactor {
    interval: Duration,
    /// When the next one is due; none before the machine heard of the time, and where nothing is ever compacted.
    next: Option<Duration>,
    /// The revisions of the last interval, oldest first, and when they were the newest.
    seen: VecDeque<(Duration, u64)>,
}

impl Compactor {
    /// One that lets lists go back for `interval`; it compacts never for zero.
    pub fn new(interval: Duration) -> Self {
        Self { interval, next: None, seen: VecDeque::new() }
    }

    /// The first is due a step from the first time that it hears of.
    pub fn begin(&mut self, now: Duration) {
        if self.next.is_none() && !self.interval.is_zero() {
            self.next = Some(now + self.step());
        }
    }

    fn step(&self) -> Duration {
        (self.interval / STEPS).max(Duration::from_nanos(1))
    }

    /// When it is due.
    pub fn due(&self) -> Option<Duration> {
        self.next
    }

    /// Does all that are due up to `until`, while the newest revision is `revision`: up to which revision the history
    /// goes.
    pub fn pass(&mut self, until: Duration, revision: u64) -> Option<u64> {
        let next = self.next.filter(|next| *next <= until)?;
        // Who slept through several finds that nothing happened between them.
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
        // For an interval it only remembers.
        for step in 1..=10 {
            assert_eq!(compactor.pass(seconds(7 + 30 * step), 10 * step), None);
        }
        assert_eq!((compactor.pass(seconds(337), 110), compactor.pass(seconds(338), 115)), (Some(10), None));
        assert_eq!(compactor.pass(seconds(367), 120), Some(20));
        // Who slept through several finds that nothing happened between them.
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
