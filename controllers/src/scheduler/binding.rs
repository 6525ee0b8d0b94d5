//! Wait for the binder to bind a pod's volumes (`checkBindings`).

use k8s_openapi::api::core::v1::Node;

use super::cache::SchedulerCache;
use super::volume_binding::PodVolumes;
use crate::binder::annotations::SELECTED_NODE;
use crate::binder::object::{ClaimKey, annotation, fully_bound, resource_version, volume_name, volume_spec};
use crate::binder::selectors::{check_node_affinity, node_labels};
use crate::kube::Kind;

/// Reason for giving up a binding; the pod is scheduled again.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum BindingError {
    /// failed to get node {0:?}: node {0:?} not found
    NoNode(String),
    /// pod does not exist any more: pod {0:?} not found
    NoPod(String),
    /// failed to check binding: could not find v1.{0} {1:?}
    Gone(&'static str, String),
    /// failed to check provisioning pvc: could not find v1.PersistentVolumeClaim {0:?}
    ClaimGone(String),
    /// pv {pv:?} node affinity doesn't match node {node:?}: {why}
    Affinity {
        /// The volume.
        pv: String,
        /// The node.
        node: String,
        /// The mismatch.
        why: &'static str,
    },
    /// ClaimRef got reset for pv {0:?}
    ClaimRefReset(String),
    /// selectedNode annotation reset for PVC {0:?}
    SelectedNodeReset(String),
    /// provisioning failed for PVC {0:?}
    ProvisioningFailed(String),
    /// context deadline exceeded
    Timeout,
    /// {0}
    Api(String),
}

/// Returns true if all of a pod's volumes are bound. `volumes` are the objects after our writes: cached ones count only
/// if they are as new. The check uses the API server's state, not the assumed one.
///
/// # Errors
/// If the binding can no longer succeed.
pub fn check(
    cache: &SchedulerCache,
    node: &Node,
    pod_exists: Option<&str>,
    volumes: &PodVolumes,
) -> Result<bool, BindingError> {
    if let Some(pod) = pod_exists {
        return Err(BindingError::NoPod(pod.to_owned()));
    }
    let labels = node_labels(node);
    let affinity = |volume: &k8s_openapi::api::core::v1::PersistentVolume| {
        check_node_affinity(volume, labels).map_err(|why| BindingError::Affinity {
            pv: volume.name().to_owned(),
            node: node.name().to_owned(),
            why,
        })
    };
    for (written, claim) in &volumes.static_bindings {
        let name = written.name();
        let key = ClaimKey::of(claim);
        let Some(volume) = cache.volumes.api(&name.to_owned()) else {
            return Err(BindingError::Gone("PersistentVolume", name.to_owned()));
        };
        let Some(claim) = cache.claims.api(&key) else {
            return Err(BindingError::Gone("PersistentVolumeClaim", key.to_string()));
        };
        if resource_version(&written.metadata) > resource_version(&volume.metadata) {
            return Ok(false);
        }
        affinity(volume)?;
        let uid = volume_spec(volume).claim_ref.as_ref().and_then(|r| r.uid.as_deref());
        if uid.unwrap_or_default().is_empty() {
            return Err(BindingError::ClaimRefReset(name.to_owned()));
        }
        if !fully_bound(claim) {
            return Ok(false);
        }
    }
    for written in &volumes.provisions {
        let key = ClaimKey::of(written);
        let Some(claim) = cache.claims.api(&key) else { return Err(BindingError::ClaimGone(key.to_string())) };
        if resource_version(&written.metadata) > resource_version(&claim.metadata) {
            return Ok(false);
        }
        if claim.metadata.annotations.is_none() {
            return Err(BindingError::SelectedNodeReset(claim.name().to_owned()));
        }
        let is_reset = annotation(&claim.metadata, SELECTED_NODE).unwrap_or_default() != node.name();
        if is_reset && !cache.seeded_bugs.ignores_resets {
            // The provisioner requests another node by removing the annotation.
            return Err(BindingError::ProvisioningFailed(claim.name().to_owned()));
        }
        if !volume_name(claim).is_empty() {
            // Wait for a volume that is not in the cache yet.
            let Some(volume) = cache.volumes.api(&volume_name(claim).to_owned()) else { return Ok(false) };
            affinity(volume)?;
        }
        if !fully_bound(claim) {
            return Ok(false);
        }
    }
    Ok(true)
}
