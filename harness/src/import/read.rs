//! Files as documents: JSON, or YAML with several documents; lists of Kubernetes objects are split.

use serde_json::Value;
use substrate::yaml::Budget;

use super::input::{Document, ImportError, Input, MAX_BYTES};

/// Returns the documents of a file.
pub(super) fn documents(input: &Input) -> Result<Vec<Document>, ImportError> {
    if input.text.len() > MAX_BYTES {
        let why = format!("it has {} bytes, and at most {MAX_BYTES} are read", input.text.len());
        return Err(ImportError::of_file(&input.name, why));
    }
    let mut found = Vec::new();
    for value in parse(input)? {
        unfold(&input.name, value, &mut found)?;
    }
    if found.is_empty() {
        return Err(ImportError::of_file(&input.name, "there is nothing in it"));
    }
    Ok(found)
}

fn parse(input: &Input) -> Result<Vec<Value>, ImportError> {
    let text = input.text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{') {
        let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let values: Result<Vec<Value>, serde_json::Error> = stream.collect();
        if let Ok(values) = values {
            return Ok(values);
        }
    }
    let mut values = Vec::new();
    for part in split(text) {
        let value: Option<Value> = substrate::yaml::from_str_with_options(&part, options())
            .map_err(|e| ImportError::of_file(&input.name, format!("it is neither JSON nor YAML: {e}")))?;
        values.extend(value.filter(|value| !value.is_null()));
    }
    Ok(values)
}

/// Splits a YAML stream into documents. Each keeps its position: empty lines replace the lines before it.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let content = line.trim_end();
        if content == "---" || content.starts_with("--- ") || content == "..." {
            parts.push("\n".repeat(number + 1));
        } else if let Some(part) = parts.last_mut() {
            part.push_str(line);
        }
    }
    let is_blank = |part: &String| part.lines().all(|l| l.trim().is_empty() || l.trim_start().starts_with('#'));
    parts.retain(|part| !is_blank(part));
    parts
}

/// Returns limits that keep a hostile file from using much time or memory.
fn options() -> substrate::yaml::Options {
    let mut budget = Budget::default();
    budget.max_events = 20_000_000;
    budget.max_nodes = 10_000_000;
    budget.max_depth = 64;
    budget.max_aliases = 1_000;
    budget.max_anchors = 1_000;
    budget.max_documents = 1;
    budget.max_reader_input_bytes = Some(MAX_BYTES + (1 << 20));
    substrate::yaml::options! { budget: Some(budget) }
}

fn unfold(file: &str, value: Value, found: &mut Vec<Document>) -> Result<(), ImportError> {
    if !value.is_object() {
        return Err(ImportError::of_file(file, format!("a map is expected, and this is {}", kind_of(&value))));
    }
    let kind = value["kind"].as_str().unwrap_or_default().to_owned();
    let Some(of) = kind.strip_suffix("List").filter(|_| value["items"].is_array()) else {
        found.push(Document { file: file.to_owned(), value });
        return Ok(());
    };
    let version = value["apiVersion"].clone();
    let Value::Object(mut map) = value else { return Ok(()) };
    let Some(Value::Array(items)) = map.remove("items") else { return Ok(()) };
    for (position, mut item) in items.into_iter().enumerate() {
        if !item.is_object() {
            let why = format!("a map is expected, and this is {}", kind_of(&item));
            return Err(ImportError::of(file, &format!("items[{position}]"), why));
        }
        // Items of a typed list do not repeat its type.
        if !of.is_empty() && item["kind"].is_null() {
            item["kind"] = of.into();
            item["apiVersion"] = version.clone();
        }
        unfold(file, item, found)?;
    }
    Ok(())
}

pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
