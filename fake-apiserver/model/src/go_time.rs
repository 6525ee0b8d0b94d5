//! Error messages of Go's `time.Parse`.

/// Elements of the layout: separator, element, number of digits, and maximum.
const ELEMENTS: [(&str, &str, usize, u32); 6] = [
    ("", "2006", 4, 9999),
    ("-", "01", 2, 12),
    ("-", "02", 2, 31),
    ("T", "15", 2, 23),
    (":", "04", 2, 59),
    (":", "05", 2, 59),
];
/// Names of the elements in range errors.
const RANGES: [&str; 6] = ["", "month", "day", "hour", "minute", "second"];

/// Returns the error for a text that is not a time in RFC 3339, or with `micro` in RFC 3339 with six decimals.
pub fn refusal(text: &str, micro: bool) -> String {
    let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    let head = format!("parsing time {text:?}");
    let wrong = |rest: &str, element: &str| format!("{head} as {layout:?}: cannot parse {rest:?} as {element:?}");
    let mut rest = text;
    for (i, (before, element, digits, most)) in ELEMENTS.into_iter().enumerate() {
        let Some(after) = rest.strip_prefix(before) else { return wrong(rest, before) };
        rest = after;
        let number = rest.get(..digits).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else { return wrong(rest, element) };
        if number > most || matches!(i, 1 | 2) && number == 0 {
            return format!("{head}: {} out of range", RANGES[i]);
        }
        rest = &rest[digits..];
    }
    let fraction = rest.strip_prefix(['.', ',']).map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    if micro && fraction.is_none_or(|after| rest.len() - after.len() <= 6) {
        return wrong(rest, ".000000");
    }
    rest = fraction.unwrap_or(rest);
    let zone = |rest: &str| -> Option<usize> {
        if rest.starts_with('Z') {
            return Some(1);
        }
        let offset = rest.strip_prefix(['+', '-'])?.get(..5)?;
        let is_offset = offset.bytes().enumerate().all(|(i, b)| if i == 2 { b == b':' } else { b.is_ascii_digit() });
        is_offset.then_some(6)
    };
    match zone(rest) {
        None => wrong(rest, "Z07:00"),
        Some(length) if rest.len() > length => format!("{head}: extra text: {:?}", &rest[length..]),
        // The text has the layout, but the day does not exist.
        Some(_) => format!("{head}: day out of range"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_first_place_that_is_wrong() {
        let layout = "2006-01-02T15:04:05Z07:00";
        for (text, rest, element) in [
            ("", "", "2006"),
            ("yesterday", "yesterday", "2006"),
            ("2026-1-01T00:00:00Z", "1-01T00:00:00Z", "01"),
            ("2026/01/01", "/01/01", "-"),
            ("2026-01-01 00:00:00Z", " 00:00:00Z", "T"),
            ("2026-01-01T00:00:00", "", "Z07:00"),
            ("2026-01-01T00:00:00.5x", "x", "Z07:00"),
        ] {
            let why = format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}");
            assert_eq!(refusal(text, false), why);
        }
        for (text, why) in [
            ("2026-13-01T00:00:00Z", "month out of range"),
            ("2026-02-30T00:00:00Z", "day out of range"),
            ("2026-01-01T24:00:00Z", "hour out of range"),
            ("2026-01-01T00:00:00Zx", "extra text: \"x\""),
        ] {
            assert_eq!(refusal(text, false), format!("parsing time {text:?}: {why}"));
        }
        let why = refusal("2026-01-01T00:00:00x", true);
        assert!(why.ends_with("as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"x\" as \".000000\""), "{why}");
    }
}
