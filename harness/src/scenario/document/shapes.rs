//! Values with several written forms, and maps in which exactly one of some keys must be present.
//!
//! Serde's own untagged enums buffer the value, so they lose positions and the list of valid keys. These visitors look
//! only at the first token.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{Count, EachTimeScale, Nodes, Replicas, TimeScale};
use crate::scenario::source_span::{SourceSpan, Spanned};

/// A map in which exactly one of some keys is present.
pub(in crate::scenario) trait OneOf {
    /// Returns the keys beside the choice that are present, with their places.
    fn beside(&self) -> Vec<(String, SourceSpan)>;
}

/// Defines a map in which exactly one of some keys is present, beside keys of its own, and the enum of these choices.
macro_rules! one_of {
    ($(#[doc = $about:literal])+ struct $name:ident { $($own:ident: $own_type:ty),* } does $choice:ident {
        $($key:ident: $variant:ident($value:ty),)+
    }) => {
        $(#[doc = $about])+
        #[derive(Debug, serde::Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        pub(in crate::scenario) struct $name {
            $(pub $own: Option<$own_type>,)*
            // A present key with a null value is an error, not an absent key.
            $(#[serde(default, deserialize_with = "crate::scenario::document::there")] pub $key: Option<Spanned<$value>>,)+
        }

        /// The one key that is present, with its value.
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant, reason = "there is one at a time, and it is taken apart at once")]
        pub(in crate::scenario) enum $choice {
            $($variant(Spanned<$value>),)+
        }

        impl $name {
            /// Keys of which one must be present, as Rust identifiers.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($key)),+];

            /// Takes out all present choices in the order of [`Self::KEYS`], each with its key and place.
            pub fn take(&mut self) -> Vec<(String, crate::scenario::source_span::SourceSpan, $choice)> {
                let mut found = Vec::new();
                $(if let Some(value) = self.$key.take() {
                    found.push((stringify!($key).replace('_', "-"), value.place, $choice::$variant(value)));
                })+
                found
            }
        }

        impl crate::scenario::document::OneOf for $name {
            fn beside(&self) -> Vec<(String, crate::scenario::source_span::SourceSpan)> {
                std::iter::empty()
                    $(.chain(self.$own.as_ref().map(|own| (stringify!($own).replace('_', "-"), own.place))))*
                    .collect()
            }
        }
    };
}
pub(in crate::scenario) use one_of;

/// Deserializes a value that may be absent but not null.
pub(in crate::scenario) fn there<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// One value, or a list of them.
#[derive(Debug)]
pub(in crate::scenario) enum OneOrMany<T> {
    One(T),
    Many(Vec<Spanned<T>>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Shape<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a manifest or a list of manifests")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(OneOrMany::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(OneOrMany::Many)
            }
        }
        deserializer.deserialize_any(Shape(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = Nodes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("{count: N} or a list of nodes")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Nodes, A::Error> {
                Count::deserialize(MapAccessDeserializer::new(map)).map(Nodes::Count)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Nodes, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Nodes::List)
            }
        }
        deserializer.deserialize_any(Shape)
    }
}

impl<'de> Deserialize<'de> for Replicas {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = Replicas;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of replicas or {PROCESS: N}")
            }

            fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<Replicas, E> {
                u64::try_from(n).map(Replicas::All).map_err(|_| E::custom("a number of replicas is not negative"))
            }

            fn visit_u64<E>(self, n: u64) -> Result<Replicas, E> {
                Ok(Replicas::All(n))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Replicas, A::Error> {
                BTreeMap::deserialize(MapAccessDeserializer::new(map)).map(Replicas::Each)
            }
        }
        deserializer.deserialize_any(Shape)
    }
}

impl<'de> Deserialize<'de> for TimeScale {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = TimeScale;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or {simulated: N, live: N}")
            }

            fn visit_i64<E>(self, n: i64) -> Result<TimeScale, E> {
                Ok(TimeScale::Both(n as f64))
            }

            fn visit_u64<E>(self, n: u64) -> Result<TimeScale, E> {
                Ok(TimeScale::Both(n as f64))
            }

            fn visit_f64<E>(self, n: f64) -> Result<TimeScale, E> {
                Ok(TimeScale::Both(n))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TimeScale, A::Error> {
                EachTimeScale::deserialize(MapAccessDeserializer::new(map)).map(TimeScale::Each)
            }
        }
        deserializer.deserialize_any(Shape)
    }
}
