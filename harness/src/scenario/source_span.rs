//! Values with their positions in the file, and the text that they are from.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use substrate::yaml::WITH_PLACE;

/// A text that is being read, and its file.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub source: Arc<str>,
    pub text: Arc<str>,
}

/// A position in a scenario file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceSpan {
    /// Offset of the first byte.
    pub offset: usize,
    /// Length in bytes; 0 or 1 if only the start is known.
    pub length: usize,
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
}

impl SourceSpan {
    /// Place of `length` bytes of `text` from `offset` on.
    pub fn of(text: &str, offset: usize, length: usize) -> Self {
        let before = text.get(..offset).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            offset,
            length,
            line: before.matches('\n').count() as u64 + 1,
            column: before[line_start..].chars().count() as u64 + 1,
        }
    }
}

impl SourceSpan {
    /// Place of a location in `text`. The parser may know only line and column.
    pub fn within(text: &str, location: substrate::yaml::Location) -> Self {
        let place = Self::from(location);
        if location.span().byte_offset().is_some_and(|offset| offset > 0) || place.line == 0 {
            return place;
        }
        let before: usize = text.split_inclusive('\n').take(place.line as usize - 1).map(str::len).sum();
        let line = text[before..].lines().next().unwrap_or_default();
        let column = place.column.saturating_sub(1) as usize;
        let within = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
        Self { offset: before + within, ..place }
    }
}

impl From<substrate::yaml::Location> for SourceSpan {
    fn from(location: substrate::yaml::Location) -> Self {
        let span = location.span();
        let number = |n: Option<_>| n.and_then(|n: u64| usize::try_from(n).ok()).unwrap_or(0);
        Self {
            offset: number(span.byte_offset()),
            length: number(span.byte_len()),
            line: location.line(),
            column: location.column(),
        }
    }
}

/// A value with its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Position in the file; for an alias, where it is used.
    pub place: SourceSpan,
}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(WITH_PLACE, WithPlace(PhantomData))
    }
}

struct WithPlace<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for WithPlace<T> {
    type Value = Spanned<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value and its place")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let Some(value) = from.next_element()? else { return Err(A::Error::invalid_length(0, &self)) };
        let mut number = || from.next_element::<u64>().map(Option::unwrap_or_default);
        let size = |n: u64| usize::try_from(n).unwrap_or_default();
        let (offset, length) = (size(number()?), size(number()?));
        Ok(Spanned { value, place: SourceSpan { offset, length, line: number()?, column: number()? } })
    }
}
