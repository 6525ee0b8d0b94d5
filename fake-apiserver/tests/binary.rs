//! The binary as a process: ready file, kubeconfig, plain HTTP beside TLS, a clean end.

#![cfg(test)]

#[allow(dead_code, reason = "each test binary uses a part of the support module")]
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use support::Server;

#[test]
fn it_says_where_it_is_and_answers_there() {
    let server = Server::start();
    assert!(server.ready("endpoint").starts_with("https://127.0.0.1:"));
    let mode = std::fs::metadata(server.ready("kubeconfig")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = TcpStream::connect(server.ready("httpEndpoint").trim_start_matches("http://")).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
}

#[test]
fn signals_end_it_at_once() {
    assert_eq!(Server::start().end("-TERM"), Some(0));
    assert_eq!(Server::start().end("-INT"), Some(130));
}
