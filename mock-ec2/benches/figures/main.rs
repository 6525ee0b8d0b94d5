//! Figures of mock-ec2 beside a bare axum server with the same answers in the same run; cost of a state file; memory
//! after a load.
//!
//! `cargo bench -p mock-ec2 --bench figures`; `VOLUMES` sets another number than 10,000. No test depends on it: the
//! figures vary with the machine's other load, so ratios are printed too.

#![expect(clippy::disallowed_methods, reason = "a bench measures real time")]
#![expect(clippy::unwrap_used, reason = "what goes wrong in a bench ends it")]
#![allow(missing_docs, reason = "a program of its own")]

#[path = "../side_by_side/client.rs"]
mod client;
mod echo;
#[path = "../side_by_side/server.rs"]
mod server;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use client::{Client, Load, run};
use server::Server;

/// Keep-alive connections of the rates.
const CONNECTIONS: usize = 16;
/// Instances that volumes are attached to.
const INSTANCES: usize = 40;
/// Volumes attached to each of them in one round.
const PER_INSTANCE: usize = 64;
/// Shortest duration of each rate measurement.
const LASTING: Duration = Duration::from_secs(4);
/// Connections that stay open during the memory measurement.
const OPEN: usize = 500;

fn main() {
    if let Some(port) = std::env::args().find_map(|arg| arg.strip_prefix("--echo=").map(str::to_owned)) {
        return echo::serve(port.parse().unwrap());
    }
    // `cargo test --benches` and `cargo bench -- --list` run this too.
    if std::env::args().any(|a| a == "--list" || a == "--test") {
        return;
    }
    let volumes: usize = std::env::var("VOLUMES").ok().and_then(|v| v.parse().ok()).unwrap_or(10_000);
    println!("mock-ec2 ({}), {volumes} volumes, {CONNECTIONS} connections", env!("CARGO_BIN_EXE_mock-ec2"));
    let plain = Bed::new(&[], volumes);
    let before = plain.server.resident_mib();
    let (attach, answer) = plain.attach();
    // The same requests, and answers with the same bytes.
    let bare = Server::start(|port| echo::command(&answer, port));
    let echoed = rate(bare.port, &plain.attach_loads());
    drop(bare);
    attach.print("AttachVolume", None);
    echoed.print("bare axum, the same bytes", None);
    let ratio = attach.per_second / echoed.per_second;
    verdict("AttachVolume, share of the bare server's rate", ratio, "", ratio >= 0.5, "at least 0.5");
    verdict("AttachVolume, p99", attach.p99, "ms", attach.p99 <= 5.0, "at most 5");
    let describe = plain.describe_all(volumes);
    verdict("DescribeVolumes of all, to the last byte", describe, "ms", describe <= 20.0, "at most 20");
    memory(&plain, before);
    drop(plain);

    println!("\nwhat a state file costs");
    for sync in ["process", "power"] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state.json");
        let bed = Bed::new(&["--state-file", file.to_str().unwrap(), "--state-sync", sync], volumes);
        bed.attach().0.print(&format!("AttachVolume, --state-sync {sync}"), Some(&attach));
    }
}

/// Durations and rate of requests.
struct Rate {
    per_second: f64,
    median: f64,
    p99: f64,
}

impl Rate {
    fn print(&self, name: &str, beside: Option<&Self>) {
        let share = beside.map(|plain| format!(", {:.2} of the rate without", self.per_second / plain.per_second));
        let Self { per_second, median, p99 } = self;
        let share = share.unwrap_or_default();
        println!("  {name:<48} {per_second:>9.0} /s, median {median:.3} ms, p99 {p99:.3} ms{share}");
    }
}

fn verdict(name: &str, value: f64, unit: &str, met: bool, target: &str) {
    println!("  {name:<48} {value:>9.3} {unit:<3} {target}: {}", if met { "met" } else { "MISSED" });
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Sends `loads` repeatedly.
fn rate(port: u16, loads: &[Load]) -> Rate {
    rate_with(port, loads, || ())
}

/// Sends `loads` repeatedly, and runs `between` after each round.
fn rate_with(port: u16, loads: &[Load], mut between: impl FnMut()) -> Rate {
    let (mut took, mut wall) = (Vec::new(), Duration::ZERO);
    while wall < LASTING {
        let began = Instant::now();
        let done = run(port, loads.to_vec());
        wall += began.elapsed();
        took.extend(done.into_iter().flat_map(|done| done.took));
        between();
    }
    took.sort_unstable();
    let at = |share: f64| ms(took[((took.len() - 1) as f64 * share) as usize]);
    Rate { per_second: took.len() as f64 / wall.as_secs_f64(), median: at(0.5), p99: at(0.99) }
}

/// Server with volumes and instances.
struct Bed {
    server: Server,
    instances: Vec<String>,
    volumes: Vec<String>,
}

impl Bed {
    fn new(flags: &[&str], volumes: usize) -> Self {
        let server = Server::mock_ec2(flags);
        let launch = format!(
            "Action=RunInstances&ImageId=ami-12c6146b&InstanceType=m7i.48xlarge&MinCount={INSTANCES}\
             &MaxCount={INSTANCES}&Placement.AvailabilityZone=us-east-1a"
        );
        let instances = Client::new(server.port).all(&launch, "instanceId");
        assert_eq!(instances.len(), INSTANCES);
        let per = volumes.div_ceil(CONNECTIONS);
        let create = "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=10&VolumeType=gp3".to_owned();
        let loads = (0..CONNECTIONS).map(|c| Load {
            requests: vec![create.clone(); per.min(volumes.saturating_sub(c * per))],
            keep: Some("volumeId"),
        });
        let volumes = run(server.port, loads.collect()).into_iter().flat_map(|done| done.kept).collect();
        Self { server, instances, volumes }
    }

    /// Builds one load per connection, each with its own instances and volumes.
    fn loads(&self, form: impl Fn(usize) -> String) -> Vec<Load> {
        let most = (INSTANCES * PER_INSTANCE).min(self.volumes.len());
        let own = |c: usize| (0..most).filter(move |n| n % CONNECTIONS == c);
        (0..CONNECTIONS).map(|c| Load { requests: own(c).map(&form).collect(), keep: None }).collect()
    }

    fn attach_loads(&self) -> Vec<Load> {
        let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
        self.loads(|n| {
            let (volume, instance, slot) = (&self.volumes[n], &self.instances[n % INSTANCES], n / INSTANCES);
            let device = format!("/dev/xvd{}{}", char::from(b'b' + (slot / 26) as u8), letter(slot));
            format!("Action=AttachVolume&VolumeId={volume}&InstanceId={instance}&Device={device}")
        })
    }

    /// Measures attaches; the detaches between rounds are not measured. Returns one answer, too.
    fn attach(&self) -> (Rate, String) {
        let detach = self.loads(|n| format!("Action=DetachVolume&VolumeId={}", self.volumes[n]));
        let undo = || drop(run(self.server.port, detach.clone()));
        let attach = self.attach_loads();
        let rate = rate_with(self.server.port, &attach, undo);
        let mut client = Client::new(self.server.port);
        let answer = client.ask(&attach[0].requests[0]);
        client.ask(&detach[0].requests[0]);
        (rate, answer)
    }

    fn describe_all(&self, volumes: usize) -> f64 {
        let mut client = Client::new(self.server.port);
        let mut all: Vec<f64> = (0..15)
            .map(|_| {
                let began = Instant::now();
                let answer = client.ask("Action=DescribeVolumes");
                let took = ms(began.elapsed());
                assert!(answer.matches("<createTime>").count() >= volumes);
                took
            })
            .collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }
}

/// Measures the memory after the load, with its connections closed.
fn memory(bed: &Bed, before: f64) {
    let port = bed.server.port;
    let open: Vec<TcpStream> = (0..OPEN).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let describe = Load { requests: vec!["Action=DescribeVolumes".to_owned(); 10], keep: None };
    drop(run(port, vec![describe; CONNECTIONS]));
    let loaded = bed.server.resident_mib();
    drop(open);
    std::thread::sleep(Duration::from_secs(6));
    let after = bed.server.resident_mib();
    println!("  resident: {before:.1} MiB before the load, {loaded:.1} under it, {after:.1} six seconds later");
}
