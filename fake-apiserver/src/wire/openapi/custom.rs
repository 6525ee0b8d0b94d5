//! Published schemas of custom kinds (apiextensions-apiserver `pkg/controller/openapi`).

use substrate::json::{Map, Value, json};

use super::schemas::{Dialect, described};
use crate::kinds::describe;

/// Marks fields with any value, which have no schema below them.
const PRESERVES: &str = "x-kubernetes-preserve-unknown-fields";
/// Marks fields with a whole object.
const EMBEDS: &str = "x-kubernetes-embedded-resource";

/// Returns the schema of a definition, with the metadata that every object has. In v2, an object with arbitrary fields
/// is only `type: object`, because kubectl treats fields that a schema does not name as mistakes.
pub(super) fn schema(source: &Value, dialect: Dialect) -> Value {
    if dialect == Dialect::V2 && source[PRESERVES] == true {
        return json!({ "type": "object" });
    }
    let mut schema = source.clone();
    if let Some(map) = schema.as_object_mut() {
        if dialect == Dialect::V2 {
            simplify(map);
        }
        embed(map, dialect);
        add_types(map, dialect);
    }
    schema
}

/// Adds the fields that every object has, with their standard descriptions.
fn add_types(schema: &mut Map, dialect: Dialect) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        let text = |field: &str| describe::field("core/v1.Pod", field).unwrap_or_default();
        for (field, of) in [
            ("apiVersion", json!({ "type": "string" })),
            ("kind", json!({ "type": "string" })),
            ("metadata", json!({ "$ref": dialect.reference("meta/v1.ObjectMeta") })),
        ] {
            properties.insert(field, described(of, text(field), dialect));
        }
    }
}

/// Calls `each` with the schemas within a schema.
fn below(schema: &mut Map, each: &mut dyn FnMut(&mut Map)) {
    for name in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get_mut(name).and_then(Value::as_object_mut) {
            each(schema);
        }
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for schema in properties.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        each(schema);
    }
}

/// Adds the standard fields to embedded objects.
fn embed(schema: &mut Map, dialect: Dialect) {
    below(schema, &mut |schema| {
        embed(schema, dialect);
        let is = |name| schema.get(name).is_some_and(|value| *value == true);
        if !is(EMBEDS) || (is(PRESERVES) && dialect == Dialect::V2) {
            return;
        }
        add_types(schema, dialect);
        let required = schema.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|there| *there == name) {
                    required.push(name.into());
                }
            }
        }
    });
}

/// Removes keywords that v2 does not have or that its readers do not understand.
fn simplify(schema: &mut Map) {
    for name in ["allOf", "anyOf", "oneOf", "not"] {
        schema.remove(name);
    }
    let nullable = schema.remove("nullable").is_some_and(|value| value == true);
    let preserves = schema.get(PRESERVES).is_some_and(|value| *value == true);
    if nullable || preserves {
        schema.remove("items");
        schema.remove("properties");
    }
    let is = |schema: &Map, of: &str| schema.get("type").is_some_and(|there| *there == of);
    let lacks_items = is(schema, "array") && !schema.contains_key("items");
    if nullable || lacks_items || (preserves && is(schema, "object")) {
        schema.remove("type");
    }
    // A nullable field is not required.
    let may_be_null = |schema: &Value| schema["nullable"] == true;
    let properties = schema.get("properties").and_then(Value::as_object);
    let optional: Vec<String> = properties
        .into_iter()
        .flatten()
        .filter(|(_, property)| may_be_null(property))
        .map(|(name, _)| name.to_string())
        .collect();
    let drops_all = schema.get("additionalProperties").is_some_and(may_be_null);
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !drops_all && !optional.iter().any(|optional| *name == *optional));
        if required.is_empty() {
            schema.remove("required");
        }
    }
    below(schema, &mut simplify);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_v2_what_may_be_anything_is_an_object_and_no_more() {
        let source = json!({"type": "object", (PRESERVES): true, "properties": {"spec": {"type": "object"}}});
        assert_eq!(schema(&source, Dialect::V2), json!({"type": "object"}));
        let properties = schema(&source, Dialect::V3)["properties"].clone();
        assert_eq!(
            properties.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["apiVersion", "kind", "metadata", "spec"]
        );
    }

    #[test]
    fn in_v2_there_is_nothing_that_its_readers_do_not_understand() {
        let source = json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object",
            "required": ["maybe", "size"], "oneOf": [{"required": ["size"]}], "properties": {
                "any": {"type": "object", (PRESERVES): true, "properties": {"x": {"type": "string"}}},
                "maybe": {"type": "object", "nullable": true, "properties": {"x": {"type": "string"}}},
                "size": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
                "list": {"type": "array", (PRESERVES): true, "items": {"type": "string"}}}}}});
        assert_eq!(
            schema(&source, Dialect::V2)["properties"]["spec"],
            json!({"type": "object", "required": ["size"], "properties": {
                "any": {(PRESERVES): true}, "maybe": {}, "size": {"x-kubernetes-int-or-string": true}, "list": {(PRESERVES): true}}})
        );
        assert_eq!(schema(&source, Dialect::V3)["properties"]["spec"], source["properties"]["spec"]);
    }

    #[test]
    fn an_object_within_an_object_has_what_every_object_has() {
        let source =
            json!({"type": "object", "properties": {"pod": {"type": "object", (EMBEDS): true, "required": ["kind"]}}});
        for dialect in [Dialect::V2, Dialect::V3] {
            let pod = &schema(&source, dialect)["properties"]["pod"];
            assert_eq!(pod["required"], json!(["kind", "apiVersion"]));
            let metadata = &pod["properties"]["metadata"];
            let reference = if dialect == Dialect::V2 { &metadata["$ref"] } else { &metadata["allOf"][0]["$ref"] };
            assert!(reference.as_str().unwrap().ends_with("ObjectMeta"), "{metadata}");
            for field in ["apiVersion", "kind", "metadata"] {
                assert!(pod["properties"][field]["description"].as_str().unwrap().len() > 10, "{pod}");
            }
        }
    }
}
