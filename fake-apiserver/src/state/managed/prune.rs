//! Removal of fields that a manager no longer applies (`prune` of structured-merge-diff).

use substrate::json::Value;

use super::fields::{Fields, Topology, fields_of};
use super::versions::{converted, topology};
use crate::kinds::Kind;

/// Removes from an object of the version `kind` the fields of a manager's last apply that have no manager any more.
/// `last` and each of `owned` are fields of their own version.
pub fn prune_versions(object: &mut Value, kind: &Kind, last: (&Kind, &Fields), owned: &[(&Kind, &Fields)]) {
    // The version of the last apply comes first, so that the other conversions find the fields that they need.
    let mut versions: Vec<(&Kind, Fields)> = vec![(last.0, Fields::default())];
    for (kind, fields) in owned {
        match versions.iter_mut().find(|(known, _)| known == kind) {
            Some((_, sum)) => *sum = sum.union(fields),
            None => versions.push((kind, (*fields).clone())),
        }
    }
    if let [(only, managed)] = versions.as_slice()
        && *only == kind
    {
        return prune(object, last.1, managed, topology(kind));
    }
    let before = last.1.with_named(topology(last.0));
    let mut merged = converted(object, kind, last.0).into_owned();
    let mut pruned = (last.0, merged.clone());
    remove(&mut pruned.1, &before, topology(last.0), Emptied::Null);
    for (version, managed) in &versions {
        let topology = topology(version);
        let mut whole = converted(&merged, last.0, version).into_owned();
        let set = fields_of(&whole, topology).with_named(topology);
        let kept = fields_of(&converted(&pruned.1, pruned.0, version), topology).with_named(topology);
        let kept = kept.union(&managed.with_named(topology));
        remove(&mut whole, &set.without(&kept), topology, Emptied::Null);
        pruned = (version, whole);
    }
    let topology = topology(last.0);
    let kept = fields_of(&converted(&pruned.1, pruned.0, last.0), topology).with_named(topology);
    let set = fields_of(&merged, topology).with_named(topology);
    remove(&mut merged, &set.without(&kept).common(&before), topology, Emptied::Gone);
    *object = converted(&merged, last.0, kind).into_owned();
}

/// Removes the fields of a manager's last apply (`before`) that have no manager any more. `managed` has the fields of
/// all managers, including those that this manager applies now.
pub fn prune(object: &mut Value, before: &Fields, managed: &Fields, topology: Topology<'_>) {
    if before.without(managed).is_empty() {
        return;
    }
    let (before, managed) = (before.with_named(topology), managed.with_named(topology));
    let whole = fields_of(object, topology).with_named(topology);
    let mut pruned = object.clone();
    remove(&mut pruned, &before, topology, Emptied::Null);
    // Fields that others manage come back, with the structs around them.
    let kept = fields_of(&pruned, topology).with_named(topology).union(&managed);
    pruned.clone_from(object);
    remove(&mut pruned, &whole.without(&kept), topology, Emptied::Null);
    // Only fields of this manager's last apply are removed.
    let kept = fields_of(&pruned, topology).with_named(topology);
    remove(object, &whole.without(&kept).common(&before), topology, Emptied::Gone);
}

/// Treatment of a map or list that has become empty.
#[derive(Clone, Copy, PartialEq)]
enum Emptied {
    /// It becomes null, which its object still has as a field.
    Null,
    /// It is removed: a Go server omits an empty map or list with `omitempty`.
    Gone,
}

/// Removes fields from a value. Returns true if it is then empty.
fn remove(value: &mut Value, fields: &Fields, topology: Topology<'_>, emptied: Emptied) -> bool {
    let is_empty = match (topology, &mut *value) {
        (Topology::Struct(_) | Topology::Map(_) | Topology::Deduced, Value::Object(map)) if !map.is_empty() => {
            map.retain(|key, value| {
                let Some(inner) = fields.at(&format!("f:{key}")) else { return true };
                !(inner.has_itself() || remove(value, inner, topology.below(key), emptied) && emptied == Emptied::Gone)
            });
            map.is_empty()
        }
        (Topology::Keyed(..) | Topology::Set, Value::Array(list)) if !list.is_empty() => {
            list.retain_mut(|value| {
                let Some(inner) = fields.at(&topology.element(value)) else { return true };
                !(inner.has_itself()
                    || remove(value, inner, topology.of_elements(), emptied) && emptied == Emptied::Gone)
            });
            list.is_empty()
        }
        _ => false,
    };
    if is_empty {
        *value = Value::Null;
    }
    is_empty
}
