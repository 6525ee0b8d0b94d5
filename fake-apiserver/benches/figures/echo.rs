//! A bare echo server: the time that axum alone takes for the same bytes, in its own process and over TLS like the
//! server.

use std::path::Path;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use fake_apiserver::tls;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::load::{CONNECTIONS, OBJECTS, all, config};
use super::server::Server;

/// Environment variable that turns this program into the echo server. Its value is the ready file.
pub const READY: &str = "FIGURES_ECHO_READY";

/// Serves until the process is killed.
pub fn serve(ready: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tls = tls::generate(&[]).unwrap();
        let acceptor = TlsAcceptor::from(tls.server);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let app = Router::new().fallback(|body: Bytes| async move { body });
        // Renamed, so that a reader always sees the whole file.
        let half = ready.with_extension("half");
        std::fs::write(&half, json!({"address": address, "ca": tls.ca_pem}).to_string()).unwrap();
        std::fs::rename(half, ready).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(app.clone()));
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
}

/// Returns the number of echoes of one KiB per second, over as many connections as the write benchmarks use.
pub async fn rate() -> f64 {
    let server = Server::echo();
    let connections = server.connections(CONNECTIONS).await;
    let (_, whole, each): (_, Duration, _) = all(connections, 3 * OBJECTS, |mut connection, i| async move {
        let body = config(&format!("c-{i:06}"), 0);
        let (code, echoed) = connection.json("POST", "/", &body).await;
        assert!(code == 200 && echoed.len() == body.len());
        connection
    })
    .await;
    each.len() as f64 / whole.as_secs_f64()
}
