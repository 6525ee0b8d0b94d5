//! Strategic merge patch, as apimachinery's `strategicpatch` applies it on the server.
//!
//! Maps merge key by key and `null` deletes. Lists are replaced, unless the field's type says that they merge: lists of
//! scalars as sets, lists of structs by their merge key. Directives: `$patch` (`replace`, `delete`) in a map or a list
//! element, `$retainKeys` beside the keys of a map, `$deleteFromPrimitiveList/<field>` and `$setElementOrder/<field>`
//! beside a list.

mod list;
mod order;

use std::collections::BTreeSet;

use substrate::json::{Map, Value};

use super::PatchError;
use crate::go_json::word;
use crate::kinds::Kind;
use crate::kinds::schema::{self, Field, Shape, Type};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

pub(super) fn apply(kind: &Kind, patch: Value, target: &Value) -> Result<Value, PatchError> {
    let patch = match patch {
        Value::Object(patch) => patch,
        // Go decodes null as an empty map.
        Value::Null => Map::new(),
        other => {
            let word = word(&other);
            return Err(malformed(format!(
                "json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
            )));
        }
    };
    let Value::Object(target) = target else { return Err(malformed("the patched object must be a map")) };
    merge_map(target.clone(), patch, Topology::of(kind)).map(Value::Object)
}

fn malformed(text: impl Into<String>) -> PatchError {
    PatchError::Malformed(text.into())
}

/// Schema of the current value: its struct, or the shape of a map's values.
#[derive(Clone, Copy)]
enum Topology {
    Struct(&'static Type),
    MapOf(&'static Shape),
    /// Not in the kind's schema: maps merge, lists are replaced.
    Unknown,
}

impl Topology {
    fn of(kind: &Kind) -> Self {
        schema::built_in(kind).map_or(Self::Unknown, Self::Struct)
    }

    fn of_shape(shape: &'static Shape) -> Self {
        match shape {
            Shape::Ref(of) => Self::Struct(of.get()),
            Shape::Custom(of) => Self::Struct(of),
            Shape::Map(values) => Self::MapOf(values),
            _ => Self::Unknown,
        }
    }

    fn field(self, name: &str) -> Option<&'static Field> {
        match self {
            Self::Struct(of) => of.field(name),
            _ => None,
        }
    }

    /// Returns the topology of the value under `name`.
    fn below(self, name: &str) -> Self {
        match self {
            Self::Struct(of) => of.field(name).map_or(Self::Unknown, |f| Self::of_shape(&f.shape)),
            Self::MapOf(values) => Self::of_shape(values),
            Self::Unknown => Self::Unknown,
        }
    }

    /// Returns the topology of the elements of the list under `name`.
    fn element(self, name: &str) -> Self {
        match self.field(name).map(|f| &f.shape) {
            Some(Shape::List(element)) => Self::of_shape(element),
            _ => Self::Unknown,
        }
    }
}

fn merge_map(mut original: Map, mut patch: Map, topology: Topology) -> Result<Map, PatchError> {
    if let Some(directive) = patch.remove(PATCH) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(&directive)),
        };
    }
    if let Some(keys) = patch.remove(RETAIN_KEYS) {
        retain_keys(&mut original, &patch, &keys)?;
    }
    list::merge_ordered(&mut original, &mut patch, topology)?;
    let (mut added, mut gone) = (Map::new(), BTreeSet::new());
    for (key, value) in patch {
        if let Some(name) = key.strip_prefix(DELETE_FROM) {
            list::delete_from(&mut original, name, &value)?;
            continue;
        }
        if value.is_null() {
            gone.insert(key);
            continue;
        }
        let Some(slot) = original.get_mut(&key) else {
            added.extend(without_directives(value).map(|new| (key, new)));
            continue;
        };
        *slot = match (slot.take(), value) {
            (Value::Object(before), Value::Object(change)) => {
                Value::Object(merge_map(before, change, topology.below(&key))?)
            }
            (Value::Array(before), Value::Array(change)) => {
                Value::Array(list::merge_or_replace(before, change, &key, topology)?)
            }
            (_, new) => match without_directives(new) {
                Some(new) => new,
                None => {
                    gone.insert(key);
                    continue;
                }
            },
        };
    }
    original.remove_all(&gone);
    original.append(&mut added);
    Ok(original)
}

fn retain_keys(original: &mut Map, patch: &Map, keys: &Value) -> Result<(), PatchError> {
    let keys = keys.as_array().ok_or_else(|| malformed(format!("{RETAIN_KEYS}: must be a list of field names")))?;
    let kept = |name: &str| keys.iter().any(|k| k.as_str() == Some(name));
    for (key, value) in patch {
        if !value.is_null() && !key.starts_with(DELETE_FROM) && !key.starts_with(SET_ORDER) && !kept(key) {
            return Err(malformed(format!("{RETAIN_KEYS}: the patch sets {key}, which is not in the list")));
        }
    }
    original.retain(|key, _| kept(key));
    Ok(())
}

/// Removes directives and nulls from a new value; `None` if it has `$patch: delete`. Directives have no meaning without
/// an original.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) => {
            if map.get(PATCH).and_then(Value::as_str) == Some("delete") {
                return None;
            }
            let kept = map.into_iter().filter(|(key, value)| {
                !value.is_null()
                    && key != PATCH
                    && key != RETAIN_KEYS
                    && !key.starts_with(DELETE_FROM)
                    && !key.starts_with(SET_ORDER)
            });
            Some(Value::Object(kept.filter_map(|(key, value)| Some((key, without_directives(value)?))).collect()))
        }
        Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}

fn unknown_directive(directive: &Value) -> PatchError {
    malformed(format!("{PATCH}: unknown directive {directive}: must be \"replace\" or \"delete\""))
}

#[cfg(test)]
mod tests;
