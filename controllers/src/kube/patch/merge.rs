//! The JSON merge patch between two objects (RFC 7386, `jsonpatch.CreateMergePatch`): a list is one value.

use substrate::json::{Map, Value};

use super::go::{gone, whole, written};
use super::types::Type;

/// Returns the patch from `old` to `new`.
pub(super) fn between(old: &Map, new: Map, of: Option<&'static Type>) -> Map {
    let mut patch = gone(old, &new, of);
    for (name, value) in new {
        if !written(&name, &value, of) {
            continue;
        }
        let below = of.and_then(|of| of.below(&name));
        match (old.get(&name), value) {
            (Some(Value::Object(before)), Value::Object(after)) => {
                let change = between(before, after, below);
                if !change.is_empty() {
                    patch.insert(name, Value::Object(change));
                }
            }
            (Some(before), after) if *before == after => {}
            (_, after) => drop(patch.insert(name, whole(after, below))),
        }
    }
    patch
}
