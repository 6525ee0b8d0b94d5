//! Request bodies: JSON, YAML and protobuf, at most 3 MiB.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http_body_util::BodyExt;
use substrate::body::{Body, Pieces};
use substrate::json::{self, Value};

use super::deadline;
use crate::go_json;
use crate::state::Status;
use crate::wire::protobuf;

/// What upstream takes at most (`MaxRequestBodyBytes`).
const LIMIT: usize = 3 << 20;
/// The kind of what a DELETE may bring.
const OPTIONS: &str = "DeleteOptions";
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The Content-Type of a request; empty when it has none.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// What a client sent.
pub(crate) struct Sent {
    /// As a tree; null when it is empty.
    pub value: Value,
    /// As it came.
    pub text: SentText,
}

/// The text of what a client sent, which may say what its tree does not.
pub(crate) enum SentText {
    /// It was none: a tree of a caller in the same OS process, or protobuf.
    None,
    /// JSON.
    Json {
        /// The text.
        text: Bytes,
        /// Whether an object in it names a member more than once.
        repeats: bool,
    },
    /// YAML.
    Yaml(Bytes),
}

impl SentText {
    /// The text; empty when there is none.
    pub fn bytes(&self) -> Bytes {
        match self {
            Self::None => Bytes::new(),
            Self::Json { text, .. } | Self::Yaml(text) => text.clone(),
        }
    }
}

/// Reads a body. The tree of a caller in the same OS process is taken as it is. A protobuf body that names no type is of
/// the `expected` apiVersion and kind.
///
/// # Errors
/// 413 for too much, 415 for a media type that is not understood, 400 for what is not of the media type.
pub(crate) async fn read(
    parts: &Parts,
    mut body: Body,
    expected: impl FnOnce() -> (String, &'static str),
) -> Result<Sent, Status> {
    let media = content_type(&parts.headers).split(';').next().unwrap_or_default().trim();
    let is_json = media.is_empty() || media == "application/json" || media.ends_with("+json");
    if is_json && let Some(tree) = body.take_document(LIMIT) {
        return Ok(Sent { value: tree, text: SentText::None });
    }
    let bytes = whole(body, LIMIT).await?;
    if bytes.is_empty() && !is_json {
        return Ok(Sent { value: Value::Null, text: SentText::None });
    }
    if is_json {
        let (value, repeats, bytes) = match parse(bytes) {
            Ok(parsed) => parsed,
            Err((error, bytes)) => {
                let kind = expected().1;
                // Options may be left out.
                if bytes.is_empty() && kind == OPTIONS {
                    return Ok(Sent { value: Value::Null, text: SentText::None });
                }
                return Err(no_json(media, kind, &bytes, &error));
            }
        };
        if !media.ends_with("patch+json")
            && let Some(why) = untyped(&value)
        {
            return Err(undecoded(expected().1, &bytes, &why));
        }
        Ok(Sent { value, text: SentText::Json { text: bytes, repeats } })
    } else if matches!(media, "application/yaml" | "application/apply-patch+yaml") {
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| Status::bad_request(format!("the body of the request is not UTF-8: {error}")))?;
        // As upstream: the last one of a key counts, and who wants to know is told.
        let options = substrate::yaml::options! { duplicate_keys: substrate::yaml::DuplicateKeyPolicy::LastWins };
        let value = substrate::yaml::from_str_with_options(text, options)
            .map_err(|error| Status::bad_request(format!("the body of the request is not valid YAML: {error}")))?;
        Ok(Sent { value, text: SentText::Yaml(bytes) })
    } else if media == protobuf::MEDIA {
        let (version, kind) = expected();
        let value = protobuf::decode(&bytes, (&version, kind)).map_err(|error| {
            Status::bad_request(format!("the body of the request is not a valid protobuf object: {error}"))
        })?;
        Ok(Sent { value, text: SentText::None })
    } else {
        Err(Status::unsupported_media_type(ACCEPTED))
    }
}

/// What is told of a text that is not JSON.
fn no_json(media: &str, kind: &str, bytes: &[u8], error: &serde_json::Error) -> Status {
    if media.ends_with("patch+json") {
        return Status::bad_request("invalid JSON patch");
    }
    // What Go would take is too deep or no text.
    undecoded(kind, bytes, &go_json::refusal(bytes).unwrap_or_else(|| error.to_string()))
}

/// The refusal of a text of which it cannot be told what it is.
fn undecoded(kind: &str, bytes: &[u8], why: &str) -> Status {
    let why = format!("couldn't get version/kind; json parse error: {why}");
    if kind == OPTIONS {
        return Status::bad_request(why);
    }
    let summary = go_json::summary(bytes);
    Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({summary})"))
}

/// Why a tree does not say what it is, in the words of Go's decoder.
fn untyped(value: &Value) -> Option<String> {
    const TYPE: &str =
        r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let word = go_json::word;
    match value {
        Value::Null => None,
        Value::Object(map) => ["apiVersion", "kind"].iter().find_map(|field| {
            let wrong = map.get(field).filter(|said| !said.is_null() && !said.is_string())?;
            Some(format!("json: cannot unmarshal {} into Go struct field .{field} of type string", word(wrong)))
        }),
        other => Some(format!("json: cannot unmarshal {} into Go value of type {TYPE}", word(other))),
    }
}

/// Looks at a body for the name of what is to be made, `generateName` where it has none, and gives the body back; an
/// empty name for what is no object.
///
/// # Errors
/// 413 for too much, 400 for what breaks off.
pub(crate) async fn peek(
    parts: &Parts,
    mut body: Body,
    expected: impl FnOnce() -> (String, &'static str),
) -> Result<(Body, String), Status> {
    if let Some(tree) = body.take_document(LIMIT) {
        let name = asked(&tree);
        return Ok((Body::document(tree), name));
    }
    let bytes = whole(body, LIMIT).await?;
    let again = substrate::body::full(bytes.clone());
    let name = read(parts, again, expected).await.map(|sent| asked(&sent.value)).unwrap_or_default();
    Ok((substrate::body::full(bytes), name))
}

/// The name that an object asks for.
fn asked(object: &Value) -> String {
    let metadata = &object["metadata"];
    let text = |key: &str| metadata[key].as_str().filter(|text| !text.is_empty());
    text("name").or_else(|| text("generateName")).unwrap_or_default().to_owned()
}

/// Parses JSON; gives the text that was parsed, which differs from what was sent in what is no character. One look at
/// all bytes is cheaper than one at each string.
fn parse(bytes: Bytes) -> Result<(Value, bool, Bytes), (serde_json::Error, Bytes)> {
    let first = match std::str::from_utf8(&bytes) {
        Ok(text) => json::read(text),
        // It says where the bytes are no text.
        Err(_) => serde_json::from_slice(&bytes).map(|value| (value, false)),
    };
    match first {
        Ok((value, repeats)) => Ok((value, repeats, bytes)),
        Err(error) => match go_json::repaired(&bytes).map(|text| (json::read(&text), text)) {
            Some((Ok((value, repeats)), text)) => Ok((value, repeats, text.into())),
            _ => Err((error, bytes)),
        },
    }
}

/// Reads a body to its end.
///
/// # Errors
/// 413 when it is longer than `limit` bytes, 400 when it breaks off.
pub(crate) async fn whole(mut body: Body, limit: usize) -> Result<Bytes, Status> {
    let mut whole = Pieces::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if deadline::is_over(&error) {
                return deadline::over();
            }
            Status::bad_request(format!("the request body could not be read: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        whole.push(data);
        if whole.len() > limit {
            return Err(Status::too_large(format!("Request entity is too large: limit is {limit}")));
        }
    }
    Ok(whole.join())
}
