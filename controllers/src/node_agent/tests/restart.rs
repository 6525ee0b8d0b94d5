//! A kubelet that crashes and restarts while containers run.

use super::*;
use crate::machine::events::WorkloadSynced;

impl Rig {
    /// Returns the time of each durable record.
    fn synced(&self) -> Vec<(u64, u64)> {
        let events = self.world.trace().events();
        events.iter().filter_map(|e| e.get::<WorkloadSynced>().map(|synced| (e.ms, synced.record))).collect()
    }

    fn container(&self, pod: &str) -> Value {
        self.toy.get("pods", "default", pod)["status"]["containerStatuses"][0].clone()
    }

    fn event_count(&self, reason: &str) -> usize {
        self.toy.events().iter().filter(|event| event.starts_with(&format!("{reason} "))).count()
    }

    /// Returns the time of the first event of a kind.
    fn first(&self, kind: &str) -> Duration {
        let events = self.world.trace().events();
        let found = events.iter().find(|e| e.kind() == kind).unwrap_or_else(|| panic!("no {kind}\n{}", self.tail()));
        Duration::from_millis(found.ms)
    }

    /// Checks that the volume was unmounted after the containers had ended, which takes some time.
    fn went_in_order(&self) {
        let order =
            [self.first("workload.stopped") + STOPS, self.first("disk.unpublished"), self.first("disk.unstaged")];
        assert!(order.is_sorted(), "{order:?}\n{}", self.tail());
    }

    /// Stops the kubelet for `seconds`.
    async fn without_kubelet(&self, seconds: u64) {
        self.node.kubelet.crash();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.node.kubelet.restart();
    }
}

#[test]
fn a_kubelet_that_comes_back_leaves_a_pod_that_writes_alone() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        rig.until("records", 15, || rig.count("workload.synced") == 3).await;
        let before = rig.toy.get("pods", "default", "p")["status"].clone();
        rig.without_kubelet(2).await;
        rig.until("records", 15, || rig.count("workload.synced") == 10).await;
        // Long enough for the reconciler, the populator and the pod's next syncs.
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!((rig.count("disk.unpublished"), rig.count("disk.unstaged")), (0, 0), "{}", rig.tail());
        assert_eq!((rig.count("workload.started"), rig.count("workload.stopped")), (1, 0));
        let synced = rig.synced();
        let steady = synced[..10].windows(2).all(|w| w[1].0 - w[0].0 == 1000 && w[1].1 == w[0].1 + 1);
        assert!(steady, "{synced:?}");
        assert!(rig.in_use());
        assert_eq!(rig.toy.get("pods", "default", "p")["status"], before);
        assert_eq!(
            ["Pulled", "Created", "Started", "SandboxChanged"].map(|reason| rig.event_count(reason)),
            [1, 1, 1, 0]
        );
        // The kubelet still manages the pod.
        rig.delete_gracefully("p");
        rig.until("deleted", 2, || rig.toy.get("pods", "default", "p").is_null()).await;
        rig.until("not in use", 11, || rig.node()["status"]["volumesInUse"].is_null()).await;
        assert!(rig.disk.mounts().await.expect("mounts").is_empty());
    });
}

#[test]
fn a_kubelet_that_comes_back_to_a_slow_api_leaves_a_pod_that_writes_alone() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        let slow = json!({
            "name": "slow", "effect": { "delay": "3s" },
            "match": { "plane": "link", "where": { "path": "/api/v1/namespaces/default/persistentvolumeclaims/data" } },
        });
        world.faults().add(Duration::ZERO, substrate::json::from_value(slow).expect("a fault")).expect("added");
        rig.without_kubelet(2).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((rig.count("disk.unpublished"), rig.count("disk.unstaged")), (0, 0), "{}", rig.tail());
        assert_eq!(rig.count("workload.started"), 1);
    });
}

#[test]
fn a_pod_that_was_deleted_meanwhile_is_stopped_before_its_volume_goes() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        rig.node.kubelet.crash();
        rig.delete_gracefully("p");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(rig.count("workload.stopped"), 0, "no user has asked");
        rig.node.kubelet.restart();
        rig.until("deleted", 3, || rig.toy.get("pods", "default", "p").is_null()).await;
        rig.until("unstaged", 3, || rig.count("disk.unstaged") == 1).await;
        rig.went_in_order();
    });
}

#[test]
fn containers_whose_pod_is_gone_are_stopped_before_its_volume_goes() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        rig.node.kubelet.crash();
        rig.toy.delete("pods", "default", "p");
        tokio::time::sleep(Duration::from_secs(5)).await;
        rig.node.kubelet.restart();
        rig.until("unstaged", 3, || rig.count("disk.unstaged") == 1).await;
        rig.went_in_order();
        assert!(rig.disk.mounts().await.expect("mounts").is_empty());
    });
}

#[test]
fn containers_lost_with_their_machine_are_restarted() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        rig.until("records", 15, || rig.count("workload.synced") == 3).await;
        let before = rig.container("p");
        // The kubelet is alive and gets the event.
        rig.node.machine.crash();
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(rig.count("workload.stopped"), 0, "no kubelet saw their end");
        rig.node.machine.restart();
        rig.until("second start", 5, || rig.count("workload.started") == 2).await;
        assert_eq!(rig.found(), Some((3, true)));
        rig.until("reported", 2, || rig.container("p")["restartCount"] == 1).await;
        let after = rig.container("p");
        assert_ne!(before["containerID"], after["containerID"]);
        assert_eq!(after["lastState"]["terminated"]["containerID"], before["containerID"]);
        assert_eq!(rig.event_count("SandboxChanged"), 1);
        assert_eq!(rig.pod_phase("p"), "Running");
    });
}

#[test]
fn an_order_to_stop_that_comes_while_containers_are_made_stops_them() {
    in_simulation(async |world| {
        let slow = json!({
            "name": "slow", "effect": { "delay": "5s" },
            "match": { "plane": "link", "op": "request", "where": { "path": "/v1/pods", "method": "POST" } },
        });
        world.faults().add(Duration::ZERO, substrate::json::from_value(slow).expect("a fault")).expect("added");
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.plug().await;
        rig.claim_and_pod("p");
        rig.until("volumesInUse", 11, || rig.in_use()).await;
        rig.attach();
        rig.until("mounted", 5, || rig.count("node-agent.mounted") == 1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        rig.delete_gracefully("p");
        rig.until("deleted", 8, || rig.toy.get("pods", "default", "p").is_null()).await;
        assert_eq!((rig.count("workload.started"), rig.count("workload.stopped")), (1, 1));
        rig.until("unstaged", 3, || rig.count("disk.unstaged") == 1).await;
        rig.went_in_order();
    });
}

#[test]
fn a_kubelet_waits_for_its_runtime() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.node.machine.crash();
        rig.until("ready", 1, || rig.ready()).await;
        rig.plug().await;
        rig.claim_and_pod("p");
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert!(!rig.in_use(), "nothing begins before the list of what runs");
        assert!(rig.count("node-agent.runtime-failed") > 1);
        rig.node.machine.restart();
        rig.until("volumesInUse", 12, || rig.in_use()).await;
        rig.attach();
        rig.until("running", 5, || rig.pod_phase("p") == "Running").await;
    });
}
