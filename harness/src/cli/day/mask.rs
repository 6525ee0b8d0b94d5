//! Masks secrets in data that leaves this machine.

use serde_json::Value;

use crate::secrets::sounds_secret;

/// Text that replaces a secret.
pub(super) const MASK: &str = "(masked)";
/// Annotation in which kubectl keeps the applied object.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Masks in `value`: the data of Secrets, and the values of variables and fields with names of secrets.
pub(super) fn mask(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let is_secret = map.get("kind").is_some_and(|kind| kind == "Secret");
            // `env: [{name: DB_PASSWORD, value: …}]`, and tags, which are {key, value}.
            let name = map.get("name").or(map.get("key")).and_then(Value::as_str).unwrap_or_default();
            let named = sounds_secret(name);
            for (key, value) in map.iter_mut() {
                let whole = (is_secret && ["data", "stringData"].contains(&key.as_str()))
                    || (named && key == "value")
                    || key == APPLIED
                    || (sounds_secret(key) && value.is_string());
                if whole { hide(value) } else { mask(value) }
            }
            // The Secrets of a saved state: its objects have no kind.
            if let Some(secrets) = map.get_mut("secrets") {
                hide_data(secrets);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(mask),
        _ => {}
    }
}

/// Masks every text below `value`, and keeps its structure.
fn hide(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(hide),
        Value::Array(list) => list.iter_mut().for_each(hide),
        Value::Null => {}
        other => *other = MASK.into(),
    }
}

/// Masks every `data` and `stringData` below `value`.
fn hide_data(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                if ["data", "stringData"].contains(&key.as_str()) { hide(value) } else { hide_data(value) }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(hide_data),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_masked_wherever_they_stand_and_the_rest_stays() {
        let mut value = json!({
            "secrets": [{ "metadata": { "name": "db" }, "data": { "a": "canary" } }],
            "items": [{ "kind": "Secret", "stringData": { "b": "canary" }, "metadata": { "name": "x",
                "annotations": { APPLIED: "canary" } } }],
            "spec": { "env": [{ "name": "DB_PASSWORD", "value": "canary" }, { "name": "HOST", "value": "db" },
                { "name": "KEY", "valueFrom": { "secretKeyRef": { "name": "db", "key": "a" } } }] },
            "parameters": { "csi.storage.k8s.io/node-stage-secret-name": "db" },
            "token": "canary", "clientToken": "pvc-1", "secretName": "db",
        });
        mask(&mut value);
        let text = value.to_string();
        assert!(!text.contains("canary"), "{text}");
        assert_eq!(value["spec"]["env"][1]["value"], "db");
        assert_eq!(value["spec"]["env"][2]["valueFrom"]["secretKeyRef"]["name"], "db");
        assert_eq!(value["parameters"]["csi.storage.k8s.io/node-stage-secret-name"], "db");
        assert_eq!((&value["clientToken"], &value["secretName"]), (&json!("pvc-1"), &json!("db")));
    }
}
