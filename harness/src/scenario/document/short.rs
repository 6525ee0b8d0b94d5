//! Items of a list of objects: manifests, short forms, repetitions and fragments.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::shapes::one_of;
use crate::scenario::source_span::Spanned;
use crate::scenario::steps::{claim, class, include, pod, repeat};

one_of! {
    /// Short forms that a list of objects can contain beside manifests.
    struct Short {} does Made {
        claim: Claim(claim::Written),
        pod: Pod(pod::Written),
        class: Class(class::Written),
        repeat: Repeat(repeat::Written),
        include: Include(include::Written),
    }
}

/// A text, a number or a boolean, as text.
#[derive(Clone, Debug)]
pub(in crate::scenario) struct Word(pub String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Scalar { is_line: true }).map(Word)
    }
}

/// Reads a text, a number or a boolean as text.
pub(super) struct Scalar {
    /// True if a text must be one line.
    pub(super) is_line: bool,
}

impl Visitor<'_> for Scalar {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a number")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        if self.is_line && text.contains(['\n', '\r']) {
            return Err(E::custom("a value that stands for a variable is one line"));
        }
        Ok(text.to_owned())
    }

    fn visit_bool<E>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }
}

/// An item of a list of objects.
#[derive(Debug)]
pub(in crate::scenario) enum Item {
    Manifest(Map<String, Value>),
    Short(Box<Short>),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = Item;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a manifest, or one of {}", Short::KEYS.join(", "))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Item, A::Error> {
                let first: Option<String> = map.next_key()?;
                let is_short = first.as_deref().is_some_and(|key| Short::KEYS.contains(&key));
                let all = MapAccessDeserializer::new(Again { first, map });
                if is_short {
                    Short::deserialize(all).map(|short| Item::Short(Box::new(short)))
                } else {
                    Map::deserialize(all).map(Item::Manifest)
                }
            }
        }
        deserializer.deserialize_any(Shape)
    }
}

/// A map whose first key was already read.
struct Again<A> {
    first: Option<String>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Again<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(key) => {
                let key: StringDeserializer<A::Error> = key.into_deserializer();
                seed.deserialize(key).map(Some)
            }
            None => self.map.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}
