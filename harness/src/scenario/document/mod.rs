//! Written form of a scenario file: types for serde, with positions, not checked across fields.

mod program;
mod shapes;
mod short;

use std::collections::BTreeMap;

use csi_mock::settings::LockKey;
use substrate::fault::{Fault, Span};

pub(super) use program::{Argument, Program, Replaced};
pub(super) use shapes::{OneOf, OneOrMany, one_of, there};
pub(super) use short::*;

pub(super) use super::steps::{Act, Step};

use super::model::LatencyProfile;
use super::source_span::Spanned;

/// The whole file.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Document {
    #[serde(default, deserialize_with = "there")]
    pub name: Option<Spanned<String>>,
    pub description: Option<String>,
    #[serde(default, deserialize_with = "there")]
    pub nodes: Option<Spanned<Nodes>>,
    #[serde(default)]
    pub latency: LatencyProfile,
    pub link: Option<Spanned<Link>>,
    pub time_scale: Option<Spanned<TimeScale>>,
    pub deadline: Option<Spanned<Span>>,
    #[serde(default)]
    pub objects: Vec<Spanned<Item>>,
    pub begin: Option<Begin>,
    #[serde(default)]
    pub faults: Vec<Spanned<Fault>>,
    #[serde(default)]
    pub steps: Vec<Spanned<Step>>,
    #[serde(default = "yes")]
    pub teardown: bool,
    pub replicas: Option<Spanned<Replicas>>,
    #[serde(default)]
    pub leader_elect: bool,
    #[serde(default)]
    pub flags: BTreeMap<String, Spanned<BTreeMap<String, Spanned<Word>>>>,
    #[serde(default)]
    pub driver: Driver,
    pub efs: Option<Spanned<Efs>>,
    #[serde(default)]
    pub without: Vec<Spanned<String>>,
    #[serde(default)]
    pub run: Vec<Spanned<Program>>,
    pub worlds: Option<Spanned<Vec<Spanned<World>>>>,
    #[serde(default)]
    pub zones: Vec<Spanned<String>>,
    #[serde(default)]
    pub violations: Vec<Spanned<String>>,
    #[serde(default)]
    pub possible_violations: Vec<Spanned<String>>,
}

/// Initial state of a cluster.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Begin {
    #[serde(default)]
    pub volumes: Vec<Spanned<mock_ec2::VolumeSpec>>,
    #[serde(default)]
    pub objects: Vec<Spanned<serde_json::Map<String, serde_json::Value>>>,
}

/// Settings of the CSI driver.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Driver {
    #[serde(default)]
    pub lock: LockKey,
    pub capabilities: Option<Spanned<String>>,
    pub attach_limit: Option<Spanned<i64>>,
    pub capacity_gib: Option<u64>,
}

/// The EFS driver beside the EBS driver.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Efs {
    #[serde(default)]
    pub file_systems: Vec<FileSystem>,
}

/// A file system of EFS.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct FileSystem {
    pub id: Spanned<String>,
    #[serde(default)]
    pub directories: Vec<Spanned<String>>,
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
    List(Vec<Spanned<Node>>),
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Count {
    pub count: Spanned<u32>,
    #[serde(default)]
    pub zones: Vec<Spanned<String>>,
    pub instance_type: Option<String>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Node {
    pub name: Spanned<String>,
    pub zone: Option<String>,
    pub instance_type: Option<String>,
    pub instance: Option<Spanned<String>>,
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
