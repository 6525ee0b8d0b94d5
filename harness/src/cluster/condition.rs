//! Checks the state of an object.

use serde::{Deserialize, Deserializer};

use crate::spec::object::{Kind, State};

/// Fields of any object that define its state; all others are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Look {
    metadata: Metadata,
    #[serde(deserialize_with = "null_is_empty")]
    spec: Spec,
    #[serde(deserialize_with = "null_is_empty")]
    status: Status,
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Option<String>,
    #[serde(deserialize_with = "null_is_empty")]
    attached: bool,
    #[serde(deserialize_with = "null_is_empty")]
    conditions: Vec<Condition>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    r#type: String,
    status: String,
    message: Option<String>,
}

impl Look {
    /// Node of the object.
    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref()
    }

    fn condition(&self, name: &str) -> Option<&str> {
        self.status.conditions.iter().find(|c| c.r#type == name).map(|c| c.status.as_str())
    }

    fn unschedulable(&self) -> Option<&str> {
        let scheduled = self.status.conditions.iter().find(|c| c.r#type == "PodScheduled" && c.status == "False");
        scheduled.and_then(|c| c.message.as_deref())
    }
}

/// Returns true if `object` of `kind` is in `state`, as kubectl would show. None means that it does not exist.
pub fn holds(kind: Kind, object: Option<&Look>, state: State) -> bool {
    let Some(object) = object else {
        return state == State::Gone;
    };
    match state {
        State::Gone => false,
        State::Exists => true,
        State::Terminating => object.metadata.deletion_timestamp.is_some(),
        State::Ready => object.condition("Ready") == Some("True"),
        State::NotReady => object.condition("Ready") == Some("False"),
        State::Unknown if kind == Kind::node() => object.condition("Ready") == Some("Unknown"),
        State::Attached => object.status.attached,
        State::Detached => !object.status.attached,
        phase => object.status.phase == Some(phase.to_string()),
    }
}

/// Describes the state of an object for a report.
pub fn describe(kind: Kind, object: Option<&Look>) -> String {
    let Some(object) = object else {
        return "it does not exist".to_owned();
    };
    let mut parts = Vec::new();
    if let Some(phase) = &object.status.phase {
        parts.push(format!("phase {phase}"));
    }
    if let Some(ready) = object.condition("Ready") {
        parts.push(format!("Ready={ready}"));
    }
    if kind == Kind::volume_attachment() {
        parts.push(format!("attached={}", object.status.attached));
    }
    if let Some(node) = object.node() {
        parts.push(format!("on {node}"));
    }
    if let Some(message) = object.unschedulable() {
        parts.push(format!("unschedulable: {message}"));
    }
    if let Some(at) = &object.metadata.deletion_timestamp {
        parts.push(format!("terminating since {at}"));
    }
    if parts.is_empty() { "it exists".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(text: &str) -> Look {
        serde_json::from_str(text).expect("an object")
    }

    #[test]
    fn phases_conditions_and_absence_differ() {
        let pod = look(r#"{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}"#);
        assert!(holds(Kind::pod(), Some(&pod), State::Running) && holds(Kind::pod(), Some(&pod), State::Ready));
        assert!(!holds(Kind::pod(), Some(&pod), State::Gone) && holds(Kind::pod(), None, State::Gone));
        let node = look(r#"{"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}"#);
        assert!(holds(Kind::node(), Some(&node), State::Unknown) && !holds(Kind::node(), Some(&node), State::NotReady));
        let va = look(r#"{"status": {"attached": true}}"#);
        assert!(holds(Kind::volume_attachment(), Some(&va), State::Attached));
    }

    #[test]
    fn an_absent_or_null_status_has_no_state() {
        let bare = look(r#"{"metadata": {"name": "a"}, "spec": null, "status": null, "data": {"phase": "Running"}}"#);
        assert!(holds(Kind::pod(), Some(&bare), State::Exists) && !holds(Kind::pod(), Some(&bare), State::Running));
        assert_eq!(describe(Kind::pod(), Some(&bare)), "it exists");
        let going =
            look(r#"{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "node-a"}}"#);
        assert!(holds(Kind::pod(), Some(&going), State::Terminating));
        assert_eq!(describe(Kind::pod(), Some(&going)), "on node-a, terminating since 2026-01-01T00:00:00Z");
    }
}
