//! Answers: objects, lists and failures in the representation that was asked for (R27).

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Value, json};
use substrate::body::{Body, full};

use super::call::Call;
use crate::kinds::Kind;
use crate::state::{Listed, Object, Status, encode, is_view, to_view};
use crate::wire::negotiate::{self, IncludeObject, Representation};
use crate::wire::table;

/// How objects are shown to one caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    kind: &'static Kind,
    representation: Representation,
    include: IncludeObject,
}

impl Shown {
    /// What a request asks for.
    ///
    /// # Errors
    /// 406 when nothing that is accepted can be made, 400 for a bad `includeObject`.
    pub(crate) fn negotiate(call: &Call, accept: Option<&str>) -> Result<Self, Status> {
        let representation =
            negotiate::accept(accept).map_err(|error| Status::new(406, "NotAcceptable", error.to_string()))?;
        let include = IncludeObject::parse(call.query.get("includeObject")).map_err(Status::bad_request)?;
        Ok(Self { kind: call.kind, representation, include })
    }

    /// Whether stored bytes can be sent as they are.
    pub(crate) fn is_plain(&self) -> bool {
        self.representation == Representation::Object && !is_view(self.kind)
    }

    /// One object.
    pub(crate) fn object(&self, object: &Object, now: Timestamp) -> Bytes {
        if self.is_plain() { object.json.clone() } else { encode(&self.value(&object.value, now)) }
    }

    /// A tree of a stored object as this caller sees it.
    pub(crate) fn value(&self, value: &Value, now: Timestamp) -> Value {
        let viewed;
        let value = if is_view(self.kind) {
            viewed = to_view(value);
            &viewed
        } else {
            value
        };
        match self.representation {
            Representation::Object => value.clone(),
            Representation::PartialMetadata => table::partial_metadata(value),
            Representation::Table => {
                let meta = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
                table::table(self.kind, std::iter::once(value), meta, now, self.include)
            }
        }
    }

    /// A list.
    pub(crate) fn list(&self, listed: &Listed, now: Timestamp) -> Bytes {
        let mut meta = json!({"resourceVersion": listed.revision.to_string()});
        if let Some(fields) = meta.as_object_mut() {
            if !listed.token.is_empty() {
                fields.insert("continue".into(), listed.token.as_str().into());
            }
            if let Some(remaining) = listed.remaining {
                fields.insert("remainingItemCount".into(), remaining.into());
            }
        }
        if self.is_plain() {
            return plain_list(self.kind, &listed.items, &meta);
        }
        let viewed: Vec<Value> =
            if is_view(self.kind) { listed.items.iter().map(|o| to_view(&o.value)).collect() } else { Vec::new() };
        let values: Vec<&Value> =
            if viewed.is_empty() { listed.items.iter().map(|o| &o.value).collect() } else { viewed.iter().collect() };
        encode(&match self.representation {
            Representation::Table => table::table(self.kind, values.into_iter(), meta, now, self.include),
            Representation::PartialMetadata => table::partial_metadata_list(values.into_iter(), meta),
            Representation::Object => json!({
                "kind": self.kind.list_kind(),
                "apiVersion": self.kind.api_version(),
                "metadata": meta,
                "items": values,
            }),
        })
    }

    /// An object of this kind that holds nothing but a revision, for bookmarks.
    pub(crate) fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        encode(&match self.representation {
            Representation::Object => {
                json!({"kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata})
            }
            Representation::PartialMetadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Representation::Table => {
                let row =
                    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
                json!({
                    "kind": "Table",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"resourceVersion": revision.to_string()},
                    "columnDefinitions": [],
                    "rows": [{"cells": [], "object": row}],
                })
            }
        })
    }
}

/// A list made of the items' own bytes.
fn plain_list(kind: &Kind, items: &[Arc<Object>], meta: &Value) -> Bytes {
    let size: usize = items.iter().map(|o| o.json.len() + 1).sum();
    let mut list = BytesMut::with_capacity(size + 256);
    list.put_slice(
        format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":", kind.list_kind(), kind.api_version())
            .as_bytes(),
    );
    list.put_slice(&encode(meta));
    list.put_slice(b",\"items\":[");
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            list.put_u8(b',');
        }
        list.put_slice(&item.json);
    }
    list.put_slice(b"]}");
    list.freeze()
}

/// A JSON answer.
pub(crate) fn json_bytes(code: u16, bytes: Bytes) -> Response<Body> {
    typed(code, "application/json", bytes)
}

/// A JSON answer from a tree.
pub(crate) fn json_value(code: u16, value: &Value) -> Response<Body> {
    json_bytes(code, encode(value))
}

/// An answer of some media type.
pub(crate) fn typed(code: u16, media: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// A failure; with Retry-After where a retry makes sense.
pub(crate) fn failure(status: &Status) -> Response<Body> {
    let mut response = json_value(status.code, &status.to_value());
    if let Some(seconds) = status.details.retry_after_seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
