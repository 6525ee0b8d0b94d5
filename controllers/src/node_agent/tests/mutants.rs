//! Each seeded bug has its described effect.

use http::Request;
use parking_lot::Mutex;
use substrate::HttpService;
use substrate::body::{call, collect, full};

use super::*;
use crate::machine::api::Stop;

/// Runs a test in a world with the seeded bug `name`.
fn with<F: Future<Output = ()>>(name: &str, tell: impl FnOnce(World) -> F) {
    assert!(crate::node_agent::mutants::MUTANTS.iter().any(|mutant| mutant.name == name), "{name} is in the list");
    simulate(Options { mutants: [name.to_owned()].into(), ..Options::default() }, tell);
}

async fn with_a_pod(world: &World) -> Rig {
    let rig = Rig::new(world, &MemoryDisks::new());
    rig.until("ready", 1, || rig.ready()).await;
    rig.run_pod("p").await;
    rig
}

#[test]
fn populated_too_early() {
    with("populated-too-early", async |world| {
        let rig = with_a_pod(&world).await;
        rig.node.kubelet.restart();
        rig.until("unpublished", 3, || rig.count("disk.unpublished") == 1).await;
        assert_eq!(rig.count("workload.stopped"), 0);
    });
}

#[test]
fn stage_not_repeated() {
    with("stage-not-repeated", async |world| {
        let fault = json!({
            "name": "f", "match": { "plane": "csi", "op": "NodeUnstageVolume" },
            "at": "after_effect", "effect": { "grpc": "DEADLINE_EXCEEDED" },
        });
        world.faults().declare(csi_mock::faults::OPERATIONS);
        world.faults().add(Duration::ZERO, substrate::json::from_value(fault).expect("a fault")).expect("added");
        let rig = with_a_pod(&world).await;
        rig.delete_gracefully("p");
        rig.until("unstaged", 3, || rig.count("disk.unstaged") == 1).await;
        rig.claim_and_pod("q");
        rig.until("refused", 60, || rig.count("node-agent.operation-failed") > 1).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!((rig.count("disk.staged"), rig.count("workload.started")), (1, 1));
    });
}

#[test]
fn unmount_before_stop() {
    with("unmount-before-stop", async |world| {
        let rig = with_a_pod(&world).await;
        rig.delete_gracefully("p");
        rig.until("unpublished", 3, || rig.count("disk.unpublished") == 1).await;
        assert_eq!(rig.count("workload.stopped"), 0);
        rig.until("stopped", 3, || rig.count("workload.stopped") == 1).await;
    });
}

#[test]
fn unmount_skipped() {
    with("unmount-skipped", async |world| {
        let rig = with_a_pod(&world).await;
        rig.delete_gracefully("p");
        rig.until("deleted", 3, || rig.toy.get("pods", "default", "p").is_null()).await;
        tokio::time::sleep(Duration::from_secs(1200)).await;
        assert_eq!(rig.count("disk.unpublished"), 0);
        assert!(rig.in_use());
    });
}

#[test]
fn volumes_in_use_dropped() {
    with("volumes-in-use-dropped", async |world| {
        let rig = with_a_pod(&world).await;
        rig.node.kubelet.crash();
        rig.delete_gracefully("p");
        rig.node.kubelet.restart();
        rig.until("dropped", 3, || !rig.in_use()).await;
        assert_eq!(rig.count("disk.unstaged"), 0, "it is still there");
    });
}

#[test]
fn reconstruction_skipped() {
    with("reconstruction-skipped", async |world| {
        let rig = with_a_pod(&world).await;
        rig.node.kubelet.crash();
        rig.delete_gracefully("p");
        rig.node.kubelet.restart();
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!((rig.count("disk.unpublished"), rig.count("disk.unstaged")), (0, 0), "the kubelet has forgotten it");
    });
}

/// Deletes a pod whose container has a hook of 20 s, with a grace period of 30 s. Returns the milliseconds within which
/// the container is asked to stop after its hook.
async fn left_after_hook(world: &World) -> u64 {
    let rig = Rig::new(world, &MemoryDisks::new());
    rig.until("ready", 1, || rig.ready()).await;
    let stops = Arc::new(Mutex::new(Vec::new()));
    let noted = stops.clone();
    let runtime = world.fabric().resolve("runtime-node-a").expect("a runtime").service;
    let service = HttpService::new(move |request| {
        let (noted, service) = (noted.clone(), runtime.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let sent = collect(body, 1 << 20).await?;
            if parts.uri.path().ends_with("/containers/app/stop") {
                noted.lock().push(serde_json::from_slice::<Stop>(&sent)?.grace_ms);
            }
            call(service, Request::from_parts(parts, full(sent))).await
        })
    });
    let machine = rig.node.machine.ctx().expect("it runs");
    world.fabric().bind(&machine, "runtime-node-a", service);
    rig.toy.put(
        "pods",
        "default",
        json!({
            "metadata": { "name": "p", "uid": "uid-of-p" },
            "spec": {
                "nodeName": "node-a", "terminationGracePeriodSeconds": 30,
                "containers": [{
                    "name": "app", "image": "busybox", "lifecycle": { "preStop": { "sleep": { "seconds": 20 } } },
                }],
            },
            "status": { "phase": "Pending" },
        }),
    );
    rig.until("running", 5, || rig.pod_phase("p") == "Running").await;
    rig.delete_gracefully("p");
    rig.until("asked to stop", 25, || !stops.lock().is_empty()).await;
    let first = stops.lock().first().copied();
    first.unwrap_or_default()
}

#[test]
fn hook_time_not_counted() {
    in_simulation(async |world| assert!(left_after_hook(&world).await <= 10_000));
    with("hook-time-not-counted", async |world| assert_eq!(left_after_hook(&world).await, 30_000));
}
