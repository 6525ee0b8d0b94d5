//! Node expansion: grows the filesystem of an expanded volume (upstream `operationexecutor/node_expander.go`).

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimCondition, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use tonic::{Code, Status};

use super::context::VolumeContext;
use super::pod_facts::secrets;
use super::populate::claims;
use super::step::driver;
use crate::binder::quantity;
use crate::kube::{Guard, Kind, reference, time};
use crate::node_agent::events::Expanded;
use crate::node_agent::plugins::csi::classify;
use crate::node_agent::volume_manager::{StepError, Task, VolumeSpec};

/// The conditions of a claim that are about its size.
const CONDITIONS: [&str; 4] = ["Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError"];

/// State of a volume's node expansion according to its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// The claim has the size already.
    Done,
    /// A node has to expand the volume.
    Now {
        /// True if the claim's status says that a node has begun.
        in_progress: bool,
    },
    /// Not requested, or a node failed with a final error. The resizer has to request it again.
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

/// Returns true if a mounted volume of the pod waits for this node to expand it. Reads only claims of drivers with
/// EXPAND_VOLUME.
pub(crate) async fn asks_to_grow(room: &VolumeContext, uid: &str, pod: &Pod) -> bool {
    if substrate::mutant!(room.ctx, "expansion-awaits-restart") {
        return false;
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mounted = room.volumes.lock().mounted(uid);
    for use_ in claims(pod).into_iter().filter(|c| !c.readonly) {
        let spec = mounted.iter().find(|(name, _)| *name == use_.volume).map(|(_, spec)| spec);
        let expands = spec.is_some_and(|s| room.drivers.lock().get(&s.driver).is_some_and(|d| d.expand_volume));
        if !expands {
            continue;
        }
        // An unreadable claim is read again after the next period.
        if let Ok(claim) = room.client.namespaced::<PersistentVolumeClaim>(namespace).get(&use_.claim).await
            && matches!(resize_status(&claim), Some("NodeResizePending" | "NodeResizeInProgress"))
        {
            return true;
        }
        if substrate::mutant!(room.ctx, "second-claim-not-grown") {
            break;
        }
    }
    false
}

/// Returns the claim with another storage resize status (`mergeStorageResourceStatus`).
fn with_resize_status(claim: &PersistentVolumeClaim, word: &str) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    let statuses = &mut claim.status.get_or_insert_default().allocated_resource_statuses;
    statuses.get_or_insert_default().insert("storage".to_owned(), word.to_owned());
    claim
}

/// Returns the claim after a failed NodeExpandVolume (`MarkNodeExpansionInfeasible`,
/// `MarkNodeExpansionFailedCondition`).
fn failed(claim: &PersistentVolumeClaim, status: &Status, now: Timestamp) -> PersistentVolumeClaim {
    let infeasible = matches!(status.code(), Code::InvalidArgument | Code::OutOfRange | Code::NotFound);
    let mut claim = if infeasible { with_resize_status(claim, "NodeResizeInfeasible") } else { claim.clone() };
    let conditions = claim.status.get_or_insert_default().conditions.get_or_insert_default();
    let error = PersistentVolumeClaimCondition {
        type_: "NodeResizeError".to_owned(),
        status: "True".to_owned(),
        message: Some(format!("failed to expand pvc with {}", status.message())),
        last_transition_time: Some(time(now)),
        ..PersistentVolumeClaimCondition::default()
    };
    match conditions.iter_mut().find(|c| c.type_ == error.type_) {
        Some(known) if known.status == error.status => {}
        Some(known) => *known = error,
        None => conditions.push(error),
    }
    claim
}

/// Returns the claim after an expansion to `size` (`MarkNodeExpansionFinishedWithRecovery`).
fn finished(claim: &PersistentVolumeClaim, size: &Quantity) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    let status = claim.status.get_or_insert_default();
    status.capacity.get_or_insert_default().insert("storage".to_owned(), size.clone());
    if let Some(statuses) = &mut status.allocated_resource_statuses {
        statuses.remove("storage");
    }
    status.allocated_resource_statuses.take_if(|statuses| statuses.is_empty());
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|c| !CONDITIONS.contains(&&*c.type_));
    }
    status.conditions.take_if(|conditions| conditions.is_empty());
    claim
}

/// Expands the filesystem if the claim asks for it.
pub(super) async fn expand(room: &VolumeContext, task: &Task) -> Result<(), StepError> {
    let spec = &task.spec;
    if spec.path_of_machine().is_some() {
        return Ok(());
    }
    let driver = driver(room, spec, "expander.NodeExpand failed to create newCsiDriverClient")?;
    if !driver.expand_volume {
        return Ok(());
    }
    let Some((mut claim, size)) = look(room, spec).await? else { return Ok(()) };
    let bytes = quantity::value(&size);
    let (namespace, name) = (claim.namespace().to_owned(), claim.name().to_owned());
    let claims = room.client.namespaced::<PersistentVolumeClaim>(&namespace);
    let patch = async |old: &PersistentVolumeClaim, new: &PersistentVolumeClaim, guard: Guard| {
        let failed = |e| StepError::Transient(format!("patchPVCStatus failed to patch PVC {:?}: {e}", old.name()));
        claims.strategic_patch_status(old, new, guard).await.map_err(failed)
    };
    match asked(&claim, bytes) {
        Asked::Done => return Ok(()),
        Asked::NotNow => {
            return Err(StepError::Transient(format!("PVC {namespace}/{name} does not ask to be expanded on nodes")));
        }
        Asked::Now { in_progress: true } => {}
        Asked::Now { in_progress: false } => {
            let begun = with_resize_status(&claim, "NodeResizeInProgress");
            if let Some(written) = patch(&claim, &begun, Guard::ResourceVersion).await? {
                claim = written;
            }
        }
    }
    let staging = room.paths.staging_of(spec);
    let uid = task.pod.as_ref().and_then(|pod| pod.metadata.uid.as_deref()).unwrap_or_default();
    // The volume is published already, by this mount or an earlier one.
    let path = room.paths.target_of(uid, spec);
    let node = &room.config.node_name;
    let secrets =
        secrets(room, "NodeExpandSecretRef", spec.csi().and_then(|c| c.node_expand_secret_ref.as_ref())).await?;
    if substrate::mutant!(room.ctx, "expansion-told-before-made") {
        let told = finished(&claim, &size);
        if let Some(written) = patch(&claim, &told, Guard::ResourceVersion).await? {
            claim = written;
        }
    }
    let expanded = match substrate::mutant!(room.ctx, "node-expansion-skipped") {
        true => Ok(()),
        false => driver.expand(spec, (&staging, &path), bytes, secrets).await,
    };
    if let Err(status) = expanded {
        let error = classify(&status);
        if status.code() == Code::FailedPrecondition {
            room.volumes.lock().refuse_expansion(&spec.name);
        }
        if let Some(pod) = &task.pod {
            let message = format!("NodeExpandVolume failed for volume \"{}\" : {}", spec.pv, error.message());
            room.recorder.event(reference::<Pod>(pod), "Warning", "VolumeResizeFailed", message);
        }
        let is_final =
            matches!(error, StepError::Final(_)) || substrate::mutant!(room.ctx, "unfinished-node-expansion-told");
        if is_final && !substrate::mutant!(room.ctx, "node-expansion-error-not-told") {
            patch(&claim, &failed(&claim, &status, room.ctx.now().wall), Guard::None).await?;
        }
        return Err(error);
    }
    let message = format!("MountVolume.NodeExpandVolume succeeded for volume \"{}\" {node}", spec.pv);
    if let Some(pod) = &task.pod {
        room.recorder.event(reference::<Pod>(pod), "Normal", "FileSystemResizeSuccessful", message.clone());
    }
    room.recorder.event(reference(&*claim), "Normal", "FileSystemResizeSuccessful", message);
    let (node, volume) = (room.config.name(), spec.handle.as_str().into());
    room.ctx.emit(Expanded { node, size_bytes: bytes, volume });
    let mut grown = finished(&claim, &size);
    if substrate::mutant!(room.ctx, "resize-condition-kept") {
        let conditions = claim.status.as_ref().and_then(|status| status.conditions.clone());
        grown.status.get_or_insert_default().conditions = conditions;
    }
    patch(&claim, &grown, Guard::ResourceVersion).await.map(drop)
}

/// Reads the claim of a volume and the volume's current size. Returns None for a volume without a claim.
async fn look(
    room: &VolumeContext,
    spec: &VolumeSpec,
) -> Result<Option<(Arc<PersistentVolumeClaim>, Quantity)>, StepError> {
    let failed = |e| StepError::Transient(format!("MountVolume.NodeExpandVolume get PVC failed : {e}"));
    let volume = room.client.all::<PersistentVolume>().get(&spec.pv).await.map_err(failed)?;
    let of_volume = volume.spec.as_ref();
    let size = of_volume.and_then(|s| s.capacity.as_ref()?.get("storage")).cloned();
    let claim =
        of_volume.and_then(|s| s.claim_ref.as_ref()).and_then(|r| Some((r.namespace.clone()?, r.name.clone()?)));
    let (Some(size), Some((namespace, name))) = (size, claim) else { return Ok(None) };
    let claim = room.client.namespaced::<PersistentVolumeClaim>(&namespace).get(&name).await.map_err(failed)?;
    Ok(Some((claim, size)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, json};

    use super::*;
    use crate::kube::Patch;

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
        assert_eq!(asked(&claim(status), 2 * GIB), expected);
    }

    fn claim(status: Value) -> PersistentVolumeClaim {
        substrate::json::from_value(json!({ "metadata": { "name": "c", "resourceVersion": "7" }, "status": status }))
            .expect("a claim")
    }

    fn patch(old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) -> Value {
        Patch::strategic(old, new).expect("a patch").value().clone()
    }

    #[test]
    fn a_code_that_no_retry_helps_makes_the_expansion_infeasible() {
        let now = Timestamp::UNIX_EPOCH;
        let begun = claim(json!({ "allocatedResourceStatuses": { "storage": "NodeResizeInProgress" } }));
        let of = |status: Status| patch(&begun, &failed(&begun, &status, now))["status"].clone();
        let infeasible = of(Status::out_of_range("no"));
        assert_eq!(infeasible["allocatedResourceStatuses"], json!({ "storage": "NodeResizeInfeasible" }));
        assert_eq!(infeasible["conditions"][0]["message"], "failed to expand pvc with no");
        assert_eq!(of(Status::internal("no"))["allocatedResourceStatuses"], Value::Null);
        // A condition that already holds is not written again.
        let reported = failed(&begun, &Status::internal("no"), now);
        let again = failed(&reported, &Status::internal("again"), Timestamp::MAX);
        assert_eq!(patch(&reported, &again), json!({}));
    }

    #[test]
    fn a_finished_expansion_removes_only_its_status_and_condition() {
        let condition = |type_: &str| json!({ "type": type_, "status": "True" });
        let grown = claim(json!({
            "capacity": { "storage": "1Gi" },
            "allocatedResourceStatuses": { "storage": "NodeResizeInProgress" },
            "conditions": [condition("ModifyingVolume"), condition("FileSystemResizePending")],
        }));
        assert_eq!(
            patch(&grown, &finished(&grown, &Quantity("2Gi".to_owned()))),
            json!({ "status": {
                "allocatedResourceStatuses": null,
                "capacity": { "storage": "2Gi" },
                "$setElementOrder/conditions": [{ "type": "ModifyingVolume" }],
                "conditions": [{ "$patch": "delete", "type": "FileSystemResizePending" }],
            } })
        );
    }
}
