//! Times in the form of EC2.

use jiff::Timestamp;
use jiff::tz::Offset;

/// Formats a time as EC2 does: `2026-01-01T00:00:00.000Z`.
pub(crate) fn time(t: Timestamp) -> String {
    let at = Offset::UTC.to_datetime(t);
    let mut text = Vec::with_capacity(24);
    let mut digits = |number: i32, width: u32, end: u8| {
        let number = number.unsigned_abs();
        text.extend((0..width).rev().map(|place| b'0' + (number / 10u32.pow(place) % 10) as u8));
        text.push(end);
    };
    digits(at.year().into(), 4, b'-');
    digits(at.month().into(), 2, b'-');
    digits(at.day().into(), 2, b'T');
    digits(at.hour().into(), 2, b':');
    digits(at.minute().into(), 2, b':');
    digits(at.second().into(), 2, b'.');
    digits(at.millisecond().into(), 3, b'Z');
    // Digits and punctuation are ASCII.
    String::from_utf8(text).unwrap_or_default()
}

/// Formats a time to the second, as in attachments and launches.
pub(crate) fn seconds(t: Timestamp) -> String {
    time(Timestamp::from_second(t.as_second()).unwrap_or(t))
}
