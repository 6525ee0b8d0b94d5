//! Times and durations (the CEL specification, "Abstract types"), with Go's limits: a duration is a number of
//! nanoseconds, and a time lies between the years 1 and 9999.
//!
//! A time zone is an offset or UTC: there is no table of time zone names.

use std::cmp::Ordering;

use cel::common::traits::{Adder, Comparer, Subtractor};
use cel::common::types::{CelInt, CelString, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::values::fails;

/// Names of the types.
pub(in crate::cel) const TIMESTAMP: &str = "google.protobuf.Timestamp";
pub(in crate::cel) const DURATION: &str = "google.protobuf.Duration";

const SECOND: i64 = 1_000_000_000;
/// First and last second of the range of times.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cel) struct Timestamp(jiff::Timestamp);

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cel) struct Duration(i64);

/// Defines a type with comparison, addition and subtraction.
macro_rules! quantity {
    ($name:ident, $cel:expr) => {
        impl Val for $name {
            fn get_type(&self) -> &Type {
                <Self as Val>::cel_type()
            }

            fn cel_type() -> &'static Type {
                static TYPE: Type = Type::new_unspecified_type($cel);
                &TYPE
            }

            fn as_adder<'b, 'v>(&'b self) -> Option<&'b (dyn Adder + 'v)>
            where
                Self: 'v,
            {
                Some(self)
            }

            fn as_subtractor<'b, 'v>(&'b self) -> Option<&'b (dyn Subtractor + 'v)>
            where
                Self: 'v,
            {
                Some(self)
            }

            fn as_comparer(&self) -> Option<&dyn Comparer> {
                Some(self)
            }

            fn equals(&self, other: &dyn Val) -> bool {
                other.downcast_ref::<$name>().is_some_and(|other| other == self)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
                Box::new(*self)
            }

            fn as_any(&self) -> Option<&dyn std::any::Any> {
                Some(self)
            }
        }

        impl StaticVal for $name {}

        impl Comparer for $name {
            fn compare(&self, other: &dyn Val) -> Result<Ordering, ExecutionError> {
                other.downcast_ref::<$name>().map(|other| self.cmp(other)).ok_or_else(|| fails("_<_", NO_OVERLOAD))
            }
        }
    };
}
quantity!(Timestamp, TIMESTAMP);
quantity!(Duration, DURATION);

const NO_OVERLOAD: &str = "no such overload";

impl Adder for Timestamp {
    fn add<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let span = other.downcast_ref::<Duration>().ok_or_else(|| fails("_+_", NO_OVERLOAD))?;
        moved(*self, i128::from(span.0)).map(CowVal::owned)
    }
}

impl Subtractor for Timestamp {
    fn sub<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        if let Some(span) = other.downcast_ref::<Duration>() {
            return moved(*self, -i128::from(span.0)).map(CowVal::owned);
        }
        let other = other.downcast_ref::<Timestamp>().ok_or_else(|| fails("_-_", NO_OVERLOAD))?;
        span(self.0.as_nanosecond() - other.0.as_nanosecond()).map(CowVal::owned)
    }
}

impl Adder for Duration {
    fn add<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        if let Some(time) = other.downcast_ref::<Timestamp>() {
            return moved(*time, i128::from(self.0)).map(CowVal::owned);
        }
        let other = other.downcast_ref::<Duration>().ok_or_else(|| fails("_+_", NO_OVERLOAD))?;
        span(i128::from(self.0) + i128::from(other.0)).map(CowVal::owned)
    }
}

impl Subtractor for Duration {
    fn sub<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let other = other.downcast_ref::<Duration>().ok_or_else(|| fails("_-_", NO_OVERLOAD))?;
        span(i128::from(self.0) - i128::from(other.0)).map(CowVal::owned)
    }
}

fn span(nanos: i128) -> Result<Duration, ExecutionError> {
    i64::try_from(nanos).map(Duration).map_err(|_| fails("duration", "duration out of range"))
}

fn within(time: Option<jiff::Timestamp>) -> Result<Timestamp, ExecutionError> {
    let time = time.filter(|time| RANGE.contains(&time.as_second()));
    time.map(Timestamp).ok_or_else(|| fails("timestamp", "timestamp out of range"))
}

fn moved(time: Timestamp, by: i128) -> Result<Timestamp, ExecutionError> {
    within(jiff::Timestamp::from_nanosecond(time.0.as_nanosecond() + by).ok())
}

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    cel::add_overload!(env, fn timestamp: (CelString) -> Result<Timestamp>)?;
    cel::add_overload!(env, fn timestamp_of_seconds: (CelInt) -> Result<Timestamp>, name = "timestamp")?;
    cel::add_overload!(env, fn timestamp_itself: (Timestamp) -> Timestamp, name = "timestamp")?;
    cel::add_overload!(env, fn duration: (CelString) -> Result<Duration>)?;
    cel::add_overload!(env, fn duration_itself: (Duration) -> Duration, name = "duration")?;
    cel::add_overload!(env, fn text_of_time: (Timestamp) -> CelString, name = "string")?;
    cel::add_overload!(env, fn text_of_span: (Duration) -> CelString, name = "string")?;
    cel::add_overload!(env, fn seconds_of_time: (Timestamp) -> CelInt, name = "int")?;
    cel::add_overload!(env, fn nanos_of_span: (Duration) -> CelInt, name = "int")?;
    parts(env)?;
    cel::add_member_overload!(env, fn hours: (Duration) -> CelInt, name = "getHours")?;
    cel::add_member_overload!(env, fn minutes: (Duration) -> CelInt, name = "getMinutes")?;
    cel::add_member_overload!(env, fn seconds: (Duration) -> CelInt, name = "getSeconds")?;
    cel::add_member_overload!(env, fn milliseconds: (Duration) -> CelInt, name = "getMilliseconds")
}

/// Parses a time in RFC 3339.
pub(in crate::cel) fn parse(text: &str) -> Option<Timestamp> {
    let zoned = text.ends_with('Z') || text.len() > 6 && matches!(text.as_bytes()[text.len() - 6], b'+' | b'-');
    let time = (text.as_bytes().get(10) == Some(&b'T') && zoned).then(|| text.parse().ok())?;
    within(time).ok()
}

fn timestamp(text: &CelString<'_>) -> Result<Timestamp, ExecutionError> {
    let text = text.inner();
    parse(text).ok_or_else(|| fails("timestamp", format!("parsing time {text:?} as RFC 3339: cannot parse it")))
}

fn timestamp_of_seconds(seconds: &CelInt) -> Result<Timestamp, ExecutionError> {
    within(jiff::Timestamp::from_second(*seconds.inner()).ok())
}

fn timestamp_itself(time: &Timestamp) -> Timestamp {
    *time
}

/// Parses a duration in Go's notation: numbers, each with a unit.
pub(in crate::cel) fn parse_span(text: &str) -> Option<Duration> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(Duration(0));
    }
    let mut nanos: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at(digits(rest));
        let (part, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", after),
        };
        let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND.into(),
            "m" => 60 * i128::from(SECOND),
            "h" => 3600 * i128::from(SECOND),
            _ => return None,
        };
        if whole.is_empty() && part.is_empty() || whole.len() > 19 {
            return None;
        }
        let number: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        // Further digits are below a nanosecond even for hours.
        let part = &part[..part.len().min(15)];
        let fraction: i128 = if part.is_empty() { 0 } else { part.parse().ok()? };
        nanos += number * unit + fraction * unit / 10_i128.pow(u32::try_from(part.len()).ok()?);
        rest = after;
    }
    i64::try_from(sign * nanos).ok().map(Duration)
}

fn duration(text: &CelString<'_>) -> Result<Duration, ExecutionError> {
    let text = text.inner();
    parse_span(text).ok_or_else(|| fails("duration", format!("time: invalid duration {text:?}")))
}

fn duration_itself(span: &Duration) -> Duration {
    *span
}

fn text_of_time(time: &Timestamp) -> CelString<'static> {
    time.0.to_string().into()
}

fn text_of_span(span: &Duration) -> CelString<'static> {
    format!("{}s", span.0 as f64 / SECOND as f64).into()
}

fn seconds_of_time(time: &Timestamp) -> CelInt {
    // A time before the epoch belongs to the second that began before it.
    i64::try_from(time.0.as_nanosecond().div_euclid(SECOND.into())).unwrap_or_default().into()
}

fn nanos_of_span(span: &Duration) -> CelInt {
    span.0.into()
}

fn hours(span: &Duration) -> CelInt {
    (span.0 / (3600 * SECOND)).into()
}

fn minutes(span: &Duration) -> CelInt {
    (span.0 / (60 * SECOND)).into()
}

fn seconds(span: &Duration) -> CelInt {
    (span.0 / SECOND).into()
}

fn milliseconds(span: &Duration) -> CelInt {
    (span.0 / 1_000_000).into()
}

/// Returns the date and time of day in a zone.
fn shown(time: &Timestamp, zone: &str) -> Result<DateTime, ExecutionError> {
    let offset = match zone.split_once(':') {
        None if matches!(zone, "" | "UTC") => Some(Offset::UTC),
        None => None,
        Some((hours, minutes)) => {
            let number = |text: &str| text.parse::<i32>().ok().filter(|number| (-25..60).contains(number));
            let sign = if hours.starts_with('-') { -1 } else { 1 };
            let both = number(hours).zip(number(minutes));
            both.and_then(|(hours, minutes)| Offset::from_seconds(hours * 3600 + sign * minutes * 60).ok())
        }
    };
    let offset = offset.ok_or_else(|| {
        fails("timestamp", format!("unknown time zone {zone}: this server knows UTC and offsets (+01:00)"))
    })?;
    Ok(offset.to_datetime(time.0))
}

/// Defines a function for each part of a time, with and without a zone.
macro_rules! parts {
    ($($plain:ident $zoned:ident $name:literal |$at:ident| $part:expr;)*) => {
        $(
            fn $plain(time: &Timestamp) -> Result<CelInt, ExecutionError> {
                let $at = shown(time, "")?;
                Ok(i64::from($part).into())
            }

            fn $zoned(time: &Timestamp, zone: &CelString<'_>) -> Result<CelInt, ExecutionError> {
                let $at = shown(time, zone.inner())?;
                Ok(i64::from($part).into())
            }
        )*

        fn parts(env: &mut Env) -> Result<(), DeclarationError> {
            $(
                cel::add_member_overload!(env, fn $plain: (Timestamp) -> Result<CelInt>, name = $name)?;
                cel::add_member_overload!(env, fn $zoned: (Timestamp, CelString) -> Result<CelInt>, name = $name)?;
            )*
            Ok(())
        }
    };
}

parts! {
    year year_in "getFullYear" |at| at.year();
    month month_in "getMonth" |at| at.month() - 1;
    date date_in "getDate" |at| at.day();
    day_of_month day_of_month_in "getDayOfMonth" |at| at.day() - 1;
    day_of_week day_of_week_in "getDayOfWeek" |at| at.weekday().to_sunday_zero_offset();
    day_of_year day_of_year_in "getDayOfYear" |at| at.day_of_year() - 1;
    hour hour_in "getHours" |at| at.hour();
    minute minute_in "getMinutes" |at| at.minute();
    second second_in "getSeconds" |at| at.second();
    millisecond millisecond_in "getMilliseconds" |at| at.millisecond();
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::cel::{CelValue, Expression};

    #[rstest]
    #[case("timestamp('2023-05-06T07:08:09.5Z') < timestamp('2023-05-06T07:08:10Z')")]
    #[case("timestamp('2023-05-06T07:08:09Z') == timestamp('2023-05-06T09:08:09+02:00')")]
    #[case("timestamp('2023-05-06T07:08:09Z') + duration('1h') == timestamp('2023-05-06T08:08:09Z')")]
    #[case("duration('1h') + timestamp('2023-05-06T07:08:09Z') - duration('60m') == timestamp('2023-05-06T07:08:09Z')")]
    #[case("timestamp('2023-05-06T08:08:09Z') - timestamp('2023-05-06T07:08:09Z') == duration('3600s')")]
    #[case("duration('1h30m') - duration('90m') == duration('0') && duration('-1.5h') == duration('-90m')")]
    #[case(
        "duration('1m') > duration('59s') && duration('.5s') == duration('500ms') && duration('1us') > duration('9ns')"
    )]
    #[case("string(timestamp('2023-05-06T09:08:09+02:00')) == '2023-05-06T07:08:09Z'")]
    #[case("string(duration('1h1.5s')) == '3601.5s' && string(duration('-1m')) == '-60s'")]
    #[case("int(timestamp('1970-01-01T00:01:00Z')) == 60 && timestamp(60) == timestamp('1970-01-01T00:01:00Z')")]
    #[case(
        "int(duration('1s')) == 1000000000 && duration('90m').getHours() == 1 && duration('90m').getMinutes() == 90"
    )]
    #[case("duration('1.5s').getSeconds() == 1 && duration('1.5s').getMilliseconds() == 1500")]
    #[case("timestamp('2023-05-06T07:08:09.123Z').getFullYear() == 2023 && timestamp(0).getMonth() == 0")]
    #[case(
        "timestamp('2023-05-06T07:08:09Z').getDate() == 6 && timestamp('2023-05-06T07:08:09Z').getDayOfMonth() == 5"
    )]
    #[case("timestamp('2023-05-07T07:08:09Z').getDayOfWeek() == 0 && timestamp(0).getDayOfYear() == 0")]
    #[case("timestamp('2023-05-06T23:30:09Z').getHours('+01:00') == 0 && timestamp(0).getHours('-02:30') == 21")]
    #[case("timestamp(0).getMinutes('-02:30') == 30 && timestamp('2023-05-06T07:08:09.123Z').getMilliseconds() == 123")]
    #[case("timestamp('2023-05-06T07:08:09Z').getSeconds('UTC') == 9")]
    #[case("[timestamp(2), timestamp(1)].min() == timestamp(1) && timestamp(1) in [timestamp(1)]")]
    fn times_and_spans_are_those_of_go(#[case] rule: &str) {
        assert_eq!(Expression::compile(rule).unwrap().evaluate(&[]), Ok(CelValue::Bool(true)));
    }

    #[rstest]
    #[case("timestamp('2023-05-06') == timestamp(0)", "parsing time \"2023-05-06\"")]
    #[case("duration('1 day') == duration('0')", "time: invalid duration \"1 day\"")]
    #[case("duration('1') == duration('0')", "time: invalid duration \"1\"")]
    #[case("duration('') == duration('0')", "time: invalid duration")]
    #[case("timestamp('9999-12-30T00:00:00Z') + duration('48h') == timestamp(0)", "timestamp out of range")]
    #[case("duration('2562047h') + duration('2562047h') == duration('0')", "duration out of range")]
    #[case("timestamp(0).getHours('Mars/Olympus') == 0", "unknown time zone Mars/Olympus")]
    fn an_invalid_time_says_why(#[case] rule: &str, #[case] wanted: &str) {
        let why = Expression::compile(rule).unwrap().evaluate(&[]).unwrap_err();
        assert!(why.contains(wanted), "{why}");
    }
}
