//! Node expansion: the filesystem of a volume that grew follows (storage-controllers §9 "Node expand"; upstream
//! `operationexecutor/node_expander.go`).

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use substrate::json::{Value, json};
use tonic::{Code, Status};

use super::agent::Agent;
use super::csi::classify;
use super::events::Expanded;
use super::pod_facts::secrets;
use super::populate::claims;
use super::volume_manager::{Operation, StepError, Task, VolumeSpec};
use super::volumes::driver;
use crate::binder::quantity;
use crate::kube::{Patch, reference};

/// The conditions of a claim that are about its size.
const CONDITIONS: [&str; 4] = ["Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError"];

/// What a claim says about the growth of its volume on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// It has the size already.
    Done,
    /// A node shall expand it; whether one is known to be at it.
    Now {
        /// The claim's status says so.
        in_progress: bool,
    },
    /// Nobody asked, or a node failed for good; the resizer must ask anew.
    NotNow,
}

fn asked(claim: &PersistentVolumeClaim, bytes: i64) -> Asked {
    let status = claim.status.as_ref();
    match resize_status(claim) {
        Some("NodeResizePending") => Asked::Now { in_progress: false },
        Some("NodeResizeInProgress") => Asked::Now { in_progress: true },
        None if status.and_then(|s| s.capacity.as_ref()?.get("storage")).map_or(0, quantity::value) >= bytes => {
            Asked::Done
        }
        _ => Asked::NotNow,
    }
}

fn resize_status(claim: &PersistentVolumeClaim) -> Option<&str> {
    let status = claim.status.as_ref()?.allocated_resource_statuses.as_ref()?.get("storage")?;
    Some(status.as_str()).filter(|s| !s.is_empty())
}

/// Whether a volume that the pod has mounted waits for this node to expand it. Reads the claims of drivers that can.
pub(super) async fn asks_to_grow(agent: &Agent, uid: &str, pod: &Pod) -> bool {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mounted = agent.volumes().mounted(uid);
    for use_ in claims(pod).into_iter().filter(|c| !c.readonly) {
        let spec = mounted.iter().find(|(name, _)| *name == use_.volume).map(|(_, spec)| spec);
        let expands = spec.is_some_and(|s| agent.drivers().get(&s.driver).is_some_and(|d| d.expand_volume));
        if !expands {
            continue;
        }
        // What cannot be read now is looked at again after the next period.
        if let Ok(claim) = agent.client.namespaced::<PersistentVolumeClaim>(namespace).get(&use_.claim).await
            && matches!(resize_status(&claim), Some("NodeResizePending" | "NodeResizeInProgress"))
        {
            return true;
        }
    }
    false
}

/// What a failed NodeExpandVolume does to the claim.
fn failed(status: &Status) -> Value {
    let infeasible = matches!(status.code(), Code::InvalidArgument | Code::OutOfRange | Code::NotFound);
    let message = format!("failed to expand pvc with {}", status.message());
    let condition = json!({ "type": "NodeResizeError", "status": "True", "message": message });
    let mut patch = json!({ "status": { "conditions": [condition] } });
    if infeasible {
        patch["status"]["allocatedResourceStatuses"] = json!({ "storage": "NodeResizeInfeasible" });
    }
    patch
}

/// What a finished expansion to `size` does to the claim.
fn finished(size: &Quantity) -> Value {
    let conditions: Vec<_> = CONDITIONS.iter().map(|kind| json!({ "type": kind, "$patch": "delete" })).collect();
    json!({ "status": {
        "capacity": { "storage": size },
        // The storage of a claim is its one resource, and an empty map is not written.
        "allocatedResourceStatuses": null,
        "conditions": conditions,
    } })
}

/// Expands the filesystem, when the claim asks for it.
pub(super) async fn expand(agent: &Agent, operation: &Operation, task: &Task) -> Result<(), StepError> {
    let spec = &task.spec;
    let driver = driver(agent, spec, "expander.NodeExpand failed to create newCsiDriverClient")?;
    if !driver.expand_volume {
        return Ok(());
    }
    let Some((claim, size)) = look(agent, spec).await? else { return Ok(()) };
    let bytes = quantity::value(&size);
    let namespace = claim.metadata.namespace.clone().unwrap_or_default();
    let name = claim.metadata.name.clone().unwrap_or_default();
    let claims = agent.client.namespaced::<PersistentVolumeClaim>(&namespace);
    let patch = async |patch: Value| {
        let patched = claims.patch_status(&name, &Patch::Strategic(patch)).await;
        patched.map(drop).map_err(|e| StepError::Transient(format!("updating PVC {namespace}/{name}: {e}")))
    };
    match asked(&claim, bytes) {
        Asked::Done => return Ok(()),
        Asked::NotNow => {
            return Err(StepError::Transient(format!("PVC {namespace}/{name} does not ask to be expanded on nodes")));
        }
        Asked::Now { in_progress: true } => {}
        Asked::Now { in_progress: false } => {
            patch(json!({ "status": { "allocatedResourceStatuses": { "storage": "NodeResizeInProgress" } } })).await?;
        }
    }
    let staging = agent.staging_path(spec);
    let uid = task.pod.as_ref().and_then(|pod| pod.metadata.uid.as_deref()).unwrap_or_default();
    let path = match operation {
        Operation::Expand { .. } => agent.target_path(uid, spec),
        // A raw device is published by now, and mounted nowhere else.
        _ if spec.block => agent.target_path(uid, spec),
        _ => staging.clone(),
    };
    let node = &agent.config.node_name;
    let secrets =
        secrets(agent, "NodeExpandSecretRef", spec.csi().and_then(|c| c.node_expand_secret_ref.as_ref())).await?;
    if let Err(status) = driver.expand(spec, (&staging, &path), bytes, secrets).await {
        let error = classify(&status);
        if status.code() == Code::FailedPrecondition {
            agent.volumes().refuse_expansion(&spec.name);
        }
        if let Some(pod) = &task.pod {
            let message = format!("NodeExpandVolume failed for volume \"{}\" : {}", spec.pv, error.message());
            agent.recorder.event(reference::<Pod>(pod), "Warning", "VolumeResizeFailed", message);
        }
        if matches!(error, StepError::Final(_)) {
            patch(failed(&status)).await?;
        }
        return Err(error);
    }
    let message = format!("MountVolume.NodeExpandVolume succeeded for volume \"{}\" {node}", spec.pv);
    if let Some(pod) = &task.pod {
        agent.recorder.event(reference::<Pod>(pod), "Normal", "FileSystemResizeSuccessful", message.clone());
    }
    agent.recorder.event(reference(&claim), "Normal", "FileSystemResizeSuccessful", message);
    let (node, volume) = (agent.name(), spec.handle.as_str().into());
    agent.ctx.emit(Expanded { node, size_bytes: bytes, volume });
    patch(finished(&size)).await
}

/// The claim of a volume, and how large the volume is now; nothing when it has none.
async fn look(agent: &Agent, spec: &VolumeSpec) -> Result<Option<(PersistentVolumeClaim, Quantity)>, StepError> {
    let failed = |e| StepError::Transient(format!("MountVolume.NodeExpandVolume get PVC failed : {e}"));
    let volume = agent.client.all::<PersistentVolume>().get(&spec.pv).await.map_err(failed)?;
    let of_volume = volume.spec.as_ref();
    let size = of_volume.and_then(|s| s.capacity.as_ref()?.get("storage")).cloned();
    let claim =
        of_volume.and_then(|s| s.claim_ref.as_ref()).and_then(|r| Some((r.namespace.clone()?, r.name.clone()?)));
    let (Some(size), Some((namespace, name))) = (size, claim) else { return Ok(None) };
    let claim = agent.client.namespaced::<PersistentVolumeClaim>(&namespace).get(&name).await.map_err(failed)?;
    Ok(Some((PersistentVolumeClaim::clone(&claim), size)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const GIB: i64 = 1 << 30;

    #[rstest]
    #[case(json!({ "capacity": { "storage": "1Gi" } }), Asked::NotNow)]
    #[case(json!({ "capacity": { "storage": "2Gi" } }), Asked::Done)]
    #[case(json!({ "allocatedResourceStatuses": { "storage": "NodeResizePending" } }), Asked::Now { in_progress: false })]
    #[case(
        json!({ "allocatedResourceStatuses": { "storage": "NodeResizeInProgress" } }), Asked::Now { in_progress: true }
    )]
    #[case(
        json!({ "capacity": { "storage": "2Gi" }, "allocatedResourceStatuses": { "storage": "NodeResizeInfeasible" } }),
        Asked::NotNow
    )]
    fn only_a_claim_that_asks_is_expanded(#[case] status: Value, #[case] expected: Asked) {
        let claim =
            substrate::json::from_value(json!({ "metadata": { "name": "c" }, "status": status })).expect("a claim");
        assert_eq!(asked(&claim, 2 * GIB), expected);
    }

    #[test]
    fn a_code_that_no_retry_helps_makes_the_expansion_infeasible() {
        let statuses = |status: Status| failed(&status)["status"]["allocatedResourceStatuses"].clone();
        assert_eq!(statuses(Status::out_of_range("no")), json!({ "storage": "NodeResizeInfeasible" }));
        assert_eq!(statuses(Status::internal("no")), Value::Null);
    }
}
