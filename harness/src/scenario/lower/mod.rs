//! Converts the written form to the checked model: fills in defaults and checks everything that serde cannot.

mod begin;
mod checked;
mod cluster;
mod conditions;
mod efs;
mod expand;
mod faults;
pub(super) mod find;
mod header;
mod ids;
mod manifest;
mod objects;
mod program;
mod steps;
mod text;
mod typos;

use std::time::Duration;

pub(super) use checked::Checked;
pub(super) use ids::placeholder;
pub(super) use manifest::manifest as manifest_of;
pub(super) use objects::{metadata, named};
pub(super) use steps::{Steps, no_namespace, only};
pub(super) use text::Text;

use super::diagnostic::Mistake;
use super::document as doc;
use super::model::*;
use super::source_span::Origin;
use super::steps::{class, snapshot};
use crate::spec::ProgramSpec;
use crate::spec::cluster::NodeSpec as ClusterNode;
use crate::spec::custom::Customs;
use crate::spec::object::check_name;
use crate::spec::{ClusterSpec, Unserved, names};

use checked::Found;

/// Default deadline of a scenario.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

/// Checks a document and fills in defaults.
///
/// # Errors
/// Returns all errors in it, in the order of detection.
pub(super) fn lower(from: Text<'_>, document: doc::Document) -> Result<Scenario, Vec<Mistake>> {
    let Text { source, text, .. } = from;
    let mut found = Found(Vec::new());
    // An unreadable part was already reported.
    let absent = |key: &str| (!from.is_partial).then(|| header::missing(text, key));
    let name = match document.name {
        Some(name) => {
            check_name(&name).map_err(|m| Mistake::new(name.place, m, "this name")).map(|()| Some(name.value))
        }
        None => absent("name").map_or(Ok(None), Err),
    };
    let name = found.of(name).flatten();
    let nodes = match document.nodes {
        Some(nodes) => header::nodes(nodes).map(Some),
        None => absent("nodes").map_or(Ok(None), Err),
    };
    let nodes = found.of(nodes).flatten();
    let are_known = nodes.is_some();
    let nodes = nodes.unwrap_or_else(|| header::probable_nodes(text));
    let zones = found.of(cluster::zones(document.zones, &nodes));
    let without = found.of(cluster::without(document.without));
    let driver = found.of(cluster::driver(document.driver));
    let efs_place = document.efs.as_ref().map(|efs| efs.place);
    let efs = found.of(document.efs.map(|efs| efs::file_systems(efs.value)).transpose()).flatten();
    let replicas = found.of(header::replicas(document.replicas));
    let link = found.of(header::link(document.link));
    let time_scale = found.of(header::time_scale(document.time_scale));
    let programs = found.of(program::programs(from, document.run)).unwrap_or_default();
    let worlds_place = document.worlds.as_ref().map(|worlds| worlds.place);
    let worlds = cluster::worlds(document.worlds);
    let worlds = found.of(worlds.and_then(|worlds| program::worlds(&programs, worlds_place, worlds)));
    let flags = found.of(header::flags(text, document.flags));
    let deadline = found.of(match document.deadline {
        Some(d) if d.0.is_zero() => Err(Mistake::new(d.place, "a deadline of zero can never be met", "here")),
        d => Ok(d.map_or(DEADLINE, |d| d.0)),
    });
    let (mut without, replicas) = (without.unwrap_or_default(), replicas.unwrap_or_default());
    without.extend(programs.iter().flat_map(|(program, _)| program.replaces.clone()));
    found.of(efs::has_nodes(efs_place, &without));
    let mut spec = ClusterSpec {
        replicas: replicas.clone(),
        without: without.clone(),
        efs: efs.clone(),
        ..ClusterSpec::default()
    };
    spec.nodes = nodes
        .iter()
        .map(|n| ClusterNode {
            name: n.name.clone(),
            zone: String::new(),
            instance_type: String::new(),
            instance: None,
        })
        .collect();
    found.of(program::check_names(&programs, &spec));
    let programs: Vec<ProgramSpec> = programs.into_iter().map(|(program, _)| program).collect();
    spec.programs.clone_from(&programs);
    let catalogue = names::catalogue(&spec);
    let origin = Origin { source: source.into(), text: text.into() };
    let mut steps = Steps::new(origin, from, &nodes, &catalogue);
    steps.is_simulated = worlds.as_deref() == Some(&[substrate::WorldKind::Simulated]);
    steps.has_driver = !without.contains("csi-mock");
    steps.unserved = Unserved::without(&without);
    steps.customs = Customs::of_cluster(&without);
    let begin = steps.begin(document.begin.unwrap_or_default());
    let mut objects = Vec::new();
    steps.objects(document.objects, &mut objects);
    for fault in &document.faults {
        let added = steps.add_fault(fault);
        steps.heed(added);
    }
    steps.deadline = deadline.unwrap_or(Duration::MAX);
    steps.steps(document.steps);
    steps.check_untils();
    steps.remark_typos();
    let mut violations = found.of(header::violations(document.violations)).unwrap_or_default();
    violations.extend(found.of(header::violations(std::mem::take(&mut steps.violations))).unwrap_or_default());
    violations.sort();
    violations.dedup();
    let possible_violations = found.of(header::violations(document.possible_violations)).unwrap_or_default();
    found.0.extend(steps.mistakes.take());
    let (done, remarks) = (steps.done, steps.remarks.take());
    let (needs_class, needs_snapshot_class) = (steps.needs_class, steps.needs_snapshot_class);
    let (Some(name), Some(zones), Some(driver), Some(link), Some(time_scale), Some(worlds), Some(flags)) =
        (name, zones, driver, link, time_scale, worlds, flags)
    else {
        return Err(found.0);
    };
    let Some(deadline) = deadline.filter(|_| are_known && found.0.is_empty()) else { return Err(found.0) };
    let applied = done.iter().filter_map(|step| match &step.action {
        Action::Apply(list) => Some(list),
        _ => None,
    });
    let applied: Vec<&Manifest> = applied.flatten().collect();
    let classes = [(needs_class, class::default_class()), (needs_snapshot_class, snapshot::default_class())];
    for (_, class) in classes.into_iter().filter(|(needs, _)| *needs) {
        if !objects.iter().chain(applied.iter().copied()).any(|manifest| manifest.object == class.object) {
            objects.insert(0, class);
        }
    }
    Ok(Scenario {
        name,
        description: document.description,
        source: source.to_owned(),
        latency: document.latency,
        link,
        time_scale,
        deadline,
        objects,
        begin,
        faults: document.faults.into_iter().map(|f| f.value).collect(),
        steps: done,
        teardown: document.teardown,
        remarks,
        replicas,
        leader_elect: document.leader_elect,
        driver,
        efs,
        without,
        zones,
        worlds,
        programs,
        flags,
        violations,
        possible_violations,
        nodes,
    })
}
