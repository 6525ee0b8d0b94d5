//! The second application of a manifest. Keys that the manifest no longer has are removed, as with `kubectl apply`.

use serde_json::{Map, Value};

/// Returns the merge patch for an object that was applied as `last` and is applied as `new`: `new`, with a null for each
/// key of a map that only `last` has.
pub(crate) fn patch(last: &Value, new: &Value) -> Value {
    match (last, new) {
        (Value::Object(last), Value::Object(new)) => Value::Object(members(last, new)),
        _ => new.clone(),
    }
}

fn members(last: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = new.clone();
    for (name, before) in last {
        let now = new.get(name).map_or(Value::Null, |now| self::patch(before, now));
        patch.insert(name.clone(), now);
    }
    patch
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_that_is_no_longer_there_is_removed() {
        let last = json!({ "metadata": { "name": "a", "labels": { "x": "1", "y": "1" } }, "data": { "k": "v" } });
        let new = json!({ "metadata": { "name": "a", "labels": { "y": "2" } } });
        let patched = json!({ "metadata": { "name": "a", "labels": { "x": null, "y": "2" } }, "data": null });
        assert_eq!(patch(&last, &new), patched);
        assert_eq!(patch(&json!({ "list": [1] }), &json!({ "list": [2] })), json!({ "list": [2] }));
    }
}
