//! Figures of the server as a process, beside those of a real one: `cargo bench -p fake-apiserver --bench figures`
//! prints a line for each. Words after `--` choose parts: `start`, `envtest`, `objects`, `pods`, `watch`, `volumes`,
//! `steady`, `memory`.
//!
//! The server is a separate process and speaks HTTP/1.1 over TLS; the clients run on one thread. The real server's
//! figures were measured in the same way on two cores (kube-apiserver 1.36.2 and etcd 3.6, with fsync). This server
//! writes nothing to disk, so its writes lack the durability that takes most of a real server's time.

#![expect(clippy::disallowed_methods, reason = "a bench measures real time")]
#![expect(clippy::unwrap_used, reason = "what goes wrong in a bench ends it")]

mod client;
mod echo;
mod envtest;
mod load;
mod memory;
mod pods;
mod server;
mod watch;

use std::time::{Duration, Instant};

use server::Server;

/// A figure: its name, its bound, and the figure of a real server.
struct Figure<'a> {
    what: &'a str,
    found: f64,
    unit: &'a str,
    bound: Bound,
    real: Option<f64>,
}

/// Bound of a figure.
#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
    None,
}

impl Figure<'_> {
    fn print(&self) {
        let Self { what, found, unit, bound, real } = self;
        let shown = |n: f64| if n.abs() < 100.0 { format!("{n:.1}") } else { format!("{n:.0}") };
        let (bound, held) = match bound {
            Bound::AtMost(most) => (format!("at most {}", shown(*most)), found <= most),
            Bound::AtLeast(least) => (format!("at least {}", shown(*least)), found >= least),
            Bound::None => (String::new(), true),
        };
        let real = real.map_or(String::new(), |real| format!("real {} (x {:.2})", shown(real), found / real));
        let verdict = if held { "" } else { "MISSED" };
        println!("{what:<52} {:>9} {unit:<9} {bound:<16} {real:<24} {verdict}", shown(*found));
    }
}

fn main() {
    if let Some(ready) = std::env::var_os(echo::READY) {
        return echo::serve(ready.as_ref());
    }
    let chosen: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    // `cargo test --benches` and `cargo bench -- --list` run this, too.
    if std::env::args().any(|a| a == "--list" || a == "--test") {
        return;
    }
    let wanted = |part: &str| chosen.is_empty() || chosen.iter().any(|c| c == part);
    server::open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if wanted("start") {
            start().await;
        }
        if wanted("envtest") {
            envtest::run().await;
        }
        if wanted("objects") {
            load::objects().await;
        }
        if wanted("pods") {
            pods::run().await;
        }
        if wanted("watch") {
            watch::run().await;
        }
        if wanted("volumes") {
            load::volumes().await;
        }
        if wanted("steady") {
            pods::steady().await;
        }
        if wanted("memory") {
            memory::run().await;
        }
    });
}

/// Measures the time until a request is answered, and the memory of an idle server.
async fn start() {
    let mut times = Vec::new();
    let mut resident = 0.0;
    for _ in 0..11 {
        let begun = Instant::now();
        let server = Server::start();
        let mut connection = server.connect().await;
        assert_eq!(connection.get("/readyz").await.0, 200);
        times.push(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(200)).await;
        resident = server.resident_mib();
    }
    let found = median(&mut times).as_secs_f64() * 1e3;
    let bound = Bound::AtMost(30.0);
    Figure { what: "start to an answered request", found, unit: "ms", bound, real: Some(2400.0) }.print();
    let bound = Bound::AtMost(15.0);
    Figure { what: "resident, idle", found: resident, unit: "MiB", bound, real: Some(295.0) }.print();
}

/// Prints the processor time of the server per request or event, which does not depend on other load of the machine.
fn print_cost(used: Duration, count: usize, of: &str) {
    let found = used.as_secs_f64() * 1e6 / count as f64;
    let what = format!("  processor time of the server for each {of}");
    Figure { what: &what, found, unit: "us", bound: Bound::None, real: None }.print();
}

fn median<T: Ord + Copy>(values: &mut [T]) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Returns the quantile `share` of the values.
fn quantile<T: Ord + Copy>(values: &mut [T], share: f64) -> T {
    values.sort_unstable();
    values[((values.len() - 1) as f64 * share) as usize]
}
