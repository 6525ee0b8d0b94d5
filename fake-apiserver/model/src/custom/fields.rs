//! A schema as a struct of the type table, for server-side apply.

use std::sync::Arc;

use substrate::json::Text;

use super::schema::{Of, Schema};
use crate::kinds::schema::{Field, Shape, Type, TypeRef};

/// Returns the struct of an object with `schema`.
pub(super) fn fields(schema: &Schema) -> Type {
    let mut of = of(schema, schema.is_open());
    // The metadata have Kubernetes' own type, regardless of the schema.
    of.retain(|field| !matches!(&*field.name, "apiVersion" | "kind" | "metadata"));
    of.push(Field::plain(Text::new_static("apiVersion"), Shape::String));
    of.push(Field::plain(Text::new_static("kind"), Shape::String));
    of.extend(
        TypeRef::named("meta/v1.ObjectMeta").map(|meta| Field::plain(Text::new_static("metadata"), Shape::Ref(meta))),
    );
    Type::custom(of, schema.is_open())
}

/// Returns the fields of an object. `open` is inherited: all objects below one that preserves unknown fields do so, too
/// (kube-openapi `schemaconv`, `preserveUnknownFields`).
fn of(schema: &Schema, open: bool) -> Vec<Field> {
    schema
        .properties
        .iter()
        .map(|(name, schema)| {
            let mut field = Field::plain(name.into(), shape(schema, open));
            field.list_type = schema.list_type.as_deref().and_then(|of| match of {
                "map" => Some("map"),
                "set" => Some("set"),
                _ => None,
            });
            field.list_keys = schema.list_keys.iter().map(Text::from).collect();
            field.map_type = (schema.map_type.as_deref() == Some("atomic")).then_some("atomic");
            field
        })
        .collect()
}

fn shape(schema: &Schema, open: bool) -> Shape {
    let open = open || schema.is_open();
    match schema.of {
        Some(Of::Object) if !schema.properties.is_empty() => {
            Shape::Custom(Arc::new(Type::custom(of(schema, open), open)))
        }
        Some(Of::Object) => {
            Shape::Map(Box::new(schema.values.as_deref().map_or(Shape::Any, |values| shape(values, open))))
        }
        Some(Of::Array) => {
            Shape::List(Box::new(schema.items.as_deref().map_or(Shape::Any, |items| shape(items, open))))
        }
        _ => Shape::Any,
    }
}
