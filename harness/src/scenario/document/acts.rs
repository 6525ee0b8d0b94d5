//! Written form of steps on the cloud, objects of any kind, links and files of nodes.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::shapes::one_of;
use crate::scenario::acts::PatchType;
use crate::scenario::source_span::Spanned;

one_of! {
    /// A call of the cloud, or an operation that only its operator can do.
    struct Ec2 {
        with: Spanned<Map<String, Value>>,
        fails: Spanned<String>,
        save: Spanned<String>,
        from: Spanned<String>,
        instance: Spanned<Value>,
        volume: Spanned<Value>,
        snapshot: Spanned<Value>,
        token: Spanned<String>,
        which: Spanned<String>,
        state: Spanned<String>,
        impaired: Spanned<bool>,
        hide: Spanned<Vec<String>>,
        poison: Spanned<Vec<String>>,
        reserved_slots: Spanned<u32>,
        network_interfaces: Spanned<u32>,
        clear: Spanned<bool>
    } does Ec2Act {
        action: Action(String),
        poke: AdminAction(String),
    }
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Patch {
    pub object: Spanned<String>,
    pub subresource: Option<Spanned<String>>,
    pub r#type: Option<Spanned<PatchType>>,
    pub with: Spanned<Value>,
    pub fails: Option<Spanned<Value>>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Partition {
    pub between: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    pub one_way: bool,
    pub name: Option<Spanned<String>>,
}

/// `heal: cut`, or `heal:` if only one partition is in force.
#[derive(Debug)]
pub(in crate::scenario) struct Heal(pub Option<String>);

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct NodeFile {
    pub node: Spanned<String>,
    pub remove: Spanned<String>,
    pub of: Option<Spanned<String>>,
}

/// An empty map.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl<'de> Deserialize<'de> for Heal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = Heal;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a partition, or nothing")
            }

            fn visit_unit<E>(self) -> Result<Heal, E> {
                Ok(Heal(None))
            }

            fn visit_none<E>(self) -> Result<Heal, E> {
                Ok(Heal(None))
            }

            fn visit_str<E>(self, name: &str) -> Result<Heal, E> {
                Ok(Heal(Some(name.to_owned())))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Heal, A::Error> {
                Nothing::deserialize(MapAccessDeserializer::new(map)).map(|Nothing {}| Heal(None))
            }
        }
        deserializer.deserialize_any(Shape)
    }
}
