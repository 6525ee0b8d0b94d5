//! Converts the tables to JSON Schema, draft 7.

use std::collections::BTreeMap;

use serde_json::{Map as Object, Value, json};
use substrate::scale;

use super::cloud;
use super::fault;
use super::shape::{Key, Map, Need, Of, Row, RowOf};

/// Pattern of a variable, `${i}`.
const VARIABLE: &str = r"\$\{[^}]+\}";
/// Pattern of a Kubernetes object name.
const NAME: &str = "[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?";
/// Pattern of a duration.
pub(super) const SPAN: &str = r"\s*(?:[0-9]*\.?[0-9]+\.?(?:ms|s|m|h)\s*)+";

/// Maps that repetitions cannot contain, so that they have no variables.
const FIXED: &[&str] = &["scenario", "count", "node", "link", "scales", "driver"];

/// Writes a schema.
#[derive(Debug)]
pub(super) struct Writer {
    /// Definitions so far, by name.
    definitions: BTreeMap<String, Value>,
    /// If set, variables are allowed as values.
    repeats: bool,
    /// If set, variables are allowed in the current map.
    variables: bool,
}

impl Writer {
    /// Creates a writer; `repeats` says whether variables are allowed as values.
    pub(super) fn new(repeats: bool) -> Self {
        Self { definitions: BTreeMap::new(), repeats, variables: repeats }
    }

    /// Writes a whole schema for `of`.
    pub(super) fn whole(mut self, title: &str, about: &str, of: &Of) -> Value {
        let mut schema = self.value(of, about);
        schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
        schema["title"] = json!(title);
        schema["definitions"] = json!(self.definitions);
        schema
    }

    /// Schema of a value with the description `about`.
    pub(super) fn value(&mut self, of: &Of, about: &str) -> Value {
        let mut schema = self.shape(of);
        schema["description"] = json!(about);
        schema
    }

    fn shape(&mut self, of: &Of) -> Value {
        match of {
            Of::Name => self.text(NAME),
            // The parser also accepts unquoted numbers and booleans as text.
            Of::Text | Of::Scalar => json!({ "type": ["string", "number", "boolean"] }),
            Of::Flag => self.plain("boolean", json!({})),
            Of::Whole(least, most) => {
                let mut bounds = json!({ "minimum": least });
                if let Some(most) = most {
                    bounds["maximum"] = json!(most);
                }
                self.plain("integer", bounds)
            }
            Of::Above => self.plain("number", json!({ "exclusiveMinimum": 0 })),
            Of::Scale => self.plain("number", json!({ "minimum": scale::LEAST, "maximum": scale::MOST })),
            Of::Number => self.plain("number", json!({ "minimum": 0 })),
            Of::Span => self.text(SPAN),
            Of::Cel => json!({ "type": "string", "pattern": r"\bself\b" }),
            Of::Object => self.text(&format!("[A-Za-z0-9.-]+(?:/{NAME}){{1,2}}")),
            Of::Volume => self.text(&format!("vol-[0-9a-f]+|[A-Za-z0-9.-]+(?:/{NAME}){{1,2}}")),
            Of::Words(words) => self.words(words.iter().copied()),
            Of::Known(words) => {
                let words = words();
                self.words(words.iter().map(|(word, about)| (word.as_str(), about.as_str())))
            }
            Of::Suggest(words) => {
                let words = words();
                let words = words.iter().map(|(word, about)| (word.as_str(), about.as_str()));
                suggested(words, json!({ "type": "string", "description": "Another word." }))
            }
            Of::Map(map) => {
                let name = self.define(map);
                json!({ "allOf": [{ "$ref": format!("#/definitions/{name}") }] })
            }
            Of::List(of) => self.list(of, json!({})),
            Of::Some(of) => self.list(of, json!({ "minItems": 1 })),
            Of::Two(of) => self.list(of, json!({ "minItems": 2, "maxItems": 2 })),
            Of::Each(of) => {
                let each = self.value(of, "The value of this key.");
                json!({ "type": "object", "additionalProperties": each })
            }
            Of::Keyed(rows) => self.rows(&rows()),
            Of::Either(ways) => {
                let ways: Vec<Value> = ways.iter().map(|(of, about)| self.value(of, about)).collect();
                json!({ "anyOf": ways })
            }
            Of::Manifest => manifest(),
            Of::Part => json!({ "type": "object" }),
            Of::Fault => {
                if !self.definitions.contains_key("fault") {
                    self.definitions.insert("fault".to_owned(), Value::Null);
                    let outer = std::mem::replace(&mut self.variables, self.repeats);
                    let fault = fault::schema(self);
                    self.variables = outer;
                    self.definitions.insert("fault".to_owned(), fault);
                }
                json!({ "allOf": [{ "$ref": "#/definitions/fault" }] })
            }
            Of::Nothing => json!({ "type": ["null", "object"], "maxProperties": 0 }),
        }
    }

    fn list(&mut self, of: &Of, mut with: Value) -> Value {
        with["type"] = json!("array");
        with["items"] = self.value(of, "An item of the list.");
        with
    }

    fn rows(&mut self, rows: &[Row]) -> Value {
        let mut properties = Object::new();
        for row in rows {
            let mut value = match &row.of {
                RowOf::Of(of) => self.shape(of),
                RowOf::Rows(rows) => self.rows(rows),
            };
            value["description"] = json!(row.about);
            properties.insert(row.name.clone(), value);
        }
        json!({ "type": "object", "properties": properties, "additionalProperties": false, "minProperties": 1 })
    }

    /// Schema of a text that matches `pattern` or contains a variable.
    pub(super) fn text(&self, pattern: &str) -> Value {
        let pattern =
            if self.variables { format!("^(?:{pattern}|.*{VARIABLE}.*)$") } else { format!("^(?:{pattern})$") };
        json!({ "type": "string", "pattern": pattern })
    }

    /// Schema of a value other than a text, or a variable for it.
    pub(super) fn plain(&self, kind: &str, mut with: Value) -> Value {
        with["type"] = if self.variables { json!([kind, "string"]) } else { json!(kind) };
        if self.variables {
            with["pattern"] = json!(VARIABLE);
        }
        with
    }

    /// Schema of one of these words, or a variable.
    pub(super) fn words<'a>(&self, words: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
        let variable = json!({ "type": "string", "pattern": VARIABLE, "description": "A variable of a repetition." });
        let words = words.map(|(word, about)| json!({ "const": word, "description": about }));
        let ways: Vec<Value> = words.chain(self.variables.then_some(variable)).collect();
        json!({ "anyOf": ways })
    }

    /// Defines a map if needed, and returns the name of the definition.
    pub(super) fn define(&mut self, map: &'static Map) -> &'static str {
        if !self.definitions.contains_key(map.name) {
            // Registered first, because maps contain each other.
            self.definitions.insert(map.name.to_owned(), Value::Null);
            let outer = self.variables;
            self.variables = self.repeats && !FIXED.contains(&map.name);
            let mut schema = self.map(map);
            match map.name {
                "item" => schema = json!({ "oneOf": [schema, manifest()] }),
                "ec2" => schema["allOf"] = cloud::parameters(),
                "call" => schema["allOf"] = fault::calls(self),
                _ => {}
            }
            self.variables = outer;
            schema["description"] = json!(map.about);
            self.definitions.insert(map.name.to_owned(), schema);
        }
        map.name
    }

    fn map(&mut self, map: &'static Map) -> Value {
        let mut properties = Object::new();
        for key in map.keys {
            properties.insert(key.name.to_owned(), self.value(&key.of, &describe(key)));
        }
        let names = |need| map.keys.iter().filter(move |key| key.need == need).map(|key| key.name);
        let mut schema = json!({
            "type": "object",
            "description": map.about,
            "properties": properties,
            "additionalProperties": false,
        });
        let must: Vec<&str> = names(Need::Must).collect();
        if !must.is_empty() {
            schema["required"] = json!(must);
        }
        let ways: Vec<Value> = names(Need::One).map(|name| json!({ "required": [name] })).collect();
        if !ways.is_empty() {
            schema["oneOf"] = json!(ways);
        }
        schema
    }
}

/// Schema of suggested words; other values must match `other`.
pub(super) fn suggested<'a>(words: impl Iterator<Item = (&'a str, &'a str)>, other: Value) -> Value {
    let words = words.map(|(word, about)| json!({ "const": word, "description": about }));
    json!({ "anyOf": words.chain([other]).collect::<Vec<_>>() })
}

/// Description of a key, with its examples.
fn describe(key: &Key) -> String {
    let examples: Vec<String> = key.examples.iter().map(|example| format!("`{example}`")).collect();
    match &examples[..] {
        [] => key.about.to_owned(),
        [one] => format!("{}\n\nExample: {one}", key.about),
        several => format!("{}\n\nExamples:\n- {}", key.about, several.join("\n- ")),
    }
}

fn manifest() -> Value {
    json!({
        "type": "object",
        "description": "A manifest of an object of any kind that the API server knows, checked by its own schemas.",
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {
            "apiVersion": {
                "type": "string",
                "description": "The group and version of the kind, such as v1 or storage.k8s.io/v1.",
            },
            "kind": { "type": "string", "description": "The kind of the object, such as StorageClass." },
            "metadata": {
                "type": "object",
                "description": "The name of the object, and what else is said about it.",
                "required": ["name"],
                "properties": {
                    "name": { "type": "string", "description": "The object's name." },
                    "namespace": { "type": "string", "description": "Its namespace; `default` when absent." },
                },
            },
        },
    })
}
