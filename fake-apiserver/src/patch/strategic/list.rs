//! Lists in a strategic merge patch: replaced, merged as sets of scalars, or merged by key.

use serde_json::{Map, Value};

use super::{
    DELETE_FROM, PATCH, SET_ORDER, Topology, malformed, merge_map, order, unknown_directive, without_directives,
};
use crate::patch::PatchError;

/// Merges `change` into `before` when the field merges, else replaces it.
pub(super) fn merge_or_replace(
    before: Vec<Value>,
    change: Vec<Value>,
    name: &str,
    parent: Topology,
) -> Result<Vec<Value>, PatchError> {
    match parent.field(name) {
        Some(field) if field.merge => {
            let merged = merge(before.clone(), change.clone(), field.merge_key, parent.element(name))?;
            // An entry of the patch goes where the patch has it, relative to the other entries of the patch.
            order::enforce(merged, &change, &before, field.merge_key)
        }
        _ => Ok(change.into_iter().filter_map(without_directives).collect()),
    }
}

/// Handles each list that comes with `$setElementOrder`, and takes both from the patch.
pub(super) fn merge_ordered(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    topology: Topology,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|k| k.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let Some(Value::Array(wanted)) = patch.remove(&directive) else {
            return Err(malformed(format!("{directive}: must be a list")));
        };
        let name = &directive[SET_ORDER.len()..];
        let field = topology.field(name);
        let merge_key = field.and_then(|f| f.merge_key);
        let before = list_of(original.get(name), name)?;
        let change = list_of(patch.remove(name).as_ref(), name)?;
        if let Some(change) = &change {
            order::check(change, &wanted, merge_key, &directive)?;
        }
        let merged = match (&before, change) {
            (None, None) => continue,
            (Some(before), None) => before.clone(),
            (None, Some(change)) => change.into_iter().filter_map(without_directives).collect(),
            (Some(before), Some(change)) if field.is_some_and(|f| f.merge) => {
                merge(before.clone(), change, merge_key, topology.element(name))?
            }
            (Some(_), Some(change)) => change.into_iter().filter_map(without_directives).collect(),
        };
        let ordered = order::enforce(merged, &wanted, before.as_deref().unwrap_or_default(), merge_key)?;
        original.insert(name.to_owned(), Value::Array(ordered));
    }
    Ok(())
}

/// `$deleteFromPrimitiveList`: takes every listed scalar out of the original.
pub(super) fn delete_from(original: &mut Map<String, Value>, name: &str, gone: &Value) -> Result<(), PatchError> {
    let Value::Array(gone) = gone else {
        return Err(malformed(format!("{DELETE_FROM}{name}: must be a list")));
    };
    if let Some(Value::Array(list)) = original.get_mut(name) {
        list.retain(|value| !gone.contains(value));
    }
    Ok(())
}

fn list_of(value: Option<&Value>, name: &str) -> Result<Option<Vec<Value>>, PatchError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list.clone())),
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
            let mut set: Vec<Value> = Vec::new();
            for value in before.into_iter().chain(change) {
                if !set.contains(&value) {
                    set.push(value);
                }
            }
            Ok(set)
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
    let mut replace = false;
    for entry in change {
        let Value::Object(entry) = entry else {
            return Err(PatchError::Inapplicable(format!("list elements must be objects with the merge key {key}")));
        };
        match entry.get(PATCH).map(|d| (d, d.as_str())) {
            None => entries.push(entry),
            Some((_, Some("delete"))) => {
                let id = entry.get(key).ok_or_else(|| no_merge_key(&entry, key))?;
                list.retain(|value| value.get(key) != Some(id));
            }
            Some((_, Some("replace"))) => replace = true,
            Some((directive, _)) => return Err(unknown_directive(directive)),
        }
    }
    if replace {
        return Ok(entries.into_iter().map(Value::Object).filter_map(without_directives).collect());
    }
    for entry in entries {
        let id = entry.get(key).ok_or_else(|| no_merge_key(&entry, key))?;
        match list.iter().position(|value| value.get(key) == Some(id)) {
            Some(at) => {
                if let Value::Object(before) = list[at].take() {
                    list[at] = Value::Object(merge_map(before, entry, element)?);
                }
            }
            None => list.extend(without_directives(Value::Object(entry))),
        }
    }
    Ok(list)
}

fn no_merge_key(entry: &Map<String, Value>, key: &str) -> PatchError {
    PatchError::Inapplicable(format!(
        "map: {} does not contain declared merge key: {key}",
        Value::Object(entry.clone())
    ))
}
