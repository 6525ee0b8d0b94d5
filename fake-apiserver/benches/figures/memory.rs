//! Memory of the server after a load.

use std::time::Duration;

use super::load::{all, config};
use super::server::Server;
use super::{Bound, Figure, pods};

const PODS: usize = 10_000;
const WRITES: usize = 400_000;
const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
/// Slightly longer than events are held for watches.
const LATER: Duration = Duration::from_secs(85);
/// A time after the deletion at which its events are still held for watches.
const SOON: Duration = Duration::from_secs(60);

/// Measures the memory after the creation and deletion of ten thousand pods, and after four hundred thousand writes.
pub async fn run() {
    // Compacted each second instead of every five minutes; otherwise the figure would take ten minutes.
    let server = Server::start_with(&["--etcd-compaction-interval", "1s"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let print = |what: &str, bound| {
        Figure { what, found: server.resident_mib(), unit: "MiB", bound, real: None }.print();
    };
    print("resident, idle", Bound::None);
    pods::fill(&server, PODS, 100).await;
    print("resident with 10,000 pods", Bound::None);
    assert_eq!(server.connect().await.json("DELETE", pods::PATH, "").await.0, 200);
    print("  when their collection was deleted", Bound::None);
    tokio::time::sleep(SOON).await;
    print("  60 s later", Bound::AtMost(100.0));
    tokio::time::sleep(LATER - SOON).await;
    print("  85 s later", Bound::AtMost(60.0));
    let connections = server.connections(16).await;
    let (connections, ..) = all(connections, WRITES / 16, |mut connection, i| async move {
        let (name, step) = (format!("c-{}", i % 1000), (i / 1000) as u32);
        let (code, _) = connection.json("PUT", &format!("{CONFIGS}/{name}"), &config(&name, step)).await;
        if code == 404 {
            connection.json("POST", CONFIGS, &config(&name, step)).await;
        }
        connection
    })
    .await;
    drop(connections);
    print("resident after 400,000 writes", Bound::None);
    tokio::time::sleep(LATER).await;
    print("  85 s later", Bound::AtMost(60.0));
}
