//! Checks the keys before the steps: nodes, links, scales, replicas.

use std::collections::{BTreeMap, BTreeSet};

use substrate::fabric::Latency;
use substrate::fault::Span;

use super::checked::Checked;
use super::find;
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::model::{NodeSpec, TimeScales};
use crate::scenario::source_span::{SourceSpan, Spanned};
use crate::spec::object::check_name;
use crate::spec::upstream_bugs;
use crate::suggestions::suggest;

/// Maximum number of nodes of a cluster.
const MAX_NODES: u32 = 1000;
/// Default instance type: Nitro, takes 26 volumes beside the root volume and one network interface.
const INSTANCE_TYPE: &str = "m5.large";
/// Maximum number of replicas; only one of them leads.
const MAX_REPLICAS: u64 = 5;

pub(super) fn replicas(replicas: Option<Spanned<doc::Replicas>>) -> Checked<BTreeMap<String, usize>> {
    let Some(replicas) = replicas else { return Ok(BTreeMap::new()) };
    let place = replicas.place;
    let each: BTreeMap<String, u64> = match replicas.value {
        doc::Replicas::All(n) => controllers::PROCESSES.iter().map(|process| ((*process).to_owned(), n)).collect(),
        doc::Replicas::Each(each) => each,
    };
    let mut counted = BTreeMap::new();
    for (process, n) in each {
        if !controllers::PROCESSES.contains(&process.as_str()) {
            let help = suggest(&process, controllers::PROCESSES.iter().copied(), "processes with replicas");
            return Err(Mistake::new(place, format!("`{process}` has no replicas"), "here").help(help));
        }
        let count = usize::try_from(n).ok().filter(|_| (1..=MAX_REPLICAS).contains(&n));
        let message = || format!("{n} replicas of {process} are none that work: write 1 to {MAX_REPLICAS}");
        counted.insert(process.clone(), count.ok_or_else(|| Mistake::new(place, message(), "here"))?);
    }
    Ok(counted)
}

/// Checks flags by their upstream names, and their values.
pub(super) fn flags(
    text: &str,
    flags: BTreeMap<String, Spanned<BTreeMap<String, Spanned<doc::Word>>>>,
) -> Checked<Vec<(String, String, String)>> {
    let mut all = Vec::new();
    for (process, set) in flags {
        let place = set.place;
        if set.value.is_empty() {
            return Err(Mistake::new(place, format!("no flag of {process} is set"), "here"));
        }
        for (name, word) in set.value {
            let value = word.value.0;
            controllers::flags::set(&mut controllers::Timers::default(), &process, &name, &value).map_err(|error| {
                // The key is before its value.
                let place =
                    if error.word == value { word.place } else { find::key_before(text, word.place, &error.word) };
                let mistake = Mistake::new(place, error.message.as_str(), "here");
                match error.nearest {
                    Some(near) => mistake.help(format!("did you mean `{near}`?")),
                    None => mistake,
                }
            })?;
            all.push((process.clone(), name, value));
        }
    }
    Ok(all)
}

pub(super) fn violations(ids: Vec<Spanned<String>>) -> Checked<Vec<String>> {
    let known = upstream_bugs::all().map_err(|m| Mistake::new(SourceSpan::default(), m, "here"))?;
    let check = |id: Spanned<String>| match known.iter().any(|d| d.id == id.value) {
        true => Ok(id.value),
        false => {
            let help = suggest(&id.value, known.iter().map(|d| d.id.as_str()), "declared deviations");
            let message = format!("no deviation of upstream is declared as `{}`", id.value);
            Err(Mistake::new(id.place, message, "this id").help(help))
        }
    };
    ids.into_iter().map(check).collect()
}

/// Error for a missing required key.
pub(super) fn missing(text: &str, key: &str) -> Mistake {
    let begin = text.lines().position(|line| !line.trim().is_empty() && !line.starts_with(['#', '-'])).unwrap_or(0);
    let offset = text.split_inclusive('\n').take(begin).map(str::len).sum();
    let first = text.get(offset..).and_then(|rest| rest.split([':', '\n']).next()).unwrap_or_default();
    let place = SourceSpan::of(text, offset, first.len());
    Mistake::new(place, format!("the key `{key}` is missing"), "in this map").help(format!("add `{key}: …`"))
}

/// Guesses the nodes from words in the text, if the file does not list them in a readable way.
pub(super) fn probable_nodes(text: &str) -> Vec<NodeSpec> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let words: BTreeSet<&str> = text.split(|c: char| !is_part(c)).filter(|word| word.starts_with("node-")).collect();
    let kind = INSTANCE_TYPE.to_owned();
    let spec =
        |name: &&str| NodeSpec { name: (*name).to_owned(), zone: None, instance_type: kind.clone(), instance: None };
    words.iter().map(spec).collect()
}

pub(super) fn nodes(nodes: Spanned<doc::Nodes>) -> Checked<Vec<NodeSpec>> {
    let none = |place| Mistake::new(place, "a cluster needs at least one node", "no node").help("write `{count: 1}`");
    match nodes.value {
        doc::Nodes::Count(count) => {
            if *count.count == 0 {
                return Err(none(count.count.place));
            }
            if *count.count > MAX_NODES {
                let message = format!("{} nodes are more than the {MAX_NODES} that a scenario may have", *count.count);
                return Err(Mistake::new(count.count.place, message, "here"));
            }
            let kind = count.instance_type.unwrap_or_else(|| INSTANCE_TYPE.to_owned());
            let zone = |i: usize| count.zones.get(i % count.zones.len().max(1)).map(|z| z.value.clone());
            let spec =
                |i: usize| NodeSpec { name: node_name(i), zone: zone(i), instance_type: kind.clone(), instance: None };
            Ok((0..*count.count as usize).map(spec).collect())
        }
        doc::Nodes::List(list) => {
            if list.is_empty() {
                return Err(none(nodes.place));
            }
            let mut names = BTreeSet::new();
            let mut specs = Vec::new();
            for node in list {
                let node = node.value;
                check_name(&node.name).map_err(|m| Mistake::new(node.name.place, m, "this name"))?;
                if !names.insert(node.name.value.clone()) {
                    let message = format!("two nodes are called `{}`", *node.name);
                    return Err(Mistake::new(node.name.place, message, "the second one"));
                }
                if let Some(id) = &node.instance
                    && !mock_ec2::is_instance_id(id)
                {
                    let message = format!("`{}` is not an instance id: write i- and 8 or 17 hex digits", **id);
                    return Err(Mistake::new(id.place, message, "this id"));
                }
                specs.push(NodeSpec {
                    name: node.name.value,
                    zone: node.zone,
                    instance_type: node.instance_type.unwrap_or_else(|| INSTANCE_TYPE.to_owned()),
                    instance: node.instance.map(|id| id.value),
                });
            }
            Ok(specs)
        }
    }
}

/// node-a … node-z, node-aa, node-ab …
fn node_name(index: usize) -> String {
    let mut letters = Vec::new();
    let mut rest = index + 1;
    while rest > 0 {
        rest -= 1;
        letters.push(b'a' + u8::try_from(rest % 26).unwrap_or(0));
        rest /= 26;
    }
    letters.reverse();
    format!("node-{}", String::from_utf8_lossy(&letters))
}

pub(super) fn link(link: Option<Spanned<doc::Link>>) -> Checked<Latency> {
    let Some(link) = link else { return Ok(Latency::default()) };
    let ms = |s: Span| u64::try_from(s.0.as_millis()).unwrap_or(u64::MAX);
    let latency = Latency { min_ms: ms(link.min), max_ms: ms(link.max) };
    if latency.min_ms < 1 || latency.max_ms < latency.min_ms {
        let message = "a link takes at least 1ms, and `max` is not less than `min`";
        return Err(Mistake::new(link.place, message, "these bounds").help("write `{min: 1ms, max: 5ms}`"));
    }
    Ok(latency)
}

pub(super) fn time_scale(scale: Option<Spanned<doc::TimeScale>>) -> Checked<TimeScales> {
    let Some(scale) = scale else { return Ok(TimeScales::default()) };
    let scales = match scale.value {
        doc::TimeScale::Both(n) => TimeScales { simulated: n, live: n },
        doc::TimeScale::Each(each) => {
            TimeScales { simulated: each.simulated.unwrap_or(1.0), live: each.live.unwrap_or(1.0) }
        }
    };
    if let Some(why) = [scales.simulated, scales.live].iter().find_map(|n| substrate::TimeScale::check(*n).err()) {
        let message = format!("a time scale divides durations: it {why}");
        return Err(Mistake::new(scale.place, message, "this number")
            .help("1 does not change time, 60 makes a minute a second"));
    }
    Ok(scales)
}
