//! Short forms of common objects, and items that expand to several: repetitions and fragments.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde_json::{Map, Value};
use substrate::fault::Span;

use super::shapes::one_of;
use crate::scenario::source_span::Spanned;

one_of! {
    /// Short forms that a list of objects can contain beside manifests.
    struct Short {} does Made {
        claim: Claim(Claim),
        pod: Pod(Pod),
        class: Class(Class),
        repeat: Repeat(Repeat),
        include: Include(Include),
    }
}

/// A claim.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Claim {
    pub name: Spanned<String>,
    pub namespace: Option<String>,
    pub size: Option<Spanned<String>>,
    pub class: Option<String>,
    pub mode: Option<AccessMode>,
    #[serde(default)]
    pub block: bool,
    pub volume: Option<String>,
}

/// Access modes, with Kubernetes' names.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[expect(clippy::enum_variant_names, reason = "they are called so")]
pub(in crate::scenario) enum AccessMode {
    ReadWriteOnce,
    ReadOnlyMany,
    ReadWriteMany,
    ReadWriteOncePod,
}

/// A pod that writes to claims.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Pod {
    pub name: Spanned<String>,
    pub namespace: Option<String>,
    pub claim: Option<String>,
    #[serde(default)]
    pub claims: Vec<String>,
    #[serde(default)]
    pub block: bool,
    pub node: Option<Spanned<String>>,
    pub grace: Option<Span>,
    #[serde(default)]
    pub tolerate: bool,
}

/// A storage class of the driver.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Class {
    pub name: Spanned<String>,
    pub binding: Option<Binding>,
    pub reclaim: Option<Reclaim>,
    pub expand: Option<bool>,
    #[serde(default)]
    pub parameters: Map<String, Value>,
}

/// A snapshot of a claim.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Snapshot {
    pub name: Spanned<String>,
    pub namespace: Option<String>,
    pub claim: Spanned<String>,
    pub class: Option<String>,
}

/// Binding modes of a class, with Kubernetes' names.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub(in crate::scenario) enum Binding {
    WaitForFirstConsumer,
    Immediate,
}

/// Reclaim policies of a class, with Kubernetes' names.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub(in crate::scenario) enum Reclaim {
    Delete,
    Retain,
}

/// Repeats the items of a list, with a variable in their text.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Repeat {
    pub count: Option<Spanned<u32>>,
    pub each: Option<Spanned<Vec<Word>>>,
    #[serde(rename = "as")]
    pub variable: Spanned<String>,
    #[serde(rename = "do")]
    pub body: Spanned<IgnoredAny>,
}

/// Includes the items of another file.
#[derive(Debug)]
pub(in crate::scenario) struct Include {
    pub file: String,
    pub with: Vec<(String, Word)>,
}

/// A text, a number or a boolean, as text.
#[derive(Clone, Debug)]
pub(in crate::scenario) struct Word(pub String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;
        impl Visitor<'_> for Shape {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Word, E> {
                if text.contains(['\n', '\r']) {
                    return Err(E::custom("a value that stands for a variable is one line"));
                }
                Ok(Word(text.to_owned()))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Word, E> {
                Ok(Word(value.to_string()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Word, E> {
                Ok(Word(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Word, E> {
                Ok(Word(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Word, E> {
                Ok(Word(value.to_string()))
            }
        }
        deserializer.deserialize_any(Shape)
    }
}

impl<'de> Deserialize<'de> for Include {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// `{file: two-pods.yaml, with: {node: node-a}}`.
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        struct Long {
            file: String,
            #[serde(default)]
            with: std::collections::BTreeMap<String, Word>,
        }
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = Include;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the path of a file or {file: PATH, with: {VARIABLE: VALUE}}")
            }

            fn visit_str<E>(self, text: &str) -> Result<Include, E> {
                Ok(Include { file: text.to_owned(), with: Vec::new() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Include, A::Error> {
                let Long { file, with } = Long::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Include { file, with: with.into_iter().collect() })
            }
        }
        deserializer.deserialize_any(Shape)
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
