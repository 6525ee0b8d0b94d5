//! Whether an object is in a state.

use serde_json::Value;

use crate::scenario::object::{Kind, State};

/// Whether `object` (nothing when it does not exist) of `kind` is in `state`, as kubectl would say.
pub fn holds(kind: Kind, object: Option<&Value>, state: State) -> bool {
    let Some(object) = object else {
        return state == State::Gone;
    };
    match state {
        State::Gone => false,
        State::Exists => true,
        State::Terminating => !object["metadata"]["deletionTimestamp"].is_null(),
        State::Ready => condition(object, "Ready") == Some("True"),
        State::NotReady => condition(object, "Ready") == Some("False"),
        State::Unknown if kind == Kind::node() => condition(object, "Ready") == Some("Unknown"),
        State::Attached => object["status"]["attached"] == true,
        State::Detached => object["status"]["attached"] != true,
        phase => object["status"]["phase"] == phase.to_string(),
    }
}

/// What state an object is in, for a report.
pub fn describe(kind: Kind, object: Option<&Value>) -> String {
    let Some(object) = object else {
        return "it does not exist".to_owned();
    };
    let mut parts = Vec::new();
    if let Some(phase) = object["status"]["phase"].as_str() {
        parts.push(format!("phase {phase}"));
    }
    if let Some(ready) = condition(object, "Ready") {
        parts.push(format!("Ready={ready}"));
    }
    if kind == Kind::volume_attachment() {
        parts.push(format!("attached={}", object["status"]["attached"] == true));
    }
    if let Some(node) = object["spec"]["nodeName"].as_str() {
        parts.push(format!("on {node}"));
    }
    if let Some(message) = unschedulable(object) {
        parts.push(format!("unschedulable: {message}"));
    }
    if let Some(at) = object["metadata"]["deletionTimestamp"].as_str() {
        parts.push(format!("terminating since {at}"));
    }
    if parts.is_empty() { "it exists".to_owned() } else { parts.join(", ") }
}

fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|c| c["type"] == name).and_then(|c| c["status"].as_str())
}

fn unschedulable(object: &Value) -> Option<&str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|c| c["type"] == "PodScheduled" && c["status"] == "False")
        .and_then(|c| c["message"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn phases_conditions_and_absence_are_told_apart() {
        let pod = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        assert!(holds(Kind::pod(), Some(&pod), State::Running) && holds(Kind::pod(), Some(&pod), State::Ready));
        assert!(!holds(Kind::pod(), Some(&pod), State::Gone) && holds(Kind::pod(), None, State::Gone));
        let node = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        assert!(holds(Kind::node(), Some(&node), State::Unknown) && !holds(Kind::node(), Some(&node), State::NotReady));
        let va = json!({"status": {"attached": true}});
        assert!(holds(Kind::volume_attachment(), Some(&va), State::Attached));
    }
}
