//! Order of merged lists: elements of the patch come in the patch's order; the others keep their place relative to
//! their old neighbours.

use std::collections::BTreeMap;

use substrate::json::{Text, Value};

use super::{PATCH, malformed};
use crate::patch::PatchError;

/// Returns the identity of an element: the value of its merge key, or the element itself.
pub(super) fn identity(value: &Value, key: Option<&str>) -> Option<Identity> {
    match key.map_or(Some(value), |key| value.get(key))? {
        Value::String(text) => Some(Identity::Text(text.clone())),
        // JSON values have no order, so their text is used; the size of bodies is limited.
        other => Some(Identity::Other(other.to_string())),
    }
}

/// Identity of an element: nearly always a string, otherwise JSON text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    Text(Text),
    Other(String),
}

/// Positions of the elements of a list by identity; of equal ones, that of the first.
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

/// Orders `merged`: elements that `wanted` names in that order, the others as in `before`.
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
        // An element that only the server has comes first if it was before this one.
        while let Some((_, other)) = others.next_if(|(other, _)| matches!((other, place), (Some(o), Some(p)) if *o < p))
        {
            result.push(other);
        }
        result.push(value);
    }
    result.extend(others.map(|(_, other)| other));
    result
}

/// Checks that a list agrees with its `$setElementOrder`: every element is in the order, at its place.
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
