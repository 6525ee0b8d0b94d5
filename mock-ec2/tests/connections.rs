//! The program at the limit of its descriptors.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::SIGNED;
use common::program::{program, start_by};
use std::process::Command;

/// Asks once on a new connection, and gives all that is answered.
fn ask(address: &str) -> String {
    let body = "Action=DescribeVolumes&Version=2016-11-15";
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = format!("POST / HTTP/1.1\r\nhost: {address}\r\nauthorization: {SIGNED}\r\nconnection: close");
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_new_client_is_answered_though_others_hold_all_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 100; exec \"$0\" \"$@\""]).arg(program().get_program());
    let (_running, endpoint) = start_by(command, dir.path(), &[]);
    let address = endpoint.strip_prefix("http://").unwrap();
    // Most say nothing, some half of a request.
    let held: Vec<TcpStream> = (0..300)
        .map(|n| {
            let mut stream = TcpStream::connect(address).unwrap();
            if n % 3 == 0 {
                stream.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-le").unwrap();
            }
            stream
        })
        .collect();
    for _ in 0..20 {
        let text = ask(address);
        assert!(text.starts_with("HTTP/1.1 200 OK") && text.contains("DescribeVolumesResponse"), "{text}");
    }
    drop(held);
    // Who holds them with requests that last leaves an answer to the others.
    let asking: Vec<TcpStream> = (0..150)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET /admin/v1/events HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let text = ask(address);
    assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("retry-after: 1"), "{text}");
    drop(asking);
    while !ask(address).starts_with("HTTP/1.1 200 OK") {
        std::thread::sleep(Duration::from_millis(50));
    }
}
