//! The query string of a request.

use std::borrow::Cow;
use std::num::IntErrorKind;

use crate::go_json;
use crate::state::Status;

/// Decoded parameters, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes a query string.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key, true).into_owned(), decode(value, true).into_owned())
                })
                .collect(),
        )
    }

    /// Adds a parameter.
    pub(crate) fn push(&mut self, key: &str, value: String) {
        self.0.push((key.to_owned(), value));
    }

    /// Returns the first value of a parameter; empty if it is missing.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(k, _)| k == key).map_or("", |(_, value)| value.as_str())
    }

    /// Returns true if a parameter is present, with or without a value.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k == key)
    }

    /// Returns all values of a parameter.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// Parses a boolean like upstream: every value except `false` and `0` is true.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        let value = self.get(key);
        self.has(key).then(|| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    /// Parses an integer like Go.
    ///
    /// # Errors
    /// 400 in the words of Go's `strconv.ParseInt`.
    pub(crate) fn integer(&self, key: &str) -> Result<Option<i64>, Status> {
        if !self.has(key) {
            return Ok(None);
        }
        let text = self.get(key);
        text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
            let why = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
        })
    }

    /// Parses an integer that must not be negative.
    ///
    /// # Errors
    /// 400 with the name of the parameter.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, Status> {
        match self.get(key) {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| Status::bad_request(format!("{key}: `{text}` is not a number from 0 to 2^64-1"))),
        }
    }
}

/// Decodes `%xx`, and in a query `+` as a space. Invalid escapes stay as they are.
pub(crate) fn decode(text: &str, query: bool) -> Cow<'_, str> {
    if !text.bytes().any(|b| matches!(b, b'%' | b'+')) {
        return text.into();
    }
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let escape = bytes.get(i + 1..i + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[i], escape.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                plain.push(byte);
                i += 2;
            }
            (b'+', _) if query => plain.push(b' '),
            (byte, _) => plain.push(byte),
        }
        i += 1;
    }
    go_json::lossy(&plain).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query =
            Query::parse(Some("fieldSelector=metadata.name%3Dx&labelSelector=a+in+%28b%29&watch&limit=5&x=%zz"));
        assert_eq!(query.get("fieldSelector"), "metadata.name=x");
        assert_eq!(query.get("labelSelector"), "a in (b)");
        assert_eq!(query.flag("watch"), Some(true));
        assert_eq!(query.integer("limit").unwrap(), Some(5));
        assert_eq!(query.get("x"), "%zz");
        assert_eq!(query.get("absent"), "");
    }

    #[test]
    fn flags_and_numbers_are_read_as_upstream_reads_them() {
        let query = Query::parse(Some("a=yes&b=FALSE&c=0&d=&e=-1&f=x&g=9223372036854775808&h="));
        assert_eq!(
            ["a", "b", "c", "d", "z"].map(|key| query.flag(key)),
            [Some(true), Some(false), Some(false), Some(true), None]
        );
        assert_eq!((query.integer("e").unwrap(), query.integer("z").unwrap()), (Some(-1), None));
        for (key, why) in [
            ("f", "strconv.ParseInt: parsing \"x\": invalid syntax"),
            ("g", "strconv.ParseInt: parsing \"9223372036854775808\": value out of range"),
            ("h", "strconv.ParseInt: parsing \"\": invalid syntax"),
        ] {
            assert_eq!(query.integer(key).unwrap_err().message, why);
        }
        assert!(query.number("e").unwrap_err().message.starts_with("e: "));
    }
}
