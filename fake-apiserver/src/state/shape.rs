//! Structural decoding: the effect of decoding an object into Go structs and encoding it again.
//!
//! Unknown fields are reported and dropped. Nulls and empty values are dropped if the type says so. Types are checked,
//! and quantities get their canonical form.

use std::collections::BTreeSet;
use std::fmt;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use substrate::json::{Map, Text, Value};

use super::flaw::Flaw;
use super::quantity;
use super::status::Status;
use crate::custom;
use crate::field_path::FieldPath;
use crate::go_json::word;
use crate::go_time;
use crate::kinds::Kind;
use crate::kinds::schema::{self, Field, Shape, Type, TypeRef};

/// A value of the wrong type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistyped {
    /// Its path, such as `spec.containers[0].image`; empty for the object itself.
    pub field: String,
    /// The error, in the words of Go's decoder.
    pub message: String,
}

impl fmt::Display for Mistyped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The message of a decoder that does not know its position in the object.
struct Words(String);

impl Words {
    fn at(self, place: &FieldPath<'_>) -> Mistyped {
        Mistyped { field: place.to_string(), message: self.0 }
    }
}

/// Returns the answer to an object that cannot be decoded, or not strictly.
pub fn refusal(kind: &Kind, why: impl fmt::Display) -> Status {
    let Kind { kind, version, .. } = kind;
    Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
}

/// Decodes `object` in place. Drops unknown fields and returns their paths.
///
/// # Errors
/// 400 for a value of the wrong type.
pub fn decode(kind: &Kind, object: &mut Value) -> Result<Vec<String>, Status> {
    unmarshal(kind, object).map_err(|why| refusal(kind, why))
}

/// Decodes a configuration that is to be applied. Empty fields stay, because the client owns the fields that it sends.
///
/// # Errors
/// 400 for a value of the wrong type.
pub fn decode_applied(kind: &Kind, object: &mut Value) -> Result<Vec<String>, Status> {
    walk(kind, object, true).map_err(|why| refusal(kind, why))
}

/// Decodes a posted object that is not stored: options, bindings, reviews. It is of the `expected` apiVersion and kind
/// if it does not name its own.
///
/// # Errors
/// 400 for a value of the wrong type.
pub fn decode_posted(expected: (&str, &str), posted: &mut Value) -> Result<(), Status> {
    let field_value = |field: &str| posted.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (api_version, kind) =
        (field_value("apiVersion").unwrap_or(expected.0), field_value("kind").unwrap_or(expected.1));
    let Some(of) = schema::place_of_object(api_version, kind).filter(|_| !posted.is_null()) else { return Ok(()) };
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let head = match kind {
        // Options are decoded apart from the object.
        "DeleteOptions" => String::new(),
        _ => format!("{kind} in version \"{version}\" cannot be handled as a {kind}: "),
    };
    let mut walk = Walk { unknown: Vec::new(), keep_empty: true, holder: "" };
    let decoded = if posted.is_object() {
        walk.fields(of.get(), posted, &FieldPath::OBJECT)
    } else {
        Err(nowhere(posted, struct_of(of.get())).at(&FieldPath::OBJECT))
    };
    decoded.map_err(|why| Status::bad_request(format!("{head}{why}")))
}

/// Drops empty fields of a decoded object, if their type says so.
pub fn drop_empty(kind: &Kind, object: &mut Value) {
    // A decoded object has the right types and no unknown fields.
    let _ = walk(kind, object, false);
}

/// Decodes like [`decode`], but returns the bare error.
///
/// # Errors
/// A value of the wrong type.
pub fn unmarshal(kind: &Kind, object: &mut Value) -> Result<Vec<String>, Mistyped> {
    walk(kind, object, false)
}

fn walk(kind: &Kind, object: &mut Value, keep_empty: bool) -> Result<Vec<String>, Mistyped> {
    if !object.is_object() {
        return Err(nowhere(object, &format!("{}.{}", kind.version, kind.kind)).at(&FieldPath::OBJECT));
    }
    let mut walk = Walk { unknown: Vec::new(), keep_empty, holder: kind.kind };
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
/// 400 for a value of the wrong type and for unknown fields.
pub fn decode_strictly(kind: &Kind, object: &mut Value) -> Result<(), Status> {
    let unknown = decode(kind, object)?;
    if unknown.is_empty() {
        return Ok(());
    }
    let fields: Vec<String> = unknown.into_iter().map(|path| Flaw::unknown(path).to_string()).collect();
    Err(refusal(kind, format!("strict decoding error: {}", fields.join(", "))))
}

/// State of one walk through an object.
struct Walk {
    /// Paths of unknown fields, in order.
    unknown: Vec<String>,
    /// If set, keeps empty fields that Go omits.
    keep_empty: bool,
    /// Go struct that has the current field.
    holder: &'static str,
}

impl Walk {
    fn fields(&mut self, of: &'static Type, value: &mut Value, at: &FieldPath<'_>) -> Result<(), Mistyped> {
        let Some(map) = value.as_object_mut() else {
            return Err(self.mismatch(value, struct_of(of), at));
        };
        // A struct of a custom kind has no name, and its values are checked by its schema.
        let outer = self.holder;
        self.holder = name_of(of).unwrap_or(outer);
        let mut dropped = BTreeSet::new();
        for (key, value) in map.iter_mut() {
            let at = at.field(key);
            match of.field(key) {
                Some(_) if value.is_null() => drop(dropped.insert(key.clone())),
                Some(field) => {
                    self.shape(Go { shape: &field.shape, name: field.go }, value, &at)?;
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
        self.holder = outer;
        Ok(())
    }

    fn shape(&mut self, of: Go, value: &mut Value, at: &FieldPath<'_>) -> Result<(), Mistyped> {
        match of.shape {
            Shape::Ref(of) => self.fields(of.get(), value, at),
            Shape::Custom(of) => self.fields(of, value, at),
            Shape::List(element) => self.list(of, element, value, at),
            Shape::Map(values) => self.map(of, values, value, at),
            Shape::SchemaOrBool if value.is_boolean() => Ok(()),
            Shape::SchemaOrBool if !value.is_object() => {
                Err(Words("boolean or JSON schema expected".to_owned()).at(at))
            }
            Shape::SchemaOrList if value.is_array() => self.list(of, &schema::JSON_SCHEMA_SHAPE, value, at),
            Shape::SchemaOrStrings if value.is_array() => self.list(of, &Shape::String, value, at),
            Shape::SchemaOrBool | Shape::SchemaOrList | Shape::SchemaOrStrings => {
                self.fields(TypeRef::json_schema().get(), value, at)
            }
            _ => self.conform(of, value, at),
        }
    }

    fn list(&mut self, of: Go, element: &'static Shape, value: &mut Value, at: &FieldPath<'_>) -> Result<(), Mistyped> {
        let Some(list) = value.as_array_mut() else {
            return Err(self.mismatch(value, of.to_string(), at));
        };
        for (i, value) in list.iter_mut().enumerate() {
            self.shape(of.element(element), value, &at.item(i))?;
        }
        Ok(())
    }

    fn map(&mut self, of: Go, element: &'static Shape, value: &mut Value, at: &FieldPath<'_>) -> Result<(), Mistyped> {
        let Some(map) = value.as_object_mut() else {
            return Err(self.mismatch(value, of.to_string(), at));
        };
        for (key, value) in map.iter_mut() {
            // A null in a map of strings decodes to the empty string.
            if value.is_null() && *element == Shape::String {
                *value = String::new().into();
            }
            self.shape(of.element(element), value, &at.key(key))?;
        }
        Ok(())
    }

    /// Checks a scalar value.
    fn conform(&self, of: Go, value: &mut Value, at: &FieldPath<'_>) -> Result<(), Mistyped> {
        let fits = match of.shape {
            Shape::Any => true,
            Shape::String => value.is_string(),
            Shape::Bytes if value.is_string() => return base64(value).map_err(|why| why.at(at)),
            Shape::Bytes => false,
            Shape::Boolean => value.is_boolean(),
            Shape::Int32 => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            Shape::Int64 => value.is_i64(),
            Shape::Number => value.is_number(),
            Shape::IntOrString if value.is_string() => true,
            // This type decodes itself and does not know its position.
            Shape::IntOrString => {
                let fits = value.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
                return if fits { Ok(()) } else { Err(nowhere(value, "int32").at(at)) };
            }
            Shape::Time | Shape::MicroTime => return time(of.shape, value).map_err(|why| why.at(at)),
            Shape::Quantity => return canonical_quantity(value).map_err(|why| why.at(at)),
            // These are checked elsewhere.
            Shape::Ref(_)
            | Shape::Custom(_)
            | Shape::List(_)
            | Shape::Map(_)
            | Shape::SchemaOrBool
            | Shape::SchemaOrList
            | Shape::SchemaOrStrings => true,
        };
        if fits { Ok(()) } else { Err(self.mismatch(value, of.to_string(), at)) }
    }

    fn mismatch(&self, value: &Value, go: impl fmt::Display, at: &FieldPath<'_>) -> Mistyped {
        let (word, holder, path) = (shown(value, go.to_string().as_str()), self.holder, at.fields());
        Words(format!("json: cannot unmarshal {word} into Go struct field {holder}.{path} of type {go}")).at(at)
    }
}

/// A type with its Go name.
#[derive(Clone, Copy)]
struct Go {
    shape: &'static Shape,
    /// The name, if the shape alone does not give it.
    name: Option<&'static str>,
}

impl Go {
    /// Returns the type of the elements of a list or of the values of a map.
    fn element(self, shape: &'static Shape) -> Self {
        let behind = |name: &'static str| match name.strip_prefix("[]") {
            Some(element) => Some(element),
            None => name.strip_prefix("map[").and_then(|rest| rest.split_once(']')).map(|(_, values)| values),
        };
        // Go names the type behind a pointer.
        Self { shape, name: self.name.and_then(behind).map(|name| name.trim_start_matches('*')) }
    }
}

impl fmt::Display for Go {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => f.write_str(name),
            None => f.write_str(&self.shape.go_type()),
        }
    }
}

/// Returns the name of a struct without its package.
fn name_of(of: &Type) -> Option<&'static str> {
    of.name.rsplit('.').next().filter(|name| !name.is_empty())
}

/// Returns the name of a struct with its package (`v1.PodSpec`).
fn struct_of(of: &Type) -> &'static str {
    of.name.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("map[string]interface {}")
}

/// Names a value as Go's decoder does: a number that does not fit an integer is printed.
fn shown(value: &Value, go: &str) -> String {
    match value {
        Value::Number(number) if go.starts_with("int") && go != "intstr.IntOrString" => format!("number {number}"),
        other => word(other).to_owned(),
    }
}

/// Returns the error of a type that decodes itself.
fn nowhere(value: &Value, go: &str) -> Words {
    Words(format!("json: cannot unmarshal {} into Go value of type {go}", shown(value, go)))
}

/// Returns true if Go omits a field because of its value (`omitempty`): an empty list or map, or the zero of a type
/// other than a pointer.
fn is_left_out(field: &Field, value: &Value) -> bool {
    if field.unset.is_some() || field.zero {
        return false;
    }
    match value {
        Value::Array(list) => list.is_empty(),
        // An empty struct is not omitted.
        Value::Object(map) => map.is_empty() && matches!(field.shape, Shape::Map(_)),
        Value::String(text) => text.is_empty(),
        Value::Bool(is) => !is,
        Value::Number(number) => field.shape != Shape::IntOrString && number.as_i64() == Some(0),
        Value::Null => false,
    }
}

/// Checks base64. Line ends are ignored and removed, as in Go.
fn base64(value: &mut Value) -> Result<(), Words> {
    let text = value.as_str().unwrap_or_default();
    let joined = text.contains(['\r', '\n']).then(|| text.replace(['\r', '\n'], ""));
    let text = joined.as_deref().unwrap_or(text);
    if let Err(error) = STANDARD.decode(text) {
        let at = match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol { offset: at, .. } => at,
            // The last group is incomplete.
            _ => text.len() / 4 * 4,
        };
        return Err(Words(format!("illegal base64 data at input byte {at}")));
    }
    if let Some(joined) = joined {
        *value = joined.into();
    }
    Ok(())
}

/// Converts a time to Go's output format: UTC, in whole seconds or with six decimals.
fn time(shape: &Shape, value: &mut Value) -> Result<(), Words> {
    let micro = *shape == Shape::MicroTime;
    let Some(text) = value.as_str() else { return Err(nowhere(value, "string")) };
    let Ok(time) = text.parse::<jiff::Timestamp>() else { return Err(Words(go_time::refusal(text, micro))) };
    if text.ends_with('Z')
        && text.len() == if micro { "2006-01-02T15:04:05.000000Z" } else { "2006-01-02T15:04:05Z" }.len()
    {
        return Ok(());
    }
    let form = if micro { "%Y-%m-%dT%H:%M:%S%.6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    *value = time.strftime(form).to_string().into();
    Ok(())
}

fn canonical_quantity(value: &mut Value) -> Result<(), Words> {
    let text = match &*value {
        Value::String(text) => text.clone(),
        // Go's Quantity parses the text of any JSON value.
        other => Text::from(other.to_string()),
    };
    match quantity::canonical(&text) {
        Some(canonical) if canonical == text && value.is_string() => Ok(()),
        Some(canonical) => {
            *value = canonical.into();
            Ok(())
        }
        None => Err(Words(quantity::refusal(&text).to_owned())),
    }
}

/// Removes empty lists and maps from the metadata, which Go omits when it encodes.
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
    fn meaningful_empty_values_are_kept() {
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
    fn an_apply_keeps_empty_fields() {
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
