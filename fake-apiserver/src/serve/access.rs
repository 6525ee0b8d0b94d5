//! Access to listeners: open on loopback; elsewhere only with the token or a certificate of this server.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use substrate::admin::Secret;
use substrate::body::{Body, HttpService, call, full};
use substrate::json::json;
use substrate::listen::PeerCertificate;

/// Paths without secrets that probes need (upstream's `system:public-info-viewer`).
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Wraps `service` so that requests need `Authorization: Bearer <token>` or a client certificate, except for health
/// probes and the version. For every listener that is not bound to loopback; the guard is around it.
pub fn require_token(service: HttpService, token: &str) -> HttpService {
    let token = Arc::new(Secret::new(token));
    HttpService::new(move |request| {
        // The handshake has verified it.
        let certified = request.extensions().get::<PeerCertificate>().is_some();
        if certified || PUBLIC.contains(&request.uri().path()) || authorized(request.headers(), &token) {
            call(service.clone(), request)
        } else {
            Box::pin(std::future::ready(Ok(unauthorized())))
        }
    })
}

fn authorized(headers: &HeaderMap, token: &Secret) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let given = given.and_then(|v| v.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    given.is_some_and(|(_, given)| token.matches(given.trim()))
}

fn unauthorized() -> Response<Body> {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    });
    let mut response = Response::new(full(status.to_string()));
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        headers
    }

    #[test]
    fn only_the_token_itself_opens() {
        let token = Secret::new("secret");
        assert!(authorized(&with("Bearer secret"), &token));
        assert!(authorized(&with("bearer secret"), &token));
        for wrong in ["Bearer secre", "Bearer secrets", "Basic secret", "secret", "Bearer"] {
            assert!(!authorized(&with(wrong), &token), "{wrong}");
        }
        assert!(!authorized(&HeaderMap::new(), &token));
    }
}
