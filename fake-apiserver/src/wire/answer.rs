//! Encoded documents: discovery and OpenAPI.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use substrate::json::Value;

use crate::text;

/// A document with its media type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The Content-Type header.
    pub content_type: &'static str,
    /// The document.
    pub body: Bytes,
    /// The ETag header, quotes included, for documents that clients cache.
    pub etag: Option<String>,
}

impl Answer {
    /// Encodes `value` as JSON with members in the order of `ranks`, like a Go struct, without an ETag.
    pub(super) fn json(value: &Value, ranks: &[&str]) -> Self {
        Self { content_type: "application/json", body: line(value, ranks).into(), etag: None }
    }

    /// Encodes `value` as indented JSON.
    pub(super) fn indented(value: &Value) -> Self {
        Self { content_type: "application/json", body: format!("{value:#}").into(), etag: None }
    }

    /// Encodes JSON like [`json`](Self::json), with an ETag and this `content_type`.
    pub(super) fn cached_line(value: &Value, ranks: &[&str], content_type: &'static str) -> Self {
        Self::cached_bytes(line(value, ranks), content_type)
    }

    /// Encodes `value` as JSON with an ETag and this `content_type`.
    pub(super) fn cached(value: &Value, content_type: &'static str) -> Self {
        Self::cached_bytes(value.to_string().into_bytes(), content_type)
    }

    /// Creates a document with an ETag.
    pub(super) fn cached_bytes(body: Vec<u8>, content_type: &'static str) -> Self {
        Self { content_type, etag: Some(format!("\"{}\"", hash(&body))), body: body.into() }
    }

    /// Returns true if an If-None-Match header names this document, so that the answer is 304.
    pub fn is_cached_by(&self, if_none_match: &str) -> bool {
        self.etag.as_deref().is_some_and(|etag| {
            if_none_match.split(',').map(|tag| tag.trim().trim_start_matches("W/")).any(|tag| tag == etag || tag == "*")
        })
    }
}

fn line(value: &Value, ranks: &[&str]) -> Vec<u8> {
    let mut line = Vec::new();
    text::ranked(ranks, value, &mut line);
    line.push(b'\n');
    line
}

/// Returns the upper-case hex digest of a document's content.
pub(super) fn hash(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02X}")).collect()
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn the_validator_follows_the_content() {
        let a = Answer::cached(&json!({"a": 1}), "application/json");
        let b = Answer::cached(&json!({"a": 2}), "application/json");
        let tag = a.etag.clone().unwrap();
        assert!(tag.starts_with('"') && tag.ends_with('"'));
        assert!(a.is_cached_by(&tag) && a.is_cached_by(&format!("\"x\", W/{tag}")) && a.is_cached_by("*"));
        assert!(!b.is_cached_by(&tag));
        assert!(!Answer::json(&json!({}), &[]).is_cached_by("*"));
    }
}
