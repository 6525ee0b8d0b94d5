//! JSON merge patch (RFC 7396).

use std::collections::BTreeSet;

use substrate::json::{Map, Value};

use super::PatchError;
use crate::go_json::word;

pub(super) fn apply(patch: Value, target: &Value) -> Result<Value, PatchError> {
    let patch = match patch {
        Value::Object(patch) => patch,
        // Go decodes null as an empty map, and the merge refuses that.
        Value::Null => return Err(PatchError::Malformed("Invalid JSON Patch".to_owned())),
        other => {
            let why = format!("cannot unmarshal {} into Go value of type map[string]interface {{}}", word(&other));
            return Err(PatchError::Malformed(format!("error decoding patch: json: {why}")));
        }
    };
    let mut merged = target.clone();
    merge(&mut merged, patch);
    Ok(merged)
}

fn merge(target: &mut Value, patch: Map) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(map) = target else { return };
    let (mut added, mut gone) = (Map::new(), BTreeSet::new());
    for (key, value) in patch {
        match (map.get_mut(&key), value) {
            (_, Value::Null) => {
                gone.insert(key);
            }
            (Some(slot), Value::Object(patch)) => merge(slot, patch),
            (Some(slot), other) => *slot = other,
            (None, Value::Object(patch)) => {
                let mut new = Value::Null;
                merge(&mut new, patch);
                added.insert(key, new);
            }
            (None, other) => {
                added.insert(key, other);
            }
        }
    }
    map.remove_all(&gone);
    map.append(&mut added);
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn the_examples_of_the_rfc_hold_for_objects() {
        for (target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(apply(patch.clone(), &target), Ok(result), "{patch}");
        }
    }

    #[test]
    fn a_patch_that_is_no_object_is_malformed() {
        for patch in [json!([1]), json!("x"), json!(null)] {
            assert_eq!(apply(patch, &json!({})).unwrap_err().code(), 400);
        }
    }
}
