//! Load generator: plain HTTP/1.1 on tokio's sockets, all connections on one thread, to use little of the cores that it
//! shares with the server.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Requests of one connection, sent one after the other.
#[derive(Clone)]
pub struct Load {
    pub requests: Vec<String>,
    /// Element whose first text is kept from each answer.
    pub keep: Option<&'static str>,
}

/// Result of a load.
#[derive(Default)]
pub struct Done {
    /// Duration of each request, from the first byte sent to the last byte read.
    pub took: Vec<Duration>,
    pub kept: Vec<String>,
}

/// Sends each load on its own connection, all in parallel.
pub fn run(port: u16, loads: Vec<Load>) -> Vec<Done> {
    runtime().block_on(async {
        let tasks: Vec<_> = loads.into_iter().map(|load| one(port, load)).collect();
        futures_util::future::join_all(tasks).await
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn one(port: u16, load: Load) -> Done {
    let requests: Vec<Vec<u8>> = load.requests.iter().map(|form| request(port, form)).collect();
    let (mut connection, mut done) = (Connection::new(port), Done::default());
    for request in requests {
        let began = Instant::now();
        let (status, body) = connection.ask(&request).await;
        done.took.push(began.elapsed());
        assert_eq!(status, 200, "{}\n{body}", String::from_utf8_lossy(&request));
        done.kept.extend(load.keep.map(|tag| texts(body, tag).next().unwrap_or_default().to_owned()));
    }
    done
}

fn request(port: u16, form: &str) -> Vec<u8> {
    let body = format!("Version=2016-11-15&{form}");
    format!(
        "POST / HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: AWS4-HMAC-SHA256 \
         Credential=bench/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn texts<'a>(body: &'a str, tag: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    body.split(&open).skip(1).map(|rest| &rest[..rest.find(&close).unwrap()]).collect::<Vec<_>>().into_iter()
}

/// Client for single requests.
pub struct Client {
    port: u16,
    runtime: tokio::runtime::Runtime,
    connection: Connection,
}

impl Client {
    pub fn new(port: u16) -> Self {
        Self { port, runtime: runtime(), connection: Connection::new(port) }
    }

    pub fn ask(&mut self, form: &str) -> String {
        let request = request(self.port, form);
        let (status, body) = self.runtime.block_on(self.connection.ask(&request));
        assert_eq!(status, 200, "{form}\n{body}");
        body.to_owned()
    }

    /// Returns the texts of all elements `tag` of the answer.
    pub fn all(&mut self, form: &str, tag: &str) -> Vec<String> {
        texts(&self.ask(form), tag).map(str::to_owned).collect()
    }
}

/// Connection that reconnects when the server closes it.
struct Connection {
    port: u16,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Connection {
    fn new(port: u16) -> Self {
        Self { port, stream: None, buffer: vec![0; 16 << 10] }
    }

    async fn ask(&mut self, request: &[u8]) -> (u16, &str) {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
                stream.set_nodelay(true).unwrap();
                stream
            }
        };
        stream.write_all(request).await.unwrap();
        let (mut filled, mut head) = (0, None);
        let (head, end) = loop {
            if let Some(head) = &head
                && let Some(end) = ended(head, &self.buffer[..filled])
            {
                break (*head, end);
            }
            if self.buffer.len() - filled < 4 << 10 {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            let read = stream.read(&mut self.buffer[filled..]).await.unwrap();
            filled += read;
            if head.is_none() {
                head = parse(&self.buffer[..filled]);
            }
            if read == 0 {
                // Without a length the answer ends with the connection.
                let head = head.expect("an answer");
                assert!(matches!(head.length, Length::Rest), "the answer broke off");
                break (Head { close: true, ..head }, filled);
            }
        };
        if !head.close {
            self.stream = Some(stream);
        }
        (head.status, std::str::from_utf8(&self.buffer[head.bytes..end]).unwrap())
    }
}

/// Response head.
#[derive(Clone, Copy)]
struct Head {
    bytes: usize,
    length: Length,
    status: u16,
    /// True if the connection ends with the answer.
    close: bool,
}

#[derive(Clone, Copy)]
enum Length {
    Known(usize),
    Chunked,
    /// Until the end of the connection.
    Rest,
}

/// Returns the end of the answer, once it is complete. Chunks are not decoded: counting elements in the body does not
/// need it.
fn ended(head: &Head, bytes: &[u8]) -> Option<usize> {
    match head.length {
        Length::Known(length) => Some(head.bytes + length).filter(|end| bytes.len() >= *end),
        Length::Chunked => bytes.ends_with(b"\r\n0\r\n\r\n").then_some(bytes.len()),
        Length::Rest => None,
    }
}

/// Parses the head, if it is complete.
fn parse(bytes: &[u8]) -> Option<Head> {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..end]).unwrap();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.split_once(':').filter(|(n, _)| n.eq_ignore_ascii_case(name)));
        line.map(|f| f.1.trim())
    };
    let length = match (field("transfer-encoding"), field("content-length")) {
        (Some(_), _) => Length::Chunked,
        (None, Some(length)) => Length::Known(length.parse().unwrap()),
        (None, None) => Length::Rest,
    };
    let close = field("connection").is_some_and(|v| v.eq_ignore_ascii_case("close")) || text.starts_with("HTTP/1.0");
    Some(Head { bytes: end, length, status: text[9..12].parse().unwrap(), close })
}
