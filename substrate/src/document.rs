//! A JSON document in transit: text for a reader of bytes, the tree itself for a peer in the same OS process.
//!
//! It is the body of a request ([`Body::document`](crate::body::Body::document)). Its text crosses sockets and pipes. A
//! peer that is called directly may take the tree, which equals the parsed text; then the text is never made.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::json::Value;

/// A document that has not been read yet, or is empty.
#[derive(Debug)]
pub(crate) struct Document {
    value: Option<Value>,
    text: OnceLock<Bytes>,
}

impl Document {
    /// Creates the document of a tree.
    pub(crate) fn new(value: Value) -> Self {
        Self { value: Some(value), text: OnceLock::new() }
    }

    /// Takes the tree; `None` if its text may be longer than `limit` bytes.
    pub(crate) fn take(&mut self, limit: usize) -> Option<Value> {
        self.value.take_if(|value| longest(value) <= limit)
    }

    /// Takes the text, which is made when it is first read or measured.
    pub(crate) fn read(&mut self) -> Option<Bytes> {
        let text = self.text().cloned();
        self.value = None;
        text
    }

    /// Returns true if the document was read.
    pub(crate) fn is_read(&self) -> bool {
        self.value.is_none()
    }

    /// Returns the length of its text.
    pub(crate) fn len(&self) -> usize {
        self.text().map_or(0, Bytes::len)
    }

    fn text(&self) -> Option<&Bytes> {
        let value = self.value.as_ref()?;
        Some(self.text.get_or_init(|| value.to_string().into()))
    }
}

/// Returns an upper bound for the length of `value`'s text: each byte may need an escape of six.
fn longest(value: &Value) -> usize {
    const AROUND: usize = 4;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 32,
        Value::String(text) => 6 * text.len() + AROUND,
        Value::Array(list) => list.iter().map(longest).sum::<usize>() + list.len() + AROUND,
        Value::Object(map) => {
            map.iter().map(|(key, value)| 6 * key.len() + AROUND + longest(value)).sum::<usize>() + AROUND
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use crate::body::{Body, collect};
    use crate::json::json;

    #[test]
    fn the_body_is_the_text_and_knows_its_length() {
        let body = Body::document(json!({"a": [1, "\u{1}", null]}));
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(23), false));
        let text = futures_util::FutureExt::now_or_never(collect(body, 100)).unwrap().unwrap();
        assert_eq!(text, r#"{"a":[1,"\u0001",null]}"#);
    }

    #[test]
    fn the_tree_is_not_given_where_its_text_may_be_too_long() {
        let value = json!({"a": "\u{1}".repeat(100)});
        let length = value.to_string().len();
        let mut body = Body::document(value.clone());
        assert_eq!(body.take_document(length - 1), None);
        assert_eq!(body.take_document(length + 20), Some(value));
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
    }
}
