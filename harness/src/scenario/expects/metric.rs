//! `metric`: a metric of a process has a value.

use std::collections::BTreeMap;

use super::times::{Amount, bounded};
use crate::scenario::document::Word as Scalar;
use crate::scenario::prelude::*;
use crate::spec::names::has_metrics;

pub(super) static KEY: Key = one("metric", Of::Map(&METRIC), "A metric of a process has a value.").like(&[
    "- expect: {metric: {of: fake-apiserver, name: apiserver_storage_objects, where: {resource: pods}, value: 1}}",
]);

pub(in crate::scenario) static METRIC: Map = Map {
    name: "metric",
    about: "A metric in the text form of Prometheus.",
    keys: &[
        must("of", Of::Suggest(measured), "The process: a server, a process of control loops, or `NODE/kubelet`."),
        must("name", Of::Text, "The metric's name."),
        may("where", Of::Each(&Of::Scalar), "Labels that its samples must have; those that match are added up."),
        must(
            "value",
            Of::Either(&[(Of::Number, "Exactly this value."), (Of::Map(&AMOUNT), "At least or at most this value.")]),
            "The value.",
        ),
    ],
};

static AMOUNT: Map = Map {
    name: "amount",
    about: "A range of a value.",
    keys: &[may("at-least", Of::Number, "The least value."), may("at-most", Of::Number, "The greatest value.")],
};

fn measured() -> Vec<(String, String)> {
    let servers = MetricsOf::SERVERS.map(|of| of.name().to_owned());
    let loops = controllers::PROCESSES.iter().map(|process| (*process).to_owned());
    let names = servers.into_iter().chain(loops).chain(["node-a/kubelet".to_owned()]);
    names.map(|name| (name.clone(), format!("The metrics of {name}."))).collect()
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    of: Spanned<String>,
    name: String,
    #[serde(default, rename = "where")]
    labels: BTreeMap<String, Scalar>,
    value: Spanned<Amount>,
}

/// A metric in the text format of Prometheus.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    pub of: MetricsOf,
    pub name: String,
    /// Labels that its samples must have; matching samples are added up.
    pub labels: BTreeMap<String, String>,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    pub within: Duration,
}

impl Metric {
    /// Returns true if `value` is within the bounds.
    pub fn holds(&self, value: f64) -> bool {
        self.at_least.is_none_or(|least| value >= least) && self.at_most.is_none_or(|most| value <= most)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<String> = self.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        write!(f, "{} of {}", self.name, self.of.name())?;
        if !labels.is_empty() {
            write!(f, " where {}", labels.join(", "))?;
        }
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) if least == most => write!(f, " is {least}"),
            (Some(least), Some(most)) => write!(f, " is {least} to {most}"),
            (Some(least), None) => write!(f, " is at least {least}"),
            (None, Some(most)) => write!(f, " is at most {most}"),
            (None, None) => f.write_str(" is anything"),
        }
    }
}

/// A process that serves metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsOf {
    MockEc2,
    FakeApiserver,
    /// A process of control loops or a kubelet, by its name.
    Process(String),
}

impl MetricsOf {
    /// Returns the servers, which run in every cluster.
    pub const SERVERS: [Self; 2] = [Self::MockEc2, Self::FakeApiserver];

    /// Returns the process of this name among `processes`, if it serves metrics.
    pub fn named<'a>(name: &str, mut processes: impl Iterator<Item = &'a str>) -> Option<Self> {
        let server = Self::SERVERS.into_iter().find(|server| server.name() == name);
        server.or_else(|| processes.any(|process| process == name).then(|| Self::Process(name.to_owned())))
    }

    /// Name of the process.
    pub fn name(&self) -> &str {
        match self {
            Self::MockEc2 => "mock-ec2",
            Self::FakeApiserver => "fake-apiserver",
            Self::Process(name) => name,
        }
    }
}

pub(super) fn lower(metric: Spanned<Written>, expect: Expect, steps: &mut Steps<'_>) -> Checked<Expectation> {
    check(metric, expect.limit(), steps).map(Expectation::Metric)
}

pub(in crate::scenario) fn check(metric: Spanned<Written>, within: Duration, steps: &Steps<'_>) -> Checked<Metric> {
    let Written { of, name, labels, value } = metric.value;
    let running = steps.catalogue.names().map(|names| names.processes.iter()).into_iter().flatten();
    let running: Vec<&str> = running.map(String::as_str).filter(|name| has_metrics(name)).collect();
    let Some(process) = MetricsOf::named(&of, running.iter().copied()) else {
        let servers = MetricsOf::SERVERS;
        let names = servers.iter().map(MetricsOf::name).chain(running.iter().copied());
        let message = format!("`{}` has no metrics here", *of);
        let help = suggest(&of, names, "processes with metrics");
        return Err(Mistake::new(of.place, message, "this process").help(help));
    };
    let Amount { at_least, at_most } = value.value;
    bounded(value.place, at_least, at_most)?;
    let labels = labels.into_iter().map(|(name, value)| (name, value.0)).collect();
    Ok(Metric { of: process, name, labels, at_least, at_most, within })
}

pub(in crate::scenario) fn summary(metric: &Metric) -> Summary {
    Summary::check(format!("{metric}{}", Within(metric.within)))
}
