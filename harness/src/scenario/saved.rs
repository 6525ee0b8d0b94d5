//! Ids of the cloud in manifests: `{saved: NAME}` where a text belongs stands for what an earlier step saved.

use serde_json::Value;

/// Puts the id in the place of each `{saved: NAME}` in `value`; one that `id` does not know stays.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_saved_takes_the_place_of_its_name_and_nothing_else_changes() {
        let mut value = json!({ "a": [{ "saved": "v" }, { "saved": "other" }], "saved": "v", "b": { "saved": 1 } });
        replace(&mut value, &mut |name| (name == "v").then(|| "vol-1".to_owned()));
        assert_eq!(value, json!({ "a": ["vol-1", { "saved": "other" }], "saved": "v", "b": { "saved": 1 } }));
    }
}
