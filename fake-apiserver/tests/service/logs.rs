//! pods/log: the request to the node, and the treatment of its answer.

use std::convert::Infallible;
use std::sync::Arc;

use fake_apiserver::{Config, NodeEndpoint};
use http::{Request, Response};
use http_body_util::BodyExt;
use substrate::body::{Body, from_service, full};
use substrate::link::{Link, LinkError, Streaming};

use super::*;

/// Returns a node's server that answers `code` with the request.
fn node(code: u16) -> Config {
    let dial = move |_: &substrate::Ctx, place: &NodeEndpoint| {
        let place = place.clone();
        Ok(from_service(tower::service_fn(move |request: Request<Body>| {
            let follows = request.extensions().get::<Streaming>().is_some();
            let text = format!("{} {}:{} {} {follows}", place.node, place.host, place.port, request.uri());
            let mut response = Response::new(full(text));
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
            std::future::ready(Ok::<_, Infallible>(response))
        })))
    };
    Config { nodes: Some(Arc::new(dial)), ..Config::default() }
}

/// Creates a node, and a pod with two containers on it.
async fn set_up(client: &client::Client) {
    let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}]);
    let status = json!({"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": 10251}}});
    client.post("/api/v1/nodes", json!({"metadata": {"name": "node-a"}, "status": status})).await;
    let containers = json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]);
    let (code, _) = client
        .post(PODS, json!({"metadata": {"name": "p"}, "spec": {"nodeName": "node-a", "containers": containers}}))
        .await;
    assert_eq!(code, 201);
}

#[test]
fn a_log_comes_from_the_node_that_runs_the_pod() {
    in_simulation_with(node(200), |client| async move {
        set_up(&client).await;
        let (code, text) = client.get(&format!("{PODS}/p/log?container=b&tailLines=3&timestamps=true")).await;
        let asked = "node-a 10.0.0.1:10251 /containerLogs/default/p/b?tailLines=3&timestamps=true false";
        assert_eq!((code, text), (200, json!(asked)));
        let (_, text) = client.get(&format!("{PODS}/p/log?container=a&follow=true")).await;
        assert_eq!(text, json!("node-a 10.0.0.1:10251 /containerLogs/default/p/a?follow=true true"));
    });
}

#[test]
fn an_invalid_log_request_stays_at_the_server() {
    in_simulation_with(node(200), |client| async move {
        set_up(&client).await;
        for (query, code, message) in [
            ("", 400, "a container name must be specified for pod p, choose one of: [a b]"),
            ("container=x", 400, "container x is not valid for pod p"),
            ("container=a&tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ("container=a&sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
            ("container=a&sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", 422, "at most one of"),
        ] {
            let (seen, status) = client.get(&format!("{PODS}/p/log?{query}")).await;
            assert_eq!(seen, code, "{query}");
            assert!(status["message"].as_str().unwrap().contains(message), "{query}: {status}");
        }
        let (code, status) = client.get(&format!("{PODS}/absent/log")).await;
        assert_eq!((code, &status["message"]), (404, &json!("pods \"absent\" not found")));
        // The pod has no node yet, so there is no log.
        client.post(PODS, pod("waiting")).await;
        assert_eq!(client.get(&format!("{PODS}/waiting/log")).await, (204, json!("")));
    });
}

#[test]
fn a_node_error_is_passed_on() {
    for (from_node, code, reason) in [(400, 400, "BadRequest"), (404, 404, "NotFound"), (500, 500, "InternalError")] {
        in_simulation_with(node(from_node), |client| async move {
            set_up(&client).await;
            let (seen, status) = client.get(&format!("{PODS}/p/log?container=a")).await;
            assert_eq!((seen, status["reason"].as_str()), (code, Some(reason)), "{status}");
        });
    }
}

#[test]
fn a_long_error_message_of_the_node_is_cut() {
    let dial = |_: &substrate::Ctx, _: &NodeEndpoint| {
        Ok(from_service(tower::service_fn(|_: Request<Body>| {
            let mut response = Response::new(full("x".repeat(50_000) + "y"));
            *response.status_mut() = http::StatusCode::BAD_REQUEST;
            std::future::ready(Ok::<_, Infallible>(response))
        })))
    };
    in_simulation_with(Config { nodes: Some(Arc::new(dial)), ..Config::default() }, |client| async move {
        set_up(&client).await;
        let (code, status) = client.get(&format!("{PODS}/p/log?container=a")).await;
        assert_eq!((code, status["message"].as_str()), (400, Some("x".repeat(50_000).as_str())));
    });
}

#[test]
fn a_node_that_is_down_is_a_failure_and_no_wait() {
    let dial = |ctx: &substrate::Ctx, _: &NodeEndpoint| Ok(Link::connect(ctx, "kubelet-node-a"));
    in_simulation_with(Config { nodes: Some(Arc::new(dial)), ..Config::default() }, |client| async move {
        set_up(&client).await;
        let (code, status) = client.get(&format!("{PODS}/p/log?container=a")).await;
        let message = "Get \"https://10.0.0.1:10251/containerLogs/default/p/a\": dial tcp 10.0.0.1:10251: connect: connection refused";
        assert_eq!((code, status["message"].as_str()), (500, Some(message)));
    });
    // A node that accepts connections but never answers.
    let silent =
        |_: &substrate::Ctx, _: &NodeEndpoint| Ok(substrate::HttpService::new(|_| Box::pin(std::future::pending())));
    in_simulation_with(Config { nodes: Some(Arc::new(silent)), ..Config::default() }, |client| async move {
        set_up(&client).await;
        let before = client.ctx.now().mono;
        let (code, status) = client.get(&format!("{PODS}/p/log?container=a")).await;
        assert_eq!(code, 500);
        assert!(status["message"].as_str().unwrap().ends_with("timeout awaiting response headers"), "{status}");
        assert_eq!(client.ctx.now().mono - before, Duration::from_secs(30));
    });
    let broken = |_: &substrate::Ctx, _: &NodeEndpoint| Err(LinkError::TimedOut("node-a".to_owned()).into());
    in_simulation_with(Config { nodes: Some(Arc::new(broken)), ..Config::default() }, |client| async move {
        set_up(&client).await;
        let (_, status) = client.get(&format!("{PODS}/p/log?container=a")).await;
        assert!(status["message"].as_str().unwrap().ends_with("dial tcp 10.0.0.1:10251: i/o timeout"), "{status}");
    });
}

#[test]
fn a_log_that_goes_on_comes_as_it_is_printed() {
    let dial = |_: &substrate::Ctx, _: &NodeEndpoint| {
        Ok(substrate::HttpService::new(|_| {
            let line = |text: &'static str| Ok::<_, substrate::BoxError>(http_body::Frame::data(text.into()));
            let lines = futures_util::stream::iter([line("one\n"), line("two\n")]);
            let open = futures_util::StreamExt::chain(lines, futures_util::stream::pending());
            let lines = substrate::body::boxed(http_body_util::StreamBody::new(open));
            Box::pin(std::future::ready(Ok(Response::new(lines))))
        }))
    };
    in_simulation_with(Config { nodes: Some(Arc::new(dial)), ..Config::default() }, |client| async move {
        set_up(&client).await;
        let request = Request::get(format!("{PODS}/p/log?container=a&follow=true")).body(full("")).unwrap();
        let mut body = substrate::body::call(client.service(), request).await.unwrap().into_body();
        for expected in ["one\n", "two\n"] {
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), expected);
        }
    });
}

#[test]
fn a_log_kept_elsewhere_is_read_there_even_without_a_node() {
    let elsewhere = |_: &substrate::Ctx, namespace: &str, name: &str| {
        let answer = |request: Request<Body>| {
            let text = format!("elsewhere {}", request.uri());
            std::future::ready(Ok::<_, Infallible>(Response::new(full(text))))
        };
        (namespace == "default" && name == "m").then(|| from_service(tower::service_fn(answer)))
    };
    in_simulation_with(Config { logs: Some(Arc::new(elsewhere)), ..node(200) }, |client| async move {
        set_up(&client).await;
        let containers = json!([{"name": "a", "image": "i"}]);
        let pod = json!({"metadata": {"name": "m"}, "spec": {"nodeName": "nowhere", "containers": containers}});
        assert_eq!(client.post(PODS, pod).await.0, 201);
        let (code, text) = client.get(&format!("{PODS}/m/log?tailLines=3")).await;
        assert_eq!((code, text), (200, json!("elsewhere /containerLogs/default/m/a?tailLines=3")));
        // An invalid request is refused as before, and other pods are read from their nodes.
        assert_eq!(client.get(&format!("{PODS}/m/log?container=x")).await.0, 400);
        let (_, text) = client.get(&format!("{PODS}/p/log?container=b")).await;
        assert!(text.as_str().unwrap().starts_with("node-a "), "{text}");
    });
}
