//! Waits before a failed pod is replaced (`backoff_utils.go`).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::pods::finished_at;

/// First wait, and the longest one.
const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(600);

/// Failures of a Job since its last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
    last_failure: Option<Timestamp>,
}

impl Backoff {
    /// Adds pods that ended since the last round (`newBackoffRecord`).
    pub(super) fn after(self, succeeded: &[Arc<Pod>], failed: &[Arc<Pod>]) -> Self {
        let times = |pods: &[Arc<Pod>]| {
            let mut times: Vec<Timestamp> = pods.iter().map(|pod| finished_at(pod)).collect();
            times.sort_unstable();
            times
        };
        let failures = times(failed);
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        match times(succeeded).last() {
            None if failures.is_empty() => self,
            None => Self {
                failures: self.failures.saturating_add(number(failures.len())),
                last_failure: failures.last().copied(),
            },
            Some(success) => {
                let later: Vec<_> = failures.into_iter().filter(|at| at > success).collect();
                Self { failures: number(later.len()), last_failure: later.last().copied() }
            }
        }
    }

    /// Returns the time until the next pod may be created (`getRemainingTime`).
    pub(super) fn remaining(self, now: Timestamp) -> Duration {
        self.last_failure.map_or(Duration::ZERO, |last| remaining(self.failures, last, now))
    }
}

/// Returns the time until a pod may be created after so many failures, the last one at `last`
/// (`getRemainingTimeForFailuresCount`).
pub(super) fn remaining(failures: u32, last: Timestamp, now: Timestamp) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let wait = 2u32.checked_pow(doublings).and_then(|n| FIRST.checked_mul(n)).unwrap_or(LONGEST).min(LONGEST);
    let elapsed = now.duration_since(last);
    // A failure in the future makes the wait longer, as upstream.
    if elapsed.is_negative() { wait + elapsed.unsigned_abs() } else { wait.saturating_sub(elapsed.unsigned_abs()) }
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    fn pod(second: i64) -> Arc<Pod> {
        let at = crate::kube::time(Timestamp::from_second(second).unwrap());
        let ended = json!({ "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": 1, "finishedAt": at } } });
        Arc::new(from_value(json!({ "status": { "containerStatuses": [ended] } })).unwrap())
    }

    #[test]
    fn waits_double_until_a_success() {
        let now = Timestamp::from_second(100).unwrap();
        let one = Backoff::default().after(&[], &[pod(95)]);
        assert_eq!(one.remaining(now), Duration::from_secs(5));
        let two = one.after(&[], &[pod(100)]);
        assert_eq!(two.remaining(now), Duration::from_secs(20));
        assert_eq!(two.after(&[pod(100)], &[]).remaining(now), Duration::ZERO);
        assert_eq!(two.after(&[pod(90)], &[pod(80), pod(99)]).remaining(now), Duration::from_secs(9));
        assert_eq!(Backoff { failures: 40, last_failure: Some(now) }.remaining(now), LONGEST);
    }
}
