//! Tests of the history of volumes.

use std::sync::Arc;

use substrate::clock::TimeScale;
use substrate::json::Text;
use substrate::{Clock, Level, Trace};

use super::*;
use crate::events::ClusterNode;
use crate::invariants::{Invariants, Leftovers, Symptom, declared};

const VOLUME: &str = "vol-0123456789abcdef0";
const INSTANCE: &str = "i-0123456789abcdef0";
const NODE: &str = "node-a";

/// Returns the history of the volume after these steps.
fn details_after(tell: impl Fn(&History)) -> Vec<&'static str> {
    let history = History { trace: Trace::new(Clock::live(), Level::Info) };
    let (node, instance, zone) = (NODE.into(), INSTANCE.into(), "us-east-1a".into());
    history.trace.info(&"scenario".into(), ClusterNode { node, instance, zone });
    tell(&history);
    let (mut model, mut blame) = (RunModel::default(), Attribution::default());
    for event in history.trace.events() {
        model.observe(&event);
        blame.observe(&model, &event, |_| true);
    }
    blame.details(VOLUME, Some(NODE)).into_keys().collect()
}

struct History {
    trace: Trace,
}

impl History {
    fn called(&self, rpc: &str, ordinal: u64) {
        let (process, node): (Arc<str>, _) = ("driver".into(), if rpc.starts_with("Node") { NODE } else { INSTANCE });
        let target = rpc.starts_with("Node").then(|| "/staging".into());
        let (volume, node) = (Some(Text::from(VOLUME)), Some(Text::from(node)));
        self.trace.info(&process, CsiCall { volume, node, target, ..CsiCall::new(rpc, ordinal) });
    }

    fn done(&self, rpc: &str, ordinal: u64, code: &str) {
        let (volume, node, code) = (Some(VOLUME.into()), Some(NODE.into()), code.into());
        let done = CsiDone { rpc: rpc.into(), volume, node, ordinal, code, took_ms: 1, message: None };
        self.trace.info(&"driver".into(), done);
    }

    fn staged(&self) {
        self.trace.info(&"driver".into(), DiskStaged::new(VOLUME, NODE, "/staging"));
    }

    fn unstaged(&self) {
        let (volume, node, path) = (VOLUME.into(), NODE.into(), "/staging".into());
        self.trace.info(&"driver".into(), DiskUnstaged { volume, node, path });
    }

    fn refuses(&self, op: &str, volume: &str, code: &str) {
        let fired = FaultFired::new("refused", op, Effect::Error(code.to_owned()));
        let attributes = [("volume".to_owned(), volume.to_owned())].into();
        self.trace.info(&"driver".into(), FaultFired { attributes, ..fired });
    }

    fn attachment(&self, state: AttachmentPhase) {
        let (volume, instance) = (VOLUME.parse().unwrap(), INSTANCE.parse().unwrap());
        let changed = AttachmentChanged { volume, instance, device: "/dev/xvdaa".into(), state, forced: false };
        self.trace.info(&"mock-ec2".into(), changed);
    }
}

#[test]
fn a_mount_by_a_failed_call_is_kept_until_it_goes_or_a_call_succeeds() {
    let stage = |history: &History, ordinal, code: &str| {
        history.called("NodeStageVolume", ordinal);
        if ordinal == 1 {
            history.staged();
        }
        if code != "OK" {
            history.refuses("NodeStageVolume", VOLUME, code);
        }
        history.done("NodeStageVolume", ordinal, code);
    };
    assert_eq!(details_after(|s| stage(s, 1, "INTERNAL")), ["mountedByFailedCall"]);
    assert_eq!(details_after(|s| ["INTERNAL", "INTERNAL"].iter().zip(1..).for_each(|(c, n)| stage(s, n, c))).len(), 1);
    for codes in [&["OK"][..], &["UNAVAILABLE"], &["INTERNAL", "OK"], &["INTERNAL", "ABORTED"], &["OK", "INTERNAL"]] {
        assert!(details_after(|s| codes.iter().zip(1..).for_each(|(c, n)| stage(s, n, c))).is_empty(), "{codes:?}");
    }
    let unmounted = details_after(|s| {
        stage(s, 1, "INTERNAL");
        s.unstaged();
    });
    assert!(unmounted.is_empty());
    // A driver that fails after a mount without a fault is not excused.
    let by_itself = details_after(|s| {
        s.called("NodeStageVolume", 1);
        s.staged();
        s.done("NodeStageVolume", 1, "INTERNAL");
    });
    assert!(by_itself.is_empty());
    // Nor is a driver that leaves a mount after a fault of a later step, or of another volume's call.
    let fails_after = |op: &'static str, volume: &'static str| {
        details_after(move |s| {
            s.called("NodeStageVolume", 1);
            s.staged();
            s.refuses(op, volume, "INTERNAL");
            s.done("NodeStageVolume", 1, "INTERNAL");
        })
    };
    assert!(fails_after("expand", VOLUME).is_empty());
    assert!(fails_after("NodeStageVolume", "vol-00000000000000000").is_empty());
    assert_eq!(fails_after("stage", VOLUME), ["mountedByFailedCall"]);
    // The call had no effect, and the driver reported this.
    assert!(details_after(|s| stage(s, 2, "INTERNAL")).is_empty());
}

#[test]
fn a_removed_record_matters_until_kubelet_mounts_the_volume_again() {
    let removed = |s: &History, volume: &str| {
        s.trace.info(&"scenario".into(), VolumeRecordRemoved { node: NODE.into(), volume: volume.into() });
    };
    let after = |volume: &'static str, mounts: bool| {
        details_after(move |s| {
            s.called("NodePublishVolume", 1);
            removed(s, volume);
            if mounts {
                s.called("NodePublishVolume", 2);
            }
        })
    };
    assert_eq!(after(VOLUME, false), ["recordRemoved"]);
    // Only a kubelet that starts does not know the volume any more.
    let starts = |then: &dyn Fn(&History)| {
        details_after(|s| {
            s.called("NodePublishVolume", 1);
            removed(s, VOLUME);
            s.trace.info(&kubelet(NODE).as_str().into(), ProcessStarted { incarnation: 2 });
            then(s);
        })
    };
    assert_eq!(starts(&|_| {}), ["kubeletStartedWithoutRecord", "recordRemoved"]);
    assert!(starts(&|s| s.unstaged()).is_empty(), "an administrator has unmounted it");
    assert!(after(VOLUME, true).is_empty());
    assert!(after("vol-00000000000000000", false).is_empty(), "the record of another volume");
}

#[test]
fn a_cloud_change_after_its_call_is_reported() {
    let (rpc, undo) = ("ControllerPublishVolume", "ControllerUnpublishVolume");
    let gives_up = |s: &History| {
        s.called(rpc, 1);
        s.done(rpc, 1, "CANCELLED");
    };
    let undoes = |s: &History| {
        s.called(undo, 9);
        s.done(undo, 9, "OK");
    };
    let late = details_after(|s| {
        gives_up(s);
        undoes(s);
        s.attachment(AttachmentPhase::Attaching);
    });
    assert_eq!(late, ["attachedAfterCall"]);
    // The driver was never asked to detach the volume, or was asked to attach it again and found it attached.
    let not_undone = details_after(|s| {
        gives_up(s);
        s.attachment(AttachmentPhase::Attaching);
    });
    assert!(not_undone.is_empty());
    let adopted = details_after(|s| {
        gives_up(s);
        s.attachment(AttachmentPhase::Attaching);
        s.called(rpc, 2);
        s.done(rpc, 2, "OK");
        undoes(s);
    });
    assert!(adopted.is_empty());
    let of_another = details_after(|s| {
        gives_up(s);
        undoes(s);
        s.called(rpc, 2);
        s.attachment(AttachmentPhase::Attaching);
    });
    assert!(of_another.is_empty());
    let detached = details_after(|s| {
        gives_up(s);
        undoes(s);
        s.attachment(AttachmentPhase::Attaching);
        s.attachment(AttachmentPhase::Detached);
    });
    assert!(detached.is_empty());
    // A user attached it by hand: no call was abandoned.
    assert!(details_after(|s| s.attachment(AttachmentPhase::Attaching)).is_empty());
}

#[test]
fn leftovers_of_a_volume_with_a_declared_deviation_are_declared() {
    let violation = |id, volume: &str, symptom| crate::invariants::Violation {
        id,
        operation: "quiescence".to_owned(),
        volume: Some(volume.to_owned()),
        symptom: Some(symptom),
        ..Default::default()
    };
    let attached = violation("I4", "vol-1", Symptom::AttachedInCloudOnly);
    let left = |volume| violation("I5", volume, Symptom::CloudVolumeLeft);
    let mut all = [attached, left("vol-1"), left("vol-2")];
    declared::mark_known(&mut all).unwrap();
    assert_eq!(all.each_ref().map(|v| v.declared.is_some()), [false; 3]);
    all[0].details = [("attachedAfterCall", true.into())].into();
    declared::mark_known(&mut all).unwrap();
    assert_eq!(all.each_ref().map(|v| v.declared.is_some()), [true, true, false]);
    // Only states at the end of a run can be consequences.
    let mut other = [all[0].clone(), crate::invariants::Violation { id: "I2", ..left("vol-1") }];
    declared::mark_known(&mut other).unwrap();
    assert_eq!(other.map(|v| v.declared.is_some()), [true, false]);
}

#[test]
fn a_leftover_names_its_volume() {
    let invariants = Invariants::new(TimeScale::default());
    let history = History { trace: Trace::new(Clock::live(), Level::Info) };
    let pod = "/var/lib/kubelet/pods/0a1b";
    let (volume, node) = (Some(VOLUME.into()), Some(NODE.into()));
    let target = Some(format!("{pod}/volumes/kubernetes.io~csi/pvc-1/mount").into());
    let rpc = "NodePublishVolume";
    let call = CsiCall { volume, node, target, ..CsiCall::new(rpc, 1) };
    history.trace.info(&"driver".into(), call);
    history.trace.events().iter().for_each(|event| invariants.observe(event));
    let left = |directory: &str| {
        let directories = vec![format!("node-a: {directory}")];
        invariants.at_end(&Leftovers { directories, ..Leftovers::default() });
        invariants.violations().pop().unwrap()
    };
    assert_eq!(left(pod).volume.as_deref(), Some(VOLUME));
    assert_eq!(left("/var/lib/kubelet/pods/ffff").volume, None);
}

#[test]
fn history_of_pods_and_claims_that_are_long_gone_is_forgotten() {
    let mut blame = Attribution::default();
    for n in 0..2 * MOST {
        blame.is_of_pod(&"vol-1".into(), &n.to_string());
        blame.claims.insert(n.to_string().as_str().into(), Claim::default());
        blame.bury(&n.to_string());
    }
    assert_eq!((blame.of_pods.len(), blame.claims.len()), (MOST, MOST));
    assert!(blame.of_pods.contains_key(&(2 * MOST - 1).to_string()) && !blame.claims.contains_key("0"));
}
