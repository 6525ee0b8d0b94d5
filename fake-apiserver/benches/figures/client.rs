//! A minimal client, so that the server is measured and not the client.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A connection with one request at a time.
pub struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: BytesMut,
}

impl Connection {
    /// Wraps an open stream.
    pub fn new(stream: TlsStream<TcpStream>) -> Self {
        Self { stream, buffer: BytesMut::with_capacity(64 << 10) }
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(&mut self, method: &str, path: &str, media: &str, body: &str) -> (u16, Bytes) {
        self.write(method, path, media, body).await;
        let (code, length) = self.head().await;
        let length = length.unwrap();
        while self.buffer.len() < length {
            self.read().await;
        }
        (code, self.buffer.split_to(length).freeze())
    }

    /// Sends a request with a JSON body.
    pub async fn json(&mut self, method: &str, path: &str, body: &str) -> (u16, Bytes) {
        self.send(method, path, "application/json", body).await
    }

    /// Sends a GET.
    pub async fn get(&mut self, path: &str) -> (u16, Bytes) {
        self.send("GET", path, "application/json", "").await
    }

    /// Starts a watch, whose events [`Connection::events`] reads.
    pub async fn watch(&mut self, path: &str) {
        self.write("GET", path, "application/json", "").await;
        assert_eq!(self.head().await, (200, None));
    }

    /// Reads the events that have arrived, at least one, and adds the revision of each to `found`, in order. The
    /// server's frames hold whole lines, so the framing of chunks is on its own lines.
    pub async fn events(&mut self, found: &mut Vec<u64>) {
        loop {
            let before = found.len();
            while let Some(end) = memchr::memchr(b'\n', &self.buffer) {
                if self.buffer[0] == b'{' {
                    assert_eq!(self.buffer[end - 1], b'}', "a frame broke within a line");
                    found.push(revision(&self.buffer[..end]));
                }
                self.buffer.advance(end + 1);
            }
            if found.len() > before {
                return;
            }
            self.read().await;
        }
    }

    async fn write(&mut self, method: &str, path: &str, media: &str, body: &str) {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nuser-agent: bench/1\r\naccept: application/json\r\n\
             content-type: {media}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    async fn read(&mut self) {
        self.buffer.reserve(64 << 10);
        assert_ne!(self.stream.read_buf(&mut self.buffer).await.unwrap(), 0, "the server closed the connection");
    }

    /// Reads the head of an answer: its status and its length, which a stream does not have.
    async fn head(&mut self) -> (u16, Option<usize>) {
        let end = loop {
            if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            self.read().await;
        };
        let head = self.buffer.split_to(end + 4);
        let head = std::str::from_utf8(&head).unwrap();
        let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")).map(|n| n.parse().unwrap());
        (head[9..12].parse().unwrap(), length)
    }
}

/// Returns the revision of the object in `text`.
pub fn revision(text: &[u8]) -> u64 {
    const FIELD: &[u8] = b"\"resourceVersion\":\"";
    let at = memchr::memmem::find(text, FIELD).unwrap() + FIELD.len();
    text[at..].iter().take_while(|b| b.is_ascii_digit()).fold(0, |n, b| n * 10 + u64::from(b - b'0'))
}
