//! A client over TLS with a certificate, like those of envtest's users. Each request opens its own connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use substrate::json::Value;

/// A user of one API server.
#[derive(Clone)]
pub struct Client {
    port: u16,
    config: Arc<ClientConfig>,
    token: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// An answer that is still being sent.
pub struct Stream {
    pub status: u16,
    reader: BufReader<StreamOwned<ClientConnection, TcpStream>>,
    chunked: bool,
    length: usize,
}

impl Client {
    /// Creates a client that trusts `ca` and presents `identity` (certificate and key), all PEM.
    pub fn new(port: u16, ca: &str, identity: Option<(&str, &str)>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        Self { port, config: Arc::new(config), token: None }
    }

    /// Returns the client with a bearer token.
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// Sends a request and reads the head of its answer.
    pub fn open(&self, method: &str, path: &str, body: &str) -> std::io::Result<Stream> {
        let tcp = TcpStream::connect(("127.0.0.1", self.port))?;
        tcp.set_read_timeout(Some(Duration::from_secs(90)))?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connection = ClientConnection::new(self.config.clone(), name).map_err(std::io::Error::other)?;
        let mut stream = StreamOwned::new(connection, tcp);
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let token = self.token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\ncontent-type: {kind}\r\n\
             accept: application/json\r\nuser-agent: envtest\r\n{token}content-length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| std::io::Error::other(format!("no answer but {line:?}")))?;
        let (mut chunked, mut length) = (false, 0);
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let lower = line.trim_end().to_ascii_lowercase();
            if lower.is_empty() {
                return Ok(Stream { status, reader, chunked, length });
            }
            chunked |= lower == "transfer-encoding: chunked";
            if let Some(number) = lower.strip_prefix("content-length: ") {
                length = number.parse().unwrap();
            }
        }
    }

    /// Sends a request and reads its answer.
    pub fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        let stream = self.open(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let status = stream.status;
        Reply { status, body: stream.rest().unwrap() }
    }

    /// Gets an object.
    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "")
    }

    /// Creates or changes an object; panics on failure.
    pub fn write(&self, method: &str, path: &str, object: &Value) -> Value {
        let reply = self.send(method, path, &object.to_string());
        assert!(matches!(reply.status, 200 | 201), "{method} {path}: {reply:?}");
        reply.json()
    }
}

impl Stream {
    /// Reads the next chunk; `None` after the last one.
    ///
    /// # Errors
    /// The connection ends before the last chunk.
    pub fn chunk(&mut self) -> std::io::Result<Option<String>> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim_end(), 16);
        let size = size.map_err(|_| std::io::Error::other(format!("the stream breaks off: {line:?}")))?;
        let mut bytes = vec![0; size + 2];
        self.reader.read_exact(&mut bytes)?;
        bytes.truncate(size);
        Ok((size > 0).then(|| String::from_utf8(bytes).unwrap()))
    }

    /// Reads the rest of the stream.
    pub fn rest(mut self) -> std::io::Result<String> {
        let mut text = String::new();
        if self.chunked {
            while let Some(chunk) = self.chunk()? {
                text.push_str(&chunk);
            }
        } else {
            let mut bytes = vec![0; self.length];
            self.reader.read_exact(&mut bytes)?;
            text = String::from_utf8(bytes).unwrap();
        }
        Ok(text)
    }
}
