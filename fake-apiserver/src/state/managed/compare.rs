//! Fields in which two objects differ (`Compare` of structured-merge-diff).

use std::borrow::Cow;
use std::collections::BTreeMap;

use substrate::json::{Text, Value};

use super::fields::{Fields, Topology};
use crate::state::complete;

/// Fields in which a new object differs from the old one.
#[derive(Debug, Default)]
pub struct Difference {
    /// Added and changed fields. An added struct, map or list is itself in the set, beside its content.
    pub written: Fields,
    /// Removed fields.
    pub removed: Fields,
}

impl Difference {
    fn put(&mut self, key: Text, below: Self) {
        self.written.put(key.clone(), below.written);
        self.removed.put(key, below.removed);
    }

    /// Notes that the value itself differs.
    fn note(&mut self, is_gone: bool) {
        let side = if is_gone { &mut self.removed } else { &mut self.written };
        side.take_itself();
    }
}

/// Compares two values, either of which may be missing.
pub fn compare(old: Option<&Value>, new: Option<&Value>, topology: Topology<'_>) -> Difference {
    let mut difference = Difference::default();
    if old == new {
        return difference;
    }
    let is_entered = match topology {
        Topology::Struct(_) | Topology::Map(_) | Topology::Deduced => members(old, new, topology, &mut difference),
        Topology::Keyed(..) | Topology::Set => elements(old, new, topology, &mut difference),
        Topology::Atomic => false,
    };
    // If both sides are empty, they are compared as one value.
    if !is_entered || old.is_none() || new.is_none() {
        difference.note(new.is_none());
    }
    difference
}

/// Compares the members of two objects. Returns true if there are any.
fn members(old: Option<&Value>, new: Option<&Value>, topology: Topology<'_>, difference: &mut Difference) -> bool {
    let (Some(before), Some(mut after)) = (held(old, topology), held(new, topology)) else { return false };
    let is_entered = !before.is_empty() || !after.is_empty();
    for (key, was) in &before {
        let is = after.remove(key);
        difference.put(Text::from_iter(["f:", key]), compare(Some(was), is.as_deref(), topology.below(key)));
    }
    for (key, is) in &after {
        difference.put(Text::from_iter(["f:", key]), compare(None, Some(is), topology.below(key)));
    }
    is_entered
}

/// Returns the members of an object, with the zero values that Go writes for unset fields; `None` if it is of another
/// type.
fn held<'v>(value: Option<&'v Value>, topology: Topology<'v>) -> Option<BTreeMap<&'v str, Cow<'v, Value>>> {
    let map = match value {
        None | Some(Value::Null) => return Some(BTreeMap::new()),
        Some(Value::Object(map)) => map,
        Some(_) => return None,
    };
    let mut held: BTreeMap<_, _> = map.iter().map(|(key, value)| (&**key, Cow::Borrowed(value))).collect();
    if let Topology::Struct(of) = topology {
        for (name, value) in complete::unset(of) {
            held.entry(name).or_insert(Cow::Owned(value));
        }
    }
    Some(held)
}

/// Compares the elements of two lists. Returns true if there are any.
fn elements(old: Option<&Value>, new: Option<&Value>, topology: Topology<'_>, difference: &mut Difference) -> bool {
    let (Some(before), Some(mut after)) = (named(old, topology), named(new, topology)) else { return false };
    let is_entered = !before.is_empty() || !after.is_empty();
    for (name, was) in before {
        let is = after.remove(&name).unwrap_or_default();
        difference.put(name.into(), element(&was, &is, topology.of_elements()));
    }
    for (name, is) in after {
        difference.put(name.into(), element(&[], &is, topology.of_elements()));
    }
    is_entered
}

/// Returns the elements of a list by their path element; `None` if it is of another type.
fn named<'v>(value: Option<&'v Value>, topology: Topology<'_>) -> Option<BTreeMap<String, Vec<&'v Value>>> {
    let mut named = BTreeMap::<_, Vec<_>>::new();
    match value {
        None | Some(Value::Null) => {}
        Some(Value::Array(list)) => {
            for value in list {
                named.entry(topology.element(value)).or_default().push(value);
            }
        }
        Some(_) => return None,
    }
    Some(named)
}

/// Compares the elements with one path element. Of duplicates, it only reports whether they are equal.
fn element(old: &[&Value], new: &[&Value], topology: Topology<'_>) -> Difference {
    if old.len() <= 1 && new.len() <= 1 {
        return compare(old.first().copied(), new.first().copied(), topology);
    }
    let mut difference = Difference::default();
    if old != new {
        difference.note(new.is_empty());
    }
    difference
}
