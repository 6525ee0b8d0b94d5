//! The names of Kubernetes objects in scenario files, and the states that a step can wait for.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use fake_apiserver::kinds;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::custom::Customs;

/// A kind of objects that a scenario can name: any that the API server keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kind(&'static kinds::Kind);

/// Above this many letters a kind is called by its short name: `pvc`, but `storageclass`.
const LONG: usize = 15;

impl Kind {
    /// A kind of the table; the tests walk those that are named here.
    fn known(api_version: &str, kind: &str) -> Self {
        Self(kinds::find_kind(api_version, kind).unwrap_or(&kinds::all()[0]))
    }

    /// A kind of a definition.
    pub(super) fn custom(kind: &'static kinds::Kind) -> Self {
        Self(kind)
    }

    /// Pods.
    pub fn pod() -> Self {
        Self::known("v1", "Pod")
    }

    /// Nodes.
    pub fn node() -> Self {
        Self::known("v1", "Node")
    }

    /// Claims.
    pub fn claim() -> Self {
        Self::known("v1", "PersistentVolumeClaim")
    }

    /// Volumes.
    pub fn volume() -> Self {
        Self::known("v1", "PersistentVolume")
    }

    /// Storage classes.
    pub fn storage_class() -> Self {
        Self::known("storage.k8s.io/v1", "StorageClass")
    }

    /// Registrations of CSI drivers.
    pub fn csi_driver() -> Self {
        Self::known("storage.k8s.io/v1", "CSIDriver")
    }

    /// Events.
    pub fn event() -> Self {
        Self::known("v1", "Event")
    }

    /// Attachments.
    pub fn volume_attachment() -> Self {
        Self::known("storage.k8s.io/v1", "VolumeAttachment")
    }

    /// Its row in the API server's table.
    pub(crate) fn table(self) -> &'static kinds::Kind {
        self.0
    }

    /// The kind as manifests spell it: `PersistentVolumeClaim`.
    pub fn kind(self) -> &'static str {
        self.0.kind
    }

    /// Group and version as manifests spell them: `v1`, `storage.k8s.io/v1`.
    pub fn api_version(self) -> String {
        self.0.api_version()
    }

    /// The resource in URLs: `persistentvolumeclaims`.
    pub fn resource(self) -> &'static str {
        self.0.plural
    }

    /// What messages call it: `pod`, `pvc`.
    pub fn short(self) -> &'static str {
        match self.0.short_names.first() {
            Some(short) if self.0.singular.len() > LONG => short,
            _ => self.0.singular,
        }
    }

    /// Whether objects of this kind live in a namespace.
    pub fn namespaced(self) -> bool {
        self.0.namespaced
    }

    /// The kind of a manifest.
    pub fn of_manifest(api_version: &str, kind: &str) -> Option<Self> {
        kinds::find_kind(api_version, kind).filter(|kind| kind.is_stored()).map(Self)
    }

    /// Whether it is a version of this resource.
    pub(super) fn is_resource(self, plural: &str, group: &str) -> bool {
        self.0.plural == plural && self.0.group == group
    }

    /// Whether a definition made it.
    pub fn is_custom(self) -> bool {
        self.0.index == usize::MAX
    }

    /// The subresources that are served.
    pub fn subresources(self) -> impl Iterator<Item = &'static kinds::Subresource> {
        self.0.subresources.iter()
    }

    /// The kind that kubectl would understand by `word`: `pod`, `po`, `pods`, `Pod`, `storageclasses.storage.k8s.io`,
    /// `deployments.v1.apps`; the first of discovery's order when several groups have it, which begins with what is
    /// built in.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::find(word, &Customs::default())
    }

    /// The same, of custom kinds too.
    pub(crate) fn find(word: &str, customs: &Customs) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        let (name, place) = word.split_once('.').map_or((word.as_str(), None), |(name, place)| (name, Some(place)));
        let called = |kind: &kinds::Kind| {
            let here = place.is_none_or(|place| {
                let version = place.strip_suffix(kind.group).and_then(|rest| rest.strip_suffix('.'));
                !kind.group.is_empty() && (place == kind.group || version == Some(kind.version))
            });
            here && (kind.plural == name || kind.singular == name || kind.short_names.contains(&name))
        };
        let custom = || customs.all().find(|kind| called(kind.0));
        kinds::all().iter().find(|kind| called(kind)).map(Self).or_else(custom)
    }

    /// Every word that [`Kind::of_word`] takes without a group; of custom kinds, with their groups too.
    pub(crate) fn words(customs: &Customs) -> impl Iterator<Item = String> + '_ {
        let words = |kind: Self| kind.0.short_names.iter().copied().chain([kind.0.singular, kind.0.plural]);
        let built_in = kinds::all().iter().flat_map(move |kind| words(Self(kind))).map(str::to_owned);
        let custom = customs.all().flat_map(move |kind| {
            words(kind).map(str::to_owned).chain([format!("{}.{}", kind.0.plural, kind.0.group)])
        });
        built_in.chain(custom)
    }

    /// Every kind as manifests spell it, with its version.
    pub(crate) fn kinds() -> impl Iterator<Item = (&'static str, String)> + Clone {
        kinds::all().iter().map(|kind| (kind.kind, kind.api_version()))
    }

    /// The states that an object of this kind can be waited into.
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

/// A Kubernetes object by kind, namespace and name: `pod/web`, `pvc/team-a/data`, `node/node-a`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; nothing for cluster-wide kinds, `default` when the file names none.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    /// The object `name` of `kind`; `namespace` counts only for namespaced kinds and is `default` when absent.
    pub fn new(kind: Kind, namespace: Option<&str>, name: &str) -> Self {
        let namespace = kind.namespaced().then(|| namespace.unwrap_or("default").to_owned());
        Self { kind, namespace, name: name.to_owned() }
    }

    /// The URL path of the collection that it is in.
    pub fn collection_path(&self) -> String {
        let version = self.kind.api_version();
        let root = if version.contains('/') { "apis" } else { "api" };
        let resource = self.kind.resource();
        match &self.namespace {
            Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{resource}"),
            None => format!("/{root}/{version}/{resource}"),
        }
    }

    /// The URL path of the object.
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection_path(), self.name)
    }

    /// The object as trace events name it: `ns/name`, or `name` when the kind is cluster-wide.
    pub fn key(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_deref() {
            None | Some("default") => write!(f, "{}/{}", self.kind.short(), self.name),
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind.short(), self.name),
        }
    }
}

impl ObjectRef {
    /// Reads a name, of custom kinds too.
    ///
    /// # Errors
    /// What is wrong with it, and the nearest right word.
    pub(crate) fn read(text: &str, customs: &Customs) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (word, namespace, name) = match parts[..] {
            [word, name] => (word, None, name),
            [word, namespace, name] => (word, Some(namespace), name),
            _ => {
                return Err(format!("`{text}` names no object: write kind/name or kind/namespace/name, as in pod/web"));
            }
        };
        let Some(kind) = Kind::find(word, customs) else {
            let words: Vec<String> = Kind::words(customs).collect();
            let near = super::diagnostic::nearest(word, words.iter().map(String::as_str));
            let hint = near.map(|w| format!(", did you mean `{w}`?")).unwrap_or_default();
            return Err(format!("`{word}` is no kind of object{hint}"));
        };
        if namespace.is_some() && !kind.namespaced() {
            return Err(format!("a {} has no namespace: write {}/{name}", kind.kind(), kind.short()));
        }
        for part in namespace.iter().chain([&name]) {
            check_name(part)?;
        }
        Ok(Self::new(kind, namespace, name))
    }
}

impl FromStr for ObjectRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text, &Customs::default())
    }
}

impl<'de> Deserialize<'de> for ObjectRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Serialize for ObjectRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Refuses what Kubernetes refuses as a DNS-1123 subdomain.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let good = !name.is_empty()
        && name.len() <= 253
        && name.chars().all(inner)
        && name.starts_with(edge)
        && name.ends_with(edge);
    if good {
        return Ok(());
    }
    Err(format!(
        "`{name}` is no object name: lower-case letters, digits, `-` and `.`, at most 253, no `-` or `.` at the ends"
    ))
}

/// An object in a state: `pvc/data=Bound`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The object.
    pub object: ObjectRef,
    /// Its state.
    pub is: State,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is no condition: write kind/name=State, as in pvc/data=Bound");
        let (object, word) = text.split_once('=').ok_or_else(bad)?;
        let object: ObjectRef = object.parse()?;
        let states = object.kind.states();
        match states.iter().find(|state| state.to_string() == word) {
            Some(is) => Ok(Self { object, is: *is }),
            None => {
                let words: Vec<String> = states.iter().map(State::to_string).collect();
                let help = super::diagnostic::suggest(word, words.iter().map(String::as_str), "its states");
                Err(format!("a {} is never {word}; {help}", object.kind.kind()))
            }
        }
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
    /// The object is there, in whatever state.
    #[serde(rename = "exists")]
    Exists,
    /// The object is not there.
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
