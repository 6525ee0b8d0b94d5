//! Type check of the result of a strategic merge patch, with the messages of Go's converter from unstructured objects
//! (apimachinery `pkg/runtime/converter.go`). Upstream converts the patched object; its JSON decoder never sees it.

use substrate::json::Value;

use crate::kinds::Kind;
use crate::kinds::schema::{self, Shape, Type};

/// Checks that every value of an object has the type of its field.
///
/// # Errors
/// The first mismatch in the order of Go's fields, in Go's words, without its path.
pub(super) fn restorable(kind: &Kind, object: &Value) -> Result<(), String> {
    schema::built_in(kind).map_or(Ok(()), |of| structure(of, object))
}

/// Returns Go's name of the kind of a value in an unstructured object.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

fn structure(of: &Type, value: &Value) -> Result<(), String> {
    let Some(map) = value.as_object() else { return Err(format!("cannot restore struct from: {}", kind_of(value))) };
    for field in &of.fields {
        if let Some(value) = map.get(&field.name) {
            shaped(&field.shape, value)?;
        }
    }
    Ok(())
}

fn shaped(shape: &Shape, value: &Value) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    match shape {
        Shape::Ref(of) => structure(of.get(), value),
        Shape::Custom(of) => structure(of, value),
        Shape::Map(values) => match value.as_object() {
            Some(map) => map.iter().try_for_each(|(_, value)| shaped(values, value)),
            None => Err(format!("cannot restore map from {}", kind_of(value))),
        },
        Shape::List(element) => match value.as_array() {
            Some(list) => list.iter().try_for_each(|value| shaped(element, value)),
            None => Err(format!("cannot restore slice from {}", kind_of(value))),
        },
        Shape::Bytes if !value.is_string() => Err(format!("cannot restore slice from {}", kind_of(value))),
        Shape::String => scalar("string", value),
        Shape::Boolean => scalar("bool", value),
        Shape::Int32 => scalar("int32", value),
        Shape::Int64 => scalar("int64", value),
        Shape::Number => scalar("float64", value),
        // These types parse JSON themselves, with the messages of the decoder.
        _ => Ok(()),
    }
}

fn scalar(to: &str, value: &Value) -> Result<(), String> {
    let from = kind_of(value);
    let is_whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
    match (from, to) {
        ("string", "string") | ("bool", "bool") | ("int64", "int32" | "int64" | "float64") => Ok(()),
        ("float64", "float64") => Ok(()),
        ("float64", "int32" | "int64") if is_whole => Ok(()),
        // Go could convert these, but the converter refuses.
        ("int64", "string") | ("float64", "int32" | "int64") => Err(format!("cannot convert {from} to {to}")),
        _ => Err(format!("unrecognized type: {to}")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;
    use crate::kinds;

    #[rstest]
    #[case(json!({"metadata": {"labels": "x"}}), "cannot restore map from string")]
    #[case(json!({"metadata": {"labels": ["x"]}}), "cannot restore map from slice")]
    #[case(json!({"metadata": {"labels": {"a": 1}}}), "cannot convert int64 to string")]
    #[case(json!({"metadata": {"labels": {"a": true}}}), "unrecognized type: string")]
    #[case(json!({"metadata": {"finalizers": {}}}), "cannot restore slice from map")]
    #[case(json!({"metadata": 7}), "cannot restore struct from: int64")]
    #[case(json!({"spec": {"containers": [true]}}), "cannot restore struct from: bool")]
    #[case(json!({"spec": {"hostNetwork": "yes"}}), "unrecognized type: bool")]
    #[case(json!({"spec": {"priority": 1.5}}), "cannot convert float64 to int32")]
    #[case(json!({"spec": {"priority": "1"}}), "unrecognized type: int32")]
    fn a_value_of_another_kind_is_refused_in_gos_words(#[case] object: Value, #[case] why: &str) {
        let pod = kinds::find("", "v1", "pods").unwrap();
        assert_eq!(restorable(pod, &object), Err(why.to_owned()));
    }

    #[test]
    fn a_valid_pod_is_restored() {
        let pod = kinds::find("", "v1", "pods").unwrap();
        let object = json!({"metadata": {"labels": {"a": "b", "n": null}, "creationTimestamp": null}, "spec":
            {"priority": 2.0, "containers": [{"name": "c", "resources": {"limits": {"cpu": 1}}}]}});
        assert_eq!(restorable(pod, &object), Ok(()));
    }
}
