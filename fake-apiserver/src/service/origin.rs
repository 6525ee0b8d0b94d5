//! A server in front of another API server, the origin. The origin answers all requests on resources and all documents;
//! this server applies faults, and records in the trace the commits that watches of the origin report.
//!
//! Watches are always relayed as JSON, so that faults can act on single events.

mod commits;
mod lines;
mod relay;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::StreamBody;
use substrate::body::{Body, BoxError, boxed, collect, full};
use substrate::json;

use super::call::Call;
use super::fault::RequestFault;
use super::origin_state::OriginState;
use super::respond::failure;
use super::verb::Verb;
use super::{Server, accepted};
use crate::state::Status;

/// Largest request in bytes (`MaxRequestBodyBytes`).
const MOST: usize = 3 << 20;
/// Headers that belong to the connection of the client, not to its request.
const OF_CONNECTION: [HeaderName; 6] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::ACCEPT_ENCODING,
    header::AUTHORIZATION,
];

/// Builds a request to the origin.
fn request(method: &Method, path: &str, headers: HeaderMap, body: Bytes) -> Result<Request<Body>, BoxError> {
    let mut request = Request::builder().method(method).uri(path).body(full(body))?;
    *request.headers_mut() = headers;
    for name in OF_CONNECTION {
        request.headers_mut().remove(name);
    }
    Ok(request)
}

impl Server {
    /// Lets the origin answer a request.
    pub(super) async fn answer_by_origin(
        &self,
        state: &OriginState,
        parts: &Parts,
        body: Body,
    ) -> Result<Response<Body>, BoxError> {
        match self.parse(parts) {
            Ok(Some(call)) => self.answer_observed(parts, call, body).await,
            // A document, a review, or a resource that only the origin knows.
            _ => self.forward(state, parts, body).await,
        }
    }

    /// Forwards a request that is not on a known resource, such as one for a document, without faults.
    async fn forward(&self, state: &OriginState, parts: &Parts, body: Body) -> Result<Response<Body>, BoxError> {
        let body = collect(body, MOST).await?;
        state.origin.call(&self.ctx, request(&parts.method, &path(parts), headers(parts, &body), body)?).await
    }

    /// Forwards a request on a resource, with the effects of a fault on it.
    pub(super) async fn relayed(
        &self,
        state: &OriginState,
        parts: &Parts,
        call: &Call,
        body: Body,
        fault: RequestFault,
    ) -> Result<Response<Body>, BoxError> {
        let Ok(body) = collect(body, MOST).await else {
            return Ok(failure(&Status::too_large(format!("the request is longer than {MOST} bytes"))));
        };
        let named = match &call.name {
            Some(name) => name.clone(),
            None => name_of(&body),
        };
        state.note_writer(call, &named);
        let mut headers = headers(parts, &body);
        if call.verb == Verb::Watch {
            headers.insert(header::ACCEPT, HeaderValue::from_static(json_of(parts)));
        }
        let path = match fault.stale {
            0 => path(parts),
            revisions if call.verb == Verb::List => past(parts, self.shared.revision(), revisions),
            // A watch cannot begin with an old state. Clients fall back to a list, which can (client-go `watchList`).
            _ if call.verb == Verb::Watch && call.query.flag("sendInitialEvents") == Some(true) => {
                let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
                return Ok(failure(&Status::new(422, "Invalid", why)));
            }
            _ => path(parts),
        };
        let mut times = fault.times.unwrap_or(1).max(1);
        let response = loop {
            let request = request(&parts.method, &path, headers.clone(), body.clone())?;
            let response = state.origin.call(&self.ctx, request).await?;
            times -= 1;
            if times == 0 {
                break response;
            }
        };
        match call.verb {
            Verb::Watch if response.status().is_success() => {
                let (parts, body) = response.into_parts();
                let stream = relay::stream(self.ctx.clone(), call.clone(), body, fault);
                Ok(Response::from_parts(parts, boxed(StreamBody::new(stream))))
            }
            Verb::Create if call.name.is_none() && named.is_empty() => {
                self.named_by_origin(state, call, response).await
            }
            _ => Ok(response),
        }
    }

    /// Reads the name that the origin has generated from its answer.
    async fn named_by_origin(
        &self,
        state: &OriginState,
        call: &Call,
        response: Response<Body>,
    ) -> Result<Response<Body>, BoxError> {
        let (parts, body) = response.into_parts();
        let body = collect(body, usize::MAX).await?;
        state.note_writer(call, &name_of(&body));
        Ok(Response::from_parts(parts, full(body)))
    }
}

/// Returns the path of a request with its query.
fn path(parts: &Parts) -> String {
    parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned()
}

/// Returns the headers of a request to the origin. A caller in the same OS process sends a tree without a type.
fn headers(parts: &Parts, body: &Bytes) -> HeaderMap {
    let mut headers = parts.headers.clone();
    if !body.is_empty() && !headers.contains_key(header::CONTENT_TYPE) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    headers
}

/// Returns the JSON form of what the client of a watch accepts.
fn json_of(parts: &Parts) -> &'static str {
    if accepted(parts).unwrap_or_default().contains("as=Table") {
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    } else {
        "application/json"
    }
}

/// Returns the path of a list at the state of some revisions ago.
fn past(parts: &Parts, now: u64, revisions: u32) -> String {
    let revision = now.saturating_sub(u64::from(revisions)).max(1);
    let kept = parts.uri.query().unwrap_or_default().split('&').filter(|pair| {
        !pair.is_empty() && !pair.starts_with("resourceVersion=") && !pair.starts_with("resourceVersionMatch=")
    });
    let mut query: Vec<String> = kept.map(str::to_owned).collect();
    query.push(format!("resourceVersion={revision}&resourceVersionMatch=Exact"));
    format!("{}?{}", parts.uri.path(), query.join("&"))
}

/// Returns the name of a JSON object; empty if it has none.
fn name_of(body: &Bytes) -> String {
    let object: Result<json::Value, _> = serde_json::from_slice(body);
    object.ok().map(|object| crate::state::value::name(&object).to_owned()).unwrap_or_default()
}
