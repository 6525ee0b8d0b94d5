//! Constraints and scores, in tables.

use std::sync::Arc;

use rstest::rstest;
use substrate::json::{Value, from_value, json};

use super::*;
use crate::scheduler::cache::SchedulerCache;

/// Builds zones of nodes with so many pods of `app=web` each.
fn cluster(zones: &[(&str, &[usize])]) -> SchedulerCache {
    let mut cache = SchedulerCache::default();
    for (zone, nodes) in zones {
        for (at, pods) in nodes.iter().enumerate() {
            let name = format!("node-{zone}{at}");
            let labels = json!({ "zone": zone, "topology.kubernetes.io/zone": zone, HOSTNAME: name });
            let node = json!({ "metadata": { "name": name, "labels": labels } });
            cache.store_node(Arc::new(from_value(node).expect("a node")));
            for pod in 0..*pods {
                cache.place(Arc::new(web(&format!("{name}-{pod}"), json!(null))), &name);
            }
        }
    }
    cache
}

fn web(name: &str, constraints: Value) -> Pod {
    let metadata = json!({ "namespace": "default", "name": name, "labels": { "app": "web" } });
    let spec = json!({ "containers": [], "topologySpreadConstraints": constraints });
    from_value(json!({ "metadata": metadata, "spec": spec })).expect("a pod")
}

fn constraint(key: &str, extra: Value) -> Value {
    let mut constraint = json!({
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } },
    });
    if let (Some(into), Value::Object(from)) = (constraint.as_object_mut(), extra) {
        from.into_iter().for_each(|(key, value)| drop(into.insert(key, value)));
    }
    constraint
}

// Cases of upstream's TestSingleConstraint.
#[rstest]
#[case::zones(constraint("zone", json!({})), &[("a", &[2, 1][..]), ("b", &[0, 3][..])], "node-a0 node-a1 node-b0 node-b1")]
#[case::uneven_zones(constraint("zone", json!({})), &[("a", &[2, 1][..]), ("b", &[0, 2][..])], "node-b0 node-b1")]
#[case::nodes(constraint(HOSTNAME, json!({})), &[("a", &[2, 1][..]), ("b", &[0, 3][..])], "node-b0")]
#[case::larger_skew(constraint(HOSTNAME, json!({ "maxSkew": 2 })), &[("a", &[2, 1][..]), ("b", &[0, 3][..])], "node-a1 node-b0")]
#[case::too_few_domains(constraint("zone", json!({ "minDomains": 3 })), &[("a", &[1][..]), ("b", &[1][..])], "")]
#[case::other_pods(constraint("zone", json!({ "labelSelector": {} })), &[("a", &[3][..]), ("b", &[0][..])], "node-a0 node-b0")]
#[case::no_such_label(constraint("rack", json!({})), &[("a", &[0][..])], "")]
fn nodes_pass(#[case] constraint: Value, #[case] zones: &[(&str, &[usize])], #[case] expected: &str) {
    let cache = cluster(zones);
    let pod = web("p", json!([constraint]));
    let counts = Counts::of(&cache, &pod);
    let nodes = cache.nodes.iter().filter_map(|(name, info)| Some((name.as_str(), info.node.as_ref()?)));
    let passing = nodes.filter(|(_, node)| check(&counts, &pod, node).is_ok()).map(|(name, _)| name);
    assert_eq!(passing.collect::<Vec<_>>().join(" "), expected);
}

#[test]
fn a_pod_that_goes_makes_room_in_its_domain() {
    let cache = cluster(&[("a", &[1]), ("b", &[0])]);
    let pod = web("p", json!([constraint("zone", json!({}))]));
    let mut counts = Counts::of(&cache, &pod);
    let node = cache.nodes["node-a0"].node.clone().expect("is there");
    assert!(check(&counts, &pod, &node).is_err_and(|rejection| !rejection.hopeless));
    counts.change(&pod, &web("q", json!(null)), &node, -1);
    assert!(check(&counts, &pod, &node).is_ok());
}

fn scored(cache: &SchedulerCache, pod: &Pod) -> Option<Vec<i64>> {
    scores(cache, pod, &cache.nodes.values().collect::<Vec<_>>())
}

// Cases of upstream's TestPodTopologySpreadScore.
#[rstest]
#[case::one_constraint(HOSTNAME, &[2, 1, 0, 3], [20, 60, 100, 0])]
#[case::no_pods(HOSTNAME, &[0, 0, 0, 0], [100, 100, 100, 100])]
fn fewer_similar_pods_score_higher(#[case] key: &str, #[case] pods: &[usize], #[case] expected: [i64; 4]) {
    let cache = cluster(&[("a", pods)]);
    let pod = web("p", json!([constraint(key, json!({ "whenUnsatisfiable": "ScheduleAnyway" }))]));
    assert_eq!(scored(&cache, &pod).expect("a constraint"), expected);
}

#[test]
fn pods_of_a_service_or_controller_are_spread_by_default() {
    let mut cache = cluster(&[("a", &[3, 0]), ("b", &[0])]);
    let mut pod = web("p", json!(null));
    assert_eq!(scored(&cache, &pod), None, "it belongs to no Service");
    let metadata = json!({ "namespace": "default", "name": "web" });
    let service = json!({ "metadata": metadata, "spec": { "selector": { "app": "web" } } });
    let key = ("default".to_owned(), "web".to_owned());
    cache.owners.services.insert(key.clone(), Arc::new(from_value(service).expect("a Service")));
    let scores = scored(&cache, &pod).expect("constraints");
    assert!(scores[0] < scores[1] && scores[1] < scores[2], "node and zone count: {scores:?}");
    cache.owners.services.clear();
    let spec = json!({ "selector": { "matchLabels": { "app": "web" } }, "serviceName": "web", "template": {} });
    let set = json!({ "metadata": metadata, "spec": spec });
    cache.owners.stateful_sets.insert(key, Arc::new(from_value(set).expect("a StatefulSet")));
    assert_eq!(scored(&cache, &pod), None, "it has no controller");
    let owner =
        json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": true });
    pod.metadata.owner_references = Some(vec![from_value(owner).expect("a reference")]);
    assert_eq!(scored(&cache, &pod), Some(scores));
}
