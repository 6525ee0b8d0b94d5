//! Encoder from trees to protobuf messages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use substrate::json::{Map, Value};

use super::layout::{self, Form, Message, Slot};
use super::writer::Writer;
use super::{DecodeError, MAGIC};
use crate::kinds::schema::{Shape, TypeRef};

/// Encodes an object without its envelope. Values of a wrong type are left out: stored objects have been checked.
///
/// # Errors
/// If the type of `apiVersion` and `kind` is unknown.
pub fn encode(api_version: &str, kind: &str, object: &Value) -> Result<Bytes, DecodeError> {
    let message = layout::find(api_version, kind)
        .ok_or_else(|| DecodeError::Unregistered { kind: kind.to_owned(), api_version: api_version.to_owned() })?;
    let mut out = Writer::default();
    if let Some(fields) = object.as_object() {
        write(message, fields, &mut out);
    }
    Ok(out.finish().into())
}

/// Encodes a list: `ListMeta`, and the messages of the items.
pub fn list<'a>(metadata: &Value, items: impl Iterator<Item = &'a [u8]>) -> Bytes {
    let mut out = Writer::default();
    out.message(1, |out| {
        if let (Some(message), Some(fields)) = (layout::named("meta/v1.ListMeta"), metadata.as_object()) {
            write(message, fields, out);
        }
    });
    for item in items {
        out.bytes(2, item);
    }
    out.finish().into()
}

/// Wraps a message into its envelope (`runtime.Unknown`).
pub fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Bytes {
    let mut out = Writer::after(MAGIC, message.len() + 64);
    out.message(1, |out| {
        out.bytes(1, api_version);
        out.bytes(2, kind);
    });
    out.bytes(2, message);
    // contentEncoding and contentType, which Go always writes.
    out.bytes(3, "");
    out.bytes(4, "");
    out.finish().into()
}

/// Encodes a watch event for a stream: four bytes of length (big-endian), then a `WatchEvent` around the enveloped
/// object, as apimachinery's framer for `application/vnd.kubernetes.protobuf;stream=watch`.
pub fn watch_event(event_type: &str, object: &[u8]) -> Bytes {
    let mut event = Writer::after(&[0; 4], object.len() + 32);
    event.bytes(1, event_type);
    event.message(2, |raw| raw.bytes(1, object));
    let mut frame = BytesMut::from(Bytes::from(event.finish()));
    // Objects are far smaller than 4 GiB.
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    (&mut frame[..4]).put_u32(length);
    frame.freeze()
}

fn write(message: &Message, object: &Map, out: &mut Writer) {
    for (number, slot) in message.slots() {
        match slot {
            Slot::Field(entry) => {
                if let Some(value) = object.get(entry.name) {
                    field(&entry.form, *number, value, out);
                }
            }
            Slot::Inline(inner) => {
                if inner.has_any(object) {
                    out.message(*number, |out| write(inner, object, out));
                }
            }
        }
    }
}

fn field(form: &Form, number: u32, value: &Value, out: &mut Writer) {
    match (form, value) {
        (Form::Scalar(shape), _) => scalar(shape, number, value, out),
        (Form::Struct(of), Value::Object(fields)) => out.message(number, |out| write(layout::at(*of), fields, out)),
        (Form::List(element), Value::Array(list)) => {
            for value in list {
                field(element, number, value, out);
            }
        }
        (Form::Map(values), Value::Object(map)) => {
            for (key, value) in map {
                out.message(number, |out| {
                    out.bytes(1, key);
                    match **values {
                        // A list that is the value of a map has its own message.
                        Form::List(_) => out.message(2, |out| field(values, 1, value, out)),
                        _ => field(values, 2, value, out),
                    }
                });
            }
        }
        _ => {}
    }
}

fn scalar(shape: &Shape, number: u32, value: &Value, out: &mut Writer) {
    match (shape, value) {
        (_, Value::Null) => {}
        (Shape::Any, any) => out.message(number, |out| out.bytes(1, any.to_string())),
        (Shape::String, Value::String(text)) => out.bytes(number, text),
        (Shape::Quantity, Value::String(text)) => out.message(number, |out| out.bytes(1, text)),
        (Shape::Bytes, Value::String(text)) => {
            if let Ok(bytes) = STANDARD.decode(text) {
                out.bytes(number, bytes);
            }
        }
        (Shape::Time | Shape::MicroTime, Value::String(text)) => {
            if let Ok(time) = text.parse::<Timestamp>() {
                // A Time has whole seconds in protobuf, too.
                let nanos = if *shape == Shape::Time { 0 } else { time.subsec_nanosecond() };
                // The nanoseconds count forward, also before 1970.
                let (seconds, nanos) =
                    if nanos < 0 { (time.as_second() - 1, nanos + 1_000_000_000) } else { (time.as_second(), nanos) };
                out.message(number, |out| {
                    out.integer(1, seconds);
                    out.integer(2, nanos.into());
                });
            }
        }
        (Shape::IntOrString, Value::String(text)) => out.message(number, |out| {
            out.integer(1, 1);
            out.integer(2, 0);
            out.bytes(3, text);
        }),
        (Shape::IntOrString, Value::Number(_)) => out.message(number, |out| {
            out.integer(1, 0);
            out.integer(2, value.as_i64().unwrap_or_default());
            out.bytes(3, "");
        }),
        (Shape::SchemaOrBool | Shape::SchemaOrList | Shape::SchemaOrStrings, _) => {
            out.message(number, |out| schema_or(shape, value, out));
        }
        (Shape::Boolean, Value::Bool(is)) => out.boolean(number, *is),
        (Shape::Int32 | Shape::Int64, Value::Number(_)) => {
            if let Some(integer) = value.as_i64() {
                out.integer(number, integer);
            }
        }
        (Shape::Number, Value::Number(_)) => {
            if let Some(double) = value.as_f64() {
                out.double(number, double);
            }
        }
        _ => {}
    }
}

/// Writes one of the types that hold a JSON schema or another value.
fn schema_or(shape: &Shape, value: &Value, out: &mut Writer) {
    let is_schema_or_bool = *shape == Shape::SchemaOrBool;
    let schema = |number, fields: &Map, out: &mut Writer| {
        out.message(number, |out| write(layout::at(TypeRef::json_schema()), fields, out));
    };
    match value {
        Value::Bool(allows) => out.boolean(1, *allows),
        Value::Object(fields) if is_schema_or_bool => {
            // Go writes both: a schema implies `allows`.
            out.boolean(1, true);
            schema(2, fields, out);
        }
        Value::Object(fields) => schema(1, fields, out),
        Value::Array(list) => {
            for element in list {
                match element {
                    Value::Object(fields) => schema(2, fields, out),
                    Value::String(text) => out.bytes(2, text),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}
