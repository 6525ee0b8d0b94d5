//! Names, ordinals, labels and volumes of a set's pods (`stateful_set_utils.go`).

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume};

use crate::kube::Kind;
use crate::pod_status::phase;
use crate::workload::availability::{is_available, is_ready};
use crate::workload::controller_ref::controller_ref;
use crate::workload::pod_template::pod_from_template;

/// Label with the name of the pod.
const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// Label with the ordinal of the pod.
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
/// Label with the name of the pod's revision.
const REVISION_LABEL: &str = "controller-revision-hash";

/// Range of the ordinals of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ordinals {
    /// First ordinal.
    pub(super) start: i32,
    /// Number of replicas.
    pub(super) replicas: i32,
}

impl Ordinals {
    /// Returns the range of a set. The API server sets the number of replicas.
    pub(super) fn of(spec: &StatefulSetSpec) -> Self {
        let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
        Self { start, replicas: spec.replicas.unwrap_or(1) }
    }

    /// Returns the ordinals in ascending order.
    pub(super) fn iter(self) -> impl Iterator<Item = i32> {
        self.start..self.start + self.replicas
    }

    /// Returns true if the pod is in the range (`podInOrdinalRange`).
    pub(super) fn contain(self, pod: &Pod) -> bool {
        ordinal(pod).is_some_and(|ordinal| self.iter().any(|own| own == ordinal))
    }
}

/// Splits the name of a pod into the name of its set and the ordinal (`getParentNameAndOrdinal`).
fn parent_and_ordinal(pod: &Pod) -> Option<(&str, i32)> {
    let (parent, digits) = pod.name().rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Some((parent, digits.parse().ok()?)))?
}

/// Returns the pod's ordinal; none for a name without one.
pub(super) fn ordinal(pod: &Pod) -> Option<i32> {
    parent_and_ordinal(pod).map(|(_, ordinal)| ordinal)
}

/// Returns true if the pod's name is one of the set's (`isMemberOf`).
pub(super) fn is_member_of(set: &StatefulSet, pod: &Pod) -> bool {
    parent_and_ordinal(pod).is_some_and(|(parent, _)| parent == set.name())
}

/// Returns the name of the claim of a template for an ordinal (`getPersistentVolumeClaimName`).
pub(super) fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    format!("{}-{}-{ordinal}", template.name(), set.name())
}

/// Returns the claim templates of a set.
pub(super) fn claim_templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_deref()).unwrap_or_default()
}

/// Returns true if the pod has the name and the label of a member (`identityMatches`).
pub(super) fn identity_matches(set: &StatefulSet, pod: &Pod) -> bool {
    parent_and_ordinal(pod).is_some_and(|(parent, ordinal)| {
        parent == set.name()
            && pod.name() == format!("{parent}-{ordinal}")
            && pod.namespace() == set.namespace()
            && pod.label(POD_NAME_LABEL) == Some(pod.name())
    })
}

/// Returns true if the pod's volumes use the claims of all templates (`storageMatches`).
pub(super) fn storage_matches(set: &StatefulSet, pod: &Pod) -> bool {
    let Some(ordinal) = ordinal(pod) else { return false };
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    claim_templates(set).iter().all(|template| {
        let volume = volumes.iter().rev().find(|volume| volume.name == template.name());
        let claim = volume.and_then(|volume| volume.persistent_volume_claim.as_ref());
        claim.is_some_and(|claim| claim.claim_name == claim_name(set, template, ordinal))
    })
}

/// Returns the claims of a pod, in the order of their templates (`getPersistentVolumeClaims`).
pub(super) fn claims(set: &StatefulSet, pod: &Pod) -> Vec<PersistentVolumeClaim> {
    let Some((spec, ordinal)) = set.spec.as_ref().zip(ordinal(pod)) else { return Vec::new() };
    let build = |template: &PersistentVolumeClaim| {
        let mut claim = template.clone();
        claim.metadata.name = Some(claim_name(set, template, ordinal));
        claim.metadata.namespace = Some(set.namespace().to_owned());
        if let Some(selected) = &spec.selector.match_labels {
            let labels = claim.metadata.labels.get_or_insert_default();
            labels.extend(selected.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        claim
    };
    claim_templates(set).iter().map(build).collect()
}

/// Replaces the pod's volumes of the templates' names by volumes of its claims (`updateStorage`).
pub(super) fn update_storage(set: &StatefulSet, pod: &mut Pod) {
    let Some(ordinal) = ordinal(pod) else { return };
    let volume = |template: &PersistentVolumeClaim| {
        let claim_name = claim_name(set, template, ordinal);
        let claim = PersistentVolumeClaimVolumeSource { claim_name, read_only: None };
        Volume { name: template.name().to_owned(), persistent_volume_claim: Some(claim), ..Volume::default() }
    };
    let mut volumes: Vec<Volume> = claim_templates(set).iter().map(volume).collect();
    let spec = pod.spec.get_or_insert_default();
    let is_template = |volume: &Volume| claim_templates(set).iter().any(|template| template.name() == volume.name);
    volumes.extend(spec.volumes.take().into_iter().flatten().filter(|volume| !is_template(volume)));
    spec.volumes = (!volumes.is_empty()).then_some(volumes);
}

/// Sets the name and labels of a member (`updateIdentity`).
pub(super) fn update_identity(set: &StatefulSet, pod: &mut Pod) {
    let Some(ordinal) = ordinal(pod) else { return };
    let name = format!("{}-{ordinal}", set.name());
    pod.metadata.name = Some(name.clone());
    pod.metadata.namespace = Some(set.namespace().to_owned());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME_LABEL.to_owned(), name);
    labels.insert(POD_INDEX_LABEL.to_owned(), ordinal.to_string());
}

/// Returns the revision of a pod; empty if it has none (`getPodRevision`).
pub(super) fn pod_revision(pod: &Pod) -> &str {
    pod.label(REVISION_LABEL).unwrap_or_default()
}

/// Builds the pod of an ordinal at a revision (`newStatefulSetPod`, `setPodRevision`). `set` has the template of the
/// revision.
pub(super) fn new_pod(set: &StatefulSet, revision: &str, ordinal: i32) -> Option<Pod> {
    let spec = set.spec.as_ref()?;
    let mut pod = pod_from_template(&spec.template, set.name(), controller_ref(set));
    pod.metadata.name = Some(format!("{}-{ordinal}", set.name()));
    update_identity(set, &mut pod);
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname.clone_from(&pod.metadata.name);
    pod_spec.subdomain = spec.service_name.clone().filter(|name| !name.is_empty());
    update_storage(set, &mut pod);
    pod.metadata.labels.get_or_insert_default().insert(REVISION_LABEL.to_owned(), revision.to_owned());
    Some(pod)
}

/// Returns true if the pod exists in the API server (`isCreated`).
pub(super) fn is_created(pod: &Pod) -> bool {
    !phase(pod).is_empty()
}

/// Returns true if the pod runs and is ready (`isRunningAndReady`).
pub(super) fn is_running_and_ready(pod: &Pod) -> bool {
    phase(pod) == "Running" && is_ready(pod)
}

/// Returns true if the pod is not available, or is being deleted (`isUnavailable`).
pub(super) fn is_unavailable(pod: &Pod, min_ready_seconds: i32, now: jiff::Timestamp) -> bool {
    !is_available(pod, min_ready_seconds, now) || pod.is_deleting()
}
