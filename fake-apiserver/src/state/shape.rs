//! Structural decoding: what decoding into Go structs and encoding again does to an object.
//!
//! Unknown fields are found and dropped, nulls vanish, and so does what is empty where the type says so; types are
//! checked, quantities take their canonical form.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use substrate::json::{Map, Value};

use super::flaw::Flaw;
use super::quantity;
use super::status::Status;
use crate::custom;
use crate::field_path::FieldPath;
use crate::go_json::word;
use crate::kinds::Kind;
use crate::kinds::schema::{self, Field, Shape, Type, TypeRef};

/// The answer to an object that cannot be decoded, or not strictly.
pub fn refusal(kind: &Kind, why: impl fmt::Display) -> Status {
    let Kind { kind, version, .. } = kind;
    Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
}

/// Decodes `object` in place. Fields that its kind does not have are dropped; their paths are given.
///
/// # Errors
/// 400 for a value of the wrong type.
pub fn decode(kind: &Kind, object: &mut Value) -> Result<Vec<String>, Status> {
    unmarshal(kind, object).map_err(|why| refusal(kind, why))
}

/// The same for a configuration that is to be applied: who sends an empty field owns it.
///
/// # Errors
/// 400 for a value of the wrong type.
pub fn decode_applied(kind: &Kind, object: &mut Value) -> Result<Vec<String>, Status> {
    walk(kind, object, true).map_err(|why| refusal(kind, why))
}

/// Drops what is empty of a decoded object, where its type says so.
pub fn drop_empty(kind: &Kind, object: &mut Value) {
    // What is decoded has the right types, and no field that its kind lacks.
    let _ = walk(kind, object, false);
}

/// The same as [`decode`], with the bare text of what is wrong.
///
/// # Errors
/// A value of the wrong type.
pub fn unmarshal(kind: &Kind, object: &mut Value) -> Result<Vec<String>, String> {
    walk(kind, object, false)
}

fn walk(kind: &Kind, object: &mut Value, keep_empty: bool) -> Result<Vec<String>, String> {
    if !object.is_object() {
        return Err(format!("json: cannot unmarshal {} into Go value of type {}", word(object), kind.kind));
    }
    let mut walk = Walk { unknown: Vec::new(), keep_empty };
    if let Some(custom) = &kind.custom {
        let meta = TypeRef::named("meta/v1.ObjectMeta").map(TypeRef::get);
        if let (Some(metadata), Some(of)) = (object.get_mut("metadata"), meta) {
            walk.fields(of, metadata, &FieldPath::OBJECT.field("metadata"))?;
        }
        custom::prune(&custom.schema, object, true, &mut String::new(), &mut walk.unknown);
        let mut of_embedded = |metadata: &mut Value, at: &FieldPath<'_>| match meta {
            Some(of) => walk.fields(of, metadata, at),
            None => Ok(()),
        };
        custom::embedded_metadata(&custom.schema, object, &FieldPath::OBJECT, &mut of_embedded)?;
    } else if let Some(of) = schema::built_in(kind) {
        walk.fields(of, object, &FieldPath::OBJECT)?;
    }
    Ok(walk.unknown)
}

/// Decodes `object` in place.
///
/// # Errors
/// 400 for a value of the wrong type, and for fields that its kind does not have.
pub fn decode_strictly(kind: &Kind, object: &mut Value) -> Result<(), Status> {
    let unknown = decode(kind, object)?;
    if unknown.is_empty() {
        return Ok(());
    }
    let fields: Vec<String> = unknown.into_iter().map(|path| Flaw::unknown(path).to_string()).collect();
    Err(refusal(kind, format!("strict decoding error: {}", fields.join(", "))))
}

/// One walk through an object.
struct Walk {
    /// The places of unknown fields, as they are found.
    unknown: Vec<String>,
    /// Whether empty fields stay that Go leaves out.
    keep_empty: bool,
}

impl Walk {
    fn fields(&mut self, of: &'static Type, value: &mut Value, at: &FieldPath<'_>) -> Result<(), String> {
        let Some(map) = value.as_object_mut() else {
            return Err(mismatch(value, of.name, at));
        };
        let mut dropped = BTreeSet::new();
        for (key, value) in map.iter_mut() {
            let at = at.field(key);
            match of.field(key) {
                Some(_) if value.is_null() => drop(dropped.insert(key.clone())),
                Some(field) => {
                    self.shape(&field.shape, value, &at)?;
                    if !self.keep_empty && is_left_out(field, value) {
                        dropped.insert(key.clone());
                    }
                }
                None => {
                    self.unknown.push(at.to_string());
                    dropped.insert(key.clone());
                }
            }
        }
        map.remove_all(&dropped);
        Ok(())
    }

    fn shape(&mut self, shape: &'static Shape, value: &mut Value, at: &FieldPath<'_>) -> Result<(), String> {
        match shape {
            Shape::Ref(of) => self.fields(of.get(), value, at),
            Shape::Custom(of) => self.fields(of, value, at),
            Shape::List(element) => self.list(element, value, at),
            Shape::Map(values) => self.map(values, value, at),
            Shape::SchemaOrBool if value.is_boolean() => Ok(()),
            Shape::SchemaOrList if value.is_array() => self.list(&schema::JSON_SCHEMA_SHAPE, value, at),
            Shape::SchemaOrStrings if value.is_array() => self.list(&Shape::String, value, at),
            Shape::SchemaOrBool | Shape::SchemaOrList | Shape::SchemaOrStrings => {
                self.fields(TypeRef::json_schema().get(), value, at)
            }
            plain => conform(plain, value, at),
        }
    }

    fn list(&mut self, element: &'static Shape, value: &mut Value, at: &FieldPath<'_>) -> Result<(), String> {
        let Some(list) = value.as_array_mut() else {
            return Err(mismatch(value, "slice", at));
        };
        for (i, value) in list.iter_mut().enumerate() {
            self.shape(element, value, &at.item(i))?;
        }
        Ok(())
    }

    fn map(&mut self, element: &'static Shape, value: &mut Value, at: &FieldPath<'_>) -> Result<(), String> {
        let Some(map) = value.as_object_mut() else {
            return Err(mismatch(value, "map", at));
        };
        for (key, value) in map.iter_mut() {
            // A null in a map of strings decodes to the empty string.
            if value.is_null() && *element == Shape::String {
                *value = String::new().into();
            }
            self.shape(element, value, &at.field(key))?;
        }
        Ok(())
    }
}

/// Whether Go leaves a field out for its value (`omitempty`): an empty list or map, or the zero of what is no pointer.
fn is_left_out(field: &Field, value: &Value) -> bool {
    if field.unset.is_some() || field.zero {
        return false;
    }
    match value {
        Value::Array(list) => list.is_empty(),
        // An empty struct is one.
        Value::Object(map) => map.is_empty() && matches!(field.shape, Shape::Map(_)),
        Value::String(text) => text.is_empty(),
        Value::Bool(is) => !is,
        Value::Number(number) => field.shape != Shape::IntOrString && number.as_i64() == Some(0),
        Value::Null => false,
    }
}

/// What has no parts.
fn conform(shape: &Shape, value: &mut Value, at: &FieldPath<'_>) -> Result<(), String> {
    let fits = match shape {
        Shape::Any => true,
        Shape::String => value.is_string(),
        Shape::Bytes => return base64(value, at),
        Shape::Boolean => value.is_boolean(),
        Shape::Int32 => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        Shape::Int64 => value.is_i64(),
        Shape::Number => value.is_number(),
        Shape::IntOrString => value.is_string() || value.is_i64(),
        Shape::Time | Shape::MicroTime => return time(shape, value, at),
        Shape::Quantity => return canonical_quantity(value, at),
        // These have forms of their own.
        Shape::Ref(_)
        | Shape::Custom(_)
        | Shape::List(_)
        | Shape::Map(_)
        | Shape::SchemaOrBool
        | Shape::SchemaOrList
        | Shape::SchemaOrStrings => true,
    };
    if fits { Ok(()) } else { Err(mismatch(value, go_type(shape), at)) }
}

/// Line ends within base64 do not count, as in Go; they are gone when it is encoded again.
fn base64(value: &mut Value, at: &FieldPath<'_>) -> Result<(), String> {
    let Some(text) = value.as_str() else { return Err(mismatch(value, go_type(&Shape::Bytes), at)) };
    let joined = text.contains(['\r', '\n']).then(|| text.replace(['\r', '\n'], ""));
    if STANDARD.decode(joined.as_deref().unwrap_or(text)).is_err() {
        return Err(format!("illegal base64 data in {at} of type []uint8"));
    }
    if let Some(joined) = joined {
        *value = joined.into();
    }
    Ok(())
}

/// A time is kept in the one form that Go writes: UTC, in whole seconds or with six digits after them.
fn time(shape: &Shape, value: &mut Value, at: &FieldPath<'_>) -> Result<(), String> {
    let Some((text, time)) = value.as_str().and_then(|text| Some((text, text.parse::<jiff::Timestamp>().ok()?))) else {
        return Err(mismatch(value, go_type(shape), at));
    };
    let micro = *shape == Shape::MicroTime;
    if text.ends_with('Z')
        && text.len() == if micro { "2006-01-02T15:04:05.000000Z" } else { "2006-01-02T15:04:05Z" }.len()
    {
        return Ok(());
    }
    let form = if micro { "%Y-%m-%dT%H:%M:%S%.6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    *value = time.strftime(form).to_string().into();
    Ok(())
}

fn canonical_quantity(value: &mut Value, at: &FieldPath<'_>) -> Result<(), String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string().into(),
        _ => return Err(mismatch(value, "resource.Quantity", at)),
    };
    match quantity::canonical(&text) {
        Some(canonical) if canonical == text && value.is_string() => {}
        Some(canonical) => *value = canonical.into(),
        None => {
            return Err(format!(
                "unmarshalerDecoder: quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$', error found in {at}: {text:?}"
            ));
        }
    }
    Ok(())
}

fn mismatch(value: &Value, go: &str, at: &FieldPath<'_>) -> String {
    format!("json: cannot unmarshal {} into Go struct field {at} of type {go}", word(value))
}

fn go_type(shape: &Shape) -> &'static str {
    match shape {
        Shape::String => "string",
        Shape::Boolean => "bool",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Number => "float64",
        Shape::Time => "v1.Time",
        Shape::MicroTime => "v1.MicroTime",
        Shape::Quantity => "resource.Quantity",
        Shape::IntOrString => "intstr.IntOrString",
        Shape::Bytes => "[]uint8",
        Shape::Any => "interface {}",
        Shape::SchemaOrBool => "v1.JSONSchemaPropsOrBool",
        Shape::SchemaOrList => "v1.JSONSchemaPropsOrArray",
        Shape::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray",
        Shape::Ref(of) => of.name(),
        Shape::Custom(_) => "object",
        Shape::List(_) => "slice",
        Shape::Map(_) => "map",
    }
}

/// Takes out of the metadata what says nothing: empty lists and maps, which Go omits when it encodes.
pub fn tidy_metadata(metadata: &mut Map) {
    metadata.retain(|name, value| match (name.as_str(), &*value) {
        ("annotations" | "labels", Value::Object(map)) => !map.is_empty(),
        ("finalizers" | "managedFields" | "ownerReferences", Value::Array(list)) => !list.is_empty(),
        ("generateName" | "namespace" | "selfLink" | "resourceVersion" | "uid", Value::String(text)) => {
            !text.is_empty()
        }
        _ => true,
    });
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;
    use crate::kinds;

    #[test]
    fn what_is_empty_stays_where_it_says_something() {
        let schema = json!({"additionalProperties": false, "properties": {
            "a": {"type": "array", "default": [], "items": {"type": "string"}, "enum": [], "nullable": false},
            "b": {"type": "boolean", "default": false}, "c": {"type": "object", "default": {}, "maxLength": 0, "description": ""}}});
        let mut definition = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
        let kind = kinds::find("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap();
        assert_eq!(decode(kind, &mut definition).unwrap(), Vec::<String>::new());
        assert_eq!(
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
            json!({"additionalProperties": false, "properties": {
                "a": {"type": "array", "default": [], "items": {"type": "string"}},
                "b": {"type": "boolean", "default": false}, "c": {"type": "object", "default": {}, "maxLength": 0}}})
        );
    }

    #[test]
    fn who_applies_an_empty_field_sends_it() {
        let kind = kinds::find("", "v1", "configmaps").unwrap();
        let sent = json!({"metadata": {"name": "a", "labels": {}}, "data": {}});
        let (mut applied, mut written) = (sent.clone(), sent.clone());
        decode_applied(kind, &mut applied).unwrap();
        assert_eq!(applied, sent);
        drop_empty(kind, &mut applied);
        decode(kind, &mut written).unwrap();
        assert_eq!((&applied, &written), (&json!({"metadata": {"name": "a"}}), &json!({"metadata": {"name": "a"}})));
    }
}
