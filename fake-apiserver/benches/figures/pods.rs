//! Many pods: memory, time of lists, and the cost of a large cluster.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::Connection;
use super::load::all;
use super::server::Server;
use super::{Bound, Figure, median};

const PODS: usize = 10_000;
/// URL of the pods.
pub const PATH: &str = "/api/v1/namespaces/default/pods";

/// Returns a pod of about 4 KiB, on one of `nodes` nodes, with one of fifty application labels.
fn pod(i: usize, nodes: usize) -> Value {
    let environment: Vec<Value> = (0..7)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("a value that says something, {i}-{n}")}))
        .collect();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10,
        "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{i:06}"), "labels": {"app": format!("app-{}", i % 50), "pod-template-hash": "5d4f8c7b9"},
            "annotations": {"example.com/revision": "1", "example.com/checksum": "0123456789abcdef0123456789abcdef"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f8c7b9",
                "uid": "1f9e5a3c-8c70-4f5e-9b7e-0d3f6a2b1c4d", "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"nodeName": format!("node-{}", i % nodes),
            "containers": [{"name": "main", "image": "registry.example.com/team/web:1.2.3", "env": environment,
                "ports": [{"containerPort": 8080, "name": "http"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
                "livenessProbe": probe, "readinessProbe": probe,
                "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{i}")}}]}})
}

/// Creates this number of pods.
pub async fn fill(server: &Server, pods: usize, nodes: usize) -> Duration {
    let connections = server.connections(16).await;
    let (_, took, _) = all(connections, pods / 16, move |mut connection, i| async move {
        let (code, reported) = connection.json("POST", PATH, &pod(i, nodes).to_string()).await;
        assert_eq!(code, 201, "{}", String::from_utf8_lossy(&reported));
        connection
    })
    .await;
    took
}

async fn timed(connection: &mut Connection, path: &str) -> (f64, usize) {
    let (mut times, mut length) = (Vec::new(), 0);
    for _ in 0..21 {
        let begun = Instant::now();
        let (code, body) = connection.get(path).await;
        times.push(begun.elapsed());
        assert_eq!(code, 200);
        length = body.len();
    }
    (median(&mut times).as_secs_f64() * 1e3, length)
}

/// Measures memory and lists of ten thousand pods.
pub async fn run() {
    let server = Server::start();
    let took = fill(&server, PODS, 100).await;
    let found = PODS as f64 / took.as_secs_f64();
    let what = "create of 10,000 pods, 16 connections";
    Figure { what, found, unit: "/s", bound: Bound::None, real: Some(688.0) }.print();
    let bound = Bound::AtMost(120.0);
    let found = server.resident_mib();
    Figure { what: "resident with 10,000 pods", found, unit: "MiB", bound, real: Some(756.0) }.print();
    let mut connection = server.connect().await;
    for (what, query, bound, real) in [
        ("LIST of 10,000 pods", "", 60.0, 544.0),
        ("LIST by nodeName, 100 of 10,000", "?fieldSelector=spec.nodeName%3Dnode-7", 1.0, 8.3),
        ("LIST by label, 200 of 10,000", "?labelSelector=app%3Dapp-7", 3.0, 29.7),
    ] {
        let (found, length) = timed(&mut connection, &format!("{PATH}{query}")).await;
        let what = format!("{what} ({:.1} MB)", length as f64 / 1e6);
        Figure { what: &what, found, unit: "ms", bound: Bound::AtMost(bound), real: Some(real) }.print();
    }
}

/// Measures 5,000 nodes that renew their leases every ten seconds, with 150,000 pods.
pub async fn steady() {
    const NODES: usize = 5000;
    const MANY: usize = 150_000;
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    const SECONDS: u64 = 20;
    let server = Server::start();
    let mut connections = server.connections(16).await;
    connections[0].json("POST", "/api/v1/namespaces", r#"{"metadata":{"name":"kube-node-lease"}}"#).await;
    let (connections, ..) = all(connections, NODES.div_ceil(16), |mut connection, i| async move {
        let name = format!("node-{i}");
        let node = json!({"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": "us-east-1a"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(connection.json("POST", "/api/v1/nodes", &node.to_string()).await.0, 201);
        let lease = json!({"metadata": {"name": name}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}});
        assert_eq!(connection.json("POST", LEASES, &lease.to_string()).await.0, 201);
        connection
    })
    .await;
    drop(connections);
    fill(&server, MANY, NODES).await;
    let found = server.resident_mib();
    Figure { what: "resident with 5,000 nodes, 150,000 pods", found, unit: "MiB", bound: Bound::None, real: None }
        .print();
    // Kubelets watch their own pods; a few informers watch all.
    let mut watchers = server.connections(50).await;
    for (i, watcher) in watchers.iter_mut().enumerate() {
        watcher.watch(&format!("/api/v1/pods?watch=1&resourceVersion=0&fieldSelector=spec.nodeName%3Dnode-{i}")).await;
    }
    let mut connection = server.connect().await;
    let (used, begun) = (server.cpu(), Instant::now());
    let each = Duration::from_secs(10) / NODES as u32;
    let mut renewals = 0u32;
    while begun.elapsed() < Duration::from_secs(SECONDS) {
        let time = 1_780_000_000 + u64::from(renewals);
        let patch = json!({"metadata": {"annotations": {"renewed": time.to_string()}}}).to_string();
        let path = format!("{LEASES}/node-{}", renewals as usize % NODES);
        assert_eq!(connection.send("PATCH", &path, "application/merge-patch+json", &patch).await.0, 200);
        renewals += 1;
        tokio::time::sleep_until((begun + each * renewals).into()).await;
    }
    let found = (server.cpu() - used).as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
    let what = format!("5,000 nodes at 10 s, 150,000 pods: {renewals} renewals");
    Figure { what: &what, found, unit: "% of 1 core", bound: Bound::AtMost(100.0), real: None }.print();
}
