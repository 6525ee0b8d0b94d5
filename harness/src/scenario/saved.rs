//! Ids in manifests. `{saved: NAME}` instead of a text is replaced by an id of the cloud that an earlier step saved.
//! `{uid: KIND/NAME}` is replaced by the uid of an object when the manifest is applied.

use serde_json::Value;

/// Replaces each `{saved: NAME}` in `value` by its id, unless `id` does not know it.
pub fn replace(value: &mut Value, id: &mut dyn FnMut(&str) -> Option<String>) {
    match value {
        Value::Object(map) => {
            if let (1, Some(Value::String(name))) = (map.len(), map.get("saved")) {
                if let Some(id) = id(name) {
                    *value = Value::String(id);
                }
                return;
            }
            map.values_mut().for_each(|value| replace(value, id));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| replace(value, id)),
        _ => {}
    }
}

/// Object whose uid `value` stands for.
fn uid_of(value: &Value) -> Option<&str> {
    match value.as_object()?.iter().next() {
        Some((key, Value::String(object))) if key == "uid" && object.contains('/') => {
            (value.as_object()?.len() == 1).then_some(object)
        }
        _ => None,
    }
}

/// Objects in `{uid: KIND/NAME}` maps of `value`, in order.
pub fn uids(value: &Value) -> Vec<String> {
    match (uid_of(value), value) {
        (Some(object), _) => vec![object.to_owned()],
        (None, Value::Object(map)) => map.values().flat_map(uids).collect(),
        (None, Value::Array(list)) => list.iter().flat_map(uids).collect(),
        (None, _) => Vec::new(),
    }
}

/// Replaces each `{uid: KIND/NAME}` in `value` by the result of `uid`, if there is one.
pub fn replace_uids(value: &mut Value, uid: &dyn Fn(&str) -> Option<Value>) {
    if let Some(uid) = uid_of(value).and_then(uid) {
        *value = uid;
        return;
    }
    match value {
        Value::Object(map) => map.values_mut().for_each(|value| replace_uids(value, uid)),
        Value::Array(list) => list.iter_mut().for_each(|value| replace_uids(value, uid)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_saved_value_replaces_its_name_and_nothing_else() {
        let mut value = json!({ "a": [{ "saved": "v" }, { "saved": "other" }], "saved": "v", "b": { "saved": 1 } });
        replace(&mut value, &mut |name| (name == "v").then(|| "vol-1".to_owned()));
        assert_eq!(value, json!({ "a": ["vol-1", { "saved": "other" }], "saved": "v", "b": { "saved": 1 } }));
    }

    #[test]
    fn a_uid_is_that_of_an_object_and_nothing_else() {
        let (owner, other) = (json!({ "uid": { "uid": "pod/web" } }), json!({ "uid": "pod/web", "x": 1 }));
        let mut value = json!({ "a": [owner, { "uid": "1-2" }], "b": other });
        assert_eq!(uids(&value), ["pod/web"]);
        replace_uids(&mut value, &|object| (object == "pod/web").then(|| "u".into()));
        assert_eq!(value, json!({ "a": [{ "uid": "u" }, { "uid": "1-2" }], "b": { "uid": "pod/web", "x": 1 } }));
    }
}
