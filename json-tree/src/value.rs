//! One value.

use std::fmt;

use crate::{Index, Map, Number, Text};

/// A JSON value.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number: a signed or unsigned 64-bit integer, or a double.
    Number(Number),
    /// A string.
    String(Text),
    /// A list.
    Array(Vec<Self>),
    /// An object.
    Object(Map),
}

impl Value {
    /// Returns the member or item at `index`.
    pub fn get<I: Index + ?Sized>(&self, index: &I) -> Option<&Self> {
        index.of(self)
    }

    /// Returns the member or item at `index`, mutable.
    pub fn get_mut<I: Index + ?Sized>(&mut self, index: &I) -> Option<&mut Self> {
        index.of_mut(self)
    }

    /// Returns the value at a JSON pointer (RFC 6901).
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        let mut at = self;
        for token in tokens(pointer)? {
            at = match at {
                Self::Object(map) => map.get(&token)?,
                Self::Array(list) => list.get(item(&token)?)?,
                _ => return None,
            };
        }
        Some(at)
    }

    /// Returns the value at a JSON pointer, mutable.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        let mut at = self;
        for token in tokens(pointer)? {
            at = match at {
                Self::Object(map) => map.get_mut(&token)?,
                Self::Array(list) => list.get_mut(item(&token)?)?,
                _ => return None,
            };
        }
        Some(at)
    }

    /// Takes the value and leaves null.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Returns true for null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns true for a boolean.
    pub fn is_boolean(&self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// Returns true for a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// Returns true for an integer that fits an `i64`.
    pub fn is_i64(&self) -> bool {
        matches!(self, Self::Number(n) if n.is_i64())
    }

    /// Returns true for an integer that fits a `u64`.
    pub fn is_u64(&self) -> bool {
        matches!(self, Self::Number(n) if n.is_u64())
    }

    /// Returns true for a number with a fraction or an exponent.
    pub fn is_f64(&self) -> bool {
        matches!(self, Self::Number(n) if n.is_f64())
    }

    /// Returns true for a string.
    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// Returns true for a list.
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// Returns true for an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Returns the boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the number as an `i64`, if it is an integer that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(n) => n.as_i64(),
            _ => None,
        }
    }

    /// Returns the number as a `u64`, if it is an integer that fits.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(n) => n.as_u64(),
            _ => None,
        }
    }

    /// Returns the number as a double.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(n) => n.as_f64(),
            _ => None,
        }
    }

    /// Returns the string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the list.
    pub fn as_array(&self) -> Option<&Vec<Self>> {
        match self {
            Self::Array(list) => Some(list),
            _ => None,
        }
    }

    /// Returns the list, mutable.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Self>> {
        match self {
            Self::Array(list) => Some(list),
            _ => None,
        }
    }

    /// Returns the object.
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the object, mutable.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }
}

/// Returns the unescaped tokens of a JSON pointer; `None` unless it is empty or begins with a slash.
fn tokens(pointer: &str) -> Option<impl Iterator<Item = String>> {
    let rest = if pointer.is_empty() { None } else { Some(pointer.strip_prefix('/')?) };
    Some(rest.into_iter().flat_map(|rest| rest.split('/')).map(|token| token.replace("~1", "/").replace("~0", "~")))
}

/// Parses the index of a list: digits without a sign or leading zeros.
fn item(token: &str) -> Option<usize> {
    if token.starts_with('+') || (token.starts_with('0') && token.len() != 1) {
        return None;
    }
    token.parse().ok()
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bool(value) => write!(f, "Bool({value})"),
            Self::Number(number) => fmt::Debug::fmt(number, f),
            Self::String(text) => write!(f, "String({text:?})"),
            Self::Array(list) => {
                f.write_str("Array ")?;
                fmt::Debug::fmt(list, f)
            }
            Self::Object(map) => {
                f.write_str("Object ")?;
                fmt::Debug::fmt(map, f)
            }
        }
    }
}

/// Formats as JSON text: compact, or indented by two spaces with `{:#}`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if f.alternate() { serde_json::to_string_pretty(self) } else { serde_json::to_string(self) };
        f.write_str(&text.map_err(|_| fmt::Error)?)
    }
}
