//! Pruning and defaulting by a structural schema: unknown fields are removed, missing ones get their defaults.

use substrate::json::Value;

use super::schema::Schema;
use crate::field_path::FieldPath;

/// Fields that every Kubernetes object has.
const OWN: &[&str] = &["apiVersion", "kind", "metadata"];

/// Removes the fields of `value` that `schema` does not have, and adds their paths to `unknown`. `embedded` is set for
/// complete Kubernetes objects, which keep these three fields.
pub fn prune(schema: &Schema, value: &mut Value, embedded: bool, path: &mut String, unknown: &mut Vec<String>) {
    let length = path.len();
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                if length > 0 {
                    path.push('.');
                }
                path.push_str(key);
                let known = if embedded && OWN.contains(&key.as_str()) {
                    true
                } else if let Some(field) = schema.properties.get(key.as_str()) {
                    // A null of a non-nullable field with a default is removed, so that the default applies.
                    let replaced = value.is_null() && !field.nullable && field.default.is_some();
                    prune(field, value, field.embedded, path, unknown);
                    path.truncate(length);
                    return !replaced;
                } else if let Some(values) = &schema.values {
                    prune(values, value, values.embedded, path, unknown);
                    true
                } else {
                    schema.is_open()
                };
                if !known {
                    unknown.push(path.clone());
                }
                path.truncate(length);
                known
            });
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for (i, value) in list.iter_mut().enumerate() {
                    path.push_str(&format!("[{i}]"));
                    prune(items, value, items.embedded, path, unknown);
                    path.truncate(length);
                }
            }
        }
        _ => {}
    }
}

/// Calls `look` with the metadata of each embedded Kubernetes object, but not with that of the object itself.
///
/// # Errors
/// The first error of `look`.
pub fn embedded_metadata<E>(
    schema: &Schema,
    value: &mut Value,
    at: &FieldPath<'_>,
    look: &mut impl FnMut(&mut Value, &FieldPath<'_>) -> Result<(), E>,
) -> Result<(), E> {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                let Some(below) = schema.properties.get(key.as_str()).or(schema.values.as_deref()) else { continue };
                let at = at.field(key);
                if below.embedded
                    && let Some(metadata) = value.get_mut("metadata")
                {
                    look(metadata, &at.field("metadata"))?;
                }
                embedded_metadata(below, value, &at, look)?;
            }
        }
        Value::Array(list) => {
            let Some(items) = &schema.items else { return Ok(()) };
            for (i, value) in list.iter_mut().enumerate() {
                let at = at.item(i);
                if items.embedded
                    && let Some(metadata) = value.get_mut("metadata")
                {
                    look(metadata, &at.field("metadata"))?;
                }
                embedded_metadata(items, value, &at, look)?;
            }
        }
        _ => {}
    }
    Ok(())
}

impl Schema {
    /// Sets the defaults of missing values.
    pub fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, field) in &self.properties {
                    if let (None, Some(default)) = (map.get(name), &field.default) {
                        map.insert(name.clone(), default.clone());
                    }
                    if let Some(value) = map.get_mut(name) {
                        field.fill(value);
                    }
                }
                if let Some(values) = &self.values {
                    for (name, value) in map {
                        if !self.properties.contains_key(name.as_str()) {
                            values.fill(value);
                        }
                    }
                }
            }
            Value::Array(list) => {
                if let Some(items) = &self.items {
                    list.iter_mut().for_each(|value| items.fill(value));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn unknown_fields_go_and_defaults_come() {
        let mut errors = Vec::new();
        let schema = Schema::parse(
            &json!({"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "size": {"type": "integer", "default": 3},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}},
                    "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"b": {"type": "string"}}}}}}}}),
            "s",
            &mut errors,
        );
        assert!(errors.is_empty(), "{errors:?}");
        let mut value = json!({"apiVersion": "a/v1", "metadata": {"name": "n"}, "extra": 1, "spec": {"size": null, "free": {"any": 1},
            "list": [{"z": 1}], "map": {"k": {"b": "1", "c": 2}}, "odd": 1}});
        let mut unknown = Vec::new();
        prune(&schema, &mut value, true, &mut String::new(), &mut unknown);
        assert_eq!(unknown, ["extra", "spec.list[0].z", "spec.map.k.c", "spec.odd"]);
        schema.fill(&mut value);
        assert_eq!(
            value["spec"],
            json!({"size": 3, "free": {"any": 1}, "list": [{"a": "x"}], "map": {"k": {"b": "1"}}})
        );
    }
}
