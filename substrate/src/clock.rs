//! The clock of a world: monotonic time since its start, wall time, and the scale of waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::fault::Faults;
pub use crate::scale::TimeScale;

/// A reading of the clock, which pure state machines take as `now`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Time since the world began. Deadlines use it.
    pub mono: Duration,
    /// Wall time, for timestamps in objects (creationTimestamp, attachTime, leases).
    pub wall: Timestamp,
}

impl Now {
    /// Returns a reading at `mono` after the simulated epoch, for tests of pure state machines.
    pub fn at(mono: Duration) -> Self {
        Self { mono, wall: add(epoch(), mono) }
    }
}

/// Returns the wall time at which every simulation begins: 2026-01-01T00:00:00Z.
pub fn epoch() -> Timestamp {
    // This constant is within jiff's range.
    Timestamp::from_second(1_767_225_600).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn add(t: Timestamp, d: Duration) -> Timestamp {
    // Without jiff's arithmetic, since every step of a simulation reads the clock.
    let nanoseconds = t.subsec_nanosecond() + d.subsec_nanos().cast_signed();
    let carried = nanoseconds / 1_000_000_000;
    let whole = i64::try_from(d.as_secs()).ok().and_then(|s| t.as_second().checked_add(s));
    let seconds = whole.and_then(|s| s.checked_add(i64::from(carried)));
    seconds.and_then(|s| Timestamp::new(s, nanoseconds % 1_000_000_000).ok()).unwrap_or(Timestamp::MAX)
}

/// Cached reading of a simulation's clock. It is valid until the runtime has waited, because virtual time advances only
/// then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading(Arc<AtomicU64>);

impl Reading {
    /// Invalidates the cached reading.
    pub(crate) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns the cached reading, or calls `read`. Stored in nanoseconds plus one, since zero means that there is
    /// none.
    fn or_else(&self, read: impl FnOnce() -> Duration) -> Duration {
        match self.0.load(Ordering::Relaxed) {
            0 => {
                let mono = read();
                let nanoseconds = u64::try_from(mono.as_nanos()).unwrap_or(u64::MAX - 1);
                self.0.store(nanoseconds.saturating_add(1), Ordering::Relaxed);
                mono
            }
            known => Duration::from_nanos(known - 1),
        }
    }
}

/// Reads time. Cheap to clone; all clones of one world agree.
#[derive(Clone, Debug)]
pub struct Clock {
    origin: tokio::time::Instant,
    simulated: bool,
    /// Cached reading, if the runtime invalidates it when it has waited.
    reading: Option<Reading>,
    /// Faults that skew the wall time, and the process whose clock this is.
    skew: Option<(Faults, Arc<str>)>,
}

impl Clock {
    /// Creates a clock of virtual time. Must be called inside a runtime with a paused clock.
    pub fn simulated() -> Self {
        Self { origin: tokio::time::Instant::now(), simulated: true, reading: None, skew: None }
    }

    /// Creates a clock of virtual time in a runtime that invalidates `reading` whenever it has waited.
    pub(crate) fn simulated_by(reading: Reading) -> Self {
        Self { reading: Some(reading), ..Self::simulated() }
    }

    /// Creates a clock of real time.
    pub fn live() -> Self {
        Self { origin: tokio::time::Instant::now(), simulated: false, reading: None, skew: None }
    }

    /// Returns the clock of the process `name` of the same world. Faults of the plane `clock` skew its wall time.
    pub(crate) fn of_process(&self, faults: &Faults, name: &Arc<str>) -> Self {
        Self { skew: Some((faults.clone(), name.clone())), ..self.clone() }
    }

    /// Reads both times at once.
    pub fn now(&self) -> Now {
        let mono = self.mono();
        let base = if self.simulated { add(epoch(), mono) } else { Timestamp::now() };
        let skew = self.skew.as_ref().map_or(0, |(faults, name)| faults.skew_ms(mono, name));
        let wall = match skew {
            0 => base,
            skew => base.checked_add(SignedDuration::from_millis(skew)).unwrap_or(base),
        };
        Now { mono, wall }
    }

    /// Returns the time since the world began.
    pub fn mono(&self) -> Duration {
        match &self.reading {
            Some(reading) => reading.or_else(|| self.origin.elapsed()),
            None => self.origin.elapsed(),
        }
    }

    /// Returns the wall time.
    pub fn wall(&self) -> Timestamp {
        self.now().wall
    }

    /// Waits until the monotonic time is at least `mono`.
    pub async fn sleep_until(&self, mono: Duration) {
        tokio::time::sleep_until(self.origin + mono).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_that_of_the_calendar_and_ends_at_its_end() {
        for (at, after) in
            [(0, 0), (1, 999_999_999), (999_999_999, 1), (500_000_000, 1_700_000_000), (7, 86_400_000_000_001)]
        {
            let (t, d) = (Timestamp::new(1_767_225_600, at).unwrap(), Duration::from_nanos(after));
            assert_eq!(add(t, d), t.checked_add(SignedDuration::try_from(d).unwrap()).unwrap());
        }
        for far in [Duration::MAX, Duration::from_secs(i64::MAX.unsigned_abs()), Duration::from_secs(1 << 45)] {
            assert_eq!(add(epoch(), far), Timestamp::MAX);
        }
    }
}
