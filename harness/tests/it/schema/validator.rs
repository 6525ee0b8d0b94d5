//! A validator of the keywords that the schemas use. Any other keyword is an error in the schema.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

/// Validates values by one schema.
pub struct Validator<'a> {
    root: &'a Value,
    patterns: BTreeMap<String, Regex>,
}

impl<'a> Validator<'a> {
    pub fn new(root: &'a Value) -> Self {
        Self { root, patterns: BTreeMap::new() }
    }

    /// Returns the errors in `value`.
    pub fn wrong(&mut self, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        self.check(self.root, value, "", &mut found);
        found
    }

    /// Resolves a `$ref`.
    pub fn resolve(&self, reference: &str) -> &'a Value {
        let pointer = reference.strip_prefix('#').unwrap();
        self.root.pointer(pointer).unwrap_or_else(|| panic!("nothing is at {reference}"))
    }

    fn good(&mut self, schema: &'a Value, value: &Value) -> bool {
        let mut found = Vec::new();
        self.check(schema, value, "", &mut found);
        found.is_empty()
    }

    fn matches(&mut self, pattern: &str, text: &str) -> bool {
        let pattern = self
            .patterns
            .entry(pattern.to_owned())
            .or_insert_with(|| Regex::new(pattern).expect("a regular expression"));
        pattern.is_match(text)
    }

    fn check(&mut self, schema: &'a Value, value: &Value, at: &str, found: &mut Vec<String>) {
        let schema = schema.as_object().unwrap_or_else(|| panic!("{at}: {schema} is not a schema"));
        let number = |limit: &Value| value.as_f64().zip(limit.as_f64());
        let length = |limit: &Value| limit.as_u64().unwrap() as usize;
        for (keyword, constraint) in schema {
            let good = match keyword.as_str() {
                "description" | "title" | "definitions" | "$schema" | "then" => true,
                "$ref" => {
                    self.check(self.resolve(constraint.as_str().unwrap()), value, at, found);
                    true
                }
                "type" => match constraint {
                    Value::Array(types) => types.iter().any(|name| is(name.as_str().unwrap(), value)),
                    name => is(name.as_str().unwrap(), value),
                },
                "const" => value == constraint,
                "enum" => constraint.as_array().unwrap().contains(value),
                "pattern" => value.as_str().is_none_or(|text| self.matches(constraint.as_str().unwrap(), text)),
                "minimum" => number(constraint).is_none_or(|(n, least)| n >= least),
                "maximum" => number(constraint).is_none_or(|(n, most)| n <= most),
                "exclusiveMinimum" => number(constraint).is_none_or(|(n, least)| n > least),
                "minLength" => value.as_str().is_none_or(|text| text.chars().count() >= length(constraint)),
                "minItems" => value.as_array().is_none_or(|list| list.len() >= length(constraint)),
                "maxItems" => value.as_array().is_none_or(|list| list.len() <= length(constraint)),
                "minProperties" => value.as_object().is_none_or(|map| map.len() >= length(constraint)),
                "maxProperties" => value.as_object().is_none_or(|map| map.len() <= length(constraint)),
                "required" => value.as_object().is_none_or(|map| {
                    constraint.as_array().unwrap().iter().all(|name| map.contains_key(name.as_str().unwrap()))
                }),
                "items" => {
                    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(constraint, item, &format!("{at}/{i}"), found);
                    }
                    true
                }
                "properties" => {
                    for (name, of) in constraint.as_object().unwrap() {
                        if let Some(value) = value.get(name) {
                            self.check(of, value, &format!("{at}/{name}"), found);
                        }
                    }
                    true
                }
                "patternProperties" => {
                    for (pattern, of) in constraint.as_object().unwrap() {
                        for (name, value) in value.as_object().into_iter().flatten() {
                            if self.matches(pattern, name) {
                                self.check(of, value, &format!("{at}/{name}"), found);
                            }
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    let names = schema.get("properties").and_then(Value::as_object);
                    let patterns = schema.get("patternProperties").and_then(Value::as_object);
                    for (name, value) in value.as_object().into_iter().flatten() {
                        let known = names.is_some_and(|names| names.contains_key(name))
                            || patterns.is_some_and(|all| all.keys().any(|pattern| self.matches(pattern, name)));
                        match constraint {
                            _ if known => {}
                            Value::Bool(false) => found.push(format!("{at}: `{name}` is not a key here")),
                            of => self.check(of, value, &format!("{at}/{name}"), found),
                        }
                    }
                    true
                }
                "propertyNames" => value
                    .as_object()
                    .is_none_or(|map| map.keys().all(|name| self.good(constraint, &Value::String(name.clone())))),
                "allOf" => {
                    for of in constraint.as_array().unwrap() {
                        self.check(of, value, at, found);
                    }
                    true
                }
                "anyOf" => constraint.as_array().unwrap().iter().any(|of| self.good(of, value)),
                "oneOf" => constraint.as_array().unwrap().iter().filter(|of| self.good(of, value)).count() == 1,
                "not" => !self.good(constraint, value),
                "if" => {
                    if self.good(constraint, value) {
                        self.check(&schema["then"], value, at, found);
                    }
                    true
                }
                other => panic!("the keyword `{other}` is used, and this validator does not know it"),
            };
            if !good {
                found.push(format!("{at}: {value} is not as `{keyword}` wants it"));
            }
        }
    }
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("`{other}` is not a type"),
    }
}
