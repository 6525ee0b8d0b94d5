//! A webhook server like controller-runtime's: `caBundle` holds its own certificate, not its CA's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use substrate::json::Value;

use crate::pair::Authority;

/// A running webhook server. It ends with the test process.
pub struct Webhook {
    port: u16,
    certificate: String,
}

impl Webhook {
    /// Serves `answer`, which receives the path and the review.
    pub fn start(answer: impl Fn(&str, Value) -> Value + Send + Sync + 'static) -> Self {
        let (certificate, key) = Authority::new().server();
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                let (config, answer) = (config.clone(), answer.clone());
                std::thread::spawn(move || {
                    let stream = StreamOwned::new(ServerConnection::new(config).unwrap(), tcp);
                    // Errors of clients that disconnect do not matter here.
                    let _ = serve(stream, &*answer);
                });
            }
        });
        Self { port, certificate }
    }

    /// Returns a `clientConfig` for `path` like envtest's: with two slashes before the path.
    pub fn config(&self, path: &str) -> Value {
        substrate::json::json!({
            "url": format!("https://127.0.0.1:{}/{path}", self.port),
            "caBundle": STANDARD.encode(&self.certificate),
        })
    }
}

fn serve(
    stream: StreamOwned<ServerConnection, std::net::TcpStream>,
    answer: &dyn Fn(&str, Value) -> Value,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or("/").split('?').next().unwrap_or("/").to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let lower = line.trim_end().to_ascii_lowercase();
        if lower.is_empty() {
            break;
        }
        if let Some(number) = lower.strip_prefix("content-length: ") {
            length = number.parse().map_err(std::io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    // Go's servers redirect a path that is not clean, and API servers do not follow redirects.
    if path.starts_with("//") {
        let head = "HTTP/1.1 301 Moved Permanently\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        return reader.get_mut().write_all(head.as_bytes());
    }
    let message = answer(&path, serde_json::from_slice(&body)?).to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    let stream = reader.get_mut();
    stream.write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n{message}", message.len()).as_bytes())?;
    stream.conn.send_close_notify();
    stream.flush()
}
