//! Static types of expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::super::library::time;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Any type, known at evaluation only.
    Dyn,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `uint`.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// A list of a type.
    List(Box<Type>),
    /// A map with a key type and a value type.
    Map(Box<Type>, Box<Type>),
    /// An object with exactly these fields.
    Object(Arc<BTreeMap<String, Type>>),
    /// An optional value of a type.
    Optional(Box<Type>),
    /// A type itself.
    Of(Box<Type>),
    /// A type that only functions can look into.
    Opaque(&'static str),
    /// A type parameter of a signature: the same type at each place. [`FREE`] is the element type of an empty list,
    /// which matches any type.
    Param(char),
}

/// Type of the elements of an empty list.
pub(super) const FREE: Type = Type::Param('?');

/// Types of the libraries, with their names in messages.
const OPAQUE: &[(&str, &str)] = &[
    ("URL", "kubernetes.URL"),
    ("IP", "net.IP"),
    ("CIDR", "net.CIDR"),
    ("Quantity", "kubernetes.Quantity"),
    ("Semver", "kubernetes.Semver"),
    ("Format", "kubernetes.NamedFormat"),
    ("Authorizer", "kubernetes.authorization.Authorizer"),
    ("PathCheck", "kubernetes.authorization.PathCheck"),
    ("GroupCheck", "kubernetes.authorization.GroupCheck"),
    ("ResourceCheck", "kubernetes.authorization.ResourceCheck"),
    ("Decision", "kubernetes.authorization.Decision"),
    ("Timestamp", time::TIMESTAMP),
    ("Duration", time::DURATION),
];

impl Type {
    /// The variable `authorizer`.
    pub const AUTHORIZER: Self = Self::Opaque("kubernetes.authorization.Authorizer");
    /// `authorizer.requestResource`.
    pub const REQUEST_RESOURCE: Self = Self::Opaque("kubernetes.authorization.ResourceCheck");
    /// Type of points in time.
    pub const TIMESTAMP: Self = Self::Opaque(time::TIMESTAMP);
    /// Type of durations.
    pub const DURATION: Self = Self::Opaque(time::DURATION);

    /// Returns a list type.
    pub fn list(of: Self) -> Self {
        Self::List(Box::new(of))
    }

    /// Returns a map type.
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Box::new(key), Box::new(value))
    }

    /// Parses a type of a signature.
    pub(super) fn parse(text: &str) -> Self {
        let text = text.trim();
        if let Some((name, rest)) = text.split_once('(') {
            let within = split(rest.strip_suffix(')').unwrap_or(rest));
            let at = |i: usize| Box::new(within.get(i).map_or(Self::Dyn, |part| Self::parse(part)));
            return match name {
                "list" => Self::List(at(0)),
                "map" => Self::Map(at(0), at(1)),
                "optional" => Self::Optional(at(0)),
                _ => Self::Of(at(0)),
            };
        }
        match text {
            "null" => Self::Null,
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "A" | "B" | "?" => Self::Param(text.chars().next().unwrap_or('A')),
            _ => OPAQUE.iter().find(|(short, _)| *short == text).map_or(Self::Dyn, |(_, name)| Self::Opaque(name)),
        }
    }

    /// Returns true if values of the type have no parts and no size.
    pub(super) fn is_scalar(&self) -> bool {
        matches!(self, Self::Bool | Self::Int | Self::Uint | Self::Double)
    }

    /// Replaces the known parameters.
    fn with(&self, known: &BTreeMap<char, Self>) -> Self {
        match self {
            Self::Param('?') => FREE,
            Self::Param(name) => known.get(name).cloned().unwrap_or(Self::Dyn),
            Self::List(of) => Self::list(of.with(known)),
            Self::Map(key, value) => Self::map(key.with(known), value.with(known)),
            Self::Optional(of) => Self::Optional(Box::new(of.with(known))),
            Self::Of(of) => Self::Of(Box::new(of.with(known))),
            other => other.clone(),
        }
    }
}

/// Splits a list of types.
pub(super) fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_usize, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    if !text.trim().is_empty() {
        parts.push(&text[start..]);
    }
    parts
}

/// Returns true if a value of type `given` can be used as `wanted`; adds the parameters of `wanted` to `known`.
pub(super) fn fits(wanted: &Type, given: &Type, known: &mut BTreeMap<char, Type>) -> bool {
    match (wanted, given) {
        (Type::Param(name), given) => match known.get(name).cloned() {
            None => {
                known.insert(*name, given.clone());
                true
            }
            Some(before) => {
                let both = join(&before, given);
                let same = both.is_some();
                known.extend(both.map(|both| (*name, both)));
                same
            }
        },
        (Type::Dyn, _) | (_, Type::Dyn) | (_, Type::Param(_)) => true,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) | (Type::Of(a), Type::Of(b)) => {
            fits(a, b, known)
        }
        (Type::Map(a, b), Type::Map(c, d)) => fits(a, c, known) && fits(b, d, known),
        (Type::Object(_) | Type::Opaque(_) | Type::Optional(_), Type::Null) => true,
        (a, b) => a == b,
    }
}

/// Returns the common type of two types; `None` if no value has both.
pub(super) fn join(a: &Type, b: &Type) -> Option<Type> {
    Some(match (a, b) {
        (Type::Param(_), other) | (other, Type::Param(_)) => other.clone(),
        (Type::Dyn, _) | (_, Type::Dyn) => Type::Dyn,
        (Type::List(a), Type::List(b)) => Type::list(join(a, b)?),
        (Type::Optional(a), Type::Optional(b)) => Type::Optional(Box::new(join(a, b)?)),
        (Type::Of(a), Type::Of(b)) => Type::Of(Box::new(join(a, b).unwrap_or(Type::Dyn))),
        (Type::Map(a, b), Type::Map(c, d)) => Type::map(join(a, c)?, join(b, d)?),
        (Type::Object(_) | Type::Opaque(_) | Type::Optional(_), Type::Null) => a.clone(),
        (Type::Null, Type::Object(_) | Type::Opaque(_) | Type::Optional(_)) => b.clone(),
        (a, b) if a == b => a.clone(),
        _ => return None,
    })
}

/// Returns the result type of a signature with known parameters.
pub(super) fn given(result: &Type, known: &BTreeMap<char, Type>) -> Type {
    result.with(known)
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dyn => "dyn",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Object(_) => "object",
            Self::Opaque(name) => name,
            Self::Param('?') => "dyn",
            Self::Param(name) => return write!(f, "{name}"),
            Self::List(of) => return write!(f, "list({of})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Optional(of) => return write!(f, "optional_type({of})"),
            Self::Of(of) => return write!(f, "type({of})"),
        })
    }
}
