//! Written form of a program of the user.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

use super::short::Scalar;
use crate::scenario::source_span::Spanned;

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Program {
    pub name: Spanned<String>,
    pub command: Spanned<Vec<Spanned<Argument>>>,
    #[serde(default)]
    pub env: BTreeMap<String, Spanned<Argument>>,
    pub replaces: Option<Spanned<Replaced>>,
}

/// `csi-attacher`, or a list of components.
#[derive(Debug)]
pub(in crate::scenario) enum Replaced {
    One(String),
    Many(Vec<Spanned<String>>),
}

impl<'de> Deserialize<'de> for Replaced {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = Replaced;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a component or a list of them")
            }

            fn visit_str<E>(self, name: &str) -> Result<Replaced, E> {
                Ok(Replaced::One(name.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Replaced, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Replaced::Many)
            }
        }
        deserializer.deserialize_any(Shape)
    }
}

/// A text of any number of lines, a number or a boolean, as text.
#[derive(Debug)]
pub(in crate::scenario) struct Argument(pub String);

impl<'de> Deserialize<'de> for Argument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Scalar { is_line: false }).map(Argument)
    }
}
