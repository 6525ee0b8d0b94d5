//! `json!({...})`.

/// A [`Value`](crate::Value) in JSON's own notation; what stands in it and is no JSON is an expression whose
/// value is written by serde. A name is a literal, or an expression in parentheses.
///
/// # Panics
/// When an expression cannot be written as JSON, as a map whose names are no texts.
#[macro_export]
macro_rules! json {
    // All members are there before the first allocation, which has just their size.
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
