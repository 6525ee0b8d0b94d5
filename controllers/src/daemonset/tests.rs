use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use rstest::rstest;
use substrate::json::{Value, from_value, json};

use super::nodes::{Fit, HASH_LABEL, assign, concerns, fit, is_same_place, target, template};
use super::pods::{Ended, by_node, on_node};
use super::{status, update};
use crate::kube::Kind;

fn now() -> Timestamp {
    Timestamp::from_second(1000).unwrap()
}

fn set(pod: Value, rolling: Value) -> DaemonSet {
    let mut spec = json!({ "containers": [] });
    for (name, value) in pod.as_object().unwrap() {
        spec[name.as_str()] = value.clone();
    }
    let template = json!({ "metadata": { "labels": { "app": "d" } }, "spec": spec });
    let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": rolling });
    let spec =
        json!({ "selector": { "matchLabels": { "app": "d" } }, "template": template, "updateStrategy": strategy });
    from_value(json!({ "metadata": { "name": "d", "namespace": "default", "uid": "d" }, "spec": spec })).unwrap()
}

fn node(name: &str, labels: Value, taints: Value) -> Arc<Node> {
    Arc::new(
        from_value(json!({ "metadata": { "name": name, "labels": labels }, "spec": { "taints": taints } })).unwrap(),
    )
}

fn pod(name: &str, node: &str, hash: &str, phase: &str, ready: &str) -> Arc<Pod> {
    let condition = json!({ "type": "Ready", "status": ready, "lastTransitionTime": "1970-01-01T00:00:00Z" });
    Arc::new(
        from_value(json!({
            "metadata": { "name": name, "uid": name, "labels": { HASH_LABEL: hash } },
            "spec": { "nodeName": node, "containers": [] },
            "status": { "phase": phase, "conditions": [condition] },
        }))
        .unwrap(),
    )
}

const RUNS: Fit = Fit { should_run: true, may_stay: true };
const NOT: Fit = Fit { should_run: false, may_stay: false };
const STAYS: Fit = Fit { should_run: false, may_stay: true };

#[rstest]
#[case(json!({}), json!({}), json!([]), RUNS)]
#[case(json!({ "nodeSelector": { "disk": "ssd" } }), json!({}), json!([]), NOT)]
#[case(json!({ "nodeSelector": { "disk": "ssd" } }), json!({ "disk": "ssd" }), json!([]), RUNS)]
#[case(json!({}), json!({}), json!([{ "key": "own", "effect": "NoSchedule" }]), STAYS)]
#[case(json!({}), json!({}), json!([{ "key": "own", "effect": "NoExecute" }]), NOT)]
#[case(json!({ "tolerations": [{ "operator": "Exists" }] }), json!({}), json!([{ "key": "own", "effect": "NoExecute" }]), RUNS)]
#[case(json!({}), json!({}), json!([{ "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" }]), RUNS)]
#[case(json!({}), json!({}), json!([{ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }]), RUNS)]
#[case(json!({ "nodeName": "other" }), json!({}), json!([]), NOT)]
fn nodes_fit_by_selector_and_taints(
    #[case] pod: Value,
    #[case] labels: Value,
    #[case] taints: Value,
    #[case] expected: Fit,
) {
    assert_eq!(fit(&set(pod, json!({})), &node("n", labels, taints)), expected);
}

#[test]
fn a_pod_is_limited_to_its_node() {
    let mut template = template(&set(json!({}), json!({})), "h");
    let spec = template.spec.as_mut().unwrap();
    assign(spec, "n");
    assert_eq!(spec.tolerations.as_ref().unwrap().len(), 6);
    let pod = Pod { spec: template.spec, ..Pod::default() };
    assert_eq!(target(&pod), Some("n"));
    assert_eq!(template.metadata.unwrap().labels.unwrap()[HASH_LABEL], "h");
}

#[test]
fn a_node_has_one_pod() {
    let set = set(json!({}), json!({ "maxUnavailable": 1, "maxSurge": 0 }));
    assert!(on_node(&set, RUNS, None, "h", now()).creates && !on_node(&set, STAYS, None, "h", now()).creates);
    let two = vec![pod("b", "n", "h", "Running", "True"), pod("a", "n", "h", "Running", "True")];
    assert_eq!(on_node(&set, RUNS, Some(&two), "h", now()).deletes, ["b"]);
    assert_eq!(on_node(&set, STAYS, Some(&two), "h", now()).deletes, ["b"]);
    assert_eq!(on_node(&set, NOT, Some(&two), "h", now()).deletes, ["b", "a"]);
    let failed = pod("f", "n", "h", "Failed", "False");
    assert_eq!(on_node(&set, RUNS, Some(&vec![failed.clone()]), "h", now()).ended, [Ended::Failed(failed)]);
}

#[test]
fn an_update_keeps_to_its_limit() {
    let wanted = ["node-a", "node-b", "node-c"].map(str::to_owned).into();
    let rolling = |limits: Value, pods: &[Arc<Pod>]| {
        update::rolling(&set(json!({}), limits), &by_node(pods), "new", &wanted, now())
    };
    let mut pods = ["a", "b", "c"].map(|name| pod(name, &format!("node-{name}"), "old", "Running", "True")).to_vec();
    let one = json!({ "maxUnavailable": 1, "maxSurge": 0 });
    assert_eq!(rolling(one.clone(), &pods).deletes, ["a"]);
    assert_eq!(rolling(json!({ "maxUnavailable": "50%", "maxSurge": 0 }), &pods).deletes, ["a", "b"]);
    pods[1] = pod("b", "node-b", "old", "Running", "False");
    assert_eq!(rolling(one.clone(), &pods).deletes, ["b"], "a pod that is down costs nothing");
    pods[1] = pod("b", "node-b", "new", "Running", "False");
    assert!(rolling(one, &pods).deletes.is_empty());
    assert!(
        rolling(json!({ "maxUnavailable": 1, "maxSurge": 0 }), &pods[..1]).deletes.is_empty(),
        "two nodes lack a pod"
    );
    let surge = json!({ "maxUnavailable": 0, "maxSurge": 1 });
    pods[1] = pod("b", "node-b", "old", "Running", "True");
    assert_eq!(rolling(surge.clone(), &pods).creates, ["node-a"]);
    pods.push(pod("a2", "node-a", "new", "Running", "True"));
    let next = rolling(surge, &pods);
    assert_eq!((next.deletes, next.creates), (vec!["a".to_owned()], vec!["node-b".to_owned()]));
}

#[test]
fn a_surge_leaves_a_node_once_the_others_have_their_pods() {
    let set = set(json!({}), json!({ "maxUnavailable": 0, "maxSurge": 1 }));
    let old = |name: &str, ready: &str| pod(name, &format!("node-{name}"), "old", "Running", ready);
    let new = |name: &str, ready: &str| pod(name, &format!("node-{name}"), "new", "Running", ready);
    let wanted = ["node-a".to_owned()].into();
    let rolling = |pods: &[Arc<Pod>]| update::rolling(&set, &by_node(pods), "new", &wanted, now());
    assert!(rolling(&[new("a", "False"), old("b", "True")]).deletes.is_empty());
    assert_eq!(rolling(&[new("a", "True"), old("b", "True")]).deletes, ["b"]);
    assert_eq!(rolling(&[new("a", "False"), old("b", "False")]).deletes, ["b"]);
    // A pod that is being deleted is replaced at once.
    let mut leaving = Pod::clone(&old("a", "True"));
    leaving.metadata.deletion_timestamp = Some(crate::kube::time(now()));
    assert!(on_node(&set, RUNS, Some(&vec![Arc::new(leaving)]), "new", now()).creates);
}

#[test]
fn a_status_counts_nodes() {
    let set = set(json!({ "nodeSelector": { "disk": "ssd" } }), json!({}));
    let ssd = json!({ "disk": "ssd" });
    let nodes = [node("a", ssd.clone(), json!([])), node("b", ssd, json!([])), node("c", json!({}), json!([]))];
    let pods = [pod("x", "a", "h", "Running", "True"), pod("y", "c", "h", "Running", "True")];
    let status = status::calculate(&set, &nodes, &by_node(&pods), "h", true, now());
    assert_eq!((status.desired_number_scheduled, status.current_number_scheduled), (2, 1));
    assert_eq!((status.number_misscheduled, status.number_ready, status.number_unavailable), (1, 1, Some(1)));
    assert_eq!(set.name(), "d");
}

#[test]
fn a_changed_node_concerns_a_set_that_has_to_add_or_remove_a_pod() {
    let [runs, stays, goes] =
        [(true, true), (false, true), (false, false)].map(|(should_run, may_stay)| Fit { should_run, may_stay });
    assert!(concerns(runs, false, 0) && concerns(goes, true, 0));
    assert!(!concerns(runs, true, 0) && !concerns(goes, false, 0));
    // As upstream's, the status is wrong until something else happens.
    assert!(!concerns(stays, true, 0) && concerns(stays, true, 1));
    let tainted = node("n", json!({}), json!([{ "key": "k", "effect": "NoSchedule" }]));
    assert!(!is_same_place(&node("n", json!({}), json!([])), &tainted));
    assert!(is_same_place(&tainted, &tainted));
}
