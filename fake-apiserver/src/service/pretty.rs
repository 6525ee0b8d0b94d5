//! Indented JSON, on request and for browsers and command-line clients (apiserver `endpoints/handlers/negotiation`).

use http::{HeaderMap, Request, Response, header};
use http_body::Body as _;
use substrate::body::{Body, BoxError, collect, full};

use super::query::Query;
use crate::text;
use crate::wire::negotiate::clauses;

/// Prefixes of the User-Agents of browsers and command-line clients.
const PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];
/// Paths that are never indented, as streams are not: documents with their own form, and Mooring's admin API.
const AS_IT_IS: [&str; 2] = ["/openapi/", "/admin/"];

/// Returns true if a request asks for indented JSON: by its parameter, or else by its Accept header or its User-Agent.
pub(super) fn is_wanted(request: &Request<Body>) -> bool {
    let header = |name| text_of(request.headers(), name);
    let (agent, accept) = (header(header::USER_AGENT), header(header::ACCEPT));
    let query = request.uri().query().unwrap_or_default();
    let asked = accept.contains("pretty") && {
        let mut clauses = clauses(accept).into_iter();
        clauses.find(|clause| clause.takes_json()).is_some_and(|clause| clause.parameter("pretty") == Some("1"))
    };
    let by_agent = || PEOPLE.iter().any(|name| agent.starts_with(name));
    if !asked && !query.contains("pretty") && !by_agent() {
        return false;
    }
    let (query, path) = (Query::parse(Some(query)), request.uri().path());
    let streams = query.flag("watch").unwrap_or(false) || path.contains("/watch/");
    if streams || AS_IT_IS.iter().any(|prefix| path.starts_with(prefix)) {
        return false;
    }
    asked
        || match query.get("pretty") {
            "" => by_agent(),
            // Go's rules for booleans.
            message => matches!(message, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        }
}

fn text_of(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Indents the JSON of an answer and drops the newline at its end, as Go does.
pub(super) async fn indented(response: Response<Body>) -> Result<Response<Body>, BoxError> {
    let is_json = text_of(response.headers(), header::CONTENT_TYPE).starts_with("application/json");
    // An answer without a length is a stream.
    if !is_json || response.body().size_hint().exact().is_none_or(|length| length == 0) {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let compact = collect(body, usize::MAX).await?;
    Ok(Response::from_parts(parts, full(text::indent(&compact))))
}
