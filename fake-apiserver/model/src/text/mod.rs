//! JSON encoder whose output equals that of Go's `encoding/json` byte for byte. It checks eight bytes at a time whether
//! a string needs escapes; most do not.

mod indent;
mod typed;
mod yaml;

use std::cell::RefCell;
use std::io::Write as _;

use bytes::Bytes;
use substrate::json::{Number, Value};

pub use self::indent::indent;
pub use self::typed::{document, object, ranked, struct_fields};
pub use self::yaml::yaml;

/// Maximum size of the buffer that is kept between two uses.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    /// Buffer for encoding: it stays in the processor's caches, and the result is allocated with its exact size.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns the output of `write` in an allocation of its exact size.
pub fn bytes(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut buffer = BUFFER.take();
    write(&mut buffer);
    let bytes = Bytes::copy_from_slice(&buffer);
    buffer.clear();
    buffer.shrink_to(KEPT_BYTES);
    BUFFER.set(buffer);
    bytes
}

/// Appends `value` to `out` in the form in which Go writes a map: the members of an object are sorted by name.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => self::number(number, out),
        Value::String(text) => string(text, out),
        Value::Array(list) => {
            out.push(b'[');
            for (i, value) in list.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(value, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            for (i, (key, value)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                string(key, out);
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        }
    }
}

/// Writes a number. A fraction has the fewest digits that identify it, and an exponent only if it is very large or very
/// small.
fn number(number: &Number, out: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _ = match number.as_f64().filter(|_| number.is_f64()) {
        None => serde_json::to_writer(out, number).map_err(Into::into),
        Some(float) if float == 0.0 || (1e-6..1e21).contains(&float.abs()) => write!(out, "{float}"),
        Some(float) => {
            let text = format!("{float:e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            write!(out, "{digits}e{}{exponent}", if exponent.starts_with('-') { "" } else { "+" })
        }
    };
}

fn string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    if is_plain(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
    } else {
        escaped(text, out);
    }
    out.push(b'"');
}

/// Writes a string with escapes for the end of a string and for HTML.
fn escaped(text: &str, out: &mut Vec<u8>) {
    let mut buffer = [0; 4];
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to memory cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes()),
        }
    }
}

/// Returns true if the bytes are ASCII and need no escape. May return false for such bytes, too.
fn is_plain(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // Subtracting a greater byte sets the highest bit, which is also set outside ASCII. Borrows can only cause a false
    // negative.
    let is = |word: u64, byte: u8| (word ^ (ONES * u64::from(byte))).wrapping_sub(ONES);
    let odd = |word: u64| {
        // A quote and an ampersand differ in one bit, and so do the two angle brackets.
        let (quote, angle) = (is(word | (ONES * 4), b'&'), is(word | (ONES * 2), b'>'));
        (word | word.wrapping_sub(ONES * 0x20) | quote | angle | is(word, b'\\')) & HIGH
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [b' '; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().fold(odd(u64::from_ne_bytes(last)), |sum, word| sum | odd(u64::from_ne_bytes(*word))) == 0
}

#[cfg(test)]
mod tests;
