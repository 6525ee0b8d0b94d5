//! `json!({...})`.

/// A [`Value`](crate::json::Value) in JSON's own notation; what stands in it and is no JSON is an expression whose
/// value is written by serde. A name is a literal, or an expression in parentheses.
///
/// # Panics
/// When an expression cannot be written as JSON, as a map whose names are no texts.
#[macro_export]
#[doc(hidden)]
macro_rules! json_tree {
    // All members are there before the first allocation, which has just their size.
    (@members [ $($done:tt)* ]) => { $crate::json::Map::of(::std::vec![ $($done)* ]) };
    (@members [ $($done:tt)* ] $name:tt : null $(, $($rest:tt)*)?) => {
        $crate::json_tree!(@members [ $($done)* ($name.into(), $crate::json::Value::Null), ] $($($rest)*)?)
    };
    (@members [ $($done:tt)* ] $name:tt : { $($value:tt)* } $(, $($rest:tt)*)?) => {
        $crate::json_tree!(@members [ $($done)* ($name.into(), $crate::json_tree!({ $($value)* })), ] $($($rest)*)?)
    };
    (@members [ $($done:tt)* ] $name:tt : [ $($value:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::json_tree!(@members [ $($done)* ($name.into(), $crate::json_tree!([ $($value)* ])), ] $($($rest)*)?)
    };
    (@members [ $($done:tt)* ] $name:tt : $value:expr $(, $($rest:tt)*)?) => {
        $crate::json_tree!(@members [ $($done)* ($name.into(), $crate::json_tree!($value)), ] $($($rest)*)?)
    };
    (@items [ $($done:tt)* ]) => { ::std::vec![ $($done)* ] };
    (@items [ $($done:tt)* ] null $(, $($rest:tt)*)?) => {
        $crate::json_tree!(@items [ $($done)* $crate::json::Value::Null, ] $($($rest)*)?)
    };
    (@items [ $($done:tt)* ] { $($value:tt)* } $(, $($rest:tt)*)?) => {
        $crate::json_tree!(@items [ $($done)* $crate::json_tree!({ $($value)* }), ] $($($rest)*)?)
    };
    (@items [ $($done:tt)* ] [ $($value:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::json_tree!(@items [ $($done)* $crate::json_tree!([ $($value)* ]), ] $($($rest)*)?)
    };
    (@items [ $($done:tt)* ] $value:expr $(, $($rest:tt)*)?) => {
        $crate::json_tree!(@items [ $($done)* $crate::json_tree!($value), ] $($($rest)*)?)
    };
    (null) => { $crate::json::Value::Null };
    ([]) => { $crate::json::Value::Array(::std::vec::Vec::new()) };
    ([ $($items:tt)+ ]) => { $crate::json::Value::Array($crate::json_tree!(@items [] $($items)+)) };
    ({}) => { $crate::json::Value::Object($crate::json::Map::new()) };
    ({ $($members:tt)+ }) => { $crate::json::Value::Object($crate::json_tree!(@members [] $($members)+)) };
    ($value:expr) => {
        match $crate::json::to_value(&$value) {
            Ok(value) => value,
            Err(error) => panic!("no JSON: {error}"),
        }
    };
}
