//! Exponential backoff with seeded jitter.

use std::time::Duration;

use rand_core::Rng;
use substrate::seed::unit;

/// Backoff that grows from `initial` by `factor` up to `cap`, and restarts after `reset` without a call.
#[derive(Clone, Debug)]
pub struct Backoff {
    initial: Duration,
    cap: Duration,
    factor: f64,
    jitter: f64,
    reset: Duration,
    current: Duration,
    last: Option<Duration>,
}

impl Backoff {
    /// Creates a backoff. Each step is stretched by a random part of up to `jitter` (1.0 at most doubles it).
    pub fn new(initial: Duration, cap: Duration, factor: f64, jitter: f64, reset: Duration) -> Self {
        Self { initial, cap, factor, jitter, reset, current: initial, last: None }
    }

    /// Returns the backoff of client-go's reflector: 800 ms → 30 s, doubling, jitter 1.0, reset after 2 min.
    pub fn reflector() -> Self {
        let s = Duration::from_secs;
        Self::new(Duration::from_millis(800), s(30), 2.0, 1.0, s(120))
    }

    /// Returns the next wait. `now` is monotonic time, for the reset.
    pub fn next(&mut self, now: Duration, rng: &mut impl Rng) -> Duration {
        if self.last.is_some_and(|last| now.saturating_sub(last) > self.reset) {
            self.current = self.initial;
        }
        self.last = Some(now);
        let step = self.current;
        self.current = step.mul_f64(self.factor).min(self.cap);
        if self.jitter > 0.0 { step + step.mul_f64(self.jitter * unit(rng)) } else { step }
    }
}

#[cfg(test)]
mod tests {
    use substrate::Seed;

    use super::*;

    #[test]
    fn steps_double_up_to_the_cap_and_reset_when_quiet() {
        let mut rng = Seed::root(1).rng();
        let (s, ms) = (Duration::from_secs, Duration::from_millis);
        let mut backoff = Backoff::new(ms(800), s(30), 2.0, 0.0, s(120));
        let mut steps: Vec<u64> = (0..7).map(|i| backoff.next(s(i), &mut rng).as_millis() as u64).collect();
        steps.push(backoff.next(s(6 + 121), &mut rng).as_millis() as u64);
        assert_eq!(steps, [800, 1600, 3200, 6400, 12800, 25600, 30000, 800]);
    }
}
