//! Each seeded bug has its described effect.

use super::*;

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
