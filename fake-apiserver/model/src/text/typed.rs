//! Objects in Go's order: that of the fields of their structs.

use std::cmp::Ordering;

use substrate::json::{Map, Value};

use super::{string, write};
use crate::kinds::schema::{self, Field, Shape, Type, TypeRef};

/// Maximum number of fields of a struct.
const MOST: usize = 64;

/// Members of Tables, and of lists of partial metadata.
const SHOWN: &[&str] = &[
    "kind",
    "apiVersion",
    "metadata",
    "resourceVersion",
    "continue",
    "remainingItemCount",
    "columnDefinitions",
    "rows",
    "name",
    "type",
    "format",
    "description",
    "priority",
    "cells",
    "conditions",
    "status",
    "reason",
    "message",
    "object",
    "items",
];

/// Appends an object with apiVersion and kind: fields in the order of its struct, or sorted by name for custom and
/// unknown kinds.
pub fn document(value: &Value, out: &mut Vec<u8>) {
    let Some(map) = value.as_object() else { return write(value, out) };
    match (place(map), map.get("kind").and_then(Value::as_str)) {
        (Some(of), _) => fields(of.get(), map, out),
        (None, Some("Table" | "PartialObjectMetadataList")) => ranked(SHOWN, value, out),
        _ => write(value, out),
    }
}

/// Appends an object in the order of its struct, or sorted by name if the struct is unknown.
pub fn object(of: Option<TypeRef>, value: &Value, out: &mut Vec<u8>) {
    match (of, value) {
        (Some(of), Value::Object(map)) => fields(of.get(), map, out),
        _ => write(value, out),
    }
}

/// Appends `value` as the struct named `of` (`meta/v1.ListMeta`).
pub fn struct_fields(of: &str, value: &Value, out: &mut Vec<u8>) {
    object(TypeRef::named(of), value, out);
}

/// Appends `value` with the members of all its objects in the order of `ranks`, and then those that are not named
/// there. An object with apiVersion and kind has the order of its struct.
pub fn ranked(ranks: &[&str], value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Array(list) => array(list, out, |value, out| ranked(ranks, value, out)),
        Value::Object(map) => match place(map) {
            Some(of) => fields(of.get(), map, out),
            None => {
                let named = ranks.iter().filter_map(|name| Some((*name, map.get(name)?)));
                let others = map.iter().map(|(name, value)| (name.as_str(), value));
                let others = others.filter(|(name, _)| !ranks.contains(name));
                members(named.chain(others), out, |_, value, out| ranked(ranks, value, out));
            }
        },
        plain => write(plain, out),
    }
}

/// Returns the struct of an object's apiVersion and kind.
fn place(map: &Map) -> Option<TypeRef> {
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    schema::place_of_object(text("apiVersion")?, text("kind")?)
}

fn fields(of: &'static Type, map: &Map, out: &mut Vec<u8>) {
    // Index of the member at each position of the struct.
    let (mut order, mut there) = ([0u8; MOST], 0u64);
    let mut unknown = false;
    for (member, (name, _)) in map.iter().enumerate() {
        match (of.place(name).filter(|place| *place < MOST), u8::try_from(member)) {
            (Some(place), Ok(member)) => {
                order[place] = member;
                there |= 1 << place;
            }
            _ => unknown = true,
        }
    }
    out.push(b'{');
    let mut first = true;
    while there != 0 {
        let place = there.trailing_zeros() as usize;
        there &= there - 1;
        let field = &of.fields[place];
        let Some((name, value)) = map.iter().nth(order[place].into()) else { continue };
        separate(&mut first, out);
        // Names of fields need no escape.
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        within(field, value, out);
    }
    if unknown {
        // Unknown members. Stored objects have none; other documents keep them.
        let rest = map.iter().enumerate().filter(|(member, (name, _))| {
            of.place(name).is_none_or(|place| place >= MOST) || u8::try_from(*member).is_err()
        });
        for (_, (name, value)) in rest {
            separate(&mut first, out);
            string(name, out);
            out.push(b':');
            match of.field(name) {
                Some(field) => within(field, value, out),
                None => write(value, out),
            }
        }
    }
    out.push(b'}');
}

fn separate(first: &mut bool, out: &mut Vec<u8>) {
    if !std::mem::take(first) {
        out.push(b',');
    }
}

fn within(field: &'static Field, value: &Value, out: &mut Vec<u8>) {
    if field.shape == Shape::Any && field.name == "fieldsV1" {
        paths(value, out)
    } else {
        shape(&field.shape, value, out)
    }
}

fn shape(of: &'static Shape, value: &Value, out: &mut Vec<u8>) {
    match (of, value) {
        (Shape::Ref(of), Value::Object(map)) => fields(of.get(), map, out),
        (Shape::SchemaOrBool | Shape::SchemaOrList | Shape::SchemaOrStrings, Value::Object(map)) => {
            fields(TypeRef::json_schema().get(), map, out);
        }
        (Shape::SchemaOrList | Shape::SchemaOrStrings, Value::Array(list)) => {
            array(list, out, |value, out| shape(of, value, out));
        }
        (Shape::List(element), Value::Array(list)) => array(list, out, |value, out| shape(element, value, out)),
        (Shape::Map(element), Value::Object(map)) => {
            let map = map.iter().map(|(name, value)| (name.as_str(), value));
            members(map, out, |_, value, out| shape(element, value, out));
        }
        _ => write(value, out),
    }
}

fn array(list: &[Value], out: &mut Vec<u8>, mut each: impl FnMut(&Value, &mut Vec<u8>)) {
    out.push(b'[');
    let mut first = true;
    for value in list {
        separate(&mut first, out);
        each(value, out);
    }
    out.push(b']');
}

fn members<'a>(
    members: impl Iterator<Item = (&'a str, &'a Value)>,
    out: &mut Vec<u8>,
    mut each: impl FnMut(&str, &Value, &mut Vec<u8>),
) {
    out.push(b'{');
    let mut first = true;
    for (name, value) in members {
        separate(&mut first, out);
        string(name, out);
        out.push(b':');
        each(name, value, out);
    }
    out.push(b'}');
}

/// Appends a set of fields (`fieldsV1`) in the order of structured-merge-diff, in which numbers within keys and values
/// are compared as numbers.
fn paths(value: &Value, out: &mut Vec<u8>) {
    let Some(map) = value.as_object() else { return write(value, out) };
    let of_list = map.keys().filter(|name| name.starts_with("k:") || name.starts_with("v:")).count();
    let mut all: Vec<(&str, &Value)> = map.iter().map(|(name, value)| (name.as_str(), value)).collect();
    if of_list > 1 {
        all.sort_by(|(a, _), (b, _)| by_path(a, b));
    }
    members(all.into_iter(), out, |_, value, out| paths(value, out));
}

/// Compares two path elements: by bytes, but by value if they differ within a number; a prefix is smaller.
fn by_path(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let Some(at) = (0..a.len().min(b.len())).find(|i| a[*i] != b[*i]) else { return a.len().cmp(&b.len()) };
    let digits = |text: &[u8], from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let before = a[..at].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let start = at - before;
    let is_number = a[..start].ends_with(b"\":") || &a[..start] == b"v:";
    let (of_a, of_b) = (digits(a, start), digits(b, start));
    if is_number && of_a > 0 && of_b > 0 && of_a != of_b {
        return of_a.cmp(&of_b);
    }
    let ends = |text: &[u8]| text[at] != b'"';
    (ends(a), a[at]).cmp(&(ends(b), b[at]))
}
