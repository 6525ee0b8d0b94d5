//! A schema as a struct of the table of types: what server-side apply owns by itself, and what as a whole.

use std::sync::Arc;

use substrate::json::Text;

use super::schema::{Of, Schema};
use crate::kinds::schema::{Field, Shape, Type, TypeRef};

/// The struct of an object with `schema`.
pub(super) fn fields(schema: &Schema) -> Type {
    let mut of = of(schema);
    // The metadata is Kubernetes' own, whatever the schema says of it.
    of.retain(|field| !matches!(&*field.name, "apiVersion" | "kind" | "metadata"));
    of.push(Field::plain(Text::new_static("apiVersion"), Shape::String));
    of.push(Field::plain(Text::new_static("kind"), Shape::String));
    of.extend(
        TypeRef::named("meta/v1.ObjectMeta").map(|meta| Field::plain(Text::new_static("metadata"), Shape::Ref(meta))),
    );
    Type::custom(of)
}

fn of(schema: &Schema) -> Vec<Field> {
    schema
        .properties
        .iter()
        .map(|(name, schema)| {
            let mut field = Field::plain(name.into(), shape(schema));
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

fn shape(schema: &Schema) -> Shape {
    match schema.of {
        Some(Of::Object) if !schema.properties.is_empty() => Shape::Custom(Arc::new(Type::custom(of(schema)))),
        Some(Of::Object) => match &schema.values {
            Some(values) => Shape::Map(Box::new(shape(values))),
            None => Shape::Map(Box::new(Shape::Any)),
        },
        Some(Of::Array) => Shape::List(Box::new(schema.items.as_deref().map_or(Shape::Any, shape))),
        _ => Shape::Any,
    }
}
