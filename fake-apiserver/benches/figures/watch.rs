//! Watch fan-out: every watcher receives every event once and in order; measures the delay.

use std::time::{Duration, Instant};

use super::client::revision;
use super::load::config;
use super::server::Server;
use super::{Bound, Figure, quantile};

const UPDATES: usize = 500;
const PATH: &str = "/api/v1/namespaces/default/configmaps/c";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1";

/// Result of one run.
struct Spread {
    /// Events per second, from the first request to the last receipt.
    rate: f64,
    /// Time from the server's answer to the receipt of each event.
    receipts: Vec<Duration>,
    /// Processor time of the server.
    used: Duration,
}

/// Measures one, a hundred and a thousand watchers.
pub async fn run() {
    for (watchers, bound, tail, real, real_tail) in [
        (1, Bound::None, Bound::None, 695.0, 4.7),
        (100, Bound::None, Bound::None, 55_831.0, 9.0),
        (1000, Bound::AtLeast(300_000.0), Bound::AtMost(40.0), 97_603.0, 42.0),
    ] {
        // The maximum rate of events first, then the delay at nine tenths of it.
        let (mut rates, mut used) = (Vec::new(), Duration::ZERO);
        for _ in 0..3 {
            let spread = spread(watchers, None).await;
            rates.push(spread.rate as u64);
            used += spread.used;
        }
        let most = super::median(&mut rates) as f64;
        let what = format!("{watchers} watchers x {UPDATES} updates of 1 KiB");
        Figure { what: &what, found: most, unit: "events/s", bound, real: Some(real) }.print();
        super::print_cost(used, 3 * watchers * UPDATES, "event");
        let pace = Duration::from_secs_f64(watchers as f64 / (most * 0.9));
        let mut paced = spread(watchers, Some(pace)).await;
        let found = quantile(&mut paced.receipts, 0.99).as_secs_f64() * 1e3;
        let what = format!("  99 of 100 received within, at {:.0} events/s", paced.rate);
        Figure { what: &what, found, unit: "ms", bound: tail, real: Some(real_tail) }.print();
    }
}

async fn spread(watchers: usize, pace: Option<Duration>) -> Spread {
    let server = Server::start();
    let mut writer = server.connect().await;
    let (code, made) = writer.json("POST", "/api/v1/namespaces/default/configmaps", &config("c", 0)).await;
    assert_eq!(code, 201);
    let from = revision(&made);
    let tasks = tokio::task::LocalSet::new();
    let mut streams = Vec::new();
    for mut connection in server.connections(watchers).await {
        connection.watch(&format!("{WATCH}&resourceVersion={from}")).await;
        streams.push(tasks.spawn_local(async move {
            let mut got: Vec<(u64, Instant)> = Vec::with_capacity(UPDATES);
            let mut revisions = Vec::new();
            while got.len() < UPDATES {
                connection.events(&mut revisions).await;
                let now = Instant::now();
                got.extend(revisions.drain(..).map(|revision| (revision, now)));
            }
            got
        }));
    }
    tasks
        .run_until(async {
            let (begun, before) = (Instant::now(), server.cpu());
            let mut answered = Vec::with_capacity(UPDATES);
            for i in 0..UPDATES {
                let (code, reported) = writer.json("PUT", PATH, &config("c", i as u32 + 1)).await;
                assert_eq!(code, 200);
                answered.push((revision(&reported), Instant::now()));
                if let Some(pace) = pace {
                    tokio::time::sleep_until((begun + pace * (i as u32 + 1)).into()).await;
                }
            }
            let (mut receipts, mut last) = (Vec::with_capacity(watchers * UPDATES), begun);
            for stream in streams {
                let got = stream.await.unwrap();
                assert_eq!(got.len(), UPDATES);
                for ((revision, at), (written, reported)) in got.into_iter().zip(&answered) {
                    assert_eq!(revision, *written, "an event is missing, twice there, or out of order");
                    receipts.push(at.saturating_duration_since(*reported));
                    last = last.max(at);
                }
            }
            let rate = (watchers * UPDATES) as f64 / (last - begun).as_secs_f64();
            Spread { rate, receipts, used: server.cpu() - before }
        })
        .await
}
