//! Bindings of pods to nodes, and of claims to named volumes.

use controllers::kube::DeleteParams;
use k8s_openapi::api::core::v1::{Event as CoreEvent, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::storage::v1::StorageClass;
use serde::de::DeserializeOwned;
use std::time::Duration;
use substrate::json::{Value, json};

use crate::common::{DRIVER, Rig, S, edit, in_simulation};

fn object<K: DeserializeOwned>(value: Value) -> K {
    substrate::json::from_value(value).expect("a valid object")
}

fn fault(rig: &Rig, fault: Value) {
    let fault = object(fault);
    rig.world.faults().add(rig.world.clock().mono(), fault).expect("a fault");
}

/// Lets the scheduler use every node.
async fn untainted(rig: &Rig) {
    for node in ["node-a", "node-b"] {
        edit(&rig.client.all::<Node>(), node, |node| node.spec.get_or_insert_default().taints = None).await;
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
    in_simulation(1, async |world| {
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
        let reported = rig.messages("FailedScheduling");
        assert!(reported.iter().any(|m| m.contains("Precondition failed: UID in precondition")), "{reported:?}");
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

/// Returns the time until both are bound; the later object comes `gap` after the other.
fn bound_after(seed: u64, volume_first: bool, gap: Duration) -> Duration {
    in_simulation(seed, async |world| {
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

async fn events(rig: &Rig, reason: &str) -> Vec<Event> {
    let events = rig.client.all::<Event>().list(&Default::default()).await.expect("a list");
    let of = events.items.iter().filter(|e| e.reason.as_deref() == Some(reason));
    of.cloned().collect()
}

#[test]
fn the_schedulers_events_are_of_the_new_api_and_repeat_as_a_series() {
    in_simulation(1, async |world| {
        let rig = Rig::new(&world, &["node-a", "node-b"], &[]).await;
        untainted(&rig).await;
        rig.pods().create(&pod(json!({ "disk": "nowhere" }))).await.expect("a pod");
        rig.sleep(S(1)).await;
        let generation = async || {
            let pod = rig.pods().get("p").await.expect("the pod");
            let conditions = pod.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
            conditions.iter().find(|c| c.type_ == "PodScheduled").and_then(|c| c.observed_generation)
        };
        assert_eq!(generation().await, Some(1));
        // It is retried every five minutes without an event.
        rig.sleep(S(2 * 60 * 60)).await;
        let failed = events(&rig, "FailedScheduling").await;
        let series: Vec<_> = failed.iter().map(|e| e.series.as_ref().map(|s| s.count)).collect();
        assert!((1..=3).contains(&failed.len()) && series.iter().flatten().any(|count| *count > 2), "{series:?}");
        let first = &failed[0];
        assert_eq!((first.action.as_deref(), first.type_.as_deref()), (Some("Scheduling"), Some("Warning")));
        assert_eq!(first.reporting_controller.as_deref(), Some("default-scheduler"));
        assert_eq!(first.reporting_instance.as_deref(), Some("default-scheduler-kube-scheduler"));
        assert!(first.event_time.is_some() && first.regarding.as_ref().is_some_and(|r| r.name.as_deref() == Some("p")));
        // The core API shows the same objects.
        let old = rig.client.all::<CoreEvent>().list(&Default::default()).await.expect("a list");
        let same = old.items.iter().find(|e| e.metadata.name == first.metadata.name).expect("the event");
        assert_eq!((&same.message, &same.involved_object.name), (&first.note, &Some("p".to_owned())));

        edit(&rig.client.all::<Node>(), "node-b", |node| {
            node.metadata.labels.get_or_insert_default().insert("disk".to_owned(), "nowhere".to_owned());
        })
        .await;
        rig.sleep(S(15)).await;
        assert_eq!(node_of(&rig).await.as_deref(), Some("node-b"));
        let scheduled = events(&rig, "Scheduled").await;
        assert_eq!(scheduled[0].action.as_deref(), Some("Binding"));
        assert_eq!(scheduled[0].note.as_deref(), Some("Successfully assigned default/p to node-b"));
    });
}

#[test]
fn a_pod_that_waits_for_its_volumes_says_where_it_is_about_to_go() {
    in_simulation(1, async |world| {
        let rig = Rig::new(&world, &["node-a", "node-b"], &[]).await;
        untainted(&rig).await;
        let late = json!({
            "metadata": { "name": "late" }, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer",
        });
        rig.client.all::<StorageClass>().create(&object(late)).await.expect("a class");
        let claim = json!({
            "metadata": { "namespace": "default", "name": "data" },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
                "resources": { "requests": { "storage": "1Gi" } },
            },
        });
        let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
        claims.create(&object(claim)).await.expect("a claim");
        let refused = json!({ "plane": "csi", "op": "CreateVolume" });
        let effect = json!({ "grpc": "RESOURCE_EXHAUSTED" });
        fault(&rig, json!({ "name": "full", "match": refused, "effect": effect, "when": { "first": 1 } }));
        let mut pod = pod(json!({}));
        let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "data" } });
        pod.spec.get_or_insert_default().volumes = Some(vec![object(volume)]);
        rig.pods().create(&pod).await.expect("a pod");
        let nominated = async || {
            let pod = rig.pods().get("p").await.expect("the pod");
            pod.status.as_ref().and_then(|s| s.nominated_node_name.clone()).unwrap_or_default()
        };
        rig.until(S(2), "nominated", async || nominated().await == "node-a").await;
        // There is no room: the scheduler gives up the binding and the node.
        rig.until(S(5), "not nominated any more", async || nominated().await.is_empty()).await;
        assert_eq!(node_of(&rig).await, None);
        rig.until(S(30), "bound", async || node_of(&rig).await.is_some()).await;
        assert_eq!(nominated().await, "", "a binding takes it back");
    });
}
