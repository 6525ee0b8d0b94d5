//! From the file as written to the checked model: defaults, and everything that serde cannot see.

mod cluster;
mod ec2;
mod expand;
mod expect;
mod faults;
mod find;
mod header;
mod manifest;
mod node_file;
mod partition;
mod patch;
mod poke;
mod predicate;
mod short;
mod steps;

use std::time::Duration;

pub(super) use expand::Origin;

use super::diagnostic::Mistake;
use super::document as doc;
use super::model::*;
use super::object::check_name;
use crate::cluster::spec::NodeSpec as ClusterNode;
use crate::cluster::{ClusterSpec, names};

/// How long a scenario may take when the file does not say.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

type Checked<T> = Result<T, Mistake>;

/// Checks a document and fills in defaults.
pub(super) fn lower(source: &str, text: &str, has_files: bool, document: doc::Document) -> Checked<Scenario> {
    let name = document.name;
    check_name(&name).map_err(|m| Mistake::new(name.place, m, "this name"))?;
    let nodes = header::nodes(document.nodes)?;
    let zones = cluster::zones(document.zones, &nodes)?;
    let without = cluster::without(document.without)?;
    let driver = cluster::driver(document.driver)?;
    let replicas = header::replicas(document.replicas)?;
    let mut spec = ClusterSpec { replicas: replicas.clone(), without: without.clone(), ..ClusterSpec::default() };
    spec.nodes = nodes
        .iter()
        .map(|n| ClusterNode { name: n.name.clone(), zone: String::new(), instance_type: String::new() })
        .collect();
    let catalogue = names::catalogue(&spec);
    let origin = Origin { source: source.into(), text: text.into() };
    let mut steps = steps::Steps::new(origin, has_files, &nodes, &catalogue);
    let mut objects = Vec::new();
    steps.objects(document.objects, &mut objects)?;
    for fault in &document.faults {
        steps.add_fault(fault)?;
    }
    let deadline = match document.deadline {
        Some(d) if d.0.is_zero() => {
            return Err(Mistake::new(d.place, "a deadline of zero can never be met", "here"));
        }
        d => d.map_or(DEADLINE, |d| d.0),
    };
    steps.deadline = deadline;
    steps.steps(document.steps)?;
    steps.check_untils()?;
    let mut violations = header::violations(document.violations)?;
    violations.extend(header::violations(steps.violations)?);
    violations.sort();
    violations.dedup();
    let (done, needs_class) = (steps.done, steps.needs_class);
    let applied = done.iter().filter_map(|step| match &step.action {
        Action::Apply(list) => Some(list),
        _ => None,
    });
    let class = short::default_class();
    if needs_class && !objects.iter().chain(applied.flatten()).any(|manifest| manifest.object == class.object) {
        objects.insert(0, class);
    }
    Ok(Scenario {
        name: name.value,
        description: document.description,
        source: source.to_owned(),
        latency: document.latency,
        link: header::link(document.link)?,
        time_scale: header::time_scale(document.time_scale)?,
        deadline,
        objects,
        faults: document.faults.into_iter().map(|f| f.value).collect(),
        steps: done,
        teardown: document.teardown,
        replicas,
        leader_elect: document.leader_elect,
        driver,
        without,
        zones,
        worlds: cluster::worlds(document.worlds)?,
        flags: header::flags(text, document.flags)?,
        violations,
        nodes,
    })
}
