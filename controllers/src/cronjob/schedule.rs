//! Schedules (`robfig/cron`, `ParseStandard`).

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Number of days after which the search for the next time ends.
const MOST_DAYS: usize = 5 * 366;
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    /// Times of the calendar.
    Calendar(Calendar),
    /// Times at a fixed distance.
    Every(SignedDuration),
}

/// Times that match five fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Calendar {
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
    /// Parses a schedule.
    ///
    /// # Errors
    /// The reason why the text is none.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(every) = text.strip_prefix("@every ") {
            let seconds = seconds(every).ok_or_else(|| format!("failed to parse duration {text}"))?;
            return Ok(Self::Every(SignedDuration::from_secs(seconds.max(1))));
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
        Ok(Self::Calendar(Calendar {
            minutes: Field::parse(minutes, (0, 59), &[])?,
            hours: Field::parse(hours, (0, 23), &[])?,
            days: Field::parse(days, (1, 31), &[])?,
            months: Field::parse(months, (1, 12), &MONTHS)?,
            weekdays: Field::parse(weekdays, (0, 6), &WEEKDAYS)?,
        }))
    }

    /// Returns the first time after `at`; none if there is none within five years.
    pub(super) fn next(&self, at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(every) => Timestamp::from_second(at.as_second()).ok()?.checked_add(*every).ok(),
            Self::Calendar(calendar) => calendar.next(at),
        }
    }
}

impl Calendar {
    fn next(&self, at: Timestamp) -> Option<Timestamp> {
        let from = TimeZone::UTC.to_datetime(at.checked_add(SignedDuration::from_secs(60)).ok()?);
        let (mut date, mut hour, mut minute) = (from.date(), from.hour(), from.minute());
        for _ in 0..MOST_DAYS {
            if self.months.has(date.month()) && self.is_day(date) {
                for later in (hour..24).filter(|later| self.hours.has(*later)) {
                    let begin = if later == hour { minute } else { 0 };
                    if let Some(found) = (begin..60).find(|minute| self.minutes.has(*minute)) {
                        return TimeZone::UTC.to_timestamp(date.at(later, found, 0, 0)).ok();
                    }
                }
            }
            date = date.tomorrow().ok()?;
            (hour, minute) = (0, 0);
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
