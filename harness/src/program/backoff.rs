//! CrashLoopBackOff, as in kubelet (`k8s.io/client-go/util/flowcontrol`, `Backoff`, used by `doBackOff` of
//! `pkg/kubelet/kuberuntime`). The first restart is immediate, the next one comes after ten seconds, and each further
//! one waits twice as long, at most five minutes. After ten minutes without an end the backoff is reset.

use std::time::Duration;

/// Wait before the second restart.
const INITIAL: Duration = Duration::from_secs(10);
/// Maximum wait.
const MOST: Duration = Duration::from_secs(5 * 60);

/// Backoff of one program, in the time of the scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct Backoff {
    entry: Option<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    wait: Duration,
    since: Duration,
}

impl Entry {
    fn has_expired(self, at: Duration) -> bool {
        at.saturating_sub(self.since) > MOST * 2
    }
}

impl Backoff {
    /// Returns the wait, from `now` on, of a program that ended at `ended`, and counts the restart that follows.
    pub fn restart(&mut self, ended: Duration, now: Duration) -> Duration {
        let known = self.entry.filter(|entry| !entry.has_expired(ended));
        let wait = known.map_or(Duration::ZERO, |entry| (ended + entry.wait).saturating_sub(now));
        let next = known.map_or(INITIAL, |entry| (entry.wait * 2).min(MOST));
        self.entry = Some(Entry { wait: next, since: now + wait });
        wait
    }

    /// Forgets the restarts so far, because a user starts the program by hand.
    pub fn forget(&mut self) {
        self.entry = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn a_program_that_ends_at_once_waits_twice_as_long_each_time() {
        let mut backoff = Backoff::default();
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        for _ in 0..8 {
            let wait = backoff.restart(now, now);
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
        backoff.forget();
        assert_eq!(backoff.restart(now, now), Duration::ZERO);
    }

    #[test]
    fn the_wait_counts_from_the_end_of_the_program() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.restart(secs(0), secs(0)), secs(0));
        assert_eq!(backoff.restart(secs(4), secs(6)), secs(8));
        // The program ran for longer than its wait, so there is nothing left to wait.
        assert_eq!(backoff.restart(secs(60), secs(81)), secs(0));
        // It ran for more than ten minutes: the next end counts as the first.
        assert_eq!(backoff.restart(secs(800), secs(800)), secs(0));
        assert_eq!(backoff.restart(secs(800), secs(800)), secs(10));
    }
}
