//! Validation of an object by its schema (apiextensions `pkg/apiserver/validation`).

use substrate::json::Value;

use super::budget::Run;
use super::schema::{Of, Schema};
use crate::field_path::FieldPath;
use crate::fields::{FieldError, FieldFault};

/// Message about rules that were not evaluated.
const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing \
    errors to complete validation";

/// Adds the errors of `value`, which is at `path`, to `errors`: first those of its schema, then those of its rules,
/// unless an earlier error prevents their evaluation. Values that an update does not change are not validated again
/// (validation ratcheting, KEP-4008), except by transition rules.
pub fn validate(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    walk(schema, value, old, path, errors);
    if !schema.is_ruled {
        return;
    }
    if errors.iter().any(|error| keeps_from_rules(&error.fault)) {
        errors.push(FieldError::invalid("<nil>", &Value::Null, UNCHECKED));
    } else {
        rules(schema, value, old, path, &mut Run::new(errors));
    }
}

/// Returns true for a fault that prevents the evaluation of rules.
fn keeps_from_rules(fault: &FieldFault) -> bool {
    matches!(
        fault,
        FieldFault::NotSupported(_)
            | FieldFault::Required
            | FieldFault::TooLong
            | FieldFault::TooMany(_)
            | FieldFault::TypeInvalid(_)
    )
}

fn walk(schema: &Schema, value: &Value, old: Option<&Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if old == Some(value) {
        return;
    }
    if value.is_null() {
        if !schema.nullable && schema.of.is_some() {
            errors.push(wrong_type(schema.of, value, path));
        }
        return;
    }
    if !fits(schema, value) {
        errors.push(wrong_type(schema.of, value, path));
        return;
    }
    if !schema.choices.is_empty() && !schema.choices.contains(value) {
        let supported: Vec<String> =
            schema.choices.iter().map(|c| c.as_str().map_or_else(|| c.to_string(), str::to_owned)).collect();
        let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
        errors.push(FieldError::not_supported(path.to_string(), value, &supported));
    }
    match value {
        Value::Object(map) => {
            for name in &schema.required {
                if map.get(name).is_none_or(Value::is_null) {
                    errors.push(FieldError::required(path.field(name).to_string(), ""));
                }
            }
            count(schema, map.len(), ["minProperties", "maxProperties"], "properties", value, path, errors);
            for (name, value) in map {
                let was = old.filter(|_| !is_atomic(schema)).and_then(|old| old.get(name));
                if let Some((field, at)) = below(schema, name, path) {
                    walk(field, value, was, &at, errors);
                }
            }
        }
        Value::Array(list) => array(schema, list, old, path, errors),
        Value::String(text) => string(schema, text, path, errors),
        Value::Number(number) => bounds(schema, number.as_f64().unwrap_or(0.0), value, path, errors),
        _ => {}
    }
    combined(schema, value, path, errors);
}

/// Returns the schema of a member of an object, and its path.
fn below<'s, 'p>(schema: &'s Schema, name: &'p str, path: &'p FieldPath<'p>) -> Option<(&'s Schema, FieldPath<'p>)> {
    match schema.properties.get(name) {
        Some(field) => Some((field, path.field(name))),
        None => Some((schema.values.as_deref()?, path.key(name))),
    }
}

/// Returns true if a map is atomic, so that its members are not compared with their old values.
fn is_atomic(schema: &Schema) -> bool {
    schema.map_type.as_deref() == Some("atomic")
}

/// Evaluates the rules of a schema and of those below it. For an unchanged value, only transition rules are evaluated.
fn rules(schema: &Schema, value: &Value, old: Option<&Value>, path: &FieldPath<'_>, run: &mut Run<'_>) {
    let stays = old == Some(value);
    if value.is_null() || !schema.is_ruled || stays && !schema.compares {
        return;
    }
    for rule in schema.rules.iter().filter(|rule| !stays || rule.uses_old()) {
        rule.check(value, old, path, run);
    }
    schema.all_of.iter().for_each(|all| rules(all, value, old, path, run));
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let was = old.filter(|_| !is_atomic(schema)).and_then(|old| old.get(name));
                if let Some((field, at)) = below(schema, name, path) {
                    rules(field, value, was, &at, run);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = &schema.items else { return };
            let old = old.and_then(Value::as_array).filter(|_| schema.list_type.as_deref() == Some("map"));
            for (i, element) in list.iter().enumerate() {
                let keys = self_keys(schema, element);
                let was = old.and_then(|old| old.iter().find(|old| self_keys(schema, old) == keys));
                rules(items, element, was, &path.item(i), run);
            }
        }
        _ => {}
    }
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

fn wrong_type(of: Option<Of>, value: &Value, path: &FieldPath<'_>) -> FieldError {
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
    let detail = format!("{path} in body must be of type {wanted}: {found:?}");
    FieldError { field: path.to_string(), fault: FieldFault::TypeInvalid(format!("{found:?}")), detail }
}

fn count(
    schema: &Schema,
    found: usize,
    [least, most]: [&str; 2],
    what: &str,
    value: &Value,
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    let found = found as f64;
    if let Some(least) = schema.bounds.get(least).filter(|least| found < **least) {
        errors.push(FieldError::invalid(
            path.to_string(),
            value,
            format!("{path} in body should have at least {least} {what}"),
        ));
    }
    if let Some(most) = schema.bounds.get(most).filter(|most| found > **most) {
        let what = if *most == 1.0 { "item" } else { "items" };
        let detail = format!("must have at most {most} {what}");
        errors.push(FieldError { field: path.to_string(), fault: FieldFault::TooMany(found.to_string()), detail });
    }
}

/// Returns a duplicate element as upstream shows it: in a list of type map, its keys with their names.
fn shown(schema: &Schema, element: &Value) -> Value {
    match schema.list_type.as_deref() {
        Some("map") => {
            let keys = schema.list_keys.iter();
            keys.filter_map(|key| Some((key.as_str(), element.get(key)?.clone()))).collect()
        }
        _ => element.clone(),
    }
}

fn array(schema: &Schema, list: &[Value], old: Option<&Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    count(schema, list.len(), ["minItems", "maxItems"], "items", &Value::Array(Vec::new()), path, errors);
    let identity = |element: &Value| match schema.list_type.as_deref() {
        Some("map") => Some(schema.list_keys.iter().map(|key| element[key].clone()).collect::<Value>()),
        Some("set") => Some(element.clone()),
        _ => schema.unique.then(|| element.clone()),
    };
    let old = old.and_then(Value::as_array);
    let mut seen: Vec<Value> = Vec::new();
    for (i, element) in list.iter().enumerate() {
        let at = path.item(i);
        let mut was = None;
        if let Some(identity) = identity(element) {
            if seen.contains(&identity) {
                errors.push(FieldError::duplicate(format!("{at:#}"), &shown(schema, element)));
            }
            // Elements of a map list are matched with their old values by their keys.
            if schema.list_type.as_deref() == Some("map") {
                was = old.and_then(|old| old.iter().find(|o| self_keys(schema, o) == identity));
            }
            seen.push(identity);
        }
        if let Some(items) = &schema.items {
            walk(items, element, was, &at, errors);
        }
    }
}

fn self_keys(schema: &Schema, element: &Value) -> Value {
    schema.list_keys.iter().map(|key| element[key].clone()).collect()
}

fn string(schema: &Schema, text: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let (length, value) = (text.chars().count() as f64, Value::from(text));
    if let Some(least) = schema.bounds.get("minLength").filter(|least| length < **least) {
        errors.push(FieldError::invalid(
            path.to_string(),
            &value,
            format!("{path} in body should be at least {least} chars long"),
        ));
    }
    if let Some(most) = schema.bounds.get("maxLength").filter(|most| length > **most) {
        errors.push(FieldError::too_long(path.to_string(), *most as usize));
    }
    if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        errors.push(FieldError::invalid(
            path.to_string(),
            &value,
            format!("{path} in body should match '{}'", pattern.as_str()),
        ));
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
        errors.push(FieldError::invalid(path.to_string(), &value, why));
    }
}

fn bounds(schema: &Schema, number: f64, value: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let (exclusive_least, exclusive_most) = schema.exclusive;
    let mut refuse = |why: String| {
        errors.push(FieldError::invalid(path.to_string(), value, format!("{path} in body should be {why}")))
    };
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

/// Validates `allOf`, `anyOf`, `oneOf` and `not`.
fn combined(schema: &Schema, value: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    for all in &schema.all_of {
        walk(all, value, None, path, errors);
    }
    let holds = |of: &Schema| {
        let mut found = Vec::new();
        walk(of, value, None, path, &mut found);
        found.is_empty()
    };
    let shown = || match value {
        Value::Object(_) => "\"object\"".to_owned(),
        Value::Array(_) => "\"array\"".to_owned(),
        other => other.to_string(),
    };
    let name = Some(path.to_string()).filter(|path| !path.is_empty()).unwrap_or_else(|| "<nil>".to_owned());
    if !schema.any_of.is_empty() && !schema.any_of.iter().any(holds) {
        let why = format!("{name} in body must validate at least one schema (anyOf)");
        errors.push(FieldError::invalid_text(path.to_string(), shown(), why));
    }
    if !schema.one_of.is_empty() {
        let held = schema.one_of.iter().filter(|of| holds(of)).count();
        if held != 1 {
            let why = format!(
                "{name} in body must validate one and only one schema (oneOf). Found {} valid",
                if held == 0 { "none".to_owned() } else { held.to_string() }
            );
            errors.push(FieldError::invalid_text(path.to_string(), shown(), why));
        }
    }
    if schema.not.as_deref().is_some_and(holds) {
        let why = format!("{name} in body must not validate the schema (not)");
        errors.push(FieldError::invalid_text(path.to_string(), shown(), why));
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
        validate(&schema, &value, old.as_ref(), &FieldPath::OBJECT.field("spec"), &mut errors);
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
    fn a_violation_names_its_field(#[case] schema: Value, #[case] value: Value, #[case] wanted: &str) {
        let errors = check(schema.clone(), value.clone(), None);
        assert!(errors.len() == 1 && errors[0].contains(wanted), "{errors:?}");
        // Unchanged invalid values are accepted.
        assert_eq!(check(schema, value.clone(), Some(value)), Vec::<String>::new());
    }

    #[test]
    fn rules_that_compare_hold_for_what_stays_as_it_was_too() {
        let schema = json!({"type": "object", "properties": {"list": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string", "maxLength": 9}, "n": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.n > oldSelf.n", "message": "must grow"}, {"rule": "self.n < 5", "message": "too many"}]}}}});
        let of = |n: i64| json!({"list": [{"k": "a", "n": n}]});
        // A rule about the new value alone is not evaluated for an unchanged value.
        assert_eq!(check(schema.clone(), of(9), Some(of(9))), ["spec.list[0]: Invalid value: must grow"]);
        assert_eq!(check(schema.clone(), of(9), Some(of(8))), ["spec.list[0]: Invalid value: too many"]);
        assert_eq!(check(schema.clone(), of(3), Some(of(2))), Vec::<String>::new());
        // Without an old value it is not evaluated.
        assert_eq!(check(schema, of(3), None), Vec::<String>::new());
    }

    #[test]
    fn rules_name_the_keys_of_maps_in_brackets_and_schemas_do_not() {
        let rule = |rule: &str| json!([{"rule": rule, "message": "wrong", "fieldPath": ".n"}]);
        let values = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 9},
            "list": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}},
            "x-kubernetes-validations": rule("self.n > 3")});
        let schema = json!({"type": "object", "properties": {"map": {"type": "object", "additionalProperties":
            {"type": "object", "additionalProperties": values}}}});
        let of = |value: Value| json!({"map": {"a.b": {"foo": value}}});
        assert_eq!(check(schema.clone(), of(json!({"n": 1})), None), ["spec.map[a.b][foo].n: Invalid value: wrong"]);
        assert_eq!(
            check(schema.clone(), of(json!({"n": 10})), None),
            ["spec.map.a.b.foo.n: Invalid value: 10: spec.map.a.b.foo.n in body should be less than or equal to 9"]
        );
        assert_eq!(
            check(schema, of(json!({"n": 5, "list": ["x", "x"]})), None),
            ["spec.map[a.b][foo].list[1]: Duplicate value: \"x\""]
        );
    }

    #[test]
    fn rules_are_not_asked_about_an_object_that_they_cannot_do_with() {
        let rule = json!([{"rule": "self.n > 3", "message": "too few"}]);
        let schema = json!({"type": "object", "required": ["r"], "x-kubernetes-validations": rule, "properties": {
            "n": {"type": "integer"}, "r": {"type": "string"}, "s": {"type": "string", "enum": ["a"], "maxLength": 1},
            "l": {"type": "array", "maxItems": 1, "items": {"type": "string"}}, "p": {"type": "string", "pattern": "^a$"}}});
        let unchecked = "<nil>: Invalid value: null: some validation rules were not checked because the object was \
                         invalid; correct the existing errors to complete validation";
        for (value, why) in [
            (json!({"n": 1}), "spec.r: Required value"),
            (
                json!({"n": "x", "r": ""}),
                "spec.n: Invalid value: \"string\": spec.n in body must be of type integer: \"string\"",
            ),
            (json!({"n": 1, "r": "", "s": "b"}), "spec.s: Unsupported value: \"b\": supported values: \"a\""),
            (json!({"n": 1, "r": "", "l": ["a", "b"]}), "spec.l: Too many: 2: must have at most 1 item"),
        ] {
            assert_eq!(check(schema.clone(), value, None), [why, unchecked]);
        }
        // Other errors do not prevent the evaluation of rules.
        let value = json!({"n": 1, "r": "", "p": "b"});
        let reported = check(schema, value, None);
        assert_eq!(
            reported,
            ["spec.p: Invalid value: \"b\": spec.p in body should match '^a$'", "spec: Invalid value: too few"]
        );
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
