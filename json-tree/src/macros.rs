//! `json!({...})`.

/// Builds a [`Value`](crate::Value) from JSON notation. Anything that is not JSON is an expression, whose value is
/// serialized. A name is a literal, or an expression in parentheses.
///
/// # Panics
/// If an expression cannot be serialized as JSON, such as a map whose keys are not strings.
#[macro_export]
macro_rules! json {
    // All members are known before the allocation, which has exactly their size.
    (@members [ $($done:tt)* ]) => { $crate::Map::of(::std::vec![ $($done)* ]) };
    (@members [ $($done:tt)* ] $name:tt : null $(, $($rest:tt)*)?) => {
        $crate::json!(@members [ $($done)* ($name.into(), $crate::Value::Null), ] $($($rest)*)?)
    };
    (@members [ $($done:tt)* ] $name:tt : { $($value:tt)* } $(, $($rest:tt)*)?) => {
        $crate::json!(@members [ $($done)* ($name.into(), $crate::json!({ $($value)* })), ] $($($rest)*)?)
    };
    (@members [ $($done:tt)* ] $name:tt : [ $($value:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::json!(@members [ $($done)* ($name.into(), $crate::json!([ $($value)* ])), ] $($($rest)*)?)
    };
    (@members [ $($done:tt)* ] $name:tt : $value:expr $(, $($rest:tt)*)?) => {
        $crate::json!(@members [ $($done)* ($name.into(), $crate::json!($value)), ] $($($rest)*)?)
    };
    (@items [ $($done:tt)* ]) => { ::std::vec![ $($done)* ] };
    (@items [ $($done:tt)* ] null $(, $($rest:tt)*)?) => {
        $crate::json!(@items [ $($done)* $crate::Value::Null, ] $($($rest)*)?)
    };
    (@items [ $($done:tt)* ] { $($value:tt)* } $(, $($rest:tt)*)?) => {
        $crate::json!(@items [ $($done)* $crate::json!({ $($value)* }), ] $($($rest)*)?)
    };
    (@items [ $($done:tt)* ] [ $($value:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::json!(@items [ $($done)* $crate::json!([ $($value)* ]), ] $($($rest)*)?)
    };
    (@items [ $($done:tt)* ] $value:expr $(, $($rest:tt)*)?) => {
        $crate::json!(@items [ $($done)* $crate::json!($value), ] $($($rest)*)?)
    };
    (null) => { $crate::Value::Null };
    ([]) => { $crate::Value::Array(::std::vec::Vec::new()) };
    ([ $($items:tt)+ ]) => { $crate::Value::Array($crate::json!(@items [] $($items)+)) };
    ({}) => { $crate::Value::Object($crate::Map::new()) };
    ({ $($members:tt)+ }) => { $crate::Value::Object($crate::json!(@members [] $($members)+)) };
    ($value:expr) => {
        match $crate::to_value(&$value) {
            Ok(value) => value,
            Err(error) => panic!("no JSON: {error}"),
        }
    };
}
