//! Bindings: of pods to nodes, and of claims to the volumes that they name.

mod common;

use common::{DRIVER, Rig, S, story};
use controllers::kube::{DeleteParams, Patch};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use serde::de::DeserializeOwned;
use std::time::Duration;
use substrate::json::{Value, json};

fn object<K: DeserializeOwned>(value: Value) -> K {
    substrate::json::from_value(value).expect("a valid object")
}

fn fault(rig: &Rig, fault: Value) {
    let fault = object(fault);
    rig.world.faults().add(rig.world.clock().mono(), fault).expect("a fault");
}

/// Lets the scheduler put pods on every node.
async fn untainted(rig: &Rig) {
    for node in ["node-a", "node-b"] {
        let ready = Patch::Merge(json!({ "spec": { "taints": null } }));
        rig.client.all::<Node>().patch(node, &ready).await.expect("a node");
        let room = json!({ "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } });
        rig.patch_node_status(node, room).await;
    }
}

fn pod(selector: Value) -> Pod {
    object(json!({
        "metadata": { "namespace": "default", "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i" }], "nodeSelector": selector },
    }))
}

async fn node_of(rig: &Rig) -> Option<String> {
    let pod = rig.pods().get("p").await.expect("the pod");
    pod.spec.as_ref().and_then(|s| s.node_name.clone()).filter(|name| !name.is_empty())
}

#[test]
fn a_late_binding_of_a_deleted_pod_does_not_bind_its_successor() {
    story(1, async |world| {
        let rig = Rig::new(&world, &["node-a", "node-b"], &[]).await;
        untainted(&rig).await;
        let path = "/api/v1/namespaces/default/pods/p/binding";
        let slow = json!({ "plane": "link", "where": { "path": path } });
        fault(&rig, json!({ "name": "slow", "match": slow, "effect": { "delay": "5s" }, "when": { "first": 1 } }));
        rig.pods().create(&pod(json!({}))).await.expect("a pod");
        rig.sleep(S(1)).await;
        assert_eq!(node_of(&rig).await, None, "the binding is on its way");
        rig.pods().delete("p", &DeleteParams::force()).await.expect("deleted");
        rig.pods().create(&pod(json!({ "disk": "nowhere" }))).await.expect("another pod of that name");
        rig.sleep(S(10)).await;
        assert_eq!(node_of(&rig).await, None, "no node has what the second pod asks for");
        let told = rig.messages("FailedScheduling");
        assert!(told.iter().any(|m| m.contains("Precondition failed: UID in precondition")), "{told:?}");
    });
}

fn volume_and_claim() -> (PersistentVolume, PersistentVolumeClaim) {
    let volume = json!({
        "metadata": { "name": "mine" },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
            "claimRef": { "namespace": "default", "name": "data" },
            "csi": { "driver": DRIVER, "volumeHandle": "vol-0" },
        },
    });
    let claim = json!({
        "metadata": { "namespace": "default", "name": "data" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeName": "mine", "storageClassName": "",
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    (object(volume), object(claim))
}

/// After how long the two are bound; the later of them comes `gap` after the other.
fn bound_after(seed: u64, volume_first: bool, gap: Duration) -> Duration {
    story(seed, async |world| {
        let rig = Rig::new(&world, &["node-a"], &[]).await;
        rig.sleep(S(1)).await;
        let (volume, claim) = volume_and_claim();
        let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
        if volume_first {
            rig.client.all().create(&volume).await.expect("a volume");
            rig.sleep(gap).await;
            claims.create(&claim).await.expect("a claim");
        } else {
            claims.create(&claim).await.expect("a claim");
            rig.sleep(gap).await;
            rig.client.all().create(&volume).await.expect("a volume");
        }
        let begun = world.clock().mono();
        rig.until(S(60), "the claim is bound", || async {
            let claim = claims.get("data").await.expect("the claim");
            claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound")
        })
        .await;
        world.clock().mono() - begun
    })
}

#[test]
fn a_volume_and_the_claim_that_names_it_are_bound_at_once() {
    for seed in 0..8 {
        for gap in [Duration::ZERO, Duration::from_millis(20), S(3)] {
            let passed = bound_after(seed, true, gap);
            assert!(passed < Duration::from_millis(700), "seed {seed}, {gap:?} apart: {passed:?}");
        }
    }
}

#[test]
fn a_claim_whose_volume_comes_later_is_bound_at_the_next_resync() {
    for seed in 0..8 {
        let passed = bound_after(seed, false, S(3));
        assert!((S(10)..S(13)).contains(&passed), "seed {seed}: {passed:?}");
    }
}
