//! Kinds that are another form of a stored kind: Events of two groups, autoscalers of two versions.

use substrate::json::Value;

use super::{autoscaler_view, event_view};
use crate::kinds::Kind;

/// A stored object as the kind `served`, which is a view, shows it.
pub fn to_view(served: &Kind, object: &Value) -> Value {
    if served.custom.is_some() {
        return with_version(served, object);
    }
    match served.kind {
        "Event" => event_view::to_view(object),
        _ => autoscaler_view::to_view(object),
    }
}

/// An object of the kind `served`, which is a view, as it is stored.
pub fn from_view(served: &Kind, object: &Value) -> Value {
    if served.custom.is_some() {
        return with_version(crate::kinds::stored(served), object);
    }
    match served.kind {
        "Event" => event_view::from_view(object),
        _ => autoscaler_view::from_view(object),
    }
}

/// Versions of a custom kind differ in their names only (conversion strategy None).
fn with_version(kind: &Kind, object: &Value) -> Value {
    let mut converted = object.clone();
    if let Some(version) = converted.get_mut("apiVersion") {
        *version = kind.api_version().into();
    }
    converted
}
