//! Each workload with the status that its pods give it, and with another one.

use rstest::rstest;
use serde_json::{Value as Json, json};

use super::super::tests::found_without;

fn pod(owner: &str, at: u8, ready: &str) -> Json {
    let owners = json!([{ "uid": owner, "controller": true }]);
    let labels = json!({ "app": "web", "controller-revision-hash": "new" });
    let metadata =
        json!({ "namespace": "default", "name": format!("web-{at}"), "labels": labels, "ownerReferences": owners });
    let conditions = json!([{ "type": "Ready", "status": ready }]);
    let status = json!({ "phase": "Running", "conditions": conditions });
    json!({ "metadata": metadata, "spec": { "nodeName": "node-a" }, "status": status })
}

/// Returns an object of the namespace `default` at its generation 2, with its uid `u`.
fn object(spec: Json, mut status: Json) -> Json {
    status["observedGeneration"] = 2.into();
    json!({ "metadata": { "namespace": "default", "name": "web", "uid": "u", "generation": 2 },
        "spec": spec, "status": status })
}

/// Returns the differences of a cluster with a workload and a ready and an unready pod of it.
fn found(resource: &str, spec: &Json, status: &Json, left_out: &[&str]) -> Vec<String> {
    found_without(left_out, |cluster| {
        cluster["pods"] = json!([pod("u", 0, "True"), pod("u", 1, "False")]);
        cluster["claims"] = json!([]);
        cluster["workloads"] = json!([[resource, object(spec.clone(), status.clone())]]);
    })
}

#[rstest]
#[case("statefulsets", json!({ "replicas": 2 }), json!({ "replicas": 2, "readyReplicas": 1 }),
    json!({ "replicas": 1, "readyReplicas": 1 }), "has 2 pods, and its status.replicas is 1", "statefulset-controller")]
#[case("replicasets", json!({ "replicas": 2 }), json!({ "replicas": 2, "readyReplicas": 1, "availableReplicas": 1 }),
    json!({ "replicas": 2, "readyReplicas": 1, "availableReplicas": 2 }),
    "has 1 pods that are available, and its status.availableReplicas is 2", "replicaset-controller")]
#[case("poddisruptionbudgets", json!({ "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } }),
    json!({ "expectedPods": 2, "currentHealthy": 1, "desiredHealthy": 1 }),
    json!({ "expectedPods": 2, "currentHealthy": 2, "desiredHealthy": 1, "disruptionsAllowed": 1 }),
    "has 1 pods that are ready, and its status.currentHealthy is 2", "disruption-controller")]
#[case("poddisruptionbudgets", json!({ "minAvailable": "60%", "selector": { "matchLabels": { "app": "web" } } }),
    json!({ "expectedPods": 2, "currentHealthy": 1, "desiredHealthy": 2 }),
    json!({ "expectedPods": 2, "currentHealthy": 1, "desiredHealthy": 1 }),
    "asks for status.desiredHealthy 2, and it is 1", "disruption-controller")]
#[case("jobs", json!({ "template": { "spec": { "restartPolicy": "Never" } }, "backoffLimit": 1 }),
    json!({ "failed": 1 }),
    json!({ "failed": 2 }), "has 2 pods that failed, and its backoffLimit is 1", "job-controller")]
#[case("jobs", json!({ "template": { "spec": { "restartPolicy": "Never" } } }), json!({}),
    json!({ "conditions": [{ "type": "Failed", "status": "True", "reason": "DeadlineExceeded" }] }),
    "has ended, and pod/web-0 has not", "job-controller")]
fn a_status_counts_what_exists(
    #[case] resource: &str,
    #[case] spec: Json,
    #[case] right: Json,
    #[case] wrong: Json,
    #[case] message: &str,
    #[case] component: &str,
) {
    assert_eq!(found(resource, &spec, &right, &[]), Vec::<String>::new());
    assert_eq!(found(resource, &spec, &wrong, &[]), [format!("{resource}/default/web {message}")]);
    assert_eq!(found(resource, &spec, &wrong, &[component]), Vec::<String>::new());
}

#[test]
fn a_workload_controls_what_it_selects() {
    let with = |label: &str, phase: &str| {
        found_without(&[], |cluster| {
            let mut own = pod("u", 0, "True");
            own["metadata"]["labels"]["app"] = label.into();
            own["status"]["phase"] = phase.into();
            cluster["pods"] = json!([own]);
            cluster["claims"] = json!([]);
            let spec = json!({ "replicas": 1, "selector": { "matchLabels": { "app": "web" } } });
            let status = json!({ "replicas": 1, "readyReplicas": 1, "availableReplicas": 1 });
            cluster["workloads"] = json!([["replicasets", object(spec, status)]]);
        })
    };
    assert_eq!(with("web", "Running"), Vec::<String>::new());
    let kept = ["replicasets/default/web controls pod/web-0, whose labels it does not select"];
    assert_eq!(with("web-debug", "Running"), kept);
    assert!(!with("web-debug", "Succeeded").contains(&kept[0].to_owned()), "its controller leaves it alone");
}

#[test]
fn a_status_is_of_the_newest_generation() {
    let late = found_without(&[], |cluster| {
        let mut set = object(json!({ "replicas": 0 }), json!({}));
        set["status"]["observedGeneration"] = 1.into();
        cluster["workloads"] = json!([["statefulsets", set]]);
    });
    assert_eq!(late, ["statefulsets/default/web has the generation 2, and its status is of 1"]);
}

#[test]
fn a_stateful_set_whose_pods_are_ready_has_all_of_them_at_its_revision() {
    let set = |replicas: u8, revision: &str| {
        found_without(&[], |cluster| {
            cluster["pods"] = json!([pod("u", 0, "True")]);
            cluster["claims"] = json!([]);
            let spec = json!({ "replicas": replicas, "updateStrategy": { "type": "RollingUpdate" } });
            let status = json!({ "replicas": 1, "readyReplicas": 1, "updateRevision": revision });
            cluster["workloads"] = json!([["statefulsets", object(spec, status)]]);
        })
    };
    assert!(set(1, "new").is_empty());
    assert_eq!(set(2, "new"), ["statefulsets/default/web asks for 2 pods, and has 1, which are ready"]);
    assert_eq!(set(1, "newer"), ["statefulsets/default/web has the revision newer, and pod/web-0 has another"]);
}

#[test]
fn a_deployment_that_is_rolled_out_has_one_set_with_pods_and_few_old_ones() {
    let deployment = |sizes: &[u8], limit: u8| {
        let set = |(at, size): (usize, &u8)| {
            let owners = json!([{ "uid": "u", "controller": true }]);
            let metadata = json!({ "namespace": "default", "name": format!("web-{at}"), "uid": at.to_string(),
                "ownerReferences": owners });
            let status = json!({ "replicas": size, "readyReplicas": size, "availableReplicas": size });
            json!(["replicasets", { "metadata": metadata, "spec": { "replicas": size }, "status": status }])
        };
        found_without(&["replicaset-controller"], |cluster| {
            let total: u8 = sizes.iter().sum();
            let spec = json!({ "replicas": 2, "revisionHistoryLimit": limit });
            let status = json!({ "replicas": total, "readyReplicas": total, "availableReplicas": total });
            let sets = sizes.iter().enumerate().map(set);
            let all = sets.chain([json!(["deployments", object(spec, status)])]);
            cluster["workloads"] = all.collect();
        })
    };
    assert!(deployment(&[0, 2], 1).is_empty());
    let two = ["deployments/default/web asks for 2 pods, and its ReplicaSets ask for [1, 1]"];
    assert_eq!(deployment(&[1, 1], 1), two);
    let old = ["deployments/default/web has 2 old ReplicaSets, and its revisionHistoryLimit is 1"];
    assert_eq!(deployment(&[0, 0, 2], 1), old);
}

#[test]
fn the_claims_of_a_stateful_set_have_the_labels_of_its_selector() {
    let labelled = |labels: Json, left_out: &[&str]| {
        found_without(left_out, |cluster| {
            cluster["pods"] = json!([pod("u", 0, "True")]);
            let finalizers = json!(["kubernetes.io/pvc-protection"]);
            let metadata = json!({ "namespace": "default", "name": "data-web-0", "labels": labels,
                "finalizers": finalizers });
            cluster["claims"] = json!([{ "metadata": metadata, "spec": {}, "status": {} }]);
            let templates = json!([{ "metadata": { "name": "data" } }]);
            let selector = json!({ "matchLabels": { "app": "web" } });
            let spec = json!({ "replicas": 1, "selector": selector, "volumeClaimTemplates": templates });
            let status = json!({ "replicas": 1, "readyReplicas": 1 });
            cluster["workloads"] = json!([["statefulsets", object(spec, status)]]);
        })
    };
    assert!(labelled(json!({ "app": "web", "of": "template" }), &[]).is_empty());
    let message = "statefulsets/default/web has pvc/data-web-0, which lacks the label app of its selector";
    assert_eq!(labelled(json!({ "app": "other" }), &[]), [message]);
    assert_eq!(labelled(Json::Null, &[]), [message]);
    assert!(labelled(Json::Null, &["statefulset-controller"]).is_empty());
}

#[test]
fn the_pods_of_a_deployment_have_its_template() {
    let template = |labels: Json, image: &str| {
        let containers = json!([{ "name": "app", "image": image }]);
        json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } })
    };
    let updated = |image: &str, progressing: &str| {
        found_without(&["replicaset-controller"], |cluster| {
            let owners = json!([{ "uid": "u", "controller": true }]);
            let metadata = json!({ "namespace": "default", "name": "web-1", "uid": "1", "ownerReferences": owners });
            let mut status = json!({ "replicas": 1, "readyReplicas": 1, "availableReplicas": 1 });
            let own = template(json!({ "app": "web", "pod-template-hash": "1" }), "app:1");
            let set = json!({ "metadata": metadata, "spec": { "replicas": 1, "template": own }, "status": status });
            status["conditions"] = json!([{ "type": "Progressing", "status": progressing }]);
            let spec = json!({ "replicas": 1, "template": template(json!({ "app": "web" }), image) });
            cluster["workloads"] = json!([["replicasets", set], ["deployments", object(spec, status)]]);
        })
    };
    assert!(updated("app:1", "True").is_empty());
    let message = "deployments/default/web has pods of replicaset/web-1, which has another template";
    assert_eq!(updated("app:2", "True"), [message]);
    assert!(updated("app:2", "False").is_empty());
}

#[test]
fn a_pod_that_fits_nowhere_says_why() {
    let waits = |conditions: Json, gates: Json| {
        found_without(&[], |cluster| {
            let metadata = json!({ "namespace": "default", "name": "web", "uid": "u" });
            let spec = json!({ "schedulerName": "default-scheduler", "schedulingGates": gates });
            let status = json!({ "phase": "Pending", "conditions": conditions });
            cluster["pods"] = json!([{ "metadata": metadata, "spec": spec, "status": status }]);
        })
    };
    let message = "pod/default/web is on no node, and has no condition PodScheduled: False";
    assert_eq!(waits(json!([]), json!([])), [message]);
    assert!(waits(json!([{ "type": "PodScheduled", "status": "False" }]), json!([])).is_empty());
    assert!(waits(json!([]), json!([{ "name": "later" }])).is_empty());
}
