//! `heal`: ends a partition.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::clear_fault;
use crate::scenario::prelude::*;

pub(super) static KEY: Key = one(
    "heal",
    Of::Either(&[(Of::Text, "The partition's name."), (Of::Nothing, "The only partition in force.")]),
    "Ends a partition.",
)
.like(&["- heal: cut", "- heal:"]);

/// `heal: cut`, or `heal:` if only one partition is in force.
#[derive(Debug)]
pub(in crate::scenario) struct Written(Option<String>);

/// An empty map.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = Written;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a partition, or nothing")
            }

            fn visit_unit<E>(self) -> Result<Written, E> {
                Ok(Written(None))
            }

            fn visit_none<E>(self) -> Result<Written, E> {
                Ok(Written(None))
            }

            fn visit_str<E>(self, name: &str) -> Result<Written, E> {
                Ok(Written(Some(name.to_owned())))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Written, A::Error> {
                Nothing::deserialize(MapAccessDeserializer::new(map)).map(|Nothing {}| Written(None))
            }
        }
        deserializer.deserialize_any(Shape)
    }
}

pub(super) fn lower(heal: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let list = |all: &std::collections::BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>().join(", ");
    let name = match heal.value.0 {
        Some(name) => name,
        None if steps.partitions.len() == 1 => steps.partitions.iter().next().cloned().unwrap_or_default(),
        None if steps.partitions.is_empty() => {
            return Err(Mistake::new(heal.place, "no partition is in force here", "here").refers("partition"));
        }
        None => {
            let message = "several partitions are in force here";
            let help = format!("name one of: {}", list(&steps.partitions));
            return Err(Mistake::new(heal.place, message, "which one?").help(help));
        }
    };
    if !steps.partitions.contains(&name) {
        let message = format!("no partition called `{name}` is in force here");
        let help = suggest(&name, steps.partitions.iter().map(String::as_str), "partitions in force");
        return Err(Mistake::new(heal.place, message, "this partition").help(help).refers(&name));
    }
    clear_fault::lower(Spanned { value: name, place: heal.place }, steps)
}
