//! Throughput of requests.

use std::future::Future;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::Connection;
use super::echo;
use super::server::Server;
use super::{Bound, Figure, median, quantile};

/// Number of concurrent connections.
pub const CONNECTIONS: usize = 16;
/// Number of objects per connection.
pub const OBJECTS: usize = 1000;
const RUNS: usize = 3;
const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";

/// Measurements of one part of a run: total time, time of each request, and processor time of the server.
struct Took {
    whole: Duration,
    each: Vec<Duration>,
    used: Duration,
}

/// Runs `work` for each object of every connection. Returns the connections and the times.
pub async fn all<F, W>(connections: Vec<Connection>, each: usize, work: W) -> (Vec<Connection>, Duration, Vec<Duration>)
where
    F: Future<Output = Connection>,
    W: Fn(Connection, usize) -> F + Clone + 'static,
{
    let tasks = tokio::task::LocalSet::new();
    let begun = Instant::now();
    let handles: Vec<_> = connections
        .into_iter()
        .enumerate()
        .map(|(c, mut connection)| {
            let work = work.clone();
            tasks.spawn_local(async move {
                let mut took = Vec::with_capacity(each);
                for i in 0..each {
                    let begun = Instant::now();
                    connection = work(connection, c * each + i).await;
                    took.push(begun.elapsed());
                }
                (connection, took)
            })
        })
        .collect();
    let (mut connections, mut times) = (Vec::new(), Vec::new());
    tasks
        .run_until(async {
            for handle in handles {
                let (connection, took) = handle.await.unwrap();
                connections.push(connection);
                times.extend(took);
            }
        })
        .await;
    (connections, begun.elapsed(), times)
}

/// Returns a ConfigMap of one KiB.
pub fn config(name: &str, step: u32) -> String {
    let filler = "x".repeat(700);
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "bench", "tier": "one"}},
        "data": {"step": step.to_string(), "filler": filler}})
    .to_string()
}

/// Measures create, get, update, merge patch and delete of objects of one KiB.
pub async fn objects() {
    const PARTS: [(&str, f64, Bound, f64); 5] = [
        ("create", 1109.0, Bound::AtLeast(12_000.0), 201.0),
        ("get", 3141.0, Bound::AtLeast(30_000.0), 200.0),
        ("update", 884.0, Bound::AtLeast(12_000.0), 200.0),
        ("merge-patch", 821.0, Bound::AtLeast(12_000.0), 200.0),
        ("delete", 1179.0, Bound::None, 200.0),
    ];
    let mut found: Vec<Vec<Took>> = PARTS.iter().map(|_| Vec::new()).collect();
    // Measured in alternation with the server, under the same conditions.
    let mut echoes = Vec::new();
    for _ in 0..RUNS {
        let server = Server::start();
        let mut connections = server.connections(CONNECTIONS).await;
        for (i, (part, ..)) in PARTS.iter().enumerate() {
            let part = *part;
            // A GET is so short that more of them are needed.
            let rounds = if part == "get" { 3 } else { 1 };
            let before = server.cpu();
            let (back, whole, each) = all(connections, OBJECTS * rounds, move |mut connection, i| async move {
                let i = i % (OBJECTS * CONNECTIONS);
                let name = format!("c-{i:06}");
                let path = format!("{CONFIGS}/{name}");
                let (code, _) = match part {
                    "create" => connection.json("POST", CONFIGS, &config(&name, 0)).await,
                    "get" => connection.get(&path).await,
                    "update" => connection.json("PUT", &path, &config(&name, 1)).await,
                    "merge-patch" => {
                        let patch = r#"{"data":{"step":"2"}}"#;
                        connection.send("PATCH", &path, "application/merge-patch+json", patch).await
                    }
                    _ => connection.json("DELETE", &path, "").await,
                };
                assert!(code == 200 || code == 201, "{part}: {code}");
                connection
            })
            .await;
            connections = back;
            found[i].push(Took { whole, each, used: server.cpu() - before });
        }
        echoes.push(echo::rate().await as u64);
    }
    let echo = median(&mut echoes) as f64;
    let what = format!("a bare axum echo of 1 KiB, {CONNECTIONS} connections");
    Figure { what: &what, found: echo, unit: "/s", bound: Bound::None, real: None }.print();
    for ((part, real, bound, _), mut took) in PARTS.into_iter().zip(found) {
        let mut rates: Vec<u64> = took.iter().map(|t| (t.each.len() as f64 / t.whole.as_secs_f64()) as u64).collect();
        let rate = median(&mut rates) as f64;
        let what = format!("{part} of 1 KiB objects, {CONNECTIONS} connections");
        Figure { what: &what, found: rate, unit: "/s", bound, real: Some(real) }.print();
        let aim = if matches!(part, "create" | "update" | "merge-patch") { Bound::AtLeast(0.5) } else { Bound::None };
        Figure { what: "  of the echo's rate", found: rate / echo, unit: "", bound: aim, real: None }.print();
        let used: Duration = took.iter().map(|t| t.used).sum();
        super::print_cost(used, took.iter().map(|t| t.each.len()).sum(), part);
        let mut tails: Vec<Duration> = took.iter_mut().map(|t| quantile(&mut t.each, 0.99)).collect();
        let found = median(&mut tails).as_secs_f64() * 1e3;
        let bound = if part == "delete" { Bound::None } else { Bound::AtMost(5.0) };
        Figure { what: "  99 of 100 within", found, unit: "ms", bound, real: None }.print();
    }
}

/// Measures the life of a VolumeAttachment, as controller and attacher write it: create, finalizer, status, delete,
/// release.
pub async fn volumes() {
    const PATH: &str = "/apis/storage.k8s.io/v1/volumeattachments";
    const MERGE: &str = "application/merge-patch+json";
    const LIVES: usize = 400;
    let mut rates = Vec::new();
    for _ in 0..RUNS {
        let server = Server::start();
        let connections = server.connections(CONNECTIONS).await;
        let (_, whole, lives) = all(connections, LIVES, |mut connection, i| async move {
            let body = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
                "metadata": {"name": format!("csi-{i:064}")},
                "spec": {"attacher": "ebs.csi.aws.com", "nodeName": format!("node-{}", i % 50),
                    "source": {"persistentVolumeName": format!("pv-{i}")}}});
            let path = format!("{PATH}/csi-{i:064}");
            let mut codes = [0; 5];
            codes[0] = connection.json("POST", PATH, &body.to_string()).await.0;
            let held = r#"{"metadata":{"finalizers":["external-attacher/ebs-csi-aws-com"]}}"#;
            codes[1] = connection.send("PATCH", &path, MERGE, held).await.0;
            let status = r#"{"status":{"attached":true,"attachmentMetadata":{"devicePath":"/dev/xvdaa"}}}"#;
            codes[2] = connection.send("PATCH", &format!("{path}/status"), MERGE, status).await.0;
            codes[3] = connection.json("DELETE", &path, "").await.0;
            codes[4] = connection.send("PATCH", &path, MERGE, r#"{"metadata":{"finalizers":null}}"#).await.0;
            assert_eq!(codes, [201, 200, 200, 200, 200]);
            connection
        })
        .await;
        rates.push((lives.len() as f64 / whole.as_secs_f64()) as u64);
    }
    let found = median(&mut rates) as f64;
    let what = "VolumeAttachment lives of five writes, 16 connections";
    Figure { what, found, unit: "/s", bound: Bound::AtLeast(2400.0), real: Some(189.0) }.print();
}
