//! Patches of a pod's status, as `PatchPodStatus` of `pkg/util/pod` sends them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use substrate::json::{Value, json};

use crate::kube::{Kind, Patch, time};

/// A condition to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    /// Its type.
    pub kind: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// Machine-readable cause; the present one stays when absent.
    pub reason: Option<&'a str>,
    /// Text for people; the present one stays when absent.
    pub message: Option<&'a str>,
}

/// The pod's phase.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// The pod's conditions.
pub fn conditions(pod: &Pod) -> &[PodCondition] {
    pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default()
}

/// Strategic merge patch that sets `condition` and `phase`; nothing when the pod has both already. The pod's uid in it
/// keeps the patch from another pod of the same name.
pub fn patch(pod: &Pod, condition: Option<Condition<'_>>, phase: Option<&str>, now: Timestamp) -> Option<Patch> {
    let mut status = substrate::json::Map::new();
    if let Some(phase) = phase {
        status.insert("phase", phase.into());
    }
    if let Some(condition) = condition
        && let Some(value) = changed(pod, condition, now)
    {
        let mut order: Vec<Value> = conditions(pod).iter().map(|c| json!({ "type": c.type_ })).collect();
        if !conditions(pod).iter().any(|c| c.type_ == condition.kind) {
            order.push(json!({ "type": condition.kind }));
        }
        status.insert("$setElementOrder/conditions", order.into());
        status.insert("conditions", json!([value]));
    }
    let patch = json!({ "metadata": { "uid": pod.uid() }, "status": status });
    (!status.is_empty()).then_some(Patch::Strategic(patch))
}

fn changed(pod: &Pod, condition: Condition<'_>, now: Timestamp) -> Option<Value> {
    let present = conditions(pod).iter().find(|c| c.type_ == condition.kind);
    let mut value = json!({ "type": condition.kind, "status": condition.status });
    if let Some(reason) = condition.reason {
        value["reason"] = reason.into();
    }
    if let Some(message) = condition.message {
        value["message"] = message.into();
    }
    match present {
        Some(present) if present.status == condition.status => {
            let same = |new: Option<&str>, old: &Option<String>| new.is_none_or(|new| old.as_deref() == Some(new));
            if same(condition.reason, &present.reason) && same(condition.message, &present.message) {
                return None;
            }
        }
        _ => value["lastTransitionTime"] = json!(time(now)),
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Pod {
        let status = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
        substrate::json::from_value(json!({ "metadata": { "name": "p", "uid": "u" }, "status": status }))
            .expect("a pod")
    }

    #[test]
    fn a_condition_that_holds_is_not_written_again() {
        let ready = |status| Condition { kind: "Ready", status, reason: None, message: None };
        assert_eq!(patch(&pod(), Some(ready("True")), None, Timestamp::UNIX_EPOCH), None);
        let Some(Patch::Strategic(value)) = patch(&pod(), Some(ready("False")), None, Timestamp::UNIX_EPOCH) else {
            panic!()
        };
        assert_eq!(value["metadata"]["uid"], "u");
        assert_eq!(value["status"]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(value["status"]["$setElementOrder/conditions"], json!([{ "type": "Ready" }]));
    }
}
