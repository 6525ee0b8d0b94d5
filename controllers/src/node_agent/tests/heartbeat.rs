//! The kubelet's heartbeats with a slow API server.

use super::*;

/// Returns the last renewal of the node's lease, in seconds of the world.
fn renewed(rig: &Rig) -> f64 {
    let lease = rig.toy.get("leases", "kube-node-lease", "node-a");
    let at: jiff::Timestamp = lease["spec"]["renewTime"].as_str().expect("a time").parse().expect("a time");
    at.duration_since(substrate::clock::epoch()).as_secs_f64()
}

#[test]
fn a_lease_that_hangs_is_renewed_after_ten_seconds() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        let before = renewed(&rig);
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-a";
        let hangs = json!({
            "name": "slow", "effect": { "delay": "5m" }, "when": { "first": 1 },
            "match": { "plane": "link", "where": { "method": "PUT", "path": path } },
        });
        world.faults().add(Duration::ZERO, substrate::json::from_value(hangs).expect("a fault")).expect("added");
        // The next renewal comes after ten seconds, the try after it ten seconds later.
        tokio::time::sleep(Duration::from_secs(22)).await;
        let passed = renewed(&rig) - before;
        assert!((20.0..22.0).contains(&passed), "{passed} s\n{}", rig.tail());
    });
}
