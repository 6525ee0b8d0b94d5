//! A JSON document on its way: text for whoever reads bytes, the tree itself for a peer of the same OS process.
//!
//! It is the body of a request and an extension of it. What crosses a socket or a pipe is the body; a peer that is
//! called directly may take the tree, which is what it would have parsed, and then no text is ever made.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use crate::json::Value;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::body::{Body, BoxError, boxed};

/// A document; clones are the same one.
#[derive(Clone, Debug)]
pub struct Document(Arc<Mutex<Option<Value>>>);

impl Document {
    /// The document of a tree.
    pub fn new(value: Value) -> Self {
        Self(Arc::new(Mutex::new(Some(value))))
    }

    /// The body that this document is; its text is made when it is read or measured.
    pub fn body(&self) -> Body {
        boxed(Text { document: Some(self.clone()), bytes: OnceLock::new() })
    }

    /// Takes the tree instead of the body, which is empty from then on; nothing when its text may be longer than `limit`
    /// bytes, so that a reader of bytes and one of trees have the same limit.
    pub fn take(&self, limit: usize) -> Option<Value> {
        self.lock().take_if(|value| longest(value) <= limit)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No text of `value` is longer: each byte may need an escape of six.
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

struct Text {
    /// Until the text has been read.
    document: Option<Document>,
    bytes: OnceLock<Bytes>,
}

impl Text {
    fn bytes(&self) -> Option<&Bytes> {
        let document = self.document.as_ref()?;
        Some(self.bytes.get_or_init(|| document.lock().as_ref().map(Value::to_string).unwrap_or_default().into()))
    }
}

impl http_body::Body for Text {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let bytes = self.bytes().cloned();
        self.document = None;
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.document.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes().map_or(0, |bytes| bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;
    use http_body::Body as _;
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn the_body_is_the_text_and_knows_its_length() {
        let document = Document::new(json!({"a": [1, "\u{1}", null]}));
        let body = document.body();
        assert_eq!(body.size_hint().exact(), Some(23));
        let text = futures_util::FutureExt::now_or_never(body.collect()).unwrap().unwrap().to_bytes();
        assert_eq!(text, r#"{"a":[1,"\u0001",null]}"#);
    }

    #[test]
    fn the_tree_is_not_given_where_its_text_may_be_too_long() {
        let value = json!({"a": "\u{1}".repeat(100)});
        let length = value.to_string().len();
        let document = Document::new(value.clone());
        assert_eq!(document.take(length - 1), None);
        assert_eq!(document.take(length + 20), Some(value));
        assert_eq!(document.body().size_hint().exact(), Some(0));
    }
}
