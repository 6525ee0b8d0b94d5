//! The order of merged lists: what the patch names comes in the patch's order, what only the server has keeps its
//! place relative to its old neighbours.

use std::collections::BTreeMap;

use substrate::json::{Text, Value};

use super::{PATCH, malformed};
use crate::patch::PatchError;

/// What identifies an element: the value of its merge key, or itself.
pub(super) fn identity(value: &Value, key: Option<&str>) -> Option<Identity> {
    match key.map_or(Some(value), |key| value.get(key))? {
        Value::String(text) => Some(Identity::Text(text.clone())),
        // JSON values have no order; bodies are bounded, so it is cheap enough.
        other => Some(Identity::Other(other.to_string())),
    }
}

/// The identity of an element: a text, as nearly always, or the JSON of anything else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    Text(Text),
    Other(String),
}

/// Where each element of a list stands, by identity; the first one of equals.
pub(super) struct Positions<'a> {
    at: BTreeMap<Identity, usize>,
    key: Option<&'a str>,
}

impl<'a> Positions<'a> {
    pub(super) fn of(list: &[Value], key: Option<&'a str>) -> Self {
        let mut at = BTreeMap::new();
        for (i, value) in list.iter().enumerate() {
            if let Some(identity) = identity(value, key) {
                at.entry(identity).or_insert(i);
            }
        }
        Self { at, key }
    }

    pub(super) fn get(&self, value: &Value) -> Option<usize> {
        self.at.get(&identity(value, self.key)?).copied()
    }
}

/// Orders `merged`: elements that `wanted` names in its order, the others as they were in `before`.
pub(super) fn enforce(merged: Vec<Value>, wanted: &Positions<'_>, before: &Positions<'_>) -> Vec<Value> {
    let mut named = Vec::new();
    let mut others = Vec::new();
    for value in merged {
        let place = before.get(&value);
        match wanted.get(&value) {
            Some(at) => named.push((at, place, value)),
            None => others.push((place, value)),
        }
    }
    named.sort_by_key(|(at, ..)| *at);
    others.sort_by_key(|(place, _)| *place);

    let mut result = Vec::with_capacity(others.len() + named.len());
    let mut others = others.into_iter().peekable();
    for (_, place, value) in named {
        // An element that only the server has goes first where it stood before this one.
        while let Some((_, other)) = others.next_if(|(other, _)| matches!((other, place), (Some(o), Some(p)) if *o < p))
        {
            result.push(other);
        }
        result.push(value);
    }
    result.extend(others.map(|(_, other)| other));
    result
}

/// Checks that a list and its `$setElementOrder` agree: every element of the list is in the order, in that order.
pub(super) fn check(list: &[Value], wanted: &Positions<'_>, directive: &str) -> Result<(), PatchError> {
    let mut last = None;
    for value in list.iter().filter(|value| value.get(PATCH).is_none()) {
        let at = wanted.get(value);
        if at.is_none() || at < last {
            return Err(malformed(format!(
                "{directive}: the order must list each element of the patch, in the patch's order"
            )));
        }
        last = at;
    }
    Ok(())
}
