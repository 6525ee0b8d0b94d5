//! Fields of an object that its kind does not declare.

use substrate::json::Value;

use super::{Topology, step};
use crate::kinds::Kind;
use crate::kinds::schema::{self, Shape, Type};

/// Returns the error for an undeclared field. `path` begins with a dot.
pub fn not_declared(path: &str) -> String {
    format!("{path}: field not declared in schema")
}

/// Returns an error for each field that the kind does not declare.
pub fn undeclared(kind: &Kind, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(of) = schema::of(kind) {
        undeclared_in(of, object, "", &mut found);
    }
    found
}

fn undeclared_in(of: &Type, value: &Value, at: &str, found: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        match of.field(key) {
            Some(field) => undeclared_below(&field.shape, Topology::of_field(field), value, &at, found),
            None => found.push(not_declared(&at)),
        }
    }
}

fn undeclared_below(shape: &Shape, topology: Topology<'_>, value: &Value, at: &str, found: &mut Vec<String>) {
    match (shape, value) {
        (Shape::Ref(of), _) => undeclared_in(of.get(), value, at, found),
        (Shape::Custom(of), _) => undeclared_in(of, value, at, found),
        (Shape::Map(values), Value::Object(map)) => {
            for (key, value) in map {
                undeclared_below(values, Topology::of_shape(values), value, &format!("{at}.{key}"), found);
            }
        }
        (Shape::List(element), Value::Array(list)) => {
            for (i, value) in list.iter().enumerate() {
                let step = match topology {
                    Topology::Keyed(..) | Topology::Set => step(&topology.element(value)),
                    _ => format!("[{i}]"),
                };
                undeclared_below(element, Topology::of_shape(element), value, &format!("{at}{step}"), found);
            }
        }
        _ => {}
    }
}
