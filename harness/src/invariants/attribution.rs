//! History of each volume, as far as it distinguishes causes of a violation. Also finds the volume to which an object,
//! mount, directory or device belongs.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use controllers::node_agent::names::Paths;
use csi_disk::events::DiskCrashed;
use csi_mock::events::{CsiCall, CsiDone, DiskPublished, DiskStaged, DiskUnpublished, DiskUnstaged};
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use mock_ec2::events::{AttachmentChanged, AttachmentPhase, VolumeChanged, VolumePhase};
use substrate::Event;
use substrate::events::{FaultFired, ProcessCrashed, ProcessStarted};
use substrate::fault::Effect;
use substrate::json::Text;

use super::orphaned_stagings::without_record;
use super::violation::OBJECT;
use crate::events::VolumeRecordRemoved;
use crate::model::{CallKey, ClaimKey, RunModel, VolumeId, VolumeOnNode, claims_of, target};
use crate::spec::names::kubelet;

/// History of volumes, by volume and node.
#[derive(Debug, Default)]
pub(super) struct Attribution {
    /// Open calls that a fault hit, or during which it hit the disk's mount.
    faulted: BTreeSet<CallKey>,
    /// Mounts, by path, for which no mount call has been answered with OK yet.
    unanswered: BTreeSet<(VolumeOnNode, String)>,
    /// Those whose last call was answered, because of a fault, with a final error: the kubelet assumes that the call
    /// had no effect.
    failed: BTreeSet<(VolumeOnNode, String)>,
    /// Number of calls to the controller that ended without OK, by RPC. The cloud may still carry out their requests.
    given_up: BTreeMap<(&'static str, VolumeOnNode), u32>,
    /// Late operations of the cloud, whose callers had stopped waiting, by RPC.
    late: BTreeSet<(&'static str, VolumeOnNode)>,
    /// Volumes that the cloud detached late and has not attached again.
    taken: BTreeSet<VolumeOnNode>,
    /// Volumes and nodes that the driver was asked to detach, and answered OK; it was not asked to attach them since.
    undone: BTreeSet<VolumeOnNode>,
    /// Volumes whose record on the node's disk was removed, and which kubelet has not mounted or unstaged since; true
    /// if kubelet has started since.
    unrecorded: BTreeMap<VolumeOnNode, bool>,
    /// Volumes of pods, by the pod's uid: the driver was asked to mount them below the pod's directory.
    of_pods: BTreeMap<String, BTreeSet<VolumeId>>,
    /// The uids of `of_pods`, oldest first.
    pods: VecDeque<String>,
    /// Claims, by namespace and name.
    claims: BTreeMap<ClaimKey, Claim>,
    /// Names of deleted claims, oldest first.
    gone: VecDeque<String>,
}

/// Operations of a disk that mount.
const MOUNTS: [&str; 3] = ["stage", "publish", "map"];

/// Maximum number of remembered pods and of remembered deleted claims, because a cluster can run for days.
const MOST: usize = 1_000;

/// A claim, and earlier claims of the same name.
#[derive(Debug, Default)]
struct Claim {
    bound: bool,
    /// True if an earlier claim of this name was bound and is gone.
    had_another: bool,
    /// Pods that the scheduler has placed while this claim was not bound, and while its cache may have had a bound
    /// claim of this name.
    put: BTreeSet<String>,
}

/// Operations of the cloud for a call to the controller, and the detail that says that the call had already ended.
const LATE: [(AttachmentPhase, &str, &str); 2] = [
    (AttachmentPhase::Attaching, "ControllerPublishVolume", "attachedAfterCall"),
    (AttachmentPhase::Detaching, "ControllerUnpublishVolume", "detachedAfterCall"),
];

impl Attribution {
    /// Records an event. `former` returns true if the scheduler's cache may have a bound claim of that name that is
    /// gone.
    pub fn observe(&mut self, model: &RunModel, event: &Event, former: impl Fn(&str) -> bool) {
        if let Some(commit) = event.get::<Commit>() {
            self.on_commit(commit, former);
        } else if let Some(call) = event.get::<CsiCall>() {
            let (Some(volume), Some(node)) = (&call.volume, &call.node) else { return };
            if let Some(uid) = uid(target(call)) {
                self.is_of_pod(volume, uid);
            }
            let of = model.place(volume, node);
            if matches!(call.rpc.as_str(), "NodeStageVolume" | "NodePublishVolume") {
                self.unrecorded.remove(&of);
            } else if call.rpc == LATE[0].1 {
                self.undone.remove(&of);
            }
        } else if let Some(done) = event.get::<CsiDone>() {
            self.ended(model, &done.code);
        } else if let Some(fired) = event.get::<FaultFired>().filter(|fired| !matches!(fired.effect, Effect::Delay(_)))
        {
            // A fault of the disk excuses a driver only if it hits the mount itself.
            let hides = |call: &CsiCall| call.rpc == fired.op || MOUNTS.contains(&fired.op.as_str());
            let volume = fired.attribute("volume");
            let is_of_it = |call: &CsiCall| volume.is_none() || call.volume.as_deref() == volume;
            let open = model.calls.open().filter(|(key, _)| key.process == event.process);
            self.faulted.extend(open.filter(|(_, call)| hides(call) && is_of_it(call)).map(|(key, _)| key.clone()));
            self.on_removal(model, fired);
        } else if event.is::<ProcessCrashed>() || event.is::<ProcessStarted>() {
            self.on_process(model, event);
        } else if let Some(changed) = event.get::<AttachmentChanged>() {
            self.on_attachment(model, changed);
        } else if let Some(VolumeChanged { volume, state: VolumePhase::Deleted, .. }) = event.get() {
            self.given_up.retain(|(_, of), _| of.volume != *volume.as_str());
            self.late.retain(|(_, of)| of.volume != *volume.as_str());
            self.taken.retain(|of| of.volume != *volume.as_str());
            self.undone.retain(|of| of.volume != *volume.as_str());
        } else if let Some(DiskCrashed { node }) = event.get() {
            self.keep(|of, _| of.node != **node);
        } else if let Some(VolumeRecordRemoved { node, volume }) = event.get() {
            self.unrecorded.insert(VolumeOnNode::new(volume, node), false);
        } else if let Some(DiskStaged { volume, node, path, .. }) = event.get() {
            self.unanswered.insert((VolumeOnNode::new(volume, node), path.to_string()));
        } else if let Some(DiskPublished { volume, node, path, .. }) = event.get() {
            self.unanswered.insert((VolumeOnNode::new(volume, node), path.to_string()));
        } else if let Some(DiskUnstaged { volume, node, path }) = event.get() {
            self.on_unmounted(volume, node, path);
            self.unrecorded.remove(&VolumeOnNode::new(volume, node));
        } else if let Some(DiskUnpublished { volume, node, path }) = event.get() {
            self.on_unmounted(volume, node, path);
        }
    }

    fn is_of_pod(&mut self, volume: &Text, uid: &str) {
        if !self.of_pods.contains_key(uid) {
            self.pods.push_back(uid.to_owned());
        }
        self.of_pods.entry(uid.to_owned()).or_default().insert(volume.into());
        if self.pods.len() > MOST
            && let Some(oldest) = self.pods.pop_front()
        {
            self.of_pods.remove(&oldest);
        }
    }

    /// Records the deletion of a claim. A claim that was deleted long ago and did not return is forgotten.
    fn bury(&mut self, claim: &str) {
        self.gone.push_back(claim.to_owned());
        if self.gone.len() > MOST
            && let Some(oldest) = self.gone.pop_front()
        {
            self.claims.remove(oldest.as_str());
        }
    }

    fn on_commit(&mut self, commit: &Commit, former: impl Fn(&str) -> bool) {
        let (object, deleted) = (&*commit.object, commit.r#type == EventType::Deleted);
        if let Some(stored) = &commit.pvc {
            // The claim exists (again).
            self.gone.retain(|gone| gone != object);
            let claim = self.claims.entry(object.into()).or_default();
            if deleted {
                let had_another = claim.had_another || claim.bound;
                *claim = Claim { had_another, ..Claim::default() };
                self.bury(object);
            } else if stored.volume.is_some() {
                (claim.bound, claim.put) = (true, BTreeSet::new());
            }
        } else if let Some(pod) = &commit.pod {
            let is_put = pod.node.is_some() && commit.user.starts_with("kube-scheduler");
            for name in claims_of(object, pod) {
                let Some(claim) = self.claims.get_mut(&name) else { continue };
                if deleted {
                    claim.put.remove(object);
                } else if is_put && claim.had_another && !claim.bound && former(&name) {
                    claim.put.insert(object.to_owned());
                }
            }
        }
    }

    /// Returns the reason why the wait for the object at the start of a sentence timed out, if known: the object, its
    /// claim, and the detail.
    pub fn waits(&self, sentence: &str) -> Option<BTreeMap<&'static str, serde_json::Value>> {
        let object = sentence.split(' ').next()?;
        let (kind, name) = object.split_once('/')?;
        let name = namespaced(name);
        let is = |(claim, life): &(&ClaimKey, &Claim)| match kind {
            "pod" => life.put.contains(&name),
            "pvc" => **claim == *name && !life.put.is_empty(),
            _ => false,
        };
        self.claims.iter().find(is)?;
        Some([(OBJECT, object.into()), ("boundByFormerClaim", true.into())].into())
    }

    fn on_process(&mut self, model: &RunModel, event: &Event) {
        let process = &*event.process;
        self.ended(model, "UNAVAILABLE");
        if event.is::<ProcessStarted>() {
            // A kubelet that starts treats everything in the pods' directories as mounted.
            self.failed.retain(|(of, path)| *process != kubelet(&of.node) || !path.contains("/pods/"));
            let unrecorded = self.unrecorded.iter_mut().filter(|(of, _)| *process == kubelet(&of.node));
            unrecorded.for_each(|(_, has_started)| *has_started = true);
        }
    }

    fn on_unmounted(&mut self, volume: &str, node: &str, path: &str) {
        self.keep(|of, p| of.volume != *volume || of.node != *node || p != path && !path.is_empty());
    }

    fn keep(&mut self, keeps: impl Fn(&VolumeOnNode, &str) -> bool) {
        self.unanswered.retain(|(of, path)| keeps(of, path));
        self.failed.retain(|(of, path)| keeps(of, path));
    }

    /// Records that calls ended with this code, or with their process.
    fn ended(&mut self, model: &RunModel, code: &str) {
        for (key, call) in model.calls.ended() {
            let is_faulted = self.faulted.remove(key);
            if let (Some(volume), Some(node)) = (&call.volume, &call.node) {
                self.has_ended(call, model.place(volume, node), is_faulted, code);
            }
        }
    }

    fn has_ended(&mut self, call: &CsiCall, of: VolumeOnNode, is_faulted: bool, code: &str) {
        if let Some((_, rpc, _)) = LATE.iter().find(|(_, name, _)| call.rpc == *name) {
            if code != "OK" {
                *self.given_up.entry((*rpc, of)).or_default() += 1;
            } else if *rpc == LATE[1].1 {
                self.undone.insert(of);
            } else {
                // The driver has found what an earlier request attached.
                self.late.remove(&(*rpc, of));
            }
            return;
        }
        if !matches!(call.rpc.as_str(), "NodeStageVolume" | "NodePublishVolume") {
            return;
        }
        let key = (of, target(call).to_owned());
        match code {
            "OK" => {
                self.unanswered.remove(&key);
                self.failed.remove(&key);
            }
            // The kubelet is uncertain about the result, and undoes the mount.
            "CANCELLED" | "DEADLINE_EXCEEDED" | "UNAVAILABLE" | "RESOURCE_EXHAUSTED" | "ABORTED" => {
                self.failed.remove(&key);
            }
            // If a driver does this without a fault, it is the driver's bug.
            _ if is_faulted && self.unanswered.contains(&key) => drop(self.failed.insert(key)),
            _ => {}
        }
    }

    fn on_attachment(&mut self, model: &RunModel, changed: &AttachmentChanged) {
        let of = model.place(changed.volume.as_str(), changed.instance.as_str());
        if changed.state == AttachmentPhase::Detached {
            let is_late = |(by, key): &(&str, VolumeOnNode)| *key == of && LATE[1].1 == *by;
            if self.late.iter().any(is_late) {
                self.taken.insert(of.clone());
            }
            self.late.retain(|(_, key)| *key != of);
            return;
        }
        if changed.state == AttachmentPhase::Attaching {
            self.taken.remove(&of);
        }
        let Some((_, rpc, _)) = LATE.iter().find(|(phase, ..)| *phase == changed.state) else { return };
        let is_on = |node: &str| of.node == *model.name(node);
        let is_of_it = |call: &CsiCall| {
            call.rpc == *rpc && call.volume.as_deref() == Some(&*of.volume) && call.node.as_deref().is_some_and(is_on)
        };
        if model.calls.open().any(|(_, call)| is_of_it(call)) {
            return;
        }
        if let Some(left) = self.given_up.get_mut(&(*rpc, of.clone())).filter(|left| **left > 0) {
            *left -= 1;
            self.late.insert((*rpc, of));
        }
    }

    /// Returns true if a late operation of the cloud changed a volume after the driver had answered that it was done:
    /// an attachment counts only if the driver was asked to detach the volume, and found nothing.
    fn is_late(&self, rpc: &str, of: &VolumeOnNode) -> bool {
        let is = |(by, key): &(&str, VolumeOnNode)| *by == rpc && key == of;
        self.late.iter().any(is) && (rpc != LATE[0].1 || self.undone.contains(of))
    }

    /// Returns the nodes to which the cloud has attached a volume for a call that had ended.
    pub fn attached_late(&self, volume: &str) -> BTreeSet<String> {
        let is = |(by, of): &&(&str, VolumeOnNode)| *by == LATE[0].1 && of.volume == *volume && self.is_late(by, of);
        self.late.iter().filter(is).map(|(_, of)| of.node.to_string()).collect()
    }

    /// Records the loss of a pod's record of a volume: a removal failed when kubelet had removed the file.
    fn on_removal(&mut self, model: &RunModel, fired: &FaultFired) {
        let (Some(path), Some(node)) = (fired.attribute("path"), fired.attribute("node")) else { return };
        let directory = without_record(&fired.op, path).filter(|_| matches!(fired.effect, Effect::IoError(_)));
        let pv = directory.filter(|_| uid(path).is_some()).and_then(|directory| directory.file_name()?.to_str());
        if let Some(volume) = pv.and_then(|pv| model.objects.volume(pv)?.state.handle.as_deref()) {
            self.unrecorded.insert(VolumeOnNode::new(volume, node), false);
        }
    }

    /// Returns the nodes on which a call that was answered with a final error has mounted a volume.
    pub fn mounted_by_failed_call(&self, volume: &str) -> BTreeSet<String> {
        self.failed.iter().filter(|(of, _)| of.volume == *volume).map(|(of, _)| of.node.to_string()).collect()
    }

    /// Returns the nodes on which kubelet has lost its record of a volume that is mounted there.
    pub fn without_record<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = String> + 'a {
        self.unrecorded.keys().filter(move |of| of.volume == *volume).map(|of| of.node.to_string())
    }

    /// Returns the history of a volume on a node, or on any node.
    pub fn details(&self, volume: &str, node: Option<&str>) -> BTreeMap<&'static str, serde_json::Value> {
        let is = |of: &VolumeOnNode| of.volume == *volume && node.is_none_or(|node| of.node == *node);
        let mut details = BTreeMap::new();
        if self.failed.iter().any(|(of, _)| is(of)) {
            details.insert("mountedByFailedCall", true.into());
        }
        if self.unrecorded.keys().any(is) {
            details.insert("recordRemoved", true.into());
        }
        if self.unrecorded.iter().any(|(of, has_started)| *has_started && is(of)) {
            details.insert("kubeletStartedWithoutRecord", true.into());
        }
        for (phase, rpc, detail) in LATE {
            let is_taken = || phase == AttachmentPhase::Detaching && self.taken.iter().any(is);
            if self.late.iter().any(|(_, of)| is(of) && self.is_late(rpc, of)) || is_taken() {
                details.insert(detail, true.into());
            }
        }
        details
    }

    /// Returns the volume to which `thing` belongs: an object, a mount, a directory or a device, as a report names it.
    pub fn volume_of(&self, model: &RunModel, thing: &str) -> Option<String> {
        let has = |name: &str| !name.is_empty() && thing.contains(name);
        let is_staged = |volume: &str| {
            let path = Paths::new("/").staging_dir("", volume);
            path.file_name().and_then(|name| name.to_str()).is_some_and(has)
        };
        let known = |is: &dyn Fn(&str, &str) -> bool| {
            model.objects.handles().find(|(volume, pv)| is(volume, pv)).map(|(volume, _)| volume.to_owned())
        };
        if let Some(volume) = known(&|volume, pv| has(volume) || has(pv) || is_staged(volume)) {
            return Some(volume);
        }
        if let Some((_, attachment)) = model.objects.attachments.iter().find(|(name, _)| has(name)) {
            return known(&|_, pv| pv == attachment.pv());
        }
        if let Some(volumes) = uid(thing).and_then(|uid| self.of_pods.get(uid)) {
            return volumes.first().filter(|_| volumes.len() == 1).map(ToString::to_string);
        }
        // A step has words before the object's name: `the volume of pvc/data is attached`.
        let mut words = thing.split(' ');
        let named = words.find(|word| word.starts_with("pod/") || word.starts_with("pvc/")).unwrap_or(thing);
        let (kind, rest) = named.split_once(['/', ':'])?;
        let name = rest.split([' ', ':', ',']).next().unwrap_or_default();
        let name = namespaced(name);
        let volume = match kind {
            "pod" => match model.objects.pod(&name)?.state.claims.as_slice() {
                [claim] => model.objects.handle_of_claim(&ClaimKey::new(name.split_once('/')?.0, claim)),
                _ => None,
            },
            "pvc" => model.objects.handle_of_claim(&name),
            node => model.volumes_of_device(node, rest.trim_start()).next(),
        };
        volume.map(str::to_owned)
    }
}

/// Returns the key of an object that a sentence names, possibly without its namespace if that is the default one.
pub(super) fn namespaced(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("default/{name}") }
}

/// Returns the uid of the pod whose directory contains `path`.
fn uid(path: &str) -> Option<&str> {
    path.split_once("/pods/")?.1.split('/').next()
}
