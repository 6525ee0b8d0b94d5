//! Deserialization of types from a tree, by the parser's rules.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use serde::de::value::U64Deserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde_saphyr::{Error, Location};

use super::errors::{at, inside, is_structural};
use super::node::{Node, What};
use super::scalar;
use crate::words;

/// See [`super::WITH_PLACE`].
pub(super) const PLACED: &str = "a value with its place";

/// State that all nodes of a document share.
pub(super) struct Document<'t> {
    text: &'t str,
    is_strict: bool,
    /// Position for an error that a type reports: the last key or item.
    last: Cell<Location>,
    /// The innermost node that the last error is about; null at the top.
    failed: Cell<*const Node>,
    /// Nodes that are skipped as if they were absent.
    left_out: RefCell<BTreeSet<*const Node>>,
}

impl<'t> Document<'t> {
    pub fn new(text: &'t str, is_strict: bool) -> Self {
        let (last, failed) = (Cell::new(Location::UNKNOWN), Cell::new(std::ptr::null()));
        Self { text, is_strict, last, failed, left_out: RefCell::default() }
    }

    fn is_left_out(&self, node: &Node) -> bool {
        self.left_out.borrow().contains(&std::ptr::from_ref(node))
    }

    /// Records that an error is in `node`, unless an inner node is recorded already.
    #[cold]
    fn fails(&self, node: &Node) {
        if self.failed.get().is_null() {
            self.failed.set(node);
        }
    }

    /// Records the error of a result. A success clears an error that the type recovered from.
    fn heed<T>(&self, node: &Node, read: Result<T, Error>) -> Result<T, Error> {
        match &read {
            Ok(_) => self.failed.set(std::ptr::null()),
            Err(_) => self.fails(node),
        }
        read
    }
}

/// Continuation after an error.
pub(super) enum Rest {
    /// The node of the error is skipped from now on, so that the rest can be read.
    Readable(Error),
    /// The error only follows from a skipped node.
    Follows,
    /// The error is about the whole document.
    Over(Option<Error>),
}

/// A node to be read.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    node: &'a Node,
    document: &'a Document<'a>,
    /// True if the position was delivered already.
    is_placed: bool,
}

impl<'a> Reader<'a> {
    pub fn new(node: &'a Node, document: &'a Document<'a>) -> Self {
        Self { node, document, is_placed: false }
    }

    /// Skips the node of an error of reading this document.
    pub fn pass_over(&self, error: Error) -> Rest {
        let document = self.document;
        let failed = document.failed.replace(std::ptr::null());
        // A key is missing because its value was skipped, or because it is misspelled.
        let missing = match error.without_snippet() {
            Error::SerdeMissingField { field, .. } => Some(*field),
            _ => None,
        };
        let stands_for = |key: &Node| match &key.what {
            What::Text(key) => {
                missing.is_some_and(|field| words::nearest(key, [field]).or(words::slip(key, [field])).is_some())
            }
            _ => false,
        };
        let follows = |node: &Node| match &node.what {
            What::Map(map) => map.iter().any(|(key, value)| document.is_left_out(value) && stands_for(key)),
            _ => false,
        };
        if failed.is_null() {
            let follows = follows(self.node);
            return Rest::Over(Some(error).filter(|_| !follows));
        }
        let follows = find(self.node, failed).is_some_and(follows);
        if !document.left_out.borrow_mut().insert(failed) {
            return Rest::Over(Some(error));
        }
        if follows { Rest::Follows } else { Rest::Readable(error) }
    }

    /// Skips list items that contain a skipped node, as a whole: a part of an item would mean something else.
    pub fn pass_over_items(&self) {
        let document = self.document;
        let mut items = Vec::new();
        cut_items(self.node, &|node| document.is_left_out(node), &mut items);
        document.left_out.borrow_mut().extend(items);
    }

    /// Returns a scalar as it is written; `None` for a list or map.
    fn written(&self) -> Option<&'a str> {
        match &self.node.what {
            What::Text(text) => Some(text),
            What::List(_) | What::Map(_) => None,
            _ => {
                let span = self.node.defined.span();
                let number = |n: Option<u64>| usize::try_from(n?).ok();
                let (from, length) = (number(span.byte_offset())?, number(span.byte_len())?);
                self.document.text.get(from..from.checked_add(length)?)
            }
        }
    }

    /// Returns the scalar, which is required here.
    fn scalar(&self) -> Result<&'a str, Error> {
        self.written().ok_or_else(|| self.unexpected("string scalar"))
    }

    fn invalid(&self, ty: &'static str) -> Error {
        Error::InvalidScalar { ty, location: self.node.defined }
    }

    fn unexpected(&self, expected: &'static str) -> Error {
        Error::Unexpected { expected, location: self.node.defined }
    }

    /// Returns the integer, within the bounds of the type of that name.
    fn integer(&self, ty: &'static str, least: i128, most: i128) -> Result<i128, Error> {
        let number = match &self.node.what {
            What::Unsigned(number) => Some(i128::from(*number)),
            What::Signed(number) => Some(i128::from(*number)),
            _ => scalar::integer(self.scalar()?),
        };
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| self.invalid(ty))
    }

    fn truth(&self) -> Result<bool, Error> {
        if let What::Bool(value) = &self.node.what {
            return Ok(*value);
        }
        scalar::truth(self.scalar()?, self.document.is_strict).ok_or_else(|| match self.document.is_strict {
            true => Error::InvalidBooleanStrict { location: self.node.defined },
            false => self.invalid("boolean"),
        })
    }

    fn float(&self) -> Result<f64, Error> {
        match &self.node.what {
            What::Float(number) => Ok(*number),
            _ => scalar::float(self.scalar()?).ok_or_else(|| self.invalid("floating point")),
        }
    }

    fn text(&self) -> Result<&'a str, Error> {
        match &self.node.what {
            What::Null => Err(Error::NullIntoString { location: self.node.defined }),
            _ => self.scalar(),
        }
    }

    /// Returns the items of a list; null has none.
    fn items(&self) -> Result<Items<'a>, Error> {
        match &self.node.what {
            What::List(list) => Ok(Items { rest: list.iter(), parent: *self }),
            What::Null => Ok(Items { rest: [].iter(), parent: *self }),
            _ => Err(self.unexpected("sequence start")),
        }
    }

    fn members(&self) -> Result<Members<'a>, Error> {
        match &self.node.what {
            What::Map(map) => Ok(Members { rest: map.iter(), value: None, parent: *self }),
            What::Null => Ok(Members { rest: [].iter(), value: None, parent: *self }),
            _ => Err(self.unexpected("mapping start")),
        }
    }

    /// Gives an error of a type its position, at the last key or item.
    #[cold]
    fn born(&self, error: Error) -> Error {
        match is_structural(&error) {
            true => at(error, self.document.last.get()),
            false => error,
        }
    }

    fn reader_of(&self, node: &'a Node) -> Self {
        Self::new(node, self.document)
    }
}

/// Returns the node at an address.
fn find(node: &Node, at: *const Node) -> Option<&Node> {
    match &node.what {
        _ if std::ptr::eq(node, at) => Some(node),
        What::List(list) => list.iter().find_map(|node| find(node, at)),
        What::Map(map) => map.iter().find_map(|(_, value)| find(value, at)),
        _ => None,
    }
}

/// Returns true if a node within `node` is left out. Lists the outermost list items with such a node, and lists that
/// lose all their items.
fn cut_items(node: &Node, is_left_out: &dyn Fn(&Node) -> bool, items: &mut Vec<*const Node>) -> bool {
    let mut any = is_left_out(node);
    match &node.what {
        What::List(list) => {
            let first = items.len();
            for item in list {
                let before = items.len();
                if cut_items(item, is_left_out, items) {
                    items.truncate(before);
                    items.push(item);
                    any = true;
                }
            }
            if any && items.len() - first == list.len() {
                items.truncate(first);
                items.push(node);
            }
        }
        What::Map(map) => {
            for (_, value) in map {
                any |= cut_items(value, is_left_out, items);
            }
        }
        _ => {}
    }
    any
}

/// Deserializes an integer of a type.
macro_rules! integers {
    ($($method:ident $visit:ident $ty:ident,)+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let number = self.integer(stringify!($ty), i128::from($ty::MIN), i128::from($ty::MAX))?;
            visitor.$visit(number as $ty).map_err(|error: Error| self.born(error))
        })+
    };
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let read: Result<_, Error> = match &self.node.what {
            What::Null => visitor.visit_unit(),
            What::Bool(value) => visitor.visit_bool(*value),
            What::Unsigned(number) => visitor.visit_u64(*number),
            What::Signed(number) => visitor.visit_i64(*number),
            What::Float(number) => visitor.visit_f64(*number),
            What::Text(text) => visitor.visit_str(text),
            What::List(_) => return self.deserialize_seq(visitor),
            What::Map(_) => return self.deserialize_map(visitor),
        };
        read.map_err(|error| self.born(error))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.truth()?).map_err(|error| self.born(error))
    }

    integers! {
        deserialize_i8 visit_i8 i8,
        deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64,
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(self.float()?).map_err(|error| self.born(error))
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text()?).map_err(|error| self.born(error))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.what {
            What::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.what {
            What::Null => visitor.visit_unit(),
            _ => Err(Error::UnexpectedValueForUnit { location: self.node.defined }),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        match &self.node.what {
            What::Map(map) if map.is_empty() => visitor.visit_unit(),
            _ => self.deserialize_unit(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        match name {
            PLACED if !self.is_placed => {
                visitor.visit_seq(Placed { next: 0, reader: Self { is_placed: true, ..self } })
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(self.items()?).map_err(|error| self.born(error))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        let items = self.items()?;
        let there = items.rest.len();
        if there > length {
            let expected = format!("a tuple of size {length}");
            return Err(self.born(Error::invalid_length(there, &expected.as_str())));
        }
        visitor.visit_seq(items).map_err(|error| self.born(error))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let members = self.members()?;
        let outer = self.document.last.replace(self.node.place);
        let read = visitor.visit_map(members).map_err(|error| self.born(error));
        self.document.last.set(outer);
        read
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.choice()?).map_err(|error| self.born(error))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! { bytes byte_buf }
}

/// Items of a list.
struct Items<'a> {
    rest: std::slice::Iter<'a, Node>,
    parent: Reader<'a>,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let document = self.parent.document;
        let Some(node) = self.rest.find(|node| !document.is_left_out(node)) else { return Ok(None) };
        let outer = document.last.replace(node.place);
        let read = seed.deserialize(self.parent.reader_of(node));
        document.last.set(outer);
        document.heed(node, read).map(Some).map_err(|error| inside(error, node, self.parent.node.place))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// Members of a map.
struct Members<'a> {
    rest: std::slice::Iter<'a, (Node, Node)>,
    value: Option<&'a Node>,
    parent: Reader<'a>,
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let document = self.parent.document;
        let Some((key, value)) = self.rest.find(|(_, value)| !document.is_left_out(value)) else { return Ok(None) };
        self.value = Some(value);
        document.last.set(key.defined);
        let read = seed.deserialize(self.parent.reader_of(key));
        document.heed(value, read).map(Some).map_err(|error| at(error, key.place))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let Some(node) = self.value.take() else { return Err(Error::custom("a value is read before its key")) };
        let read = seed.deserialize(self.parent.reader_of(node));
        self.parent.document.heed(node, read).map_err(|error| inside(error, node, self.parent.node.place))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// A value, and four numbers with its position.
struct Placed<'a> {
    next: u8,
    reader: Reader<'a>,
}

impl<'de> SeqAccess<'de> for Placed<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let place = self.reader.node.place;
        self.next = self.next.saturating_add(1);
        let number = match self.next {
            1 => return seed.deserialize(self.reader).map(Some),
            2 => place.span().byte_offset().unwrap_or_default(),
            3 => place.span().byte_len().unwrap_or_default(),
            4 => place.line(),
            5 => place.column(),
            _ => return Ok(None),
        };
        let number: U64Deserializer<Error> = number.into_deserializer();
        seed.deserialize(number).map(Some)
    }
}

/// A variant by its name, with its content.
struct Choice<'a> {
    name: &'a str,
    place: Location,
    content: Option<&'a Node>,
    parent: Reader<'a>,
}

impl<'a> Reader<'a> {
    /// Reads `Variant`, or `{Variant: …}`.
    fn choice(self) -> Result<Choice<'a>, Error> {
        match &self.node.what {
            What::List(_) => Err(Error::ExternallyTaggedEnumExpectedScalarOrMapping { location: self.node.defined }),
            What::Map(map) => {
                let name = map.first().and_then(|(key, _)| self.reader_of(key).written());
                let (Some((key, content)), Some(name)) = (map.first(), name) else {
                    let location = map.first().map_or(self.node.defined, |(key, _)| key.defined);
                    return Err(Error::ExpectedStringKeyForExternallyTaggedEnum { location });
                };
                if let Some((second, _)) = map.get(1) {
                    return Err(Error::ExpectedMappingEndAfterEnumVariantValue { location: second.defined });
                }
                Ok(Choice { name, place: key.defined, content: Some(content), parent: self })
            }
            _ => Ok(Choice { name: self.scalar()?, place: self.node.defined, content: None, parent: self }),
        }
    }
}

impl<'de, 'a> EnumAccess<'de> for Choice<'a> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        let name: serde::de::value::StrDeserializer<'_, Error> = self.name.into_deserializer();
        match seed.deserialize(name) {
            Ok(variant) => Ok((variant, self)),
            Err(error) => Err(at(error, self.place)),
        }
    }
}

impl Choice<'_> {
    /// Returns the content of the variant.
    fn content(&self) -> Result<&Node, Error> {
        self.content.ok_or_else(|| self.parent.unexpected("mapping start"))
    }
}

impl<'de> VariantAccess<'de> for Choice<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.content {
            None | Some(Node { what: What::Null, .. }) => Ok(()),
            Some(node) => Err(Error::UnexpectedValueForUnitEnumVariant { location: node.defined }),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        let node = self.content()?;
        seed.deserialize(self.parent.reader_of(node)).map_err(|error| inside(error, node, self.parent.node.place))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        self.parent.reader_of(self.content()?).deserialize_tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.parent.reader_of(self.content()?).deserialize_map(visitor)
    }
}
