//! Declarations of values for expressions, from their schema (apiserver `pkg/cel/common/schemas.go`).

use std::collections::BTreeMap;

use super::schema::{Of, Schema};
use crate::cel::check::{Declared, Type};

/// Returns the declaration of a value; `None` if the schema does not give its type, so that expressions cannot see it.
/// `root` is set for a complete Kubernetes object.
pub fn declared(schema: &Schema, root: bool) -> Option<Declared> {
    let most = |bound: &str| schema.bounds.get(bound).map(|most| most.max(0.0) as u64);
    // A character has up to four bytes.
    let characters = most("maxLength").map(|most| most.saturating_mul(4));
    if schema.int_or_string {
        let text = Declared::text(characters);
        return Some(Declared::simple(Type::Dyn, text.most, 1));
    }
    match schema.of? {
        Of::Array => {
            let items = schema.items.as_deref()?;
            Some(Declared::list(declared(items, items.embedded)?, most("maxItems")))
        }
        Of::Object => match schema.values.as_deref() {
            Some(values) => Some(Declared::map(declared(values, values.embedded)?, most("maxProperties"))),
            None => Some(object(schema, root)),
        },
        // The evaluator treats times, durations and bytes as strings.
        Of::String => Some(match schema.format.as_str() {
            "byte" => Declared::simple(Type::Dyn, most("maxLength").unwrap_or(Declared::text(None).most), 2),
            "duration" => Declared::simple(Type::Dyn, 32, 3),
            "date" => Declared::simple(Type::Dyn, 12, 12),
            "date-time" => Declared::simple(Type::Dyn, 32, 21),
            _ => {
                let longest = schema.choices.iter().filter_map(|choice| choice.as_str().map(str::len)).max();
                Declared::text(characters.or(longest.map(|length| length as u64)))
            }
        }),
        Of::Boolean => Some(Declared::simple(Type::Bool, 0, 4)),
        Of::Number => Some(Declared::simple(Type::Double, 0, 1)),
        Of::Integer => Some(Declared::simple(Type::Int, 0, 1)),
    }
}

fn object(schema: &Schema, root: bool) -> Declared {
    let mut fields = BTreeMap::new();
    let mut least = 2;
    for (name, property) in &schema.properties {
        let Some(field) = declared(property, property.embedded) else { continue };
        if schema.required.contains(name) && property.default.is_none() {
            least += name.len() as u64 + field.least_bytes + 4;
        }
        fields.insert(name.clone(), field);
    }
    if root {
        // Rules see only the names in the metadata.
        let named = ["name", "generateName"].map(|name| (name.to_owned(), Declared::text(None)));
        fields.insert("metadata".to_owned(), Declared::object(named.into(), 2));
        for name in ["apiVersion", "kind"] {
            fields.insert(name.to_owned(), Declared::text(None));
        }
    }
    Declared::object(fields, least)
}
