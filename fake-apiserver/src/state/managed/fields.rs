//! Sets of fields, as in `fieldsV1`, and the operations of server-side apply on them (KEP-555; the rules of
//! structured-merge-diff).
//!
//! The members of structs and maps are separate fields unless the struct or map is atomic. The elements of a list are,
//! only if its type is `map` (an element is identified by its keys) or `set` (by its value). Everything else is one
//! field.

mod merge;
#[cfg(test)]
mod tests;
mod topology;
mod undeclared;

use std::collections::{BTreeMap, BTreeSet};

use substrate::json::{Map, Text, Value, json};

pub use self::merge::merge;
pub use self::topology::Topology;
pub use self::undeclared::{not_declared, undeclared};

/// A set of fields: a tree by path elements (`f:name`, `k:{"name":"a"}`, `v:"x"`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// True if the field itself is in the set.
    own: bool,
    below: BTreeMap<Text, Fields>,
}

impl Fields {
    fn leaf() -> Self {
        Self { own: true, below: BTreeMap::new() }
    }

    /// Adds the field itself.
    pub fn take_itself(&mut self) {
        self.own = true;
    }

    /// Returns true if the field itself is in the set.
    pub fn has_itself(&self) -> bool {
        self.own
    }

    /// Returns the subset at and below a path element.
    pub fn at(&self, key: &str) -> Option<&Self> {
        self.below.get(key)
    }

    /// Inserts a set below a path element.
    pub fn put(&mut self, key: Text, fields: Self) {
        if !fields.is_empty() {
            self.below.insert(key, fields);
        }
    }

    /// Adds the struct fields on the path to each member of the set (`EnsureNamedFieldsAreMembers`).
    pub fn with_named(&self, topology: Topology<'_>) -> Self {
        let mut named = Self { own: self.own, below: BTreeMap::new() };
        for (key, fields) in &self.below {
            let mut fields = fields.with_named(topology.at(key));
            fields.own |= !fields.below.is_empty() && topology.declares(key);
            named.below.insert(key.clone(), fields);
        }
        named
    }

    /// Adapts the set to the present schema: a field that became atomic since the set was written is now one field
    /// (`ReconcileFieldSetWithSchema`).
    pub fn reconciled(self, topology: Topology<'_>) -> Self {
        let below = self.below.into_iter().map(|(key, fields)| {
            let of = topology.at(&key);
            let is_whole = matches!(of, Topology::Atomic) && topology.knows(&key) && !fields.below.is_empty();
            let fields = if is_whole { Self::leaf() } else { fields.reconciled(of) };
            (key, fields)
        });
        Self { own: self.own, below: below.collect() }
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        !self.own && self.below.is_empty()
    }

    /// Parses `fieldsV1`; anything but an object counts as empty.
    pub fn parse(value: &Value) -> Self {
        let Some(map) = value.as_object() else { return Self::default() };
        let mut fields = Self::default();
        for (key, value) in map {
            if key == "." {
                fields.own = true;
            } else if value.as_object().is_some_and(Map::is_empty) {
                fields.below.insert(key.clone(), Self::leaf());
            } else {
                fields.below.insert(key.clone(), Self::parse(value));
            }
        }
        fields
    }

    /// Returns the set as `fieldsV1`.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        if self.own && !self.below.is_empty() {
            map.insert(".", json!({}));
        }
        map.extend(self.below.iter().map(|(key, fields)| (key.clone(), fields.to_value())));
        Value::Object(map)
    }

    /// Removes the field at a path of struct fields, such as `["metadata", "name"]`, and all below it.
    pub fn remove(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else { return };
        let key = format!("f:{first}");
        if rest.is_empty() {
            self.below.remove(key.as_str());
        } else if let Some(inner) = self.below.get_mut(key.as_str()) {
            inner.remove(rest);
            if inner.is_empty() {
                self.below.remove(key.as_str());
            }
        }
    }

    /// Removes the field at a path of struct fields, but not the fields below it.
    pub fn release(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else {
            self.own = false;
            return;
        };
        let key = format!("f:{first}");
        if let Some(inner) = self.below.get_mut(key.as_str()) {
            inner.release(rest);
            if inner.is_empty() {
                self.below.remove(key.as_str());
            }
        }
    }

    /// Returns the union of both sets.
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.own |= other.own;
        for (key, fields) in &other.below {
            let merged = all.below.get(key).map_or_else(|| fields.clone(), |mine| mine.union(fields));
            all.below.insert(key.clone(), merged);
        }
        all
    }

    /// Returns the fields of this set that are not in the other.
    pub fn without(&self, other: &Self) -> Self {
        let below = self.below.iter().map(|(key, fields)| {
            let rest = other.below.get(key).map_or_else(|| fields.clone(), |theirs| fields.without(theirs));
            (key.clone(), rest)
        });
        Self { own: self.own && !other.own, below: below.filter(|(_, fields)| !fields.is_empty()).collect() }
    }

    /// Returns the intersection of both sets.
    pub fn common(&self, other: &Self) -> Self {
        let below = self.below.iter().filter_map(|(key, fields)| {
            let both = fields.common(other.below.get(key)?);
            (!both.is_empty()).then(|| (key.clone(), both))
        });
        Self { own: self.own && other.own, below: below.collect() }
    }

    /// Returns the paths as the causes of a Status name them: `.spec.containers[name="a"].image`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, at: &str, paths: &mut Vec<String>) {
        paths.extend(self.below.iter().filter(|(_, fields)| fields.own).map(|(key, _)| format!("{at}{}", step(key))));
        for (key, fields) in self.below.iter().filter(|(_, fields)| !fields.below.is_empty()) {
            fields.collect(&format!("{at}{}", step(key)), paths);
        }
    }
}

/// Returns a path element in the notation of such a path.
fn step(key: &str) -> String {
    match key.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("k", keys)) => {
            let keys: Map = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
            format!("[{}]", keys.join(","))
        }
        Some((_, value)) => format!("[={value}]"),
        None => key.to_owned(),
    }
}

/// Returns the fields of a value (`ToFieldSet`).
pub fn fields_of(value: &Value, topology: Topology<'_>) -> Fields {
    let mut fields = Fields::default();
    match (topology, value) {
        (Topology::Struct(_) | Topology::Map(_) | Topology::Deduced, Value::Object(map)) => {
            for (key, value) in map {
                let mut below = fields_of(value, topology.below(key));
                let path = Text::from_iter(["f:", key]);
                let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                // A field of a struct is in the set through its content. A key of a map is a member itself.
                below.own |= is_empty || !topology.declares(&path);
                fields.put(path, below);
            }
        }
        (Topology::Keyed(..) | Topology::Set, Value::Array(list)) => {
            for value in list {
                let key = Text::from(topology.element(value));
                // The content of elements with duplicate keys has no manager.
                let below = if fields.below.contains_key(&key) {
                    Fields::default()
                } else {
                    fields_of(value, topology.of_elements())
                };
                fields.below.insert(key, Fields { own: true, ..below });
            }
        }
        (Topology::Atomic, _) => return Fields::leaf(),
        (_, Value::Null) => {}
        _ => return Fields::leaf(),
    }
    fields
}

/// Returns an error for each list with duplicate keys or values.
pub fn repeated(value: &Value, topology: Topology<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (key, value, of) in topology.children(value).unwrap_or_default() {
        found.extend(repeated(value, of).into_iter().map(|below| format!("{}{below}", step(&key))));
        if !seen.insert(key.clone()) {
            found.push(format!(": duplicate entries for key {}", step(&key)));
        }
    }
    found
}

/// Collects the paths of atomic maps and lists, which can only be set as a whole.
pub fn wholes(value: &Value, topology: Topology<'_>, at: &str, found: &mut Vec<String>) {
    if matches!(
        (topology, value),
        (Topology::Atomic, Value::Object(_) | Value::Array(_)) | (Topology::Deduced, Value::Array(_))
    ) {
        found.push(at.to_owned());
        return;
    }
    match (topology, value) {
        (_, Value::Object(map)) => {
            for (key, value) in map {
                wholes(value, topology.below(key), &format!("{at}.{key}"), found);
            }
        }
        (Topology::Keyed(_, element), Value::Array(list)) => {
            for (i, value) in list.iter().enumerate() {
                wholes(value, Topology::of_shape(element), &format!("{at}[{i}]"), found);
            }
        }
        _ => {}
    }
}
