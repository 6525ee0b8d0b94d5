//! `json!({...})`.

/// A [`Value`](crate::json::Value) in JSON's own notation; what stands in it and is no JSON is an expression whose
/// value is written by serde. A name is a literal, or an expression in parentheses.
///
/// # Panics
/// When an expression cannot be written as JSON, as a map whose names are no texts.
#[macro_export]
#[doc(hidden)]
macro_rules! json_tree {
    (@member $map:ident) => {};
    (@member $map:ident $name:tt : null $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::json::Value::Null);
        $crate::json_tree!(@member $map $($($rest)*)?);
    };
    (@member $map:ident $name:tt : { $($value:tt)* } $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::json_tree!({ $($value)* }));
        $crate::json_tree!(@member $map $($($rest)*)?);
    };
    (@member $map:ident $name:tt : [ $($value:tt)* ] $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::json_tree!([ $($value)* ]));
        $crate::json_tree!(@member $map $($($rest)*)?);
    };
    (@member $map:ident $name:tt : $value:expr $(, $($rest:tt)*)?) => {
        $map.insert($name, $crate::json_tree!($value));
        $crate::json_tree!(@member $map $($($rest)*)?);
    };
    (@item $list:ident) => {};
    (@item $list:ident null $(, $($rest:tt)*)?) => {
        $list.push($crate::json::Value::Null);
        $crate::json_tree!(@item $list $($($rest)*)?);
    };
    (@item $list:ident { $($value:tt)* } $(, $($rest:tt)*)?) => {
        $list.push($crate::json_tree!({ $($value)* }));
        $crate::json_tree!(@item $list $($($rest)*)?);
    };
    (@item $list:ident [ $($value:tt)* ] $(, $($rest:tt)*)?) => {
        $list.push($crate::json_tree!([ $($value)* ]));
        $crate::json_tree!(@item $list $($($rest)*)?);
    };
    (@item $list:ident $value:expr $(, $($rest:tt)*)?) => {
        $list.push($crate::json_tree!($value));
        $crate::json_tree!(@item $list $($($rest)*)?);
    };
    (null) => { $crate::json::Value::Null };
    ([]) => { $crate::json::Value::Array(::std::vec::Vec::new()) };
    ([ $($items:tt)+ ]) => {{
        let mut list = ::std::vec::Vec::new();
        $crate::json_tree!(@item list $($items)+);
        $crate::json::Value::Array(list)
    }};
    ({}) => { $crate::json::Value::Object($crate::json::Map::new()) };
    ({ $($members:tt)+ }) => {{
        let mut map = $crate::json::Map::new();
        $crate::json_tree!(@member map $($members)+);
        $crate::json::Value::Object(map)
    }};
    ($value:expr) => {
        match $crate::json::to_value(&$value) {
            Ok(value) => value,
            Err(error) => panic!("no JSON: {error}"),
        }
    };
}
