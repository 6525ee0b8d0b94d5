//! Answers in YAML for those who ask for it: JSON that is written again. Streams and what has a form of its own stay.

use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::Body as _;
use substrate::body::{Body, BoxError, collect, full};
use substrate::json::Value;

use crate::text;
use crate::wire::negotiate::{NotAcceptable, prefers_yaml};

/// The media type.
const MEDIA: &str = "application/yaml";
/// Paths whose documents have a form of their own, and those that are Mooring's.
const AS_IT_IS: [&str; 3] = ["/openapi/", "/admin/", "/version"];

/// True if a request asks for YAML before JSON.
pub(super) fn is_wanted(request: &Request<Body>) -> bool {
    asks(request.headers()) && !AS_IT_IS.iter().any(|prefix| request.uri().path().starts_with(prefix))
}

/// True if an Accept header asks for YAML before JSON.
pub(super) fn asks(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.contains("yaml") && prefers_yaml(accept)
}

/// The refusal of a watch in YAML, which has no frames.
pub(super) fn no_stream() -> NotAcceptable {
    NotAcceptable::Stream
}

/// The same answer with its JSON as YAML.
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
