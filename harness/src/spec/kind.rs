//! Kinds of Kubernetes objects in scenario files, and states that a step can wait for.

use std::cmp::Ordering;
use std::fmt;

use fake_apiserver::kinds;
use serde::{Deserialize, Serialize};

/// A kind of objects that a scenario can name: any kind that the API server stores.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kind(&'static kinds::Kind);

/// Kinds with longer names are shown by their short name: `pvc`, but `storageclass`.
const LONG: usize = 15;

impl Kind {
    /// A built-in kind; the tests check all kinds that are named here.
    fn known(api_version: &str, kind: &str) -> Self {
        Self(kinds::find_kind(api_version, kind).unwrap_or(&kinds::all()[0]))
    }

    /// A kind of a CustomResourceDefinition.
    pub(super) fn custom(kind: &'static kinds::Kind) -> Self {
        Self(kind)
    }

    /// The kind Pod.
    pub fn pod() -> Self {
        Self::known("v1", "Pod")
    }

    /// The kind Node.
    pub fn node() -> Self {
        Self::known("v1", "Node")
    }

    /// The kind PersistentVolumeClaim.
    pub fn claim() -> Self {
        Self::known("v1", "PersistentVolumeClaim")
    }

    /// The kind PersistentVolume.
    pub fn volume() -> Self {
        Self::known("v1", "PersistentVolume")
    }

    /// The kind StorageClass.
    pub fn storage_class() -> Self {
        Self::known("storage.k8s.io/v1", "StorageClass")
    }

    /// The kind CSIDriver.
    pub fn csi_driver() -> Self {
        Self::known("storage.k8s.io/v1", "CSIDriver")
    }

    /// The kind CSINode.
    pub fn csi_node() -> Self {
        Self::known("storage.k8s.io/v1", "CSINode")
    }

    /// The kind Event.
    pub fn event() -> Self {
        Self::known("v1", "Event")
    }

    /// The kind VolumeAttachment.
    pub fn volume_attachment() -> Self {
        Self::known("storage.k8s.io/v1", "VolumeAttachment")
    }

    /// The kinds whose objects control or protect pods.
    pub fn workloads() -> [Self; 5] {
        let apps = ["StatefulSet", "ReplicaSet", "Deployment"].map(|kind| Self::known("apps/v1", kind));
        let [sets, replica_sets, deployments] = apps;
        let budgets = Self::known("policy/v1", "PodDisruptionBudget");
        [sets, replica_sets, deployments, Self::known("batch/v1", "Job"), budgets]
    }

    /// Row in the API server's table of kinds.
    pub(crate) fn table(self) -> &'static kinds::Kind {
        self.0
    }

    /// Kind in manifests: `PersistentVolumeClaim`.
    pub fn kind(self) -> &'static str {
        self.0.kind
    }

    /// Group and version in manifests: `v1`, `storage.k8s.io/v1`.
    pub fn api_version(self) -> String {
        self.0.api_version()
    }

    /// Resource in URLs: `persistentvolumeclaims`.
    pub fn resource(self) -> &'static str {
        self.0.plural
    }

    /// Name in messages: `pod`, `pvc`.
    pub fn short(self) -> &'static str {
        match self.0.short_names.first() {
            Some(short) if self.0.singular.len() > LONG => short,
            _ => self.0.singular,
        }
    }

    /// Returns true if objects of this kind are namespaced.
    pub fn namespaced(self) -> bool {
        self.0.namespaced
    }

    /// Finds the kind of a manifest.
    pub fn of_manifest(api_version: &str, kind: &str) -> Option<Self> {
        kinds::find_kind(api_version, kind).filter(|kind| kind.is_stored()).map(Self)
    }

    /// Returns true if it is a version of this resource.
    pub(super) fn is_resource(self, plural: &str, group: &str) -> bool {
        self.0.plural == plural && self.0.group == group
    }

    /// Returns true if it comes from a CustomResourceDefinition.
    pub fn is_custom(self) -> bool {
        self.0.index == usize::MAX
    }

    /// Subresources that are served.
    pub fn subresources(self) -> impl Iterator<Item = &'static kinds::Subresource> {
        self.0.subresources.iter()
    }

    /// Finds the kind for `word` as kubectl does: `pod`, `po`, `pods`, `Pod`, `storageclasses.storage.k8s.io`,
    /// `deployments.v1.apps`. If several groups have it, the first in the order of discovery wins, which begins with
    /// the built-in ones.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::find(word, &[])
    }

    /// Finds the kind for `word`, including custom kinds.
    pub(crate) fn find(word: &str, customs: &[Self]) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        let (name, place) = word.split_once('.').map_or((word.as_str(), None), |(name, place)| (name, Some(place)));
        let called = |kind: &kinds::Kind| {
            let here = place.is_none_or(|place| {
                let version = place.strip_suffix(kind.group).and_then(|rest| rest.strip_suffix('.'));
                !kind.group.is_empty() && (place == kind.group || version == Some(kind.version))
            });
            here && (kind.plural == name || kind.singular == name || kind.short_names.contains(&name))
        };
        let custom = || customs.iter().copied().find(|kind| called(kind.0));
        kinds::all().iter().find(|kind| called(kind)).map(Self).or_else(custom)
    }

    /// Every word that [`Kind::of_word`] accepts without a group; for custom kinds also with their groups.
    pub(crate) fn words(customs: &[Self]) -> impl Iterator<Item = String> + '_ {
        let words = |kind: Self| kind.0.short_names.iter().copied().chain([kind.0.singular, kind.0.plural]);
        let built_in = kinds::all().iter().flat_map(move |kind| words(Self(kind))).map(str::to_owned);
        let custom = customs.iter().copied().flat_map(move |kind| {
            words(kind).map(str::to_owned).chain([format!("{}.{}", kind.0.plural, kind.0.group)])
        });
        built_in.chain(custom)
    }

    /// Every kind with its version, as in manifests.
    pub(crate) fn kinds() -> impl Iterator<Item = (&'static str, String)> + Clone {
        kinds::all().iter().map(|kind| (kind.kind, kind.api_version()))
    }

    /// States of this kind that a step can wait for.
    pub fn states(self) -> &'static [State] {
        use State::*;
        match (self.0.group, self.0.kind) {
            ("", "Pod") => &[Pending, Running, Succeeded, Failed, Unknown, Ready, Terminating, Exists, Gone],
            ("", "Node") => &[Ready, NotReady, Unknown, Terminating, Exists, Gone],
            ("", "PersistentVolumeClaim") => &[Pending, Bound, Lost, Terminating, Exists, Gone],
            ("", "PersistentVolume") => &[Pending, Available, Bound, Released, Failed, Terminating, Exists, Gone],
            ("storage.k8s.io", "VolumeAttachment") => &[Attached, Detached, Terminating, Exists, Gone],
            _ => &[Terminating, Exists, Gone],
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.kind)
    }
}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.0.index != other.0.index || self == other {
            return self.0.index.cmp(&other.0.index);
        }
        // Two custom kinds.
        let key = |kind: &Self| {
            let row = kind.0;
            let names = (row.group, row.version, row.kind, row.plural, row.singular, row.short_names);
            (names, row.namespaced, row.subresources.iter().map(|sub| sub.name).collect::<Vec<_>>())
        };
        key(self).cmp(&key(other))
    }
}

/// A state of an object that a step can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum State {
    /// Phase of a pod, claim or volume.
    Pending,
    /// Phase of a pod.
    Running,
    /// Phase of a pod.
    Succeeded,
    /// Phase of a pod or volume.
    Failed,
    /// Phase of a claim or volume.
    Bound,
    /// Phase of a volume.
    Available,
    /// Phase of a volume.
    Released,
    /// Phase of a claim.
    Lost,
    /// Condition Ready=True of a node or pod.
    Ready,
    /// Condition Ready=False of a node.
    NotReady,
    /// Condition Ready=Unknown of a node; phase of a pod.
    Unknown,
    /// `status.attached` of an attachment is true.
    Attached,
    /// The attachment exists and `status.attached` is false.
    Detached,
    /// `metadata.deletionTimestamp` is set.
    Terminating,
    /// The object exists, in any state.
    #[serde(rename = "exists")]
    Exists,
    /// The object does not exist.
    #[serde(rename = "gone")]
    Gone,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists => f.write_str("exists"),
            Self::Gone => f.write_str("gone"),
            other => write!(f, "{other:?}"),
        }
    }
}
