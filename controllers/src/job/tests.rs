use std::collections::{BTreeMap, BTreeSet};
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
    let (none, no_waits) = (BTreeSet::new(), BTreeMap::new());
    let observed = Observed {
        active: &pods,
        succeeded,
        ended_indexes: &none,
        terminating: &[],
        wait: Duration::ZERO,
        index_waits: &no_waits,
    };
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
    let no_waits = BTreeMap::new();
    let mut observed = Observed {
        active: &pods,
        succeeded: 0,
        ended_indexes: &done,
        terminating: &[],
        wait: Duration::ZERO,
        index_waits: &no_waits,
    };
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
    let (removed, delayed) = (BTreeSet::new(), BTreeMap::new());
    let tracked = Tracked {
        spec: spec(&job),
        is_deleting: false,
        finished: None,
        removed: &removed,
        delayed: &delayed,
        pods: &pods,
    };
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

fn failed(name: &str, condition: &str) -> Arc<Pod> {
    let mut pod = Pod::clone(&pod(name, "Failed"));
    let condition = json!([{ "type": condition, "status": "True" }]);
    pod.status.as_mut().unwrap().conditions = from_value(condition).unwrap();
    Arc::new(pod)
}

fn policy(action: &str) -> Value {
    let rule = json!({ "action": action, "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] });
    json!({ "podFailurePolicy": { "rules": [rule] } })
}

#[test]
fn a_failure_policy_ignores_failures_or_ends_the_job() {
    let disrupted = [failed("p-0", "DisruptionTarget"), failed("p-1", "DisruptionTarget")];
    let ignoring = job(policy("Ignore"), json!({}));
    let mut round = begin(&ignoring, &disrupted);
    assert_eq!((round.failed, &round.finished), (0, &None));
    let (removed, delayed) = (BTreeSet::new(), BTreeMap::new());
    let tracked = Tracked {
        spec: spec(&ignoring),
        is_deleting: false,
        finished: None,
        removed: &removed,
        delayed: &delayed,
        pods: &disrupted,
    };
    let counted = tracked.count(round.job.status.as_mut().unwrap(), &BTreeSet::new());
    assert_eq!((counted.release.len(), counted.changed), (2, false), "released without a count");
    let end = begin(&job(policy("FailJob"), json!({})), &disrupted[..1]).finished.unwrap();
    assert_eq!((end.type_.as_str(), end.reason.as_deref()), ("FailureTarget", Some("PodFailurePolicy")));
    assert_eq!(
        end.message.as_deref(),
        Some("Pod /p-0 has condition DisruptionTarget matching FailJob rule at index 0")
    );
    // A pod that is being deleted may still end otherwise, so it is not replaced yet.
    let mut leaving = Pod::clone(&pod("p-0", "Running"));
    leaving.metadata.deletion_timestamp = Some(crate::kube::time(now()));
    let terminating = [Arc::new(leaving)];
    let (none, no_waits) = (BTreeSet::new(), BTreeMap::new());
    let observed = Observed {
        active: &[],
        succeeded: 0,
        ended_indexes: &none,
        terminating: &terminating,
        wait: Duration::ZERO,
        index_waits: &no_waits,
    };
    let count = |job: &Job| match manage(spec(job), &observed) {
        Manage::Create(count, _) => count,
        other => panic!("{other:?}"),
    };
    assert_eq!((count(&ignoring), count(&job(json!({}), json!({})))), (1, 2));
}

fn indexed(more: Value) -> Value {
    let mut all = json!({ "completionMode": "Indexed", "backoffLimit": i32::MAX, "backoffLimitPerIndex": 0 });
    for (name, value) in more.as_object().unwrap() {
        all[name.as_str()] = value.clone();
    }
    all
}

#[test]
fn indexes_fail_one_by_one() {
    let running = job(indexed(json!({})), json!({ "failedIndexes": "2" }));
    let round = begin(&running, &[pod("p-0", "Failed"), pod("p-1", "Running")]);
    assert_eq!((round.failed_indexes.clone(), &round.finished), (Some(BTreeSet::from([0, 2])), &None));
    let reason = |spec: Value, pods: &[Arc<Pod>]| {
        let end = begin(&job(spec, json!({ "failedIndexes": "2" })), pods).finished?;
        end.reason
    };
    let pods = [pod("p-0", "Failed"), pod("p-1", "Succeeded")];
    assert_eq!(reason(indexed(json!({})), &pods).as_deref(), Some("FailedIndexes"));
    let most = json!({ "maxFailedIndexes": 1 });
    assert_eq!(reason(indexed(most), &pods[..1]).as_deref(), Some("MaxFailedIndexesExceeded"));
    // With attempts left, the failed pod stays until its index has another one, which waits.
    let patient = job(indexed(json!({ "backoffLimitPerIndex": 1 })), json!({}));
    let round = begin(&patient, &pods[..1]);
    assert_eq!((round.failed_indexes.clone(), round.delayed.len()), (Some(BTreeSet::new()), 1));
    let waits = BTreeMap::from([(0, Duration::from_secs(10)), (1, Duration::from_secs(20))]);
    let none = BTreeSet::new();
    let mut observed = Observed {
        active: &[],
        succeeded: 0,
        ended_indexes: &none,
        terminating: &[],
        wait: Duration::ZERO,
        index_waits: &waits,
    };
    assert!(matches!(manage(spec(&patient), &observed), Manage::Wait(wait) if wait.as_secs() == 10));
    let one = BTreeMap::from([(0, Duration::from_secs(10))]);
    observed.index_waits = &one;
    assert!(matches!(manage(spec(&patient), &observed), Manage::Create(1, indexes) if indexes == [1]));
}

#[test]
fn a_success_policy_ends_a_job_early() {
    let rule = json!({ "successPolicy": { "rules": [{ "succeededIndexes": "0" }] }, "completionMode": "Indexed" });
    let end = begin(&job(rule, json!({})), &[pod("p-0", "Succeeded"), pod("p-1", "Running")]).finished.unwrap();
    assert_eq!((end.type_.as_str(), end.reason.as_deref()), ("SuccessCriteriaMet", Some("SuccessPolicy")));
    assert_eq!(end.message.as_deref(), Some("Matched rules at index 0"));
}
