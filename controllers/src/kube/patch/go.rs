//! Go's JSON encoding, where it differs from that of a Rust type.
//!
//! A nil slice or map with `omitempty` is omitted, whether it was set to empty or never set. A time or struct without a
//! pointer is present even if it was never set.

use substrate::json::{Map, Value};

use super::types::{Type, Unset};

/// Members that are maps in Go, not structs: an empty one is omitted.
const MAPS: [&str; 15] = [
    "allocatable",
    "allocatedResourceStatuses",
    "allocatedResources",
    "annotations",
    "attachmentMetadata",
    "capacity",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "options",
    "overhead",
    "parameters",
    "requests",
    "volumeAttributes",
];

/// Returns true if Go writes the member: it is not null, and not an empty list or map with `omitempty`.
pub(super) fn written(name: &str, value: &Value, of: Option<&Type>) -> bool {
    match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty() || of.is_some_and(|of| of.always(name)),
        Value::Object(members) => !members.is_empty() || !MAPS.contains(&name),
        _ => true,
    }
}

/// Returns a new value with everything that Go writes of it.
pub(super) fn whole(value: Value, of: Option<&'static Type>) -> Value {
    match value {
        Value::Object(members) => Value::Object(whole_map(members, of)),
        Value::Array(list) => list.into_iter().map(|item| whole(item, of)).collect(),
        plain => plain,
    }
}

fn whole_map(members: Map, of: Option<&'static Type>) -> Map {
    let mut all: Map = members
        .into_iter()
        .filter(|(name, value)| written(name, value, of))
        .map(|(name, value)| {
            let below = of.and_then(|of| of.below(&name));
            (name, whole(value, below))
        })
        .collect();
    for field in of.iter().flat_map(|of| of.fields) {
        let zero = match field.unset {
            Unset::Absent | Unset::Always => continue,
            Unset::Null => Value::Null,
            Unset::Empty => Value::Object(Map::new()),
        };
        if !all.contains_key(field.name) {
            all.insert(field.name, zero);
        }
    }
    all
}

/// Returns null for each member that `old` has and `new` lacks.
pub(super) fn gone(old: &Map, new: &Map, of: Option<&Type>) -> Map {
    let there = |members: &Map, name: &str| members.get(name).is_some_and(|value| written(name, value, of));
    old.keys().filter(|name| there(old, name) && !there(new, name)).map(|name| (name.clone(), Value::Null)).collect()
}
