//! Stored objects with their requirements on volumes: claims, PersistentVolumes, StorageClasses, pods and the zones of
//! nodes. Also the volumes of the cloud, to compare them with.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use csi_mock::efs::is_handle;
use csi_mock::events::{DiskExpanded, DiskStaged};
use fake_apiserver::events::{Attachment, Claim, Commit, Node, Pod, Spec, Volume};
use fake_apiserver::state::EventType;
use mock_ec2::events::{ModificationChanged, VolumeChanged, VolumePhase};
use substrate::Event;
use substrate::json::Text;

use super::{AttachmentName, ClaimKey, ClassName, NodeName, PodKey, PvName, VolumeId};

/// A stored object: its state and its requirements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored<T> {
    pub state: T,
    pub spec: Spec,
    /// Time in milliseconds at which it was created.
    pub since: u64,
}

impl Stored<Volume> {
    /// Returns its handle; empty if it has none.
    pub fn handle(&self) -> &str {
        self.state.handle.as_deref().unwrap_or_default()
    }

    /// Returns true if more than one node may write to it.
    pub fn is_shared(&self) -> bool {
        // A shared file system may be mounted on any number of nodes, with any access mode.
        self.state.access_modes.iter().any(|mode| mode == "ReadWriteMany") || is_handle(self.handle())
    }
}

impl Stored<Attachment> {
    /// Returns its PersistentVolume.
    pub fn pv(&self) -> &str {
        self.state.pv.as_deref().unwrap_or_default()
    }

    /// Returns its node.
    pub fn node(&self) -> &str {
        self.state.node.as_deref().unwrap_or_default()
    }
}

impl Stored<Pod> {
    /// Returns the node that it is bound to.
    pub fn node(&self) -> Option<&str> {
        self.state.node.as_deref().filter(|node| !node.is_empty())
    }

    /// Returns true if it is in a phase.
    pub fn is(&self, phase: &str) -> bool {
        self.state.phase.as_deref() == Some(phase)
    }
}

/// The object that the last commit changed, as it was before; none if it is new, or of another kind.
#[derive(Debug, Default)]
pub(crate) struct Before {
    pub volume: Option<Stored<Volume>>,
    pub claim: Option<Stored<Claim>>,
    pub pod: Option<Stored<Pod>>,
    pub node: Option<Stored<Node>>,
    pub attachment: Option<Stored<Attachment>>,
}

/// Stored objects, by namespace and name, or by name.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub before: Before,
    volumes: BTreeMap<PvName, Stored<Volume>>,
    /// PersistentVolume of each handle that Kubernetes knows or has known.
    by_handle: BTreeMap<VolumeId, PvName>,
    /// PersistentVolume of each claim.
    by_claim: BTreeMap<ClaimKey, PvName>,
    claims: BTreeMap<ClaimKey, Stored<Claim>>,
    /// All versions of each class: a provisioner uses the version that it knows.
    classes: BTreeMap<ClassName, Vec<Spec>>,
    /// All versions of each VolumeAttributesClass.
    attributes_classes: BTreeMap<ClassName, Vec<Spec>>,
    pods: BTreeMap<PodKey, Stored<Pod>>,
    /// Pods that name each claim.
    users: BTreeMap<ClaimKey, BTreeSet<PodKey>>,
    pub attachments: BTreeMap<AttachmentName, Stored<Attachment>>,
    pub nodes: BTreeMap<NodeName, Stored<Node>>,
    zones: BTreeMap<NodeName, Text>,
    cloud: BTreeMap<VolumeId, VolumeChanged>,
    /// Size in bytes of the filesystem of a volume, as last reported by a node's disk.
    filesystems: BTreeMap<VolumeId, u64>,
}

impl Objects {
    /// Records an event.
    pub fn observe(&mut self, event: &Event) {
        if let Some(commit) = event.get::<Commit>() {
            self.on_commit(commit, event.ms);
        } else if let Some(changed) = event.get::<VolumeChanged>() {
            if changed.state == VolumePhase::Deleted {
                self.cloud.remove(changed.volume.as_str());
                self.filesystems.remove(changed.volume.as_str());
            } else {
                self.cloud.insert(changed.volume.as_str().into(), changed.clone());
            }
        } else if let Some(changed) = event.get::<ModificationChanged>() {
            if let Some(volume) = self.cloud.get_mut(changed.volume.as_str()) {
                let ModificationChanged { size_gib, volume_type, iops, throughput, .. } = changed.clone();
                (volume.size_gib, volume.volume_type) = (size_gib, volume_type);
                (volume.iops, volume.throughput) = (iops, throughput);
            }
        } else if let Some(DiskStaged { volume, size_bytes, .. }) = event.get() {
            match size_bytes {
                Some(bytes) => drop(self.filesystems.insert(volume.into(), *bytes)),
                // This backend does not report the size, so the known size is outdated.
                None => drop(self.filesystems.remove(volume.as_str())),
            }
        } else if let Some(DiskExpanded { volume, size_bytes, .. }) = event.get() {
            self.filesystems.insert(volume.into(), *size_bytes);
        }
    }

    fn on_commit(&mut self, commit: &Commit, ms: u64) {
        let (object, deleted) = (&commit.object, commit.r#type == EventType::Deleted);
        self.before = Before::default();
        if let Some(pv) = &commit.pv {
            if let Some(handle) = pv.handle.as_ref().filter(|handle| !handle.is_empty()) {
                self.by_handle.insert(handle.into(), object.into());
            }
            match &pv.claim {
                Some(claim) if deleted => drop(self.by_claim.remove(claim.as_str())),
                Some(claim) => drop(self.by_claim.insert(claim.into(), object.into())),
                None => {}
            }
            self.before.volume = keep(&mut self.volumes, commit, pv, ms);
        } else if let Some(claim) = &commit.pvc {
            self.before.claim = keep(&mut self.claims, commit, claim, ms);
        } else if let Some(pod) = &commit.pod {
            self.before.pod = keep(&mut self.pods, commit, pod, ms);
            for claim in claims_of(object, pod) {
                let users = self.users.entry(claim).or_default();
                if deleted {
                    users.remove(&**object);
                } else {
                    users.insert(object.into());
                }
            }
        } else if let Some(va) = &commit.volumeattachment {
            self.before.attachment = keep(&mut self.attachments, commit, va, ms);
        } else if let Some((class, versions)) = commit.spec.as_ref().zip(self.versions(&commit.resource, object)) {
            if !versions.contains(class) {
                versions.push((**class).clone());
            }
        } else if let Some(zone) = commit.spec.as_ref().and_then(|node| node.zones.first()) {
            self.zones.insert(object.into(), zone.clone());
        }
        if let Some(node) = &commit.node {
            self.before.node = keep(&mut self.nodes, commit, node, ms);
        }
    }

    /// Returns the versions of a StorageClass or a VolumeAttributesClass.
    fn versions(&mut self, resource: &str, name: impl Into<ClassName>) -> Option<&mut Vec<Spec>> {
        let classes = match resource {
            "storageclasses" => &mut self.classes,
            "volumeattributesclasses" => &mut self.attributes_classes,
            _ => return None,
        };
        Some(classes.entry(name.into()).or_default())
    }

    /// Returns all claims, each with its key.
    pub fn claims(&self) -> impl Iterator<Item = (&ClaimKey, &Stored<Claim>)> {
        self.claims.iter()
    }

    /// Returns all PersistentVolumes, each with its name.
    pub fn volumes(&self) -> impl Iterator<Item = (&PvName, &Stored<Volume>)> {
        self.volumes.iter()
    }

    /// Returns all pods, each with its key.
    pub fn pods(&self) -> impl Iterator<Item = (&PodKey, &Stored<Pod>)> {
        self.pods.iter()
    }

    /// Returns the claim of a namespace and name.
    pub fn claim(&self, key: &str) -> Option<&Stored<Claim>> {
        self.claims.get(key)
    }

    /// Returns the pod of a namespace and name.
    pub fn pod(&self, key: &str) -> Option<&Stored<Pod>> {
        self.pods.get(key)
    }

    /// Returns the PersistentVolume of a name.
    pub fn volume(&self, name: &str) -> Option<&Stored<Volume>> {
        self.volumes.get(name)
    }

    /// Returns the PersistentVolume of a handle.
    pub fn volume_of(&self, handle: &str) -> Option<&Stored<Volume>> {
        self.volumes.get(self.by_handle.get(handle)?)
    }

    /// Returns the volumes that Kubernetes knows or has known, each with the name of its PersistentVolume.
    pub fn handles(&self) -> impl Iterator<Item = (&str, &str)> {
        self.by_handle.iter().map(|(handle, pv)| (&**handle, &**pv))
    }

    /// Returns the name of the PersistentVolume that a handle has or had.
    pub fn pv_of(&self, handle: &str) -> Option<&str> {
        self.by_handle.get(handle).map(|pv| &**pv)
    }

    /// Returns the handle of a claim's volume.
    pub fn handle_of_claim(&self, claim: &str) -> Option<&str> {
        Some(self.volumes.get(self.by_claim.get(claim)?)?.handle())
    }

    /// Returns all versions of a StorageClass.
    pub fn class(&self, name: &str) -> &[Spec] {
        self.classes.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns true if a version of a StorageClass has a parameter.
    pub fn is_class_parameter(&self, name: &str) -> bool {
        self.classes.values().flatten().any(|class| class.parameters.keys().any(|key| key == name))
    }

    /// Returns all versions of a VolumeAttributesClass.
    pub fn attributes_class(&self, name: &str) -> &[Spec] {
        self.attributes_classes.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the zone of a node.
    pub fn zone(&self, node: &str) -> Option<&Text> {
        self.zones.get(node)
    }

    /// Returns the cloud volume that a handle names.
    pub fn in_cloud(&self, handle: &str) -> Option<&VolumeChanged> {
        self.cloud.get(handle)
    }

    /// Returns the size in bytes of the filesystem of a volume, if a disk has reported it.
    pub fn filesystem(&self, handle: &str) -> Option<u64> {
        self.filesystems.get(handle).copied()
    }

    /// Returns the pods that use a claim and have not finished, each with its key.
    pub fn users(&self, claim: &str) -> impl Iterator<Item = (&PodKey, &Stored<Pod>)> {
        self.pods_of(claim).filter(|(_, pod)| !matches!(pod.state.phase.as_deref(), Some("Succeeded" | "Failed")))
    }

    /// Returns the pods that name a claim, finished or not, each with its key.
    pub fn pods_of(&self, claim: &str) -> impl Iterator<Item = (&PodKey, &Stored<Pod>)> {
        let keys = self.users.get(claim).into_iter().flatten();
        keys.filter_map(move |key| Some((key, self.pods.get(key)?)))
    }
}

/// Returns true if a node has the out-of-service taint.
pub(crate) fn is_out_of_service(node: &Node) -> bool {
    node.taints.iter().any(|taint| taint.starts_with("node.kubernetes.io/out-of-service:"))
}

/// Returns the taints of a node that is not Ready, which are removed when it becomes Ready.
pub(crate) fn keeps_away(node: &Node) -> impl Iterator<Item = &Text> {
    let keys = ["node.kubernetes.io/unreachable:", "node.kubernetes.io/not-ready:"];
    node.taints.iter().filter(move |taint| keys.iter().any(|key| taint.starts_with(*key)))
}

/// Returns the keys of the claims of a pod; `key` is its own.
pub(crate) fn claims_of(key: &str, pod: &Pod) -> impl Iterator<Item = ClaimKey> {
    let namespace = key.split_once('/').map_or("default", |(namespace, _)| namespace);
    pod.claims.iter().map(move |claim| ClaimKey::new(namespace, claim))
}

/// Stores the last state of an object, or removes it. Returns the object before.
fn keep<K: Ord + Borrow<str> + for<'a> From<&'a Arc<str>>, T: Clone>(
    all: &mut BTreeMap<K, Stored<T>>,
    commit: &Commit,
    state: &T,
    ms: u64,
) -> Option<Stored<T>> {
    if commit.r#type == EventType::Deleted {
        return all.remove(&*commit.object);
    }
    let spec = commit.spec.as_deref().cloned().unwrap_or_default();
    let since = all.get(&*commit.object).map_or(ms, |before| before.since);
    all.insert((&commit.object).into(), Stored { state: state.clone(), spec, since })
}
