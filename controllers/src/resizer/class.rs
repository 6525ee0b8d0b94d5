//! Decision about a volume's VolumeAttributesClass (upstream `modify_volume.go`).

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use crate::binder::object::claim_phase;

/// Action on a claim's VolumeAttributesClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// The claim names no class any more: remove the status of a modification that is not under way.
    RollBack,
    /// Continue the modification to this class, even if the claim now names another one: the driver may still be
    /// working on it.
    GoOn(String),
    /// Modify the volume to the class that the claim names.
    Begin(String),
}

/// Returns the class that the claim names, or an empty string.
pub fn wanted(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref()).unwrap_or_default()
}

/// Returns target class and state of the modification in the claim's status.
pub fn recorded(claim: &PersistentVolumeClaim) -> Option<(&str, &str)> {
    let status = claim.status.as_ref()?.modify_volume_status.as_ref()?;
    Some((status.target_volume_attributes_class_name.as_deref().unwrap_or_default(), &status.status))
}

/// Returns true if an update of the claim enqueues it (`updatePVC`).
pub fn is_news(old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) -> bool {
    claim_phase(new) == "Bound" && (wanted(old) != wanted(new) || recorded(new).is_none())
}

/// Decides about the class of a bound claim. `uncertain` if the driver may still be working on the last attempt, of
/// this process or an earlier one.
pub fn step(claim: &PersistentVolumeClaim, uncertain: bool) -> Step {
    let wanted = wanted(claim);
    let current = claim.status.as_ref().and_then(|s| s.current_volume_attributes_class_name.as_deref());
    let Some((target, state)) = recorded(claim) else {
        return match wanted {
            _ if wanted == current.unwrap_or_default() => Step::Nothing,
            "" => Step::RollBack,
            _ => Step::Begin(wanted.to_owned()),
        };
    };
    match (state == "InProgress", wanted) {
        (false, "") => Step::RollBack,
        (true, "") => Step::GoOn(target.to_owned()),
        (true, _) if uncertain => Step::GoOn(target.to_owned()),
        _ => Step::Begin(wanted.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, json};

    use super::*;

    fn begin(class: &str) -> Step {
        Step::Begin(class.to_owned())
    }

    #[rstest]
    #[case("a", "a", Value::Null, false, Step::Nothing)]
    #[case("b", "a", Value::Null, false, begin("b"))]
    #[case("", "a", Value::Null, false, Step::RollBack)]
    #[case::uncertain("c", "a", json!(["b", "InProgress"]), true, Step::GoOn("b".to_owned()))]
    #[case::failed_for_good("c", "a", json!(["b", "InProgress"]), false, begin("c"))]
    #[case::infeasible("c", "a", json!(["b", "Infeasible"]), false, begin("c"))]
    #[case::infeasible_of_another_time("c", "a", json!(["b", "Infeasible"]), true, begin("c"))]
    #[case::back_at_the_class_that_it_has("a", "a", json!(["b", "Infeasible"]), false, begin("a"))]
    #[case::no_class_while_in_progress("", "a", json!(["b", "InProgress"]), false, Step::GoOn("b".to_owned()))]
    #[case::no_class_after_a_refusal("", "", json!(["b", "Infeasible"]), false, Step::RollBack)]
    #[case::missing_until_now("b", "", json!(["", "Pending"]), false, begin("b"))]
    fn only_uncertain_errors_pin_a_class(
        #[case] wanted: &str,
        #[case] current: &str,
        #[case] recorded: Value,
        #[case] uncertain: bool,
        #[case] expected: Step,
    ) {
        let mut status = json!({ "phase": "Bound", "currentVolumeAttributesClassName": current });
        if recorded.is_array() {
            status["modifyVolumeStatus"] =
                json!({ "targetVolumeAttributesClassName": recorded[0], "status": recorded[1] });
        }
        let spec = json!({ "volumeAttributesClassName": wanted });
        let claim = json!({ "metadata": { "name": "c" }, "spec": spec, "status": status });
        assert_eq!(step(&substrate::json::from_value(claim).expect("a claim"), uncertain), expected);
    }
}
