//! Structural decoding: what decoding into Go structs and encoding again does to an object.
//!
//! Unknown fields are found and dropped, nulls vanish, types are checked, quantities take their canonical form.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::status::Status;
use super::{position, quantity};
use crate::kinds::schema::{self, Shape, Type};
use crate::kinds::{self, Kind};

/// Decodes `object` in place. Fields that its kind does not have are dropped, or refused where `strict` says so.
///
/// # Errors
/// 400 for a value of the wrong type, and for unknown fields in strict mode.
pub fn decode(kind: &'static Kind, object: &mut Value, strict: bool) -> Result<(), Status> {
    let wrong = |why: String| {
        Status::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: {why}",
            kind.kind, kind.version, kind.kind
        ))
    };
    if !object.is_object() {
        return Err(wrong(format!("json: cannot unmarshal {} into Go value of type {}", word(object), kind.kind)));
    }
    let mut walk = Walk { unknown: Vec::new(), path: String::new() };
    if let Some(of) = COMPILED.of_kind[position(kind)] {
        walk.fields(&COMPILED.types[of], object).map_err(wrong)?;
    }
    if strict && !walk.unknown.is_empty() {
        let fields: Vec<String> = walk.unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
        return Err(wrong(format!("strict decoding error: {}", fields.join(", "))));
    }
    Ok(())
}

/// The table of types with every reference resolved, so that a walk looks nothing up by a type's name.
struct Compiled {
    types: Vec<Resolved>,
    of_kind: Vec<Option<usize>>,
}

struct Resolved {
    name: &'static str,
    /// In the order of their names.
    fields: Vec<(&'static str, Form)>,
}

/// A [`Shape`] with resolved references.
#[derive(PartialEq)]
enum Form {
    Plain(&'static Shape),
    Struct(usize),
    List(Box<Form>),
    Map(Box<Form>),
}

static COMPILED: LazyLock<Compiled> = LazyLock::new(|| {
    let names: BTreeMap<&str, usize> = schema::types().enumerate().map(|(i, of)| (of.name, i)).collect();
    fn form(names: &BTreeMap<&str, usize>, shape: &'static Shape) -> Form {
        match shape {
            Shape::Ref(name) => names.get(name).map_or(Form::Plain(&Shape::Any), |i| Form::Struct(*i)),
            Shape::List(element) => Form::List(Box::new(form(names, element))),
            Shape::Map(element) => Form::Map(Box::new(form(names, element))),
            plain => Form::Plain(plain),
        }
    }
    let resolve = |of: &'static Type| {
        let mut fields: Vec<_> = of.fields.iter().map(|f| (f.name, form(&names, &f.shape))).collect();
        fields.sort_by_key(|(name, _)| *name);
        Resolved { name: of.name, fields }
    };
    Compiled {
        types: schema::types().map(resolve).collect(),
        of_kind: kinds::all().iter().map(|kind| names.get(schema::of(kind)?.name).copied()).collect(),
    }
});

impl Resolved {
    fn field(&self, name: &str) -> Option<&Form> {
        let i = self.fields.binary_search_by_key(&name, |(field, _)| *field).ok()?;
        Some(&self.fields[i].1)
    }
}

struct Walk {
    unknown: Vec<String>,
    path: String,
}

impl Walk {
    fn fields(&mut self, of: &'static Resolved, value: &mut Value) -> Result<(), String> {
        let Some(map) = value.as_object_mut() else {
            return Err(self.mismatch(value, of.name));
        };
        let length = self.path.len();
        let mut dropped = Vec::new();
        for (key, value) in map.iter_mut() {
            if value.is_null() {
                dropped.push(key.clone());
                continue;
            }
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(key);
            match of.field(key) {
                Some(form) => self.form(form, value)?,
                None => {
                    self.unknown.push(self.path.clone());
                    dropped.push(key.clone());
                }
            }
            self.path.truncate(length);
        }
        for key in dropped {
            map.remove(&key);
        }
        Ok(())
    }

    fn form(&mut self, form: &'static Form, value: &mut Value) -> Result<(), String> {
        match form {
            Form::Plain(shape) => self.plain(shape, value),
            Form::Struct(of) => self.fields(&COMPILED.types[*of], value),
            Form::List(element) => self.list(element, value),
            Form::Map(element) => self.map(element, value),
        }
    }

    fn plain(&self, shape: &Shape, value: &mut Value) -> Result<(), String> {
        let fits = match shape {
            Shape::Any => true,
            Shape::String => value.is_string(),
            Shape::Bytes => return self.base64(value),
            Shape::Boolean => value.is_boolean(),
            Shape::Int32 => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            Shape::Int64 => value.is_i64(),
            Shape::Number => value.is_number(),
            Shape::IntOrString => value.is_string() || value.is_i64(),
            Shape::Time | Shape::MicroTime => match value.as_str() {
                Some(text) => text.parse::<jiff::Timestamp>().is_ok(),
                None => false,
            },
            Shape::Quantity => return self.quantity(value),
            // These have forms of their own.
            Shape::Ref(_) | Shape::List(_) | Shape::Map(_) => true,
        };
        if fits { Ok(()) } else { Err(self.mismatch(value, go_type(shape))) }
    }

    /// Line ends within base64 do not count, as in Go; they are gone when it is encoded again.
    fn base64(&self, value: &mut Value) -> Result<(), String> {
        let Some(text) = value.as_str() else { return Err(self.mismatch(value, go_type(&Shape::Bytes))) };
        let joined = text.contains(['\r', '\n']).then(|| text.replace(['\r', '\n'], ""));
        if STANDARD.decode(joined.as_deref().unwrap_or(text)).is_err() {
            return Err(format!("illegal base64 data in {} of type []uint8", self.path));
        }
        if let Some(joined) = joined {
            *value = joined.into();
        }
        Ok(())
    }

    fn quantity(&self, value: &mut Value) -> Result<(), String> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return Err(self.mismatch(value, "resource.Quantity")),
        };
        match quantity::canonical(&text) {
            Some(canonical) if canonical == text && value.is_string() => {}
            Some(canonical) => *value = canonical.into(),
            None => {
                return Err(format!(
                    "unmarshalerDecoder: quantities must match the regular expression \
                     '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$', error found in {}: {text:?}",
                    self.path
                ));
            }
        }
        Ok(())
    }

    fn list(&mut self, element: &'static Form, value: &mut Value) -> Result<(), String> {
        let Some(list) = value.as_array_mut() else {
            return Err(self.mismatch(value, "slice"));
        };
        let length = self.path.len();
        for (i, value) in list.iter_mut().enumerate() {
            // Writing into a string cannot fail.
            let _ = write!(self.path, "[{i}]");
            self.form(element, value)?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn map(&mut self, element: &'static Form, value: &mut Value) -> Result<(), String> {
        let Some(map) = value.as_object_mut() else {
            return Err(self.mismatch(value, "map"));
        };
        let length = self.path.len();
        for (key, value) in map.iter_mut() {
            self.path.push('.');
            self.path.push_str(key);
            // A null in a map of strings decodes to the empty string.
            if value.is_null() && *element == Form::Plain(&Shape::String) {
                *value = String::new().into();
            }
            self.form(element, value)?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn mismatch(&self, value: &Value, go: &str) -> String {
        format!("json: cannot unmarshal {} into Go struct field {} of type {go}", word(value), self.path)
    }
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
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
        Shape::Ref(name) => name,
        Shape::List(_) => "slice",
        Shape::Map(_) => "map",
    }
}

/// Takes out of the metadata what says nothing: empty lists and maps, which Go omits when it encodes.
pub fn tidy_metadata(metadata: &mut Map<String, Value>) {
    const OMITTED: &[&str] = &["annotations", "finalizers", "labels", "managedFields", "ownerReferences"];
    for field in OMITTED {
        let empty = match metadata.get(*field) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            _ => false,
        };
        if empty {
            metadata.remove(*field);
        }
    }
    for field in ["generateName", "namespace", "selfLink", "resourceVersion", "uid"] {
        if metadata.get(field).and_then(Value::as_str) == Some("") {
            metadata.remove(field);
        }
    }
}
