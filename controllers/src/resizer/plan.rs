//! What a claim and its volume ask of the resizer (upstream `expand_and_recover.go`, `modify_controller.go`).

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use crate::binder::object::{capacity_bytes, claim_phase, requested_bytes};
use crate::binder::quantity;
use crate::kube::Kind;

/// Keeps a volume's size from before the resize until the claim has the new one.
pub const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// What is to be done about a claim's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// Nothing, or it is a node's turn.
    Nothing,
    /// Nothing, but the volume still has the annotation [`PRE_RESIZE_CAPACITY`].
    Forget,
    /// The driver shall make the volume as large.
    Expand {
        /// Bytes.
        to: i64,
        /// The claim says already that this is being done.
        recorded: bool,
    },
}

/// Whether the two objects belong together, and the volume to `driver`.
pub fn is_ours(claim: &PersistentVolumeClaim, volume: &PersistentVolume, driver: &str) -> bool {
    let spec = volume.spec.as_ref();
    let bound = spec.and_then(|s| s.claim_ref.as_ref()).is_some_and(|r| r.uid.as_deref() == Some(claim.uid()));
    bound && claim_phase(claim) == "Bound" && spec.and_then(|s| s.csi.as_ref()).is_some_and(|csi| csi.driver == driver)
}

/// How far the claim says that a resize has come (`status.allocatedResourceStatuses`).
pub fn resize_status(claim: &PersistentVolumeClaim) -> Option<&str> {
    let status = claim.status.as_ref()?.allocated_resource_statuses.as_ref()?.get("storage")?;
    Some(status.as_str()).filter(|s| !s.is_empty())
}

/// Judges the size of a claim that is bound to `volume`.
pub fn resize(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Resize {
    let status = claim.status.as_ref();
    let storage = |map: Option<&std::collections::BTreeMap<String, _>>| {
        map.and_then(|m| m.get("storage")).map_or(0, quantity::value)
    };
    let (asked, has) = (requested_bytes(claim), storage(status.and_then(|s| s.capacity.as_ref())));
    let allocated = storage(status.and_then(|s| s.allocated_resources.as_ref()));
    let size = capacity_bytes(volume);
    let stage = resize_status(claim);
    // A bound claim has a size; one without it was not looked at by the binder yet.
    if has == 0 || asked <= has {
        return if volume.annotation(PRE_RESIZE_CAPACITY).is_some() { Resize::Forget } else { Resize::Nothing };
    }
    match stage {
        Some("NodeResizePending" | "NodeResizeInProgress" | "NodeResizeInfeasible") if asked <= size => Resize::Nothing,
        // Nobody knows what the driver did, so it must finish what it was asked for, even if less is asked for now.
        Some("ControllerResizeInProgress") if allocated >= asked => Resize::Expand { to: allocated, recorded: true },
        // Also when the volume is as large already: then the answer was lost that says if nodes must expand it.
        _ => Resize::Expand { to: asked, recorded: false },
    }
}

/// What is to be done about a claim's VolumeAttributesClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Modify {
    /// Nothing.
    Nothing,
    /// The claim is back at the class that it has: what was recorded of another one goes.
    Cancel,
    /// The volume shall be modified to this class.
    To {
        /// The class.
        class: String,
        /// The claim says already that this is being done.
        recorded: bool,
    },
}

/// Judges the VolumeAttributesClass of a bound claim.
pub fn modify(claim: &PersistentVolumeClaim) -> Modify {
    let named = |name: Option<&String>| name.map(String::as_str).filter(|n| !n.is_empty()).map(str::to_owned);
    let wanted = named(claim.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_ref()));
    let status = claim.status.as_ref();
    let current = named(status.and_then(|s| s.current_volume_attributes_class_name.as_ref()));
    let recorded = status.and_then(|s| s.modify_volume_status.as_ref());
    let target = recorded.and_then(|r| named(r.target_volume_attributes_class_name.as_ref()));
    if recorded.is_some_and(|r| r.status == "InProgress")
        && let Some(class) = target
    {
        // Nobody knows what the driver did, so the recorded class comes first, whatever the claim names now.
        return Modify::To { class, recorded: true };
    }
    match wanted {
        Some(class) if Some(&class) != current.as_ref() => Modify::To { class, recorded: false },
        _ if recorded.is_some() => Modify::Cancel,
        _ => Modify::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, json};

    use super::*;

    const GIB: i64 = 1 << 30;

    fn claim(spec: Value, status: Value) -> PersistentVolumeClaim {
        let value = json!({ "metadata": { "name": "c", "uid": "u" }, "spec": spec, "status": status });
        substrate::json::from_value(value).expect("a claim")
    }

    fn judged(asked: &str, has: &str, size: &str, allocated: &str, stage: &str) -> Resize {
        let mut status = json!({ "phase": "Bound", "capacity": { "storage": has } });
        if !allocated.is_empty() {
            status["allocatedResources"] = json!({ "storage": allocated });
        }
        if !stage.is_empty() {
            status["allocatedResourceStatuses"] = json!({ "storage": stage });
        }
        let claim = claim(json!({ "resources": { "requests": { "storage": asked } } }), status);
        let volume = json!({ "metadata": { "name": "pv" }, "spec": { "capacity": { "storage": size } } });
        resize(&claim, &substrate::json::from_value(volume).expect("a volume"))
    }

    #[rstest]
    #[case("1Gi", "1Gi", "1Gi", "", "", Resize::Nothing)]
    #[case("2Gi", "1Gi", "1Gi", "", "", Resize::Expand { to: 2 * GIB, recorded: false })]
    #[case::bound_a_moment_ago("2Gi", "0", "2Gi", "", "", Resize::Nothing)]
    #[case("2Gi", "1Gi", "1Gi", "2Gi", "ControllerResizeInProgress", Resize::Expand { to: 2 * GIB, recorded: true })]
    #[case::less_is_asked_for_meanwhile(
        "2Gi", "1Gi", "1Gi", "4Gi", "ControllerResizeInProgress", Resize::Expand { to: 4 * GIB, recorded: true }
    )]
    #[case::recovered_from_too_much(
        "2Gi", "1Gi", "1Gi", "4Gi", "ControllerResizeInfeasible", Resize::Expand { to: 2 * GIB, recorded: false }
    )]
    #[case::a_node_is_at_it("2Gi", "1Gi", "2Gi", "2Gi", "NodeResizePending", Resize::Nothing)]
    #[case::more_is_asked_for_meanwhile(
        "3Gi", "1Gi", "2Gi", "2Gi", "NodeResizePending", Resize::Expand { to: 3 * GIB, recorded: false }
    )]
    #[case::the_claim_was_not_told("2Gi", "1Gi", "2Gi", "", "", Resize::Expand { to: 2 * GIB, recorded: false })]
    fn the_size_is_judged_by_both_objects(
        #[case] asked: &str,
        #[case] has: &str,
        #[case] size: &str,
        #[case] allocated: &str,
        #[case] stage: &str,
        #[case] expected: Resize,
    ) {
        assert_eq!(judged(asked, has, size, allocated, stage), expected);
    }

    #[rstest]
    #[case("a", "a", Value::Null, Modify::Nothing)]
    #[case("b", "a", Value::Null, Modify::To { class: "b".to_owned(), recorded: false })]
    #[case("c", "a", json!(["b", "InProgress"]), Modify::To { class: "b".to_owned(), recorded: true })]
    #[case("c", "a", json!(["b", "Infeasible"]), Modify::To { class: "c".to_owned(), recorded: false })]
    #[case("a", "a", json!(["b", "Infeasible"]), Modify::Cancel)]
    #[case("", "a", Value::Null, Modify::Nothing)]
    fn the_class_is_judged_by_what_is_recorded(
        #[case] wanted: &str,
        #[case] current: &str,
        #[case] recorded: Value,
        #[case] expected: Modify,
    ) {
        let mut status = json!({ "phase": "Bound", "currentVolumeAttributesClassName": current });
        if recorded.is_array() {
            status["modifyVolumeStatus"] =
                json!({ "targetVolumeAttributesClassName": recorded[0], "status": recorded[1] });
        }
        assert_eq!(modify(&claim(json!({ "volumeAttributesClassName": wanted }), status)), expected);
    }
}
