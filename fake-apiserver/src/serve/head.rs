//! Answers to HEAD have no body: over HTTP/2 one would break the stream.

use http::Method;
use substrate::body::{HttpService, call, empty};

/// Wraps `service` so that answers to HEAD have no body.
pub fn without_body(service: HttpService) -> HttpService {
    HttpService::new(move |request| {
        let head = request.method() == Method::HEAD;
        let answer = call(service.clone(), request);
        Box::pin(async move {
            let response = answer.await?;
            Ok(if head { response.map(|_| empty()) } else { response })
        })
    })
}
