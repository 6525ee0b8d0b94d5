//! Checks the parts of a cluster beside its nodes: left-out components, driver settings, zones, worlds.

use std::collections::BTreeSet;

use csi_mock::capabilities::Capabilities;
use substrate::WorldKind;

use super::checked::Checked;
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::model::{DriverSettings, NodeSpec};
use crate::scenario::source_span::Spanned;
use crate::suggestions::{nearest, suggest};

pub(super) fn without(names: Vec<Spanned<String>>) -> Checked<BTreeSet<String>> {
    let mut out = BTreeSet::new();
    for name in names {
        let left_out = controllers::left_out([name.as_str()]).map_err(|_| {
            let message = format!("`{}` is not a component that can be left out", name.value);
            let help = suggest(&name, controllers::can_be_left_out().into_iter(), "components");
            Mistake::new(name.place, message, "this component").help(help)
        })?;
        out.extend(left_out);
    }
    Ok(out)
}

pub(super) fn worlds(worlds: Option<Spanned<Vec<Spanned<doc::World>>>>) -> Checked<Vec<WorldKind>> {
    let kind = |world: &Spanned<doc::World>| match world.value {
        doc::World::Simulated => WorldKind::Simulated,
        doc::World::Live => WorldKind::Live,
    };
    match worlds {
        None => Ok(vec![WorldKind::Simulated, WorldKind::Live]),
        Some(worlds) if worlds.is_empty() => {
            let message = "a scenario that is for no world never runs";
            Err(Mistake::new(worlds.place, message, "here").help("write `[simulated]`, `[live]` or both"))
        }
        Some(worlds) => Ok(worlds.iter().map(kind).collect()),
    }
}

/// Checks the zones of the cloud, which must contain the zones of all nodes.
pub(super) fn zones(zones: Vec<Spanned<String>>, nodes: &[NodeSpec]) -> Checked<Vec<String>> {
    let Some(first) = zones.first() else { return Ok(Vec::new()) };
    let place = first.place;
    let mut names: Vec<String> = Vec::new();
    for zone in zones {
        if names.contains(&zone.value) {
            return Err(Mistake::new(
                zone.place,
                format!("the zone `{}` is there twice", zone.value),
                "the second one",
            ));
        }
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if zone.is_empty() || !zone.chars().all(good) {
            let message = format!("`{}` is not a zone name", zone.value);
            return Err(Mistake::new(zone.place, message, "this zone").help("write one such as us-east-1a"));
        }
        names.push(zone.value);
    }
    let strange = nodes.iter().find_map(|node| Some((node, node.zone.as_ref().filter(|zone| !names.contains(zone))?)));
    if let Some((node, zone)) = strange {
        let message = format!("{} is in the zone `{zone}`, which the cloud has not", node.name);
        let help = suggest(zone, names.iter().map(String::as_str), "zones");
        return Err(Mistake::new(place, message, "these zones").help(help));
    }
    Ok(names)
}

pub(super) fn driver(driver: doc::Driver) -> Checked<DriverSettings> {
    let capabilities = driver.capabilities.map(|words| capabilities(&words)).transpose()?;
    if let Some(limit) = driver.attach_limit.as_ref().filter(|limit| limit.value < 0) {
        let message = "a node takes no fewer than no volumes";
        return Err(Mistake::new(limit.place, message, "here").help("0 leaves it to the orchestrator"));
    }
    let attach_limit = driver.attach_limit.map(|limit| limit.value);
    Ok(DriverSettings { lock: driver.lock, capabilities, attach_limit, capacity_gib: driver.capacity_gib })
}

fn capabilities(words: &Spanned<String>) -> Checked<Capabilities> {
    Capabilities::default().changed(words).map_err(|message| {
        let names = Capabilities::all().names();
        let known = names.iter().flat_map(|name| [Some(name.as_str()), name.split_once('.').map(|(_, name)| name)]);
        let known: Vec<&str> = known.flatten().chain(["all", "minimal", "ebs", "none"]).collect();
        let plain = |word: &str| word.trim().trim_start_matches(['+', '-']).to_owned();
        let wrong = words.split(',').map(plain).find(|word| Capabilities::default().changed(word).is_err());
        let near = wrong.and_then(|word| nearest(&word, known.into_iter()).map(str::to_owned));
        let wrong = Mistake::new(words.place, message, "these words");
        match near {
            Some(near) => wrong.help(format!("did you mean `{near}`?")),
            None => wrong,
        }
    })
}
