//! Messages of Go's JSON decoder (`encoding/json` scanner.go, decode.go): its errors, and its names of types.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use substrate::json::Value;

/// Expected next token.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    /// A value.
    Value,
    /// A value, or the end of the array that begins here.
    ValueOrEnd,
    /// The name of a member.
    Name,
    /// The name of a member, or the end of the object that begins here.
    NameOrEnd,
    /// A comma, a colon or an end, after a value or a name.
    After,
}

/// Context of a value.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    Name,
    Member,
    Array,
}

/// Returns Go's name of a JSON type.
pub fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns Go's error for the first position that is not valid JSON; `None` if the text is valid.
pub fn refusal(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { text, at: 0, within: Vec::new() };
    scanner.scan().err()
}

/// Decodes bytes as Go does: each invalid UTF-8 byte becomes U+FFFD.
pub fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.into();
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n(char::REPLACEMENT_CHARACTER, chunk.invalid().len()));
    }
    text.into()
}

/// Returns JSON as Go's decoder reads it: with U+FFFD for invalid UTF-8 bytes and for unpaired surrogates. `None` if
/// the text has neither.
pub fn repaired(bytes: &[u8]) -> Option<String> {
    let text = lossy(bytes);
    let halves = halves(&text);
    if halves.is_empty() {
        return match text {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text),
        };
    }
    let mut text = text.into_owned();
    for at in halves {
        text.replace_range(at..at + ESCAPE, "\\ufffd");
    }
    Some(text)
}

/// Length of `\uXXXX`.
const ESCAPE: usize = 6;

/// Returns the positions of escapes of unpaired surrogates.
fn halves(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += next;
        match (surrogate(text, at), surrogate(text, at + ESCAPE)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => at += 2 * ESCAPE,
            (Some(_), _) => {
                found.push(at);
                at += ESCAPE;
            }
            // The escaped character may be a backslash itself.
            (None, _) => at += 2,
        }
    }
    found
}

/// Returns the surrogate whose escape is at a position.
fn surrogate(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
    u32::from_str_radix(digits, 16).ok().filter(|code| (0xd800..0xe000).contains(code))
}

/// Parses JSON like Go's decoder.
///
/// # Errors
/// The text is not JSON.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(bytes).or_else(|error| match repaired(bytes) {
        Some(text) => serde_json::from_str(&text),
        None => Err(error),
    })
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    within: Vec<Within>,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Takes a byte.
    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or_else(|| "unexpected end of JSON input".to_owned())?;
        self.at += 1;
        Ok(byte)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn scan(&mut self) -> Result<(), String> {
        let mut next = Next::Value;
        loop {
            self.space();
            if next == Next::After && self.within.is_empty() {
                return match self.peek() {
                    None => Ok(()),
                    Some(byte) => Err(invalid(byte, "after top-level value")),
                };
            }
            let byte = self.next()?;
            next = match next {
                Next::Value | Next::ValueOrEnd => self.value(byte, next == Next::ValueOrEnd)?,
                Next::Name | Next::NameOrEnd => self.name(byte, next == Next::NameOrEnd)?,
                Next::After => self.after(byte)?,
            };
        }
    }

    fn value(&mut self, first: u8, may_end: bool) -> Result<Next, String> {
        match first {
            b']' if may_end => {
                self.within.pop();
                return Ok(Next::After);
            }
            b'{' => {
                self.within.push(Within::Name);
                return Ok(Next::NameOrEnd);
            }
            b'[' => {
                self.within.push(Within::Array);
                return Ok(Next::ValueOrEnd);
            }
            b'"' => self.string()?,
            b'-' | b'0'..=b'9' => self.number(first)?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            other => return Err(invalid(other, "looking for beginning of value")),
        }
        Ok(Next::After)
    }

    fn name(&mut self, first: u8, may_end: bool) -> Result<Next, String> {
        match first {
            b'}' if may_end => {
                self.within.pop();
            }
            b'"' => self.string()?,
            other => return Err(invalid(other, "looking for beginning of object key string")),
        }
        Ok(Next::After)
    }

    fn after(&mut self, byte: u8) -> Result<Next, String> {
        match (self.within.last_mut(), byte) {
            (Some(within @ Within::Name), b':') => {
                *within = Within::Member;
                Ok(Next::Value)
            }
            (Some(within @ Within::Member), b',') => {
                *within = Within::Name;
                Ok(Next::Name)
            }
            (Some(Within::Array), b',') => Ok(Next::Value),
            (Some(Within::Member), b'}') | (Some(Within::Array), b']') => {
                self.within.pop();
                Ok(Next::After)
            }
            (Some(Within::Name), other) => Err(invalid(other, "after object key")),
            (Some(Within::Member), other) => Err(invalid(other, "after object key:value pair")),
            (_, other) => Err(invalid(other, "after array element")),
        }
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => match self.next()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let digit = self.next()?;
                            if !digit.is_ascii_hexdigit() {
                                return Err(invalid(digit, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    other => return Err(invalid(other, "in string escape code")),
                },
                control if control < 0x20 => return Err(invalid(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    /// Skips one or more digits.
    fn some_digits(&mut self, context: &str) -> Result<(), String> {
        match self.next()? {
            byte if byte.is_ascii_digit() => self.digits(),
            other => return Err(invalid(other, context)),
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        let mut digit = first;
        if first == b'-' {
            digit = self.next()?;
            if !digit.is_ascii_digit() {
                return Err(invalid(digit, "in numeric literal"));
            }
        }
        if digit != b'0' {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes().skip(1) {
            let byte = self.next()?;
            if byte != expected {
                return Err(invalid(byte, &format!("in literal {word} (expecting '{}')", char::from(expected))));
            }
        }
        Ok(())
    }
}

fn invalid(byte: u8, context: &str) -> String {
    let shown = match byte {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        b'\\' => "\\\\".to_owned(),
        0x07 => "\\a".to_owned(),
        0x08 => "\\b".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'\n' => "\\n".to_owned(),
        0x0b => "\\v".to_owned(),
        0x0c => "\\f".to_owned(),
        b'\r' => "\\r".to_owned(),
        0..=0x1f | 0x7f => format!("\\x{byte:02x}"),
        0x80..=0xa0 | 0xad => format!("\\u{byte:04x}"),
        _ => char::from(byte).to_string(),
    };
    format!("invalid character '{shown}' {context}")
}

/// Returns the part of a body that messages show (`summarizeData`): its beginning, as text or in hexadecimal.
pub fn summary(data: &[u8]) -> String {
    const MOST: usize = 30;
    let (shown, more) = match data.get(..MOST) {
        Some(beginning) if data.len() > MOST => (beginning, " ..."),
        _ => (data, ""),
    };
    match shown.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + more,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_go_says() {
        for (text, why) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{\"a\": [1, 2", "unexpected end of JSON input"),
            ("hello", "invalid character 'h' looking for beginning of value"),
            ("{a: 1}", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\": 1 \"b\": 2}", "invalid character '\"' after object key:value pair"),
            ("{\"a\": 1,}", "invalid character '}' looking for beginning of object key string"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("nul", "unexpected end of JSON input"),
            ("nulx", "invalid character 'x' in literal null (expecting 'l')"),
            ("tree", "invalid character 'e' in literal true (expecting 'u')"),
            ("01", "invalid character '1' after top-level value"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u00g0\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("'a'", "invalid character '\\'' looking for beginning of value"),
        ] {
            assert_eq!(refusal(text.as_bytes()).as_deref(), Some(why), "{text}");
        }
        for good in ["{}", "[]", " {\"a\": [1, -0.5e+3, true, null, \"x\\u00e9\"], \"b\": {}} ", "\"é\"", "0"] {
            assert_eq!(refusal(good.as_bytes()), None, "{good}");
        }
    }

    #[test]
    fn invalid_utf_8_is_replaced_as_in_go() {
        assert_eq!(lossy(b"a\xff\xe2\x82b\xed\xa0\x80"), "a\u{fffd}\u{fffd}\u{fffd}b\u{fffd}\u{fffd}\u{fffd}");
        for (text, read) in [
            (r#""\ud83d\ude00""#, None),
            (r#""\\ud800 \\\\ud800 é""#, None),
            (r#""\ud800""#, Some("\u{fffd}")),
            (r#""\uDC00\ud800x""#, Some("\u{fffd}\u{fffd}x")),
            (r#""\ud800\ud83d\ude00""#, Some("\u{fffd}\u{1f600}")),
            (r#""\\\ud800\n""#, Some("\\\u{fffd}\n")),
        ] {
            let repaired = repaired(text.as_bytes()).map(|text| serde_json::from_str::<String>(&text).unwrap());
            assert_eq!(repaired.as_deref(), read, "{text}");
        }
        assert_eq!(
            super::read::<Value>(b"{\"\xff\": \"\\ud800\"}").unwrap().to_string(),
            "{\"\u{fffd}\":\"\u{fffd}\"}"
        );
        assert!(super::read::<Value>(b"{\xff}").is_err());
    }

    #[test]
    fn a_summary_is_short() {
        assert_eq!(summary(b""), "<empty>");
        assert_eq!(summary(b"{\"a\":1"), "{\"a\":1");
        assert_eq!(summary(b"hello"), "68656c6c6f");
        assert_eq!(summary(&[b'{'; 40]), format!("{} ...", "{".repeat(30)));
        assert_eq!(summary(&[b'['; 31]), format!("{} ...", "5b".repeat(30)));
    }
}
