//! JSON of the program's own data: orders, reports, records.
//!
//! Encoding them cannot fail, unless a type is wrong: a map whose keys are not texts, or a `Serialize` that returns an
//! error. Such a bug panics at the caller's line. Otherwise an empty text would be sent as an order or a report.

use serde::Serialize;
use serde_json::Value;

/// Encodes on one line.
///
/// # Panics
/// If the type cannot be encoded.
#[track_caller]
pub fn text<T: Serialize + ?Sized>(value: &T) -> String {
    sound(serde_json::to_string(value))
}

/// Encodes on one line with a newline.
///
/// # Panics
/// If the type cannot be encoded.
#[track_caller]
pub fn line<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut line = sound(serde_json::to_vec(value));
    line.push(b'\n');
    line
}

/// Encodes indented, with a newline at the end.
///
/// # Panics
/// If the type cannot be encoded.
#[track_caller]
pub fn pretty<T: Serialize + ?Sized>(value: &T) -> String {
    sound(serde_json::to_string_pretty(value)) + "\n"
}

/// Converts to a tree.
///
/// # Panics
/// If the type cannot be encoded.
#[track_caller]
pub fn tree<T: Serialize + ?Sized>(value: &T) -> Value {
    sound(serde_json::to_value(value))
}

#[track_caller]
fn sound<T>(encoded: Result<T, serde_json::Error>) -> T {
    match encoded {
        Ok(encoded) => encoded,
        Err(error) => panic!("data of the program is not JSON: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn data_is_encoded_in_four_forms() {
        let data = BTreeMap::from([("a", 1)]);
        assert_eq!((text(&data).as_str(), line(&data).as_slice()), ("{\"a\":1}", b"{\"a\":1}\n".as_slice()));
        assert_eq!((pretty(&data).as_str(), tree(&data)), ("{\n  \"a\": 1\n}\n", serde_json::json!({ "a": 1 })));
    }

    #[test]
    #[should_panic(expected = "data of the program is not JSON: key must be a string")]
    fn a_type_that_is_not_json_is_a_mistake_that_shows() {
        line(&BTreeMap::from([(vec![1], 1)]));
    }
}
