//! The scenario file as it is written: shapes for serde, positions included, nothing checked across fields.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use csi_mock::settings::LockKey;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use substrate::fault::{Fault, Span};

use super::model::LatencyProfile;
use super::object::{ObjectRef, State};
use super::place::Placed;

/// The whole file.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Document {
    pub name: Placed<String>,
    pub description: Option<String>,
    pub nodes: Placed<Nodes>,
    #[serde(default)]
    pub latency: LatencyProfile,
    pub link: Option<Placed<Link>>,
    pub time_scale: Option<Placed<TimeScale>>,
    pub deadline: Option<Placed<Span>>,
    #[serde(default)]
    pub objects: Vec<Placed<Map<String, Value>>>,
    #[serde(default)]
    pub faults: Vec<Placed<Fault>>,
    #[serde(default)]
    pub steps: Vec<Placed<Step>>,
    #[serde(default = "yes")]
    pub teardown: bool,
    pub replicas: Option<Placed<Replicas>>,
    #[serde(default)]
    pub leader_elect: bool,
    #[serde(default)]
    pub driver: Driver,
    #[serde(default)]
    pub violations: Vec<Placed<String>>,
}

/// Switches of the CSI driver.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Driver {
    #[serde(default)]
    pub lock: LockKey,
}

/// `2`, or `{csi-attacher: 2}`.
#[derive(Debug)]
pub(super) enum Replicas {
    All(u64),
    Each(BTreeMap<String, u64>),
}

fn yes() -> bool {
    true
}

/// `{count: 3}` or a list.
#[derive(Debug)]
pub(super) enum Nodes {
    Count(Count),
    List(Vec<Placed<Node>>),
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Count {
    pub count: Placed<u32>,
    #[serde(default)]
    pub zones: Vec<Placed<String>>,
    pub instance_type: Option<String>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Node {
    pub name: Placed<String>,
    pub zone: Option<String>,
    pub instance_type: Option<String>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Link {
    pub min: Span,
    pub max: Span,
}

/// `60` or `{simulated: 1, live: 60}`.
#[derive(Debug)]
pub(super) enum TimeScale {
    Both(f64),
    Each(EachTimeScale),
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct EachTimeScale {
    pub simulated: Option<f64>,
    pub live: Option<f64>,
}

/// All actions as optional keys; exactly one may be there.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Step {
    pub name: Option<Placed<String>>,
    pub apply: Option<Placed<OneOrMany<Map<String, Value>>>>,
    pub wait: Option<Placed<Wait>>,
    pub expect: Option<Placed<Expect>>,
    pub crash: Option<Placed<String>>,
    pub restart: Option<Placed<String>>,
    pub delete: Option<Placed<Delete>>,
    pub taint: Option<Placed<Taint>>,
    pub untaint: Option<Placed<Untaint>>,
    pub cordon: Option<Placed<String>>,
    pub uncordon: Option<Placed<String>>,
    pub fault: Option<Placed<Fault>>,
    pub clear_fault: Option<Placed<String>>,
    pub sleep: Option<Placed<Span>>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Wait {
    pub object: ObjectRef,
    pub is: Option<Placed<State>>,
    pub on: Option<Placed<String>>,
    pub records: Option<Placed<u64>>,
    pub within: Option<Span>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Expect {
    pub event: Option<Placed<EventSeen>>,
    pub bytes_intact: Option<Placed<ObjectRef>>,
    pub records: Option<Placed<u64>>,
    pub attached: Option<Placed<Attached>>,
    pub elapsed: Option<Placed<Elapsed>>,
    pub checked: Option<Placed<BTreeMap<String, u64>>>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct EventSeen {
    pub object: ObjectRef,
    pub reason: String,
    pub contains: Option<String>,
    pub within: Option<Span>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Attached {
    pub claim: Placed<String>,
    pub node: Placed<String>,
    pub within: Option<Span>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Elapsed {
    pub since: Option<Placed<String>>,
    pub at_least: Option<Span>,
    pub at_most: Option<Span>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Delete {
    pub object: ObjectRef,
    #[serde(default)]
    pub force: bool,
    pub grace: Option<Span>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Taint {
    pub node: Placed<String>,
    pub key: String,
    #[serde(default)]
    pub value: String,
    pub effect: Placed<String>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Untaint {
    pub node: Placed<String>,
    pub key: String,
}

/// One value, or a list of them.
#[derive(Debug)]
pub(super) enum OneOrMany<T> {
    One(T),
    Many(Vec<Placed<T>>),
}

// Serde's own untagged enums buffer the value and so lose positions and the list of valid keys; these visitors look
// at the first token only.

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
