//! The cloud's admin API over a plain socket, since it is not under test here.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Result, ensure};

/// Sends a request to `endpoint` and returns the body of the response.
///
/// # Errors
/// If it is refused; with the response.
pub fn send(endpoint: &str, method: &str, path: &str, body: &str) -> Result<String> {
    let address = endpoint.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 20"), "{method} {path} {body}:\n{answer}");
    Ok(answer.split_once("\r\n\r\n").map_or_else(String::new, |(_, body)| body.to_owned()))
}
