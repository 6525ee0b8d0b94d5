//! The order of merged lists: what the patch names comes in the patch's order, what only the server has keeps its
//! place relative to its old neighbours.

use serde_json::Value;

use super::{PATCH, malformed};
use crate::patch::PatchError;

/// Orders `merged`: elements that `wanted` names in its order, the others as they were in `before`.
pub(super) fn enforce(
    merged: Vec<Value>,
    wanted: &[Value],
    before: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    let (mut named, mut others): (Vec<_>, Vec<_>) =
        merged.into_iter().partition(|value| position(wanted, value, key).is_some());
    named.sort_by_key(|value| position(wanted, value, key));
    others.sort_by_key(|value| position(before, value, key));
    Ok(interleave(others, named, before, key))
}

/// Merges two lists: an element of `others` goes first where it stood before its counterpart in the old list.
fn interleave(others: Vec<Value>, named: Vec<Value>, before: &[Value], key: Option<&str>) -> Vec<Value> {
    let mut result = Vec::with_capacity(others.len() + named.len());
    let (mut others, mut named) = (others.into_iter().peekable(), named.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return result,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(name)) => {
                matches!((position(before, other, key), position(before, name, key)), (Some(o), Some(n)) if o < n)
            }
        };
        result.extend(if other_first { others.next() } else { named.next() });
    }
}

/// Checks that a list and its `$setElementOrder` agree: every element of the list is in the order, in that order.
pub(super) fn check(list: &[Value], wanted: &[Value], key: Option<&str>, directive: &str) -> Result<(), PatchError> {
    let mut at = 0;
    for value in list.iter().filter(|value| value.get(PATCH).is_none()) {
        match wanted[at..].iter().position(|w| same(w, value, key)) {
            Some(found) => at += found + 1,
            None => {
                return Err(malformed(format!(
                    "{directive}: the order must list each element of the patch, in the patch's order"
                )));
            }
        }
    }
    Ok(())
}

fn position(list: &[Value], value: &Value, key: Option<&str>) -> Option<usize> {
    list.iter().position(|v| same(v, value, key))
}

fn same(a: &Value, b: &Value, key: Option<&str>) -> bool {
    match key {
        None => a == b,
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
    }
}
