//! Decoder from protobuf messages to the trees that Go's JSON encoder would write for the decoded struct.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use substrate::json::{Map, Value, json};

use super::MAGIC;
use super::layout::{self, Entry, Form, Message, Slot};
use super::reader::{Reader, Wire};
use crate::go_json;
use crate::kinds::schema::{Shape, TypeRef};

/// Maximum nesting of messages; no type here comes close.
const MAX_DEPTH: usize = 64;

/// Reason why bytes are not an object; its text is the message of the Status.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum DecodeError {
    /// provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]
    Prefix,
    /// no kind "{kind}" is registered for version "{api_version}"
    Unregistered {
        /// Kind in the envelope.
        kind: String,
        /// apiVersion in the envelope.
        api_version: String,
    },
    /// content encoding "{0}" is not understood
    Encoded(String),
    /// unexpected end of the message
    End,
    /// an integer has more than 64 bits
    Overflow,
    /// {0} is not a field tag
    Tag(u64),
    /// messages are nested more than 64 deep
    Depth,
    /// {path}: {why}
    Field {
        /// JSON path of the field.
        path: String,
        /// The error.
        why: &'static str,
    },
}

/// Decodes an enveloped object. An envelope without a type holds an object of the `expected` apiVersion and kind.
///
/// # Errors
/// If the bytes are not an enveloped object of a known type.
pub fn decode(bytes: &[u8], expected: (&str, &str)) -> Result<Value, DecodeError> {
    let mut unknown = Reader(bytes.strip_prefix(MAGIC).ok_or(DecodeError::Prefix)?);
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    while let Some((number, wire)) = unknown.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => {
                let mut type_meta = Reader(bytes);
                while let Some((number, wire)) = type_meta.next()? {
                    match (number, wire) {
                        (1, Wire::Bytes(bytes)) => text(bytes)?.clone_into(&mut api_version),
                        (2, Wire::Bytes(bytes)) => text(bytes)?.clone_into(&mut kind),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            (3, Wire::Bytes(bytes)) if !bytes.is_empty() => {
                return Err(DecodeError::Encoded(String::from_utf8_lossy(bytes).into_owned()));
            }
            _ => {}
        }
    }
    if api_version.is_empty() {
        expected.0.clone_into(&mut api_version);
    }
    if kind.is_empty() {
        expected.1.clone_into(&mut kind);
    }
    let Some(message) = layout::find(&api_version, &kind) else {
        return Err(DecodeError::Unregistered { kind, api_version });
    };
    let mut object = Map::new();
    read(message, raw, &mut object, 0)?;
    if kind == "StatefulSet" {
        name_templates(&mut object);
    }
    object.insert("apiVersion", api_version.into());
    object.insert("kind", kind.into());
    Ok(Value::Object(object))
}

/// Adds apiVersion and kind to the claim templates of a StatefulSet, which have them in JSON. Protobuf messages do not
/// name their own type.
fn name_templates(stateful_set: &mut Map) {
    let templates = stateful_set.get_mut("spec").and_then(|spec| spec.get_mut("volumeClaimTemplates"));
    for template in templates.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(claim) = template.as_object_mut() {
            claim.insert("apiVersion", "v1".into());
            claim.insert("kind", "PersistentVolumeClaim".into());
        }
    }
}

fn text(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|_| bad("not UTF-8"))
}

fn bad(why: &'static str) -> DecodeError {
    DecodeError::Field { path: String::new(), why }
}

/// Adds the name of a struct's field to the path of an error.
fn within(name: &str, error: DecodeError) -> DecodeError {
    match error {
        DecodeError::Field { path, why } if path.is_empty() => DecodeError::Field { path: name.to_owned(), why },
        DecodeError::Field { path, why } => DecodeError::Field { path: format!("{name}.{path}"), why },
        other => other,
    }
}

/// Reads a message into an object. Several parts of one message are merged, as in Go.
fn read(message: &'static Message, bytes: &[u8], object: &mut Map, depth: usize) -> Result<(), DecodeError> {
    if depth > MAX_DEPTH {
        return Err(DecodeError::Depth);
    }
    let mut reader = Reader(bytes);
    let mut maps = Maps::new();
    while let Some((number, wire)) = reader.next()? {
        match (message.slot(number), wire) {
            // A field of a newer version.
            (None, _) => {}
            (Some(Slot::Inline(inner)), Wire::Bytes(bytes)) => read(inner, bytes, object, depth + 1)?,
            (Some(Slot::Inline(_)), _) => return Err(bad("an embedded message has the wrong wire type")),
            (Some(Slot::Field(entry)), wire) => {
                field(entry, wire, object, &mut maps, depth).map_err(|error| within(entry.name, error))?;
            }
        }
    }
    for (name, members) in maps {
        if let Value::Object(map) = object.entry(name).or_insert_with(|| json!({})) {
            map.append(&mut members.into_iter().collect());
        }
    }
    Ok(())
}

/// Members of a message's maps, which come in any order.
type Maps = BTreeMap<&'static str, Vec<(String, Value)>>;

fn field(
    entry: &'static Entry,
    wire: Wire<'_>,
    object: &mut Map,
    maps: &mut Maps,
    depth: usize,
) -> Result<(), DecodeError> {
    match &entry.form {
        Form::Scalar(shape) => match scalar(shape, wire, depth)? {
            Some(value) if entry.zero || !is_zero(shape, &value) => {
                object.insert(entry.name, value);
            }
            // The last value is used.
            _ => {
                object.remove(entry.name);
            }
        },
        Form::Struct(of) => {
            let Wire::Bytes(bytes) = wire else { return Err(bad("wrong wire type")) };
            let slot = object.entry(entry.name).or_insert_with(|| json!({}));
            if let Value::Object(inner) = slot {
                read(layout::at(*of), bytes, inner, depth + 1)?;
            }
        }
        Form::List(element) => {
            let slot = object.entry(entry.name).or_insert_with(|| json!([]));
            if let Value::Array(list) = slot {
                elements(element, wire, list, depth)?;
            }
        }
        Form::Map(values) => {
            let Wire::Bytes(bytes) = wire else { return Err(bad("wrong wire type")) };
            maps.entry(entry.name).or_default().push(pair(values, bytes, depth)?);
        }
    }
    Ok(())
}

/// Reads one element of a list, or several packed numbers.
fn elements(form: &'static Form, wire: Wire<'_>, list: &mut Vec<Value>, depth: usize) -> Result<(), DecodeError> {
    match (form, wire) {
        (Form::Scalar(shape @ (Shape::Int32 | Shape::Int64 | Shape::Boolean)), Wire::Bytes(packed)) => {
            let mut packed = Reader(packed);
            while !packed.0.is_empty() {
                let number = Wire::Varint(packed.varint()?);
                list.extend(scalar(shape, number, depth)?);
            }
        }
        _ => list.push(one(form, wire, depth)?),
    }
    Ok(())
}

/// Reads a single value: an element of a list or of a map.
fn one(form: &'static Form, wire: Wire<'_>, depth: usize) -> Result<Value, DecodeError> {
    match (form, wire) {
        (Form::Scalar(shape), _) => Ok(scalar(shape, wire, depth)?.unwrap_or_default()),
        (Form::Struct(of), Wire::Bytes(bytes)) => {
            let mut object = Map::new();
            read(layout::at(*of), bytes, &mut object, depth + 1)?;
            Ok(Value::Object(object))
        }
        // A list that is the value of a map has its own message.
        (Form::List(element), Wire::Bytes(bytes)) => {
            let mut list = Vec::new();
            let mut reader = Reader(bytes);
            while let Some((number, wire)) = reader.next()? {
                if number == 1 {
                    elements(element, wire, &mut list, depth)?;
                }
            }
            Ok(Value::Array(list))
        }
        _ => Err(bad("wrong wire type")),
    }
}

/// Reads an entry of a map: key 1, value 2; a missing one is its zero value.
fn pair(values: &'static Form, bytes: &[u8], depth: usize) -> Result<(String, Value), DecodeError> {
    let (mut key, mut value) = (String::new(), None);
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => key = go_json::lossy(bytes).into_owned(),
            (2, wire) => value = Some(one(values, wire, depth)?),
            _ => {}
        }
    }
    let value = match (value, values) {
        (Some(value), _) => value,
        (None, Form::Scalar(_)) => one(values, Wire::Bytes(&[]), depth)?,
        (None, Form::List(_)) => json!([]),
        (None, _) => json!({}),
    };
    Ok((key, value))
}

/// Reads a scalar; `None` for JSON's null.
fn scalar(shape: &Shape, wire: Wire<'_>, depth: usize) -> Result<Option<Value>, DecodeError> {
    Ok(Some(match (shape, wire) {
        // Go keeps invalid bytes and replaces them in JSON.
        (Shape::String, Wire::Bytes(bytes)) => go_json::lossy(bytes).as_ref().into(),
        (Shape::Bytes, Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Shape::Boolean, Wire::Varint(number)) => (number != 0).into(),
        // Go truncates an int32.
        (Shape::Int32, Wire::Varint(number)) => (number as i32).into(),
        (Shape::Int64, Wire::Varint(number)) => (number as i64).into(),
        (Shape::Number, Wire::Fixed64(bits)) => f64::from_bits(bits).into(),
        (Shape::Time | Shape::MicroTime, Wire::Bytes(bytes)) => {
            let (seconds, nanos, _) = three(bytes)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let micro = *shape == Shape::MicroTime;
            let nanos = if micro { nanos as i32 / 1000 * 1000 } else { 0 };
            let time = Timestamp::new(seconds as i64, nanos).map_err(|_| bad("no time that can be written"))?;
            if micro { time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into() } else { time.to_string().into() }
        }
        (Shape::Quantity, Wire::Bytes(bytes)) => match raw_text(bytes)? {
            "" => "0".into(),
            quantity => quantity.into(),
        },
        (Shape::IntOrString, Wire::Bytes(bytes)) => match three(bytes)? {
            (0, number, _) => (number as i32).into(),
            (_, _, text) => text.into(),
        },
        (Shape::Any, Wire::Bytes(bytes)) => match raw_text(bytes)? {
            "" => return Ok(None),
            raw => match serde_json::from_str(raw).map_err(|_| bad("not JSON"))? {
                Value::Null => return Ok(None),
                value => value,
            },
        },
        (Shape::SchemaOrBool | Shape::SchemaOrList | Shape::SchemaOrStrings, Wire::Bytes(bytes)) => {
            schema_or(shape, bytes, depth)?
        }
        _ => return Err(bad("wrong wire type")),
    }))
}

/// Reads one of the types that hold a JSON schema or another value. The schema is field 1 or, beside the boolean, 2.
fn schema_or(shape: &Shape, bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let mut other = if *shape == Shape::SchemaOrBool { false.into() } else { json!([]) };
    let mut found = None;
    let mut reader = Reader(bytes);
    while let Some(field) = reader.next()? {
        let schema = |bytes| {
            let mut schema = Map::new();
            read(layout::at(TypeRef::json_schema()), bytes, &mut schema, depth + 1)?;
            Ok(Value::Object(schema))
        };
        match (shape, field) {
            (Shape::SchemaOrBool, (1, Wire::Varint(allows))) => other = (allows != 0).into(),
            (Shape::SchemaOrBool, (2, Wire::Bytes(bytes))) => found = Some(schema(bytes)?),
            (Shape::SchemaOrList | Shape::SchemaOrStrings, (1, Wire::Bytes(bytes))) => found = Some(schema(bytes)?),
            (_, (2, Wire::Bytes(bytes))) => {
                let element =
                    if *shape == Shape::SchemaOrList { schema(bytes)? } else { go_json::lossy(bytes).as_ref().into() };
                if let Value::Array(list) = &mut other {
                    list.push(element);
                }
            }
            _ => {}
        }
    }
    Ok(found.unwrap_or(other))
}

/// Reads fields 1 and 2 as numbers and 3 as a string: times and IntOrString.
fn three(bytes: &[u8]) -> Result<(u64, u64, &str), DecodeError> {
    let (mut first, mut second, mut third) = (0, 0, "");
    let mut reader = Reader(bytes);
    while let Some(field) = reader.next()? {
        match field {
            (1, Wire::Varint(number)) => first = number,
            (2, Wire::Varint(number)) => second = number,
            (3, Wire::Bytes(bytes)) => third = text(bytes)?,
            _ => {}
        }
    }
    Ok((first, second, third))
}

/// Reads field 1 as a string: quantities and raw JSON.
fn raw_text(bytes: &[u8]) -> Result<&str, DecodeError> {
    let mut found = "";
    let mut reader = Reader(bytes);
    while let Some(field) = reader.next()? {
        if let (1, Wire::Bytes(bytes)) = field {
            found = text(bytes)?;
        }
    }
    Ok(found)
}

/// Returns true if `omitempty` omits a value. Go structs, including quantities, are never omitted.
fn is_zero(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::Quantity | Shape::IntOrString, _) => false,
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Number(number)) => number.as_f64() == Some(0.0),
        (_, Value::Bool(is)) => !is,
        _ => false,
    }
}
