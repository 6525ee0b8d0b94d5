//! When the history is compacted (apiserver `storage/etcd3/compact.go`): at every interval up to the revision of the one
//! before, so that between one and two intervals of it are there.

use std::time::Duration;

/// The clock of compactions.
#[derive(Debug)]
pub(super) struct Compactor {
    interval: Duration,
    /// When the next one is due; none before the machine heard of the time, and where nothing is ever compacted.
    next: Option<Duration>,
    /// The revision at the last one.
    seen: u64,
}

impl Compactor {
    /// One that compacts every `interval`; never for zero.
    pub fn new(interval: Duration) -> Self {
        Self { interval, next: None, seen: 0 }
    }

    /// The first compaction is due an interval from the first time that it hears of.
    pub fn begin(&mut self, now: Duration) {
        if self.next.is_none() && !self.interval.is_zero() {
            self.next = Some(now + self.interval);
        }
    }

    /// When it is due.
    pub fn due(&self) -> Option<Duration> {
        self.next
    }

    /// Does all that are due up to `until`, while the newest revision is `revision`: up to which revision the history
    /// goes.
    pub fn pass(&mut self, until: Duration, revision: u64) -> Option<u64> {
        let next = self.next.filter(|next| *next <= until)?;
        let more = (until - next).as_nanos() / self.interval.as_nanos().max(1);
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let compacted = if more == 0 { self.seen } else { revision };
        self.seen = revision;
        self.next = Some(next + self.interval.saturating_mul(more.saturating_add(1)));
        Some(compacted).filter(|revision| *revision > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_up_to_the_revision_of_the_interval_before() {
        let seconds = Duration::from_secs;
        let mut compactor = Compactor::new(seconds(300));
        assert_eq!(compactor.due(), None);
        compactor.begin(seconds(7));
        assert_eq!((compactor.due(), compactor.pass(seconds(306), 5)), (Some(seconds(307)), None));
        // The first only remembers.
        assert_eq!(compactor.pass(seconds(307), 10), None);
        assert_eq!((compactor.pass(seconds(607), 20), compactor.pass(seconds(608), 30)), (Some(10), None));
        // Who slept through several finds that nothing happened between them.
        assert_eq!((compactor.pass(seconds(1600), 40), compactor.due()), (Some(40), Some(seconds(1807))));
    }

    #[test]
    fn an_interval_of_zero_is_never_over() {
        let mut compactor = Compactor::new(Duration::ZERO);
        compactor.begin(Duration::ZERO);
        assert_eq!((compactor.due(), compactor.pass(Duration::MAX, 9)), (None, None));
    }
}
