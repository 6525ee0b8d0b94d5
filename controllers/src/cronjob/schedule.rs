//! Schedules (`robfig/cron`, `ParseStandard`).

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Number of days after which the search for the next time ends.
const MOST_DAYS: usize = 5 * 366;
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A schedule in a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    times: Times,
    zone: TimeZone,
}

/// Times of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    /// Times of the calendar.
    Calendar(Calendar),
    /// Times at a fixed distance.
    Every(SignedDuration),
}

/// Times that match five fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Calendar {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// Numbers of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Field {
    /// A bit for each number.
    bits: u64,
    /// True if the field has a star without a step.
    star: bool,
}

impl Schedule {
    /// Parses a schedule in UTC.
    ///
    /// # Errors
    /// The reason why the text is none.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(every) = text.strip_prefix("@every ") {
            let seconds = seconds(every).ok_or_else(|| format!("failed to parse duration {text}"))?;
            let times = Times::Every(SignedDuration::from_secs(seconds.max(1)));
            return Ok(Self { times, zone: TimeZone::UTC });
        }
        let fields: Vec<&str> = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        }
        .split_whitespace()
        .collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        };
        let calendar = Calendar {
            minutes: Field::parse(minutes, (0, 59), &[])?,
            hours: Field::parse(hours, (0, 23), &[])?,
            days: Field::parse(days, (1, 31), &[])?,
            months: Field::parse(months, (1, 12), &MONTHS)?,
            weekdays: Field::parse(weekdays, (0, 6), &WEEKDAYS)?,
        };
        Ok(Self { times: Times::Calendar(calendar), zone: TimeZone::UTC })
    }

    /// Returns the same schedule in another time zone.
    pub(super) fn in_zone(self, zone: TimeZone) -> Self {
        Self { zone, ..self }
    }

    /// Returns the first time after `at`; none if there is none within five years.
    pub(super) fn next(&self, at: Timestamp) -> Option<Timestamp> {
        match self.times {
            Times::Every(every) => Timestamp::from_second(at.as_second()).ok()?.checked_add(every).ok(),
            Times::Calendar(calendar) => calendar.next(at, &self.zone),
        }
    }
}

impl Calendar {
    /// Returns the first minute after `at` that matches in `zone`. A local time that occurs twice matches twice, and one
    /// that a change of the clock skips does not match.
    fn next(self, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let later = |at: Timestamp, minutes: i8| at.checked_add(SignedDuration::from_mins(minutes.into())).ok();
        let mut next = Timestamp::from_second(later(at, 1)?.as_second()).ok()?;
        next = next.checked_sub(SignedDuration::from_secs(zone.to_datetime(next).second().into())).ok()?;
        let mut days = 0;
        while days < MOST_DAYS {
            let local = zone.to_datetime(next);
            next = if !self.months.has(local.month()) || !self.is_day(local.date()) {
                days += 1;
                let midnight = local.date().tomorrow().ok()?.at(0, 0, 0, 0);
                zone.to_ambiguous_timestamp(midnight).compatible().ok()?
            } else if !self.hours.has(local.hour()) {
                days += usize::from(local.hour() == 23);
                later(next, 60 - local.minute())?
            } else if !self.minutes.has(local.minute()) {
                days += usize::from((local.hour(), local.minute()) == (23, 59));
                later(next, 1)?
            } else {
                return Some(next);
            };
        }
        None
    }

    /// Returns true if a date matches. If both the day and the weekday are restricted, one of them is enough.
    fn is_day(&self, date: Date) -> bool {
        let day = self.days.has(date.day());
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        if self.days.star || self.weekdays.star { day && weekday } else { day || weekday }
    }
}

impl Field {
    fn parse(text: &str, (least, most): (i8, i8), names: &[&str]) -> Result<Self, String> {
        let value = |word: &str| -> Result<i8, String> {
            let named = names.iter().position(|name| name.eq_ignore_ascii_case(word));
            match named.and_then(|at| i8::try_from(at).ok()) {
                Some(at) => Ok(at + least),
                None => word.parse().map_err(|_| format!("failed to parse int from {word}")),
            }
        };
        let mut field = Self::default();
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => {
                    let step: u8 = step.parse().map_err(|_| format!("failed to parse int from {step}"))?;
                    (range, Some(step))
                }
                None => (part, None),
            };
            let (begin, end) = if matches!(range, "*" | "?") {
                field.star |= step.unwrap_or(1) <= 1;
                (least, most)
            } else if let Some((begin, end)) = range.split_once('-') {
                (value(begin)?, value(end)?)
            } else {
                let begin = value(range)?;
                (begin, if step.is_some() { most } else { begin })
            };
            if begin < least {
                return Err(format!("beginning of range ({begin}) below minimum ({least}): {part}"));
            }
            if end > most {
                return Err(format!("end of range ({end}) above maximum ({most}): {part}"));
            }
            if begin > end {
                return Err(format!("beginning of range ({begin}) beyond end of range ({end}): {part}"));
            }
            if step == Some(0) {
                return Err(format!("step of range should be a positive number: {part}"));
            }
            for number in (begin..=end).step_by(usize::from(step.unwrap_or(1))) {
                field.bits |= 1_u64 << number;
            }
        }
        Ok(field)
    }

    fn has(self, number: i8) -> bool {
        (self.bits >> number) & 1 == 1
    }
}

/// Parses a duration of hours, minutes and seconds (`1h30m`).
fn seconds(text: &str) -> Option<i64> {
    let (mut sum, mut digits) = (0_i64, String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        sum = sum.checked_add(digits.parse::<i64>().ok()?.checked_mul(unit)?)?;
        digits.clear();
    }
    digits.is_empty().then_some(sum)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("*/1 * * * ?", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")]
    #[case("*/15 * * * *", "2026-01-01T00:46:10Z", "2026-01-01T01:00:00Z")]
    #[case("30 2 29 feb *", "2026-01-01T00:00:00Z", "2028-02-29T02:30:00Z")]
    #[case("0 9-17/4 * * MON-FRI", "2026-01-02T17:00:00Z", "2026-01-05T09:00:00Z")]
    #[case("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")]
    #[case("@monthly", "2026-01-31T23:59:59Z", "2026-02-01T00:00:00Z")]
    #[case("@every 1h30m", "2026-01-01T00:00:00.5Z", "2026-01-01T01:30:00Z")]
    fn the_next_time_is_that_of_cron(#[case] schedule: &str, #[case] from: &str, #[case] next: &str) {
        let found = Schedule::parse(schedule).unwrap().next(from.parse().unwrap());
        assert_eq!(found, Some(next.parse().unwrap()));
    }

    /// New York: the clock changes at 07:00 UTC on 8 March 2026, and at 06:00 UTC on 1 November 2026.
    #[rstest]
    #[case("30 9 * * *", "2026-01-05T14:30:00Z", "2026-01-06T14:30:00Z")]
    #[case("30 9 * * *", "2026-03-08T00:00:00Z", "2026-03-08T13:30:00Z")]
    #[case("0 0 * * *", "2026-01-01T00:00:00Z", "2026-01-01T05:00:00Z")]
    #[case("30 2 * * *", "2026-03-08T05:00:00Z", "2026-03-09T06:30:00Z")]
    #[case("30 1 * * *", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z")]
    #[case("*/20 * 1 11 *", "2026-11-01T05:50:00Z", "2026-11-01T06:00:00Z")]
    fn a_zone_has_its_own_hours(#[case] schedule: &str, #[case] from: &str, #[case] next: &str) {
        let zone = TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap();
        let found = Schedule::parse(schedule).unwrap().in_zone(zone).next(from.parse().unwrap());
        assert_eq!(found, Some(next.parse().unwrap()));
    }

    #[test]
    fn a_schedule_that_is_none_has_a_reason_and_one_without_a_time_has_none() {
        for (text, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("x * * * *", "failed to parse int from x"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
        ] {
            assert_eq!(Schedule::parse(text), Err(why.to_owned()));
        }
        let never = Schedule::parse("0 0 31 2 *").unwrap();
        assert_eq!(never.next(Timestamp::UNIX_EPOCH), None);
    }
}
