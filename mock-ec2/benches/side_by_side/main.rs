//! mock-ec2 and moto's server side by side: one load generator, the same requests, in one run.
//!
//! `cargo bench -p mock-ec2 --bench side_by_side` measures mock-ec2. With `MOTO_VENV` set to a Python environment with
//! `moto[ec2,server]`, it also measures moto (some minutes with 10,000 volumes; `VOLUMES` sets another number). Every
//! answer is read to its last byte before its time is taken. No test depends on it: the figures vary with the machine's
//! other load, so CPU time per request is printed too.

#![expect(clippy::disallowed_methods, reason = "a bench measures real time")]
#![expect(clippy::unwrap_used, reason = "what goes wrong in a bench ends it")]
#![allow(missing_docs, reason = "a program of its own")]

mod client;
mod server;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use client::{Client, Load, run};
use server::Server;

/// Keep-alive connections of the rates.
const CONNECTIONS: usize = 16;
/// Instances that volumes are attached to.
const INSTANCES: usize = 40;
/// Volumes attached to each of them in one round.
const PER_INSTANCE: usize = 64;
/// Same for a slow server with many volumes, which needs a tenth of a second per request.
const SLOW_PER_INSTANCE: usize = 4;
/// Duration of each rate measurement.
const LASTING: Duration = Duration::from_secs(3);
/// Image that moto knows; mock-ec2 accepts any.
const IMAGE: &str = "ami-12c6146b";

/// Target of a figure.
enum Target {
    Most(f64),
    Least(f64),
}

fn main() {
    // `cargo test --benches` and `cargo bench -- --list` run this too.
    if std::env::args().any(|a| a == "--list" || a == "--test") {
        return;
    }
    let volumes: usize = std::env::var("VOLUMES").ok().and_then(|v| v.parse().ok()).unwrap_or(10_000);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load average before: {}", load.split(' ').take(3).collect::<Vec<_>>().join(" "));
    println!("\nmock-ec2 ({})", env!("CARGO_BIN_EXE_mock-ec2"));
    measure(&|| Server::mock_ec2(&[]), volumes, MOCK);
    match std::env::var_os("MOTO_VENV") {
        None => println!("\nmoto: skipped, because MOTO_VENV names no Python environment with moto[ec2,server]"),
        Some(venv) => {
            let program = Path::new(&venv).join("bin/moto_server");
            if program.is_file() {
                println!("\nmoto ({})", program.display());
                measure(&|| moto(&program), volumes, MOTO);
            } else {
                println!("\nmoto: skipped, because there is no {}", program.display());
            }
        }
    }
}

/// Prints a figure at once: a slow server takes minutes.
fn print(name: &str, value: f64, unit: &str, target: Option<Target>) {
    let verdict = match target {
        None => String::new(),
        Some(Target::Most(most)) => format!("at most {most}: {}", if value <= most { "met" } else { "MISSED" }),
        Some(Target::Least(least)) => format!("at least {least}: {}", if value >= least { "met" } else { "MISSED" }),
    };
    println!("  {name:<58} {value:>12.3} {unit:<8} {verdict}");
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Starts moto's server.
fn moto(program: &Path) -> Server {
    Server::start(|port| {
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        command
    })
}

/// Amount of load for a server.
#[derive(Clone, Copy)]
struct Effort {
    /// Number of starts.
    starts: usize,
    /// If set, large requests run only once.
    slow: bool,
}

const MOCK: Effort = Effort { starts: 11, slow: false };
const MOTO: Effort = Effort { starts: 1, slow: true };

/// Measures a server; unless it is slow, also with a hundred thousand volumes.
fn measure(start: &dyn Fn() -> Server, volumes: usize, effort: Effort) {
    let mut add = |name: &str, value: f64, unit: &'static str, target: Option<Target>| {
        print(name, value, unit, target.filter(|_| !effort.slow));
    };
    let (mut first, mut empty) = (Vec::new(), Vec::new());
    for _ in 0..effort.starts {
        let began = Instant::now();
        let server = start();
        first.push(ms(began.elapsed()));
        empty.push(server.resident_mib());
    }
    add("first answer after exec", median(first), "ms", Some(Target::Most(15.0)));
    add("resident, empty", median(empty), "MiB", Some(Target::Most(10.0)));

    let server = start();
    let mut client = Client::new(server.port);
    let run_instances = format!(
        "Action=RunInstances&ImageId={IMAGE}&InstanceType=m7i.48xlarge&MinCount={INSTANCES}&MaxCount={INSTANCES}\
         &Placement.AvailabilityZone=us-east-1a"
    );
    let instances = client.all(&run_instances, "instanceId");
    assert_eq!(instances.len(), INSTANCES);
    let mut ids = create(&server, volumes, &mut add);
    add(&format!("resident, {volumes} volumes"), server.resident_mib(), "MiB", Some(Target::Most(40.0)));

    rates(&server, effort, &ids, &instances, volumes, &mut add);
    describes(&server, effort, volumes, &mut add);
    add(
        &format!("resident, {volumes} volumes, after all of that"),
        server.resident_mib(),
        "MiB",
        Some(Target::Most(40.0)),
    );
    if !effort.slow {
        let more = create_from(&server, volumes, 100_000);
        ids.extend(more);
        add("resident, 100000 volumes", server.resident_mib(), "MiB", None);
        rates(&server, effort, &ids, &instances, 100_000, &mut add);
        describes(&server, effort, 100_000, &mut add);
    }
}

/// Clock ticks of /proc per second, on every Linux.
const TICKS: u32 = 100;

/// Returns the CPU time that a server has used.
fn cpu_of(server: &Server) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
    // The name in parentheses may contain spaces; user and system time are fields 14 and 15.
    let fields: Vec<&str> = text[text.rfind(')').unwrap() + 2..].split(' ').collect();
    let ticks: u32 = fields[11].parse::<u32>().unwrap() + fields[12].parse::<u32>().unwrap();
    Duration::from_secs(1) * ticks / TICKS
}

type Add<'a> = &'a mut dyn FnMut(&str, f64, &'static str, Option<Target>);

fn create(server: &Server, volumes: usize, add: Add<'_>) -> Vec<String> {
    let (cpu, began) = (cpu_of(server), Instant::now());
    let ids = create_from(server, 0, volumes);
    let (cpu, lasted) = (cpu_of(server) - cpu, began.elapsed());
    add(&format!("CreateVolume, {CONNECTIONS} connections"), volumes as f64 / lasted.as_secs_f64(), "/s", None);
    add("CreateVolume, CPU of the server", cpu.as_secs_f64() * 1e6 / volumes as f64, "us each", None);
    ids
}

/// Creates the volumes `from..to`, each with its own name, and returns their ids.
fn create_from(server: &Server, from: usize, to: usize) -> Vec<String> {
    let request = |n: usize| {
        format!(
            "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=10&VolumeType=gp3\
             &TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=CSIVolumeName\
             &TagSpecification.1.Tag.1.Value=pvc-{n:08}&TagSpecification.1.Tag.2.Key=ebs.csi.aws.com/cluster\
             &TagSpecification.1.Tag.2.Value=true"
        )
    };
    let per = (to - from).div_ceil(CONNECTIONS);
    let loads = (0..CONNECTIONS).map(|c| {
        let numbers = from + c * per..(from + (c + 1) * per).min(to);
        Load { requests: numbers.map(request).collect(), keep: Some("volumeId") }
    });
    run(server.port, loads.collect()).into_iter().flat_map(|done| done.kept).collect()
}

/// Measures AttachVolume, DetachVolume and DescribeVolumes of one id.
fn rates(server: &Server, effort: Effort, ids: &[String], instances: &[String], volumes: usize, add: Add<'_>) {
    let device = |n: usize| {
        let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
        format!("/dev/xvd{}{}", letter(n / 26), letter(n))
    };
    // Each connection has its own instances, so that the same requests can be repeated in each round.
    let place = |n: usize| (&instances[n % INSTANCES], device(n / INSTANCES));
    let spread: Vec<&String> = ids.iter().step_by((ids.len() / (INSTANCES * PER_INSTANCE)).max(1)).collect();
    let each = if effort.slow && volumes >= 10_000 { SLOW_PER_INSTANCE } else { PER_INSTANCE };
    let own = |c: usize| (0..INSTANCES * each).filter(move |n| n % CONNECTIONS == c && *n < ids.len());
    let loads = |form: &dyn Fn(usize) -> String| -> Vec<Load> {
        (0..CONNECTIONS).map(|c| Load { requests: own(c).map(form).collect(), keep: None }).collect()
    };
    let attach = loads(&|n| {
        let (instance, device) = place(n);
        format!("Action=AttachVolume&VolumeId={}&InstanceId={instance}&Device={device}", spread[n])
    });
    let detach = loads(&|n| format!("Action=DetachVolume&VolumeId={}&InstanceId={}", spread[n], place(n).0));
    let describe = loads(&|n| format!("Action=DescribeVolumes&VolumeId.1={}", spread[n]));
    let kinds = [("AttachVolume", attach), ("DetachVolume", detach), ("DescribeVolumes of one id", describe)];
    let mut sums = kinds.each_ref().map(|_| (Duration::ZERO, Duration::ZERO, Vec::new()));
    let began = Instant::now();
    let mut rounds = 0;
    while rounds == 0 || began.elapsed() < 3 * LASTING {
        for ((_, loads), sum) in kinds.iter().zip(&mut sums) {
            let (cpu, began) = (cpu_of(server), Instant::now());
            let done = run(server.port, loads.clone());
            sum.0 += began.elapsed();
            sum.1 += cpu_of(server) - cpu;
            sum.2.extend(done.into_iter().flat_map(|d| d.took));
        }
        rounds += 1;
    }
    for ((name, _), (wall, cpu, mut took)) in kinds.iter().zip(sums) {
        took.sort_unstable();
        let at = |share: f64| ms(took[((took.len() - 1) as f64 * share) as usize]);
        let name = format!("{name}, {CONNECTIONS} connections, {volumes} volumes");
        add(&name, took.len() as f64 / wall.as_secs_f64(), "/s", Some(Target::Least(20_000.0)));
        add("  median", at(0.5), "ms", None);
        add("  p99", at(0.99), "ms", Some(Target::Most(5.0)));
        add("  CPU of the server", cpu.as_secs_f64() * 1e6 / took.len() as f64, "us each", None);
    }
}

/// Measures DescribeVolumes of everything, and by a tag of one volume.
fn describes(server: &Server, effort: Effort, volumes: usize, add: Add<'_>) {
    let mut client = Client::new(server.port);
    let mut time = |form: &str, times: usize, hits: usize| {
        let all = (0..times).map(|_| {
            let began = Instant::now();
            let answer = client.ask(form);
            let lasted = ms(began.elapsed());
            // Includes root volumes.
            let found = answer.matches("<createTime>").count();
            assert!(found >= hits && found <= hits + INSTANCES, "{found} of {hits} volumes");
            lasted
        });
        median(all.collect())
    };
    let slow = volumes >= 1_000 && effort.slow;
    let most = if volumes <= 10_000 { Some(Target::Most(50.0)) } else { None };
    let all = time("Action=DescribeVolumes", if slow { 1 } else { 9 }, volumes);
    add(&format!("DescribeVolumes of all {volumes}, to the last byte"), all, "ms", most);
    let form =
        format!("Action=DescribeVolumes&Filter.1.Name=tag:CSIVolumeName&Filter.1.Value.1=pvc-{:08}", volumes / 2);
    let one = time(&form, if slow { 1 } else { 999 }, 1);
    add(&format!("DescribeVolumes by tag among {volumes}"), one, "ms", Some(Target::Most(1.0)));
}
