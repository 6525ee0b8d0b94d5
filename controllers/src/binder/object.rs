//! Accessors of claims and volumes for the binding rules.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use substrate::json::Text;

use super::{annotations, quantity};

/// Namespace and name of a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimKey {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
}

impl ClaimKey {
    /// Returns the key of a claim.
    pub fn of(claim: &PersistentVolumeClaim) -> Self {
        Self::new(claim.metadata.namespace.as_deref().unwrap_or_default(), name(&claim.metadata))
    }

    /// Returns the key of the claim `namespace`/`name`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the key of the claim that a volume refers to, if any.
    pub fn of_volume(volume: &PersistentVolume) -> Option<Self> {
        let reference = volume_spec(volume).claim_ref.as_ref()?;
        Some(Self::new(
            reference.namespace.as_deref().unwrap_or_default(),
            reference.name.as_deref().unwrap_or_default(),
        ))
    }
}

impl std::fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Returns an object's name.
pub fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// Returns an object's uid.
pub fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

/// Parses an object's resourceVersion as a number (apimachinery KEP-5504); 0 if it has none.
pub fn resource_version(metadata: &ObjectMeta) -> u128 {
    metadata.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// Returns the value of an annotation.
pub fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Sets an annotation.
pub fn annotate(metadata: &mut ObjectMeta, key: &str, value: &str) {
    metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

/// Removes an annotation, and an empty map with the last one.
pub fn remove_annotation(metadata: &mut ObjectMeta, key: &str) {
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(key);
        if annotations.is_empty() {
            metadata.annotations = None;
        }
    }
}

/// Returns a volume's spec; an empty one if it has none.
pub fn volume_spec(volume: &PersistentVolume) -> &PersistentVolumeSpec {
    static EMPTY: std::sync::LazyLock<PersistentVolumeSpec> = std::sync::LazyLock::new(Default::default);
    volume.spec.as_ref().unwrap_or(&EMPTY)
}

/// Returns the volume that a claim names in its spec, or an empty string.
pub fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|s| s.volume_name.as_deref()).unwrap_or_default()
}

/// Returns a claim's class, or an empty string; the annotation takes precedence over the field
/// (`GetPersistentVolumeClaimClass`).
pub fn claim_class(claim: &PersistentVolumeClaim) -> &str {
    annotation(&claim.metadata, annotations::BETA_STORAGE_CLASS)
        .or_else(|| claim.spec.as_ref().and_then(|s| s.storage_class_name.as_deref()))
        .unwrap_or_default()
}

/// Returns true if a claim names a class; an empty name counts (`PersistentVolumeClaimHasClass`).
pub fn claim_has_class(claim: &PersistentVolumeClaim) -> bool {
    annotation(&claim.metadata, annotations::BETA_STORAGE_CLASS).is_some()
        || claim.spec.as_ref().is_some_and(|s| s.storage_class_name.is_some())
}

/// Returns a volume's class, or an empty string (`GetPersistentVolumeClass`).
pub fn volume_class(volume: &PersistentVolume) -> &str {
    annotation(&volume.metadata, annotations::BETA_STORAGE_CLASS)
        .or(volume_spec(volume).storage_class_name.as_deref())
        .unwrap_or_default()
}

/// Returns the access modes that a claim requests.
pub fn claim_modes(claim: &PersistentVolumeClaim) -> &[String] {
    claim.spec.as_ref().and_then(|s| s.access_modes.as_deref()).unwrap_or_default()
}

/// Returns the bytes that a claim requests; 0 if unset.
pub fn requested_bytes(claim: &PersistentVolumeClaim) -> i64 {
    let requests = claim.spec.as_ref().and_then(|s| s.resources.as_ref()).and_then(|r| r.requests.as_ref());
    requests.and_then(|r| r.get("storage")).map_or(0, quantity::value)
}

/// Returns the capacity of a volume in bytes; 0 if unset.
pub fn capacity_bytes(volume: &PersistentVolume) -> i64 {
    volume_spec(volume).capacity.as_ref().and_then(|c| c.get("storage")).map_or(0, quantity::value)
}

/// Returns a claim's phase, or an empty string.
pub fn claim_phase(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// Returns a volume's phase, or an empty string.
pub fn volume_phase(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// Returns true if a volume refers to this claim: by name, and by uid unless the user omitted it
/// (`IsVolumeBoundToClaim`).
pub fn refers_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let Some(reference) = &volume_spec(volume).claim_ref else { return false };
    let uid = reference.uid.as_deref().unwrap_or_default();
    reference.name.as_deref() == claim.metadata.name.as_deref()
        && reference.namespace.as_deref() == claim.metadata.namespace.as_deref()
        && (uid.is_empty() || uid == self::uid(&claim.metadata))
}

/// Returns true if the volume modes (Filesystem, Block) differ (`CheckVolumeModeMismatches`).
pub fn volume_modes_differ(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let asked = claim.spec.as_ref().and_then(|s| s.volume_mode.as_deref()).unwrap_or("Filesystem");
    asked != volume_spec(volume).volume_mode.as_deref().unwrap_or("Filesystem")
}

/// Returns true if a volume offers every access mode that the claim requests (`CheckAccessModes`).
pub fn access_modes_satisfied(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let offered = volume_spec(volume).access_modes.as_deref().unwrap_or_default();
    claim_modes(claim).iter().all(|mode| offered.contains(mode))
}

/// Returns true if claim and volume name the same VolumeAttributesClass; absent equals empty.
pub fn attributes_classes_agree(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let asked = claim.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref()).unwrap_or_default();
    asked == volume_spec(volume).volume_attributes_class_name.as_deref().unwrap_or_default()
}

/// Returns true if binding was completed and the claim names its volume (`isPVCFullyBound`).
pub fn fully_bound(claim: &PersistentVolumeClaim) -> bool {
    !volume_name(claim).is_empty() && annotation(&claim.metadata, annotations::BIND_COMPLETED).is_some()
}

/// Returns the claims that a pod uses: its own and those of its generic ephemeral volumes, each with true if ephemeral.
pub fn pod_claims(pod: &k8s_openapi::api::core::v1::Pod) -> impl Iterator<Item = (String, bool)> + '_ {
    let volumes = pod.spec.as_ref().and_then(|s| s.volumes.as_deref()).unwrap_or_default();
    volumes.iter().filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => Some((source.claim_name.clone(), false)),
        (None, Some(_)) => Some((format!("{}-{}", name(&pod.metadata), volume.name), true)),
        (None, None) => None,
    })
}

/// Returns an empty map, for optional maps.
pub fn no_entries() -> &'static BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    &NONE
}
