//! The program at its limit of file descriptors.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crate::common::program::{Running, program, run, start, start_by};
use crate::common::{self, SIGNED};

/// Sends one request on a new connection, and returns the whole answer.
fn ask(address: &str) -> String {
    let body = "Action=DescribeVolumes&Version=2016-11-15";
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
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
    // Most send nothing, some send half a request.
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
    // Slow requests that hold connections leave room for the answers to others.
    let slow = || {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /admin/v1/events HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
        stream
    };
    let mut asking: Vec<TcpStream> = (0..150).map(|_| slow()).collect();
    let mut text = String::new();
    for _ in 0..900 {
        text = ask(address);
        if text.starts_with("HTTP/1.1 503 ") {
            break;
        }
        // The question took the place of a request that the program had not read yet.
        asking.push(slow());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("retry-after: 1"), "{text}");
    drop(asking);
    while !ask(address).starts_with("HTTP/1.1 200 OK") {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns resident memory of the program in KiB.
fn resident(running: &Running) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", running.0.id())).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn memory_of_a_load_is_given_back_when_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let (running, endpoint) = start(dir.path(), &[]);
    let address = endpoint.strip_prefix("http://").unwrap();
    let form = "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=1";
    run(async {
        let service = substrate::dial::http(&endpoint).unwrap();
        for _ in 0..2_000 {
            let request = common::signed(&format!("Version=2016-11-15&{form}"));
            let made = common::read(substrate::body::call(service.clone(), request).await.unwrap()).await;
            assert_eq!(made.status, 200);
        }
    });
    let before = resident(&running);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..20).for_each(|_| assert!(ask(address).len() > 500_000)));
        }
    });
    let loaded = resident(&running);
    let mut waited = 0;
    // At most a part of the load's memory stays, or little.
    while resident(&running) > before + (loaded.saturating_sub(before) / 2).max(2 << 10) {
        waited += 1;
        assert!(waited < 300, "{before}, {loaded}, {} KiB", resident(&running));
        std::thread::sleep(Duration::from_millis(200));
    }
}
