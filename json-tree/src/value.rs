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
    /// A number: an integer of 64 bits with or without sign, or a double.
    Number(Number),
    /// A text.
    String(Text),
    /// A list.
    Array(Vec<Self>),
    /// An object.
    Object(Map),
}

impl Value {
    /// The member or item at `index`.
    pub fn get<I: Index + ?Sized>(&self, index: &I) -> Option<&Self> {
        index.of(self)
    }

    /// The same, to change it.
    pub fn get_mut<I: Index + ?Sized>(&mut self, index: &I) -> Option<&mut Self> {
        index.of_mut(self)
    }

    /// The value that a JSON pointer (RFC 6901) leads to.
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

    /// The same, to change it.
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

    /// It is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// It is a boolean.
    pub fn is_boolean(&self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// It is a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// It is an integer that an `i64` holds.
    pub fn is_i64(&self) -> bool {
        matches!(self, Self::Number(n) if n.is_i64())
    }

    /// It is an integer that a `u64` holds.
    pub fn is_u64(&self) -> bool {
        matches!(self, Self::Number(n) if n.is_u64())
    }

    /// It is a number that was written with a fraction or an exponent.
    pub fn is_f64(&self) -> bool {
        matches!(self, Self::Number(n) if n.is_f64())
    }

    /// It is a text.
    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// It is a list.
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// It is an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// The boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number, as an `i64` when it is an integer that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(n) => n.as_i64(),
            _ => None,
        }
    }

    /// The number, as a `u64` when it is an integer that fits.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(n) => n.as_u64(),
            _ => None,
        }
    }

    /// The number as a double.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(n) => n.as_f64(),
            _ => None,
        }
    }

    /// The text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The list.
    pub fn as_array(&self) -> Option<&Vec<Self>> {
        match self {
            Self::Array(list) => Some(list),
            _ => None,
        }
    }

    /// The same, to change it.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Self>> {
        match self {
            Self::Array(list) => Some(list),
            _ => None,
        }
    }

    /// The object.
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    /// The same, to change it.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }
}

/// The tokens of a JSON pointer, unescaped; none when it is not empty and does not begin with a slash.
fn tokens(pointer: &str) -> Option<impl Iterator<Item = String>> {
    let rest = if pointer.is_empty() { None } else { Some(pointer.strip_prefix('/')?) };
    Some(rest.into_iter().flat_map(|rest| rest.split('/')).map(|token| token.replace("~1", "/").replace("~0", "~")))
}

/// An index of a list: digits without a sign or leading zeros.
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

/// JSON text: compact, or with two spaces of indentation by `{:#}`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if f.alternate() { serde_json::to_string_pretty(self) } else { serde_json::to_string(self) };
        f.write_str(&text.map_err(|_| fmt::Error)?)
    }
}
