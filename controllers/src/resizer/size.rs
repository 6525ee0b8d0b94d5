//! Decision about a volume's expansion and its target size (upstream `expand_and_recover.go`, `controller.go`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::binder::object::{capacity_bytes, claim_phase, requested_bytes, volume_name};
use crate::binder::quantity;
use crate::kube::Kind;

/// Annotation with the resizer of a claim whose volume was migrated to CSI.
const RESIZER: &str = "volume.kubernetes.io/storage-resizer";

fn storage(map: Option<&BTreeMap<String, Quantity>>) -> Option<&Quantity> {
    map?.get("storage")
}

/// Returns the resize status in the claim (`status.allocatedResourceStatuses`).
pub fn stage(claim: &PersistentVolumeClaim) -> &str {
    let statuses = claim.status.as_ref().and_then(|s| s.allocated_resource_statuses.as_ref());
    statuses.and_then(|s| s.get("storage")).map_or("", String::as_str)
}

/// Returns the size of the last request to the driver, according to the claim.
pub fn allocated(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
    storage(claim.status.as_ref().and_then(|s| s.allocated_resources.as_ref()))
}

/// Returns the claim's capacity.
pub fn has(claim: &PersistentVolumeClaim) -> Quantity {
    let capacity = storage(claim.status.as_ref().and_then(|s| s.capacity.as_ref()));
    capacity.cloned().unwrap_or_else(|| Quantity("0".to_owned()))
}

/// Returns the claim's requested size.
fn asked(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|s| s.resources.as_ref());
    let requests = storage(resources.and_then(|r| r.requests.as_ref()));
    requests.cloned().unwrap_or_else(|| Quantity("0".to_owned()))
}

/// Returns true if an update of the claim enqueues it (`updatePVC`).
pub fn is_news(old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) -> bool {
    requested_bytes(old) != requested_bytes(new)
        || old.annotation(RESIZER) != new.annotation(RESIZER)
        // A resync, or the resizer's own write that the cache has already.
        || old.resource_version() == new.resource_version()
        || quantity::value(&has(new)) > quantity::value(&has(old))
        || stage(old) != stage(new)
}

/// Returns true if the claim requests more than its capacity (`pvcNeedResize`).
pub fn asks_for_more(claim: &PersistentVolumeClaim) -> bool {
    claim_phase(claim) == "Bound"
        && !volume_name(claim).is_empty()
        && requested_bytes(claim) > quantity::value(&has(claim))
}

/// Returns true if the claim requests more than its capacity, compared as texts: a seeded bug.
pub fn asks_for_more_as_text(claim: &PersistentVolumeClaim) -> bool {
    asks_for_more(claim) && asked(claim).0 > has(claim).0
}

/// Returns true if the two objects belong together, and the volume to `driver` (`pvCanBeExpanded`).
pub fn is_ours(claim: &PersistentVolumeClaim, volume: &PersistentVolume, driver: &str) -> bool {
    let spec = volume.spec.as_ref();
    let bound = spec.and_then(|s| s.claim_ref.as_ref()).is_some_and(|r| {
        r.uid.as_deref() == Some(claim.uid()) && r.namespace.as_deref() == claim.metadata.namespace.as_deref()
    });
    bound && spec.and_then(|s| s.csi.as_ref()).is_some_and(|csi| csi.driver == driver)
}

/// Returns the size to request from the driver; None if a node has to act.
///
/// An earlier request is finished first, unless the driver has certainly stopped working on it: `final_error` if this
/// process got a final error for the last attempt. `control_plane` if the driver's controller expands volumes.
pub fn target(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    final_error: bool,
    control_plane: bool,
) -> Option<Quantity> {
    let (asked, allocated) = (asked(claim), allocated(claim));
    let size = capacity_bytes(volume);
    let or_asked = |first: Option<&Quantity>| first.cloned().unwrap_or_else(|| asked.clone());
    if size < quantity::value(&asked) {
        return match stage(claim) {
            "NodeResizeInfeasible" => Some(or_asked(allocated)),
            // The node finishes before the next size starts.
            "NodeResizePending" | "NodeResizeInProgress" => {
                Some(or_asked(allocated)).filter(|next| size < quantity::value(next))
            }
            // The driver may still be working on it.
            "ControllerResizeInProgress" if !final_error => Some(or_asked(allocated)),
            _ => Some(asked),
        };
    }
    match stage(claim) {
        "NodeResizePending" | "NodeResizeInProgress" => None,
        // The driver is called again, so that the node may retry.
        "NodeResizeInfeasible" => Some(or_asked(allocated.filter(|_| control_plane))),
        // The volume has that size and the claim was not updated, or the request was reduced meanwhile.
        "ControllerResizeInProgress" | "ControllerResizeInfeasible" | "" if allocated.is_some() => {
            Some(or_asked(allocated))
        }
        "ControllerResizeInProgress" | "ControllerResizeInfeasible" => Some(asked),
        _ if waits_for_node(claim) => None,
        _ => Some(asked),
    }
}

fn waits_for_node(claim: &PersistentVolumeClaim) -> bool {
    let conditions = claim.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|c| c.type_ == "FileSystemResizePending" && c.status == "True")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    fn objects(
        asked: &str,
        has: &str,
        size: &str,
        allocated: &str,
        stage: &str,
    ) -> (PersistentVolumeClaim, PersistentVolume) {
        let mut status = json!({ "phase": "Bound", "capacity": { "storage": has } });
        if !allocated.is_empty() {
            status["allocatedResources"] = json!({ "storage": allocated });
        }
        if !stage.is_empty() {
            status["allocatedResourceStatuses"] = json!({ "storage": stage });
        }
        let claim = json!({
            "metadata": { "name": "c", "uid": "u" },
            "spec": { "volumeName": "pv", "resources": { "requests": { "storage": asked } } },
            "status": status,
        });
        let volume = json!({ "metadata": { "name": "pv" }, "spec": { "capacity": { "storage": size } } });
        (substrate::json::from_value(claim).expect("a claim"), substrate::json::from_value(volume).expect("a volume"))
    }

    #[rstest]
    #[case("2Gi", "1Gi", "1Gi", "", "", false, Some("2Gi"))]
    #[case::uncertain("2Gi", "1Gi", "1Gi", "4Gi", "ControllerResizeInProgress", false, Some("4Gi"))]
    #[case::failed_for_good("3Gi", "1Gi", "1Gi", "9Gi", "ControllerResizeInProgress", true, Some("3Gi"))]
    #[case::infeasible("2Gi", "1Gi", "1Gi", "4Gi", "ControllerResizeInfeasible", false, Some("2Gi"))]
    #[case::a_node_is_at_it("2Gi", "1Gi", "2Gi", "2Gi", "NodeResizePending", false, None)]
    #[case::more_is_asked_while_a_node_is_at_it("3Gi", "1Gi", "2Gi", "2Gi", "NodeResizePending", false, None)]
    #[case::more_is_asked_while_a_node_works("3Gi", "1Gi", "2Gi", "2Gi", "NodeResizeInProgress", false, None)]
    #[case::the_volume_is_behind("3Gi", "1Gi", "1Gi", "2Gi", "NodeResizePending", false, Some("2Gi"))]
    #[case::the_node_could_not("2Gi", "1Gi", "2Gi", "2Gi", "NodeResizeInfeasible", false, Some("2Gi"))]
    #[case::the_node_could_not_and_more("3Gi", "1Gi", "2Gi", "2Gi", "NodeResizeInfeasible", false, Some("2Gi"))]
    #[case::less_while_the_node_could_not("2Gi", "1Gi", "4Gi", "4Gi", "NodeResizeInfeasible", false, Some("4Gi"))]
    #[case::the_claim_status_was_lost("2Gi", "1Gi", "4Gi", "4Gi", "ControllerResizeInProgress", false, Some("4Gi"))]
    #[case::the_claim_has_no_resize_status("2Gi", "1Gi", "2Gi", "", "", false, Some("2Gi"))]
    #[case::only_the_size_is_left("2Gi", "1Gi", "4Gi", "4Gi", "", false, Some("4Gi"))]
    fn the_size_is_the_one_that_was_begun_until_it_has_ended(
        #[case] asked: &str,
        #[case] has: &str,
        #[case] size: &str,
        #[case] allocated: &str,
        #[case] stage: &str,
        #[case] final_error: bool,
        #[case] expected: Option<&str>,
    ) {
        let (claim, volume) = objects(asked, has, size, allocated, stage);
        assert_eq!(target(&claim, &volume, final_error, true).map(|q| q.0).as_deref(), expected);
    }

    #[test]
    fn without_a_controller_the_request_counts_after_a_node_that_could_not() {
        let (claim, volume) = objects("3Gi", "1Gi", "4Gi", "4Gi", "NodeResizeInfeasible");
        assert_eq!(target(&claim, &volume, false, false).map(|q| q.0).as_deref(), Some("3Gi"));
    }

    #[test]
    fn an_older_server_that_drops_the_stage_is_known_by_the_condition() {
        let (mut claim, volume) = objects("2Gi", "1Gi", "2Gi", "", "");
        let pending = json!([{ "type": "FileSystemResizePending", "status": "True" }]);
        claim.status.as_mut().unwrap().conditions = Some(substrate::json::from_value(pending).unwrap());
        assert_eq!(target(&claim, &volume, false, true), None);
    }

    #[rstest]
    #[case::more("1Gi", "2Gi", "", "", "2", true)]
    #[case::less("2Gi", "1Gi", "", "", "2", true)]
    #[case::stage("1Gi", "1Gi", "NodeResizePending", "NodeResizeInfeasible", "2", true)]
    #[case::own_write("1Gi", "1Gi", "", "", "1", true)]
    #[case::a_label("1Gi", "1Gi", "", "", "2", false)]
    fn updates_that_count(
        #[case] before: &str,
        #[case] after: &str,
        #[case] old_stage: &str,
        #[case] new_stage: &str,
        #[case] version: &str,
        #[case] expected: bool,
    ) {
        let (mut old, _) = objects(before, "1Gi", "1Gi", "", old_stage);
        let (mut new, _) = objects(after, "1Gi", "1Gi", "", new_stage);
        old.metadata.resource_version = Some("1".to_owned());
        new.metadata.resource_version = Some(version.to_owned());
        assert_eq!(is_news(&old, &new), expected);
    }
}
