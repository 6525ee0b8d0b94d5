//! Rules of a pass, one by one; random histories are in `histories.rs`.

use super::super::actual::AttachState;
use super::*;

const S: fn(u64) -> Duration = Duration::from_secs;
const SIX_MINUTES: Duration = Duration::from_secs(360);

fn reconciler() -> Reconciler {
    let pending = PendingOperations::new(Duration::from_millis(500), S(122));
    let mut reconciler = Reconciler::new(pending, SIX_MINUTES, false);
    for node in ["a", "b"] {
        reconciler.desired.add_node(node);
        reconciler.set_node(node, NodeView { ready: true, out_of_service: false });
    }
    reconciler
}

fn spec() -> Arc<VolumeSpec> {
    let (pv, driver, handle) = ("pv-1".to_owned(), "ebs.csi.aws.com".to_owned(), "vol-1".to_owned());
    Arc::new(VolumeSpec { pv, driver, handle, multi_attach: false })
}

fn pod(namespace: &str, name: &str) -> Arc<ObjectReference> {
    let (namespace, name) = (Some(namespace.to_owned()), Some(name.to_owned()));
    Arc::new(ObjectReference { namespace, name, ..ObjectReference::default() })
}

fn attach(reconciler: &mut Reconciler, now: Duration) {
    let plan = reconciler.reconcile(now);
    let [Action::Attach { key, node, spec, .. }] = plan.actions.as_slice() else { panic!("{plan:?}") };
    reconciler.attached(now, key, spec, node, Ok(()));
}

/// Builds a world with a volume attached to `a` and in use there, after its pod is gone.
fn abandoned() -> Reconciler {
    let mut reconciler = reconciler();
    reconciler.desired.add_pod("uid-1", &pod("default", "one"), &spec(), "a");
    attach(&mut reconciler, S(1));
    reconciler.reconcile(S(1));
    reconciler.actual.set_mounted("a", &[spec().unique_name()]);
    reconciler.desired.delete_pod("uid-1", &spec().unique_name(), "a");
    reconciler
}

fn detach_of(plan: &Plan) -> Option<(&str, Option<ForcedReason>)> {
    plan.actions.iter().find_map(|action| match action {
        Action::Detach { node, forced, .. } => Some((node.as_str(), *forced)),
        _ => None,
    })
}

#[test]
fn an_attach_is_reported_in_the_node_status_afterwards() {
    let mut reconciler = reconciler();
    reconciler.desired.add_pod("uid-1", &pod("default", "one"), &spec(), "a");
    attach(&mut reconciler, S(1));
    let plan = reconciler.reconcile(S(2));
    let [Action::Report { node, volumes }] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!((node.as_str(), volumes.as_slice()), ("a", &[spec().unique_name()][..]));
    assert!(reconciler.reconcile(S(3)).actions.is_empty());
}

#[test]
fn a_mounted_volume_is_left_alone_until_the_node_reports_it_unused() {
    let mut reconciler = abandoned();
    assert!(reconciler.reconcile(S(10)).actions.is_empty());
    assert!(reconciler.actual.set_mounted("a", &[]));
    let plan = reconciler.reconcile(S(20));
    assert_eq!(detach_of(&plan), Some(("a", None)));
    let Some(Action::Detach { report, .. }) = plan.actions.first() else { panic!("{plan:?}") };
    assert_eq!(report.as_deref(), Some(&[][..]), "the status is written before the detach");
}

#[test]
fn the_six_minute_rule_needs_more_than_six_minutes_and_an_unhealthy_node() {
    let mut reconciler = abandoned();
    let plan = reconciler.reconcile(S(10));
    assert_eq!(plan.next, Some(S(370) + Duration::from_millis(1)));
    reconciler.set_node("a", NodeView::default());
    assert_eq!(detach_of(&reconciler.reconcile(S(370))), None, "exactly six minutes are not more than six minutes");
    let late = reconciler.reconcile(S(370) + Duration::from_millis(1));
    assert_eq!(detach_of(&late), Some(("a", Some(ForcedReason::Timeout))));
}

#[test]
fn a_healthy_node_keeps_a_mounted_volume_for_ever() {
    let mut reconciler = abandoned();
    reconciler.reconcile(S(10));
    assert_eq!(detach_of(&reconciler.reconcile(S(100_000))), None);
}

#[test]
fn force_detach_can_be_switched_off() {
    let mut reconciler = abandoned();
    reconciler.disable_force_detach = true;
    reconciler.remove_node("a");
    reconciler.reconcile(S(10));
    let plan = reconciler.reconcile(S(100_000));
    assert_eq!((detach_of(&plan), plan.next), (None, None));
}

#[test]
fn the_out_of_service_taint_detaches_at_once() {
    let mut reconciler = abandoned();
    reconciler.set_node("a", NodeView { ready: false, out_of_service: true });
    assert_eq!(detach_of(&reconciler.reconcile(S(10))), Some(("a", Some(ForcedReason::OutOfService))));
}

#[test]
fn timeout_wins_over_out_of_service_as_the_reason() {
    let mut reconciler = abandoned();
    reconciler.reconcile(S(10));
    reconciler.set_node("a", NodeView { ready: false, out_of_service: true });
    assert_eq!(detach_of(&reconciler.reconcile(S(371))), Some(("a", Some(ForcedReason::Timeout))));
}

#[test]
fn a_second_node_gets_one_multi_attach_warning_and_no_attach() {
    let mut reconciler = reconciler();
    reconciler.desired.add_pod("uid-1", &pod("default", "one"), &spec(), "a");
    attach(&mut reconciler, S(1));
    reconciler.reconcile(S(1));
    reconciler.desired.add_pod("uid-2", &pod("default", "two"), &spec(), "b");
    let plan = reconciler.reconcile(S(2));
    let [Action::MultiAttach { message, .. }] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!(message, "Multi-Attach error for volume \"pv-1\" Volume is already used by pod(s) one");
    assert!(reconciler.reconcile(S(3)).actions.is_empty());
}

#[test]
fn an_uncertain_attachment_elsewhere_does_not_stop_an_attach() {
    let mut reconciler = reconciler();
    reconciler.actual.add(&spec().unique_name(), Some(&spec()), "a", false);
    reconciler.desired.add_pod("uid-2", &pod("default", "two"), &spec(), "b");
    let plan = reconciler.reconcile(S(2));
    assert!(plan.actions.iter().any(|a| matches!(a, Action::Attach { node, .. } if node == "b")), "{plan:?}");
}

#[test]
fn multi_attach_texts_hide_names_of_other_namespaces() {
    let me = pod("default", "me");
    let prefix = "Multi-Attach error for volume \"pv-1\" Volume is already ";
    let others = [pod("default", "a"), pod("default", "b"), pod("secret", "c")];
    let text = |others: &[Arc<ObjectReference>]| multi_attach_message("pv-1", &me, others);
    assert_eq!(text(&[]), format!("{prefix}exclusively attached to one node and can't be attached to another"));
    assert_eq!(text(&others[..2]), format!("{prefix}used by pod(s) a, b"));
    assert_eq!(text(&others), format!("{prefix}used by pod(s) a, b and 1 pod(s) in different namespaces"));
    assert_eq!(text(&others[2..]), format!("{prefix}used by 1 pod(s) in different namespaces"));
}

#[test]
fn a_failed_detach_leaves_the_volume_uncertain_and_backs_off() {
    let mut reconciler = abandoned();
    reconciler.actual.set_mounted("a", &[]);
    let plan = reconciler.reconcile(S(10));
    let Some(Action::Detach { key, volume, node, .. }) = plan.actions.first() else { panic!("{plan:?}") };
    reconciler.detached(S(11), key, volume, node, Err("no".to_owned()));
    assert_eq!(reconciler.actual.state(volume, node), AttachState::Uncertain);
    let blocked = reconciler.reconcile(S(11));
    assert_eq!((detach_of(&blocked), blocked.next), (None, Some(Duration::from_millis(11_501))));
    assert!(detach_of(&reconciler.reconcile(S(12))).is_some());
}

#[test]
fn a_seeded_bug_takes_a_volume_for_attached_after_a_detach_that_failed() {
    let mut reconciler = abandoned();
    reconciler.ignores_failed_detaches = true;
    reconciler.actual.set_mounted("a", &[]);
    let plan = reconciler.reconcile(S(10));
    let Some(Action::Detach { key, volume, node, .. }) = plan.actions.first() else { panic!("{plan:?}") };
    reconciler.detached(S(11), key, volume, node, Err("no".to_owned()));
    assert_eq!(reconciler.actual.state(volume, node), AttachState::Attached);
}

#[test]
fn a_status_that_cannot_be_written_stops_the_detach() {
    let mut reconciler = abandoned();
    reconciler.actual.set_mounted("a", &[]);
    let plan = reconciler.reconcile(S(10));
    let Some(Action::Detach { key, volume, node, .. }) = plan.actions.first() else { panic!("{plan:?}") };
    reconciler.detach_aborted(key, volume, node, true);
    let again = reconciler.reconcile(S(11));
    assert!(detach_of(&again).is_some(), "without backoff: {again:?}");
}

#[test]
fn a_recreated_node_gets_its_list_back() {
    let mut reconciler = abandoned();
    reconciler.actual.touch_report("a");
    let plan = reconciler.reconcile(S(10));
    assert!(matches!(plan.actions.as_slice(), [Action::Report { volumes, .. }] if volumes.len() == 1), "{plan:?}");
}
