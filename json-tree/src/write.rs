//! Serialization of trees to any serde format, and of any serde value to a tree.

use std::fmt::Display;

use serde::ser::{self, Error as _, Serialize, SerializeMap, Serializer};

use crate::{Map, Number, Text, Value};

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(list) => list.serialize(serializer),
            Self::Object(map) => map.serialize(serializer),
        }
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (name, value) in self {
            map.serialize_entry(name.as_str(), value)?;
        }
        map.end()
    }
}

/// Converts `value` to a tree.
///
/// # Errors
/// If a map has keys that are not strings, or a number does not fit.
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value, serde_json::Error> {
    value.serialize(Writer)
}

struct Writer;

type Error = serde_json::Error;

impl Serializer for Writer {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = List;
    type SerializeTuple = List;
    type SerializeTupleStruct = List;
    type SerializeTupleVariant = Tagged<List>;
    type SerializeMap = Members;
    type SerializeStruct = Members;
    type SerializeStructVariant = Tagged<Members>;

    fn serialize_bool(self, value: bool) -> Result<Value, Error> {
        Ok(Value::Bool(value))
    }

    fn serialize_i8(self, value: i8) -> Result<Value, Error> {
        Ok(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<Value, Error> {
        Ok(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<Value, Error> {
        Ok(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<Value, Error> {
        Ok(value.into())
    }

    fn serialize_i128(self, value: i128) -> Result<Value, Error> {
        Number::from_i128(value).map(Value::Number).ok_or_else(|| Error::custom("number out of range"))
    }

    fn serialize_u8(self, value: u8) -> Result<Value, Error> {
        Ok(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<Value, Error> {
        Ok(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<Value, Error> {
        Ok(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<Value, Error> {
        Ok(value.into())
    }

    fn serialize_u128(self, value: u128) -> Result<Value, Error> {
        Number::from_u128(value).map(Value::Number).ok_or_else(|| Error::custom("number out of range"))
    }

    fn serialize_f32(self, value: f32) -> Result<Value, Error> {
        Ok(f64::from(value).into())
    }

    fn serialize_f64(self, value: f64) -> Result<Value, Error> {
        Ok(value.into())
    }

    fn serialize_char(self, value: char) -> Result<Value, Error> {
        Ok(Value::from(value.encode_utf8(&mut [0; 4]) as &str))
    }

    fn serialize_str(self, value: &str) -> Result<Value, Error> {
        Ok(value.into())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Value, Error> {
        Ok(value.into())
    }

    fn serialize_none(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Value, Error> {
        Ok(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        Ok(tagged(variant, to_value(value)?))
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<List, Error> {
        Ok(List(Vec::with_capacity(len.unwrap_or_default())))
    }

    fn serialize_tuple(self, len: usize) -> Result<List, Error> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<List, Error> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Tagged<List>, Error> {
        Ok(Tagged { variant, of: self.serialize_seq(Some(len))? })
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Members, Error> {
        Ok(Members { members: Vec::with_capacity(len.unwrap_or_default()), name: Text::default() })
    }

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Members, Error> {
        self.serialize_map(Some(len))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Tagged<Members>, Error> {
        Ok(Tagged { variant, of: self.serialize_map(Some(len))? })
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<Value, Error> {
        Ok(Value::String(value.to_string().into()))
    }
}

/// Returns serde's form of an enum variant with content.
fn tagged(variant: &'static str, content: Value) -> Value {
    Value::Object(Map::from_iter([(variant, content)]))
}

struct List(Vec<Value>);

impl List {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.0.push(to_value(value)?);
        Ok(())
    }

    fn end(self) -> Value {
        Value::Array(self.0)
    }
}

struct Members {
    members: Vec<(Text, Value)>,
    name: Text,
}

impl Members {
    fn push<T: Serialize + ?Sized>(&mut self, name: Text, value: &T) -> Result<(), Error> {
        self.members.push((name, to_value(value)?));
        Ok(())
    }

    fn end(self) -> Value {
        Value::Object(Map::of(self.members))
    }
}

/// Content of an enum variant.
struct Tagged<T> {
    variant: &'static str,
    of: T,
}

macro_rules! list {
    ($($of:ident $push:ident),*) => {$(
        impl ser::$of for List {
            type Ok = Value;
            type Error = Error;

            fn $push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.push(value)
            }

            fn end(self) -> Result<Value, Error> {
                Ok(Self::end(self))
            }
        }
    )*};
}

list!(SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field);

impl ser::SerializeTupleVariant for Tagged<List> {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.of.push(value)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(tagged(self.variant, self.of.end()))
    }
}

impl SerializeMap for Members {
    type Ok = Value;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, name: &T) -> Result<(), Error> {
        self.name = match to_value(name)? {
            Value::String(name) => name,
            name @ (Value::Number(_) | Value::Bool(_)) => name.to_string().into(),
            _ => return Err(Error::custom("key must be a string")),
        };
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let name = std::mem::take(&mut self.name);
        self.push(name, value)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(Self::end(self))
    }
}

impl ser::SerializeStruct for Members {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.push(Text::new_static(name), value)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(Self::end(self))
    }
}

impl ser::SerializeStructVariant for Tagged<Members> {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.of.push(Text::new_static(name), value)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(tagged(self.variant, self.of.end()))
    }
}
