//! Grid of a periodic loop that sleeps while its inputs cannot change.

use std::time::Duration;

/// Instants at which a loop of a fixed period would run. A loop that skips idle instants looks from outside like
/// upstream's, which never skips.
#[derive(Clone, Copy, Debug)]
pub struct TickSchedule {
    start: Duration,
    period: Duration,
}

impl TickSchedule {
    /// Creates a grid from the monotonic time `start`; `period` is already divided by `time-scale`.
    pub fn new(start: Duration, period: Duration) -> Self {
        Self { start, period: period.max(Duration::from_nanos(1)) }
    }

    /// Returns the first instant of the grid at or after `at` and after `last`.
    pub fn at_or_after(&self, at: Duration, last: Option<Duration>) -> Duration {
        let since = at.saturating_sub(self.start).as_nanos();
        let period = self.period.as_nanos();
        let mut steps = since.div_ceil(period);
        if let Some(last) = last {
            steps = steps.max(last.saturating_sub(self.start).as_nanos() / period + 1);
        }
        // Five hundred years fit in u64 nanoseconds.
        self.start + Duration::from_nanos(u64::try_from(steps * period).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn instants_are_rounded_up_and_never_repeated() {
        let ticks = TickSchedule::new(MS(7), MS(100));
        assert_eq!(ticks.at_or_after(MS(7), None), MS(7));
        assert_eq!(ticks.at_or_after(MS(8), None), MS(107));
        assert_eq!(ticks.at_or_after(MS(107), Some(MS(107))), MS(207));
        assert_eq!(ticks.at_or_after(MS(350), Some(MS(107))), MS(407));
    }
}
