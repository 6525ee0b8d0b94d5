use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use substrate::body::{Body, from_service, full};
use substrate::world::Options;
use substrate::{Process, World};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::*;

fn config(listen: &str, folder: &tempfile::TempDir) -> ServeConfig {
    ServeConfig {
        listen: listen.parse().unwrap(),
        http_listen: Some("127.0.0.1:0".parse().unwrap()),
        allow_hosts: Vec::new(),
        token: None,
        kubeconfig: folder.path().join("kubeconfig"),
        authority: None,
        client_authorities: Vec::new(),
    }
}

/// Serves an echo of the path.
async fn started(config: &ServeConfig) -> (Process, Served) {
    let world = World::live(Options::default());
    let process = Process::start(&world, "api", |_| std::future::pending());
    let service = from_service(tower::service_fn(|r: Request<Body>| async move {
        Ok::<_, Infallible>(Response::new(full(r.uri().path().to_owned())))
    }));
    let served = serve(&process.ctx().unwrap(), service, config).await.unwrap();
    (process, served)
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, host: &str, headers: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A server may close without a TLS close_notify after its answer.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

async fn plain(served: &Served, path: &str, host: &str) -> String {
    let address = served.http_endpoint.clone().unwrap().replace("http://", "");
    ask(tokio::net::TcpStream::connect(address).await.unwrap(), path, host, "").await
}

async fn secure(served: &Served, path: &str, headers: &str) -> String {
    let config: substrate::json::Value = serde_json::from_slice(&std::fs::read(&served.kubeconfig).unwrap()).unwrap();
    let ca = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap();
    let ca = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, ca).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&ca).unwrap()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let port = served.endpoint.rsplit_once(':').unwrap().1;
    let stream = tokio::net::TcpStream::connect(format!("127.0.0.1:{port}")).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap();
    ask(stream, path, "127.0.0.1", headers).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tls_and_plain_http_are_served_side_by_side_and_the_kubeconfig_trusts_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let (process, served) = started(&config("127.0.0.1:0", &folder)).await;
    assert!(secure(&served, "/api", "").await.ends_with("/api"));
    assert!(plain(&served, "/apis", "localhost").await.ends_with("/apis"));
    process.crash();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_answer_has_an_id_and_that_of_the_client_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (process, served) = started(&config("127.0.0.1:0", &folder)).await;
    let id = |answer: &str| answer.lines().find_map(|line| line.strip_prefix("audit-id: ").map(str::to_owned));
    let first = id(&secure(&served, "/api", "").await).unwrap();
    let second = id(&plain(&served, "/api", "localhost").await).unwrap();
    assert!(first.len() == 36 && second.len() == 36 && first != second, "{first} {second}");
    let own = secure(&served, "/api", "Audit-ID: mine\r\n").await;
    assert_eq!(id(&own).as_deref(), Some("mine"));
    process.crash();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_host_that_was_not_allowed_is_turned_away_on_every_listener() {
    let folder = tempfile::tempdir().unwrap();
    let (process, served) = started(&config("127.0.0.1:0", &folder)).await;
    assert!(plain(&served, "/api", "evil.example").await.starts_with("HTTP/1.1 421"));
    assert!(secure(&served, "/api", "origin: https://evil.example\r\n").await.starts_with("HTTP/1.1 403"));
    process.crash();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn off_loopback_every_call_but_the_probes_needs_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let (process, served) = started(&config("0.0.0.0:0", &folder)).await;
    assert!(served.endpoint.starts_with("https://127.0.0.1:"));
    for path in ["/api/v1/pods", "/admin/v1/state", "/healthz/../api"] {
        assert!(secure(&served, path, "").await.starts_with("HTTP/1.1 401"), "{path}");
    }
    let token = format!("authorization: Bearer {}\r\n", served.token);
    assert!(secure(&served, "/admin/v1/state", &token).await.starts_with("HTTP/1.1 200"));
    assert!(secure(&served, "/healthz", "").await.starts_with("HTTP/1.1 200"));
    process.crash();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_port_in_use_and_a_bad_token_are_clear_errors() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let world = World::live(Options::default());
    let process = Process::start(&world, "api", |_| std::future::pending());
    let ctx = process.ctx().unwrap();
    let service = from_service(tower::service_fn(|_| async { Ok::<_, Infallible>(Response::new(full(""))) }));
    let busy = ServeConfig { listen: taken.local_addr().unwrap(), ..config("127.0.0.1:0", &folder) };
    let error = serve(&ctx, service.clone(), &busy).await.unwrap_err().to_string();
    assert!(error.contains("cannot listen on 127.0.0.1:"), "{error}");
    for token in ["", "two words"] {
        let bad = ServeConfig { token: Some(token.to_owned()), ..config("127.0.0.1:0", &folder) };
        assert!(matches!(serve(&ctx, service.clone(), &bad).await, Err(ServeError::Token)));
    }
    process.crash();
}

/// Webhooks are trusted by the CA in their configuration only.
#[tokio::test]
async fn webhooks_are_dialled_with_the_ca_that_they_name() {
    let folder = tempfile::tempdir().unwrap();
    let (process, served) = started(&config("127.0.0.1:0", &folder)).await;
    let kubeconfig: substrate::json::Value =
        serde_json::from_slice(&std::fs::read(&served.kubeconfig).unwrap()).unwrap();
    let ca = kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap();
    let ca = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, ca).unwrap();
    let ctx = process.ctx().unwrap();
    let call = async |url: String, server_name: Option<String>, ca_pem: Vec<u8>| {
        let endpoint = crate::Endpoint { url: url.clone(), server_name, ca_pem };
        let service = crate::dial::webhooks()(&ctx, &endpoint).map_err(|e| e.to_string())?;
        let request = Request::post(url).body(full("x")).unwrap();
        let response = substrate::body::call(service, request).await.map_err(|e| e.to_string())?;
        let body = substrate::body::collect(response.into_body(), 1000).await.unwrap();
        Ok::<_, String>(String::from_utf8(body.to_vec()).unwrap())
    };
    let url = format!("{}/check?timeout=1s", served.endpoint);
    assert_eq!(call(url.clone(), None, ca.clone()).await.unwrap(), "/check");
    assert_eq!(call(url.clone(), Some("kubernetes.default.svc".into()), ca.clone()).await.unwrap(), "/check");
    assert!(call(url.clone(), Some("other.default.svc".into()), ca.clone()).await.is_err());
    assert!(call(url.clone(), None, Vec::new()).await.is_err());
    assert!(call(url.replace("https", "http"), None, ca).await.unwrap_err().contains("must be https"));
}

/// A body would violate the protocol, and the client would reset the stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_answer_to_head_over_http2_leaves_the_stream_intact() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::live(Options::default());
    let process = Process::start(&world, "api", |_| std::future::pending());
    let ctx = process.ctx().unwrap();
    let service = crate::Apiserver::new(&substrate::Seed::root(1), crate::Config::default()).start(&ctx);
    let served = serve(&ctx, service, &config("127.0.0.1:0", &folder)).await.unwrap();
    let address = served.http_endpoint.clone().unwrap().replace("http://", "");
    let stream = hyper_util::rt::TokioIo::new(tokio::net::TcpStream::connect(address).await.unwrap());
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) = hyper::client::conn::http2::handshake::<_, _, Body>(executor, stream).await.unwrap();
    ctx.spawn(async move { drop(connection.await) });
    for (method, code) in [("HEAD", 405), ("GET", 200), ("HEAD", 405)] {
        let request = Request::builder().method(method).uri("http://localhost/api/v1/nodes");
        let response = sender.send_request(request.body(full("")).unwrap()).await.unwrap();
        assert_eq!(response.status(), code, "{method}");
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        assert_eq!(body.is_empty(), method == "HEAD", "{method}");
    }
    process.crash();
}

/// Off loopback a certificate counts like the token, if the server's own CA or a given one signed it.
#[tokio::test]
async fn clients_of_a_given_authority_are_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let (known, unknown) = (Authority::new().unwrap(), Authority::new().unwrap());
    let given = CertificateDer::from_pem_slice(known.credentials().certificate.as_bytes()).unwrap();
    let config = ServeConfig { client_authorities: vec![given], ..config("0.0.0.0:0", &folder) };
    let (_process, served) = started(&config).await;
    let port = served.endpoint.rsplit_once(':').unwrap().1.to_owned();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(served.ca_pem.as_bytes()).unwrap()).unwrap();
    let asked = async |authority: Option<&Authority>| {
        let client = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots.clone());
        let client = match authority {
            None => client.with_no_client_auth(),
            Some(authority) => {
                let shown = authority.client("ann", "team").unwrap();
                let certificate = CertificateDer::from_pem_slice(shown.certificate.as_bytes()).unwrap();
                let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).unwrap();
                client.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        let stream = tokio::net::TcpStream::connect(format!("127.0.0.1:{port}")).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
        let Ok(mut stream) = connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await else {
            return "refused".to_owned();
        };
        // With TLS 1.3 the client sees the refusal of its certificate on its first read.
        let mut answer = Vec::new();
        let request = b"GET /api HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
        let _ = stream.write_all(request).await;
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap().lines().next().unwrap_or("refused").to_owned()
    };
    assert_eq!(asked(None).await, "HTTP/1.1 401 Unauthorized");
    assert_eq!(asked(Some(&known)).await, "HTTP/1.1 200 OK");
    assert_eq!(asked(Some(&unknown)).await, "refused");
}

/// kube-apiserver reads headers of up to a megabyte.
#[tokio::test]
async fn long_headers_and_paths_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let (_process, served) = started(&config("127.0.0.1:0", &folder)).await;
    let status = |answer: &str| answer.lines().next().unwrap_or_default().to_owned();
    let long = |length: usize| format!("x-long: {}\r\n", "a".repeat(length));
    let many = (0..400).map(|i| format!("impersonate-group: g{i}\r\n")).collect::<String>();
    let path = format!("/api?labelSelector={}", "a".repeat(60_000));
    for (path, headers) in [("/api", long(900_000)), ("/api", many), (path.as_str(), long(1))] {
        assert_eq!(status(&secure(&served, path, &headers).await), "HTTP/1.1 200 OK");
    }
    assert_eq!(
        status(&secure(&served, "/api", &long(1_200_000)).await),
        "HTTP/1.1 431 Request Header Fields Too Large"
    );
    let endless = format!("/api?labelSelector={}", "a".repeat(70_000));
    assert_eq!(status(&secure(&served, &endless, "").await), "HTTP/1.1 414 URI Too Long");
}
