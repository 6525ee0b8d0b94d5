//! Lists in a strategic merge patch: replaced, merged as sets of scalars, or merged by key.

use std::collections::{BTreeMap, BTreeSet};

use substrate::json::{Map, Text, Value};

use super::order::Positions;
use super::{
    DELETE_FROM, PATCH, SET_ORDER, Topology, malformed, merge_map, order, unknown_directive, without_directives,
};
use crate::patch::{PatchError, shown};

/// Merges `change` into `before` when the field merges, else replaces it.
pub(super) fn merge_or_replace(
    before: Vec<Value>,
    change: Vec<Value>,
    name: &str,
    parent: Topology,
) -> Result<Vec<Value>, PatchError> {
    match parent.field(name) {
        Some(field) if field.merge => {
            let key = field.merge_key;
            let (wanted, places) = (Positions::of(&change, key), Positions::of(&before, key));
            let merged = merge(before, change, key, parent.element(name))?;
            // Entries of the patch are in the order of the patch.
            Ok(order::enforce(merged, &wanted, &places))
        }
        _ => Ok(change.into_iter().filter_map(without_directives).collect()),
    }
}

/// Handles each list with a `$setElementOrder`, and removes both from the patch.
pub(super) fn merge_ordered(original: &mut Map, patch: &mut Map, topology: Topology) -> Result<(), PatchError> {
    let directives: Vec<Text> = patch.keys().filter(|k| k.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let Some(Value::Array(wanted)) = patch.remove(&directive) else {
            return Err(malformed(format!("{directive}: must be a list")));
        };
        let name = &directive[SET_ORDER.len()..];
        let field = topology.field(name);
        let merge_key = field.and_then(|f| f.merge_key);
        let before = list_of(original.remove(name), name)?;
        let change = list_of(patch.remove(name), name)?;
        let wanted = Positions::of(&wanted, merge_key);
        if let Some(change) = &change {
            order::check(change, &wanted, &directive)?;
        }
        let places = Positions::of(before.as_deref().unwrap_or_default(), merge_key);
        let merged = match (before, change) {
            (None, None) => continue,
            (Some(before), None) => before,
            (None, Some(change)) => change.into_iter().filter_map(without_directives).collect(),
            (Some(before), Some(change)) if field.is_some_and(|f| f.merge) => {
                merge(before, change, merge_key, topology.element(name))?
            }
            (Some(_), Some(change)) => change.into_iter().filter_map(without_directives).collect(),
        };
        let ordered = order::enforce(merged, &wanted, &places);
        original.insert(name, Value::Array(ordered));
    }
    Ok(())
}

/// `$deleteFromPrimitiveList`: removes every listed scalar from the original.
pub(super) fn delete_from(original: &mut Map, name: &str, gone: &Value) -> Result<(), PatchError> {
    let Value::Array(gone) = gone else {
        return Err(malformed(format!("{DELETE_FROM}{name}: must be a list")));
    };
    if let Some(Value::Array(list)) = original.get_mut(name) {
        let gone = Positions::of(gone, None);
        list.retain(|value| gone.get(value).is_none());
    }
    Ok(())
}

fn list_of(value: Option<Value>, name: &str) -> Result<Option<Vec<Value>>, PatchError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(_) => Err(malformed(format!("{name}: must be a list, since the patch orders its elements"))),
    }
}

fn merge(
    before: Vec<Value>,
    change: Vec<Value>,
    merge_key: Option<&str>,
    element: Topology,
) -> Result<Vec<Value>, PatchError> {
    match merge_key {
        None => {
            let mut seen = BTreeSet::new();
            let all = before.into_iter().chain(change);
            Ok(all.filter(|value| order::identity(value, None).is_some_and(|id| seen.insert(id))).collect())
        }
        Some(key) => merge_by_key(before, change, key, element),
    }
}

fn merge_by_key(
    mut list: Vec<Value>,
    change: Vec<Value>,
    key: &str,
    element: Topology,
) -> Result<Vec<Value>, PatchError> {
    let mut entries = Vec::new();
    let mut gone = Vec::new();
    let mut replace = false;
    for entry in change {
        let Value::Object(entry) = entry else {
            let why = format!("expected a map[string]interface {{}}, but received a {}", go_type(&entry));
            return Err(PatchError::Failed(why));
        };
        match entry.get(PATCH).map(|d| (d, d.as_str())) {
            None => entries.push(entry),
            Some((_, Some("delete"))) => gone.push(Value::Object(with_merge_key(entry, key)?)),
            Some((_, Some("replace"))) => replace = true,
            Some((directive, _)) => return Err(unknown_directive(directive)),
        }
    }
    if replace {
        return Ok(entries.into_iter().map(Value::Object).filter_map(without_directives).collect());
    }
    let gone = Positions::of(&gone, Some(key));
    list.retain(|value| gone.get(value).is_none());
    let places = Positions::of(&list, Some(key));
    let mut added: Vec<Value> = Vec::new();
    let mut added_at = BTreeMap::new();
    for entry in entries {
        let entry = Value::Object(with_merge_key(entry, key)?);
        let id = order::identity(&entry, Some(key));
        // The second of two entries with the same key changes the first.
        let slot = match (places.get(&entry), added_at.get(&id)) {
            (Some(at), _) => list.get_mut(at),
            (None, Some(at)) => added.get_mut(*at),
            (None, None) => None,
        };
        match (slot, entry) {
            (Some(slot), Value::Object(entry)) => {
                if let Value::Object(before) = slot.take() {
                    *slot = Value::Object(merge_map(before, entry, element)?);
                }
            }
            (_, entry) => {
                added_at.insert(id, added.len());
                added.extend(without_directives(entry));
            }
        }
    }
    list.extend(added);
    Ok(list)
}

fn with_merge_key(entry: Map, key: &str) -> Result<Map, PatchError> {
    if entry.contains_key(key) { Ok(entry) } else { Err(no_merge_key(&entry, key)) }
}

fn no_merge_key(entry: &Map, key: &str) -> PatchError {
    let shown = shown(&Value::Object(entry.clone()));
    PatchError::Failed(format!("map: {shown} does not contain declared merge key: {key}"))
}

/// Returns the Go type of a JSON value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
