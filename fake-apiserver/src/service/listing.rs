//! Long lists, which are encoded while they are sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec::IntoIter;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame as Piece, SizeHint};
use substrate::BoxError;
use substrate::body::{Body, boxed, full};

use crate::state::Object;
use crate::wire::list::Frame;

/// Maximum size of a list that is sent in one piece, in bytes.
const WHOLE: usize = 1 << 20;
/// Size of the pieces of longer lists, in bytes: such a buffer stays in the processor's caches.
const PIECE: usize = 256 << 10;

/// A list that is being sent, newline included.
struct Listing {
    frame: Frame,
    items: IntoIter<Arc<Object>>,
    /// True until the first piece.
    fresh: bool,
    /// Number of bytes that are still to be encoded.
    left: usize,
}

/// Returns the body of a list of stored objects.
pub(super) fn body(frame: Frame, items: Vec<Arc<Object>>) -> Body {
    let item = |object: &Arc<Object>| {
        let json = object.json();
        let (first, rest) = frame.item(&json);
        first.len() + rest.len()
    };
    let commas = items.len().saturating_sub(1);
    let left = frame.before().len() + items.iter().map(item).sum::<usize>() + commas + frame.after().len() + 1;
    let mut listing = Listing { frame, items: items.into_iter(), fresh: true, left };
    if left <= WHOLE { full(listing.piece(WHOLE)) } else { boxed(listing) }
}

impl Listing {
    /// Returns the next bytes, about `size`; empty at the end.
    fn piece(&mut self, size: usize) -> Bytes {
        let mut out = Vec::with_capacity(size.min(self.left));
        if std::mem::take(&mut self.fresh) {
            out.extend_from_slice(self.frame.before());
        } else if self.left == 0 {
            return Bytes::new();
        }
        let mut more = true;
        while more && out.len() < size {
            more = match self.items.next() {
                Some(object) => {
                    let json = object.json();
                    let (first, rest) = self.frame.item(&json);
                    out.extend_from_slice(first);
                    out.extend_from_slice(rest);
                    if self.items.len() > 0 {
                        out.push(b',');
                    }
                    true
                }
                None => {
                    out.extend_from_slice(self.frame.after());
                    out.push(b'\n');
                    false
                }
            };
        }
        self.left = self.left.saturating_sub(out.len());
        out.into()
    }
}

impl HttpBody for Listing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Piece<Bytes>, BoxError>>> {
        let piece = self.piece(PIECE);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Piece::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use substrate::body::collect;
    use substrate::json::{Value, json};

    use super::*;
    use crate::kinds;

    async fn listed(count: usize) -> (usize, Value) {
        let kind = kinds::find("", "v1", "configmaps").unwrap();
        let object = |n: usize| {
            let data = json!({"k": "x".repeat(n % 500)});
            Object::transient(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": n.to_string()}, "data": data}),
            )
        };
        let frame = || Frame::of(kind, &json!({"resourceVersion": "7"}));
        let mut streamed = body(frame(), (0..count).map(object).collect());
        let length = streamed.size_hint().exact().unwrap();
        let mut pieces = 0;
        while let Some(piece) = streamed.frame().await {
            assert!(!piece.unwrap().into_data().unwrap().is_empty());
            pieces += 1;
        }
        let bytes = collect(body(frame(), (0..count).map(object).collect()), 1 << 30).await.unwrap();
        assert_eq!((bytes.len() as u64, bytes.last()), (length, Some(&b'\n')));
        (pieces, serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn a_long_list_comes_in_pieces_and_says_how_long_it_is() {
        for (count, pieces) in [(0, 1), (1, 1), (2, 1), (100, 1), (20_000, 20)] {
            let (came, list) = listed(count).await;
            assert!(came == 1 && pieces == 1 || came >= pieces && pieces > 1, "{count}: {came}");
            let items = list["items"].as_array().unwrap();
            assert_eq!((items.len(), &list["kind"]), (count, &json!("ConfigMapList")));
            assert!(
                items
                    .iter()
                    .enumerate()
                    .all(|(n, item)| item["metadata"]["name"].as_str().is_some_and(|name| name.parse() == Ok(n))
                        && item["kind"].is_null())
            );
        }
    }
}
