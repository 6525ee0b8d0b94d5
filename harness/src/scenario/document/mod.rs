//! Written form of a scenario file: types for serde, with positions, not checked across fields.

mod acts;
mod predicate;
mod program;
mod shapes;
mod short;
mod step;

use std::collections::BTreeMap;

use csi_mock::settings::LockKey;
use substrate::fault::{Fault, Span};

pub(super) use acts::*;
pub(super) use predicate::*;
pub(super) use program::{Argument, Program, Replaced};
pub(super) use shapes::{OneOrMany, there};
pub(super) use short::*;
pub(super) use step::*;

use super::model::LatencyProfile;
use super::place::Placed;

/// The whole file.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Document {
    #[serde(default, deserialize_with = "there")]
    pub name: Option<Placed<String>>,
    pub description: Option<String>,
    #[serde(default, deserialize_with = "there")]
    pub nodes: Option<Placed<Nodes>>,
    #[serde(default)]
    pub latency: LatencyProfile,
    pub link: Option<Placed<Link>>,
    pub time_scale: Option<Placed<TimeScale>>,
    pub deadline: Option<Placed<Span>>,
    #[serde(default)]
    pub objects: Vec<Placed<Item>>,
    pub begin: Option<Begin>,
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
    pub flags: BTreeMap<String, Placed<BTreeMap<String, Placed<Word>>>>,
    #[serde(default)]
    pub driver: Driver,
    #[serde(default)]
    pub without: Vec<Placed<String>>,
    #[serde(default)]
    pub run: Vec<Placed<Program>>,
    pub worlds: Option<Placed<Vec<Placed<World>>>>,
    #[serde(default)]
    pub zones: Vec<Placed<String>>,
    #[serde(default)]
    pub violations: Vec<Placed<String>>,
    #[serde(default)]
    pub possible_violations: Vec<Placed<String>>,
}

/// Initial state of a cluster.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Begin {
    #[serde(default)]
    pub volumes: Vec<Placed<mock_ec2::VolumeSpec>>,
    #[serde(default)]
    pub objects: Vec<Placed<serde_json::Map<String, serde_json::Value>>>,
}

/// Settings of the CSI driver.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Driver {
    #[serde(default)]
    pub lock: LockKey,
    pub capabilities: Option<Placed<String>>,
    pub attach_limit: Option<Placed<i64>>,
    pub capacity_gib: Option<u64>,
}

/// A world in which a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum World {
    Simulated,
    Live,
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
    pub instance: Option<Placed<String>>,
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
