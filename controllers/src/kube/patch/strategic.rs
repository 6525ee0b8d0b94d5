//! The strategic merge patch between two objects (`strategicpatch.CreateTwoWayMergePatch`): lists merge by key or as
//! sets if the Go type says so, and directives express the rest.

use std::borrow::Cow;
use std::cmp::Ordering;

use substrate::json::{Map, Value};

use super::go::{gone, whole, written};
use super::types::{List, Type};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Entry without its key, which cannot be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub(super) enum NoMergeKey {
    /// {list}: an entry has no {key}: set it, entries of this list are told apart by it
    In {
        /// The list.
        list: &'static str,
        /// The name of the key.
        key: &'static str,
    },
}

/// Returns the patch from `old` to `new`.
pub(super) fn between(old: &Map, new: Map, of: Option<&'static Type>) -> Result<Map, NoMergeKey> {
    let mut patch = gone(old, &new, of);
    for (name, value) in new {
        if !written(&name, &value, of) {
            continue;
        }
        let field = of.and_then(|of| of.field(&name));
        let below = field.and_then(|field| field.of);
        match (old.get(&name).filter(|before| written(&name, before, of)), value) {
            (Some(Value::Object(before)), Value::Object(after)) => {
                let change = between(before, after, below)?;
                if !change.is_empty() {
                    patch.insert(name, Value::Object(change));
                }
            }
            (Some(before), after) if *before == after => {}
            (Some(Value::Array(before)), Value::Array(after)) => {
                match field.map_or(List::Replace, |field| field.list) {
                    List::Replace => drop(patch.insert(name, whole(Value::Array(after), below))),
                    List::Set => {
                        let (added, deleted) = scalars(before, &after);
                        insert_list(&mut patch, name.to_string(), added);
                        insert_list(&mut patch, format!("{DELETE_FROM}/{name}"), deleted);
                        insert_list(&mut patch, format!("{SET_ORDER}/{name}"), after);
                    }
                    List::By { key, retain_keys } => {
                        let entries =
                            Entries { list: field.map_or("", |field| field.name), key, retain_keys, of: below };
                        let (changes, order) = entries.between(before, after)?;
                        insert_list(&mut patch, name.to_string(), changes);
                        insert_list(&mut patch, format!("{SET_ORDER}/{name}"), order);
                    }
                }
            }
            (_, after) => drop(patch.insert(name, whole(after, below))),
        }
    }
    Ok(patch)
}

fn insert_list(patch: &mut Map, name: String, list: Vec<Value>) {
    if !list.is_empty() {
        patch.insert(name, Value::Array(list));
    }
}

/// Formats a scalar as Go prints it, which is the sort key of lists.
fn shown(value: &Value) -> Cow<'_, str> {
    value.as_str().map_or_else(|| value.to_string().into(), Cow::from)
}

/// Returns the new members of a set in their final order, and the removed ones, sorted.
fn scalars(old: &[Value], new: &[Value]) -> (Vec<Value>, Vec<Value>) {
    let missing = |of: &[Value], from: &[Value]| -> Vec<Value> {
        of.iter().filter(|value| !from.contains(value)).cloned().collect()
    };
    let mut deleted = missing(old, new);
    deleted.sort_by(|a, b| shown(a).cmp(&shown(b)));
    deleted.dedup();
    (missing(new, old), deleted)
}

/// List that merges by a key.
struct Entries {
    list: &'static str,
    key: &'static str,
    retain_keys: bool,
    of: Option<&'static Type>,
}

impl Entries {
    /// Returns the entries to send, deletions last. After a change, also returns the keys in the final order.
    fn between(&self, old: &[Value], new: Vec<Value>) -> Result<(Vec<Value>, Vec<Value>), NoMergeKey> {
        let before = self.sorted(old)?;
        self.sorted(&new)?;
        let same_order = old.len() == new.len() && old.iter().zip(&new).all(|(a, b)| a[self.key] == b[self.key]);
        let order: Vec<Value> =
            new.iter().map(|entry| [(self.key, entry[self.key].clone())].into_iter().collect()).collect();
        let deleted: Vec<Value> = before
            .iter()
            .filter(|entry| !order.iter().any(|kept| kept[self.key] == entry[self.key]))
            .map(|entry| [(self.key, entry[self.key].clone()), (PATCH, "delete".into())].into_iter().collect())
            .collect();
        let mut changes = Vec::new();
        for entry in new {
            let known = before.iter().find(|known| known[self.key] == entry[self.key]);
            match (known, entry) {
                (Some(Value::Object(known)), Value::Object(entry)) => changes.extend(self.entry(known, entry)?),
                (_, entry) => changes.push(whole(entry, self.of)),
            }
        }
        changes.extend(deleted);
        let order = if changes.is_empty() && same_order { Vec::new() } else { order };
        Ok((changes, order))
    }

    /// Returns the patch of an entry; None if it is unchanged.
    fn entry(&self, old: &Map, new: Map) -> Result<Option<Value>, NoMergeKey> {
        let key = new.get(self.key).cloned().unwrap_or_default();
        let kept: Vec<Value> = if self.retain_keys {
            new.iter().filter(|(name, value)| written(name, value, self.of)).map(|(name, _)| name.into()).collect()
        } else {
            Vec::new()
        };
        let mut change = between(old, new, self.of)?;
        if change.is_empty() {
            return Ok(None);
        }
        insert_list(&mut change, RETAIN_KEYS.to_owned(), kept);
        change.insert(self.key, key);
        Ok(Some(Value::Object(change)))
    }

    /// Returns the entries in the order of their keys.
    fn sorted<'a>(&self, list: &'a [Value]) -> Result<Vec<&'a Value>, NoMergeKey> {
        if list.iter().any(|entry| entry.get(self.key).is_none_or(Value::is_null)) {
            return Err(NoMergeKey::In { list: self.list, key: self.key });
        }
        let mut entries: Vec<&Value> = list.iter().collect();
        entries.sort_by(|a, b| -> Ordering { shown(&a[self.key]).cmp(&shown(&b[self.key])) });
        Ok(entries)
    }
}
