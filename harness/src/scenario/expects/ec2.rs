//! `ec2`: a volume or instance of the cloud is in a state.

use std::collections::BTreeSet;

use super::call::{Pattern, volume_or_id};
use crate::scenario::predicate::That;
use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("ec2", Of::Map(&CLOUD), "A volume or instance of the cloud is in a state.").like(&[
    "- expect: {ec2: {volume: pvc/data, state: in-use, attached: [node-a]}}",
    "- expect: {ec2: {instance: node-a, state: running}, within: 10s}",
    "- expect: {ec2: {volumes: all, that: 'self.size() > 0'}}",
]);

pub(in crate::scenario) static CLOUD: Map = Map {
    name: "cloud",
    about: "A state of the cloud, as its API describes it. At least one of `state`, `attached` and `that`.",
    keys: &[
        one("volume", Of::Volume, "The volume of a claim or PersistentVolume, or one by its id."),
        one("instance", Of::Text, "The instance of a node."),
        one("volumes", Of::Words(&[("all", "All volumes, those of instances included.")]), "All volumes, for `that`."),
        may("state", Of::Words(CLOUD_STATES), "The state of the volume or instance."),
        may("attached", Of::List(&Of::Text), "The nodes that the volume is attached to, and no others."),
        may("that", Of::Cel, "A condition on the API's answer."),
    ],
};

const CLOUD_STATES: &[Word] = &[
    ("creating", "A volume that is being created."),
    ("available", "A volume that is not attached."),
    ("in-use", "A volume that is attached, or being attached or detached."),
    ("deleting", "A volume that is being deleted."),
    ("error", "A volume that cannot be used."),
    ("deleted", "A volume that does not exist."),
    ("pending", "An instance that is starting."),
    ("running", "An instance that runs."),
    ("stopping", "An instance that is being stopped."),
    ("stopped", "An instance that is stopped."),
    ("shutting-down", "An instance that is being terminated."),
    ("terminated", "An instance that is terminated."),
];

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    volume: Option<Spanned<String>>,
    instance: Option<Spanned<String>>,
    volumes: Option<Spanned<All>>,
    state: Option<Spanned<String>>,
    attached: Option<Spanned<Vec<Spanned<String>>>>,
    that: Option<Spanned<String>>,
}

/// The word `all`.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum All {
    All,
}

/// Resource of the cloud to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloudSubject {
    /// A volume: of a claim, of a PersistentVolume, or by its id.
    Volume(Pattern),
    Instance(String),
    /// All volumes, including root volumes of instances.
    Volumes,
}

/// Expected state of a resource of the cloud, as its API describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cloud {
    pub of: CloudSubject,
    /// State; `deleted` for a volume that does not exist.
    pub state: Option<String>,
    /// Exact set of nodes to which the volume is attached.
    pub attached: Option<BTreeSet<String>>,
    pub that: Option<That>,
    pub within: Duration,
}

impl fmt::Display for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            CloudSubject::Volume(volume) => write!(f, "the cloud's volume of {volume}")?,
            CloudSubject::Instance(node) => write!(f, "the instance of {node}")?,
            CloudSubject::Volumes => f.write_str("the cloud's volumes")?,
        }
        let state = self.state.as_ref().map(|state| format!("is {state}"));
        let attached = self.attached.as_ref().map(|nodes| match nodes.len() {
            0 => "is attached to no node".to_owned(),
            _ => format!("is attached to {} alone", nodes.iter().cloned().collect::<Vec<_>>().join(" and ")),
        });
        let that = self.that.as_ref().map(|that| format!("satisfies `{that}`"));
        let parts: Vec<String> = state.into_iter().chain(attached).chain(that).collect();
        write!(f, " {}", parts.join(" and "))
    }
}

/// States of an instance.
const INSTANCE_STATES: [&str; 6] = ["pending", "running", "stopping", "stopped", "shutting-down", "terminated"];
/// States of a volume; `deleted` if it does not exist.
const VOLUME_STATES: [&str; 6] = ["creating", "available", "in-use", "deleting", "error", "deleted"];

pub(super) fn lower(cloud: Spanned<Written>, expect: Expect, steps: &mut Steps<'_>) -> Checked<Expectation> {
    check(cloud, expect.limit(), steps).map(Expectation::Cloud)
}

pub(in crate::scenario) fn check(cloud: Spanned<Written>, within: Duration, steps: &Steps<'_>) -> Checked<Cloud> {
    let Spanned { place, value: cloud } = cloud;
    let Written { volume, instance, volumes, state, attached, that } = cloud;
    let (of, states) = match (volume, instance, volumes) {
        (Some(volume), None, None) => {
            (CloudSubject::Volume(volume_or_id(volume.value, volume.place)?), Some(&VOLUME_STATES))
        }
        (None, Some(node), None) => (CloudSubject::Instance(steps.node(node)?), Some(&INSTANCE_STATES)),
        (None, None, Some(_)) => (CloudSubject::Volumes, None),
        _ => {
            let message = "`ec2` looks at one of `volume`, `instance` and `volumes`";
            return Err(Mistake::new(place, message, "here").help("write `volume: pvc/data`"));
        }
    };
    if let Some(state) = &state {
        let Some(states) = states else {
            return Err(Mistake::new(state.place, "all volumes have no state in common", "here").help("write `that`"));
        };
        if !states.contains(&state.value.as_str()) {
            let help = suggest(state, states.iter().copied(), "its states");
            return Err(Mistake::new(state.place, format!("`{}` is not one of its states", **state), "here").help(help));
        }
    }
    if let Some(attached) = &attached
        && !matches!(of, CloudSubject::Volume(_))
    {
        return Err(Mistake::new(attached.place, "`attached` belongs to `volume`", "here"));
    }
    if state.is_none() && attached.is_none() && that.is_none() {
        let help = "add `state`, `attached` or `that`";
        return Err(Mistake::new(place, "no condition for the cloud", "here").help(help));
    }
    let nodes = |list: Spanned<Vec<Spanned<String>>>| list.value.into_iter().map(|node| steps.node(node)).collect();
    Ok(Cloud {
        of,
        state: state.map(|state| state.value),
        attached: attached.map(nodes).transpose()?,
        that: that.map(|that| steps.that(that)).transpose()?,
        within,
    })
}

pub(in crate::scenario) fn summary(cloud: &Cloud) -> Summary {
    let summary = Summary::check(format!("{cloud}{}", Within(cloud.within)));
    match &cloud.of {
        CloudSubject::Volume(Pattern::Volume(volume)) => summary.of(volume),
        CloudSubject::Instance(node) => summary.of_node(node),
        CloudSubject::Volume(_) | CloudSubject::Volumes => summary,
    }
}
