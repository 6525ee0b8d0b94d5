//! State of the cluster according to the trace: the holders of each volume, the stored Kubernetes objects, and the
//! forced detaches.

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

/// Maximum wait for a change that a fault holds back.
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
    /// Taints that say that it is not Ready, which are removed when it is.
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
    /// True if more than one node may write to it.
    pub shared: bool,
    /// True if its phase is Bound, so that it does not belong to an earlier claim of that name.
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
    /// Handles that Kubernetes knows or has known.
    known: BTreeSet<String>,
    /// Handles whose PersistentVolume, in its last version, keeps them after their claim is gone.
    kept: BTreeSet<String>,
    pub attachments: BTreeMap<String, Attachment>,
    pub nodes: BTreeMap<String, Node>,
    pub pods: BTreeMap<String, Pod>,
    /// The pods that name a claim.
    users: BTreeMap<String, BTreeSet<String>>,
    /// The PV for a claim.
    pv_of_claim: BTreeMap<String, String>,
    /// Attachments in the cloud, with their state.
    pub cloud: BTreeMap<(String, String), AttachmentPhase>,
    /// Device names of attachments in the cloud.
    devices: BTreeMap<(String, String), String>,
    multi_attach: BTreeSet<String>,
    /// Volumes that the cloud has reported.
    in_our_cloud: BTreeSet<String>,
    /// Volumes that were staged or published on a node since they were last attached to it.
    pub held_since_attached: BTreeSet<(String, String)>,
    /// Time in milliseconds since which no pod wants a volume on a node.
    unwanted_since: BTreeMap<(String, String), u64>,
    /// Open calls of drivers, by process and ordinal.
    pub open: BTreeMap<(String, u64), String>,
    /// Target paths of the publish calls among them.
    publishing: BTreeMap<(String, u64), Text>,
    /// Volumes and nodes whose driver was asked to stage; true if the kubelet that asked has ended since.
    asked_to_stage: BTreeMap<(String, String), bool>,
    made: BTreeSet<String>,
    /// Volumes and nodes for which attach-detach, at its last detach, may have had a cached Node that did not list the
    /// volume.
    unlisted: BTreeSet<(String, String)>,
    /// True if there is a node lifecycle controller: it has written a node.
    pub has_node_controller: bool,
    pub(super) last_unrest: (u64, String),
    /// Time in milliseconds until which a fault that fired holds a change back, and the fault.
    pub(super) held_back: (u64, String),
}

impl Facts {
    /// Returns the node's name; `node` is a name or an instance id.
    pub fn name<'a>(&'a self, node: &'a str) -> &'a str {
        self.instances.get(node).map_or(node, String::as_str)
    }

    /// Returns the state of a volume on a node.
    pub fn hold(&self, volume: &str, node: &str) -> Option<&Hold> {
        self.holds.get(&(volume.to_owned(), self.name(node).to_owned()))
    }

    /// Returns every node that holds a volume.
    pub fn holders<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = (&'a str, &'a Hold)> {
        let from = (volume.to_owned(), String::new());
        self.holds
            .range(from..)
            .take_while(move |((v, _), _)| v == volume)
            .map(|((_, node), hold)| (node.as_str(), hold))
    }

    /// Returns true if several nodes may write to the volume: by its access modes if Kubernetes knows it, else by the
    /// cloud.
    pub fn is_shared(&self, volume: &str) -> bool {
        match self.by_handle.get(volume).and_then(|pv| self.volumes.get(pv)) {
            Some(pv) => pv.shared,
            None => self.multi_attach.contains(volume),
        }
    }

    /// Returns true if the volume is attached to the node: in the cloud if the cloud is ours, and by a VolumeAttachment
    /// if Kubernetes knows the volume.
    pub fn is_attached(&self, volume: &str, node: &str) -> bool {
        let node = self.name(node);
        let in_cloud = self.cloud.get(&(volume.to_owned(), node.to_owned())) == Some(&AttachmentPhase::Attached);
        if self.in_our_cloud.contains(volume) && !in_cloud {
            return false;
        }
        if self.known.contains(volume) {
            let of_volume = |a: &Attachment| self.volumes.get(&a.pv).is_some_and(|pv| pv.handle == volume);
            // The node is cheaper to compare, and few attachments are of one node.
            return self.attachments.values().any(|a| a.attached && a.node == node && of_volume(a));
        }
        in_cloud
    }

    /// Returns true if a VolumeAttachment that is not being deleted wants the volume on the node.
    pub fn wants_attached(&self, volume: &str, node: &str) -> bool {
        let of_volume = |a: &Attachment| self.volumes.get(&a.pv).is_some_and(|pv| pv.handle == volume);
        self.attachments.values().any(|a| !a.deleting && a.node == node && of_volume(a))
    }

    /// Returns true if all pods that want the volume on the node are being deleted, and none was ever reported to run.
    pub fn are_unheard(&self, volume: &str, node: &str) -> bool {
        let claims = self.volumes.values().filter(|pv| pv.handle == volume).filter_map(|pv| pv.claim.as_deref());
        let mut pods = claims.flat_map(|claim| self.users_of(claim)).filter(|pod| pod.node.as_deref() == Some(node));
        let is_unheard = |pod: &Pod| pod.deleting && pod.phase == "Pending";
        pods.next().is_some_and(|first| is_unheard(first) && pods.all(is_unheard))
    }

    /// Returns the volumes that Kubernetes knows or has known, each with the name of its PersistentVolume.
    pub fn handles(&self) -> impl Iterator<Item = (&str, &str)> {
        self.by_handle.iter().map(|(handle, pv)| (handle.as_str(), pv.as_str()))
    }

    /// Returns the volume that the cloud attached to a node as a device.
    pub fn volume_of_device(&self, node: &str, device: &str) -> Option<&str> {
        let mut all = self.devices.iter();
        all.find(|((_, n), name)| n == node && *name == device).map(|((volume, _), _)| volume.as_str())
    }

    /// Returns true if the volume outlives its claim, according to the last version of its PersistentVolume.
    pub fn is_kept(&self, volume: &str) -> bool {
        self.kept.contains(volume)
    }

    /// Returns the pod that runs with a volume, by the claim of the volume.
    pub fn running_with(&self, volume: &str) -> Option<&str> {
        let pv = self.volumes.get(self.by_handle.get(volume)?).filter(|pv| pv.bound)?;
        let claim = pv.claim.as_deref()?;
        let runs = |pod: &&String| self.pods.get(*pod).is_some_and(|pod| pod.phase == "Running");
        self.users.get(claim)?.iter().find(runs).map(String::as_str)
    }

    /// Returns the device name of a volume on a node in the cloud.
    pub fn device(&self, volume: &str, node: &str) -> Option<&str> {
        self.devices.get(&(volume.to_owned(), self.name(node).to_owned())).map(String::as_str)
    }

    /// Returns true if a PersistentVolume was ever saved for a volume.
    pub fn was_saved(&self, volume: &str) -> bool {
        self.known.contains(volume)
    }

    /// Returns the handle of a claim's volume.
    pub fn handle_of_claim(&self, claim: &str) -> Option<&str> {
        self.volumes.get(self.pv_of_claim.get(claim)?).map(|pv| pv.handle.as_str())
    }

    /// Returns the pods that use a claim and have not finished.
    pub fn users_of(&self, claim: &str) -> impl Iterator<Item = &Pod> {
        let pods = self.users.get(claim).into_iter().flatten();
        pods.filter_map(|pod| self.pods.get(pod)).filter(|pod| !pod.is_over())
    }

    /// Returns the number of cloud volumes that were created.
    pub fn made(&self) -> u64 {
        self.made.len() as u64
    }

    /// Returns the facts that are still true after a reset.
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
            // The cloud removes the machine with everything that it held, so this is not a detach under a running node.
            let node = self.name(instance.as_str()).to_owned();
            self.holds.retain(|(_, n), _| *n != node);
        } else if let Some(detach) = event.get::<Detach>() {
            self.on_detach(detach, event.ms);
        } else if let Some(ClusterNode { node, instance, .. }) = event.get() {
            self.instances.insert(instance.to_string(), node.to_string());
        } else if let Some(FaultFired { fault, effect: Effect::Delay(Span(delay)), .. }) = event.get() {
            // A fault that ends does not release what it already holds.
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

    /// Records a change that is not a heartbeat.
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

    /// Records that the kubelet that asks for a volume knows it.
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

    /// Returns true if the kubelet that had a volume staged on a node has ended since it asked.
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
            // A raw device of a driver without staging: only its publish is visible.
            hold.begins(false);
            hold.raw = true;
        }
        if hold.path == path {
            // A driver without staging mounts at the target itself.
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

    /// Handles a driver that ended after it had mounted a filesystem and before it could report it. At the next attempt
    /// it finds the mount and answers OK without a new disk event.
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

    /// Does the same for a target path. If a driver does not stage, this is the only report of the filesystem.
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

    /// Handles a restarted driver, which does not remember that it staged a raw device. No mount shows it, so the
    /// driver's OK counts. For a filesystem, the mount must be gone.
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

    /// Records that a kubelet starts: it knows the volumes that it finds on its disk.
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
            // The operator did it directly in the cloud, which has a record of it.
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

    /// Records whether attach-detach may still have seen the out-of-service taint that justified its forced detach.
    pub fn note_cache(&mut self, detach: &Detach, may_be_behind: bool) {
        let key = (detach.volume.to_string(), detach.node.to_string());
        if let Some(hold) = self.holds.get_mut(&key) {
            hold.taint_in_cache = may_be_behind;
        }
    }

    /// Records whether attach-detach may have had a cached node that does not list the volume that it detaches.
    pub fn note_listed(&mut self, detach: &Detach, may_lack: bool) {
        let key = (detach.volume.to_string(), detach.node.to_string());
        if may_lack {
            self.unlisted.insert(key);
        } else {
            self.unlisted.remove(&key);
        }
    }

    /// Returns true if attach-detach, at its last detach of the volume, may have had a cached node that did not list
    /// it.
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

    /// Returns true if upstream would force a detach now, by stored objects instead of cached ones.
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
            // These change all the time, and are not progress.
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

    /// Returns true if a kubelet's write to a node changes nothing but its heartbeat.
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

    /// Updates the time since which no pod wants the volumes of a changed pod, on its node.
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

/// Returns true if an RPC changes nothing.
fn only_looks(rpc: &str) -> bool {
    ["Get", "List", "Probe", "Validate", "NodeGet", "ControllerGet"].iter().any(|start| rpc.starts_with(start))
}

/// Returns those taints of a node, `key:effect`, that say that it is not Ready.
fn keeping_away(taints: &[Text]) -> Vec<String> {
    let ours = |taint: &&Text| {
        ["node.kubernetes.io/unreachable:", "node.kubernetes.io/not-ready:"].iter().any(|key| taint.starts_with(*key))
    };
    taints.iter().filter(ours).map(ToString::to_string).collect()
}
