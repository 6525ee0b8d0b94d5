//! Kubelet refuses pods that its node cannot run.

use super::*;

impl Rig {
    /// Creates a pod that asks for `cpu` and a node with `selector`.
    fn bind(&self, name: &str, cpu: &str, selector: &Value) {
        self.toy.put(
            "pods",
            "default",
            json!({
                "metadata": { "name": name, "uid": format!("uid-of-{name}") },
                "spec": {
                    "nodeName": "node-a", "nodeSelector": selector,
                    "containers": [{ "name": "app", "image": "a", "resources": { "requests": { "cpu": cpu } } }],
                },
                "status": { "phase": "Pending" },
            }),
        );
    }

    fn status(&self, pod: &str) -> Value {
        self.toy.get("pods", "default", pod)["status"].clone()
    }

    fn is_failed(&self, pod: &str, reason: &str) -> bool {
        let status = self.status(pod);
        status["phase"] == "Failed" && status["reason"] == reason
    }
}

#[test]
fn a_pod_that_does_not_fit_is_failed_and_never_runs() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        let any = json!({});
        rig.bind("first", "1500m", &any);
        rig.until("running", 2, || rig.pod_phase("first") == "Running").await;
        rig.bind("second", "600m", &any);
        rig.until("refused", 1, || rig.is_failed("second", "OutOfcpu")).await;
        let status = rig.status("second");
        let message =
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000";
        assert_eq!((&status["message"], status["containerStatuses"].is_null()), (&json!(message), true));
        rig.bind("third", "400m", &json!({ "disk": "ssd" }));
        rig.until("refused", 1, || rig.is_failed("third", "NodeAffinity")).await;
        // The pod that fits keeps running, also after a restart of kubelet.
        rig.node.kubelet.restart();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(rig.pod_phase("first"), "Running");
        for name in ["second", "third"] {
            rig.delete_gracefully(name);
            rig.until("deleted", 2, || rig.toy.get("pods", "default", name).is_null()).await;
        }
        rig.delete_gracefully("first");
        rig.until("deleted", 2, || rig.toy.get("pods", "default", "first").is_null()).await;
        rig.bind("fourth", "2", &any);
        rig.until("running", 2, || rig.pod_phase("fourth") == "Running").await;
    });
}

#[test]
fn a_label_that_is_newer_than_the_cache_counts() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.toy.patch("nodes", "", "node-a", &json!({ "metadata": { "labels": { "disk": "ssd" } } }));
        rig.bind("p", "1", &json!({ "disk": "ssd" }));
        rig.until("running", 2, || rig.pod_phase("p") == "Running").await;
    });
}

#[test]
fn a_running_pod_that_no_longer_belongs_here_is_stopped_by_a_restarted_kubelet() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.toy.patch("nodes", "", "node-a", &json!({ "metadata": { "labels": { "disk": "ssd" } } }));
        rig.bind("p", "1", &json!({ "disk": "ssd" }));
        rig.until("running", 2, || rig.pod_phase("p") == "Running").await;
        rig.toy.patch("nodes", "", "node-a", &json!({ "metadata": { "labels": { "disk": null } } }));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(rig.pod_phase("p"), "Running", "labels count at admission only");
        rig.node.kubelet.restart();
        rig.until("refused", 2, || rig.is_failed("p", "NodeAffinity")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(rig.is_failed("p", "NodeAffinity"));
        let container = rig.status("p")["containerStatuses"][0].clone();
        assert!(container["state"]["terminated"].is_object(), "{container}\n{}", rig.tail());
    });
}

/// Runs a pod whose volume cannot be attached, with gRPC `code`. Returns its status after five minutes, and the number of
/// times that the driver was asked for its limit.
fn unattached(code: i32, period: Option<i64>) -> (Value, usize) {
    let mut result = None;
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.toy.put(
            "csidrivers",
            "",
            json!({
                "metadata": { "name": "ebs.csi.aws.com" },
                "spec": { "attachRequired": true, "nodeAllocatableUpdatePeriodSeconds": period },
            }),
        );
        rig.until("registered", 2, || rig.count("node-agent.registered") == 1).await;
        rig.claim_and_pod("p");
        let name = names::attachment_name("vol-1", "ebs.csi.aws.com", "node-a");
        let failed = json!({ "status": { "attached": false, "attachError": { "errorCode": code, "message": "no" } } });
        rig.toy.patch("volumeattachments", "", &name, &failed);
        let asked = rig.calls("NodeGetInfo");
        tokio::time::sleep(Duration::from_secs(300)).await;
        let in_use = rig.in_use();
        assert_eq!(in_use, rig.pod_phase("p") == "Pending", "{}", rig.tail());
        result = Some((rig.status("p"), rig.calls("NodeGetInfo") - asked));
    });
    result.expect("a status")
}

#[test]
fn a_pod_whose_node_can_attach_no_more_is_failed() {
    // The period is longer than the test: only the failed attach asks for the limit.
    let (status, asked) = unattached(8, Some(3600));
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("VolumeAttachmentLimitExceeded")));
    let message = "Pod was rejected: Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[data], \
                   unattached volumes=[data], failed to process volumes=[]: context deadline exceeded";
    assert_eq!((&status["message"], asked), (&json!(message), 1));
    for (code, period) in [(8, None), (8, Some(0)), (13, Some(3600))] {
        let (status, asked) = unattached(code, period);
        assert_eq!((&status["phase"], asked), (&json!("Pending"), 0), "{code} {period:?}");
    }
}
