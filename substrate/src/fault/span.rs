//! Durations as people write them: `250ms`, `30s`, `2m`, `6m30s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A non-negative duration with a text form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a duration: write a number and a unit, such as 250ms, 30s, 2m or 6m30s");
        let mut total = Duration::ZERO;
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
            let number: f64 = rest[..digits].parse().map_err(|_| bad())?;
            let tail = &rest[digits..];
            let unit_len = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let seconds = match &tail[..unit_len] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return Err(bad()),
            };
            let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| bad())?;
            total = total.checked_add(part).ok_or_else(bad)?;
            rest = tail[unit_len..].trim_start();
        }
        Ok(Self(total))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis();
        match (ms / 60_000, ms % 60_000) {
            (0, ms) if ms % 1000 == 0 => write!(f, "{}s", ms / 1000),
            (0, ms) => write!(f, "{ms}ms"),
            (m, 0) => write!(f, "{m}m"),
            (m, ms) if ms % 1000 == 0 => write!(f, "{m}m{}s", ms / 1000),
            _ => write!(f, "{ms}ms"),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written_as_people_write_them() {
        for text in ["250ms", "30s", "2m", "6m30s", "0s"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        assert_eq!("1.5s".parse::<Span>().unwrap().0, Duration::from_millis(1500));
    }

    #[test]
    fn an_invalid_span_has_an_example() {
        for text in ["", "5", "s", "1y", "-3s", "1e999s", "5 5"] {
            assert!(text.parse::<Span>().unwrap_err().contains("6m30s"), "{text}");
        }
    }
}
