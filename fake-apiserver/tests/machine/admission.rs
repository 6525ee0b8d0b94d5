use substrate::json::json;

use super::*;

fn default_class(name: &str) -> Value {
    let mut class = class(name);
    class["metadata"]["annotations"] = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    class
}

#[test]
fn a_claim_without_a_class_gets_the_newest_default_class_and_of_one_second_the_first_by_name() {
    let mut m = Machine::new();
    m.create("storageclasses", default_class("old")).unwrap();
    m.now = Duration::from_secs(10);
    m.create("storageclasses", default_class("b")).unwrap();
    m.create("storageclasses", default_class("a")).unwrap();
    m.create("storageclasses", class("z")).unwrap();
    assert_eq!(m.create("persistentvolumeclaims", claim("c")).unwrap()["spec"]["storageClassName"], "a");
    let mut none = claim("none");
    none["spec"]["storageClassName"] = json!("");
    assert_eq!(m.create("persistentvolumeclaims", none).unwrap()["spec"]["storageClassName"], "");
}

#[test]
fn a_bound_claim_of_an_expandable_class_may_grow() {
    let mut m = Machine::new();
    let mut expandable = class("gp3");
    expandable["allowVolumeExpansion"] = json!(true);
    m.create("storageclasses", expandable).unwrap();
    let mut object = claim("c");
    object["spec"]["storageClassName"] = json!("gp3");
    m.create("persistentvolumeclaims", object).unwrap();
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    m.patch("persistentvolumeclaims", "c", Part::Status, bound).unwrap();
    let grown = json!({"spec": {"resources": {"requests": {"storage": "2048Mi"}}}});
    let object = m.patch("persistentvolumeclaims", "c", Part::Main, grown).unwrap();
    assert_eq!(object["spec"]["resources"]["requests"]["storage"], "2Gi");
}

#[test]
fn a_pod_tolerates_a_broken_node_for_five_minutes_unless_it_says_otherwise() {
    let mut m = Machine::new();
    let mut own = pod("own");
    own["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]);
    let tolerations = |pod: Value| -> Vec<(String, i64)> {
        let list = pod["spec"]["tolerations"].as_array().unwrap();
        list.iter().map(|t| (t["key"].as_str().unwrap().to_owned(), t["tolerationSeconds"].as_i64().unwrap())).collect()
    };
    let (not_ready, unreachable) =
        ("node.kubernetes.io/not-ready".to_owned(), "node.kubernetes.io/unreachable".to_owned());
    let bare = m.create("pods", pod("bare")).unwrap();
    assert_eq!(tolerations(bare), [(not_ready.clone(), 300), (unreachable.clone(), 300)]);
    let own = m.create("pods", own).unwrap();
    assert_eq!(tolerations(own), [(unreachable, 5), (not_ready, 300)]);
}

#[test]
fn a_pod_names_a_service_account_that_exists() {
    let mut m = Machine::new();
    let mut object = pod("p");
    object["spec"]["serviceAccountName"] = json!("robot");
    let status = m.create("pods", object.clone()).unwrap_err();
    assert_eq!(
        (status.code, status.message.as_str()),
        (
            403,
            "pods \"p\" is forbidden: error looking up service account default/robot: serviceaccount \"robot\" not found"
        )
    );
    m.create("serviceaccounts", json!({"metadata": {"name": "robot"}})).unwrap();
    assert_eq!(m.create("pods", object).unwrap()["spec"]["serviceAccount"], "robot");
}

#[test]
fn a_binding_gives_the_pod_its_nodes_topology() {
    let mut m = Machine::new();
    m.create("nodes", json!({"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "us-east-1a"}}}))
        .unwrap();
    m.create("pods", pod("p")).unwrap();
    m.patch("pods", "p", Part::Status, json!({"status": {"nominatedNodeName": "n"}})).unwrap();
    let binding = json!({"target": {"kind": "Node", "name": "n"}, "metadata": {"annotations": {"a": "b"}}});
    m.apply(Command::Bind { namespace: "default".into(), name: "p".into(), binding, dry_run: false }).unwrap();
    let pod = m.get("pods", "p").unwrap();
    assert_eq!(pod["metadata"]["labels"]["topology.kubernetes.io/zone"], "us-east-1a");
    assert_eq!(pod["metadata"]["annotations"]["a"], "b");
    assert_eq!(pod["status"]["nominatedNodeName"], Value::Null, "who is bound is nominated no more");
}

#[test]
fn a_binding_must_name_a_node_and_fit_the_pod() {
    let mut m = Machine::new();
    m.create("pods", pod("p")).unwrap();
    for (binding, code) in [
        (json!({}), 422),
        (json!({"target": {"kind": "Pod", "name": "n"}}), 422),
        (json!({"metadata": {"uid": "other"}, "target": {"name": "n"}}), 409),
        (json!({"metadata": {"resourceVersion": "1"}, "target": {"name": "n"}}), 409),
        (json!({"metadata": {"name": "q"}, "target": {"name": "n"}}), 400),
    ] {
        let bind = Command::Bind { namespace: "default".into(), name: "p".into(), binding, dry_run: false };
        assert_eq!(m.apply(bind).unwrap_err().code, code);
    }
}
