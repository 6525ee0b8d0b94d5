//! The binary as a process: ready file, kubeconfig, plain HTTP beside TLS, clean exit.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use crate::support::Server;

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
fn its_answers_have_the_length_that_they_say_and_end_as_go_ends_them() {
    let server = Server::start();
    let get = |agent: &str| {
        let mut stream = TcpStream::connect(server.ready("httpEndpoint").trim_start_matches("http://")).unwrap();
        let head = "GET /api/v1/namespaces/default HTTP/1.1\r\nhost: localhost\r\nconnection: close";
        stream.write_all(format!("{head}\r\nuser-agent: {agent}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.to_ascii_lowercase().contains(&format!("content-length: {}", body.len())), "{answer}");
        body.to_owned()
    };
    let compact = get("client");
    assert!(compact.starts_with("{\"kind\":\"Namespace\",\"apiVersion\":\"v1\",\"metadata\":{"), "{compact}");
    assert!(compact.ends_with("\"}}\n"), "{compact}");
    assert!(get("curl/8").starts_with("{\n  \"kind\": \"Namespace\",\n"));
}

#[test]
fn signals_end_it_at_once_and_its_ready_file_goes() {
    for (signal, code) in [("-TERM", 0), ("-INT", 130)] {
        let mut server = Server::start();
        let ready = server.file("ready-now", "").with_file_name("ready.json");
        assert!(ready.exists());
        assert_eq!((server.end(signal), ready.exists()), (Some(code), false), "{signal}");
    }
}

#[test]
fn a_crash_by_fault_ends_it_as_a_kill_would_and_prevents_the_request() {
    let mut server = Server::start();
    let address = server.ready("httpEndpoint").trim_start_matches("http://").to_owned();
    let send = |request: &str, body: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head =
            format!("{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json");
        stream.write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
        let mut answer = String::new();
        // A connection that breaks counts as an answer.
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    let fault = r#"{"name": "f", "match": {"plane": "k8s", "op": "create"}, "effect": {"crash": "self"}}"#;
    assert!(send("POST /admin/v1/faults", fault).starts_with("HTTP/1.1 201"));
    assert_eq!(send("POST /api/v1/namespaces", r#"{"metadata": {"name": "a"}}"#), "");
    assert_eq!(server.wait(), Some(137));
}
