//! A server process under measurement: how long until its first answer, its memory, its CPU time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Clock ticks of /proc per second, on every Linux.
const TICKS: u32 = 100;

#[allow(dead_code, reason = "each bench uses its part")]
pub struct Server {
    child: Child,
    pub port: u16,
    /// From exec to the last byte of the first answer of the EC2 API.
    pub first_answer: Duration,
    /// Whether large requests are asked once only.
    pub slow: bool,
}

#[allow(dead_code, reason = "each bench uses its part")]
impl Server {
    pub fn mock_ec2() -> Self {
        Self::mock_ec2_with(&[])
    }

    /// mock-ec2 with more flags.
    pub fn mock_ec2_with(flags: &[&str]) -> Self {
        let port = free_port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mock-ec2"));
        command.args(["--listen", &format!("127.0.0.1:{port}")]).args(flags);
        Self::start(command, port, false)
    }

    /// A program that is told its port by `--echo=PORT`.
    pub fn echo(mut command: Command) -> Self {
        let port = free_port();
        command.arg(format!("--echo={port}"));
        Self::start(command, port, false)
    }

    pub fn moto(program: &Path) -> Self {
        let port = free_port();
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        Self::start(command, port, true)
    }

    fn start(mut command: Command, port: u16, slow: bool) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let mut server = Self { child: command.spawn().unwrap(), port, first_answer: Duration::ZERO, slow };
        while !answers(port) {
            assert!(began.elapsed() < Duration::from_secs(60), "the server does not answer");
            std::thread::sleep(Duration::from_micros(200));
        }
        server.first_answer = began.elapsed();
        server
    }

    /// Resident memory in MiB.
    pub fn resident_mib(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }

    /// CPU time that the server took so far.
    pub fn cpu(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name in parentheses may have spaces; user and system time are fields 14 and 15.
        let fields: Vec<&str> = text[text.rfind(')').unwrap() + 2..].split(' ').collect();
        let ticks: u32 = fields[11].parse::<u32>().unwrap() + fields[12].parse::<u32>().unwrap();
        Duration::from_secs(1) * ticks / TICKS
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let body = "Action=DescribeRegions&Version=2016-11-15";
    let request = format!(
        "POST / HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\nauthorization: AWS4-HMAC-SHA256 \
         Credential=bench/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer)).is_ok()
        && answer.starts_with("HTTP/1.1 200 ")
}
