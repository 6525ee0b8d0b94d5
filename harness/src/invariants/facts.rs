//! What the trace has shown so far: who holds which volume where, what Kubernetes has stored, and what was forced.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controllers::events::Detach;
use csi_mock::events::{CsiCall, CsiDone, DiskCrashed, DiskPublished, DiskStaged, DiskUnpublished, DiskUnstaged};
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use mock_ec2::events::{
    AttachmentChanged, AttachmentPhase, InstanceChanged, InstancePhase, VolumeChanged, VolumePhase,
};
use substrate::Event;
use substrate::clock::TimeScale;
use substrate::events::{FaultFired, ProcessCrashed, ProcessStarted};
use substrate::fault::{Effect, Span};
use substrate::json::Text;

use super::FORCE_AFTER;
use super::hold::Hold;
use crate::cluster::names;
use crate::events::ClusterNode;

/// How long is waited at most for what a fault holds back.
const HELD_AT_MOST: Duration = Duration::from_secs(10 * 60);

/// A VolumeAttachment object.
#[derive(Clone, Debug, Default)]
pub(super) struct Attachment {
    pub pv: String,
    pub node: String,
    pub attached: bool,
    pub deleting: bool,
}

/// A Node object.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub ready: Option<String>,
    pub out_of_service: bool,
    /// The taints that say that it is not Ready, which go when it is.
    pub keeps_away: Vec<String>,
    pub attached: BTreeSet<String>,
    pub in_use: BTreeSet<String>,
}

/// A Pod object.
#[derive(Clone, Debug, Default)]
pub(super) struct Pod {
    pub node: Option<String>,
    pub phase: String,
    pub deleting: bool,
    /// `namespace/name` of its claims.
    pub claims: Vec<String>,
}

impl Pod {
    fn is_over(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// A PersistentVolume object.
#[derive(Clone, Debug, Default)]
pub(super) struct Volume {
    pub handle: String,
    pub claim: Option<String>,
    /// More than one node may have it for writing.
    pub shared: bool,
    /// Its phase is Bound: it is not the volume of a former claim of that name.
    pub bound: bool,
}

/// All facts. Volumes are cloud volume ids, nodes are node names.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub scale: TimeScale,
    instances: BTreeMap<String, String>,
    pub holds: BTreeMap<(String, String), Hold>,
    /// By PV name.
    pub volumes: BTreeMap<String, Volume>,
    /// PV name by handle.
    by_handle: BTreeMap<String, String>,
    /// Handles that Kubernetes knows or knew.
    known: BTreeSet<String>,
    /// Handles whose PersistentVolume said last that they are kept when their claim is gone.
    kept: BTreeSet<String>,
    pub attachments: BTreeMap<String, Attachment>,
    pub nodes: BTreeMap<String, Node>,
    pub pods: BTreeMap<String, Pod>,
    /// The pods that name a claim.
    users: BTreeMap<String, BTreeSet<String>>,
    /// The PV that is for a claim.
    pv_of_claim: BTreeMap<String, String>,
    /// Attachments in the cloud, with their state.
    pub cloud: BTreeMap<(String, String), AttachmentPhase>,
    /// The device names of attachments in the cloud.
    devices: BTreeMap<(String, String), String>,
    multi_attach: BTreeSet<String>,
    /// Volumes that the cloud has told of.
    in_our_cloud: BTreeSet<String>,
    /// Volumes that were staged or published on a node since they were last attached to it.
    pub held_since_attached: BTreeSet<(String, String)>,
    /// Since when nothing wants a volume on a node, in milliseconds.
    unwanted_since: BTreeMap<(String, String), u64>,
    /// Calls of drivers that are open, by process and ordinal.
    pub open: BTreeMap<(String, u64), String>,
    /// Target paths of the calls among them that publish.
    publishing: BTreeMap<(String, u64), Text>,
    /// Volumes and nodes whose driver was asked to stage, and whether the kubelet that asked has ended since.
    asked_to_stage: BTreeMap<(String, String), bool>,
    made: BTreeSet<String>,
    /// Volumes and nodes of which attach-detach, when it detached last, may have had a node that did not list the volume.
    unlisted: BTreeSet<(String, String)>,
    /// There is a node lifecycle controller: it has written a node.
    pub has_node_controller: bool,
    pub(super) last_unrest: (u64, String),
    /// Until when a fault that fired holds something back, in milliseconds, and which it was.
    pub(super) held_back: (u64, String),
}

impl Facts {
    /// The node's name, whether `node` is a name or an instance id.
    pub fn name<'a>(&'a self, node: &'a str) -> &'a str {
        self.instances.get(node).map_or(node, String::as_str)
    }

    /// What a node holds of a volume.
    pub fn hold(&self, volume: &str, node: &str) -> Option<&Hold> {
        self.holds.get(&(volume.to_owned(), self.name(node).to_owned()))
    }

    /// Every node that holds a volume.
    pub fn holders<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = (&'a str, &'a Hold)> {
        let from = (volume.to_owned(), String::new());
        self.holds
            .range(from..)
            .take_while(move |((v, _), _)| v == volume)
            .map(|((_, node), hold)| (node.as_str(), hold))
    }

    /// Whether several nodes may write to the volume: by its access modes where Kubernetes knows it, else by the cloud.
    pub fn is_shared(&self, volume: &str) -> bool {
        match self.by_handle.get(volume).and_then(|pv| self.volumes.get(pv)) {
            Some(pv) => pv.shared,
            None => self.multi_attach.contains(volume),
        }
    }

    /// Whether the volume is attached to the node: in the cloud where the volume is of ours, and by a VolumeAttachment
    /// where Kubernetes knows it.
    pub fn is_attached(&self, volume: &str, node: &str) -> bool {
        let node = self.name(node);
        let in_cloud = self.cloud.get(&(volume.to_owned(), node.to_owned())) == Some(&AttachmentPhase::Attached);
        if self.in_our_cloud.contains(volume) && !in_cloud {
            return false;
        }
        if self.known.contains(volume) {
            let of_volume = |a: &Attachment| self.volumes.get(&a.pv).is_some_and(|pv| pv.handle == volume);
            // The node is the cheaper question, and few attachments are of one node.
            return self.attachments.values().any(|a| a.attached && a.node == node && of_volume(a));
        }
        in_cloud
    }

    /// Whether a VolumeAttachment that nobody has deleted wants the volume on the node.
    pub fn wants_attached(&self, volume: &str, node: &str) -> bool {
        let of_volume = |a: &Attachment| self.volumes.get(&a.pv).is_some_and(|pv| pv.handle == volume);
        self.attachments.values().any(|a| !a.deleting && a.node == node && of_volume(a))
    }

    /// Whether all pods that want the volume on the node are being deleted, and nobody has said that they run.
    pub fn are_unheard(&self, volume: &str, node: &str) -> bool {
        let claims = self.volumes.values().filter(|pv| pv.handle == volume).filter_map(|pv| pv.claim.as_deref());
        let mut pods = claims.flat_map(|claim| self.users_of(claim)).filter(|pod| pod.node.as_deref() == Some(node));
        let is_unheard = |pod: &Pod| pod.deleting && pod.phase == "Pending";
        pods.next().is_some_and(|first| is_unheard(first) && pods.all(is_unheard))
    }

    /// The volumes that Kubernetes knows or knew, each with the name of its PersistentVolume.
    pub fn handles(&self) -> impl Iterator<Item = (&str, &str)> {
        self.by_handle.iter().map(|(handle, pv)| (handle.as_str(), pv.as_str()))
    }

    /// The volume that the cloud attached to a node as a device.
    pub fn volume_of_device(&self, node: &str, device: &str) -> Option<&str> {
        let mut all = self.devices.iter();
        all.find(|((_, n), name)| n == node && *name == device).map(|((volume, _), _)| volume.as_str())
    }

    /// True if the volume outlives its claim: its PersistentVolume says so, or said so last.
    pub fn is_kept(&self, volume: &str) -> bool {
        self.kept.contains(volume)
    }

    /// The pod that runs with a volume, by the claim that the volume is for.
    pub fn running_with(&self, volume: &str) -> Option<&str> {
        let pv = self.volumes.get(self.by_handle.get(volume)?).filter(|pv| pv.bound)?;
        let claim = pv.claim.as_deref()?;
        let runs = |pod: &&String| self.pods.get(*pod).is_some_and(|pod| pod.phase == "Running");
        self.users.get(claim)?.iter().find(runs).map(String::as_str)
    }

    /// The name of the device that the cloud has given to a volume on a node.
    pub fn device(&self, volume: &str, node: &str) -> Option<&str> {
        self.devices.get(&(volume.to_owned(), self.name(node).to_owned())).map(String::as_str)
    }

    /// Whether a PersistentVolume was ever saved for a volume.
    pub fn was_saved(&self, volume: &str) -> bool {
        self.known.contains(volume)
    }

    /// The handle of a claim's volume.
    pub fn handle_of_claim(&self, claim: &str) -> Option<&str> {
        self.volumes.get(self.pv_of_claim.get(claim)?).map(|pv| pv.handle.as_str())
    }

    /// The pods that use a claim and are not over.
    pub fn users_of(&self, claim: &str) -> impl Iterator<Item = &Pod> {
        let pods = self.users.get(claim).into_iter().flatten();
        pods.filter_map(|pod| self.pods.get(pod)).filter(|pod| !pod.is_over())
    }

    /// How many cloud volumes were made.
    pub fn made(&self) -> u64 {
        self.made.len() as u64
    }

    /// What still holds when everything was wiped.
    pub(super) fn of_a_reset(&self) -> Self {
        Self { scale: self.scale, instances: self.instances.clone(), ..Self::default() }
    }

    pub fn observe(&mut self, event: &Event) {
        if let Some(commit) = event.get::<Commit>() {
            return self.on_commit(commit, event.ms);
        }
        if let Some(call) = event.get::<CsiCall>() {
            let what = format!("{} of {}", call.rpc, call.volume.as_deref().unwrap_or("the driver"));
            if !only_looks(&call.rpc) {
                self.stir(event.ms, || what.clone());
            }
            self.open.insert((event.process.to_string(), call.ordinal), what);
            self.on_kubelet_asks(call);
            if call.rpc == "NodePublishVolume" {
                let target = call.target.clone().unwrap_or_default();
                self.publishing.insert((event.process.to_string(), call.ordinal), target);
            }
        } else if let Some(done) = event.get::<CsiDone>() {
            self.open.remove(&(event.process.to_string(), done.ordinal));
            self.on_staged_by_word(done);
            self.on_unstaged_by_word(done);
            self.on_published_by_word(event, done);
        } else if let Some(changed) = event.get::<AttachmentChanged>() {
            self.stir(event.ms, || format!("{} is {} in the cloud", changed.volume, changed.state.as_str()));
            self.on_cloud_attachment(changed);
        } else if let Some(changed) = event.get::<VolumeChanged>() {
            self.stir(event.ms, || format!("{} is {} in the cloud", changed.volume, changed.state.as_str()));
            self.in_our_cloud.insert(changed.volume.to_string());
            if changed.multi_attach {
                self.multi_attach.insert(changed.volume.to_string());
            }
            if changed.state == VolumePhase::Creating {
                self.made.insert(changed.volume.to_string());
            }
        } else if let Some(staged) = event.get::<DiskStaged>() {
            self.on_staged(staged);
        } else if let Some(DiskPublished { volume, node, path, readonly }) = event.get() {
            self.on_published(volume, node, path, *readonly);
        } else if let Some(DiskUnpublished { volume, node, path }) = event.get() {
            self.on_unpublished(volume, node, path);
        } else if let Some(DiskUnstaged { volume, node, .. }) = event.get() {
            self.of(volume, node).staged = None;
            self.forget_if_empty(volume, node);
        } else if let Some(DiskCrashed { node }) = event.get() {
            let node = self.name(node).to_owned();
            self.holds.retain(|(_, n), _| *n != node);
        } else if let Some(InstanceChanged { instance, state: InstancePhase::ShuttingDown }) = event.get() {
            // The cloud takes the machine away, and with it all that it held: nobody detaches from under it.
            let node = self.name(instance.as_str()).to_owned();
            self.holds.retain(|(_, n), _| *n != node);
        } else if let Some(detach) = event.get::<Detach>() {
            self.on_detach(detach, event.ms);
        } else if let Some(ClusterNode { node, instance, .. }) = event.get() {
            self.instances.insert(instance.to_string(), node.to_string());
        } else if let Some(FaultFired { fault, effect: Effect::Delay(Span(delay)), .. }) = event.get() {
            // Faults that end let go of nothing that they hold already.
            let held = self.scale.apply((*delay).min(HELD_AT_MOST));
            let until = event.ms + u64::try_from(held.as_millis()).unwrap_or_default();
            if until > self.held_back.0 {
                self.held_back = (until, format!("the fault `{fault}` held something back"));
            }
        } else if event.is::<ProcessStarted>() || event.is::<ProcessCrashed>() {
            self.open.retain(|(process, _), _| **process != *event.process);
            self.publishing.retain(|(process, _), _| **process != *event.process);
            if event.is::<ProcessStarted>() {
                self.on_started(&event.process);
            }
        }
    }

    /// Notes that something changed that is no heartbeat.
    fn stir(&mut self, ms: u64, what: impl FnOnce() -> String) {
        self.last_unrest = (ms, what());
    }

    fn of(&mut self, volume: &str, node: &str) -> &mut Hold {
        let node = self.name(node).to_owned();
        self.holds.entry((volume.to_owned(), node)).or_default()
    }

    fn forget_if_empty(&mut self, volume: &str, node: &str) {
        let key = (volume.to_owned(), self.name(node).to_owned());
        if self.holds.get(&key).is_some_and(|hold| hold.staged.is_none() && hold.published.is_empty()) {
            self.holds.remove(&key);
        }
    }

    /// The kubelet that asks for a volume knows of it.
    fn on_kubelet_asks(&mut self, call: &CsiCall) {
        let (Some(volume), Some(node)) = (&call.volume, &call.node) else { return };
        if !matches!(call.rpc.as_str(), "NodeStageVolume" | "NodePublishVolume") {
            return;
        }
        let key = (volume.to_string(), self.name(node).to_owned());
        if let Some(hold) = self.holds.get_mut(&key) {
            hold.forgotten = false;
        }
        self.asked_to_stage.insert(key, false);
    }

    /// Whether the kubelet that had a volume staged on a node has ended since it asked.
    fn is_for_nobody(&self, volume: &str, node: &str) -> bool {
        let key = (volume.to_owned(), self.name(node).to_owned());
        self.asked_to_stage.get(&key).is_some_and(|ended| *ended)
    }

    fn on_staged(&mut self, staged: &DiskStaged) {
        let forgotten = self.is_for_nobody(&staged.volume, &staged.node);
        let hold = self.of(&staged.volume, &staged.node);
        hold.staged = Some(!staged.readonly);
        hold.path = staged.path.clone();
        hold.raw = staged.raw;
        hold.begins(forgotten);
        let node = self.name(&staged.node).to_owned();
        self.held_since_attached.insert((staged.volume.to_string(), node));
    }

    fn on_published(&mut self, volume: &str, node: &str, path: &str, readonly: bool) {
        let hold = self.of(volume, node);
        if hold.staged.is_none() && hold.published.is_empty() {
            // A raw device of a driver that stages nothing: that it is published is all that there is.
            hold.begins(false);
            hold.raw = true;
        }
        if hold.path == path {
            // A driver that stages nothing mounts at the target itself.
            hold.staged = None;
        }
        hold.published.insert(path.to_owned(), !readonly);
        let node = self.name(node).to_owned();
        self.held_since_attached.insert((volume.to_owned(), node));
    }

    fn on_unpublished(&mut self, volume: &str, node: &str, path: &str) {
        let hold = self.of(volume, node);
        if path.is_empty() {
            hold.published.clear();
        } else {
            hold.published.remove(path);
        }
        self.forget_if_empty(volume, node);
    }

    /// A driver that ended when it had mounted a filesystem, and before it could tell, finds it mounted at the next try and
    /// has nothing to tell but that it is so.
    fn on_staged_by_word(&mut self, done: &CsiDone) {
        let (Some(volume), Some(node)) = (&done.volume, &done.node) else { return };
        if done.rpc != "NodeStageVolume" || done.code != "OK" {
            return;
        }
        let forgotten = self.is_for_nobody(volume, node);
        let hold = self.of(volume, node);
        if hold.staged.is_none() {
            hold.staged = Some(true);
            hold.begins(forgotten);
            let node = self.name(node).to_owned();
            self.held_since_attached.insert((volume.to_string(), node));
        }
    }

    /// The same of a target path: where a driver stages nothing, that is all that tells of the filesystem.
    fn on_published_by_word(&mut self, event: &Event, done: &CsiDone) {
        let target = self.publishing.remove(&(event.process.to_string(), done.ordinal));
        let (Some(target), Some(volume), Some(node)) = (target, &done.volume, &done.node) else { return };
        if done.code != "OK" {
            return;
        }
        let hold = self.of(volume, node);
        if hold.published.contains_key(target.as_str()) {
            return;
        }
        if hold.staged.is_none() && hold.published.is_empty() {
            hold.begins(false);
            hold.path = target.clone();
        }
        hold.published.insert(target.to_string(), true);
        let node = self.name(node).to_owned();
        self.held_since_attached.insert((volume.to_string(), node));
    }

    /// A driver that was started anew does not remember that it staged a raw device, and no mount tells it: what counts
    /// is that it said so. Of a filesystem the mount must have gone.
    fn on_unstaged_by_word(&mut self, done: &CsiDone) {
        let (Some(volume), Some(node)) = (&done.volume, &done.node) else { return };
        if done.rpc != "NodeUnstageVolume" || done.code != "OK" {
            return;
        }
        let key = (volume.to_string(), self.name(node).to_owned());
        if let Some(hold) = self.holds.get_mut(&key).filter(|hold| hold.raw) {
            hold.staged = None;
            self.forget_if_empty(volume, node);
        }
    }

    /// A kubelet that starts knows of volumes what it finds on its disk.
    fn on_started(&mut self, process: &str) {
        for ((_, node), hold) in &mut self.holds {
            if *process == names::kubelet(node) && hold.published.is_empty() {
                hold.forgotten = true;
            }
        }
        for (_, ended) in self.asked_to_stage.iter_mut().filter(|((_, node), _)| *process == names::kubelet(node)) {
            *ended = true;
        }
    }

    fn on_cloud_attachment(&mut self, changed: &AttachmentChanged) {
        let key = (changed.volume.to_string(), self.name(changed.instance.as_str()).to_owned());
        if changed.forced
            && let Some(hold) = self.holds.get_mut(&key)
        {
            // The operator did it, past Kubernetes: it is on record in the cloud.
            hold.forced = true;
        }
        match changed.state {
            AttachmentPhase::Detached => {
                self.devices.remove(&key);
                self.asked_to_stage.remove(&key);
                self.cloud.remove(&key);
            }
            state => {
                self.devices.insert(key.clone(), changed.device.to_string());
                if state == AttachmentPhase::Attaching {
                    self.held_since_attached.remove(&key);
                }
                self.cloud.insert(key, state);
            }
        }
    }

    /// Notes whether attach-detach may still have seen the out-of-service taint that its detach was forced for.
    pub fn note_cache(&mut self, detach: &Detach, may_be_behind: bool) {
        let key = (detach.volume.to_string(), detach.node.to_string());
        if let Some(hold) = self.holds.get_mut(&key) {
            hold.taint_in_cache = may_be_behind;
        }
    }

    /// Notes whether attach-detach may have had a node in its cache that does not list the volume that it detaches.
    pub fn note_listed(&mut self, detach: &Detach, may_lack: bool) {
        let key = (detach.volume.to_string(), detach.node.to_string());
        if may_lack {
            self.unlisted.insert(key);
        } else {
            self.unlisted.remove(&key);
        }
    }

    /// True if attach-detach may have had a node that did not list the volume when it detached it last.
    pub fn was_unlisted(&self, volume: &str, node: &str) -> bool {
        self.unlisted.contains(&(volume.to_owned(), node.to_owned()))
    }

    fn on_detach(&mut self, detach: &Detach, ms: u64) {
        if !detach.forced {
            return;
        }
        let key = (detach.volume.to_string(), detach.node.to_string());
        let legitimate = self.may_force(&key, ms);
        if let Some(hold) = self.holds.get_mut(&key) {
            hold.forced = legitimate;
            hold.wrongly_forced = detach.reason.filter(|_| !legitimate);
        }
    }

    /// Whether upstream would force now: by what is stored, not by what some cache holds.
    fn may_force(&self, key: &(String, String), ms: u64) -> bool {
        let node = self.nodes.get(&key.1);
        if node.is_some_and(|node| node.out_of_service) {
            return true;
        }
        let healthy = node.is_some_and(|node| node.ready.as_deref() == Some("True"));
        let waited = self.unwanted_since.get(key).map(|since| Duration::from_millis(ms.saturating_sub(*since)));
        !healthy && waited.is_some_and(|waited| waited >= self.scale.apply(FORCE_AFTER))
    }

    fn on_commit(&mut self, commit: &Commit, ms: u64) {
        let deleted = commit.r#type == EventType::Deleted;
        let object = &*commit.object;
        match commit.resource.as_str() {
            "nodes" if self.is_heartbeat(commit) => return,
            // What changes all the time, and says nothing of progress.
            "leases" | "events" => return,
            _ => {}
        }
        self.stir(ms, || format!("{} {} {object} by {}", commit.verb, commit.resource, commit.user));
        if let Some(pv) = &commit.pv {
            let handle = pv.handle.as_deref().unwrap_or_default().to_owned();
            if !handle.is_empty() {
                self.known.insert(handle.clone());
                if pv.reclaim.is_some() {
                    self.kept.insert(handle.clone());
                } else {
                    self.kept.remove(&handle);
                }
                self.by_handle.insert(handle.clone(), object.to_owned());
            }
            let shared = pv.access_modes.iter().any(|mode| mode == "ReadWriteMany");
            let bound = pv.phase.as_deref() == Some("Bound");
            let volume = Volume { handle, claim: pv.claim.as_deref().map(str::to_owned), shared, bound };
            if let Some(claim) = &volume.claim {
                if deleted {
                    self.pv_of_claim.remove(claim);
                } else {
                    self.pv_of_claim.insert(claim.clone(), object.to_owned());
                }
            }
            if deleted {
                self.volumes.remove(object);
            } else {
                self.volumes.insert(object.to_owned(), volume);
            }
        } else if let Some(va) = &commit.volumeattachment {
            let text = |text: &Option<substrate::json::Text>| text.as_deref().unwrap_or_default().to_owned();
            let (pv, node) = (text(&va.pv), text(&va.node));
            let attachment = Attachment { pv, node, attached: va.attached, deleting: va.deleting };
            if deleted {
                self.attachments.remove(object);
            } else {
                self.attachments.insert(object.to_owned(), attachment);
            }
        } else if let Some(node) = &commit.node {
            self.has_node_controller |= commit.user.contains("node-controller");
            let strings = |list: &[substrate::json::Text]| list.iter().map(ToString::to_string).collect();
            let node = Node {
                ready: node.ready.as_deref().map(str::to_owned),
                out_of_service: node.taints.iter().any(|t| t.starts_with("node.kubernetes.io/out-of-service:")),
                keeps_away: keeping_away(&node.taints),
                attached: strings(&node.volumes_attached),
                in_use: strings(&node.volumes_in_use),
            };
            if deleted {
                self.nodes.remove(object);
            } else {
                self.nodes.insert(object.to_owned(), node);
            }
        } else if let Some(pod) = &commit.pod {
            let (namespace, _) = object.split_once('/').unwrap_or(("default", object));
            let pod = Pod {
                node: pod.node.as_deref().filter(|node| !node.is_empty()).map(str::to_owned),
                phase: pod.phase.as_deref().unwrap_or_default().to_owned(),
                deleting: pod.deleting,
                claims: pod.claims.iter().map(|claim| format!("{namespace}/{claim}")).collect(),
            };
            let before = if deleted { self.pods.remove(object) } else { self.pods.insert(object.to_owned(), pod) };
            self.rewant(object, before, ms);
        }
    }

    /// A kubelet's write to a node that says the same as before.
    fn is_heartbeat(&self, commit: &Commit) -> bool {
        let (Some(now), Some(before)) = (&commit.node, self.nodes.get(&*commit.object)) else { return false };
        let same = |new: &[substrate::json::Text], old: &BTreeSet<String>| {
            new.len() == old.len() && new.iter().all(|name| old.contains(name.as_str()))
        };
        commit.r#type == EventType::Modified
            && commit.user.starts_with("kubelet")
            && now.ready.as_deref() == before.ready.as_deref()
            && now.taints.iter().any(|t| t.starts_with("node.kubernetes.io/out-of-service:")) == before.out_of_service
            && keeping_away(&now.taints) == before.keeps_away
            && same(&now.volumes_attached, &before.attached)
            && same(&now.volumes_in_use, &before.in_use)
    }

    /// Keeps since when nothing wants the volumes of a pod that has changed, on its node.
    fn rewant(&mut self, object: &str, before: Option<Pod>, ms: u64) {
        let now = self.pods.get(object).cloned();
        for claim in before.iter().chain(&now).flat_map(|pod| &pod.claims) {
            let users = self.users.entry(claim.clone()).or_default();
            if now.is_some() {
                users.insert(object.to_owned());
            } else {
                users.remove(object);
            }
        }
        for pod in before.iter().chain(&now) {
            let Some(node) = &pod.node else { continue };
            for claim in &pod.claims {
                let Some(handle) = self.handle_of_claim(claim).map(str::to_owned) else { continue };
                let wanted = self.users_of(claim).any(|user| user.node.as_ref() == Some(node));
                let key = (handle, node.clone());
                if wanted {
                    self.unwanted_since.remove(&key);
                } else {
                    self.unwanted_since.entry(key).or_insert(ms);
                }
            }
        }
    }
}

/// Whether an RPC changes nothing.
fn only_looks(rpc: &str) -> bool {
    ["Get", "List", "Probe", "Validate", "NodeGet", "ControllerGet"].iter().any(|start| rpc.starts_with(start))
}

/// Of the taints of a node, `key:effect`, those that say that it is not Ready.
fn keeping_away(taints: &[Text]) -> Vec<String> {
    let ours = |taint: &&Text| {
        ["node.kubernetes.io/unreachable:", "node.kubernetes.io/not-ready:"].iter().any(|key| taint.starts_with(*key))
    };
    taints.iter().filter(ours).map(ToString::to_string).collect()
}
