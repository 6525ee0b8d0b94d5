//! Durations in short form (apimachinery `util/duration.HumanDuration`).

use jiff::Timestamp;
use substrate::json::Value;

/// Returns the time since an RFC 3339 timestamp, or `<unknown>` if it is missing.
pub(super) fn since(time: &Value, now: Timestamp) -> String {
    match parse(time) {
        Some(then) => human(now.as_second() - then.as_second()),
        None => "<unknown>".to_owned(),
    }
}

/// Parses a timestamp of an object; `None` if it is missing or zero.
pub(super) fn parse(time: &Value) -> Option<Timestamp> {
    time.as_str()?.parse().ok()
}

/// Formats `seconds` in at most two units, coarser for longer durations.
pub(super) fn human(seconds: i64) -> String {
    let two = |big: i64, big_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{big_unit}"),
        small => format!("{big}{big_unit}{small}{small_unit}"),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match seconds {
        // Clocks may differ by a second.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, "d", hours % 24, "h"),
        _ if days < 365 * 2 => format!("{days}d"),
        _ if days < 365 * 8 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;

    #[rstest]
    #[case(-2, "<invalid>")]
    #[case(-1, "0s")]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(2 * MINUTE, "2m")]
    #[case(2 * MINUTE + 1, "2m1s")]
    #[case(10 * MINUTE + 5, "10m")]
    #[case(179 * MINUTE, "179m")]
    #[case(3 * HOUR, "3h")]
    #[case(3 * HOUR + 20 * MINUTE, "3h20m")]
    #[case(8 * HOUR + 20 * MINUTE, "8h")]
    #[case(47 * HOUR, "47h")]
    #[case(2 * DAY + 3 * HOUR, "2d3h")]
    #[case(8 * DAY + 3 * HOUR, "8d")]
    #[case(729 * DAY, "729d")]
    #[case(2 * 365 * DAY, "2y")]
    #[case(2 * 365 * DAY + DAY, "2y1d")]
    #[case(9 * 365 * DAY + DAY, "9y")]
    fn durations_read_as_kubectl_shows_them(#[case] seconds: i64, #[case] text: &str) {
        assert_eq!(human(seconds), text);
    }

    #[test]
    fn a_missing_or_bad_time_is_unknown() {
        let now = "2026-01-01T00:01:40Z".parse().unwrap();
        assert_eq!(since(&json!("2026-01-01T00:00:00Z"), now), "100s");
        assert_eq!(since(&json!("2026-01-01T00:00:00.123456Z"), now), "100s");
        assert_eq!(since(&Value::Null, now), "<unknown>");
        assert_eq!(since(&json!("yesterday"), now), "<unknown>");
    }
}
