//! `nodes/proxy` and `pods/proxy`: requests to the server of a node, or of a pod that represents a process of this
//! program (apiserver `registry/core/node/rest`, `registry/core/pod/rest` ProxyREST). Containers are modelled, so no
//! other pod listens on a port.

use http::request::Parts;
use http::{HeaderValue, Request, Response, header};
use substrate::body::{Body, call, collect, full};

use super::call::Call;
use super::dials::NodeEndpoint;
use super::logs::{TIMEOUT, endpoint, reason_of};
use super::{Server, write};
use crate::kinds;
use crate::state::{Status, key};

/// Largest request in bytes.
const MOST: usize = 3 << 20;

/// The name in the path of a proxy: `[SCHEME:]NAME[:PORT]` (`SplitSchemeNamePort`).
#[derive(Debug, PartialEq, Eq)]
struct Target<'a> {
    name: &'a str,
    port: Option<u16>,
}

impl<'a> Target<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match *parts {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => return None,
        };
        let port = if port.is_empty() { None } else { Some(port.parse().ok().filter(|port| *port > 0)?) };
        (matches!(scheme, "" | "http" | "https") && !name.is_empty()).then_some(Self { name, port })
    }
}

/// Returns the path after the proxy subresource, with its query.
fn behind(parts: &Parts, is_namespaced: bool) -> String {
    let before = if is_namespaced { 7 } else { 5 };
    let rest: Vec<&str> = parts.uri.path().trim_start_matches('/').split('/').skip(before).collect();
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("/{}{query}", rest.join("/"))
}

impl Server {
    /// Handles a request of nodes/proxy or pods/proxy.
    pub(super) async fn proxied(&self, parts: &Parts, asked: &Call, body: Body) -> Result<Response<Body>, Status> {
        let is_node = asked.kind.plural == "nodes";
        let reaches_any = if is_node { self.shared.nodes.is_some() } else { self.shared.logs.is_some() };
        if !reaches_any {
            return Err(write::unreached(asked.kind.plural, asked.subresource));
        }
        let invalid = || Status::bad_request(format!("invalid {} request {:?}", asked.kind.singular, asked.named()));
        let target = Target::parse(asked.named()).ok_or_else(invalid)?;
        let path = behind(parts, asked.kind.namespaced);
        let (place, path, service) = if is_node {
            let place = self.node_behind(asked, &target)?;
            let dial = self.shared.nodes.as_ref().map(|dial| dial(&self.ctx, &place));
            let service = dial.transpose().map_err(|e| unreachable(&reason_of(&e, &place)))?;
            (place, path, service)
        } else {
            let place = self.pod_behind(asked, &target)?;
            let namespace = asked.namespace.as_deref().unwrap_or_default();
            let service = self.shared.logs.as_ref().and_then(|own| own(&self.ctx, namespace, target.name));
            let path = format!("/proxy/{}{path}", place.port);
            (place, path, service)
        };
        let service = service.ok_or_else(|| unreachable(&connection_refused(&place)))?;
        let body = collect(body, MOST).await.map_err(|e| Status::bad_request(e.to_string()))?;
        let mut request = Request::builder().method(&parts.method).uri(&path).header(header::HOST, place.authority());
        if let Some(kind) = parts.headers.get(header::CONTENT_TYPE) {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let request = request.body(full(body)).map_err(|e| Status::bad_request(e.to_string()))?;
        let deadline = self.ctx.now().mono + self.ctx.scaled_timeout(TIMEOUT);
        let response = tokio::select! { biased;
            response = call(service, request) => response,
            () = self.ctx.sleep_until(deadline) => Err("timeout awaiting response headers".into()),
        };
        let mut response = response.map_err(|error| unreachable(&reason_of(&error, &place)))?;
        let headers = std::mem::take(response.headers_mut());
        let kind = headers.get(header::CONTENT_TYPE).cloned().unwrap_or(HeaderValue::from_static("text/plain"));
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        Ok(response)
    }

    /// Returns the server of a node.
    fn node_behind(&self, asked: &Call, target: &Target<'_>) -> Result<NodeEndpoint, Status> {
        self.catch_up(self.ctx.now());
        let state = self.shared.lock();
        let node =
            state.store.get(&asked.kind, target.name).ok_or_else(|| Status::not_found(&asked.kind, target.name))?;
        let known = endpoint(&node.value)?;
        match target.port {
            Some(port) if port != known.port => {
                let other = NodeEndpoint { port, ..known };
                Err(unreachable(&connection_refused(&other)))
            }
            _ => Ok(known),
        }
    }

    /// Returns the place of a pod's port; 80 if none is given.
    fn pod_behind(&self, asked: &Call, target: &Target<'_>) -> Result<NodeEndpoint, Status> {
        self.catch_up(self.ctx.now());
        let state = self.shared.lock();
        let pod = state.store.get(kinds::stored(&asked.kind), &key(asked.namespace.as_deref(), target.name));
        let pod = pod.ok_or_else(|| Status::not_found(&asked.kind, target.name))?;
        let text = |path: [&str; 2]| pod.value[path[0]][path[1]].as_str().unwrap_or_default().to_owned();
        Ok(NodeEndpoint {
            node: text(["spec", "nodeName"]),
            host: text(["status", "podIP"]),
            port: target.port.unwrap_or(80),
        })
    }
}

fn connection_refused(place: &NodeEndpoint) -> String {
    format!("dial tcp {}: connect: connection refused", place.authority())
}

/// Returns the error for a server that does not answer.
fn unreachable(why: &str) -> Status {
    Status::new(503, "ServiceUnavailable", format!("error trying to reach service: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_scheme_and_a_port_or_not() {
        let target = |name, port| Some(Target { name, port });
        assert_eq!(Target::parse("node-a"), target("node-a", None));
        assert_eq!(Target::parse("node-a:10250"), target("node-a", Some(10250)));
        assert_eq!(Target::parse("https:node-a:10250"), target("node-a", Some(10250)));
        assert_eq!(Target::parse("https:node-a:"), target("node-a", None));
        for wrong in ["", ":1", "ftp:node-a:1", "node-a:0", "node-a:x", "a:b:c:d"] {
            assert_eq!(Target::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_path_behind_the_proxy_keeps_its_query() {
        let parts = |path: &str| Request::get(path).body(()).unwrap().into_parts().0;
        assert_eq!(behind(&parts("/api/v1/nodes/a/proxy/metrics/csi?x=1"), false), "/metrics/csi?x=1");
        assert_eq!(behind(&parts("/api/v1/nodes/a/proxy"), false), "/");
        assert_eq!(behind(&parts("/api/v1/namespaces/n/pods/https:a:1/proxy/metrics"), true), "/metrics");
    }
}
