//! A program's own endpoints for the API server, the cloud and the driver. These listeners forward requests over links
//! of the process that represents the program. So faults, partitions and traces know it by its name, as they know each
//! loop.

use http::header::{AUTHORIZATION, CONNECTION, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{Request, Version};
use substrate::body::{Body, HttpService, call};
use substrate::link::{Frames, PROGRAM, Streaming};
use substrate::{Ctx, admin::Secret};

use crate::wiring::Wiring;

/// A listener of a program, and the server behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The API server, with TLS.
    Kubernetes,
    /// The API server without TLS, for programs without TLS support.
    Plain,
    /// The cloud.
    Cloud,
    /// The driver's controller service.
    Driver,
}

impl Endpoint {
    /// Returns the name under which the listener of the `number`th program is published.
    pub fn name(self, number: usize) -> String {
        let to = match self {
            Self::Kubernetes => "kubernetes",
            Self::Plain => "kubernetes-http",
            Self::Cloud => "cloud",
            Self::Driver => "csi",
        };
        format!("program-{number}-{to}")
    }

    /// Returns the server.
    fn peer(self) -> &'static str {
        match self {
            Self::Kubernetes | Self::Plain => "apiserver",
            Self::Cloud => "ec2",
            Self::Driver => "csi-controller",
        }
    }

    /// Opens the listener in process `ctx`, which represents the program, until that process ends.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn open(self, ctx: &Ctx, wiring: &dyn Wiring, number: usize, token: &Secret) -> Result<(), String> {
        let peer = wiring.connect(ctx, self.peer())?;
        let name = HeaderValue::from_str(ctx.name()).map_err(|e| format!("{}: {e}", ctx.name()))?;
        let bearer = HeaderValue::from_str(&format!("Bearer {}", token.reveal())).map_err(|e| e.to_string())?;
        let service = HttpService::new(move |request| {
            let request = self.passed_on(request, &name, &bearer);
            let peer = peer.clone();
            Box::pin(async move {
                let mut answer = call(peer, request).await?;
                // These headers belong to the other connection.
                for header in HOP_BY_HOP {
                    answer.headers_mut().remove(header);
                }
                *answer.version_mut() = Version::default();
                Ok(answer)
            })
        });
        wiring.publish(ctx, &self.name(number), service)
    }

    fn is_kubernetes(self) -> bool {
        matches!(self, Self::Kubernetes | Self::Plain)
    }

    fn passed_on(self, mut request: Request<Body>, name: &HeaderValue, bearer: &HeaderValue) -> Request<Body> {
        let headers = request.headers_mut();
        HOP_BY_HOP.iter().for_each(|header| drop(headers.remove(header)));
        headers.insert(HeaderName::from_static(PROGRAM), name.clone());
        if self.is_kubernetes() && !headers.contains_key(AUTHORIZATION) {
            headers.insert(AUTHORIZATION, bearer.clone());
        }
        *request.version_mut() = if self == Self::Driver { Version::HTTP_2 } else { Version::HTTP_11 };
        if self.is_kubernetes() && is_stream(request.uri().query().unwrap_or_default(), request.uri().path()) {
            request.extensions_mut().insert(Streaming);
            request.extensions_mut().insert(Frames);
        }
        request
    }
}

/// Headers of one connection.
const HOP_BY_HOP: [HeaderName; 3] = [CONNECTION, TRANSFER_ENCODING, UPGRADE];

/// Returns true if the server sends the answer in pieces for as long as the client listens: a watch, or a log that is
/// followed.
fn is_stream(query: &str, path: &str) -> bool {
    let is_on = |value: &str| !matches!(value, "" | "0" | "false");
    let asks = |(key, value): (&str, &str)| matches!(key, "watch" | "follow") && is_on(value);
    let mut parts = path.split('/').skip(1);
    // In the deprecated form of a watch, `watch` follows the version.
    let version = if parts.next() == Some("api") { 0 } else { 1 };
    parts.nth(version + 1) == Some("watch") || query.split('&').filter_map(|pair| pair.split_once('=')).any(asks)
}

#[cfg(test)]
mod tests {
    use substrate::body::empty;

    use super::*;

    fn passed(endpoint: Endpoint, request: http::request::Builder) -> Request<Body> {
        let [name, bearer] = ["mine", "Bearer own"].map(HeaderValue::from_static);
        endpoint.passed_on(request.body(empty()).unwrap(), &name, &bearer)
    }

    #[test]
    fn a_server_gets_the_program_s_name_and_own_token() {
        let request = passed(Endpoint::Kubernetes, Request::get("/api/v1/pods").header(PROGRAM, "other"));
        assert_eq!(
            (&request.headers()[PROGRAM], &request.headers()[AUTHORIZATION]),
            (&"mine".parse().unwrap(), &"Bearer own".parse().unwrap())
        );
        let request =
            passed(Endpoint::Kubernetes, Request::get("/api/v1/pods").header(AUTHORIZATION, "Bearer account"));
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer account");
        let request = passed(Endpoint::Cloud, Request::post("/"));
        assert!(!request.headers().contains_key(AUTHORIZATION), "that of the cloud is a signature");
    }

    #[test]
    fn watches_and_followed_logs_are_streams() {
        let is_stream =
            |uri: &str| passed(Endpoint::Kubernetes, Request::get(uri)).extensions().get::<Streaming>().is_some();
        for uri in [
            "/api/v1/pods?watch=true&timeoutSeconds=5",
            "/api/v1/pods?watch=1",
            "/api/v1/watch/pods",
            "/apis/storage.k8s.io/v1/watch/csinodes",
            "/api/v1/namespaces/a/pods/p/log?follow=true",
        ] {
            assert!(is_stream(uri), "{uri}");
        }
        for uri in [
            "/api/v1/pods",
            "/api/v1/pods?watch=false",
            "/api/v1/namespaces/watch/pods",
            "/api/v1/namespaces/a/pods/p/log",
        ] {
            assert!(!is_stream(uri), "{uri}");
        }
    }
}
