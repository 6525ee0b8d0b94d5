//! nodes/proxy and pods/proxy: the request to the server, and its answer.

use std::convert::Infallible;
use std::sync::Arc;

use fake_apiserver::{Config, NodeEndpoint};
use http::{Request, Response};
use http_body_util::BodyExt;
use substrate::HttpService;
use substrate::body::{Body, BoxError, from_service, full};
use substrate::link::LinkError;

use super::*;

/// Returns a server that answers with the request.
fn echo(name: &'static str) -> HttpService {
    from_service(tower::service_fn(move |request: Request<Body>| async move {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let text = format!("{name} {} {} {}", parts.method, parts.uri, String::from_utf8_lossy(&body));
        Ok::<_, Infallible>(Response::new(full(text)))
    }))
}

/// Returns a server with a node and with the server of the pod `stand-in`.
fn config() -> Config {
    let node = |_: &substrate::Ctx, _: &NodeEndpoint| Ok::<_, BoxError>(echo("node"));
    let own = |_: &substrate::Ctx, namespace: &str, name: &str| {
        (namespace == "default" && name == "stand-in").then(|| echo("pod"))
    };
    Config { nodes: Some(Arc::new(node)), logs: Some(Arc::new(own)), ..Config::default() }
}

async fn set_up(client: &client::Client) {
    let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}]);
    let status = json!({"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}});
    client.post("/api/v1/nodes", json!({"metadata": {"name": "node-a"}, "status": status})).await;
    for name in ["stand-in", "other"] {
        assert_eq!(client.post(PODS, pod(name)).await.0, 201);
    }
}

#[test]
fn a_request_reaches_the_server_of_a_node_or_a_pod_with_its_path_and_body() {
    in_simulation_with(config(), |client| async move {
        set_up(&client).await;
        for (path, seen) in [
            ("/api/v1/nodes/node-a/proxy/metrics?x=1".to_owned(), "node GET /metrics?x=1 "),
            ("/api/v1/nodes/https:node-a:10250/proxy/metrics".to_owned(), "node GET /metrics "),
            (format!("{PODS}/https:stand-in:10257/proxy/metrics"), "pod GET /proxy/10257/metrics "),
            (format!("{PODS}/stand-in/proxy"), "pod GET /proxy/80/ "),
        ] {
            assert_eq!(client.get(&path).await, (200, json!(seen)), "{path}");
        }
        let (code, seen) = client.post("/api/v1/nodes/node-a/proxy/run", json!({"a": 1})).await;
        assert_eq!((code, seen), (200, json!("node POST /run {\"a\":1}")));
    });
}

#[test]
fn proxy_errors_have_the_words_of_upstream() {
    in_simulation_with(config(), |client| async move {
        set_up(&client).await;
        for (path, code, message) in [
            ("/api/v1/nodes/none/proxy/metrics".to_owned(), 404, "nodes \"none\" not found"),
            (format!("{PODS}/none/proxy/"), 404, "pods \"none\" not found"),
            ("/api/v1/nodes/node-a:1/proxy/".to_owned(), 503, "dial tcp 10.0.0.1:1: connect: connection refused"),
            (format!("{PODS}/other:8080/proxy/"), 503, ":8080: connect: connection refused"),
            ("/api/v1/nodes/a:b:c:d/proxy/".to_owned(), 400, "invalid node request \"a:b:c:d\""),
        ] {
            let (seen, status) = client.get(&path).await;
            assert_eq!(seen, code, "{path}");
            assert!(status["message"].as_str().unwrap().contains(message), "{path}: {status}");
        }
    });
    let refused = |_: &substrate::Ctx, _: &NodeEndpoint| Err(BoxError::from(LinkError::Refused("node-a".into())));
    in_simulation_with(Config { nodes: Some(Arc::new(refused)), ..Config::default() }, |client| async move {
        set_up(&client).await;
        let (code, status) = client.get("/api/v1/nodes/node-a/proxy/metrics").await;
        let message = "error trying to reach service: dial tcp 10.0.0.1:10250: connect: connection refused";
        assert_eq!((code, &status["message"], &status["reason"]), (503, &json!(message), &json!("ServiceUnavailable")));
        // A server without stand-in pods has no ports of pods.
        assert_eq!(client.get(&format!("{PODS}/stand-in/proxy/")).await.0, 501);
    });
}

#[test]
fn a_port_of_a_pod_is_not_forwarded() {
    in_simulation_with(config(), |client| async move {
        set_up(&client).await;
        let (code, status) = client.get(&format!("{PODS}/stand-in/portforward")).await;
        assert_eq!((code, &status["reason"]), (501, &json!("NotImplemented")));
    });
}
