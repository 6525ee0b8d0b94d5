//! Preemption over the cache, in tables.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rstest::rstest;
use substrate::json::{Value, json};

use super::cache::{SchedulerCache, SeededBugs};
use super::cycle::schedule;
use super::fit_error::Verdict;
use super::nominations::Nomination;
use super::tests::{add_claim, add_class, add_volume, bound_to, limit, make, node, pod, with};

const LOW: i32 = 0;
const MID: i32 = 100;
const HIGH: i32 = 1000;

/// Builds a pod that requests so many milli-CPUs.
fn asking(name: &str, priority: i32, milli: i64, extra: Value) -> Pod {
    let container = json!({ "name": "c", "resources": { "requests": { "cpu": format!("{milli}m") } } });
    pod(name, &[], with(json!({ "spec": { "priority": priority, "containers": [container] } }), extra))
}

fn started(at: &str) -> Value {
    json!({ "status": { "startTime": format!("2026-01-01T{at}:00Z") } })
}

/// Builds nodes of 4 CPUs and 110 pods.
fn nodes(count: usize) -> SchedulerCache {
    let mut cache = SchedulerCache::default();
    for name in ["node-a", "node-b", "node-c"].into_iter().take(count) {
        cache.store_node(Arc::new(node(name, "a", json!({ "status": { "allocatable": { "pods": "110" } } }))));
    }
    cache
}

fn verdict(cache: &SchedulerCache, pod: &Pod) -> Verdict {
    schedule(cache, pod).expect_err("no room").verdict
}

/// Returns the node and the names of the victims.
fn victims(cache: &SchedulerCache, pod: &Pod) -> Option<(String, Vec<String>)> {
    let candidate = verdict(cache, pod).candidate?;
    let names = candidate.victims.iter().map(|pod| pod.metadata.name.clone().expect("a name")).collect();
    Some((candidate.node, names))
}

fn on_node_a(names: &[&str]) -> Option<(String, Vec<String>)> {
    Some(("node-a".to_owned(), names.iter().map(|name| (*name).to_owned()).collect()))
}

// Cases of upstream's TestDryRunPreemption.
#[rstest]
#[case::one_is_enough(&[("a", LOW, 2000), ("b", LOW, 2000)], 2000, &["b"])]
#[case::all_are_needed(&[("a", LOW, 2000), ("b", LOW, 2000)], 4000, &["a", "b"])]
#[case::the_important_one_stays(&[("a", LOW, 1000), ("b", MID, 3000)], 1000, &["a"])]
#[case::a_small_one_does_not_suffice(&[("a", LOW, 1000), ("b", MID, 3000)], 2000, &["b"])]
#[case::equal_ones_do_not_yield(&[("a", HIGH, 2000), ("b", LOW, 2000)], 2000, &["b"])]
fn the_fewest_and_least_important_pods_go(
    #[case] there: &[(&str, i32, i64)],
    #[case] asks: i64,
    #[case] expected: &[&str],
) {
    let mut cache = nodes(1);
    for (name, priority, milli) in there {
        cache.place(Arc::new(asking(name, *priority, *milli, json!({}))), "node-a");
    }
    let pod = asking("p", HIGH, asks, json!({}));
    assert_eq!(victims(&cache, &pod), on_node_a(expected));
    let error = schedule(&cache, &pod).expect_err("no room");
    assert_eq!(error.to_string(), "0/1 nodes are available: 1 Insufficient cpu.");
    assert_eq!(error.verdict.nomination, Nomination::Node("node-a".to_owned()));
}

#[test]
fn among_equals_the_one_that_runs_longest_stays() {
    let mut cache = nodes(1);
    for (name, at) in [("a", "03:00"), ("b", "01:00"), ("c", "02:00")] {
        cache.place(Arc::new(asking(name, LOW, 1300, started(at))), "node-a");
    }
    assert_eq!(victims(&cache, &asking("p", HIGH, 1300, json!({}))), on_node_a(&["a"]));
    cache.place(Arc::new(asking("never-started", LOW, 100, json!({}))), "node-a");
    assert_eq!(victims(&cache, &asking("p", HIGH, 100, json!({}))), on_node_a(&["never-started"]));
}

#[test]
fn pods_of_a_budget_stay_before_others() {
    let mut cache = nodes(1);
    let labels = json!({ "metadata": { "labels": { "app": "web" } } });
    cache.place(Arc::new(asking("protected", LOW, 2000, labels)), "node-a");
    cache.place(Arc::new(asking("other", MID, 2000, json!({}))), "node-a");
    let budget = json!({
        "metadata": { "namespace": "default", "name": "web" },
        "spec": { "selector": { "matchLabels": { "app": "web" } } },
        "status": { "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1 },
    });
    assert_eq!(victims(&cache, &asking("p", HIGH, 2000, json!({}))), on_node_a(&["protected"]));
    cache.budgets.insert(("default".to_owned(), "web".to_owned()), Arc::new(make(budget)));
    assert_eq!(victims(&cache, &asking("p", HIGH, 2000, json!({}))), on_node_a(&["other"]));
    // A budget does not prevent preemption if there is no other way.
    let all = verdict(&cache, &asking("p", HIGH, 4000, json!({}))).candidate.expect("a candidate");
    assert_eq!((all.victims.len(), all.violations), (2, 1));
}

#[test]
fn no_preemption_helps_against_what_pods_do_not_cause() {
    let mut cache = nodes(3);
    for (at, name) in ["node-a", "node-b", "node-c"].into_iter().enumerate() {
        cache.place(Arc::new(asking(&format!("low-{at}"), LOW, 4000, json!({}))), name);
    }
    cache.place(Arc::new(asking("high", HIGH, 0, json!({}))), "node-b");
    let message = |cache: &SchedulerCache, pod: &Pod| verdict(cache, pod).message;
    assert_eq!(
        message(&cache, &asking("p", HIGH, 5000, json!({}))),
        "no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    );
    assert_eq!(
        message(&cache, &asking("p", LOW, 100, json!({}))),
        "no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming \
         pod."
    );
    // Pods without a request yield nothing: node-b has the only ones.
    let mut cache = nodes(2);
    cache.place(Arc::new(asking("high", HIGH, 4000, json!({}))), "node-a");
    cache.place(Arc::new(asking("higher", HIGH, 4000, json!({}))), "node-b");
    cache.place(Arc::new(asking("low", LOW, 0, json!({}))), "node-b");
    assert_eq!(
        message(&cache, &asking("p", MID, 100, json!({}))),
        "no new claims to deallocate, preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims \
         found for incoming pod."
    );
}

#[test]
fn a_pod_with_the_policy_never_waits() {
    let mut cache = nodes(1);
    cache.place(Arc::new(asking("low", LOW, 4000, json!({}))), "node-a");
    let never = asking("p", HIGH, 1000, json!({ "spec": { "preemptionPolicy": "Never" } }));
    let refused = verdict(&cache, &never);
    assert_eq!(refused.message, "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.");
    assert_eq!((refused.nomination, refused.candidate), (Nomination::Keep, None));
    cache.seeded_bugs = SeededBugs { ignores_preemption_policy: true, ..SeededBugs::default() };
    assert_eq!(victims(&cache, &never), on_node_a(&["low"]));
}

#[test]
fn a_pod_waits_while_its_victims_terminate() {
    let mut cache = nodes(2);
    let terminating = json!({
        "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" },
        "status": { "conditions": [{ "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler" }] },
    });
    cache.place(Arc::new(asking("low-a", LOW, 4000, terminating)), "node-a");
    cache.place(Arc::new(asking("low-b", LOW, 4000, json!({}))), "node-b");
    let nominated = asking("p", HIGH, 1000, json!({ "status": { "nominatedNodeName": "node-a" } }));
    let waits = verdict(&cache, &nominated);
    assert_eq!(
        waits.message,
        "no new claims to deallocate, preemption: not eligible due to a terminating pod on the nominated node."
    );
    assert_eq!((waits.nomination, waits.candidate), (Nomination::Keep, None));
    // A node on which the pod cannot run any more does not make it wait.
    cache.store_node(Arc::new(node("node-a", "a", json!({ "spec": { "unschedulable": true } }))));
    assert_eq!(victims(&cache, &nominated).map(|(node, _)| node).as_deref(), Some("node-b"));
    cache.remove_node("node-a");
    assert_eq!(victims(&cache, &nominated).map(|(node, _)| node).as_deref(), Some("node-b"));
}

#[test]
fn room_is_kept_for_nominated_pods_of_the_same_or_a_higher_priority() {
    let mut cache = nodes(1);
    cache.place(Arc::new(asking("there", LOW, 1000, json!({}))), "node-a");
    let waiting = asking("waiting", MID, 2000, json!({}));
    cache.nominations.add(Arc::new(waiting.clone()), &Nomination::Node("node-a".to_owned()));
    let fits = |cache: &SchedulerCache, priority| schedule(cache, &asking("p", priority, 2000, json!({}))).is_ok();
    assert!(!fits(&cache, LOW) && !fits(&cache, MID) && fits(&cache, HIGH));
    assert!(schedule(&cache, &waiting).is_ok(), "it does not wait for itself");
    cache.seeded_bugs = SeededBugs { ignores_nominations: true, ..SeededBugs::default() };
    assert!(fits(&cache, LOW));
}

#[test]
fn a_claim_for_one_pod_and_a_port_are_taken_from_their_users() {
    let mut cache = nodes(2);
    add_volume(&mut cache, "v", None, json!({}));
    let once = with(bound_to("v"), json!({ "spec": { "accessModes": ["ReadWriteOncePod"] } }));
    add_claim(&mut cache, "data", once);
    cache.place(Arc::new(pod("user", &["data"], json!({}))), "node-b");
    cache.place(Arc::new(pod("bystander", &[], json!({}))), "node-a");
    let taker = pod("p", &["data"], json!({ "spec": { "priority": HIGH } }));
    let candidate = verdict(&cache, &taker).candidate.expect("a candidate");
    assert_eq!((candidate.node.as_str(), candidate.victims[0].metadata.name.as_deref()), ("node-b", Some("user")));
    let port = json!([{ "name": "c", "ports": [{ "containerPort": 80, "hostPort": 80 }] }]);
    let mut cache = nodes(1);
    cache.place(Arc::new(pod("server", &[], json!({ "spec": { "containers": port } }))), "node-a");
    let server = pod("p", &[], json!({ "spec": { "priority": HIGH, "containers": port } }));
    assert_eq!(victims(&cache, &server), on_node_a(&["server"]));
}

#[test]
fn a_place_for_a_volume_is_taken_unless_the_volume_is_attached() {
    let mut cache = nodes(1);
    add_class(&mut cache, "WaitForFirstConsumer", json!({}));
    for (volume, claim) in [("v1", "c1"), ("v2", "c2")] {
        add_volume(&mut cache, volume, None, json!({}));
        add_claim(&mut cache, claim, bound_to(volume));
    }
    limit(&mut cache, "node-a", 1);
    cache.place(Arc::new(pod("low", &["c1"], json!({}))), "node-a");
    let taker = pod("p", &["c2"], json!({ "spec": { "priority": HIGH } }));
    assert_eq!(victims(&cache, &taker), on_node_a(&["low"]));
    cache.store_attachment(&make(json!({
        "metadata": { "name": "csi-1" },
        "spec": {
            "attacher": super::tests::DRIVER, "nodeName": "node-a", "source": { "persistentVolumeName": "v1" },
        },
    })));
    let error = schedule(&cache, &taker).expect_err("no room").to_string();
    let end = "preemption: 0/1 nodes are available: 1 node(s) exceed max volume count.";
    assert!(error.ends_with(end), "{error}");
}

#[test]
fn a_driver_that_must_be_on_the_node_is_awaited() {
    let mut cache = nodes(1);
    add_class(&mut cache, "WaitForFirstConsumer", json!({}));
    add_claim(&mut cache, "data", json!({}));
    let asks = pod("p", &["data"], json!({}));
    assert!(schedule(&cache, &asks).is_ok(), "without the CSINode there is no limit");
    let driver = super::tests::DRIVER;
    let spec = json!({ "preventPodSchedulingIfMissing": true });
    cache.drivers.insert(driver.to_owned(), Arc::new(make(json!({ "metadata": { "name": driver }, "spec": spec }))));
    let error = schedule(&cache, &asks).expect_err("no driver").to_string();
    let expected = format!("0/1 nodes are available: 1 {driver} CSI driver is not installed on the node.");
    assert!(error.starts_with(&expected), "{error}");
    cache.store_csi_node(&make(json!({ "metadata": { "name": "node-a" }, "spec": { "drivers": [] } })));
    assert!(schedule(&cache, &asks).is_err());
    limit(&mut cache, "node-a", 5);
    assert!(schedule(&cache, &asks).is_ok());
}

#[test]
fn the_node_with_the_most_free_resources_wins_before_the_fewest_pods() {
    let mut cache = nodes(2);
    cache.place(Arc::new(asking("large", LOW, 3000, json!({}))), "node-a");
    for name in ["b1", "b2", "b3"] {
        cache.place(Arc::new(asking(name, LOW, 100, json!({}))), "node-b");
    }
    assert_eq!(schedule(&cache, &asking("p", LOW, 100, json!({}))).map(|p| p.node), Ok("node-b".to_owned()));
    let taint = json!({ "spec": { "taints": [{ "key": "k", "effect": "PreferNoSchedule" }] } });
    let pods = json!({ "status": { "allocatable": { "pods": "110" } } });
    cache.store_node(Arc::new(node("node-b", "a", with(taint, pods))));
    assert_eq!(schedule(&cache, &asking("p", LOW, 100, json!({}))).map(|p| p.node), Ok("node-a".to_owned()));
    let term =
        json!({ "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": ["node-b"] }] });
    let affinity = json!({ "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "preference": term }],
    } });
    let tolerations = json!([{ "operator": "Exists" }]);
    let prefers = json!({ "spec": { "affinity": affinity, "tolerations": tolerations } });
    assert_eq!(schedule(&cache, &asking("p", LOW, 100, prefers)).map(|p| p.node), Ok("node-b".to_owned()));
}
