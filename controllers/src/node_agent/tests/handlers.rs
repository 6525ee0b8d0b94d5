//! Probes and hooks over sockets: HTTPS without verification, a server without TLS, redirects, and gRPC.

use std::net::{Ipv4Addr, SocketAddr};

use http::header::LOCATION;
use http::{HeaderValue, Response, StatusCode};
use k8s_openapi::api::core::v1::Container;
use substrate::body::full;
use substrate::json::from_value;
use substrate::{Ctx, HttpService};

use super::*;
use crate::node_agent::containers::health;
use crate::node_agent::containers::http_get::{Answer, HttpGet, NoAnswer};
use crate::node_agent::serve::Listener;

const AGENT: HeaderValue = HeaderValue::from_static("kube-probe/1.36");

/// Runs `test` on the wall clock with two servers that have the path `/ready`, and redirects to it, to another host and
/// to themselves: one with TLS and one without.
fn served<F: Future<Output = ()>>(test: impl FnOnce(Ctx, SocketAddr, SocketAddr) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let world = World::live(Options::default());
        let process = Process::start(&world, "kubelet", |_| std::future::pending());
        let ctx = process.ctx().expect("it runs");
        let service = HttpService::new(|request| {
            Box::pin(async move {
                let (status, to) = match request.uri().path() {
                    "/ready" => (StatusCode::OK, ""),
                    "/moved" => (StatusCode::FOUND, "/ready"),
                    "/away" => (StatusCode::FOUND, "http://other.example/"),
                    "/again" => (StatusCode::FOUND, "/again"),
                    _ => (StatusCode::NOT_FOUND, ""),
                };
                Ok(Response::builder().status(status).header(LOCATION, to).body(full("text"))?)
            })
        });
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (secure, plain) =
            (Listener::open(any, "node-a").await.expect("a port"), Listener::plain(any).await.expect("a port"));
        let (with, without) = (secure.address(), plain.address());
        secure.serve(&ctx, service.clone());
        plain.serve(&ctx, service);
        test(ctx, with, without).await;
    });
}

async fn send(scheme: &str, address: SocketAddr, path: &str) -> Result<Answer, NoAnswer> {
    let action = json!({ "scheme": scheme, "port": address.port(), "path": path });
    let action = from_value(action).expect("an action");
    HttpGet::new(&Container::default(), &action, AGENT).expect("a request").send().await
}

fn answered(status: StatusCode) -> Result<Answer, NoAnswer> {
    Ok(Answer { status, body: "text".to_owned() })
}

#[test]
fn requests_by_https_accept_every_certificate() {
    served(async |_, with, without| {
        assert_eq!(send("HTTPS", with, "/ready").await, answered(StatusCode::OK));
        assert_eq!(send("HTTPS", with, "/other").await, answered(StatusCode::NOT_FOUND));
        assert_eq!(send("HTTP", without, "/ready").await, answered(StatusCode::OK));
    });
}

#[test]
fn redirects_are_followed_on_the_same_host() {
    served(async |_, with, without| {
        assert_eq!(send("HTTPS", with, "/moved").await, answered(StatusCode::OK));
        assert_eq!(send("HTTP", without, "/away").await, answered(StatusCode::FOUND));
        let why = format!("Get \"http://{without}/again\": stopped after 10 redirects");
        assert_eq!(send("HTTP", without, "/again").await, Err(NoAnswer { why, is_plain: false }));
    });
}

#[test]
fn a_server_without_tls_is_recognised() {
    served(async |_, _, without| {
        let failed = send("HTTPS", without, "/ready").await.expect_err("no TLS");
        let why = "http: server gave HTTP response to HTTPS client";
        assert_eq!(failed.why, format!("Get \"https://{without}/ready\": {why}"));
        assert!(failed.is_plain);
    });
}

#[test]
fn a_probe_by_grpc_reaches_a_server_over_tcp() {
    served(async |ctx, _, without| {
        let peer = substrate::dial::grpc(&format!("tcp://{without}")).expect("an endpoint");
        let limit = Duration::from_secs(20);
        let why = health::check(&ctx, peer, &without.to_string(), "", AGENT, limit).await.expect_err("no health");
        let text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ";
        assert_eq!(why, format!("{text}unexpected HTTP status code received from server: 404 (Not Found)"));
    });
}
