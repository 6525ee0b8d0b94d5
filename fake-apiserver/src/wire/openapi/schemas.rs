//! Schemas of a kind: its type, its list, and every struct that they refer to.

use std::borrow::Cow;

use substrate::json::{Map, Value, json};

use super::{custom, gvk};
use crate::kinds::schema::{self, Field, Shape, Type};
use crate::kinds::{Kind, describe};

/// Type whose fields hold JSON values of any type.
const JSON_SCHEMA: &str = "apiextensions/v1.JSONSchemaProps";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";

/// OpenAPI version. They differ in the place of schemas and in the members that are allowed beside a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// Returns a reference to a type of the table.
    pub(super) fn reference(self, name: &str) -> Value {
        self.to(&public_name(name))
    }

    /// Returns a reference to a schema by its name in the document.
    fn to(self, name: &str) -> Value {
        let root = match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        };
        Value::from(format!("{root}{name}"))
    }
}

/// Adds the schemas of `kind` and all that they refer to.
pub(super) fn add(kind: &Kind, dialect: Dialect, schemas: &mut Map) {
    add_type_named("meta/v1.ListMeta", dialect, schemas);
    add_type_named("meta/v1.Status", dialect, schemas);
    let of_name = custom_or_own_name(kind);
    let name = match &kind.custom {
        None => {
            let Some(of) = schema::built_in(kind) else { return };
            add_type(of, dialect, schemas);
            public_name(of.name)
        }
        Some(custom) => {
            add_type_named("meta/v1.ObjectMeta", dialect, schemas);
            schemas.insert(of_name.clone(), custom::schema(&custom.source, dialect));
            of_name.clone()
        }
    };
    if let Some(schema) = schemas.get_mut(&name) {
        schema["x-kubernetes-group-version-kind"] = json!([gvk(kind)]);
        match &kind.custom {
            Some(custom) if !custom.selectable.is_empty() => {
                let fields = custom.selectable.iter().map(|field| json!({ "fieldPath": field }));
                schema["x-kubernetes-selectable-fields"] = fields.collect();
            }
            _ => {}
        }
    }
    let plain = |field: &str| json!({ "type": "string", "description": describe::field("core/v1.Pod", field) });
    let items = format!("List of {}.", kind.plural);
    let list = json!({
        "type": "object",
        "description": format!("{} is a list of {} objects.", kind.list_kind(), kind.kind),
        "required": ["items"],
        "properties": {
            // These two have the same description in every kind.
            "apiVersion": plain("apiVersion"),
            "kind": plain("kind"),
            "metadata": described(json!({ "$ref": dialect.reference("meta/v1.ListMeta") }), "Standard metadata of a list.", dialect),
            "items": { "type": "array", "description": items, "items": reference(kind, dialect) },
        },
        "x-kubernetes-group-version-kind": [{ "group": kind.group, "version": kind.version, "kind": kind.list_kind() }],
    });
    schemas.insert(format!("{name}List"), list);
}

/// Returns a reference to the type of a kind's objects.
pub(super) fn reference(kind: &Kind, dialect: Dialect) -> Value {
    json!({ "$ref": dialect.to(&custom_or_own_name(kind)) })
}

/// Returns a reference to the type of a kind's lists.
pub(super) fn list_reference(kind: &Kind, dialect: Dialect) -> Value {
    json!({ "$ref": dialect.to(&format!("{}List", custom_or_own_name(kind))) })
}

/// Returns the name of a kind's schema in the documents. That of a custom kind begins with its reversed group.
fn custom_or_own_name(kind: &Kind) -> String {
    if kind.custom.is_none() {
        return public_name(&schema::type_name(kind));
    }
    let mut labels: Vec<&str> = kind.group.split('.').collect();
    labels.reverse();
    format!("{}.{}.{}", labels.join("."), kind.version, kind.kind)
}

/// Returns the name of `core/v1.Pod` in the documents: `io.k8s.api.core.v1.Pod`.
fn public_name(name: &str) -> String {
    let (package, name) = name.split_once('/').unwrap_or(("", name));
    match package {
        "meta" => format!("io.k8s.apimachinery.pkg.apis.meta.{name}"),
        "apiextensions" => format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{name}"),
        "apiregistration" => format!("io.k8s.kube-aggregator.pkg.apis.apiregistration.{name}"),
        package => format!("io.k8s.api.{package}.{name}"),
    }
}

fn add_type_named(name: &'static str, dialect: Dialect, schemas: &mut Map) {
    if let Some(of) = schema::find(name) {
        add_type(of, dialect, schemas);
    }
}

fn add_type(of: &'static Type, dialect: Dialect, schemas: &mut Map) {
    let name = public_name(of.name);
    if schemas.contains_key(&name) {
        return;
    }
    // Reserved before the fields are walked, since types may contain themselves.
    schemas.insert(name.clone(), Value::Null);
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in &of.fields {
        properties.insert(field.name.clone(), property(of, field, dialect));
        required.extend(field.required.then_some(&*field.name));
        if let Some(name) = struct_in(&field.shape) {
            add_type_named(name, dialect, schemas);
        }
        if let Some((word, name, plain)) = plain_in(&field.shape, dialect) {
            schemas
                .entry(name)
                .or_insert_with(|| described(plain, describe::of_type(word).unwrap_or_default(), dialect));
        }
    }
    let mut schema = json!({ "type": "object" });
    if let Some(text) = describe::of_type(of.name) {
        schema["description"] = text.into();
    }
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if of.atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    schemas.insert(name, schema);
}

fn struct_in(shape: &Shape) -> Option<&'static str> {
    match shape {
        Shape::Ref(of) => Some(of.name()),
        Shape::List(element) | Shape::Map(element) => struct_in(element),
        _ => None,
    }
}

/// Returns key, name and schema of a type that has its own schema in the documents without being a struct.
fn plain_in(shape: &Shape, dialect: Dialect) -> Option<(&'static str, &'static str, Value)> {
    Some(match (shape, dialect) {
        (Shape::List(element) | Shape::Map(element), _) => return plain_in(element, dialect),
        (Shape::Time, _) => ("time", TIME, json!({ "type": "string", "format": "date-time" })),
        (Shape::MicroTime, _) => ("microtime", MICRO_TIME, json!({ "type": "string", "format": "date-time" })),
        (Shape::Quantity, Dialect::V2) => ("quantity", QUANTITY, json!({ "type": "string" })),
        (Shape::Quantity, Dialect::V3) => {
            ("quantity", QUANTITY, json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }))
        }
        (Shape::IntOrString, Dialect::V2) => {
            ("intstr", INT_OR_STRING, json!({ "type": "string", "format": "int-or-string" }))
        }
        (Shape::IntOrString, Dialect::V3) => {
            let one_of = json!([{ "type": "integer" }, { "type": "string" }]);
            ("intstr", INT_OR_STRING, json!({ "format": "int-or-string", "oneOf": one_of }))
        }
        _ => return None,
    })
}

fn property(of: &Type, field: &Field, dialect: Dialect) -> Value {
    let mut property = match &field.shape {
        Shape::Any if of.name == JSON_SCHEMA => any_json(),
        Shape::List(element) if of.name == JSON_SCHEMA && **element == Shape::Any => {
            json!({ "type": "array", "items": any_json() })
        }
        shape_of => shape(shape_of, dialect),
    };
    let choices = field.choices();
    let text = describe::field(of.name, &field.name).map(|text| with_choices(text, choices.as_deref()));
    if let Some(choices) = choices {
        // In a list, the elements have the enumeration.
        let slot = if property.get("items").is_some() { &mut property["items"] } else { &mut property };
        slot["enum"] = json!(choices);
    }
    if let Some(text) = text {
        property = described(property, &text, dialect);
    }
    let strategies: Vec<&str> = [(field.merge, "merge"), (field.retain_keys, "retainKeys")]
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, s)| *s)
        .collect();
    if !strategies.is_empty() {
        property["x-kubernetes-patch-strategy"] = strategies.join(",").into();
    }
    if let Some(key) = field.merge_key {
        property["x-kubernetes-patch-merge-key"] = key.into();
    }
    if let Some(of) = field.list_type {
        property["x-kubernetes-list-type"] = of.into();
    }
    if !field.list_keys.is_empty() {
        property["x-kubernetes-list-map-keys"] = json!(field.list_keys);
    }
    if let (Some(of), None) = (field.map_type, property.get("$ref")) {
        property["x-kubernetes-map-type"] = of.into();
    }
    property
}

/// Returns the schema of any JSON value (`apiextensions/v1.JSON`), in contrast to an object of any kind. It has no `type`;
/// kubectl ignores an empty schema, hence the description.
fn any_json() -> Value {
    json!({ "description": "Any JSON value." })
}

/// Returns a description that ends with the possible values, as kube-openapi adds them.
fn with_choices<'t>(text: &'t str, choices: Option<&[String]>) -> Cow<'t, str> {
    match choices {
        None => Cow::Borrowed(text),
        Some(choices) => {
            let lines: Vec<String> = choices.iter().map(|choice| format!(" - `{choice:?}`")).collect();
            Cow::Owned(format!("{text}\n\nPossible enum values:\n{}", lines.join("\n")))
        }
    }
}

/// Adds a description. In v3 a reference cannot have members beside it; readers of v2 do not know `allOf`, and upstream
/// writes the description beside the reference.
pub(super) fn described(mut schema: Value, text: &str, dialect: Dialect) -> Value {
    if dialect == Dialect::V3 && schema.get("$ref").is_some() {
        return json!({ "allOf": [schema], "description": text });
    }
    schema["description"] = text.into();
    schema
}

fn shape(of: &Shape, dialect: Dialect) -> Value {
    match of {
        Shape::String => json!({ "type": "string" }),
        Shape::Boolean => json!({ "type": "boolean" }),
        Shape::Int32 => json!({ "type": "integer", "format": "int32" }),
        Shape::Int64 => json!({ "type": "integer", "format": "int64" }),
        Shape::Number => json!({ "type": "number", "format": "double" }),
        Shape::Time => json!({ "$ref": dialect.to(TIME) }),
        Shape::MicroTime => json!({ "$ref": dialect.to(MICRO_TIME) }),
        Shape::Bytes => json!({ "type": "string", "format": "byte" }),
        Shape::Any => json!({ "type": "object" }),
        Shape::Quantity => json!({ "$ref": dialect.to(QUANTITY) }),
        Shape::IntOrString => json!({ "$ref": dialect.to(INT_OR_STRING) }),
        // A value of several types has no `type`. kubectl ignores an empty schema, hence the description.
        Shape::SchemaOrBool => json!({ "description": "A JSON schema, or true or false." }),
        Shape::SchemaOrList => json!({ "description": "A JSON schema, or a list of them." }),
        Shape::SchemaOrStrings => json!({ "description": "A JSON schema, or a list of names." }),
        // Custom kinds are documented by the schema of their definition.
        Shape::Custom(_) => json!({ "type": "object" }),
        Shape::Ref(of) => json!({ "$ref": dialect.reference(of.name()) }),
        Shape::List(element) => json!({ "type": "array", "items": shape(element, dialect) }),
        Shape::Map(values) => json!({ "type": "object", "additionalProperties": shape(values, dialect) }),
    }
}
