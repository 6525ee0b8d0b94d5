//! The v2 document as protobuf: the messages of gnostic's `openapiv2/OpenAPIv2.proto`, which kubectl reads.
//!
//! Only the fields that these documents have are written; a test compares the two forms.

use substrate::json::{Map, Value};

use crate::wire::protobuf::Writer;

/// Encodes a document (message `Document`).
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    text(&mut out, 1, document, "swagger");
    out.message(2, |out| {
        text(out, 1, &document["info"], "title");
        text(out, 2, &document["info"], "version");
    });
    out.message(8, |out| named(out, 2, &document["paths"], path));
    out.message(9, |out| named(out, 1, &document["definitions"], schema));
    out.finish()
}

/// Writes a map as repeated `{name, value}` messages, as gnostic does.
fn named(out: &mut Writer, field: u32, map: &Value, write: impl Fn(&mut Writer, &Value)) {
    for (name, value) in map.as_object().into_iter().flatten() {
        out.message(field, |out| {
            out.bytes(1, name);
            out.message(2, |out| write(out, value));
        });
    }
}

fn text(out: &mut Writer, field: u32, of: &Value, name: &str) {
    if let Some(text) = of[name].as_str() {
        out.bytes(field, text);
    }
}

fn texts(out: &mut Writer, field: u32, list: &Value) {
    for text in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
        out.bytes(field, text);
    }
}

/// Writes `x-…` entries, whose values are YAML; JSON is YAML.
fn extensions(out: &mut Writer, field: u32, of: &Value) {
    let extensions: Map = of
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.starts_with("x-"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    named(out, field, &Value::Object(extensions), |out, value| out.bytes(2, value.to_string()));
}

/// Writes a `PathItem`.
fn path(out: &mut Writer, path: &Value) {
    for (field, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(found) = path.get(method) {
            out.message(field, |out| operation(out, found));
        }
    }
    parameters(out, 9, &path["parameters"]);
}

/// Writes an `Operation`.
fn operation(out: &mut Writer, operation: &Value) {
    texts(out, 6, &operation["produces"]);
    texts(out, 7, &operation["consumes"]);
    parameters(out, 8, &operation["parameters"]);
    out.message(9, |out| {
        named(out, 1, &operation["responses"], |out, response| {
            // ResponseValue.response, and within it SchemaItem.schema.
            out.message(1, |out| {
                text(out, 1, response, "description");
                out.message(2, |out| out.message(1, |out| schema(out, &response["schema"])));
            });
        });
    });
    extensions(out, 13, operation);
}

/// Writes `ParametersItem` messages, each with a `Parameter`.
fn parameters(out: &mut Writer, field: u32, list: &Value) {
    for parameter in list.as_array().into_iter().flatten() {
        let required = parameter["required"] == true;
        out.message(field, |out| {
            out.message(1, |out| match parameter["in"].as_str() {
                Some("body") => out.message(1, |out| {
                    text(out, 2, parameter, "name");
                    text(out, 3, parameter, "in");
                    out.boolean(4, required);
                    out.message(5, |out| schema(out, &parameter["schema"]));
                }),
                // NonBodyParameter; `type` has different numbers in query and path.
                place => {
                    let (variant, type_field) = if place == Some("path") { (4, 5) } else { (3, 6) };
                    out.message(2, |out| {
                        out.message(variant, |out| {
                            out.boolean(1, required);
                            text(out, 2, parameter, "in");
                            text(out, 4, parameter, "name");
                            text(out, type_field, parameter, "type");
                        });
                    });
                }
            });
        });
    }
}

/// Writes a `Schema`.
fn schema(out: &mut Writer, of: &Value) {
    text(out, 1, of, "$ref");
    text(out, 2, of, "format");
    text(out, 4, of, "description");
    texts(out, 19, &of["required"]);
    if let Some(values) = of.get("additionalProperties") {
        out.message(21, |out| out.message(1, |out| schema(out, values)));
    }
    if of["type"].is_string() {
        out.message(22, |out| text(out, 1, of, "type"));
    }
    if let Some(element) = of.get("items") {
        out.message(23, |out| out.message(1, |out| schema(out, element)));
    }
    if of["properties"].is_object() {
        out.message(25, |out| named(out, 1, &of["properties"], schema));
    }
    extensions(out, 31, of);
}
