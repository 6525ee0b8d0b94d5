//! I8: without failures, each step of a volume's life follows the one before without a long pause. A control loop that
//! misses a change finds it at its next resync, minutes later, and no other rule shows that. An occasion is a step that
//! came.
//!
//! A step that never comes belongs to the other rules of I8 and to I12. No step is judged for ten minutes after a fault,
//! for three minutes after a process has started or crashed, for a volume in the ten minutes after one of its calls failed
//! or after a Warning about its claim or pod, and in the live world, where the machine determines the time. Nor is
//! ControllerModifyVolume: csi-resizer waits for a Secret without a Warning. `snapshots.rs` has the steps of snapshots.
//! A step that waits for a worker or for its turn, behind several others, is judged by the pause since the last of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controllers::events::EventRecorded;
use controllers::machine::events::WorkloadStarted;
use csi_mock::events::{CsiCall, CsiDone};
use fake_apiserver::events::{Commit, ObjectStored, Pod, Spec};
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::events::{FaultFired, ProcessCrashed, ProcessStarted};
use substrate::fault::Effect;
use substrate::json::Text;

use super::stale_reads::TEN_MINUTES;
use super::{Checked, Found, Id};
use crate::model::{ClaimKey, RunModel, claims_of};

mod pods;
mod snapshots;
mod step;
mod stored;
mod workloads;

use step::Step;

/// Time in milliseconds in which loops that start find what was there before.
const START: u64 = 3 * 60 * 1000;
/// Time in milliseconds of the first starts of a run, before there are objects.
const FIRST: u64 = 1_000;
/// Number of objects for which a step must come meanwhile, so that another one waited for its turn.
const QUEUE: u64 = 3;
/// Provisioner that names its volumes after the uid of the claim.
const PREFIX: &str = "pvc-";
/// Time in milliseconds after which attach-detach no longer waits for an attachment, but looks again after a backoff.
const ATTACH: u64 = 60 * 1000;

/// A step of a volume; with the node's name if the step is on a node.
type Key = (Step, Text, Text);

/// The beginning of a pause.
#[derive(Clone, Copy, Debug)]
struct Since {
    /// Time in milliseconds of the step before.
    ms: u64,
    /// Number of times that the step had come by then, for any object.
    came: u64,
}

/// Number of times that a step has come, for any object, and the time in milliseconds of the last time.
type Came = (u64, u64);

/// Steps that are to come, by their volume or pod.
#[derive(Debug, Default)]
pub(super) struct Delays {
    due: BTreeMap<Key, Since>,
    came: BTreeMap<Step, Came>,
    /// Time in milliseconds until which no step is judged.
    disturbed: u64,
    /// The same for volumes of which a call has failed.
    failed: BTreeMap<Text, u64>,
    /// The same for the steps of all snapshots.
    snapshots_from: u64,
    /// Objects by the uid of their only owner.
    dependents: BTreeMap<Text, BTreeSet<Text>>,
    /// Claims that are being deleted and that only their protection holds.
    protected: BTreeSet<Text>,
    /// Time in milliseconds of the last change that may have made room for a pod.
    room_since: u64,
}

impl Delays {
    /// Checks an event.
    pub fn check(&mut self, model: &RunModel, checked: &mut Checked, event: &Event) -> Option<Found> {
        let ms = event.ms;
        if let Some(fired) = event.get::<FaultFired>() {
            // Of a fault that lasts, only the first effect is in the trace.
            let lasts = matches!(fired.effect, Effect::Partition(_) | Effect::PartitionOneWay(_) | Effect::Skew(_));
            let span = if lasts { 6 * TEN_MINUTES } else { TEN_MINUTES };
            self.disturb(ms.max(model.held_back.0) + span);
        } else if event.is::<ProcessCrashed>() || (event.is::<ProcessStarted>() && ms > FIRST) {
            self.disturb(ms + START);
        } else if let Some(call) = event.get::<CsiCall>().filter(|call| call.caller.is_none()) {
            return self.on_call(model, checked, call, ms);
        } else if let Some(done) = event.get::<CsiDone>() {
            self.on_done(model, done, ms);
        } else if let Some(recorded) = event.get::<EventRecorded>() {
            if recorded.r#type == "Warning" && recorded.reason != "FailedScheduling" {
                self.on_warning(model, &recorded.object, ms);
            }
        } else if let Some(started) = event.get::<WorkloadStarted>() {
            return self.end(checked, (Step::Start, &started.volume, &started.node), ms);
        } else if let Some(commit) = event.get::<Commit>() {
            return self.on_commit(model, checked, commit, ms);
        } else if let Some(stored) = event.get::<ObjectStored>() {
            let late = self.on_stored(checked, stored, ms);
            self.on_unused(model, ms);
            return late;
        }
        None
    }

    /// Records that a component could not do what an object asks for.
    fn on_warning(&mut self, model: &RunModel, object: &str, ms: u64) {
        let claims: Vec<ClaimKey> = match object.split_once('/') {
            Some(("persistentvolumeclaim", claim)) => vec![claim.into()],
            Some(("volumesnapshot" | "volumesnapshotcontent", _)) => return self.hold_back_snapshots(ms),
            Some(("pod", pod)) => model.objects.pod(pod).into_iter().flat_map(|p| claims_of(pod, &p.state)).collect(),
            _ => Vec::new(),
        };
        self.failed.insert(object.into(), ms + TEN_MINUTES);
        self.forget(object);
        for claim in claims {
            let uid = model.objects.claim(&claim).map(|claim| claim.state.uid.as_str());
            let volume = model.objects.handle_of_claim(&claim);
            for failed in uid.into_iter().chain(volume).chain([&*claim]) {
                self.failed.insert(failed.into(), ms + TEN_MINUTES);
                self.forget(failed);
            }
        }
    }

    /// Returns true if no fault and no start of a process explains a pause.
    pub fn judges(&self, ms: u64) -> bool {
        ms >= self.disturbed
    }

    /// Forgets all steps; those before `until` are not judged.
    fn disturb(&mut self, until: u64) {
        self.due.clear();
        self.disturbed = self.disturbed.max(until);
    }

    fn begin(&mut self, step: Step, volume: &str, node: &str, ms: u64) {
        let is_disturbed = !self.judges(ms) || self.failed.get(volume).is_some_and(|until| ms < *until);
        if !is_disturbed && !volume.is_empty() {
            let (came, _) = self.came.get(&step).copied().unwrap_or_default();
            self.due.entry((step, volume.into(), node.into())).or_insert(Since { ms, came });
        }
    }

    /// Drops the steps of a volume.
    fn forget(&mut self, volume: &str) {
        self.due.retain(|(_, of, _), _| of != volume);
    }

    /// Ends a step, which must not be late. If the same step came for several other objects meanwhile, this one waited for
    /// its turn: the pause is that since the last one.
    fn end(&mut self, checked: &mut Checked, (step, volume, node): (Step, &str, &str), ms: u64) -> Option<Found> {
        let (came, last) = self.came.get(&step).copied().unwrap_or_default();
        self.came.insert(step, (came + 1, ms));
        let since = self.due.remove(&(step, volume.into(), node.into()))?;
        let waited = step.has_queue() && came - since.came >= QUEUE;
        checked.add(Id::I8, 1);
        let (what, after, most) = step.facts();
        let pause = Duration::from_millis(ms.saturating_sub(if waited { last } else { since.ms }));
        if pause <= most {
            return None;
        }
        let message = format!("{volume}: {what} {} s after {after}, without a failure", pause.as_secs());
        let node = Some(node.to_owned()).filter(|node| !node.is_empty());
        let volume = Some(volume.to_owned()).filter(|_| !step.is_of_object());
        Some(Found { message, operation: what.to_owned(), volume, node, ..Found::default() })
    }

    fn on_call(&mut self, model: &RunModel, checked: &mut Checked, call: &CsiCall, ms: u64) -> Option<Found> {
        let step = match &*call.rpc {
            "CreateVolume" => {
                let uid = call.target.as_deref()?.strip_prefix(PREFIX)?;
                return self.end(checked, (Step::Create, uid, ""), ms);
            }
            "DeleteVolume" => return self.end(checked, (Step::Delete, call.volume.as_deref()?, ""), ms),
            "ControllerExpandVolume" => return self.end(checked, (Step::Grow, call.volume.as_deref()?, ""), ms),
            "NodeExpandVolume" => return self.end(checked, (Step::NodeGrow, call.volume.as_deref()?, ""), ms),
            "ControllerPublishVolume" => Step::Publish,
            "ControllerUnpublishVolume" => Step::Unpublish,
            "NodeStageVolume" => Step::Stage,
            "NodePublishVolume" => Step::Mount,
            "NodeUnstageVolume" => Step::Unstage,
            rpc @ ("CreateSnapshot" | "DeleteSnapshot") => {
                return self.on_snapshot_call(checked, rpc, call.target.as_deref()?, ms);
            }
            _ => return None,
        };
        let node = model.name(call.node.as_deref()?);
        self.end(checked, (step, call.volume.as_deref()?, node), ms)
    }

    fn on_done(&mut self, model: &RunModel, done: &CsiDone, ms: u64) {
        if done.rpc.ends_with("Snapshot") && done.code != "OK" {
            self.hold_back_snapshots(ms);
        }
        if done.rpc == "CreateVolume" && done.code != "OK" {
            let call = model.calls.answered().and_then(|call| call.target.as_deref());
            return call.and_then(|name| name.strip_prefix(PREFIX)).into_iter().for_each(|uid| {
                self.due.remove(&(Step::Create, uid.into(), Text::default()));
            });
        }
        let Some(volume) = done.volume.as_deref() else { return };
        if done.code != "OK" {
            self.failed.insert(volume.into(), ms + TEN_MINUTES);
            let node = model.name(done.node.as_deref().unwrap_or_default());
            self.on_unmounted(model, volume, node, false, ms);
            return self.forget(volume);
        }
        let node = model.name(done.node.as_deref().unwrap_or_default());
        if done.rpc == "NodeUnpublishVolume" {
            self.on_unmounted(model, volume, node, true, ms);
        }
        // A call may repeat an earlier one, without a further step.
        let is_saved = model.objects.volume_of(volume).is_some();
        let attachment = || model.attachments_of(volume).map(|(_, of)| of).find(|of| of.node() == node);
        let is_awaited = || attachment().is_some_and(|of| !of.state.attached && !of.state.deleting);
        let is_leaving = || attachment().is_some_and(|of| of.state.deleting);
        match &*done.rpc {
            "CreateVolume" if !is_saved => self.begin(Step::Store, volume, "", ms),
            "DeleteVolume" if is_saved => self.begin(Step::Remove, volume, "", ms),
            "ControllerPublishVolume" if is_awaited() => self.begin(Step::Attached, volume, node, ms),
            "ControllerUnpublishVolume" if is_leaving() => self.begin(Step::Detached, volume, node, ms),
            "ControllerExpandVolume" => self.begin(Step::Capacity, volume, "", ms),
            "NodeExpandVolume" => self.begin(Step::ClaimCapacity, volume, "", ms),
            "NodeStageVolume" => self.begin(Step::Mount, volume, node, ms),
            "NodePublishVolume" => self.on_mounted(model, volume, node, ms),
            "NodeUnpublishVolume" if !wanted(model, volume, node) => self.begin(Step::Unstage, volume, node, ms),
            "NodeUnstageVolume" if !wanted(model, volume, node) => self.begin(Step::Detach, volume, node, ms),
            _ => {}
        }
    }

    fn on_commit(&mut self, model: &RunModel, checked: &mut Checked, commit: &Commit, ms: u64) -> Option<Found> {
        let (object, is_gone) = (&*commit.object, commit.r#type == EventType::Deleted);
        if let Some(late) = self.on_room(model, checked, commit, ms) {
            return Some(late);
        }
        if let Some(claim) = &commit.pvc {
            if is_gone && let Some(late) = self.end(checked, (Step::Free, object, ""), ms) {
                return Some(late);
            }
            let late = self.on_growth(model, checked, commit, ms);
            if late.is_some() {
                return late;
            }
            if claim.phase.as_deref() == Some("Bound") || is_gone {
                let late = self.end(checked, (Step::Bind, object, ""), ms);
                return late.filter(|_| !is_gone);
            }
            let selected = commit.spec.as_deref().is_some_and(|spec| spec.selected_node.is_some());
            if selected && claim.volume.is_none() && !claim.deleting {
                self.begin(Step::Create, &claim.uid, "", ms);
            } else {
                self.due.remove(&(Step::Create, claim.uid.clone(), Text::default()));
            }
        } else if let Some(pv) = &commit.pv {
            let handle = pv.handle.as_deref()?;
            if is_gone {
                let late = self.end(checked, (Step::Remove, handle, ""), ms);
                self.forget(handle);
                return late;
            }
            if commit.r#type == EventType::Added {
                // The claim may have gone meanwhile, and another one may have its name.
                let is_of = |claim: &&str| {
                    let stored = model.objects.claim(claim);
                    stored.is_some_and(|stored| pv.claim_uid.as_ref().is_none_or(|uid| *uid == stored.state.uid))
                };
                let claim = pv.claim.as_deref().filter(is_of);
                if let Some(claim) = claim.filter(|_| commit.user.starts_with("csi-provisioner")) {
                    self.begin(Step::Bind, claim, "", ms);
                }
                return self.end(checked, (Step::Store, handle, ""), ms);
            }
            let capacity = |spec: Option<&Spec>| spec.and_then(|spec| spec.capacity).unwrap_or(u64::MAX);
            if capacity(commit.spec.as_deref())
                > capacity(model.objects.before.volume.as_ref().map(|before| &before.spec))
            {
                if model.running_with(handle).is_some() {
                    self.begin(Step::NodeGrow, handle, "", ms);
                }
                return self.end(checked, (Step::Capacity, handle, ""), ms);
            }
            if pv.phase.as_deref() == Some("Released") && pv.reclaim.is_none() && model.is_unattached(handle) {
                self.begin(Step::Delete, handle, "", ms);
            }
        } else if let Some(attachment) = &commit.volumeattachment {
            let handle = model.objects.volume(attachment.pv.as_deref()?)?.handle();
            let node = attachment.node.as_ref()?;
            let (attached, deleting) = (attachment.attached, attachment.deleting);
            let before = model.objects.before.attachment.as_ref().map(|before| &before.state);
            let (was_attached, was_deleting) = before.map_or((false, false), |was| (was.attached, was.deleting));
            if is_gone {
                let late = self.end(checked, (Step::Detached, handle, node), ms);
                self.due.retain(|(step, of, on), _| of != handle || on != node || !step.is_of_attachment());
                return late;
            }
            if before.is_none() {
                let late = self.end(checked, (Step::Attach, handle, node), ms);
                if late.is_some() {
                    return late;
                }
                self.begin(Step::Publish, handle, node, ms);
            } else if deleting && !was_deleting {
                let late = self.end(checked, (Step::Detach, handle, node), ms);
                if was_attached {
                    self.begin(Step::Unpublish, handle, node, ms);
                }
                return late;
            } else if attached && !was_attached {
                if model.objects.attachments.get(object).is_some_and(|stored| ms < stored.since + ATTACH) {
                    self.begin(Step::Report, handle, node, ms);
                }
                return self.end(checked, (Step::Attached, handle, node), ms);
            }
        } else if let Some(node) = &commit.node {
            let listed = node.volumes_attached.iter().filter_map(|name| name.rsplit_once('^'));
            let mut late = None;
            for (_, volume) in listed {
                if self.due.contains_key(&(Step::Report, volume.into(), object.into())) {
                    late = late.or(self.end(checked, (Step::Report, volume, object), ms));
                    if wanted(model, volume, object) {
                        self.begin(Step::Stage, volume, object, ms);
                    }
                }
            }
            return late;
        } else if let Some(pod) = &commit.pod {
            self.revise(model, object, pod);
            self.on_bound(model, object, pod, ms);
            return self.on_pod(model, checked, commit, pod, ms);
        }
        None
    }

    /// Awaits the scheduler's first write to a pod, which is bound or gets a condition. A pod may wait for a claim that is
    /// not bound, and for the removal of a scheduling gate, without a write of the scheduler.
    fn on_pod(
        &mut self,
        model: &RunModel,
        checked: &mut Checked,
        commit: &Commit,
        pod: &Pod,
        ms: u64,
    ) -> Option<Found> {
        let object = &*commit.object;
        let is_bound = |claim: &ClaimKey| {
            model.objects.claim(claim).is_some_and(|claim| claim.state.phase.as_deref() == Some("Bound"))
        };
        if commit.r#type == EventType::Added && pod.node.is_none() && !pod.deleting {
            if claims_of(object, pod).all(|claim| is_bound(&claim)) {
                self.begin(Step::Verdict, object, "", ms);
            }
            return None;
        }
        if commit.r#type != EventType::Deleted && !pod.deleting && commit.user.starts_with("kube-scheduler") {
            return self.end(checked, (Step::Verdict, object, ""), ms);
        }
        self.due.remove(&(Step::Verdict, object.into(), Text::default()));
        None
    }

    /// Awaits the VolumeAttachments of a pod that is bound to a node, for volumes without one.
    fn on_bound(&mut self, model: &RunModel, object: &str, pod: &Pod, ms: u64) {
        let was_bound = model.objects.before.pod.as_ref().is_some_and(|before| before.node().is_some());
        let Some(node) = pod.node.as_deref().filter(|_| !was_bound && !pod.deleting) else { return };
        let volumes = claims_of(object, pod).filter_map(|claim| model.objects.handle_of_claim(&claim));
        for volume in volumes.filter(|volume| model.is_unattached(volume)) {
            self.begin(Step::Attach, volume, node, ms);
        }
    }

    /// Awaits the start of the pods that wait for a volume: the time of each of their volumes is set again, so that the
    /// last one counts.
    fn on_mounted(&mut self, model: &RunModel, volume: &str, node: &str, ms: u64) {
        let claim = model.objects.volume_of(volume).and_then(|pv| pv.state.claim.as_deref());
        let pods = claim.into_iter().flat_map(|claim| model.objects.users(claim));
        let waiting = pods.filter(|(_, pod)| {
            pod.node() == Some(node) && pod.is("Pending") && !pod.state.deleting && pod.state.waiting.is_none()
        });
        for (name, pod) in waiting {
            for volume in claims_of(name, &pod.state).filter_map(|claim| model.objects.handle_of_claim(&claim)) {
                self.due.remove(&(Step::Start, volume.into(), node.into()));
                self.begin(Step::Start, volume, node, ms);
            }
        }
    }

    /// Compares a claim with what it was before: its request and its size.
    fn on_growth(&mut self, model: &RunModel, checked: &mut Checked, commit: &Commit, ms: u64) -> Option<Found> {
        let (now, before) = (commit.spec.as_deref()?, &model.objects.before.claim.as_ref()?.spec);
        let handle = model.objects.volume(commit.pvc.as_ref()?.volume.as_deref()?)?.handle();
        // A growth in progress must come to its end before the next one.
        if now.request > before.request && before.capacity >= before.request {
            self.begin(Step::Grow, handle, "", ms);
        }
        let has_grown = before.capacity.is_some() && now.capacity > before.capacity;
        has_grown.then(|| self.end(checked, (Step::ClaimCapacity, handle, ""), ms)).flatten()
    }

    /// Drops the steps of a pod's volumes that are no longer to come: the pod has come, changed or gone.
    fn revise(&mut self, model: &RunModel, object: &str, pod: &Pod) {
        let node = pod.node.clone().unwrap_or_default();
        for volume in claims_of(object, pod).filter_map(|claim| model.objects.handle_of_claim(&claim)) {
            let dropped: &[Step] = match wanted(model, volume, &node) {
                true => &[Step::Unstage, Step::Detach],
                false => &[Step::Attach, Step::Stage, Step::Mount, Step::Start],
            };
            for step in dropped {
                self.due.remove(&(*step, volume.into(), node.clone()));
            }
            if model.running_with(volume).is_none() {
                self.due.remove(&(Step::NodeGrow, volume.into(), Text::default()));
            }
        }
    }
}

/// Returns true if a pod on the node wants the volume: one that has not ended and is not being deleted.
fn wanted(model: &RunModel, volume: &str, node: &str) -> bool {
    let claim = model.objects.volume_of(volume).and_then(|pv| pv.state.claim.as_deref());
    let mut pods = claim.into_iter().flat_map(|claim| model.objects.users(claim));
    pods.any(|(_, pod)| pod.node() == Some(node) && !pod.state.deleting && !pod.is("Succeeded") && !pod.is("Failed"))
}

#[cfg(test)]
mod tests;
