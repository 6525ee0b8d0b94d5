//! Deserialization of trees from any serde format.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

use crate::{Map, Number, Text, Value};

/// Maximum capacity that is reserved because of a size hint.
const TRUSTED: usize = 64;

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader(None))
    }
}

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(map) => Ok(map),
            _ => Err(D::Error::invalid_type(Unexpected::Other("a value that is not an object"), &"an object")),
        }
    }
}

/// Parses a tree. The flag is true if an object in it has a duplicate name, whose last value counts.
///
/// # Errors
/// The text is not JSON.
pub fn read(text: &str) -> Result<(Value, bool), serde_json::Error> {
    let repeats = Cell::new(false);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Reader(Some(&repeats)).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, repeats.get()))
}

/// Sets the flag, if there is one, at a duplicate name.
#[derive(Clone, Copy)]
struct Reader<'a>(Option<&'a Cell<bool>>);

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        Number::from_i128(value).map(Value::Number).ok_or_else(|| E::custom("JSON number out of range"))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        Number::from_u128(value).map(Value::Number).ok_or_else(|| E::custom("JSON number out of range"))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::with_capacity(items.size_hint().unwrap_or_default().min(TRUSTED));
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut members: Vec<(Text, Value)> = Vec::with_capacity(entries.size_hint().unwrap_or_default().min(TRUSTED));
        while let Some(member) = entries.next_entry_seed(PhantomData::<Text>, self)? {
            members.push(member);
        }
        let named = members.len();
        let map = Map::of(members);
        if let Some(repeats) = self.0
            && map.len() < named
        {
            repeats.set(true);
        }
        Ok(Value::Object(map))
    }
}
