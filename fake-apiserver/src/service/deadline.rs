//! How long a client waits at most, as it says in `timeout` (apiserver `filters/request_deadline.go`): answers do not
//! take long here, so that only what is no duration matters.

use http::request::Parts;

use super::call::Call;
use super::query::Query;
use super::verb::{Sub, Verb};
use crate::state::Status;

/// The units of Go's durations, in nanoseconds.
const UNITS: &[(&str, f64)] =
    &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// Whether a request goes on for as long as its client likes; of these `timeout` is not read.
pub(super) fn is_long_running(call: &Call) -> bool {
    call.verb == Verb::Watch || call.subresource == Sub::Log || call.subresource.reaches()
}

/// Reads the `timeout` of a request.
///
/// # Errors
/// 400 when it is no duration.
pub(super) fn check(parts: &Parts) -> Result<(), Status> {
    let Some(query) = parts.uri.query().filter(|query| query.contains('=')) else { return Ok(()) };
    let query = Query::parse(Some(query));
    let text = query.get("timeout");
    if text.is_empty() {
        return Ok(());
    }
    check_duration(text)
        .map_err(|why| Status::bad_request(format!("invalid timeout specified in the request URL - {why}")))
}

/// Why a text is no duration, as Go's `time.ParseDuration` says it.
fn check_duration(text: &str) -> Result<(), String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let is_number = |c: char| c == '.' || c.is_ascii_digit();
    let mut nanoseconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let end = match rest[digits..].strip_prefix('.') {
            Some(fraction) => digits + 1 + fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len()),
            None => digits,
        };
        let (number, after) = rest.split_at(end);
        if !number.contains(|c: char| c.is_ascii_digit()) {
            return Err(invalid());
        }
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("time: unknown unit {} in duration {}", quoted(unit), quoted(text)));
        };
        nanoseconds += number.parse().unwrap_or(0.0) * size;
        // 2^63 nanoseconds are 292 years.
        if nanoseconds > 9_223_372_036_854_775_807.0 {
            return Err(invalid());
        }
        rest = after;
    }
    Ok(())
}

/// A text in quotes, as Go's package `time` writes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=0x7f => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for text in ["0", "-0", "30s", "1.5h", "+1h2m3.s", ".5s", "1us2µs3μs", "-5ms"] {
            assert_eq!(check_duration(text), Ok(()), "{text}");
        }
        for (text, why) in [
            ("invalid", "time: invalid duration \"invalid\""),
            ("30", "time: missing unit in duration \"30\""),
            ("1s2", "time: missing unit in duration \"1s2\""),
            ("1.5", "time: missing unit in duration \"1.5\""),
            ("1y", "time: unknown unit \"y\" in duration \"1y\""),
            ("+", "time: invalid duration \"+\""),
            (".s", "time: invalid duration \".s\""),
            ("9999999h", "time: invalid duration \"9999999h\""),
            ("\"é", "time: invalid duration \"\\\"\\xc3\\xa9\""),
        ] {
            assert_eq!(check_duration(text), Err(why.to_owned()), "{text}");
        }
    }
}
