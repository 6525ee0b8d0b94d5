//! Time of the next Job (`mostRecentScheduleTime`, `nextScheduleTimeDuration`).

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJob;

use super::schedule::Schedule;

/// Number of missed times from which on an Event says so.
const MANY: i64 = 100;
/// Time by which a worker is later than the schedule (`nextScheduleDelta`).
const DELAY: SignedDuration = SignedDuration::from_millis(100);

/// Scheduled times up to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// Time from which on they are counted.
    earliest: Timestamp,
    /// The latest of them.
    pub(super) latest: Option<Timestamp>,
    /// Their number, estimated.
    missed: i64,
}

impl Due {
    /// Returns true if too many times were missed.
    pub(super) fn are_many(self) -> bool {
        self.missed > MANY
    }
}

/// Returns the scheduled times since the last one that was used. With `deadline`, times before the starting deadline do
/// not count. Returns none for a schedule that never occurs, such as 31 February.
pub(super) fn due(cron: &CronJob, schedule: &Schedule, now: Timestamp, deadline: bool) -> Option<Due> {
    let last = cron.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
    let begin = last.or(cron.metadata.creation_timestamp.as_ref());
    let mut earliest = begin.map_or(now, |begin| begin.0);
    if let Some(seconds) = cron.spec.starting_deadline_seconds.filter(|_| deadline) {
        let limit = now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(earliest);
        earliest = earliest.max(limit);
    }
    let first = schedule.next(earliest)?;
    if first > now {
        return Some(Due { earliest, latest: None, missed: 0 });
    }
    let second = schedule.next(first)?;
    if second > now {
        return Some(Due { earliest, latest: Some(first), missed: 0 });
    }
    let between = second.duration_since(first).as_secs().max(1);
    let missed = now.duration_since(first).as_secs() / between + 1;
    let jump = SignedDuration::from_secs((missed - 2) * between);
    let (mut at, mut latest) = (first.checked_add(jump).unwrap_or(first), None);
    while let Some(next) = schedule.next(at).filter(|next| *next <= now) {
        (at, latest) = (next, Some(next));
    }
    Some(Due { earliest, latest, missed })
}

/// Returns the time until the next scheduled time; none if there is none.
pub(super) fn until_next(cron: &CronJob, schedule: &Schedule, now: Timestamp) -> Option<Duration> {
    let due = due(cron, schedule, now, false)?;
    let from = due.latest.unwrap_or(if due.missed == 0 { due.earliest } else { now });
    let wait = schedule.next(from)?.checked_add(DELAY).ok()?.duration_since(now);
    Some(if wait.is_negative() { Duration::ZERO } else { wait.unsigned_abs() })
}

/// Writes a scheduled time with the offset of its zone (RFC 3339).
pub(super) fn written(at: Timestamp, zone: &TimeZone) -> String {
    let offset = zone.to_offset(at);
    if offset.is_zero() { at.to_string() } else { at.display_with_offset(offset).to_string() }
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    fn cron(deadline: Option<i64>) -> CronJob {
        from_value(json!({
            "metadata": { "name": "c", "creationTimestamp": "2026-01-01T00:00:30Z" },
            "spec": {
                "schedule": "*/1 * * * *", "startingDeadlineSeconds": deadline,
                "jobTemplate": { "spec": { "template": { "spec": { "containers": [] } } } },
            },
        }))
        .unwrap()
    }

    #[test]
    fn the_latest_missed_time_counts_within_the_deadline() {
        let schedule = Schedule::parse("*/1 * * * *").unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let latest = |deadline, now: &str| due(&cron(deadline), &schedule, at(now), true).unwrap().latest;
        assert_eq!(latest(None, "2026-01-01T00:00:59Z"), None);
        assert_eq!(latest(None, "2026-01-01T00:01:00Z"), Some(at("2026-01-01T00:01:00Z")));
        assert_eq!(latest(None, "2026-01-01T03:30:10Z"), Some(at("2026-01-01T03:30:00Z")));
        assert_eq!(latest(Some(5), "2026-01-01T03:30:10Z"), None);
        assert!(due(&cron(None), &schedule, at("2026-01-01T03:30:10Z"), true).unwrap().are_many());
        let wait = until_next(&cron(None), &schedule, at("2026-01-01T00:00:59Z"));
        assert_eq!(wait, Some(Duration::from_millis(1100)));
        let never = Schedule::parse("59 23 31 2 *").unwrap();
        assert_eq!(due(&cron(None), &never, at("2026-01-01T03:30:10Z"), true), None);
    }
    #[test]
    fn a_scheduled_time_is_written_in_its_zone() {
        let at = "2026-01-01T14:30:00Z".parse().unwrap();
        assert_eq!(written(at, &TimeZone::UTC), "2026-01-01T14:30:00Z");
        assert_eq!(written(at, &TimeZone::posix("EST5").unwrap()), "2026-01-01T09:30:00-05:00");
    }
}
