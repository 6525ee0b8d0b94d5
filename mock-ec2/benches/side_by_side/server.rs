//! Server process under measurement: its port and its memory.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use substrate::host::unused_port;

pub struct Server {
    pub child: Child,
    pub port: u16,
}

impl Server {
    /// Starts mock-ec2 with more flags.
    pub fn mock_ec2(flags: &[&str]) -> Self {
        Self::start(|port| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_mock-ec2"));
            command.args(["--listen", &format!("127.0.0.1:{port}")]).args(flags);
            command
        })
    }

    /// Starts `command` at a port and waits until it answers.
    pub fn start(command: impl FnOnce(u16) -> Command) -> Self {
        let port = unused_port().unwrap();
        let mut command = command(port);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let server = Self { child: command.spawn().unwrap(), port };
        while !answers(port) {
            assert!(began.elapsed() < Duration::from_secs(60), "the server does not answer");
            std::thread::sleep(Duration::from_micros(200));
        }
        server
    }

    /// Returns resident memory in MiB.
    pub fn resident_mib(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
