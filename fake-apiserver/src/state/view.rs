//! Kinds that are another form of a stored kind: Events of two groups, autoscalers of two versions, custom kinds with
//! several versions.

use substrate::json::Value;

use super::{autoscaler_view, complete, event_view, shape};
use crate::kinds::{self, Kind, schema};

/// Converts a stored object to the kind `served`, which is a view.
pub fn to_view(served: &Kind, object: &Value) -> Value {
    if served.custom.is_some() {
        return with_version(served, object);
    }
    let mut view = match served.kind {
        "Event" => event_view::to_view(object),
        _ => autoscaler_view::to_view(object),
    };
    // The two forms omit different empty fields and have different zero values.
    shape::drop_empty(served, &mut view);
    if is_complete(kinds::stored(served), object) {
        complete(served, &mut view);
    }
    view
}

/// Returns true if an object of a stored kind has all zero values that a Go server writes.
fn is_complete(stored: &Kind, object: &Value) -> bool {
    schema::built_in(stored).is_some_and(|of| of.unset().all(|(field, _)| object.get(&field.name).is_some()))
}

/// Converts an object of the kind `served`, which is a view, to its stored form.
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
