//! Sets of fields, as in `fieldsV1`, and the operations of server-side apply on them (KEP-555; the rules of
//! structured-merge-diff).
//!
//! The members of structs and maps are separate fields unless the struct or map is atomic. The elements of a list are,
//! only if its type is `map` (an element is identified by its keys) or `set` (by its value). Everything else is one
//! field.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use substrate::json::{Map, Text, Value, json};

use crate::kinds::Kind;
use crate::kinds::schema::{self, Field, Shape, Type};

/// Keys that a list's element may omit, with their default.
const KEY_DEFAULTS: &[(&str, &str)] = &[("protocol", "TCP")];

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

/// Division of a value into fields, as its schema says.
#[derive(Clone, Copy)]
pub enum Topology<'a> {
    /// A struct.
    Struct(&'a Type),
    /// A map with values of one shape.
    Map(&'a Shape),
    /// A list whose elements are identified by some of their fields.
    Keyed(&'a Field, &'a Shape),
    /// A list of distinct scalars.
    Set,
    /// A value of unknown type: the members of an object are separate fields, a list is one field
    /// (`__untyped_deduced_`).
    Deduced,
    /// One field.
    Atomic,
}

impl<'a> Topology<'a> {
    fn of_field(field: &'a Field) -> Self {
        match &field.shape {
            _ if field.map_type == Some("atomic") => Self::Atomic,
            Shape::Ref(of) if field.map_type.is_some() => Self::Struct(of.get()),
            Shape::Ref(of) => Self::of_type(of.get()),
            Shape::Custom(of) => Self::Struct(of),
            Shape::Map(values) => Self::Map(values),
            Shape::List(element) if field.list_type == Some("map") => Self::Keyed(field, element),
            Shape::List(_) if field.list_type == Some("set") => Self::Set,
            Shape::Any => Self::Deduced,
            _ => Self::Atomic,
        }
    }

    fn of_type(of: &'a Type) -> Self {
        if of.atomic { Self::Atomic } else { Self::Struct(of) }
    }

    fn of_shape(shape: &'a Shape) -> Self {
        match shape {
            Shape::Ref(of) => Self::of_type(of.get()),
            Shape::Custom(of) => Self::Struct(of),
            Shape::Map(values) => Self::Map(values),
            Shape::Any => Self::Deduced,
            _ => Self::Atomic,
        }
    }

    /// Returns the topology of the value that a path element leads to.
    fn at(self, key: &str) -> Self {
        match key.strip_prefix("f:") {
            Some(name) => self.below(name),
            None => self.of_elements(),
        }
    }

    /// Returns true if a path element names a field of a struct.
    fn declares(self, key: &str) -> bool {
        let name = key.strip_prefix("f:");
        matches!((self, name), (Self::Struct(of), Some(name)) if of.field(name).is_some())
    }

    /// Returns true if the schema has the type of the value that a path element leads to.
    fn knows(self, key: &str) -> bool {
        match self {
            Self::Struct(_) => self.declares(key),
            Self::Map(_) | Self::Keyed(..) | Self::Set => true,
            Self::Deduced | Self::Atomic => false,
        }
    }

    /// Returns the topology of a list's elements.
    pub fn of_elements(self) -> Self {
        match self {
            Self::Keyed(_, element) => Self::of_shape(element),
            _ => Self::Atomic,
        }
    }

    /// Returns the topology of the value under a key of an object.
    pub fn below(self, name: &str) -> Self {
        match self {
            Self::Struct(of) => match of.field(name) {
                Some(field) => Self::of_field(field),
                None if of.open => Self::Deduced,
                None => Self::Atomic,
            },
            Self::Deduced => Self::Deduced,
            Self::Map(values) => Self::of_shape(values),
            _ => Self::Atomic,
        }
    }

    /// Returns the path element of a list's element.
    pub fn element(self, value: &Value) -> String {
        match self {
            Self::Keyed(field, _) => {
                let keys: Map = field
                    .list_keys
                    .iter()
                    .filter_map(|key| {
                        let default = || KEY_DEFAULTS.iter().find(|(k, _)| k == key).map(|(_, v)| Value::from(*v));
                        Some(((*key).to_owned(), value.get(key).cloned().or_else(default)?))
                    })
                    .collect();
                format!("k:{}", Value::Object(keys))
            }
            _ => format!("v:{value}"),
        }
    }

    /// Returns the children of a value by path element, with their topology; `None` if the value is one field.
    fn children(self, value: &Value) -> Option<Vec<(Text, &Value, Self)>> {
        match (self, value) {
            (Self::Struct(_) | Self::Map(_) | Self::Deduced, Value::Object(map))
                if map.values().any(|v| !v.is_null()) =>
            {
                Some(
                    map.iter()
                        .filter(|(_, v)| !v.is_null())
                        .map(|(key, v)| (Text::from_iter(["f:", key]), v, self.below(key)))
                        .collect(),
                )
            }
            (Self::Keyed(_, element), Value::Array(list)) if !list.is_empty() => {
                Some(list.iter().map(|v| (self.element(v).into(), v, Self::of_shape(element))).collect())
            }
            (Self::Set, Value::Array(list)) if !list.is_empty() => {
                Some(list.iter().map(|v| (self.element(v).into(), v, Self::Atomic)).collect())
            }
            _ => None,
        }
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

/// Returns the error for an undeclared field. `path` begins with a dot.
pub fn not_declared(path: &str) -> String {
    format!("{path}: field not declared in schema")
}

/// Returns an error for each field that the kind does not declare.
pub fn undeclared(kind: &Kind, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(of) = schema::of(kind) {
        undeclared_in(of, object, "", &mut found);
    }
    found
}

fn undeclared_in(of: &Type, value: &Value, at: &str, found: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        match of.field(key) {
            Some(field) => undeclared_below(&field.shape, Topology::of_field(field), value, &at, found),
            None => found.push(not_declared(&at)),
        }
    }
}

fn undeclared_below(shape: &Shape, topology: Topology<'_>, value: &Value, at: &str, found: &mut Vec<String>) {
    match (shape, value) {
        (Shape::Ref(of), _) => undeclared_in(of.get(), value, at, found),
        (Shape::Custom(of), _) => undeclared_in(of, value, at, found),
        (Shape::Map(values), Value::Object(map)) => {
            for (key, value) in map {
                undeclared_below(values, Topology::of_shape(values), value, &format!("{at}.{key}"), found);
            }
        }
        (Shape::List(element), Value::Array(list)) => {
            for (i, value) in list.iter().enumerate() {
                let step = match topology {
                    Topology::Keyed(..) | Topology::Set => step(&topology.element(value)),
                    _ => format!("[{i}]"),
                };
                undeclared_below(element, Topology::of_shape(element), value, &format!("{at}{step}"), found);
            }
        }
        _ => {}
    }
}

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::compare::compare;
    use super::super::prune::prune;
    use super::*;
    use crate::kinds;

    fn pod() -> Topology<'static> {
        Topology::Struct(kinds::schema::of(kinds::find("", "v1", "pods").unwrap()).unwrap())
    }

    /// Returns the finalizers of an object after an apply of some.
    fn listed(live: &[String], applied: &[String]) -> Vec<String> {
        let mut object = json!({"metadata": {"finalizers": live}});
        merge(&mut object, &json!({"metadata": {"finalizers": applied}}), pod());
        serde_json::from_str(&object["metadata"]["finalizers"].to_string()).unwrap()
    }

    #[test]
    fn an_apply_orders_a_list_as_structured_merge_diff_does() {
        let words = |list: &str| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (live, applied, merged) in [
            ("x w", "z x", "z x w"),
            ("a b c", "c a", "b c a"),
            ("c a w", "a c n", "a w c n"),
            ("a b c d", "d c", "a b d c"),
            ("a a w", "a n", "a n w"),
            ("", "b a", "b a"),
            ("b a", "", "b a"),
        ] {
            assert_eq!(listed(&words(live), &words(applied)), words(merged), "{live} with {applied}");
        }
    }

    #[test]
    fn an_applied_element_is_merged_into_the_one_of_its_name() {
        let mut object = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}});
        merge(
            &mut object,
            &json!({"spec": {"containers": [{"name": "b", "tty": true}, {"name": "a", "image": "3"}]}}),
            pod(),
        );
        let merged = json!([{"name": "b", "image": "2", "tty": true}, {"name": "a", "image": "3"}]);
        assert_eq!(object["spec"]["containers"], merged);
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(null)), Just(json!(1)), "[a-c]{0,1}".prop_map(Value::from)];
        leaf.prop_recursive(6, 40, 4, |inner| {
            let key = prop_oneof![
                Just("spec".to_owned()),
                Just("containers".to_owned()),
                Just("name".to_owned()),
                Just("ports".to_owned()),
                Just("metadata".to_owned()),
                Just("finalizers".to_owned()),
                Just("labels".to_owned()),
                "(f:|k:|v:)?[a-c{}\"]{0,3}",
            ];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(key, inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_tree_upsets_the_sets(a in tree(), b in tree(), set in tree()) {
            let mut merged = a.clone();
            merge(&mut merged, &b, pod());
            let fields = Fields::parse(&set);
            prop_assert_eq!(Fields::parse(&fields.to_value()).to_value(), fields.to_value());
            let _ = (fields.paths(), fields.union(&fields_of(&a, pod())));
            let difference = compare(Some(&a), Some(&b), pod());
            prune(&mut merged, &fields, &difference.removed, pod());
            prune(&mut merged, &difference.written, &fields_of(&b, pod()), pod());
        }

        #[test]
        fn sets_add_up(a in tree(), b in tree()) {
            let (a, b) = (fields_of(&a, pod()), fields_of(&b, pod()));
            prop_assert!(a.without(&a).is_empty());
            prop_assert_eq!(a.without(&b).union(&a.common(&b)), a.clone());
            prop_assert!(a.without(&b).common(&b).is_empty());
        }

        #[test]
        fn merged_lists_keep_the_order_of_what_was_applied(
            live in proptest::collection::vec("[a-e]", 0..6),
            applied in proptest::collection::btree_set("[a-g]", 0..7).prop_map(|set| set.into_iter().collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let merged = listed(&live, &applied);
            let theirs: Vec<&String> = merged.iter().filter(|name| applied.contains(name)).collect();
            prop_assert_eq!(theirs, applied.iter().collect::<Vec<_>>());
            let ours: Vec<&String> = merged.iter().filter(|name| !applied.contains(name)).collect();
            prop_assert_eq!(ours, live.iter().filter(|name| !applied.contains(name)).collect::<Vec<_>>());
        }

        #[test]
        fn equal_objects_have_no_changes(a in tree()) {
            let difference = compare(Some(&a), Some(&a), pod());
            prop_assert!(difference.written.is_empty() && difference.removed.is_empty());
        }
    }
}
