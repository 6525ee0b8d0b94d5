//! Whether an object is what its schema says (apiextensions `pkg/apiserver/validation`).

use substrate::json::Value;

use super::budget::Run;
use super::schema::{Of, Schema};
use crate::fields::FieldError;

/// What is wrong with `value`, which stands at `path`. What an update leaves as it was is not looked at again
/// (validation ratcheting, KEP-4008), but for rules that compare the two.
pub fn validate(schema: &Schema, value: &Value, old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    walk(schema, value, old, path, &mut Run::new(errors));
}

fn walk(schema: &Schema, value: &Value, old: Option<&Value>, path: &str, run: &mut Run<'_>) {
    if old == Some(value) {
        return compare(schema, value, path, run);
    }
    if value.is_null() {
        if !schema.nullable && schema.of.is_some() {
            run.errors.push(wrong_type(schema.of, value, path));
        }
        return;
    }
    if !fits(schema, value) {
        run.errors.push(wrong_type(schema.of, value, path));
        return;
    }
    let before = run.errors.len();
    if !schema.choices.is_empty() && !schema.choices.contains(value) {
        let supported: Vec<String> =
            schema.choices.iter().map(|c| c.as_str().map_or_else(|| c.to_string(), str::to_owned)).collect();
        let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
        run.errors.push(FieldError::not_supported(path, value, &supported));
    }
    match value {
        Value::Object(map) => {
            for name in &schema.required {
                if map.get(name).is_none_or(Value::is_null) {
                    run.errors.push(FieldError::required(join(path, name), ""));
                }
            }
            count(schema, map.len(), ["minProperties", "maxProperties"], "properties", value, path, run.errors);
            for (name, value) in map {
                let was = old.filter(|_| !is_atomic(schema)).and_then(|old| old.get(name));
                if let Some(field) = schema.properties.get(name.as_str()) {
                    walk(field, value, was, &join(path, name), run);
                } else if let Some(values) = &schema.values {
                    walk(values, value, was, &join(path, name), run);
                }
            }
        }
        Value::Array(list) => array(schema, list, old, path, run),
        Value::String(text) => string(schema, text, path, run.errors),
        Value::Number(number) => bounds(schema, number.as_f64().unwrap_or(0.0), value, path, run.errors),
        _ => {}
    }
    combined(schema, value, path, run);
    // Rules may rely on a value that fits its schema.
    if run.errors.len() == before {
        for rule in &schema.rules {
            rule.check(value, old, path, run);
        }
    }
}

/// Whether the fields of a map cannot be told from those of another revision.
fn is_atomic(schema: &Schema) -> bool {
    schema.map_type.as_deref() == Some("atomic")
}

/// The rules that compare with what was, of a value that is as it was.
fn compare(schema: &Schema, value: &Value, path: &str, run: &mut Run<'_>) {
    if !schema.compares || value.is_null() {
        return;
    }
    for rule in schema.rules.iter().filter(|rule| rule.uses_old()) {
        rule.check(value, Some(value), path, run);
    }
    match value {
        Value::Object(map) if !is_atomic(schema) => {
            for (name, value) in map {
                let field = schema.properties.get(name.as_str()).or(schema.values.as_deref());
                field.into_iter().for_each(|field| compare(field, value, &join(path, name), run));
            }
        }
        Value::Array(list) if schema.list_type.as_deref() == Some("map") => {
            for (i, element) in list.iter().enumerate() {
                schema.items.iter().for_each(|items| compare(items, element, &format!("{path}[{i}]"), run));
            }
        }
        _ => {}
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn fits(schema: &Schema, value: &Value) -> bool {
    if schema.int_or_string {
        return value.is_string() || value.is_i64();
    }
    match schema.of {
        None => true,
        Some(Of::Object) => value.is_object(),
        Some(Of::Array) => value.is_array(),
        Some(Of::String) => value.is_string(),
        Some(Of::Integer) => value.is_i64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        Some(Of::Number) => value.is_number(),
        Some(Of::Boolean) => value.is_boolean(),
    }
}

fn wrong_type(of: Option<Of>, value: &Value, path: &str) -> FieldError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let wanted = of.map_or("integer,string", Of::word);
    FieldError::invalid_text(path, format!("{found:?}"), format!("{path} in body must be of type {wanted}: {found:?}"))
}

fn count(
    schema: &Schema,
    found: usize,
    [least, most]: [&str; 2],
    what: &str,
    value: &Value,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let found = found as f64;
    if let Some(least) = schema.bounds.get(least).filter(|least| found < **least) {
        errors.push(FieldError::invalid(path, value, format!("{path} in body should have at least {least} {what}")));
    }
    if let Some(most) = schema.bounds.get(most).filter(|most| found > **most) {
        errors.push(FieldError::invalid_text(
            path,
            found.to_string(),
            format!("{path} in body should have at most {most} {what}"),
        ));
    }
}

fn array(schema: &Schema, list: &[Value], old: Option<&Value>, path: &str, run: &mut Run<'_>) {
    count(schema, list.len(), ["minItems", "maxItems"], "items", &Value::Array(Vec::new()), path, run.errors);
    let identity = |element: &Value| match schema.list_type.as_deref() {
        Some("map") => Some(schema.list_keys.iter().map(|key| element[key].clone()).collect::<Value>()),
        Some("set") => Some(element.clone()),
        _ => schema.unique.then(|| element.clone()),
    };
    let old = old.and_then(Value::as_array);
    let mut seen: Vec<Value> = Vec::new();
    for (i, element) in list.iter().enumerate() {
        let at = format!("{path}[{i}]");
        let mut was = None;
        if let Some(identity) = identity(element) {
            if seen.contains(&identity) {
                run.errors.push(FieldError::duplicate(at.clone(), &identity));
            }
            // Elements of a map list are told apart by their keys, on update too.
            if schema.list_type.as_deref() == Some("map") {
                was = old.and_then(|old| old.iter().find(|o| self_keys(schema, o) == identity));
            }
            seen.push(identity);
        }
        if let Some(items) = &schema.items {
            walk(items, element, was, &at, run);
        }
    }
}

fn self_keys(schema: &Schema, element: &Value) -> Value {
    schema.list_keys.iter().map(|key| element[key].clone()).collect()
}

fn string(schema: &Schema, text: &str, path: &str, errors: &mut Vec<FieldError>) {
    let (length, value) = (text.chars().count() as f64, Value::from(text));
    if let Some(least) = schema.bounds.get("minLength").filter(|least| length < **least) {
        errors.push(FieldError::invalid(path, &value, format!("{path} in body should be at least {least} chars long")));
    }
    if let Some(most) = schema.bounds.get("maxLength").filter(|most| length > **most) {
        errors.push(FieldError::too_long(path, *most as usize));
    }
    if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        errors.push(FieldError::invalid(path, &value, format!("{path} in body should match '{}'", pattern.as_str())));
    }
    let fits = match schema.format.as_str() {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "byte" => {
            use base64::Engine;
            base64::engine::general_purpose::STANDARD.decode(text).is_ok()
        }
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "uuid" => uuid::Uuid::parse_str(text).is_ok(),
        _ => true,
    };
    if !fits {
        let format = &schema.format;
        let why = format!("{path} in body must be of type {format}: {text:?}");
        errors.push(FieldError::invalid(path, &value, why));
    }
}

fn bounds(schema: &Schema, number: f64, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (exclusive_least, exclusive_most) = schema.exclusive;
    let mut refuse =
        |why: String| errors.push(FieldError::invalid(path, value, format!("{path} in body should be {why}")));
    if let Some(least) = schema.bounds.get("minimum") {
        if exclusive_least && number <= *least {
            refuse(format!("greater than {least}"));
        } else if number < *least {
            refuse(format!("greater than or equal to {least}"));
        }
    }
    if let Some(most) = schema.bounds.get("maximum") {
        if exclusive_most && number >= *most {
            refuse(format!("less than {most}"));
        } else if number > *most {
            refuse(format!("less than or equal to {most}"));
        }
    }
    if let Some(of) = schema.bounds.get("multipleOf").filter(|of| **of > 0.0 && (number / **of).fract() != 0.0) {
        refuse(format!("a multiple of {of}"));
    }
}

/// `allOf`, `anyOf`, `oneOf` and `not`.
fn combined(schema: &Schema, value: &Value, path: &str, run: &mut Run<'_>) {
    for all in &schema.all_of {
        walk(all, value, None, path, run);
    }
    let holds = |of: &Schema| {
        let mut found = Vec::new();
        walk(of, value, None, path, &mut Run::new(&mut found));
        found.is_empty()
    };
    let shown = || match value {
        Value::Object(_) => "\"object\"".to_owned(),
        Value::Array(_) => "\"array\"".to_owned(),
        other => other.to_string(),
    };
    let name = if path.is_empty() { "<nil>" } else { path };
    if !schema.any_of.is_empty() && !schema.any_of.iter().any(holds) {
        let why = format!("{name} in body must validate at least one schema (anyOf)");
        run.errors.push(FieldError::invalid_text(path, shown(), why));
    }
    if !schema.one_of.is_empty() {
        let held = schema.one_of.iter().filter(|of| holds(of)).count();
        if held != 1 {
            let why = format!(
                "{name} in body must validate one and only one schema (oneOf). Found {} valid",
                if held == 0 { "none".to_owned() } else { held.to_string() }
            );
            run.errors.push(FieldError::invalid_text(path, shown(), why));
        }
    }
    if schema.not.as_deref().is_some_and(holds) {
        let why = format!("{name} in body must not validate the schema (not)");
        run.errors.push(FieldError::invalid_text(path, shown(), why));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    fn check(schema: Value, value: Value, old: Option<Value>) -> Vec<String> {
        let mut errors = Vec::new();
        let schema = Schema::parse(&schema, "s", &mut errors);
        assert!(errors.is_empty(), "{errors:?}");
        validate(&schema, &value, old.as_ref(), "spec", &mut errors);
        errors.into_iter().map(|e| format!("{}: {}", e.field, e.body())).collect()
    }

    #[rstest]
    #[case(json!({"type": "integer"}), json!("x"), "spec: Invalid value: \"string\": spec in body must be of type integer: \"string\"")]
    #[case(json!({"type": "integer", "minimum": 1}), json!(0), "should be greater than or equal to 1")]
    #[case(json!({"type": "string", "enum": ["a", "b"]}), json!("c"), "Unsupported value: \"c\": supported values: \"a\", \"b\"")]
    #[case(json!({"type": "string", "pattern": "^a+$"}), json!("b"), "should match '^a+$'")]
    #[case(json!({"type": "string", "maxLength": 1}), json!("bb"), "Too long")]
    #[case(json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}), json!({}), "spec.a: Required value")]
    #[case(json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}), json!(["a", "a"]), "spec[1]: Duplicate value")]
    #[case(json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}),
        json!({"a": "", "b": ""}), "must validate one and only one schema (oneOf)")]
    #[case(json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 3", "message": "too few"}]}), json!(2), "spec: Invalid value: 2: too few")]
    fn what_is_wrong_is_said_by_field(#[case] schema: Value, #[case] value: Value, #[case] wanted: &str) {
        let errors = check(schema.clone(), value.clone(), None);
        assert!(errors.len() == 1 && errors[0].contains(wanted), "{errors:?}");
        // What was there before stays.
        assert_eq!(check(schema, value.clone(), Some(value)), Vec::<String>::new());
    }

    #[test]
    fn rules_that_compare_hold_for_what_stays_as_it_was_too() {
        let schema = json!({"type": "object", "properties": {"list": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string", "maxLength": 9}, "n": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.n > oldSelf.n", "message": "must grow"}, {"rule": "self.n < 5", "message": "too many"}]}}}});
        let of = |n: i64| json!({"list": [{"k": "a", "n": n}]});
        // A rule that looks at the new value alone says nothing of one that was there before.
        assert_eq!(check(schema.clone(), of(9), Some(of(9))), ["spec.list[0]: Invalid value: \"object\": must grow"]);
        assert_eq!(check(schema.clone(), of(9), Some(of(8))), ["spec.list[0]: Invalid value: \"object\": too many"]);
        assert_eq!(check(schema.clone(), of(3), Some(of(2))), Vec::<String>::new());
        // Without a past it says nothing.
        assert_eq!(check(schema, of(3), None), Vec::<String>::new());
    }

    #[test]
    fn fields_of_an_atomic_map_have_no_past() {
        let schema = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "integer", "maximum": 3}, "b": {"type": "integer"}}});
        let of = |b: i64| json!({"a": 9, "b": b});
        assert_eq!(check(schema.clone(), of(1), Some(of(2))).len(), 1);
        assert_eq!(check(schema, of(1), Some(of(1))), Vec::<String>::new());
    }

    #[test]
    fn rules_compare_with_what_was() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]}}});
        assert_eq!(check(schema.clone(), json!({"a": "x"}), None), Vec::<String>::new());
        assert_eq!(check(schema, json!({"a": "x"}), Some(json!({"a": "y"}))), ["spec.a: Invalid value: \"x\": fixed"]);
    }
}
