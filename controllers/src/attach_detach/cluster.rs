//! Volumes of pods, resolved from the caches (`attachdetach/util` and `CreateVolumeSpec` upstream).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::CSIDriver;

use super::reconcile::NodeView;
use super::volume::VolumeSpec;
use super::{MANAGED_ANNOTATION, OUT_OF_SERVICE_TAINT};
use crate::kube::{Informer, Kind};

/// Caches for looking up volumes.
pub struct Listers {
    pub claims: Informer<PersistentVolumeClaim>,
    pub volumes: Informer<PersistentVolume>,
    pub drivers: Informer<CSIDriver>,
    /// True for the seeded bug that attaches volumes of every driver.
    pub ignores_attach_required: bool,
    /// True for the seeded bug that attaches a volume with any single-node mode to one node only.
    pub wants_shared_modes_only: bool,
}

impl Listers {
    /// Returns the attachable volumes of a pod that can be resolved now.
    pub fn attachable_volumes(&self, pod: &Pod) -> Vec<Arc<VolumeSpec>> {
        claim_names(pod).filter_map(|(claim, ephemeral)| self.attachable_volume(pod, &claim, ephemeral)).collect()
    }

    fn attachable_volume(&self, pod: &Pod, claim: &str, ephemeral: bool) -> Option<Arc<VolumeSpec>> {
        let claim = self.claims.get(pod.namespace(), claim)?;
        if ephemeral && !owned_by(&claim, pod) {
            return None;
        }
        let volume = bound_volume(&claim)?;
        let pv = self.volumes.get("", volume)?;
        let claimed_by = pv.spec.as_ref()?.claim_ref.as_ref()?.uid.as_deref();
        if claimed_by != Some(claim.uid()) {
            return None;
        }
        let spec = self.spec(&pv)?;
        self.attachable(&spec.driver).then(|| Arc::new(spec))
    }

    /// Returns the spec of a CSI volume; None for other sources.
    pub fn spec(&self, pv: &PersistentVolume) -> Option<VolumeSpec> {
        let mut spec = VolumeSpec::from_pv(pv)?;
        if self.wants_shared_modes_only {
            let modes = pv.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
            spec.multi_attach &= modes.iter().all(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany");
        }
        Some(spec)
    }

    /// Returns true if volumes of the driver are attached: the default, unless its CSIDriver says otherwise.
    pub fn attachable(&self, driver: &str) -> bool {
        self.ignores_attach_required
            || self.drivers.get("", driver).is_none_or(|d| d.spec.attach_required != Some(false))
    }
}

fn owned_by(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.controller == Some(true) && owner.uid == pod.uid())
}

/// Returns the volume of a Bound claim.
pub fn bound_volume(claim: &PersistentVolumeClaim) -> Option<&str> {
    let phase = claim.status.as_ref()?.phase.as_deref();
    let volume = claim.spec.as_ref()?.volume_name.as_deref().filter(|v| !v.is_empty())?;
    (phase == Some("Bound")).then_some(volume)
}

/// Returns the names of the claims that a pod uses, each with true for a generic ephemeral volume.
pub fn claim_names(pod: &Pod) -> impl Iterator<Item = (String, bool)> {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    volumes.iter().filter_map(|volume| {
        if let Some(source) = &volume.persistent_volume_claim {
            Some((source.claim_name.clone(), false))
        } else {
            volume.ephemeral.as_ref().map(|_| (format!("{}-{}", pod.name(), volume.name), true))
        }
    })
}

/// Returns the node that a pod is bound to.
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Returns true if the phase is final, or if deletion was requested and no container runs (`IsPodTerminated`).
pub fn is_terminated(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    if matches!(status.and_then(|s| s.phase.as_deref()), Some("Succeeded" | "Failed")) {
        return true;
    }
    let containers = status.and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    let stopped = containers
        .iter()
        .all(|c| c.state.as_ref().is_some_and(|state| state.terminated.is_some() || state.waiting.is_some()));
    pod.is_deleting() && stopped
}

/// Returns true if this controller manages the node's volumes.
pub fn is_managed(node: &Node) -> bool {
    node.annotation(MANAGED_ANNOTATION) == Some("true")
}

/// Returns the reconciler's view of a node.
pub fn node_view(node: &Node) -> NodeView {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let taints = node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default();
    NodeView {
        ready: conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
        out_of_service: taints.iter().any(|t| t.key == OUT_OF_SERVICE_TAINT),
    }
}

/// Returns the node's `status.volumesInUse`.
pub fn volumes_in_use(node: &Node) -> &[String] {
    node.status.as_ref().and_then(|s| s.volumes_in_use.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, json};

    use super::*;

    fn pod(deleting: bool, status: Value) -> Pod {
        let mut metadata = json!({ "name": "p", "namespace": "default" });
        if deleting {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        substrate::json::from_value(json!({ "metadata": metadata, "status": status })).expect("a pod")
    }

    #[test]
    fn a_deleting_pod_needs_its_volumes_while_a_container_runs() {
        let with = |state: Value| {
            let container =
                json!({ "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state });
            json!({ "phase": "Running", "containerStatuses": [container] })
        };
        let running = with(json!({ "running": {} }));
        assert!(!is_terminated(&pod(false, running.clone())));
        assert!(!is_terminated(&pod(true, running)));
        assert!(is_terminated(&pod(true, with(json!({ "terminated": { "exitCode": 0 } })))));
        assert!(is_terminated(&pod(true, json!({ "phase": "Pending" }))));
        assert!(is_terminated(&pod(false, json!({ "phase": "Succeeded" }))));
    }

    #[test]
    fn the_out_of_service_taint_counts_whatever_its_value_and_effect() {
        let taint = json!({ "key": OUT_OF_SERVICE_TAINT, "value": "x", "effect": "NoSchedule" });
        let node = json!({ "metadata": { "name": "a" }, "spec": { "taints": [taint] } });
        let node: Node = substrate::json::from_value(node).expect("a node");
        assert_eq!(node_view(&node), NodeView { ready: false, out_of_service: true });
    }
}
