//! Parts: a write of an object keeps its status, and a write of a subresource changes only the part of that
//! subresource.
//!
//! Metadata are compared only where upstream resets them: in status writes of custom objects and VolumeAttachments, and
//! the owners of a pod. Services and certificate requests are not judged by writes of the object: upstream drops parts
//! of their status with the spec. The path of the replicas of a custom object is not known here.

use substrate::json::Value;

use super::write::{Write, content, difference};

/// Metadata that a status write keeps, where upstream resets them (`ResetObjectMetaForStatus`).
const RESET: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];
/// Resources whose status depends on the spec.
const DEPENDENT: [&str; 2] = ["certificatesigningrequests", "services"];

/// Checks a write.
pub(super) fn check(write: &Write<'_>) -> Option<String> {
    let (old, new) = write.change()?;
    let subresource = write.subresource()?;
    let (outer, spec): (&[&str], &[&str]) = match subresource {
        "" if write.is_main() => {
            let judged = write.kind.has_status && !DEPENDENT.contains(&write.resource());
            let changed = judged && old["status"] != new["status"];
            return changed.then(|| "changed its status by a write of the object itself".to_owned());
        }
        "status" => {
            if let Some(field) = changed_metadata(write, old, new) {
                return Some(format!("changed its metadata.{field} by a write of its status"));
            }
            (&["status"], &[])
        }
        "scale" if !write.is_custom() => (&["spec"], &["replicas"]),
        "binding" => (&["spec", "status"], &["nodeName"]),
        "ephemeralcontainers" => (&["spec"], &["ephemeralContainers"]),
        "resize" => (&["spec", "status"], &["containers", "initContainers", "resources"]),
        "finalize" => (&["spec"], &["finalizers"]),
        "approval" | "eviction" => (&["status"], &[]),
        _ => return None,
    };
    let changed = content(old, new, outer).map(ToString::to_string).or_else(|| {
        let field = difference(&old["spec"], &new["spec"], spec).filter(|_| outer.contains(&"spec"))?;
        Some(format!("spec.{field}"))
    });
    let rebound = subresource == "binding" && !matches!(old["spec"]["nodeName"].as_str(), None | Some(""));
    match changed {
        Some(field) => Some(format!("changed its {field} by a write of its {subresource}")),
        None => rebound.then(|| "was bound to a node a second time".to_owned()),
    }
}

/// Returns a field of the metadata that a status write has changed, and must not.
fn changed_metadata(write: &Write<'_>, old: &Value, new: &Value) -> Option<&'static str> {
    let kept: &[&'static str] = match write.resource() {
        "pods" => &["ownerReferences"],
        "" | "volumeattachments" => &RESET,
        _ => &[],
    };
    kept.iter().copied().find(|field| old["metadata"][field] != new["metadata"][field])
}
