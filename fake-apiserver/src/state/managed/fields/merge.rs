//! Merge of an applied configuration into an object.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use substrate::json::{Map, Value};

use super::Topology;

/// Merges an applied configuration into an object.
pub fn merge(live: &mut Value, applied: &Value, topology: Topology<'_>) {
    match (topology, &mut *live, applied) {
        (Topology::Struct(_) | Topology::Map(_) | Topology::Deduced, Value::Object(live), Value::Object(applied)) => {
            let mut added = Map::new();
            for (key, value) in applied {
                match live.get_mut(key) {
                    Some(slot) => merge(slot, value, topology.below(key)),
                    None => {
                        added.insert(key.clone(), value.clone());
                    }
                }
            }
            live.append(&mut added);
        }
        (Topology::Keyed(..) | Topology::Set, Value::Array(live), Value::Array(applied)) => {
            *live = merge_list(mem::take(live), applied, topology);
        }
        // An applied null does not remove a map or list with content.
        (Topology::Struct(_) | Topology::Map(_) | Topology::Deduced, Value::Object(live), Value::Null)
            if !live.is_empty() => {}
        (Topology::Keyed(..) | Topology::Set, Value::Array(live), Value::Null) if !live.is_empty() => {}
        _ => live.clone_from(applied),
    }
}

/// Merges an applied list into a list: its elements come in the applied order, and the others keep their place among
/// them (`visitListItems` of structured-merge-diff).
fn merge_list(live: Vec<Value>, applied: &[Value], topology: Topology<'_>) -> Vec<Value> {
    let element = topology.of_elements();
    let ours: Vec<String> = live.iter().map(|value| topology.element(value)).collect();
    let theirs: Vec<String> = applied.iter().map(|value| topology.element(value)).collect();
    let wanted: BTreeSet<&str> = theirs.iter().map(String::as_str).collect();
    // Live elements that are also applied, until their turn comes. Of a duplicate, neither value is kept.
    let mut old: BTreeMap<&str, Option<Value>> = BTreeMap::new();
    let mut live: Vec<Option<Value>> = live.into_iter().map(Some).collect();
    for (slot, name) in live.iter_mut().zip(&ours) {
        if wanted.contains(name.as_str()) {
            let value = slot.take();
            old.entry(name).and_modify(|old| *old = None).or_insert(value);
        }
    }
    let shared: Vec<&String> = theirs.iter().filter(|name| old.contains_key(name.as_str())).collect();
    let mut shared = shared.into_iter().peekable();
    let mut merged = Vec::with_capacity(live.len().max(applied.len()));
    let (mut left, mut right) = (0, 0);
    while left < ours.len() || right < theirs.len() {
        if let Some(name) = ours.get(left) {
            if let Some(value) = live[left].take() {
                merged.push(value);
                left += 1;
                continue;
            }
            let is_here = theirs.get(right) == Some(name);
            if !is_here && right < theirs.len() && shared.peek().is_some_and(|next| *next != name) {
                // Its turn comes later.
                left += 1;
                continue;
            }
            if is_here || !old.contains_key(name.as_str()) {
                left += 1;
            }
        }
        if let (Some(name), Some(value)) = (theirs.get(right), applied.get(right)) {
            merged.push(match old.remove(name.as_str()).flatten() {
                Some(mut old) => {
                    merge(&mut old, value, element);
                    old
                }
                None => value.clone(),
            });
            shared.next_if(|next| *next == name);
            right += 1;
        }
    }
    merged
}
