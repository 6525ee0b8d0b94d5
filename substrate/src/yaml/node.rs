//! A document as a tree that remembers places.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// A node, and where it is.
pub(super) struct Node {
    pub what: What,
    /// Where it is written; for an alias, where it is used.
    pub place: Location,
    /// Where it is written, for an alias too.
    pub defined: Location,
}

/// What a node is. A plain scalar is what it looks like.
pub(super) enum What {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Spanned::<What>::deserialize(deserializer)?;
        Ok(Self { what: read.value, place: read.referenced, defined: read.defined })
    }
}

/// So much stack must be there for one level, in bytes; else more is taken from the heap.
const ONE_LEVEL: usize = 256 << 10;
/// How much is taken at once.
const MORE: usize = 2 << 20;

impl<'de> Deserialize<'de> for What {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A level takes 40 kB in a build for debugging, and a task has 2 MiB.
        stacker::maybe_grow(ONE_LEVEL, MORE, || deserializer.deserialize_any(Any))
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = What;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<What, E> {
        Ok(What::Bool(value))
    }

    fn visit_u64<E>(self, number: u64) -> Result<What, E> {
        Ok(What::Unsigned(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<What, E> {
        Ok(What::Signed(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<What, E> {
        Ok(What::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<What, E> {
        Ok(What::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<What, E> {
        Ok(What::Text(text))
    }

    fn visit_unit<E>(self) -> Result<What, E> {
        Ok(What::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<What, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = from.next_element()? {
            list.push(node);
        }
        Ok(What::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<What, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = from.next_key()? {
            map.push((key, from.next_value()?));
        }
        Ok(What::Map(map))
    }
}
