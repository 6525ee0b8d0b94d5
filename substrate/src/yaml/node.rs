//! A document as a tree with positions.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// A node with its position.
pub(super) struct Node {
    pub what: What,
    /// Its position; for an alias, that of its use.
    pub place: Location,
    /// Position of its definition, for an alias, too.
    pub defined: Location,
}

/// Content of a node. A plain scalar has the type that its text looks like.
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

/// Stack that must be left for one level, in bytes; otherwise more is allocated on the heap.
const ONE_LEVEL: usize = 256 << 10;
/// Size of such an allocation.
const MORE: usize = 2 << 20;

impl<'de> Deserialize<'de> for What {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A level takes 40 kB in a debug build, and a task has 2 MiB.
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
