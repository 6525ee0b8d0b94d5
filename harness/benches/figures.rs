//! Measures the performance figures that Mooring promises: `cargo bench -p harness`. No test depends on them.
//!
//! The benches run the program `mooring` of their own build profile, or the one that `MOORING` names. Each figure is
//! the median of several runs, printed with minimum, maximum and bound. If the figure of a comparable tool is known or
//! the tool is installed, the ratio is printed too.

#![expect(clippy::disallowed_methods, reason = "a bench measures wall time")]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::prelude::*;
use harness::scenario::large;
use rustix::process::{Pid, Signal, kill_process};

/// Returns the program that is measured.
fn mooring() -> PathBuf {
    std::env::var_os("MOORING").map_or_else(|| env!("CARGO_BIN_EXE_mooring").into(), PathBuf::from)
}

/// Durations of several runs in milliseconds.
struct Sample(Vec<f64>);

impl Sample {
    fn of(runs: usize, mut run: impl FnMut() -> Option<f64>) -> Option<Self> {
        let mut all: Vec<f64> = (0..runs).filter_map(|_| run()).collect();
        all.sort_by(f64::total_cmp);
        (!all.is_empty()).then_some(Self(all))
    }

    fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }
}

/// Bound of a figure.
#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    fn figure_text(self, median: f64) -> String {
        let (met, bound, which) = match self {
            Self::AtMost(bound) => (median <= bound, bound, "at most"),
            Self::AtLeast(bound) => (median >= bound, bound, "at least"),
        };
        format!("  bound {which} {bound} {}", if met { "met" } else { "MISSED" })
    }
}

fn report(name: &str, unit: &str, bound: Option<Bound>, sample: Option<Sample>, peer: Option<(&str, f64)>) {
    let Some(sample) = sample else {
        println!("{name:<58} not measured here");
        return;
    };
    let (median, min, max) = (sample.median(), sample.0[0], sample.0[sample.0.len() - 1]);
    let mut line = format!("{name:<58} {median:>8.1} {unit}  [{min:.1} … {max:.1}, n={}]", sample.0.len());
    if let Some(bound) = bound {
        line += &bound.figure_text(median);
    }
    if let Some((who, value)) = peer {
        let _ = write!(line, "  {:.2}× {who} ({value:.0} {unit})", median / value);
    }
    println!("{line}");
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Measures the noise of the machine: the nanoseconds per step of a pointer chase through 64 MiB, in which each step
/// depends on the one before. Other load on a shared machine shows in the caches and in memory, where a simulation
/// spends its time.
fn machine() -> f64 {
    const PLACES: u32 = 16 << 20;
    const STEPS: u32 = 1 << 20;
    // A linear congruential generator of full period (Hull and Dobell): the places form one cycle.
    let leads: Vec<u32> =
        (0..PLACES).map(|at| at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % PLACES).collect();
    let started = Instant::now();
    let end = (0..STEPS).fold(0, |at, _| leads[at as usize]);
    let took = millis(started);
    assert!(std::hint::black_box(end) < PLACES, "every place leads to a place");
    took * 1e6 / f64::from(STEPS)
}

/// Returns the data of `mooring … --output json`; none if it did not pass.
fn json_output(args: &[&str]) -> Option<serde_json::Value> {
    let output = Command::new(mooring()).args(args).args(["--output", "json"]).stderr(Stdio::null()).output().ok()?;
    let mut envelope: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    if envelope["status"] != "passed" {
        eprintln!("mooring {}: {}", args.join(" "), envelope["error"]);
        return None;
    }
    Some(envelope["data"].take())
}

/// Returns the wall time of one simulation in milliseconds, with invariants on, from the start of the first component
/// to the end of the steps. It excludes the start of the process, the reading of the file, and the destruction of the
/// world, which `mooring run` skips.
fn simulated(scenario: &Path) -> Option<f64> {
    json_output(&["run", scenario.to_str()?])?["summary"]["wallMs"].as_f64()
}

/// Returns the sum of two neighbouring times of a process in seconds; `first` is a field of /proc/PID/stat
/// (proc_pid_stat(5)).
fn processor_time(proc: &Path, first: usize) -> Option<f64> {
    /// Clock ticks per second, the unit of times there.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string(proc.join("stat")).ok()?;
    // The first element here is field 3.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let times = fields.get(first - 3..first - 1)?.iter().map(|field| field.parse::<f64>().ok());
    Some(times.sum::<Option<f64>>()? / TICKS)
}

/// Returns the processor time of all ended children in seconds.
fn processor_time_of_children() -> Option<f64> {
    /// Field `cutime`.
    const CHILDREN: usize = 16;
    processor_time(Path::new("/proc/self"), CHILDREN)
}

/// Returns the resident memory of a process in MB.
fn resident(proc: &Path) -> Option<f64> {
    let status = std::fs::read_to_string(proc.join("status")).ok()?;
    let kb = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().trim_end_matches("kB").trim();
    Some(kb.parse::<f64>().ok()? / 1024.0)
}

/// Returns the processor time of a run that waits for lists of pods, relative to one that waits for each pod.
fn lists_beside_single_waits(lists: &Path, single: &Path) -> Option<f64> {
    let time = |scenario: &Path| {
        let before = processor_time_of_children()?;
        json_output(&["run", scenario.to_str()?])?;
        Some(processor_time_of_children()? - before)
    };
    Some(time(lists)? / time(single)?)
}

/// Returns the runs per second of a scenario of the repository with seeds 1 to 100 on two jobs, with invariants on, as
/// `mooring run` reports it. It includes the destruction of each world.
fn runs_per_second(scenario: &str) -> Option<f64> {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(scenario);
    let data = json_output(&["run", scenario.to_str()?, "--seeds", "1..100", "--jobs", "2"])?;
    data["summary"]["runsPerSecond"].as_f64()
}

/// Figures of a live cluster with many pods.
struct ManyLive {
    /// Seconds from the first claim until the last pod runs.
    seconds: f64,
    /// Largest resident memory in MB.
    memory: f64,
    /// Cores in use while nothing happens.
    idle_cores: f64,
}

/// Runs 1,000 claims and pods on 100 live nodes with directories for disks, and then ten seconds without a change.
fn many_live(home: &Path) -> Option<ManyLive> {
    /// Field `utime`.
    const OWN: usize = 14;
    /// Time between two looks at the process.
    const LOOK: Duration = Duration::from_millis(500);
    /// Looks that count as idle, and later ones, which see the end of the run.
    const IDLE: usize = 10;
    const END: usize = 4;
    let path = home.join("many-live.yaml");
    let header = "name: starts\ntime-scale: {live: 10}\nflags: {csi-attacher: {worker-threads: 100}}\n";
    let text = large::starts_of_many(100, 1_000);
    let text = text.replacen("name: starts\n", header, 1).replacen("teardown:", "  - sleep: 100s\nteardown:", 1);
    std::fs::write(&path, text).ok()?;
    let output = home.join("many-live.json");
    let mut child = Command::new(mooring())
        .args(["run", path.to_str()?, "--live", "--backend", "directory", "--output", "json"])
        .stdout(std::fs::File::create(&output).ok()?)
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let proc = PathBuf::from(format!("/proc/{}", child.id()));
    let (mut memory, mut seconds_of_cores) = (0.0_f64, Vec::new());
    while child.try_wait().ok()?.is_none() {
        if let (Some(now), Some(time)) = (resident(&proc), processor_time(&proc, OWN)) {
            memory = memory.max(now);
            seconds_of_cores.push(time);
        }
        std::thread::sleep(LOOK);
    }
    let mut envelope: serde_json::Value = serde_json::from_slice(&std::fs::read(&output).ok()?).ok()?;
    if envelope["status"] != "passed" {
        eprintln!("1,000 live claims and pods: {}", envelope["error"]);
        return None;
    }
    let volumes = envelope["data"]["timeline"]["volumes"].take();
    let starts = |phase: &str| -> Vec<f64> {
        let rows = volumes.as_array().into_iter().flatten().filter_map(|volume| volume["rows"].as_array()).flatten();
        rows.filter(|row| row["phase"] == phase).filter_map(|row| row["startMs"].as_f64()).collect()
    };
    let running = starts("running");
    assert_eq!(running.len(), 1_000, "each pod runs");
    let began = starts("claim created").into_iter().reduce(f64::min)?;
    let looks = seconds_of_cores.len();
    let idle = seconds_of_cores.get(looks.checked_sub(IDLE + END)?..looks - END)?;
    Some(ManyLive {
        seconds: (running.into_iter().reduce(f64::max)? - began) / 1e3,
        memory,
        idle_cores: (idle.last()? - idle.first()?) / (LOOK * (IDLE as u32 - 1)).as_secs_f64(),
    })
}

/// Returns the milliseconds from the creation of the pod to `running`, in a live run with loop devices and ext4.
fn first_volume_live(time_scale: &str) -> Option<f64> {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/first-volume.yaml");
    let data = json_output(&["run", scenario.to_str()?, "--live", "--backend", "loop", "--time-scale", time_scale])?;
    let rows = data["timeline"]["volumes"][0]["rows"].as_array()?;
    // The phase `scheduled` begins with the creation of the pod.
    let start = |phase: &str| rows.iter().find(|r| r["phase"] == phase).and_then(|r| r["startMs"].as_f64());
    Some(start("running")? - start("scheduled")?)
}

/// Returns the milliseconds from the start of a simulated cluster in a test, to its first applied object and to a
/// running pod.
fn in_a_test() -> Option<(f64, f64)> {
    const CLAIM: &str = include_str!("../../docs/pod-with-claim.yaml");
    let started = Instant::now();
    let cluster = Cluster::simulated().start().ok()?;
    cluster.apply(CLAIM).ok()?;
    let first = millis(started);
    cluster.wait_for("pod/web", "self.status.phase == 'Running'").ok()?;
    Some((first, millis(started)))
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // On SIGTERM it removes its directory.
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if pid.is_none_or(|pid| kill_process(pid, Signal::TERM).is_err()) {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

/// Returns the milliseconds until all endpoints of `mooring up` answer, and the resident memory in MB two seconds
/// later.
fn up() -> Option<(f64, f64)> {
    let home = tempfile::tempdir().ok()?;
    let ready: PathBuf = home.path().join("ready.json");
    let started = Instant::now();
    let child = Command::new(mooring())
        .args(["up", "--ec2-listen", "127.0.0.1:0", "--kubernetes-listen", "127.0.0.1:0"])
        .args(["--imds-listen", "127.0.0.1:0", "--ready-file"])
        .arg(&ready)
        .env("HOME", home.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let child = Killed(child);
    while !ready.exists() {
        if started.elapsed() > Duration::from_secs(10) {
            return None;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    let took = millis(started);
    std::thread::sleep(Duration::from_secs(2));
    let memory = resident(Path::new(&format!("/proc/{}", child.0.id())))?;
    Some((took, memory))
}

/// Returns the milliseconds until the server of moto answers; none if it is not installed.
fn moto() -> Option<f64> {
    let started = Instant::now();
    let child =
        Command::new("moto_server").args(["-p", "15055"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let _child = Killed(child);
    while std::net::TcpStream::connect("127.0.0.1:15055").is_err() {
        if started.elapsed() > Duration::from_secs(30) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Some(millis(started))
}

/// Returns the number before `unit` in a text such as `10 points in 2s, 5.0 points per second`.
fn before(text: &str, unit: &str) -> Option<f64> {
    text.split_once(unit)?.0.split_whitespace().next_back()?.parse().ok()
}

/// Returns the points per second of a sweep of the migration by branches with one job, and its speed-up over runs from
/// the start.
fn swept() -> Option<(f64, f64)> {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/migration.yaml");
    let mut sweep = Command::new(mooring());
    let output = sweep.arg("sweep").arg(scenario).args(["--points", "400", "--jobs", "1"]).output().ok()?;
    let json_output = String::from_utf8(output.stderr).ok()?;
    Some((before(&json_output, " points per second")?, before(&json_output, " times as many")?))
}

/// Standard profile: three zones, six nodes, twenty volumes that move once, ten minutes.
const STANDARD: &str = "name: standard
latency: aws
nodes:
  - {name: node-a, zone: us-east-1a}
  - {name: node-b, zone: us-east-1a}
  - {name: node-c, zone: us-east-1b}
  - {name: node-d, zone: us-east-1b}
  - {name: node-e, zone: us-east-1c}
  - {name: node-f, zone: us-east-1c}
steps:
  - repeat: {count: 20, as: i, do: [{claim: {name: 'data-${i}'}}, {pod: {name: 'web-${i}', claim: 'data-${i}'}}]}
  - repeat: {count: 20, as: i, do: [{wait: {object: 'pod/web-${i}', is: Running, within: 3m}}]}
  - sleep: 2m
  - repeat: {count: 20, as: i, do: [{delete: {object: 'pod/web-${i}'}}, {pod: {name: 'next-${i}', claim: 'data-${i}'}}]}
  - repeat: {count: 20, as: i, do: [{wait: {object: 'pod/next-${i}', is: Running, within: 3m}}]}
  - sleep: 6m
  - expect: {elapsed: {at-least: 9m, at-most: 11m}}
teardown: false
";

/// Returns the runs per second of the standard profile with one job.
fn standard(home: &Path) -> Option<f64> {
    let path = home.join("standard.yaml");
    std::fs::write(&path, STANDARD).ok()?;
    let data = json_output(&["run", path.to_str()?, "--seeds", "1..40", "--jobs", "1"])?;
    data["summary"]["runsPerSecond"].as_f64()
}

/// Returns the milliseconds per step back from about the 10,000th event, in the debugger.
fn steps_back(scenario: &Path) -> Option<Sample> {
    let mut child = Command::new(mooring())
        .arg("replay")
        .arg(scenario)
        .arg("--step")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let (mut orders, mut json_output) = (child.stdin.take()?, BufReader::new(child.stdout.take()?).lines());
    let _child = Killed(child);
    let mut tell = |line: &str| -> Option<String> {
        writeln!(orders, "{line}").and_then(|()| orders.flush()).ok()?;
        json_output.next()?.ok()
    };
    // The debugger prints the first event before it reads a command, so answers are one line behind.
    let first = tell("go #10000")?;
    let place = tell("back")?;
    if !first.contains("#1 ") || !place.contains("#10000 ") {
        eprintln!("the debugger does not come to the 10,000th event: {place}");
        return None;
    }
    Sample::of(50, || {
        let started = Instant::now();
        tell("back").map(|_| millis(started))
    })
}

/// Returns the trials per second of `mooring perturb` with this program's attacher, as the command reports them. They
/// include the runs without a fault and the start of the command.
fn perturbed() -> Option<f64> {
    const TRIALS: &str = "40";
    let program = mooring();
    let output = Command::new(&program)
        .args(["perturb", "--replaces", "csi-attacher", "--only", "crash-after,lost-reply,timeout,conflict,gone"])
        .args(["--trials", TRIALS, "--again", "0", "--output", "json", "--"])
        .arg(&program)
        .args(["component", "controllers", "--only", "csi-attacher", "--kubernetes", "$(MOORING_KUBERNETES_HTTP)"])
        .args(["--csi", "$(CSI_ENDPOINT)", "--time-scale", "60"])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let figure_text: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let trials = figure_text["data"]["trials"].as_array()?.len() as f64;
    Some(trials / (figure_text["data"]["wallMs"].as_f64()? / 1e3))
}

fn main() {
    // `cargo test --benches` runs this too, with another profile; it measures nothing.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    println!("{}", mooring().display());
    report("this machine: a step in 64 MiB, to compare hours by", "ns", None, Sample::of(5, || Some(machine())), None);
    let home = tempfile::tempdir().expect("there is room for two scenarios");
    let crash_file = |nodes: usize, volumes: usize| {
        let path = home.path().join(format!("{nodes}x{volumes}.yaml"));
        std::fs::write(&path, large::crash_of_many(nodes, volumes)).expect("there is room for two scenarios");
        path
    };
    let small = crash_file(5, 20);
    report(
        "node-crash-short simulated, 5 nodes × 20 volumes",
        "ms",
        Some(Bound::AtMost(60.0)),
        Sample::of(11, || simulated(&small)),
        Some(("toy prototype", 25.0)),
    );
    let large = crash_file(100, 200);
    report(
        "node-crash-short simulated, 100 nodes × 200 volumes",
        "ms",
        Some(Bound::AtMost(700.0)),
        Sample::of(5, || simulated(&large)),
        Some(("toy prototype", 270.0)),
    );
    let waits = |name: &str, lists: bool| {
        let path = home.path().join(name);
        std::fs::write(&path, large::waits_for_many(30, 400, lists)).expect("there is room for two scenarios");
        path
    };
    let (lists, single) = (waits("lists.yaml", true), waits("single.yaml", false));
    report(
        "CPU of list waits beside single waits, 30 × 400 volumes",
        "times",
        Some(Bound::AtMost(1.2)),
        Sample::of(3, || lists_beside_single_waits(&lists, &single)),
        None,
    );
    for (nodes, volumes, bound, runs) in [(50, 1_000, 2.0, 3), (500, 10_000, 25.0, 1)] {
        let path = home.path().join(format!("{volumes}.yaml"));
        std::fs::write(&path, large::starts_of_many(nodes, volumes)).expect("there is room for two scenarios");
        report(
            &format!("{volumes} claims and pods until they run, simulated"),
            "s",
            Some(Bound::AtMost(bound)),
            Sample::of(runs, || simulated(&path).map(|ms| ms / 1e3)),
            None,
        );
    }
    report(
        "node-crash-short, seeds 1 to 100, 2 jobs, per job",
        "runs/s",
        Some(Bound::AtLeast(25.0)),
        Sample::of(3, || runs_per_second("node-crash-short.yaml").map(|both| both / 2.0)),
        None,
    );
    report(
        "standard profile: 6 nodes, 20 volumes, 10 minutes, one job",
        "runs/s",
        Some(Bound::AtLeast(10.0)),
        Sample::of(3, || standard(home.path())),
        None,
    );
    let sweeps: Vec<(f64, f64)> = (0..3).filter_map(|_| swept()).collect();
    let of_sweeps = |pick: fn(&(f64, f64)) -> f64| {
        let mut all = sweeps.iter().map(pick);
        Sample::of(sweeps.len(), || all.next())
    };
    report(
        "sweep of the migration by branches, one job",
        "points/s",
        Some(Bound::AtLeast(300.0)),
        of_sweeps(|sweep| sweep.0),
        None,
    );
    report("the same beside runs from the start of each", "times", None, of_sweeps(|sweep| sweep.1), None);
    report("a step back at 10,000 events, in replay --step", "ms", Some(Bound::AtMost(50.0)), steps_back(&large), None);
    report(
        "first-volume live, loop + ext4, time-scale 100",
        "ms",
        Some(Bound::AtMost(300.0)),
        Sample::of(7, || first_volume_live("100")),
        None,
    );
    report("first-volume live, loop + ext4, unscaled", "ms", None, Sample::of(3, || first_volume_live("1")), None);
    let many: Vec<ManyLive> = (0..3).filter_map(|_| many_live(home.path())).collect();
    let of_many = |pick: fn(&ManyLive) -> f64| {
        let mut all = many.iter().map(pick);
        Sample::of(many.len(), || all.next())
    };
    let bound = |most| Some(Bound::AtMost(most));
    report("1,000 claims and pods on 100 live nodes, time-scale 10", "s", bound(15.0), of_many(|m| m.seconds), None);
    report("the same, largest resident memory", "MB", bound(200.0), of_many(|m| m.memory), None);
    report("the same, idle again", "cores", bound(0.1), of_many(|m| m.idle_cores), None);
    let tests: Vec<(f64, f64)> = (0..21).filter_map(|_| in_a_test()).collect();
    let of_tests = |pick: fn(&(f64, f64)) -> f64| {
        let mut all = tests.iter().map(pick);
        Sample::of(tests.len(), || all.next())
    };
    let bound = Some(Bound::AtMost(10.0));
    report("a simulated cluster in a test, to its first object", "ms", bound, of_tests(|test| test.0), None);
    report("the same, to a running pod", "ms", None, of_tests(|test| test.1), None);
    report(
        "perturb of our attacher as a program, two jobs",
        "trials/s",
        Some(Bound::AtLeast(1.6)),
        Sample::of(3, perturbed),
        None,
    );
    let ups: Vec<(f64, f64)> = (0..7).filter_map(|_| up()).collect();
    let peer = Sample::of(3, moto).map(|s| s.median());
    let pick = |f: fn(&(f64, f64)) -> f64| {
        Sample::of(1, || None).or_else(|| {
            let mut all: Vec<f64> = ups.iter().map(f).collect();
            all.sort_by(f64::total_cmp);
            (!all.is_empty()).then_some(Sample(all))
        })
    };
    report(
        "mooring up until all endpoints answer",
        "ms",
        Some(Bound::AtMost(50.0)),
        pick(|u| u.0),
        peer.map(|p| ("moto_server", p)),
    );
    report("mooring up, resident memory when idle", "MB", Some(Bound::AtMost(25.0)), pick(|u| u.1), None);
}
