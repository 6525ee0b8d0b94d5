//! YAML answers on request, converted from JSON. Streams and documents with their own form stay as they are.

use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::Body as _;
use substrate::body::{Body, BoxError, collect, full};
use substrate::json::Value;

use crate::text;
use crate::wire::negotiate::{NotAcceptable, prefers_yaml};

/// The media type.
const MEDIA: &str = "application/yaml";
/// Paths of documents with their own form, and of Mooring's admin API.
const AS_IT_IS: [&str; 3] = ["/openapi/", "/admin/", "/version"];

/// Returns true if a request prefers YAML to JSON.
pub(super) fn is_wanted(request: &Request<Body>) -> bool {
    asks(request.headers()) && !AS_IT_IS.iter().any(|prefix| request.uri().path().starts_with(prefix))
}

/// Returns true if an Accept header prefers YAML to JSON.
pub(super) fn asks(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.contains("yaml") && prefers_yaml(accept)
}

/// Returns the refusal of a watch in YAML, which has no framing.
pub(super) fn no_stream() -> NotAcceptable {
    NotAcceptable::Stream
}

/// Converts the JSON of an answer to YAML.
pub(super) async fn written(response: Response<Body>) -> Result<Response<Body>, BoxError> {
    let media = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    // A stream has no length.
    if media != Some("application/json") || response.body().size_hint().exact().is_none_or(|length| length == 0) {
        return Ok(response);
    }
    let (mut parts, body) = response.into_parts();
    let value: Value = serde_json::from_slice(&collect(body, usize::MAX).await?)?;
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA));
    parts.headers.remove(header::CONTENT_LENGTH);
    Ok(Response::from_parts(parts, full(text::yaml(&value))))
}
