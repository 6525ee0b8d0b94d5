//! HTTP requests from this process: to start a client program takes longer than most tests.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result};

/// A server's response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Sends a request to `endpoint` (`http://127.0.0.1:4566`) with extra `headers`, such as `[("accept", "text/plain")]`.
///
/// # Errors
/// If the connection fails, or the response is not HTTP.
pub fn send(endpoint: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Result<Answer> {
    let address = endpoint.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).with_context(|| endpoint.to_owned())?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    write!(stream, "{request}content-length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    Ok(Answer { status: status.with_context(|| format!("{method} {path}: {answer}"))?, body: body.to_owned() })
}
