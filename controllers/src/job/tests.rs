use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;
use rstest::rstest;
use substrate::json::{Value, from_value, json};

use super::backoff::Backoff;
use super::manage::{Manage, Observed, manage};
use super::pods::TRACKING;
use super::round::Round;
use super::track::{self, Tracked};
use crate::kube::Kind;

fn now() -> Timestamp {
    Timestamp::from_second(1000).unwrap()
}

fn job(spec: Value, status: Value) -> Job {
    let mut all = json!({ "template": { "spec": { "containers": [], "restartPolicy": "Never" } }, "parallelism": 2,
        "completions": 3, "backoffLimit": 1 });
    for (name, value) in spec.as_object().unwrap() {
        all[name.as_str()] = value.clone();
    }
    from_value(
        json!({ "metadata": { "name": "j", "namespace": "default", "uid": "j" }, "spec": all, "status": status }),
    )
    .unwrap()
}

fn spec(job: &Job) -> &JobSpec {
    job.spec.as_ref().unwrap()
}

fn pod(name: &str, phase: &str) -> Arc<Pod> {
    let index = name.rsplit('-').next().unwrap();
    let annotations = json!({ "batch.kubernetes.io/job-completion-index": index });
    let metadata = json!({ "name": name, "uid": name, "finalizers": [TRACKING], "annotations": annotations });
    Arc::new(from_value(json!({ "metadata": metadata, "status": { "phase": phase } })).unwrap())
}

fn begin(job: &Job, pods: &[Arc<Pod>]) -> Round {
    Round::begin(job, spec(job), pods.to_vec(), BTreeSet::new(), Backoff::default(), now())
}

#[rstest]
#[case(json!({}), 0, 0, 2, "two at once")]
#[case(json!({}), 1, 2, 0, "one is left, as many run as may")]
#[case(json!({}), 2, 0, 1, "only one completion is left")]
#[case(json!({ "completions": null }), 0, 0, 2, "a work queue starts all")]
#[case(json!({ "completions": null }), 1, 0, 0, "a work queue starts none after a success")]
fn missing_pods_are_created(
    #[case] given: Value,
    #[case] succeeded: i32,
    #[case] active: usize,
    #[case] expected: usize,
    #[case] why: &str,
) {
    let job = job(given, json!({}));
    let pods: Vec<Arc<Pod>> = (0..active).map(|at| pod(&format!("p-{at}"), "Running")).collect();
    let none = BTreeSet::new();
    let observed =
        Observed { active: &pods, succeeded, succeeded_indexes: &none, terminating: 0, wait: Duration::ZERO };
    let count = match manage(spec(&job), &observed) {
        Manage::Create(count, _) => count,
        _ => 0,
    };
    assert_eq!(count, expected, "{why}");
    let waits = Observed { wait: Duration::from_secs(1), ..observed };
    assert_eq!(matches!(manage(spec(&job), &waits), Manage::Wait(_)), expected > 0, "{why}");
}

#[test]
fn surplus_and_repeated_indexes_go() {
    let indexed = job(json!({ "completionMode": "Indexed" }), json!({}));
    let pods = [pod("a-0", "Pending"), pod("b-0", "Running"), pod("c-7", "Running")];
    let done = BTreeSet::from([1]);
    let mut observed =
        Observed { active: &pods, succeeded: 0, succeeded_indexes: &done, terminating: 0, wait: Duration::ZERO };
    let Manage::Delete(gone) = manage(spec(&indexed), &observed) else { panic!("a deletion") };
    let names: BTreeSet<&str> = gone.iter().map(|pod| pod.name()).collect();
    assert_eq!(names, BTreeSet::from(["a-0", "c-7"]));
    observed.active = &pods[1..2];
    assert!(matches!(manage(spec(&indexed), &observed), Manage::Create(1, indexes) if indexes == [2]));
    let suspended = job(json!({ "suspend": true }), json!({}));
    assert!(matches!(manage(spec(&suspended), &observed), Manage::Delete(all) if all.len() == 1));
}

#[test]
fn too_many_failures_and_a_deadline_end_a_job() {
    let failing = job(json!({}), json!({ "failed": 1 }));
    assert_eq!(begin(&failing, &[pod("p-0", "Running")]).finished, None);
    let end = begin(&failing, &[pod("p-0", "Failed")]).finished.unwrap();
    assert_eq!((end.type_.as_str(), end.reason.as_deref()), ("FailureTarget", Some("BackoffLimitExceeded")));
    let late = job(json!({ "activeDeadlineSeconds": 10 }), json!({ "startTime": "1970-01-01T00:16:30Z" }));
    assert_eq!(begin(&late, &[]).finished.unwrap().reason.as_deref(), Some("DeadlineExceeded"));
    let early = job(json!({ "activeDeadlineSeconds": 15 }), json!({ "startTime": "1970-01-01T00:16:30Z" }));
    assert_eq!(begin(&early, &[]).until_deadline(), Some(Duration::from_secs(5)));
}

#[test]
fn a_pod_is_counted_once_its_finalizer_is_gone() {
    let job = job(json!({}), json!({ "succeeded": 1 }));
    let pods = [pod("p-0", "Succeeded"), pod("p-1", "Failed"), pod("p-2", "Running")];
    let mut round = begin(&job, &pods);
    assert_eq!((round.succeeded, round.failed), (2, 1));
    let removed = BTreeSet::new();
    let tracked = Tracked { spec: spec(&job), is_deleting: false, finished: None, removed: &removed, pods: &pods };
    let status = round.job.status.as_mut().unwrap();
    let counted = tracked.count(status, &BTreeSet::new());
    assert_eq!((counted.release.len(), counted.changed, track::uncounted(status)), (2, true, 2));
    assert!(!track::clean(status, &tracked.with_finalizer()), "the pods have their finalizers");
    assert!(track::clean(status, &BTreeSet::from(["p-1".to_owned()])));
    assert_eq!((status.succeeded, status.failed, track::uncounted(status)), (Some(2), None, 1));
    assert!(track::clean(status, &BTreeSet::new()));
    assert_eq!(status.failed, Some(1));
}

#[test]
fn a_job_is_complete_when_no_pod_is_active() {
    let round = begin(&job(json!({}), json!({ "succeeded": 2 })), &[pod("p-0", "Succeeded")]);
    assert!(round.is_complete(0) && !round.is_complete(1));
    let queue = begin(&job(json!({ "completions": null }), json!({})), &[pod("p-0", "Succeeded")]);
    assert!(queue.is_complete(0));
}
