//! Preemption in a cluster: the writes of the scheduler, and the queue.

use controllers::kube::Kind;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde::de::DeserializeOwned;
use substrate::World;
use substrate::json::{Value, json};

use crate::common::{Rig, S, edit, in_simulation};

fn object<K: DeserializeOwned>(value: Value) -> K {
    substrate::json::from_value(value).expect("a valid object")
}

/// Starts a cluster with a node of 4 CPUs, and two priorities.
async fn cluster(world: &World) -> Rig {
    let rig = Rig::new(world, &["node-a"], &[]).await;
    edit(&rig.client.all::<Node>(), "node-a", |node| node.spec.get_or_insert_default().taints = None).await;
    let room = json!({ "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } });
    rig.patch_node_status("node-a", room).await;
    for (name, value) in [("low", 10), ("high", 1000)] {
        let class = object::<PriorityClass>(json!({ "metadata": { "name": name }, "value": value }));
        rig.client.all::<PriorityClass>().create(&class).await.expect("a class");
    }
    rig
}

async fn create(rig: &Rig, name: &str, class: &str, cpu: &str) {
    let container = json!({ "name": "c", "image": "i", "resources": { "requests": { "cpu": cpu } } });
    let spec = json!({ "priorityClassName": class, "containers": [container] });
    let pod = json!({ "metadata": { "namespace": "default", "name": name }, "spec": spec });
    rig.pods().create(&object(pod)).await.expect("a pod");
}

async fn get(rig: &Rig, name: &str) -> Pod {
    (*rig.pods().get(name).await.expect("the pod")).clone()
}

async fn has_node(rig: &Rig, name: &str) -> bool {
    get(rig, name).await.spec.and_then(|spec| spec.node_name).is_some_and(|node| !node.is_empty())
}

async fn until_placed(rig: &Rig, name: &str) {
    rig.until(S(10), "it has a node", || has_node(rig, name)).await;
}

fn reason(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "DisruptionTarget")?.reason.clone()
}

fn nominated(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.nominated_node_name.as_deref()
}

#[test]
fn a_pod_gets_the_node_when_its_victims_are_gone() {
    in_simulation(1, async |world| {
        let rig = cluster(&world).await;
        for name in ["low-1", "low-2"] {
            create(&rig, name, "low", "2").await;
            until_placed(&rig, name).await;
        }
        create(&rig, "high", "high", "3").await;
        rig.until(S(5), "both terminate", || async {
            get(&rig, "low-1").await.is_deleting() && get(&rig, "low-2").await.is_deleting()
        })
        .await;
        for name in ["low-1", "low-2"] {
            assert_eq!(reason(&get(&rig, name).await).as_deref(), Some("PreemptionByScheduler"));
        }
        let high = get(&rig, "high").await;
        assert_eq!(nominated(&high), Some("node-a"));
        let message = format!("Preempted by pod {} on node node-a", high.uid());
        assert_eq!(rig.messages("Preempted"), [message.clone(), message]);
        rig.force_delete("low-1").await;
        rig.sleep(S(20)).await;
        assert!(!has_node(&rig, "high").await, "one of them is still there");
        let waits = rig.messages("FailedScheduling");
        assert!(waits.iter().any(|m| m.contains("a terminating pod on the nominated node")), "{waits:?}");
        assert_eq!(nominated(&get(&rig, "high").await), Some("node-a"));
        rig.force_delete("low-2").await;
        until_placed(&rig, "high").await;
        assert_eq!(rig.messages("Preempted").len(), 2);
    });
}

#[test]
fn a_more_important_pod_takes_over_the_nominated_node() {
    in_simulation(1, async |world| {
        let rig = cluster(&world).await;
        let class = object::<PriorityClass>(json!({ "metadata": { "name": "highest" }, "value": 5000 }));
        rig.client.all::<PriorityClass>().create(&class).await.expect("a class");
        create(&rig, "low-1", "low", "2").await;
        create(&rig, "low-2", "low", "2").await;
        until_placed(&rig, "low-2").await;
        create(&rig, "high", "high", "2").await;
        rig.until(S(5), "it is nominated", || async { nominated(&get(&rig, "high").await) == Some("node-a") }).await;
        create(&rig, "highest", "highest", "4").await;
        rig.until(S(5), "the other one is not", || async { nominated(&get(&rig, "high").await).is_none() }).await;
        assert_eq!(nominated(&get(&rig, "highest").await), Some("node-a"));
        rig.force_delete("low-1").await;
        rig.force_delete("low-2").await;
        until_placed(&rig, "highest").await;
        assert!(!has_node(&rig, "high").await);
    });
}

#[test]
fn a_preemption_whose_write_fails_is_tried_again() {
    in_simulation(1, async |world| {
        let rig = cluster(&world).await;
        create(&rig, "low", "low", "4").await;
        until_placed(&rig, "low").await;
        let fault = json!({
            "name": "refused",
            "match": { "plane": "k8s", "op": "patch", "where": { "object": "default/low" } },
            "when": { "first": 2 },
            "effect": { "error": "InternalError" },
        });
        rig.world.faults().add(rig.world.clock().mono(), object(fault)).expect("a fault");
        create(&rig, "high", "high", "4").await;
        rig.until(S(30), "it terminates", || async { get(&rig, "low").await.is_deleting() }).await;
        assert_eq!(reason(&get(&rig, "low").await).as_deref(), Some("PreemptionByScheduler"));
        rig.force_delete("low").await;
        until_placed(&rig, "high").await;
    });
}
