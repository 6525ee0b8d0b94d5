//! A watch stream, line by line.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use substrate::body::Body;
use substrate::link::WholeLines;

use super::api::{ListParams, Query};
use super::client::Client;
use super::error::{ApiError, Status};
use super::memo::decode;
use super::object::Kind;

/// Parameters of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchParams {
    /// Selection of objects.
    pub list: ListParams,
    /// Revision after which events are wanted; empty for now.
    pub resource_version: String,
    /// If set, request bookmarks.
    pub bookmarks: bool,
    /// Time after which the server should end the stream.
    pub timeout_seconds: Option<u64>,
}

impl WatchParams {
    pub(super) fn path(&self, collection: String) -> String {
        let mut query = Query::new(collection);
        query.add("watch", "true");
        if self.bookmarks {
            query.add("allowWatchBookmarks", "true");
        }
        self.list.query(&mut query);
        if !self.resource_version.is_empty() {
            query.add("resourceVersion", &self.resource_version);
        }
        if let Some(seconds) = self.timeout_seconds {
            query.add("timeoutSeconds", &seconds.to_string());
        }
        query.0
    }
}

/// Event of a watch.
#[derive(Clone, Debug)]
pub enum WatchEvent<K> {
    /// The object appeared (in the selection).
    Added(K),
    /// The object changed.
    Modified(K),
    /// The object was deleted (or left the selection); its last state.
    Deleted(K),
    /// All events up to this revision were sent.
    Bookmark(String),
}

/// Longest accepted line: an object of at most 1.5 MiB, escaped.
const LINE_LIMIT: usize = 16 << 20;

/// Events of one watch.
pub struct WatchStream<K> {
    lines: Lines,
    kind: std::marker::PhantomData<fn() -> K>,
}

/// Lines of one watch.
pub(super) struct Lines {
    body: Body,
    /// True if each frame is a line.
    whole_lines: bool,
    buffer: BytesMut,
    searched: usize,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Marked {
    metadata: MarkedMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkedMeta {
    resource_version: String,
}

impl<K: Kind> WatchStream<K> {
    pub(super) async fn open(client: &Client, path: &str) -> Result<Self, ApiError> {
        Ok(Self { lines: Lines::open(client, path).await?, kind: std::marker::PhantomData })
    }

    /// Waits for the next event; None when the server ended the stream.
    ///
    /// # Errors
    /// An `ERROR` event (410 `Expired` among them), a broken connection, or a line that is not an event.
    pub async fn next(&mut self) -> Result<Option<WatchEvent<K>>, ApiError> {
        match self.lines.next().await? {
            Some(line) => parse(&line, |bytes| decode(bytes)).map(Some),
            None => Ok(None),
        }
    }
}

impl Lines {
    pub(super) async fn open(client: &Client, path: &str) -> Result<Self, ApiError> {
        let response = client.stream(path).await?;
        let whole_lines = response.extensions().get::<WholeLines>().is_some();
        let body = response.into_body();
        Ok(Self { body, whole_lines, buffer: BytesMut::new(), searched: 0 })
    }

    /// Waits for the next line, with its newline.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let line = self.buffer.split_to(self.searched + at + 1);
                self.searched = 0;
                if line.len() > 1 {
                    return Ok(Some(line.freeze()));
                }
                continue;
            }
            self.searched = self.buffer.len();
            if self.searched > LINE_LIMIT {
                return Err(ApiError::Decode("a watch event is too long".to_owned()));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if self.whole_lines && self.buffer.is_empty() && data.len() > 1 && data.ends_with(b"\n") {
                        return Ok(Some(data));
                    }
                    // Usually one frame is one line, which is not copied.
                    let ends_at = memchr::memchr(b'\n', &data).map(|at| at + 1);
                    if self.buffer.is_empty() && ends_at == Some(data.len()) {
                        return Ok(Some(data));
                    }
                    self.buffer.extend_from_slice(&data);
                }
                Some(Err(e)) => return Err(ApiError::Transport(e.to_string())),
                None => return Ok(None),
            }
        }
    }
}

/// Splits a line in the layout of API servers into event type and object.
fn split(line: &[u8]) -> Option<(&'static str, &[u8])> {
    const KINDS: [(&str, &[u8]); 3] = [
        ("MODIFIED", b"{\"type\":\"MODIFIED\",\"object\":"),
        ("ADDED", b"{\"type\":\"ADDED\",\"object\":"),
        ("DELETED", b"{\"type\":\"DELETED\",\"object\":"),
    ];
    let (kind, rest) = KINDS.iter().find_map(|(kind, start)| Some((*kind, line.strip_prefix(*start)?)))?;
    Some((kind, rest.trim_ascii_end().strip_suffix(b"}")?))
}

/// Parses one line; `object` decodes the object.
pub(super) fn parse<T>(
    line: &Bytes,
    object: impl Fn(&Bytes) -> Result<T, serde_json::Error>,
) -> Result<WatchEvent<T>, ApiError> {
    let event = |kind: &str, object: T| match kind {
        "ADDED" => WatchEvent::Added(object),
        "MODIFIED" => WatchEvent::Modified(object),
        _ => WatchEvent::Deleted(object),
    };
    // Fast path without a scan of the object; any other layout takes the slow path.
    if let Some((kind, bytes)) = split(line)
        && let Ok(object) = object(&line.slice_ref(bytes))
    {
        return Ok(event(kind, object));
    }
    let bad = |e: serde_json::Error| ApiError::Decode(format!("watch event: {e}"));
    let parsed: Line<'_> = serde_json::from_slice(line).map_err(bad)?;
    let text = parsed.object.get();
    match parsed.kind {
        "ADDED" | "MODIFIED" | "DELETED" => {
            object(&line.slice_ref(text.as_bytes())).map(|o| event(parsed.kind, o)).map_err(bad)
        }
        "BOOKMARK" => {
            serde_json::from_str::<Marked>(text).map(|m| WatchEvent::Bookmark(m.metadata.resource_version)).map_err(bad)
        }
        "ERROR" => Err(ApiError::Status(Box::new(serde_json::from_str::<Status>(text).map_err(bad)?))),
        other => Err(ApiError::Decode(format!("watch event of unknown type `{other}`"))),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    #[test]
    fn key_order_of_a_line_does_not_matter() {
        let line = br#"{"object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}},"type":"ADDED"}"#;
        assert!(
            matches!(parse(&Bytes::from_static(line), |b| decode::<Node>(b)), Ok(WatchEvent::Added(node)) if node.name() == "a")
        );
    }

    #[test]
    fn the_short_way_and_the_long_way_agree() {
        let short = b"{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n";
        let long = b"{\"type\": \"DELETED\", \"object\": {\"metadata\": {\"name\": \"a\"}}}\n";
        assert!(split(short).is_some() && split(long).is_none());
        for line in [&short[..], &long[..]] {
            assert!(
                matches!(parse(&Bytes::from_static(line), |b| decode::<Node>(b)), Ok(WatchEvent::Deleted(node)) if node.name() == "a")
            );
        }
    }

    #[test]
    fn an_expired_revision_is_detected() {
        let line = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
        assert!(parse(&Bytes::from_static(line), |b| decode::<Node>(b)).is_err_and(|e| e.is_expired()));
    }

    #[test]
    fn a_bookmark_carries_its_revision() {
        let line =
            br#"{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}"#;
        assert!(
            matches!(parse(&Bytes::from_static(line), |b| decode::<Node>(b)), Ok(WatchEvent::Bookmark(v)) if v == "7")
        );
    }
}
