//! I8: a component that calls a driver reports a failed call by an Event on the object that the call is for.
//!
//! The first failure of a call counts, until the call succeeds. It must be reported before the cluster is quiet, unless the
//! caller restarts. Calls that upstream reports in its log only are not checked: NodeUnpublishVolume,
//! NodeUnstageVolume, ControllerUnpublishVolume. Nor is ControllerPublishVolume, whose error is a status. Calls of programs
//! that are not in the trace are not checked, nor are calls that their caller gave up: it may have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controllers::events::EventRecorded;
use csi_mock::events::CsiDone;
use fake_apiserver::events::Commit;
use substrate::Event;
use substrate::events::{ProcessCrashed, ProcessStarted};
use substrate::json::Text;

use super::{Checked, Found, Id};
use crate::model::{ClaimKey, PodKey, RunModel, claims_of};
use crate::spec::names;

/// Reasons of the Events for a failure of each RPC, and the process that calls it; none for the kubelet of its node.
const REPORTS: [(&str, &[&str], Option<&str>); 12] = [
    ("CreateVolume", &["ProvisioningFailed"], Some("csi-provisioner")),
    // A volume that was too small is deleted before it has an object; its claim tells of it.
    ("DeleteVolume", &["VolumeFailedDelete", "ProvisioningFailed"], Some("csi-provisioner")),
    ("ControllerExpandVolume", &["VolumeResizeFailed"], Some("csi-resizer")),
    ("ControllerModifyVolume", &["VolumeModifyFailed"], Some("csi-resizer")),
    ("CreateSnapshot", &["SnapshotCreationFailed", CHECK_FAILED], Some("csi-snapshotter")),
    ("DeleteSnapshot", &["SnapshotDeleteError"], Some("csi-snapshotter")),
    ("CreateVolumeGroupSnapshot", &["GroupSnapshotCreationFailed", GROUP_CHECK_FAILED], Some("csi-snapshotter")),
    ("GetVolumeGroupSnapshot", &[GROUP_CHECK_FAILED], Some("csi-snapshotter")),
    ("DeleteVolumeGroupSnapshot", &["GroupSnapshotDeleteError"], Some("csi-snapshotter")),
    ("NodeStageVolume", &["FailedMount", "FailedMapVolume"], None),
    ("NodePublishVolume", &["FailedMount", "FailedMapVolume"], None),
    ("NodeExpandVolume", &["VolumeResizeFailed", "FailedMount", "FailedMapVolume"], None),
];

/// Reason of the Event if a snapshot is not taken, and its content has a status already: that of an earlier failure.
const CHECK_FAILED: &str = "SnapshotContentCheckandUpdateFailed";
/// Reason of the Event if the state of a group cannot be read.
const GROUP_CHECK_FAILED: &str = "GroupSnapshotContentCheckandUpdateFailed";

/// A call: its RPC, its volume, and the name or path in its request.
type Key = (Text, Text, Text);

/// A series of failures of one call.
#[derive(Debug)]
struct Series {
    reasons: &'static [&'static str],
    /// Process that calls.
    caller: String,
    node: Option<String>,
    /// Error of its first failure.
    error: String,
    is_reported: bool,
}

/// Failures of calls, and the Events about them.
#[derive(Debug, Default)]
pub(super) struct Surfaced {
    running: BTreeSet<Arc<str>>,
    series: BTreeMap<Key, Series>,
    /// Claim of each volume, and of each uid, as `namespace/name`.
    claims: BTreeMap<Text, Text>,
    /// Pods that have had each claim.
    pods: BTreeMap<ClaimKey, BTreeSet<PodKey>>,
}

impl Surfaced {
    pub fn observe(&mut self, model: &RunModel, checked: &mut Checked, event: &Event) {
        if let Some(done) = event.get::<CsiDone>() {
            self.on_done(model, checked, event, done);
        } else if let Some(recorded) = event.get::<EventRecorded>() {
            self.on_recorded(model, &event.process, recorded);
        } else if let Some(commit) = event.get::<Commit>() {
            self.on_commit(commit);
        } else if event.is::<ProcessStarted>() || event.is::<ProcessCrashed>() {
            let process = &event.process;
            match event.is::<ProcessStarted>() {
                true => self.running.insert(process.clone()),
                false => self.running.remove(process),
            };
            self.series.retain(|_, series| series.is_reported || !process.starts_with(&series.caller));
        }
    }

    fn on_done(&mut self, model: &RunModel, checked: &mut Checked, event: &Event, done: &CsiDone) {
        let Some(call) = model.calls.answered().filter(|call| call.caller.is_none()) else { return };
        let Some((_, reasons, caller)) = REPORTS.iter().find(|(rpc, ..)| done.rpc == *rpc) else { return };
        if done.code == "CANCELLED" {
            return;
        }
        let volume = done.volume.clone().filter(|_| done.rpc != "CreateVolume");
        let key = (done.rpc.clone(), volume.unwrap_or_default(), call.target.clone().unwrap_or_default());
        if done.code == "OK" {
            // The status of a snapshot keeps its error until it is ready, and the same error makes no second Event.
            let is_kept = done.rpc.starts_with("Create") && done.rpc.contains("Snapshot");
            self.series.retain(|known, series| *known != key || !series.is_reported || is_kept);
            return;
        }
        let node = done.node.as_ref().map(|node| model.name(node).to_owned());
        let caller = match (caller, &node) {
            (Some(caller), _) => (*caller).to_owned(),
            (None, Some(node)) => names::kubelet(node),
            (None, None) => return,
        };
        // Another driver has a sidecar of its own.
        let is_ours = event.process.starts_with("csi-controller") || event.process.ends_with("/csi-node");
        if !is_ours
            || !self.running.iter().any(|process| process.starts_with(&caller))
            || self.series.contains_key(&key)
        {
            return;
        }
        checked.add(Id::I8, 1);
        let error = format!("{}: {}", done.code, done.message.as_deref().unwrap_or_default());
        self.series.insert(key, Series { reasons, caller, node, error, is_reported: false });
    }

    fn on_recorded(&mut self, model: &RunModel, process: &str, recorded: &EventRecorded) {
        let (_, object) = recorded.object.split_once('/').unwrap_or_default();
        for ((rpc, volume, target), series) in &mut self.series {
            let by_caller = process.starts_with(&series.caller);
            if !by_caller || recorded.r#type != "Warning" || !series.reasons.iter().any(|one| recorded.reason == *one) {
                continue;
            }
            let claim = match rpc.as_str() {
                "CreateVolume" => target.strip_prefix("pvc-").and_then(|uid| self.claims.get(uid)),
                rpc if rpc.contains("Snapshot") => None,
                _ => self.claims.get(volume),
            };
            let is_about = match claim {
                // A snapshot, or an inline volume.
                None => true,
                Some(claim) => {
                    object == claim.as_str()
                        || model.objects.pv_of(volume) == Some(object)
                        || self.pods.get(claim.as_str()).is_some_and(|pods| pods.contains(object))
                }
            };
            series.is_reported |= is_about;
        }
    }

    fn on_commit(&mut self, commit: &Commit) {
        if let Some(claim) = &commit.pvc {
            self.claims.insert(claim.uid.clone(), (&*commit.object).into());
        } else if let Some(pv) = &commit.pv {
            if let Some((handle, claim)) = pv.handle.as_ref().zip(pv.claim.as_ref()) {
                self.claims.insert(handle.clone(), claim.clone());
            }
        } else if let Some(pod) = &commit.pod {
            for claim in claims_of(&commit.object, pod) {
                self.pods.entry(claim).or_default().insert((&commit.object).into());
            }
        }
    }

    /// Returns a violation for each failure that was not reported, and forgets all failures. Call it when the cluster is
    /// quiet.
    pub fn at_rest(&mut self) -> Vec<Found> {
        let all = std::mem::take(&mut self.series).into_iter().filter(|(_, series)| !series.is_reported);
        let found = |((rpc, volume, target), series): (Key, Series)| {
            let of = if volume.is_empty() { &target } else { &volume };
            let (caller, error, reason) = (&series.caller, &series.error, series.reasons[0]);
            let message = format!("{caller} made no Event {reason} when {rpc} of {of} failed: {error}");
            let volume = (!volume.is_empty()).then(|| volume.to_string());
            Found { message, volume, node: series.node, ..Found::default() }
        };
        all.map(found).collect()
    }
}

#[cfg(test)]
mod tests {
    use csi_mock::events::CsiCall;
    use fake_apiserver::events::{Claim, Pod, Volume};
    use fake_apiserver::state::EventType;
    use substrate::World;
    use substrate::world::{Options, simulate};

    use super::*;

    /// Returns what is found at the end of a run in which this happens.
    fn found(happens: impl FnOnce(&World)) -> Vec<String> {
        let events = simulate(Options::default(), async |world| {
            for process in ["csi-provisioner", "csi-resizer", "node-a/kubelet"] {
                world.trace().info(&process.into(), ProcessStarted { incarnation: 1 });
            }
            let mut claim = Commit::new("persistentvolumeclaims", "default/data", 1, EventType::Added);
            claim.pvc = Some(Box::new(Claim { uid: "uid-1".into(), ..Claim::default() }));
            let mut pv = Commit::new("persistentvolumes", "pvc-uid-1", 2, EventType::Added);
            let (handle, bound) = (Some("vol-1".into()), Some("default/data".into()));
            pv.pv = Some(Box::new(Volume { handle, claim: bound, ..Volume::default() }));
            let mut pod = Commit::new("pods", "default/web", 3, EventType::Added);
            pod.pod = Some(Box::new(Pod { claims: vec!["data".into()], ..Pod::default() }));
            for commit in [claim, pv, pod] {
                world.trace().info(&"fake-apiserver".into(), commit);
            }
            happens(&world);
            world.trace().events()
        });
        let (mut model, mut checked, mut rule) = (RunModel::default(), Checked::default(), Surfaced::default());
        for event in &events {
            model.observe(event);
            rule.observe(&model, &mut checked, event);
        }
        rule.at_rest().into_iter().map(|found| found.message).collect()
    }

    fn call(world: &World, rpc: &str, ordinal: u64, code: &str) {
        let is_node = rpc.starts_with("Node");
        let process = if is_node { "node-a/csi-node" } else { "csi-controller" }.into();
        let rpc = Text::from(rpc);
        let volume = (rpc != "CreateVolume").then(|| Text::from("vol-1"));
        let node = is_node.then(|| Text::from("node-a"));
        let target = Some(if rpc == "CreateVolume" { "pvc-uid-1" } else { "/target" }.into());
        let (of, on) = (volume.clone(), node.clone());
        world.trace().info(&process, CsiCall { volume: of, node: on, target, ..CsiCall::new(rpc.clone(), ordinal) });
        let (code, message) = (code.into(), Some("no".to_owned()));
        world.trace().info(&process, CsiDone { rpc, volume, node, ordinal, code, took_ms: 1, message });
    }

    fn event(world: &World, process: &str, reason: &str, object: &str) {
        let (source, r#type, message) = (process.into(), "Warning".into(), "no".into());
        let (reason, object) = (reason.into(), object.into());
        world.trace().info(&process.into(), EventRecorded { source, reason, r#type, object, message });
    }

    #[test]
    fn a_failure_without_its_event_is_found() {
        let all = found(|world| {
            call(world, "CreateVolume", 1, "INTERNAL");
            event(world, "csi-provisioner", "ProvisioningFailed", "persistentvolumeclaim/default/other");
            call(world, "CreateVolume", 2, "OK");
            call(world, "NodeStageVolume", 1, "INTERNAL");
            event(world, "node-a/kubelet", "FailedMount", "pod/default/other");
        });
        assert_eq!(
            all,
            [
                "csi-provisioner made no Event ProvisioningFailed when CreateVolume of pvc-uid-1 failed: INTERNAL: no",
                "node-a/kubelet made no Event FailedMount when NodeStageVolume of vol-1 failed: INTERNAL: no",
            ]
        );
    }

    #[test]
    fn a_snapshot_that_fails_after_another_failure_is_reported_as_a_check() {
        let unreported = |reason: &str| {
            found(|world| {
                world.trace().info(&"csi-snapshotter".into(), ProcessStarted { incarnation: 1 });
                call(world, "CreateSnapshot", 1, "RESOURCE_EXHAUSTED");
                event(world, "csi-snapshotter", reason, "volumesnapshotcontent/snapcontent-1");
            })
        };
        assert_eq!(unreported("SnapshotContentCheckandUpdateFailed").len(), 0);
        assert_eq!(unreported("SnapshotDeleteError").len(), 1);
    }

    #[test]
    fn a_failure_is_reported_once_until_the_call_succeeds() {
        let all = found(|world| {
            for ordinal in [1, 2] {
                call(world, "ControllerExpandVolume", ordinal, "INTERNAL");
                event(world, "csi-resizer", "VolumeResizeFailed", "persistentvolumeclaim/default/data");
            }
            call(world, "ControllerExpandVolume", 3, "INTERNAL");
            call(world, "NodePublishVolume", 1, "INTERNAL");
            event(world, "node-a/kubelet", "FailedMount", "pod/default/web");
        });
        assert!(all.is_empty(), "{all:?}");
        let again = found(|world| {
            call(world, "ControllerExpandVolume", 1, "INTERNAL");
            event(world, "csi-resizer", "VolumeResizeFailed", "persistentvolumeclaim/default/data");
            call(world, "ControllerExpandVolume", 2, "OK");
            call(world, "ControllerExpandVolume", 3, "INTERNAL");
        });
        assert_eq!(again.len(), 1);
    }

    #[test]
    fn a_caller_that_restarts_or_is_not_there_reports_nothing() {
        let restarted = found(|world| {
            call(world, "CreateVolume", 1, "INTERNAL");
            world.trace().info(&"csi-provisioner".into(), ProcessCrashed {});
        });
        assert!(restarted.is_empty());
        let foreign = found(|world| call(world, "CreateSnapshot", 1, "INTERNAL"));
        assert!(foreign.is_empty(), "no csi-snapshotter runs in this trace");
    }
}
