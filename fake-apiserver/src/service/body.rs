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

/// Upstream's limit (`MaxRequestBodyBytes`).
const LIMIT: usize = 3 << 20;
/// Kind of the optional body of a DELETE.
const OPTIONS: &str = "DeleteOptions";
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Returns the Content-Type of a request; empty if it has none.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// A parsed request body.
pub(crate) struct Sent {
    /// The body as a tree; null if it is empty.
    pub value: Value,
    /// The body as text.
    pub text: SentText,
}

/// Text of a request body, which may contain more than its tree, such as duplicate keys.
pub(crate) enum SentText {
    /// No text: a tree from a caller in the same OS process, or protobuf.
    None,
    /// JSON.
    Json {
        /// The text.
        text: Bytes,
        /// True if an object in it has a duplicate key.
        repeats: bool,
    },
    /// YAML.
    Yaml(Bytes),
}

impl SentText {
    /// Returns the text; empty if there is none.
    pub fn bytes(&self) -> Bytes {
        match self {
            Self::None => Bytes::new(),
            Self::Json { text, .. } | Self::Yaml(text) => text.clone(),
        }
    }
}

/// Reads a body. Takes the tree of a caller in the same OS process as it is. A protobuf body without a type is of the
/// `expected` apiVersion and kind.
///
/// # Errors
/// 413 for a body that is too large, 415 for an unknown media type, 400 for a body that does not parse.
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
                // Options are optional.
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
        // As upstream, the last value of a duplicate key is used. Field validation reports duplicates.
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

/// Returns the error for a text that is not JSON.
fn no_json(media: &str, kind: &str, bytes: &[u8], error: &serde_json::Error) -> Status {
    // Go would accept a text that is nested too deeply or is not UTF-8.
    let why = go_json::refusal(bytes).unwrap_or_else(|| error.to_string());
    match media {
        "application/strategic-merge-patch+json" => Status::bad_request(why),
        _ if media.ends_with("patch+json") => Status::bad_request(format!("error decoding patch: {why}")),
        _ => undecoded(kind, bytes, &why),
    }
}

/// Returns the error for a text without a readable apiVersion and kind.
fn undecoded(kind: &str, bytes: &[u8], why: &str) -> Status {
    let why = format!("couldn't get version/kind; json parse error: {why}");
    if kind == OPTIONS {
        return Status::bad_request(why);
    }
    let summary = go_json::summary(bytes);
    Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({summary})"))
}

/// Returns the reason why apiVersion and kind of a tree cannot be read, in the words of Go's decoder.
fn untyped(value: &Value) -> Option<String> {
    const TYPE: &str =
        r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let word = go_json::word;
    match value {
        Value::Null => None,
        Value::Object(map) => ["apiVersion", "kind"].iter().find_map(|field| {
            let wrong = map.get(field).filter(|message| !message.is_null() && !message.is_string())?;
            Some(format!("json: cannot unmarshal {} into Go struct field .{field} of type string", word(wrong)))
        }),
        other => Some(format!("json: cannot unmarshal {} into Go value of type {TYPE}", word(other))),
    }
}

/// Reads the name of the object to create from a body, or its `generateName`, and returns the body for further reading.
/// The name is empty if the body is not an object.
///
/// # Errors
/// 413 for a body that is too large, 400 for one that breaks off.
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

/// Returns the name that an object requests.
fn asked(object: &Value) -> String {
    let metadata = &object["metadata"];
    let text = |key: &str| metadata[key].as_str().filter(|text| !text.is_empty());
    text("name").or_else(|| text("generateName")).unwrap_or_default().to_owned()
}

/// Parses JSON and returns the parsed text, in which invalid characters are replaced. One UTF-8 check of the whole text
/// is cheaper than one per string.
fn parse(bytes: Bytes) -> Result<(Value, bool, Bytes), (serde_json::Error, Bytes)> {
    let first = match std::str::from_utf8(&bytes) {
        Ok(text) => json::read(text),
        // This error has the position of the invalid bytes.
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
/// 413 if it is longer than `limit` bytes, 400 if it breaks off.
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
