use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use rstest::rstest;
use substrate::json::{Value, from_value, json};

use super::identity::{Ordinals, claims, is_member_of, new_pod, ordinal, storage_matches};
use super::ownership;
use super::plan::{self, Places, Sets, Step, Write};
use super::status::{self, Revisions};
use crate::kube::Kind;

fn now() -> Timestamp {
    Timestamp::from_second(1000).unwrap()
}

fn set(spec: Value) -> StatefulSet {
    let template = json!({ "metadata": { "labels": { "app": "db" } }, "spec": { "containers": [{ "name": "c" }] } });
    let claim = json!({ "metadata": { "name": "data" }, "spec": {} });
    let mut all = json!({
        "replicas": 2, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } }, "template": template,
        "volumeClaimTemplates": [claim], "podManagementPolicy": "OrderedReady",
        "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } },
    });
    for (name, value) in spec.as_object().unwrap() {
        all[name.as_str()] = value.clone();
    }
    from_value(json!({ "metadata": { "namespace": "default", "name": "db", "uid": "set" }, "spec": all })).unwrap()
}

fn sets(spec: Value) -> Sets {
    let set = set(spec);
    Sets {
        current: set.clone(),
        update: set.clone(),
        set,
        current_revision: "db-old".to_owned(),
        update_revision: "db-new".to_owned(),
    }
}

fn spec(sets: &Sets) -> &StatefulSetSpec {
    sets.set.spec.as_ref().unwrap()
}

/// Returns the pod of an ordinal as the API server would store it.
fn pod(sets: &Sets, ordinal: i32, revision: &str, phase: &str, ready: bool) -> Arc<Pod> {
    let mut pod = new_pod(&sets.update, revision, ordinal).unwrap();
    pod.metadata.uid = Some(format!("pod-{ordinal}"));
    let status = if ready { "True" } else { "False" };
    let condition = json!({ "type": "Ready", "status": status, "lastTransitionTime": "1970-01-01T00:00:00Z" });
    pod.status = Some(from_value(json!({ "phase": phase, "conditions": [condition] })).unwrap());
    Arc::new(pod)
}

fn running(sets: &Sets, ordinal: i32, revision: &str) -> Arc<Pod> {
    pod(sets, ordinal, revision, "Running", true)
}

fn nothing(_: &str) -> Option<Arc<PersistentVolumeClaim>> {
    None
}

fn placed(sets: &Sets, pods: &[Arc<Pod>]) -> Places {
    plan::places(sets, spec(sets), pods, now())
}

fn step(sets: &Sets, pod: &Pod) -> Step {
    plan::replica(sets, spec(sets), pod, &nothing, now())
}

fn writes(blocks: bool, writes: &[Write]) -> Step {
    Step { writes: writes.to_vec(), blocks }
}

#[test]
fn names_give_parents_and_ordinals() {
    let named = |name: &str| -> Pod { from_value(json!({ "metadata": { "name": name } })).unwrap() };
    assert_eq!(ordinal(&named("db-10")), Some(10));
    assert_eq!([ordinal(&named("db")), ordinal(&named("db-x")), ordinal(&named("db-"))], [None; 3]);
    assert!(is_member_of(&set(json!({})), &named("db-1")) && !is_member_of(&set(json!({})), &named("db-a-1")));
    let shifted = set(json!({ "ordinals": { "start": 5 } }));
    let range = Ordinals::of(shifted.spec.as_ref().unwrap());
    assert_eq!(range.iter().collect::<Vec<_>>(), [5, 6]);
    assert!(range.contain(&named("db-6")) && !range.contain(&named("db-4")) && !range.contain(&named("db-7")));
}

#[test]
fn a_pod_has_its_name_its_labels_and_its_claims() {
    let sets = sets(json!({}));
    let pod = new_pod(&sets.update, "db-new", 1).unwrap();
    let labels = pod.metadata.labels.as_ref().unwrap();
    let label = |name: &str| labels.get(name).map(String::as_str);
    assert_eq!(label("statefulset.kubernetes.io/pod-name"), Some("db-1"));
    assert_eq!(label("apps.kubernetes.io/pod-index"), Some("1"));
    assert_eq!(label("controller-revision-hash"), Some("db-new"));
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-1"), Some("db")));
    assert!(storage_matches(&sets.set, &pod));
    let claims = claims(&sets.set, &pod);
    assert_eq!((claims.len(), claims[0].name(), claims[0].label("app")), (1, "data-db-1", Some("db")));
    assert_eq!(pod.metadata.generate_name.as_deref(), Some("db-"));
}

#[test]
fn an_ordered_set_creates_one_pod_after_the_other() {
    let sets = sets(json!({}));
    let places = placed(&sets, &[]);
    assert_eq!(step(&sets, &places.replicas[0]), writes(true, &[Write::Create]));
    let pending = pod(&sets, 0, "db-new", "Pending", false);
    assert_eq!(step(&sets, &pending), writes(true, &[Write::CreateMissingClaims]));
    assert_eq!(step(&sets, &pod(&sets, 0, "db-new", "Running", false)), writes(true, &[]));
    assert_eq!(step(&sets, &running(&sets, 0, "db-new")), writes(false, &[]));
}

#[test]
fn a_parallel_set_does_not_wait() {
    let sets = sets(json!({ "podManagementPolicy": "Parallel" }));
    let places = placed(&sets, &[]);
    assert_eq!(step(&sets, &places.replicas[1]), writes(false, &[Write::Create]));
    assert_eq!(step(&sets, &pod(&sets, 0, "db-new", "Running", false)), writes(false, &[]));
}

#[rstest]
#[case("Failed")]
#[case("Succeeded")]
fn a_finished_pod_is_deleted_once(#[case] phase: &str) {
    let sets = sets(json!({}));
    let mut finished = Pod::clone(&pod(&sets, 0, "db-new", phase, false));
    assert_eq!(step(&sets, &finished), writes(true, &[Write::Delete]));
    finished.metadata.deletion_timestamp = Some(crate::kube::time(now()));
    assert_eq!(step(&sets, &finished), writes(true, &[]));
}

#[test]
fn a_pod_is_available_after_min_ready_seconds() {
    let sets = sets(json!({ "minReadySeconds": 1001 }));
    assert_eq!(step(&sets, &running(&sets, 0, "db-new")), writes(true, &[]));
}

#[test]
fn surplus_pods_go_from_the_highest_ordinal_and_only_when_the_rest_is_healthy() {
    let sets = sets(json!({ "replicas": 1 }));
    let pods: Vec<_> = [0, 1, 2].map(|ordinal| running(&sets, ordinal, "db-new")).to_vec();
    let places = placed(&sets, &pods);
    assert_eq!(places.condemned.iter().map(|pod| pod.name()).collect::<Vec<_>>(), ["db-2", "db-1"]);
    let step = |places: &Places, at: usize| plan::condemned(spec(&sets), places, &places.condemned[at], now());
    assert_eq!(step(&places, 0), writes(true, &[Write::Delete]));
    // Of unhealthy pods only the first one may go.
    let sick = [pods[0].clone(), running(&sets, 1, "db-new"), pod(&sets, 2, "db-new", "Running", false)];
    assert_eq!(step(&placed(&sets, &sick), 0), writes(true, &[Write::Delete]));
    let both = [pods[0].clone(), pod(&sets, 1, "db-new", "Running", false), sick[2].clone()];
    assert_eq!(step(&placed(&sets, &both), 0), writes(true, &[]));
}

#[test]
fn a_rolling_update_replaces_the_highest_ordinal_above_the_partition() {
    let sets_ = |partition: i32| {
        sets(json!({
            "replicas": 3, "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": partition } },
        }))
    };
    let sets = sets_(0);
    let old: Vec<_> = [0, 1, 2].map(|ordinal| running(&sets, ordinal, "db-old")).to_vec();
    let outdated = |sets: &Sets, pods: &[Arc<Pod>]| plan::outdated(sets, spec(sets), &placed(sets, pods), now());
    assert_eq!(outdated(&sets, &old), Some(2));
    let next = [old[0].clone(), old[1].clone(), pod(&sets, 2, "db-new", "Running", false)];
    assert_eq!(outdated(&sets, &next), None);
    assert_eq!(outdated(&sets_(2), &old), Some(2));
    assert_eq!(outdated(&sets_(3), &old), None);
    // A pod below the partition is created at the current revision.
    let missing = placed(&sets_(2), &[]);
    let revisions: Vec<_> = missing.replicas.iter().map(|pod| super::identity::pod_revision(pod)).collect();
    assert_eq!(revisions, ["db-old", "db-old", "db-new"]);
}

#[test]
fn a_parallel_update_waits_for_the_new_pods_only() {
    let rolling = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 0, "maxUnavailable": 2 } });
    let sets = sets(json!({ "replicas": 4, "podManagementPolicy": "Parallel", "updateStrategy": rolling }));
    let mut pods: Vec<_> = [0, 1, 2, 3].map(|ordinal| running(&sets, ordinal, "db-old")).to_vec();
    pods[0] = pod(&sets, 0, "db-old", "Running", false);
    let outdated = |pods: &[Arc<Pod>]| plan::outdated(&sets, spec(&sets), &placed(&sets, pods), now());
    assert_eq!(outdated(&pods), Some(3));
    pods[3] = pod(&sets, 3, "db-new", "Running", false);
    assert_eq!(outdated(&pods), None);
    pods[3] = running(&sets, 3, "db-new");
    assert_eq!(outdated(&pods), Some(2));
}

#[test]
fn on_delete_replaces_nothing() {
    let sets = sets(json!({ "updateStrategy": { "type": "OnDelete" } }));
    let old: Vec<_> = [0, 1].map(|ordinal| running(&sets, ordinal, "db-old")).to_vec();
    assert!(plan::outdated(&sets, spec(&sets), &placed(&sets, &old), now()).is_none());
}

#[rstest]
#[case("Retain", "Retain", 0, &[])]
#[case("Retain", "Retain", 5, &[])]
#[case("Delete", "Retain", 0, &["set"])]
#[case("Retain", "Delete", 0, &[])]
#[case("Retain", "Delete", 5, &["pod-5"])]
#[case("Delete", "Delete", 0, &["set"])]
#[case("Delete", "Delete", 5, &["pod-5"])]
fn claims_are_owned_by_the_policy(
    #[case] deleted: &str,
    #[case] scaled: &str,
    #[case] ordinal: i32,
    #[case] owners: &[&str],
) {
    let policy = json!({ "whenDeleted": deleted, "whenScaled": scaled });
    let sets = sets(json!({ "persistentVolumeClaimRetentionPolicy": policy }));
    let pod = running(&sets, ordinal, "db-new");
    let mut claim = claims(&sets.set, &pod).remove(0);
    assert_eq!(ownership::is_up_to_date(&claim, &sets.set, &pod), owners.is_empty());
    ownership::update(&mut claim, &sets.set, &pod);
    let uids: Vec<_> = claim.metadata.owner_references.iter().flatten().map(|owner| owner.uid.as_str()).collect();
    assert_eq!(uids, owners);
    assert!(ownership::is_up_to_date(&claim, &sets.set, &pod));
}

#[test]
fn the_claim_of_a_pod_that_was_scaled_down_blocks_the_next_one() {
    let policy = json!({ "whenDeleted": "Retain", "whenScaled": "Delete" });
    let sets = sets(json!({ "persistentVolumeClaimRetentionPolicy": policy }));
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "before", "controller": true });
    let claim: PersistentVolumeClaim =
        from_value(json!({ "metadata": { "name": "data-db-0", "ownerReferences": [owner] } })).unwrap();
    let claim = Arc::new(claim);
    let cached = |name: &str| (name == "data-db-0").then(|| claim.clone());
    let places = placed(&sets, &[]);
    assert_eq!(plan::replica(&sets, spec(&sets), &places.replicas[0], &cached, now()), writes(true, &[]));
}

#[test]
fn a_complete_update_makes_the_new_revision_current() {
    let sets = sets(json!({}));
    let revision = |name: &str| -> ControllerRevision {
        from_value(json!({ "metadata": { "name": name }, "revision": 1 })).unwrap()
    };
    let (old, new) = (revision("db-old"), revision("db-new"));
    let names = Revisions { current: &old, update: &new };
    let built = |pods: &[Arc<Pod>]| {
        let counts = status::count(pods.iter().map(|pod| &**pod), 0, names, now());
        status::status(&sets.set, spec(&sets), counts, names, 0)
    };
    let half = built(&[running(&sets, 0, "db-old"), running(&sets, 1, "db-new")]);
    assert_eq!((half.current_revision.as_deref(), half.updated_replicas), (Some("db-old"), Some(1)));
    let whole = built(&[running(&sets, 0, "db-new"), running(&sets, 1, "db-new")]);
    assert_eq!((whole.current_revision.as_deref(), whole.current_replicas), (Some("db-new"), Some(2)));
    assert!(status::is_inconsistent(&sets.set, &whole));
    let stored = StatefulSet { status: Some(whole.clone()), ..sets.set.clone() };
    assert!(!status::is_inconsistent(&stored, &whole));
}
