//! Request bodies: JSON and YAML, at most 3 MiB.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::Value;
use substrate::body::{Body, collect};

use crate::state::Status;

/// What upstream takes at most (`MaxRequestBodyBytes`).
const LIMIT: usize = 3 << 20;
const ACCEPTED: &str = "application/json, application/yaml";

/// The Content-Type of a request; empty when it has none.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// Reads a body as a tree; null when it is empty.
///
/// # Errors
/// 413 for too much, 415 for a media type that is not understood, 400 for what is not JSON or YAML.
pub(crate) async fn read(headers: &HeaderMap, body: Body) -> Result<Value, Status> {
    let bytes = collect(body, LIMIT).await.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            Status::too_large(format!("Request entity is too large: limit is {LIMIT}"))
        } else {
            Status::bad_request(format!("the request body could not be read: {error}"))
        }
    })?;
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let media = content_type(headers).split(';').next().unwrap_or_default().trim();
    let json = media.is_empty() || media == "application/json" || media.ends_with("+json");
    if json {
        serde_json::from_slice(&bytes)
            .map_err(|error| Status::bad_request(format!("the body of the request is not valid JSON: {error}")))
    } else if media == "application/yaml" {
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| Status::bad_request(format!("the body of the request is not UTF-8: {error}")))?;
        serde_saphyr::from_str(text)
            .map_err(|error| Status::bad_request(format!("the body of the request is not valid YAML: {error}")))
    } else {
        Err(Status::unsupported_media_type(ACCEPTED))
    }
}
