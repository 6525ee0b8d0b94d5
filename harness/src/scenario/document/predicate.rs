//! Written form of conditions and counts.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use substrate::fault::Ops;

use super::expect::EventSeen;
use super::shapes::one_of;
use super::short::Word;
use crate::scenario::predicate::CallPlane;
use crate::scenario::source_span::Spanned;

one_of! {
    /// All conditions as optional keys; exactly one must be present.
    struct Never {
        that: Spanned<String>,
        namespace: Spanned<String>,
        until: Spanned<String>
    } does Forbidden {
        object: Object(String),
        list: List(String),
        call: Call(CallMade),
        event: Event(EventSeen),
        metric: Metric(MetricIs),
        ec2: Ec2(CloudIs),
    }
}

/// `{plane: csi, op: ControllerPublishVolume, where: {…}, times: 1}`.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct CallMade {
    pub plane: CallPlane,
    pub op: Option<Ops>,
    #[serde(default, rename = "where")]
    pub attributes: BTreeMap<String, Word>,
    pub times: Option<Spanned<Times>>,
}

/// A metric of a process.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct MetricIs {
    pub of: Spanned<String>,
    pub name: String,
    #[serde(default, rename = "where")]
    pub labels: BTreeMap<String, Word>,
    pub value: Spanned<Amount>,
}

/// Resources of the cloud.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct CloudIs {
    pub volume: Option<Spanned<String>>,
    pub instance: Option<Spanned<String>>,
    pub volumes: Option<Spanned<All>>,
    pub state: Option<Spanned<String>>,
    pub attached: Option<Spanned<Vec<Spanned<String>>>>,
    pub that: Option<Spanned<String>>,
}

/// The word `all`.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::scenario) enum All {
    All,
}

/// Defines a type that is written as a number or as a map of bounds.
macro_rules! bounds {
    ($(#[doc = $about:literal])+ $name:ident, $bounds:ident of $number:ty, $expecting:literal) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug)]
        pub(in crate::scenario) struct $name {
            pub at_least: Option<$number>,
            pub at_most: Option<$number>,
        }

        #[derive(serde::Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        struct $bounds {
            at_least: Option<$number>,
            at_most: Option<$number>,
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Shape;
                impl<'de> Visitor<'de> for Shape {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_u64<E>(self, n: u64) -> Result<$name, E> {
                        Ok($name { at_least: Some(n as $number), at_most: Some(n as $number) })
                    }

                    fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<$name, E> {
                        let n = u64::try_from(n).map_err(|_| E::custom("a count or value here is not negative"))?;
                        self.visit_u64(n)
                    }

                    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<$name, A::Error> {
                        let bounds = $bounds::deserialize(MapAccessDeserializer::new(map))?;
                        Ok($name { at_least: bounds.at_least, at_most: bounds.at_most })
                    }
                }
                deserializer.deserialize_any(Shape)
            }
        }
    };
}

bounds! {
    /// Number of occurrences.
    Times, TimesBounds of u64, "a number or {at-least: N, at-most: N}"
}
bounds! {
    /// Value of a metric.
    Amount, AmountBounds of f64, "a number or {at-least: N, at-most: N}"
}
