//! Structural schemas (apiextensions `pkg/apiserver/schema`): every field has a type.

use std::collections::BTreeMap;

use regex::Regex;
use substrate::json::Value;

use super::examine::examine;
use super::rules::Rule;
use crate::fields::FieldError;

/// Maximum nesting of schemas.
const MAX_DEPTH: usize = 64;
/// Maximum length of a pattern.
const MAX_PATTERN: usize = 4096;

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// `object`.
    Object,
    /// `array`.
    Array,
    /// `string`.
    String,
    /// `integer`.
    Integer,
    /// `number`.
    Number,
    /// `boolean`.
    Boolean,
}

impl Of {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// Returns the type's name in a schema.
    pub fn word(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// A schema.
#[derive(Debug, Default)]
pub struct Schema {
    /// The type; `None` only within `anyOf`, `allOf`, `oneOf` and `not`, and for int-or-string and unknown values.
    pub of: Option<Of>,
    /// True if null is allowed.
    pub nullable: bool,
    /// The fields of an object.
    pub properties: BTreeMap<String, Schema>,
    /// Schema of the values of other fields.
    pub values: Option<Box<Schema>>,
    /// True if other fields are kept as they are (`additionalProperties: true`).
    pub open: bool,
    /// Schema of the elements.
    pub items: Option<Box<Schema>>,
    /// Required fields.
    pub required: Vec<String>,
    /// Default of a missing value.
    pub default: Option<Value>,
    /// True if unknown fields are kept.
    pub preserve: bool,
    /// True for an embedded Kubernetes object.
    pub embedded: bool,
    /// True if the value is a number or a string.
    pub int_or_string: bool,
    /// `atomic`, `set` or `map`.
    pub list_type: Option<String>,
    /// Keys of an element of a `map` list.
    pub list_keys: Vec<String>,
    /// `atomic` or `granular`.
    pub map_type: Option<String>,
    /// Bounds of numbers and sizes, by their keyword.
    pub bounds: BTreeMap<&'static str, f64>,
    /// `exclusiveMinimum` and `exclusiveMaximum`.
    pub exclusive: (bool, bool),
    /// True if elements must be unique.
    pub unique: bool,
    /// Allowed values.
    pub choices: Vec<Value>,
    /// Pattern of strings.
    pub pattern: Option<Regex>,
    /// Format of strings.
    pub format: String,
    /// All of these must match.
    pub all_of: Vec<Schema>,
    /// At least one of these must match.
    pub any_of: Vec<Schema>,
    /// Exactly one of these must match.
    pub one_of: Vec<Schema>,
    /// This must not match.
    pub not: Option<Box<Schema>>,
    /// CEL rules.
    pub rules: Vec<Rule>,
    /// True if it or a schema in it has a rule.
    pub is_ruled: bool,
    /// True if a rule in it uses the old value.
    pub compares: bool,
}

const BOUNDS: &[&str] = &[
    "minimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
];

impl Schema {
    /// Parses a schema at path `at` of a definition, and adds its errors to `errors`.
    pub fn parse(source: &Value, at: &str, errors: &mut Vec<FieldError>) -> Self {
        let before = errors.len();
        let mut schema = parse(source, at, ParseContext { structural: true, depth: 0 }, errors);
        // Rules can be validated only in a valid schema.
        if errors.len() == before {
            examine(&mut schema, at, errors);
        }
        schema
    }

    /// Returns true if all unknown fields are kept.
    pub fn is_open(&self) -> bool {
        self.open || self.preserve
    }
}

#[derive(Clone, Copy)]
struct ParseContext {
    /// False within `anyOf`, `oneOf`, `allOf` and `not`, which only validate.
    structural: bool,
    depth: usize,
}

fn parse(source: &Value, at: &str, place: ParseContext, errors: &mut Vec<FieldError>) -> Schema {
    let mut schema = Schema::default();
    let Some(map) = source.as_object() else {
        errors.push(FieldError::invalid(at, source, "must be a schema"));
        return schema;
    };
    if place.depth > MAX_DEPTH {
        errors.push(FieldError::invalid_text(at, "schema", "schemas are nested too deep"));
        return schema;
    }
    let below = ParseContext { depth: place.depth + 1, ..place };
    let check = ParseContext { structural: false, ..below };
    let flag = |name: &str| map.get(name).and_then(Value::as_bool).unwrap_or(false);
    let word = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default();
    schema.preserve = flag("x-kubernetes-preserve-unknown-fields");
    schema.embedded = flag("x-kubernetes-embedded-resource");
    schema.int_or_string = flag("x-kubernetes-int-or-string");
    schema.nullable = flag("nullable");
    schema.unique = flag("uniqueItems");
    schema.exclusive = (flag("exclusiveMinimum"), flag("exclusiveMaximum"));
    schema.of = Of::parse(word("type"));
    if schema.of.is_none() && !word("type").is_empty() {
        let supported = ["array", "boolean", "integer", "number", "object", "string"];
        errors.push(FieldError::not_supported(format!("{at}.type"), &word("type").into(), &supported));
    } else if schema.of.is_none() && place.structural && !schema.int_or_string && !schema.preserve {
        errors.push(FieldError::required(format!("{at}.type"), "must not be empty for specified object fields"));
    }
    if map.contains_key("$ref") {
        errors.push(FieldError::forbidden(format!("{at}.$ref"), "$ref is not supported"));
    }
    for (name, of) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let parsed = parse(of, &format!("{at}.properties[{name}]"), below, errors);
        schema.properties.insert(name.to_string(), parsed);
    }
    match map.get("additionalProperties") {
        Some(Value::Bool(open)) => schema.open = *open,
        Some(values @ Value::Object(_)) => {
            schema.values = Some(Box::new(parse(values, &format!("{at}.additionalProperties"), below, errors)));
        }
        _ => {}
    }
    if let Some(items) = map.get("items") {
        schema.items = Some(Box::new(parse(items, &format!("{at}.items"), below, errors)));
    } else if schema.of == Some(Of::Array) && place.structural {
        errors.push(FieldError::required(format!("{at}.items"), "must be specified"));
    }
    let texts = |name: &str| -> Vec<String> {
        let list = map.get(name).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    schema.required = texts("required");
    schema.list_keys = texts("x-kubernetes-list-map-keys");
    schema.list_type = map.get("x-kubernetes-list-type").and_then(Value::as_str).map(str::to_owned);
    schema.map_type = map.get("x-kubernetes-map-type").and_then(Value::as_str).map(str::to_owned);
    if schema.list_type.as_deref() == Some("map") && schema.list_keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(format!("{at}.x-kubernetes-list-map-keys"), why));
    }
    schema.default = map.get("default").cloned();
    schema.choices = map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default();
    word("format").clone_into(&mut schema.format);
    for bound in BOUNDS {
        if let Some(number) = map.get(bound).and_then(Value::as_f64) {
            schema.bounds.insert(bound, number);
        }
    }
    let pattern = word("pattern");
    if !pattern.is_empty() {
        match Some(pattern).filter(|p| p.len() <= MAX_PATTERN).map(Regex::new) {
            Some(Ok(compiled)) => schema.pattern = Some(compiled),
            _ => {
                let why = "must be a valid regular expression of at most 4096 bytes";
                errors.push(FieldError::invalid(format!("{at}.pattern"), &pattern.into(), why));
            }
        }
    }
    for (name, list) in [("allOf", &mut schema.all_of), ("anyOf", &mut schema.any_of), ("oneOf", &mut schema.one_of)] {
        for (i, of) in map.get(name).and_then(Value::as_array).into_iter().flatten().enumerate() {
            list.push(parse(of, &format!("{at}.{name}[{i}]"), check, errors));
        }
    }
    if let Some(not) = map.get("not") {
        schema.not = Some(Box::new(parse(not, &format!("{at}.not"), check, errors)));
    }
    for (i, rule) in map.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten().enumerate() {
        schema.rules.extend(Rule::parse(rule, &format!("{at}.x-kubernetes-validations[{i}]"), errors));
    }
    let inside = schema.properties.values().chain(schema.values.as_deref()).chain(schema.items.as_deref());
    let inside: Vec<&Schema> = inside.chain(&schema.all_of).collect();
    let (is_ruled, compares) =
        (inside.iter().any(|inside| inside.is_ruled), inside.iter().any(|inside| inside.compares));
    schema.is_ruled = is_ruled || !schema.rules.is_empty();
    schema.compares = compares || schema.rules.iter().any(Rule::uses_old);
    schema
}
