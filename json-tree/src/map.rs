//! An object: members sorted by name, in one vector.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::{fmt, mem, slice, vec};

use crate::{Text, Value};

/// Maximum number of members for a linear search; more are searched by bisection.
const FEW: usize = 16;

/// Returns true if a member is called `name`. Most names of one length differ in their last byte.
fn same(key: &Text, name: &str) -> bool {
    let (key, name) = (key.as_bytes(), name.as_bytes());
    key.len() == name.len() && key.last() == name.last() && key == name
}

/// Compares names of members by their bytes. Most differ in the first.
fn order(key: &Text, name: &str) -> Ordering {
    let (key, name) = (key.as_bytes(), name.as_bytes());
    match key.first().cmp(&name.first()) {
        Ordering::Equal => key.cmp(name),
        other => other,
    }
}

/// Members of an object, sorted by name.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Map {
    members: Vec<(Text, Value)>,
}

impl Map {
    /// Creates an object without members.
    pub const fn new() -> Self {
        Self { members: Vec::new() }
    }

    /// Creates an object with capacity for `members`.
    pub fn with_capacity(members: usize) -> Self {
        Self { members: Vec::with_capacity(members) }
    }

    /// Creates an object from members in any order; of duplicates the last one counts.
    pub fn of(mut members: Vec<(Text, Value)>) -> Self {
        if !members.is_sorted_by(|(a, _), (b, _)| order(a, b).is_lt()) {
            members.sort_by(|(a, _), (b, _)| order(a, b));
            // The sort is stable, so the first of equal names is the oldest.
            members.dedup_by(|later, first| {
                let same = later.0 == first.0;
                if same {
                    mem::swap(&mut first.1, &mut later.1);
                }
                same
            });
        }
        Self { members }
    }

    fn find(&self, name: &str) -> Option<usize> {
        if self.members.len() <= FEW {
            return self.members.iter().position(|(key, _)| same(key, name));
        }
        self.place(name).ok()
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.members.binary_search_by(|(key, _)| order(key, name))
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns true if there is a member of this name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns the member of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.find(name).map(|at| &self.members[at].1)
    }

    /// Returns the member of this name, mutable.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.find(name).map(|at| &mut self.members[at].1)
    }

    /// Sets a member and returns its previous value.
    pub fn insert(&mut self, name: impl Into<Text>, value: Value) -> Option<Value> {
        let name = name.into();
        // Objects are mostly built in order.
        if self.members.last().is_none_or(|(last, _)| order(last, &name).is_lt()) {
            self.members.push((name, value));
            return None;
        }
        match self.place(&name) {
            Ok(at) => Some(mem::replace(&mut self.members[at].1, value)),
            Err(at) => {
                self.members.insert(at, (name, value));
                None
            }
        }
    }

    /// Removes a member and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.find(name).map(|at| self.members.remove(at).1)
    }

    /// Returns the entry of a member, which may be vacant.
    pub fn entry(&mut self, name: impl Into<Text>) -> Entry<'_> {
        let name = name.into();
        let at = self.place(&name);
        Entry { map: self, name, at }
    }

    /// Keeps the members for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&Text, &mut Value) -> bool) {
        self.members.retain_mut(|(name, value)| keep(name, value));
    }

    /// Moves all members of `other` here, in one pass if there are many.
    pub fn append(&mut self, other: &mut Self) {
        if other.len() <= FEW {
            self.extend(mem::take(other));
        } else {
            self.members.append(&mut other.members);
            *self = Self::of(mem::take(&mut self.members));
        }
    }

    /// Removes the members of these names, in one pass if there are many.
    pub fn remove_all(&mut self, names: &BTreeSet<Text>) {
        if names.len() > FEW {
            self.retain(|name, _| !names.contains(name));
        } else {
            for name in names {
                self.remove(name);
            }
        }
    }

    /// Releases unused capacity.
    pub fn shrink_to_fit(&mut self) {
        self.members.shrink_to_fit();
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        self.members.clear();
    }

    /// Returns the members.
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.members.iter())
    }

    /// Returns the members with mutable values.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        IterMut(self.members.iter_mut())
    }

    /// Returns the names.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Text> + DoubleEndedIterator {
        self.members.iter().map(|(name, _)| name)
    }

    /// Returns the values.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> + DoubleEndedIterator {
        self.members.iter().map(|(_, value)| value)
    }

    /// Returns the values, mutable.
    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut Value> + DoubleEndedIterator {
        self.members.iter_mut().map(|(_, value)| value)
    }

    /// Converts the object to its values.
    pub fn into_values(self) -> impl ExactSizeIterator<Item = Value> + DoubleEndedIterator {
        self.members.into_iter().map(|(_, value)| value)
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// The entry of a member, which may be vacant.
#[derive(Debug)]
pub struct Entry<'a> {
    map: &'a mut Map,
    name: Text,
    at: Result<usize, usize>,
}

impl<'a> Entry<'a> {
    /// Returns the member, and inserts `value` if it is missing.
    pub fn or_insert(self, value: Value) -> &'a mut Value {
        self.or_insert_with(|| value)
    }

    /// Returns the member, and inserts the result of `make` if it is missing.
    pub fn or_insert_with(self, make: impl FnOnce() -> Value) -> &'a mut Value {
        let at = match self.at {
            Ok(at) => at,
            Err(at) => {
                self.map.members.insert(at, (self.name, make()));
                at
            }
        };
        &mut self.map.members[at].1
    }
}

/// Iterator over the members of an object.
#[derive(Clone, Debug)]
pub struct Iter<'a>(slice::Iter<'a, (Text, Value)>);

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a Text, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(name, value)| (name, value))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Iterator over the members of an object, with mutable values.
#[derive(Debug)]
pub struct IterMut<'a>(slice::IterMut<'a, (Text, Value)>);

impl<'a> Iterator for IterMut<'a> {
    type Item = (&'a Text, &'a mut Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (&*name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a Text, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Map {
    type Item = (&'a Text, &'a mut Value);
    type IntoIter = IterMut<'a>;

    fn into_iter(self) -> IterMut<'a> {
        self.iter_mut()
    }
}

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = vec::IntoIter<(Text, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.members.into_iter()
    }
}

impl<K: Into<Text>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(members: I) -> Self {
        Self::of(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl<K: Into<Text>> Extend<(K, Value)> for Map {
    fn extend<I: IntoIterator<Item = (K, Value)>>(&mut self, members: I) {
        for (name, value) in members {
            self.insert(name, value);
        }
    }
}
