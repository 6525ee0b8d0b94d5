//! Events are one store with two views: core/v1 and events.k8s.io/v1 (`pkg/apis/events/v1/conversion.go`).
//!
//! The stored form is the core one; the other names some fields differently.

use substrate::json::{Map, Value};

use crate::kinds::{self, Kind};

/// Field in core/v1, field in events.k8s.io/v1.
const RENAMED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Returns the kind of a core Event.
pub(super) fn core() -> &'static Kind {
    kinds::EVENTS
}

/// Returns true if objects of this kind are Events, in either view.
pub(super) fn is_event(kind: &Kind) -> bool {
    kind == kinds::EVENTS
}

/// Converts a stored Event to events.k8s.io/v1.
pub fn to_view(event: &Value) -> Value {
    rename(event, "events.k8s.io/v1", |key| RENAMED.iter().find(|(core, _)| *core == key).map(|(_, view)| *view))
}

/// Converts an events.k8s.io/v1 Event to its stored form.
pub fn from_view(event: &Value) -> Value {
    rename(event, "v1", |key| RENAMED.iter().find(|(_, view)| *view == key).map(|(core, _)| *core))
}

fn rename(event: &Value, api_version: &str, name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Some(fields) = event.as_object() else { return event.clone() };
    let mut renamed: Map =
        fields.iter().map(|(key, value)| (name(key).unwrap_or(key).to_owned(), value.clone())).collect();
    if renamed.contains_key("apiVersion") {
        renamed.insert("apiVersion", api_version.into());
    }
    Value::Object(renamed)
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn both_views_hold_the_same_event() {
        let core = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "message": "m",
            "involvedObject": {"name": "p"}, "source": {"component": "c"}, "count": 2, "reason": "R"});
        let view = to_view(&core);
        assert_eq!(view["note"], "m");
        assert_eq!(view["regarding"]["name"], "p");
        assert_eq!(view["deprecatedSource"]["component"], "c");
        assert_eq!(view["apiVersion"], "events.k8s.io/v1");
        assert_eq!(from_view(&view), core);
    }
}
