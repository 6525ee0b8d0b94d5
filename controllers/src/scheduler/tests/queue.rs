//! Order of waiting pods, and the events after which they are tried again.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::scheduler::fit_error::Plugin;
use crate::scheduler::hints::{ClusterEvent, worth_retrying};
use crate::scheduler::node_info::PodKey;
use crate::scheduler::queue::{Failure, SchedulingQueue, Waits};

const S: fn(u64) -> Duration = Duration::from_secs;

fn queue() -> SchedulingQueue {
    let waits =
        Waits { initial_backoff: S(1), max_backoff: S(10), flush_after: S(300), backoff_tick: S(1), flush_tick: S(30) };
    SchedulingQueue::new(waits, Duration::ZERO)
}

fn names(queue: &mut SchedulingQueue, now: Duration) -> Vec<String> {
    std::iter::from_fn(|| queue.pop(now)).map(|pod| pod.metadata.name.clone().unwrap()).collect()
}

fn unschedulable(plugin: Plugin) -> Failure {
    Failure::Unschedulable(BTreeSet::from([plugin]))
}

fn key(name: &str) -> PodKey {
    PodKey { namespace: "default".to_owned(), name: name.to_owned() }
}

#[test]
fn priority_comes_first_then_age_then_name() {
    let mut queue = queue();
    queue.add(S(2), Arc::new(pod("late", &[], json!({}))));
    queue.add(S(1), Arc::new(pod("b", &[], json!({}))));
    queue.add(S(1), Arc::new(pod("a", &[], json!({}))));
    queue.add(S(3), Arc::new(pod("vip", &[], json!({ "spec": { "priority": 10 } }))));
    assert_eq!(names(&mut queue, S(3)), ["vip", "a", "b", "late"]);
}

#[test]
fn errors_back_off_from_one_to_ten_seconds() {
    let mut queue = queue();
    queue.add(S(0), Arc::new(pod("p", &[], json!({}))));
    let mut now = S(0);
    let mut waits = Vec::new();
    for _ in 0..6 {
        assert_eq!(names(&mut queue, now), ["p"]);
        queue.put_back(now, &key("p"), Failure::Error);
        assert!(queue.pop(now).is_none());
        let next = queue.next_deadline().unwrap();
        waits.push((next - now).as_secs());
        now = next;
    }
    assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
}

#[test]
fn an_unschedulable_pod_waits_for_an_event_that_helps_or_five_minutes() {
    let mut queue = queue();
    queue.add(S(0), Arc::new(pod("p", &[], json!({}))));
    assert_eq!(names(&mut queue, S(0)), ["p"]);
    queue.put_back(S(0), &key("p"), unschedulable(Plugin::NodeUnschedulable));
    let cordoned = node("n", "a", json!({ "spec": { "unschedulable": true } }));
    let open = node("n", "a", json!({}));
    queue.happened(S(5), |pod, plugins| worth_retrying(ClusterEvent::Node(None, &cordoned), pod, plugins));
    assert!(queue.pop(S(5)).is_none());
    queue.happened(S(6), |pod, plugins| worth_retrying(ClusterEvent::Node(Some(&cordoned), &open), pod, plugins));
    assert_eq!(names(&mut queue, S(6)), ["p"]);
    queue.put_back(S(6), &key("p"), unschedulable(Plugin::NodeUnschedulable));
    // 306 s, rounded up to the next tick of 30 s.
    assert_eq!(queue.next_deadline(), Some(S(330)));
    assert!(queue.pop(S(329)).is_none());
    assert_eq!(names(&mut queue, S(330)), ["p"]);
}

#[test]
fn a_backoff_is_cut_short_when_nothing_else_is_to_be_done() {
    let mut queue = queue();
    queue.add(S(0), Arc::new(pod("p", &[], json!({}))));
    assert_eq!(names(&mut queue, S(0)), ["p"]);
    queue.put_back(S(0), &key("p"), unschedulable(Plugin::TaintToleration));
    queue.happened(S(0), |_, _| true);
    queue.add(S(0), Arc::new(pod("q", &[], json!({}))));
    assert_eq!(names(&mut queue, S(0)), ["q", "p"]);
}

#[test]
fn a_deleted_pod_does_not_come_back() {
    let mut queue = queue();
    queue.add(S(0), Arc::new(pod("p", &[], json!({}))));
    assert_eq!(names(&mut queue, S(0)), ["p"]);
    queue.delete(&key("p"));
    queue.put_back(S(1), &key("p"), Failure::Error);
    assert_eq!(queue.next_deadline(), None);
}

#[rstest]
#[case::own_claim(Plugin::VolumeBinding, "data", true)]
#[case::another_claim(Plugin::VolumeBinding, "other", false)]
#[case::not_asked_by_this_plugin(Plugin::TaintToleration, "data", false)]
fn claims_bring_back_the_pods_that_use_them(#[case] plugin: Plugin, #[case] claim: &str, #[case] expected: bool) {
    let claim = make(json!({ "metadata": { "namespace": "default", "name": claim } }));
    let pod = pod("p", &["data"], json!({}));
    let event = ClusterEvent::Claim(None, &claim);
    assert_eq!(worth_retrying(event, &pod, &BTreeSet::from([plugin])), expected);
}

#[rstest]
#[case(Some(1), 2, true)]
#[case(Some(2), 2, false)]
#[case(None, 1, true)]
fn a_raised_volume_limit_helps(#[case] before: Option<i64>, #[case] now: i64, #[case] expected: bool) {
    let csi_node = |count: i64| {
        let driver = json!({ "name": DRIVER, "nodeID": "n", "allocatable": { "count": count } });
        make(json!({ "metadata": { "name": "n" }, "spec": { "drivers": [driver] } }))
    };
    let (old, new) = (before.map(csi_node), csi_node(now));
    let event = ClusterEvent::CsiNode(old.as_ref(), &new);
    let pod = pod("p", &["data"], json!({}));
    assert_eq!(worth_retrying(event, &pod, &BTreeSet::from([Plugin::NodeVolumeLimits])), expected);
}
