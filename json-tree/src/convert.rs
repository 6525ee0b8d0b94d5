//! Conversions from Rust's types and to and from `serde_json`, and comparisons with both.

use std::borrow::Cow;

use crate::{Map, Number, Text, Value};

macro_rules! from_integer {
    ($($of:ty),*) => {$(
        impl From<$of> for Value {
            fn from(number: $of) -> Self {
                Self::Number(number.into())
            }
        }

        impl PartialEq<$of> for Value {
            fn eq(&self, other: &$of) -> bool {
                matches!(self, Self::Number(number) if *number == Number::from(*other))
            }
        }

        impl PartialEq<$of> for &Value {
            fn eq(&self, other: &$of) -> bool {
                **self == *other
            }
        }

        impl PartialEq<Value> for $of {
            fn eq(&self, other: &Value) -> bool {
                other == self
            }
        }
    )*};
}

from_integer!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

/// An infinite number or NaN becomes null.
impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Number::from_f64(number).map_or(Self::Null, Self::Number)
    }
}

macro_rules! from {
    ($($of:ty => $kind:ident),*) => {$(
        impl From<$of> for Value {
            fn from(value: $of) -> Self {
                Self::$kind(value.into())
            }
        }
    )*};
}

from!(bool => Bool, Number => Number, &str => String, String => String, &String => String, Text => String,
      Cow<'_, str> => String, Box<str> => String, std::sync::Arc<str> => String, Map => Object);

impl From<&Text> for Value {
    fn from(text: &Text) -> Self {
        Self::String(text.clone())
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(list: Vec<T>) -> Self {
        list.into_iter().collect()
    }
}

impl<T: Clone + Into<Self>> From<&[T]> for Value {
    fn from(list: &[T]) -> Self {
        list.iter().cloned().collect()
    }
}

impl<T: Into<Self>, const N: usize> From<[T; N]> for Value {
    fn from(list: [T; N]) -> Self {
        list.into_iter().collect()
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(list: I) -> Self {
        Self::Array(list.into_iter().map(Into::into).collect())
    }
}

impl<K: Into<Text>, V: Into<Self>> FromIterator<(K, V)> for Value {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        Self::Object(members.into_iter().map(|(name, value)| (name, value.into())).collect())
    }
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(value),
            serde_json::Value::Number(number) => Self::Number(number),
            serde_json::Value::String(text) => Self::String(text.into()),
            serde_json::Value::Array(list) => list.into_iter().collect(),
            serde_json::Value::Object(map) => map.into_iter().collect(),
        }
    }
}

impl From<Value> for serde_json::Value {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::String(text.into()),
            Value::Array(list) => Self::Array(list.into_iter().map(Into::into).collect()),
            Value::Object(map) => {
                Self::Object(map.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
            }
        }
    }
}

impl PartialEq<str> for Value {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<String> for Value {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<Value> for &str {
    fn eq(&self, other: &Value) -> bool {
        other == self
    }
}

impl PartialEq<Value> for str {
    fn eq(&self, other: &Value) -> bool {
        other == self
    }
}

impl PartialEq<Value> for String {
    fn eq(&self, other: &Value) -> bool {
        other == self
    }
}

impl PartialEq<bool> for Value {
    fn eq(&self, other: &bool) -> bool {
        self.as_bool() == Some(*other)
    }
}

impl PartialEq<f64> for Value {
    fn eq(&self, other: &f64) -> bool {
        self.as_f64() == Some(*other)
    }
}
