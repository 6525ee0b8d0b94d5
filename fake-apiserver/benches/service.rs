//! Cost of the server in a simulation: 100 nodes that renew leases, patch their status and watch their own pods, and
//! the informers of the control loops, over the HTTP service without links.
//!
//! `cargo bench -p fake-apiserver` prints one line for each part.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fake_apiserver::{Apiserver, Config};
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use substrate::body::{HttpService, call, collect, empty, full};
use substrate::world::{Options, simulate};
use substrate::{Process, Seed};

const NODES: usize = 100;
const ROUNDS: usize = 37;

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the machine's clock")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

async fn send(service: &HttpService, method: Method, uri: String, media: &str, body: Value) -> u16 {
    let request =
        Request::builder().method(method).uri(uri).header("content-type", media).header("user-agent", "bench");
    let request = request.body(full(body.to_string())).expect("a well-formed request");
    let response = call(service.clone(), request).await.expect("an answer");
    let code = response.status().as_u16();
    collect(response.into_body(), 1 << 20).await.expect("a body");
    code
}

async fn watch(service: HttpService, uri: String, lines: Arc<AtomicU64>) {
    let request = Request::get(uri).body(empty()).expect("a well-formed request");
    let mut body = call(service, request).await.expect("a stream").into_body();
    while let Some(Ok(frame)) = body.frame().await {
        let data = frame.into_data().unwrap_or_default();
        lines.fetch_add(data.iter().filter(|b| **b == b'\n').count() as u64, Ordering::Relaxed);
    }
}

fn main() {
    day(false);
    println!("and with the managers of fields, and what Go writes of fields that are not set:");
    day(true);
}

fn day(track_managers: bool) {
    simulate(Options::default(), move |world| async move {
        let apiserver = Apiserver::new(&Seed::root(1), Config { track_managers, ..Config::default() });
        let slot: Arc<Mutex<Option<HttpService>>> = Arc::default();
        let given = slot.clone();
        let process = Process::start(&world, "fake-apiserver", move |ctx| {
            *given.lock() = Some(apiserver.start(&ctx));
            async move { ctx.downed().await }
        });
        tokio::task::yield_now().await;
        let service = slot.lock().clone().expect("the process has started");
        let lines: Arc<AtomicU64> = Arc::default();
        let informers = ["pods", "nodes", "persistentvolumes", "persistentvolumeclaims"];
        let mut watches: Vec<String> = (0..6).flat_map(|_| informers.map(|i| format!("/api/v1/{i}"))).collect();
        watches.extend((0..6).map(|_| "/apis/storage.k8s.io/v1/volumeattachments".to_owned()));
        watches.push("/apis/coordination.k8s.io/v1/leases".to_owned());
        for n in 0..NODES {
            watches.push(format!("/api/v1/pods?fieldSelector=spec.nodeName%3Dn{n}"));
            watches.push(format!("/api/v1/nodes?fieldSelector=metadata.name%3Dn{n}"));
            watches.push("/apis/storage.k8s.io/v1/csidrivers".to_owned());
        }
        let ctx = process.ctx().expect("the process runs");
        for uri in watches {
            let mark = if uri.contains('?') { '&' } else { '?' };
            ctx.spawn(watch(service.clone(), format!("{uri}{mark}watch=1&allowWatchBookmarks=1"), lines.clone()));
        }
        tokio::task::yield_now().await;
        let (start, mut requests) = (clock(), 0u64);
        for n in 0..NODES {
            let node = json!({"metadata": {"name": format!("n{n}")}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
            assert_eq!(send(&service, Method::POST, "/api/v1/nodes".into(), "application/json", node).await, 201);
            let lease = json!({"metadata": {"name": format!("n{n}")}, "spec": {"holderIdentity": format!("n{n}")}});
            let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
            assert_eq!(send(&service, Method::POST, leases.into(), "application/json", lease).await, 201);
            requests += 2;
        }
        report("nodes and leases created", start, requests, &lines);
        let (start, mut requests) = (clock(), 0u64);
        for round in 0..ROUNDS {
            for n in 0..NODES {
                let time = format!("2026-01-01T00:{round:02}:00.000000Z");
                let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n{n}");
                let patch = json!({"spec": {"renewTime": time}});
                assert_eq!(send(&service, Method::PATCH, lease, "application/merge-patch+json", patch).await, 200);
                let patch = json!({"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": time}]}});
                let uri = format!("/api/v1/nodes/n{n}/status");
                assert_eq!(
                    send(&service, Method::PATCH, uri, "application/strategic-merge-patch+json", patch).await,
                    200
                );
                requests += 2;
            }
            tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        }
        report("leases renewed, statuses patched", start, requests, &lines);
        let (start, mut requests) = (clock(), 0u64);
        for i in 0..2 * NODES {
            requests += volume(&service, i).await;
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        report("volumes and pods, their whole way", start, requests, &lines);
    });
}

/// Sends the writes that bring one volume to one pod, about as the control loops do.
async fn volume(service: &HttpService, i: usize) -> u64 {
    let (pvcs, pods) = ("/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/namespaces/default/pods");
    let (pvs, vas) = ("/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/volumeattachments");
    let (json_type, merge) = ("application/json", "application/merge-patch+json");
    let claim = json!({"metadata": {"name": format!("c{i}")}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let pod = json!({"metadata": {"name": format!("p{i}")}, "spec": {"containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": format!("c{i}")}}]}});
    let volume = json!({"metadata": {"name": format!("v{i}")}, "spec": {"accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"}, "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": format!("vol-{i}")}}});
    let attachment = json!({"metadata": {"name": format!("a{i}")}, "spec": {"attacher": "ebs.csi.aws.com",
        "nodeName": "n0", "source": {"persistentVolumeName": format!("v{i}")}}});
    let binding = json!({"target": {"kind": "Node", "name": format!("n{}", i % NODES)}});
    let note = |n: u32| json!({"metadata": {"annotations": {"step": n.to_string()}}});
    let mut requests = vec![
        (Method::POST, pvcs.to_owned(), json_type, claim),
        (Method::POST, pods.to_owned(), json_type, pod),
        (Method::POST, pvs.to_owned(), json_type, volume),
        (Method::POST, format!("{pods}/p{i}/binding"), json_type, binding),
        (Method::POST, vas.to_owned(), json_type, attachment),
    ];
    for n in 0..4 {
        requests.push((Method::PATCH, format!("{pvcs}/c{i}"), merge, note(n)));
        requests.push((Method::PATCH, format!("{pvs}/v{i}"), merge, note(n)));
        requests.push((Method::PATCH, format!("{pods}/p{i}"), merge, note(n)));
        requests.push((Method::PATCH, format!("{vas}/a{i}"), merge, note(n)));
    }
    let count = requests.len() as u64;
    for (method, uri, media, body) in requests {
        let code = send(service, method, uri.clone(), media, body).await;
        assert!(code < 300, "{uri}: {code}");
    }
    count
}

fn report(what: &str, start: std::time::Instant, requests: u64, lines: &AtomicU64) {
    let took = start.elapsed();
    println!(
        "{what}: {requests} requests, {} watch lines, {:.1} ms, {:.1} µs a request",
        lines.swap(0, Ordering::Relaxed),
        took.as_secs_f64() * 1e3,
        took.as_secs_f64() * 1e6 / requests as f64,
    );
}
