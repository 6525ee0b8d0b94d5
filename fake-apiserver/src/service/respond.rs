//! Answers: objects, lists and failures in the negotiated representation.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use substrate::body::{Body, full};
use substrate::json::{Value, json};

use super::call::Call;
use super::listing;
use crate::kinds::{Kind, KindRef};
use crate::state::value::text;
use crate::state::{Listed, Object, Status, complete, encode, line, to_view};
use crate::wire::negotiate::{self, Encoding, IncludeObject, Representation};
use crate::wire::{list, protobuf, table};

/// Maximum number of warnings of an answer.
const MAX_WARNINGS: usize = 50;

/// Representation of objects for one caller.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    kind: KindRef,
    representation: Representation,
    encoding: Encoding,
    include: IncludeObject,
    /// True if a Table of one object omits its columns, because an earlier event of the stream had them.
    headless: bool,
}

impl Shown {
    /// Negotiates the representation of a request.
    ///
    /// # Errors
    /// 406 if the server supports none of the accepted representations, 400 for a bad `includeObject`.
    pub(crate) fn negotiate(call: &Call, accept: Option<&str>) -> Result<Self, Status> {
        // Custom kinds have no protobuf messages.
        let chosen =
            if call.kind.custom.is_some() { negotiate::accept_custom(accept) } else { negotiate::accept(accept) };
        let (representation, encoding) =
            chosen.map_err(|error| Status::new(406, "NotAcceptable", error.to_string()))?;
        let include = IncludeObject::parse(call.query.get("includeObject")).map_err(Status::bad_request)?;
        Ok(Self { kind: call.kind.clone(), representation, encoding, include, headless: false })
    }

    /// Returns the representation of stored objects in JSON.
    pub(crate) fn plain(kind: KindRef) -> Self {
        let (representation, encoding) = (Representation::Object, Encoding::Json);
        Self { kind, representation, encoding, include: IncludeObject::default(), headless: false }
    }

    /// Returns true if objects are shown completely.
    pub(super) fn is_whole(&self) -> bool {
        self.representation == Representation::Object
    }

    /// Returns true if stored objects are shown as they are.
    fn is_plain(&self) -> bool {
        self.representation == Representation::Object && !self.kind.is_view()
    }

    /// Returns true if answers are in JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.encoding == Encoding::Json
    }

    /// Returns true if stored JSON can be sent as it is.
    pub(crate) fn is_stored_json(&self) -> bool {
        self.is_plain() && self.encoding == Encoding::Json
    }

    /// Creates an answer from encoded bytes.
    pub(crate) fn answer(&self, code: u16, bytes: Bytes) -> Response<Body> {
        encoded(code, bytes, self.encoding)
    }

    /// Creates an answer with a document of another kind, such as a token or a successful `Status`.
    pub(crate) fn document(&self, code: u16, value: &Value) -> Response<Body> {
        document(code, value, self.encoding)
    }

    /// Creates an answer with a Scale. That of a custom kind has no Table.
    pub(super) fn scale(&self, scale: &Value, now: Timestamp) -> Response<Body> {
        if self.representation == Representation::Table && self.kind.custom.is_none() {
            return json_value(200, &table::scale(scale, now, self.include));
        }
        self.document(200, scale)
    }

    /// Omits the columns of Tables from now on: the first event of a stream had them.
    pub(crate) fn omit_columns(&mut self) {
        self.headless = true;
    }

    /// Returns the media type of a watch stream.
    pub(crate) fn stream_media(&self) -> &'static str {
        match self.encoding {
            Encoding::Json => "application/json",
            Encoding::Protobuf => protobuf::WATCH_MEDIA,
        }
    }

    /// Encodes a watch event around an encoded object.
    pub(crate) fn event(&self, event_type: &str, object: &[u8]) -> Bytes {
        match self.encoding {
            Encoding::Json => line(event_type, object),
            Encoding::Protobuf => protobuf::watch_event(event_type, object),
        }
    }

    /// Encodes the ERROR event of a failure.
    pub(crate) fn error_event(&self, status: &Status) -> Bytes {
        self.event("ERROR", &document_bytes(&status.to_value(), self.encoding))
    }

    /// Encodes one object.
    pub(crate) fn object(&self, object: &Object, now: Timestamp) -> Bytes {
        match self.encoding {
            Encoding::Json if self.is_plain() => object.json(),
            Encoding::Json => encode(&self.value(&object.value.read(), now)),
            Encoding::Protobuf => {
                let (api_version, kind) = self.shown_type();
                protobuf::envelope(&api_version, kind, &self.message(object, now))
            }
        }
    }

    /// Returns apiVersion and kind of a shown object.
    fn shown_type(&self) -> (String, &'static str) {
        match self.representation {
            Representation::Object => (self.kind.api_version(), self.kind.kind),
            Representation::PartialMetadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata"),
            Representation::Table => ("meta.k8s.io/v1".to_owned(), "Table"),
        }
    }

    /// Encodes one object as protobuf. For a stored object this happens once per revision.
    fn message(&self, object: &Object, now: Timestamp) -> Bytes {
        let (api_version, kind) = self.shown_type();
        // Every type that is sent as protobuf is in the table.
        let message = |value: &Value| protobuf::encode(&api_version, kind, value).unwrap_or_default();
        if self.is_plain() { object.protobuf(message).clone() } else { message(&self.value(&object.value.read(), now)) }
    }

    /// Converts the tree of a stored object for this caller.
    pub(crate) fn value(&self, value: &Value, now: Timestamp) -> Value {
        let viewed;
        let value = if self.kind.is_view() {
            viewed = to_view(&self.kind, value);
            &viewed
        } else {
            value
        };
        match self.representation {
            Representation::Object => value.clone(),
            Representation::PartialMetadata => table::partial_metadata(value),
            Representation::Table => {
                let meta = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
                let mut table = table::table(&self.kind, std::iter::once(value), meta, now, self.include);
                if self.headless {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
        }
    }

    /// Creates the answer of a list.
    pub(crate) fn list(&self, code: u16, listed: Listed, now: Timestamp) -> Response<Body> {
        let mut meta = json!({"resourceVersion": listed.revision.to_string()});
        if let Some(fields) = meta.as_object_mut() {
            if !listed.token.is_empty() {
                fields.insert("continue", listed.token.as_str().into());
            }
            if let Some(remaining) = listed.remaining {
                fields.insert("remainingItemCount", remaining.into());
            }
        }
        if self.encoding == Encoding::Protobuf {
            let messages: Vec<Bytes> = listed.items.iter().map(|object| self.message(object, now)).collect();
            let (api_version, kind) = self.shown_type();
            let list = protobuf::list(&meta, messages.iter().map(|m| &m[..]));
            return self.answer(code, protobuf::envelope(&api_version, &format!("{kind}List"), &list));
        }
        // One after the other, so that only one parsed tree exists at the same time.
        let values = listed.items.iter().map(|object| match object.value.read() {
            tree if self.kind.is_view() => Cow::Owned(to_view(&self.kind, &tree)),
            tree => tree,
        });
        let items = match self.representation {
            Representation::Table => {
                return self.answer(code, encode(&table::table(&self.kind, values, meta, now, self.include)));
            }
            Representation::PartialMetadata => {
                return self.answer(code, encode(&table::partial_metadata_list(values, meta)));
            }
            Representation::Object if self.is_plain() => listed.items,
            Representation::Object => values.map(|value| Object::transient(value.into_owned())).collect(),
        };
        let mut response = typed(code, media(self.encoding), Bytes::new());
        *response.body_mut() = listing::body(list::Frame::of(&self.kind, &meta), items);
        response
    }

    /// Encodes the object of a bookmark: of this kind, with a revision only.
    pub(crate) fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let bookmark = match self.representation {
            Representation::Object => {
                let mut object =
                    json!({"kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata});
                complete(&self.kind, &mut object);
                object
            }
            Representation::PartialMetadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Representation::Table => {
                let columns = if self.headless { Value::Null } else { table::columns(&self.kind) };
                let row =
                    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
                json!({
                    "kind": "Table",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"resourceVersion": revision.to_string()},
                    "columnDefinitions": columns,
                    "rows": [{"cells": [], "object": row}],
                })
            }
        };
        match self.encoding {
            Encoding::Json => encode(&bookmark),
            Encoding::Protobuf => {
                let (api_version, kind) = self.shown_type();
                let message = protobuf::encode(&api_version, kind, &bookmark).unwrap_or_default();
                protobuf::envelope(&api_version, kind, &message)
            }
        }
    }
}

/// Creates a JSON answer from a tree.
pub(crate) fn json_value(code: u16, value: &Value) -> Response<Body> {
    encoded(code, encode(value), Encoding::Json)
}

/// Creates an answer in some encoding. JSON ends with a newline, as in Go.
fn encoded(code: u16, bytes: Bytes, encoding: Encoding) -> Response<Body> {
    let mut response = typed(code, media(encoding), Bytes::new());
    *response.body_mut() = match encoding {
        Encoding::Json => Body::line(bytes),
        Encoding::Protobuf => full(bytes),
    };
    response
}

/// Creates an answer of some media type.
pub(crate) fn typed(code: u16, media: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// Returns the Content-Type of answers.
fn media(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Json => "application/json",
        Encoding::Protobuf => protobuf::MEDIA,
    }
}

/// Encodes a document with its own apiVersion and kind.
fn document_bytes(value: &Value, encoding: Encoding) -> Bytes {
    match encoding {
        Encoding::Json => encode(value),
        Encoding::Protobuf => {
            let (api_version, kind) = (text(value, &["apiVersion"]), text(value, &["kind"]));
            // Every type that is sent is in the table.
            let message = protobuf::encode(api_version, kind, value).unwrap_or_default();
            protobuf::envelope(api_version, kind, &message)
        }
    }
}

/// Creates an answer from a document with its own apiVersion and kind.
pub(crate) fn document(code: u16, value: &Value, encoding: Encoding) -> Response<Body> {
    encoded(code, document_bytes(value, encoding), encoding)
}

/// Creates a failure in JSON, with Retry-After if a retry makes sense.
pub(crate) fn failure(status: &Status) -> Response<Body> {
    failure_to(status, None)
}

/// Returns a warning as a header value (RFC 7234, Warning); `None` if it has characters that a header cannot contain.
pub(crate) fn warning(text: &str) -> Option<HeaderValue> {
    let quoted = text.replace('\n', " ").replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_str(&format!("299 - \"{quoted}\"")).ok()
}

/// Adds warnings after the existing ones.
pub(crate) fn warn(response: &mut Response<Body>, wording: &[String]) {
    for value in wording.iter().filter_map(|text| warning(text)).take(MAX_WARNINGS) {
        response.headers_mut().append(header::WARNING, value);
    }
}

/// Adds a warning before the existing ones.
pub(crate) fn warn_first(response: &mut Response<Body>, text: &str) {
    let Some(first) = warning(text) else { return };
    let headers = response.headers_mut();
    let others: Vec<HeaderValue> = headers.get_all(header::WARNING).iter().cloned().collect();
    headers.insert(header::WARNING, first);
    for other in others {
        headers.append(header::WARNING, other);
    }
}

/// Returns the warning about a deprecated kind.
pub(crate) fn deprecation(kind: &Kind) -> Option<&str> {
    match (kind.group, kind.kind) {
        ("", "Endpoints") => Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => kind.custom.as_ref()?.deprecation.as_deref(),
    }
}

/// Creates a failure in the encoding that an Accept header prefers.
pub(crate) fn failure_to(status: &Status, accept: Option<&str>) -> Response<Body> {
    let encoding = negotiate::accept(accept).map(|(_, encoding)| encoding).unwrap_or_default();
    let mut response = document(status.code, &status.to_value(), encoding);
    warn(&mut response, &status.details.warnings);
    if let Some(seconds) = status.details.retry_after_seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
