//! Writes of node lifecycle, taint eviction and pod GC, request by request.

use controllers::kube::{Kind, time};
use k8s_openapi::api::core::v1::{Node, Pod};
use substrate::json::{Value, json};

use crate::common::{Rig, S, Written, in_simulation};

const ALONE: &[&str] = &["kube-scheduler", "external-provisioner", "external-attacher", "external-resizer"];
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

async fn rig(world: &substrate::World) -> Rig {
    Rig::new(world, &["node-a", "node-b", "node-c"], ALONE).await
}

/// Creates a running pod on `node`.
async fn running(rig: &Rig, name: &str, node: &str) -> Pod {
    let pod = json!({ "metadata": { "name": name, "namespace": "default" }, "spec": {
        "nodeName": node, "containers": [{ "name": "c", "image": "i" }],
    } });
    let pod: Pod = substrate::json::from_value(pod).expect("a pod");
    let mut pod = Pod::clone(&*rig.pods().create(&pod).await.expect("created"));
    let status = json!({ "phase": "Running", "conditions": [
        { "type": "Ready", "status": "True", "observedGeneration": 1 },
        { "type": "PodScheduled", "status": "True", "observedGeneration": 1 },
    ] });
    pod.status = Some(substrate::json::from_value(status).expect("a status"));
    Pod::clone(&*rig.pods().replace_status(&pod).await.expect("a status"))
}

fn verbs(written: &[Written]) -> Vec<String> {
    written.iter().map(|w| format!("{} {} {}", w.method, w.path.trim_start_matches("/api/v1/"), w.kind)).collect()
}

fn taints(value: &Value) -> Vec<(&str, &str)> {
    let all = value["spec"]["taints"].as_array().expect("taints");
    all.iter().map(|t| (t["key"].as_str().unwrap_or(""), t["effect"].as_str().unwrap_or(""))).collect()
}

/// Upstream since 1.34 (kubernetes#120816), according to the audit log of 1.36.2.
#[test]
fn a_node_that_is_silent_is_written_in_one_pass_and_in_order() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        running(&rig, "one", "node-a").await;
        rig.sleep(S(20)).await;
        rig.crash("node-a");
        let from = rig.now_ms();
        rig.sleep(S(70)).await;
        let written: Vec<Written> = rig
            .written(from, "/api/v1/")
            .into_iter()
            .filter(|w| w.path.contains("/nodes/node-a") || w.path.contains("/pods/one"))
            .collect();
        let (put, rest) = written.split_first().expect("writes");
        assert_eq!(verbs(std::slice::from_ref(put)), ["PUT nodes/node-a/status json"]);
        assert!(put.agent.ends_with("/node-controller"), "{}", put.agent);
        let find = |what: &str| {
            let found = rest.iter().find(|w| verbs(std::slice::from_ref(*w))[0].starts_with(what));
            found.unwrap_or_else(|| panic!("no {what} in {:?}", verbs(rest)))
        };
        let pod = find("PUT namespaces/default/pods/one/status json");
        let patches: Vec<&Written> = rest.iter().filter(|w| w.path == "/api/v1/nodes/node-a").collect();
        assert_eq!(rest.len(), 3, "{:?}", verbs(rest));
        let [schedule, execute] = patches[..] else { panic!("{:?}", verbs(rest)) };
        for first in [schedule, pod] {
            assert!(first.ms - put.ms <= 20, "{} ms after the node's status", first.ms - put.ms);
        }
        assert!(execute.ms - put.ms <= 120, "{} ms after the node's status", execute.ms - put.ms);
        assert_eq!(taints(&schedule.body), [(UNREACHABLE, "NoSchedule")]);
        assert_eq!(taints(&execute.body), [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]);
        assert!(
            execute.kind == "strategic-merge-patch+json" && execute.body["metadata"]["resourceVersion"].is_string()
        );

        let ready = &pod.body["status"]["conditions"][0];
        assert_eq!((&ready["status"], &ready["observedGeneration"]), (&json!("False"), &json!(1)));
        let written = rig.client.all::<Node>().get("node-a").await.expect("the node");
        let order: Vec<&str> = controllers::taints::of(&written).iter().map(|t| t.effect.as_str()).collect();
        assert_eq!(order, ["NoSchedule", "NoExecute"]);
    });
}

#[test]
fn a_node_that_is_back_loses_each_taint_by_a_patch() {
    in_simulation(2, |world| async move {
        let rig = rig(&world).await;
        rig.crash("node-a");
        rig.sleep(S(70)).await;
        let from = rig.now_ms();
        let ready = json!({ "type": "Ready", "status": "True", "lastHeartbeatTime": time(world.clock().wall()) });
        rig.patch_node_status("node-a", json!({ "conditions": [ready] })).await;
        rig.sleep(S(10)).await;
        let patches: Vec<Written> = rig
            .written(from, "/api/v1/nodes/node-a")
            .into_iter()
            .filter(|w| w.agent.ends_with("/node-controller"))
            .collect();
        assert_eq!(verbs(&patches), vec!["PATCH nodes/node-a strategic-merge-patch+json"; 2]);
        assert_eq!(taints(&patches[0].body), [(UNREACHABLE, "NoExecute")]);
        assert_eq!(patches[1].body["spec"], json!({ "taints": null }));
    });
}

#[test]
fn a_taint_that_meets_another_writer_is_tried_again_with_what_is_there() {
    in_simulation(3, |world| async move {
        let rig = rig(&world).await;
        // By then the admission taint of new nodes is gone.
        rig.sleep(S(10)).await;
        let fault = substrate::json::from_value(json!({
            "name": "other-writer", "match": { "plane": "k8s", "op": "patch", "where": { "object": "node-a", "subresource": "" } },
            "when": { "first": 2 }, "effect": { "error": "Conflict" },
        }))
        .expect("a fault");
        world.faults().add(world.clock().mono(), fault).expect("in force");
        let node = rig.client.all::<Node>().get("node-a").await.expect("the node");
        let mut cordoned = Node::clone(&node);
        cordoned.spec.get_or_insert_default().unschedulable = Some(true);
        rig.client.all::<Node>().replace(&cordoned).await.expect("cordoned");
        let from = rig.now_ms();
        rig.sleep(S(2)).await;
        let patches = rig.written(from, "/api/v1/nodes/node-a");
        let waits: Vec<u64> = patches.windows(2).map(|pair| pair[1].ms - pair[0].ms).collect();
        assert_eq!(patches.len(), 3, "{:?}", verbs(&patches));
        assert!(waits.iter().all(|wait| (100..250).contains(wait)), "{waits:?}");
        let node = rig.client.all::<Node>().get("node-a").await.expect("the node");
        assert!(controllers::taints::has(&node, "node.kubernetes.io/unschedulable", "NoSchedule"));
    });
}

#[test]
fn an_evicted_pod_is_marked_then_deleted() {
    in_simulation(4, |world| async move {
        let rig = rig(&world).await;
        running(&rig, "one", "node-a").await;
        let old = rig.client.all::<Node>().get("node-a").await.expect("the node");
        let mut tainted = Node::clone(&old);
        tainted.spec.get_or_insert_default().taints = Some(vec![controllers::taints::taint("k", "NoExecute")]);
        let from = rig.now_ms();
        rig.client.all::<Node>().replace(&tainted).await.expect("tainted");
        rig.sleep(S(2)).await;
        let written = rig.written(from, "/api/v1/namespaces/default/");
        let expected = [
            "POST namespaces/default/events json",
            "PATCH namespaces/default/pods/one/status strategic-merge-patch+json",
            "DELETE namespaces/default/pods/one json",
        ];
        assert_eq!(verbs(&written), expected);
        assert_eq!(written[0].body["message"], "Marking for deletion Pod default/one");
        assert_eq!(written[0].body["apiVersion"], "v1");
        let pod = rig.pods().get("one").await.expect("it stops");
        let condition = &written[1].body["status"]["conditions"][0];
        let expected = json!({
            "metadata": { "uid": pod.uid() },
            "status": {
                "$setElementOrder/conditions": [{ "type": "Ready" }, { "type": "PodScheduled" }, { "type": "DisruptionTarget" }],
                "conditions": [{
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "DeletionByTaintManager",
                    "message": "Taint manager: deleting due to NoExecute taint",
                    "observedGeneration": 1,
                    "lastProbeTime": null,
                    "lastTransitionTime": condition["lastTransitionTime"].clone(),
                }],
            },
        });
        assert_eq!(written[1].body, expected);
        assert!(written[2].body.get("gracePeriodSeconds").is_none());
    });
}

#[test]
fn an_orphaned_pod_is_failed_by_a_patch_then_deleted_without_grace() {
    in_simulation(5, |world| async move {
        let rig = rig(&world).await;
        running(&rig, "one", "gone").await;
        let from = rig.now_ms();
        rig.sleep(S(90)).await;
        let written = rig.written(from, "/pods/one");
        let expected = [
            "PATCH namespaces/default/pods/one/status strategic-merge-patch+json",
            "DELETE namespaces/default/pods/one json",
        ];
        assert_eq!(verbs(&written), expected);
        let status = &written[0].body["status"];
        assert_eq!(
            (&status["phase"], &status["conditions"][0]["reason"]),
            (&json!("Failed"), &json!("DeletionByPodGC"))
        );
        assert_eq!(
            (&status["observedGeneration"], &status["conditions"][0]["observedGeneration"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(written[1].body["gracePeriodSeconds"], 0);
    });
}
