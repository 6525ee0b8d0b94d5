//! From the file as written to the checked model: defaults, and everything that serde cannot see.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value};
use substrate::fabric::Latency;
use substrate::fault::{Catalogue, Fault, Span};

use super::diagnostic::{Mistake, nearest, suggest};
use super::document as doc;
use super::model::*;
use super::object::{Condition, Kind, ObjectRef, State, check_name};
use super::place::{Place, Placed};
use crate::cluster::spec::NodeSpec as ClusterNode;
use crate::cluster::{ClusterSpec, names};
use crate::invariants::{Id, declared};

/// How long a `wait` may take when the file does not say.
const WITHIN: Duration = Duration::from_secs(5 * 60);
/// How long a scenario may take when the file does not say.
const DEADLINE: Duration = Duration::from_secs(30 * 60);
/// As many nodes as the design's largest figure times ten.
const MAX_NODES: u32 = 1000;
/// The instance type when the file names none: Nitro, 25 volumes besides the root volume and one interface.
const INSTANCE_TYPE: &str = "m5.large";
/// Effects of taints that Kubernetes knows.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

type Checked<T> = Result<T, Mistake>;

/// Checks a document and fills in defaults.
pub(super) fn lower(source: &str, text: &str, document: doc::Document) -> Checked<Scenario> {
    let name = document.name;
    check_name(&name).map_err(|m| Mistake::new(name.place, m, "this name"))?;
    let nodes = nodes(document.nodes)?;
    let objects: Vec<Manifest> =
        document.objects.into_iter().map(|m| manifest(m.place, m.value)).collect::<Checked<_>>()?;
    let replicas = replicas(document.replicas)?;
    let mut spec = ClusterSpec { replicas: replicas.clone(), ..ClusterSpec::default() };
    spec.nodes = nodes
        .iter()
        .map(|n| ClusterNode { name: n.name.clone(), zone: String::new(), instance_type: String::new() })
        .collect();
    let catalogue = names::catalogue(&spec);
    let mut steps = Steps { text, nodes: &nodes, catalogue: &catalogue, names: Vec::new(), faults: BTreeSet::new() };
    for fault in &document.faults {
        steps.add_fault(fault)?;
    }
    let done = document.steps.into_iter().map(|step| steps.step(step)).collect::<Checked<_>>()?;
    Ok(Scenario {
        name: name.value,
        description: document.description,
        source: source.to_owned(),
        latency: document.latency,
        link: link(document.link)?,
        time_scale: time_scale(document.time_scale)?,
        deadline: match document.deadline {
            Some(d) if d.0.is_zero() => {
                return Err(Mistake::new(d.place, "a deadline of zero can never be met", "here"));
            }
            d => d.map_or(DEADLINE, |d| d.0),
        },
        objects,
        faults: document.faults.into_iter().map(|f| f.value).collect(),
        steps: done,
        teardown: document.teardown,
        replicas,
        leader_elect: document.leader_elect,
        lock: document.driver.lock,
        violations: violations(document.violations)?,
        nodes,
    })
}

/// As many replicas as make sense of anything that has one leader.
const MAX_REPLICAS: u64 = 5;

fn replicas(replicas: Option<Placed<doc::Replicas>>) -> Checked<BTreeMap<String, usize>> {
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

fn violations(ids: Vec<Placed<String>>) -> Checked<Vec<String>> {
    let known = declared::all().map_err(|m| Mistake::new(Place::default(), m, "here"))?;
    let check = |id: Placed<String>| match known.iter().any(|d| d.id == id.value) {
        true => Ok(id.value),
        false => {
            let help = suggest(&id.value, known.iter().map(|d| d.id.as_str()), "declared deviations");
            let message = format!("no deviation of upstream is declared as `{}`", id.value);
            Err(Mistake::new(id.place, message, "this id").help(help))
        }
    };
    ids.into_iter().map(check).collect()
}

fn nodes(nodes: Placed<doc::Nodes>) -> Checked<Vec<NodeSpec>> {
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
            let spec = |i: usize| NodeSpec { name: node_name(i), zone: zone(i), instance_type: kind.clone() };
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
                specs.push(NodeSpec {
                    name: node.name.value,
                    zone: node.zone,
                    instance_type: node.instance_type.unwrap_or_else(|| INSTANCE_TYPE.to_owned()),
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

fn link(link: Option<Placed<doc::Link>>) -> Checked<Latency> {
    let Some(link) = link else { return Ok(Latency::default()) };
    let ms = |s: Span| u64::try_from(s.0.as_millis()).unwrap_or(u64::MAX);
    let latency = Latency { min_ms: ms(link.min), max_ms: ms(link.max) };
    if latency.min_ms < 1 || latency.max_ms < latency.min_ms {
        let message = "a link takes at least 1ms, and `max` is not less than `min`";
        return Err(Mistake::new(link.place, message, "these bounds").help("write `{min: 1ms, max: 5ms}`"));
    }
    Ok(latency)
}

fn time_scale(scale: Option<Placed<doc::TimeScale>>) -> Checked<TimeScales> {
    let Some(scale) = scale else { return Ok(TimeScales::default()) };
    let scales = match scale.value {
        doc::TimeScale::Both(n) => TimeScales { simulated: n, live: n },
        doc::TimeScale::Each(each) => {
            TimeScales { simulated: each.simulated.unwrap_or(1.0), live: each.live.unwrap_or(1.0) }
        }
    };
    if [scales.simulated, scales.live].iter().any(|n| !n.is_finite() || *n <= 0.0) {
        let message = "a time scale divides durations, so it must be a number above zero";
        return Err(Mistake::new(scale.place, message, "this number")
            .help("1 leaves time as it is, 60 makes a minute a second"));
    }
    Ok(scales)
}

fn manifest(place: Place, map: Map<String, Value>) -> Checked<Manifest> {
    let bad = |message: String| Mistake::new(place, message, "this manifest");
    let text = |path: &[&str]| -> Checked<Option<String>> {
        let mut at = map.get(path[0]);
        for key in &path[1..] {
            at = at.and_then(|v| v.get(key));
        }
        match at {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s.clone())),
            Some(_) => Err(bad(format!("the manifest's `{}` is not a string", path.join(".")))),
        }
    };
    let need = |path: &[&str]| text(path)?.ok_or_else(|| bad(format!("the manifest has no `{}`", path.join("."))));
    let (version, kind_name, name) = (need(&["apiVersion"])?, need(&["kind"])?, need(&["metadata", "name"])?);
    let Some(kind) = Kind::of_manifest(&version, &kind_name) else {
        let message = format!("this cluster has no kind {kind_name} in {version}");
        let help = match Kind::kinds().find(|(kind, _)| *kind == kind_name) {
            Some((_, right)) => format!("write `apiVersion: {right}`"),
            None => suggest(&kind_name, Kind::kinds().map(|(kind, _)| kind), "kinds"),
        };
        return Err(bad(message).help(help));
    };
    check_name(&name).map_err(bad)?;
    let namespace = text(&["metadata", "namespace"])?;
    Ok(Manifest { object: ObjectRef::new(kind, namespace.as_deref(), &name), value: Value::Object(map) })
}

/// What the steps so far have introduced.
struct Steps<'a> {
    text: &'a str,
    catalogue: &'a Catalogue,
    nodes: &'a [NodeSpec],
    /// Names of the steps, by index.
    names: Vec<Option<String>>,
    faults: BTreeSet<String>,
}

impl Steps<'_> {
    fn step(&mut self, step: Placed<doc::Step>) -> Checked<Step> {
        let (place, step) = (step.place, step.value);
        let index = self.names.len();
        if let Some(name) = &step.name
            && self.names.iter().flatten().any(|n| *n == name.value)
        {
            let message = format!("two steps are called `{}`", name.value);
            return Err(Mistake::new(name.place, message, "the second one"));
        }
        let name = step.name.as_ref().map(|n| n.value.clone());
        let action = self.action(place, step)?;
        self.names.push(name.clone());
        Ok(Step { index, name, line: place.line, column: place.column, action })
    }

    fn action(&mut self, place: Place, step: doc::Step) -> Checked<Action> {
        let found: Vec<(&str, Place)> = [
            ("apply", step.apply.as_ref().map(|v| v.place)),
            ("wait", step.wait.as_ref().map(|v| v.place)),
            ("expect", step.expect.as_ref().map(|v| v.place)),
            ("crash", step.crash.as_ref().map(|v| v.place)),
            ("restart", step.restart.as_ref().map(|v| v.place)),
            ("delete", step.delete.as_ref().map(|v| v.place)),
            ("taint", step.taint.as_ref().map(|v| v.place)),
            ("untaint", step.untaint.as_ref().map(|v| v.place)),
            ("cordon", step.cordon.as_ref().map(|v| v.place)),
            ("uncordon", step.uncordon.as_ref().map(|v| v.place)),
            ("fault", step.fault.as_ref().map(|v| v.place)),
            ("clear-fault", step.clear_fault.as_ref().map(|v| v.place)),
            ("sleep", step.sleep.as_ref().map(|v| v.place)),
        ]
        .into_iter()
        .filter_map(|(key, place)| place.map(|p| (key, p)))
        .collect();
        match found[..] {
            [_] => {}
            [] => {
                let help = "one of: apply, wait, expect, crash, restart, delete, taint, untaint, cordon, uncordon, fault, clear-fault, sleep";
                return Err(Mistake::new(place, "this step does nothing", "no action").help(help));
            }
            [(first, _), (second, at), ..] => {
                let message = format!("a step does one thing, this one has both `{first}` and `{second}`");
                return Err(Mistake::new(at, message, format!("`{second}`")).help("make two steps of it"));
            }
        }
        if let Some(apply) = step.apply {
            return self.apply(apply);
        }
        if let Some(wait) = step.wait {
            return self.wait(wait);
        }
        if let Some(expect) = step.expect {
            return self.expect(expect).map(Action::Expect);
        }
        if let Some(delete) = step.delete {
            let Placed { value: doc::Delete { object, force, grace }, place } = delete;
            if force && grace.is_some_and(|g| !g.0.is_zero()) {
                let message = "a forced deletion has no grace period";
                return Err(Mistake::new(place, message, "here").help("leave `grace` out, or write `grace: 0s`"));
            }
            return Ok(Action::Delete(Delete { object, force, grace: grace.map(|g| g.0) }));
        }
        if let Some(taint) = step.taint {
            let doc::Taint { node, key, value, effect } = taint.value;
            if !EFFECTS.contains(&effect.as_str()) {
                let message = format!("`{}` is no effect of a taint", *effect);
                return Err(Mistake::new(effect.place, message, "this effect").help(suggest(
                    &effect,
                    EFFECTS.into_iter(),
                    "effects",
                )));
            }
            return Ok(Action::Taint(Taint { node: self.node(node)?, key, value, effect: effect.value }));
        }
        if let Some(untaint) = step.untaint {
            let doc::Untaint { node, key } = untaint.value;
            return Ok(Action::Untaint(Untaint { node: self.node(node)?, key }));
        }
        if let Some(fault) = step.fault {
            self.add_fault(&fault)?;
            return Ok(Action::Fault(Box::new(fault.value)));
        }
        if let Some(name) = step.clear_fault {
            if !self.faults.remove(&name.value) {
                let message = format!("no fault called `{}` is in force here", *name);
                let help = suggest(&name, self.faults.iter().map(String::as_str), "faults in force");
                return Err(Mistake::new(name.place, message, "this fault").help(help));
            }
            return Ok(Action::ClearFault(name.value));
        }
        if let Some(sleep) = step.sleep {
            return Ok(Action::Sleep(sleep.0));
        }
        type On = fn(String) -> Action;
        let on_processes: [(Option<Placed<String>>, On); 2] =
            [(step.crash, Action::Crash), (step.restart, Action::Restart)];
        for (name, action) in on_processes {
            if let Some(name) = name {
                return self.node_or_process(name).map(action);
            }
        }
        let on_nodes: [(Option<Placed<String>>, On); 2] =
            [(step.cordon, Action::Cordon), (step.uncordon, Action::Uncordon)];
        for (node, action) in on_nodes {
            if let Some(node) = node {
                return self.node(node).map(action);
            }
        }
        Err(Mistake::new(place, "this step does nothing", "no action"))
    }

    fn apply(&self, apply: Placed<doc::OneOrMany<Map<String, Value>>>) -> Checked<Action> {
        let place = apply.place;
        let list = match apply.value {
            doc::OneOrMany::One(map) => vec![manifest(place, map)?],
            doc::OneOrMany::Many(list) => {
                list.into_iter().map(|m| manifest(m.place, m.value)).collect::<Checked<Vec<_>>>()?
            }
        };
        if list.is_empty() {
            return Err(Mistake::new(place, "there is no manifest to apply", "an empty list"));
        }
        Ok(Action::Apply(list))
    }

    fn wait(&self, wait: Placed<doc::Wait>) -> Checked<Action> {
        let (place, wait) = (wait.place, wait.value);
        let kind = wait.object.kind;
        if let Some(is) = &wait.is
            && !kind.states().contains(&is.value)
        {
            let words: Vec<String> = kind.states().iter().map(State::to_string).collect();
            let message = format!("a {} is never {}", kind.kind(), is.value);
            let help = suggest(&is.value.to_string(), words.iter().map(String::as_str), "its states");
            return Err(Mistake::new(is.place, message, "this state").help(help));
        }
        if let Some(on) = &wait.on
            && ![Kind::pod(), Kind::volume_attachment()].contains(&kind)
        {
            let message = format!("a {} is on no node", kind.kind());
            return Err(Mistake::new(on.place, message, "`on` is for pods and attachments"));
        }
        if let Some(records) = &wait.records
            && kind != Kind::pod()
        {
            let message = format!("a {} writes no records", kind.kind());
            return Err(Mistake::new(records.place, message, "`records` is for pods"));
        }
        if wait.is.is_none() && wait.records.is_none() && wait.on.is_none() {
            let message = "there is nothing to wait for";
            return Err(Mistake::new(place, message, "no condition").help("add `is`, `on` or `records`"));
        }
        Ok(Action::Wait(Wait {
            object: wait.object,
            is: wait.is.map(|is| is.value),
            on: wait.on.map(|on| self.node(on)).transpose()?,
            records: wait.records.map(|r| r.value),
            within: wait.within.map_or(WITHIN, |w| w.0),
        }))
    }

    fn expect(&self, expect: Placed<doc::Expect>) -> Checked<Expectation> {
        let (place, expect) = (expect.place, expect.value);
        let count = usize::from(expect.event.is_some())
            + usize::from(expect.bytes_intact.is_some())
            + usize::from(expect.attached.is_some())
            + usize::from(expect.elapsed.is_some())
            + usize::from(expect.checked.is_some());
        if count != 1 {
            let message = format!("an `expect` demands one thing, this one demands {count}");
            let help = "exactly one of: event, bytes-intact (with records), attached, elapsed, checked";
            return Err(Mistake::new(place, message, "here").help(help));
        }
        if let Some(records) = &expect.records
            && expect.bytes_intact.is_none()
        {
            return Err(Mistake::new(records.place, "`records` belongs to `bytes-intact`", "here"));
        }
        if let Some(pod) = expect.bytes_intact {
            if pod.kind != Kind::pod() {
                return Err(Mistake::new(pod.place, format!("a {} keeps no records", pod.kind.kind()), "not a pod"));
            }
            let records = expect.records.map_or(1, |r| r.value);
            return Ok(Expectation::BytesIntact(BytesIntact { pod: pod.value, records }));
        }
        if let Some(event) = expect.event {
            let doc::EventSeen { object, reason, contains, within } = event.value;
            let within = within.map_or(Duration::ZERO, |w| w.0);
            return Ok(Expectation::Event(EventSeen { object, reason, contains, within }));
        }
        if let Some(attached) = expect.attached {
            let doc::Attached { claim, node, within } = attached.value;
            let object: ObjectRef =
                format!("pvc/{}", claim.value).parse().map_err(|m| Mistake::new(claim.place, m, "this claim"))?;
            let within = within.map_or(Duration::ZERO, |w| w.0);
            return Ok(Expectation::Attached(Attached { claim: object, node: self.node(node)?, within }));
        }
        if let Some(checked) = expect.checked {
            return counts(checked).map(Expectation::Checked);
        }
        let Some(Placed { place, value: elapsed }) = expect.elapsed else {
            return Err(Mistake::new(place, "this `expect` demands nothing", "here"));
        };
        let (at_least, at_most) = (elapsed.at_least.map(|s| s.0), elapsed.at_most.map(|s| s.0));
        if at_least.is_none() && at_most.is_none() {
            return Err(
                Mistake::new(place, "no bound on the time that passed", "here").help("add `at-least` or `at-most`")
            );
        }
        if at_least.zip(at_most).is_some_and(|(least, most)| least > most) {
            return Err(Mistake::new(place, "`at-least` is more than `at-most`", "no time lies between these"));
        }
        let since = elapsed.since.map(|name| self.index(name)).transpose()?;
        Ok(Expectation::Elapsed(Elapsed { since, at_least, at_most }))
    }

    /// The index of an earlier step.
    fn index(&self, name: Placed<String>) -> Checked<usize> {
        self.names.iter().position(|n| n.as_ref() == Some(&name.value)).ok_or_else(|| {
            let message = format!("no earlier step is called `{}`", *name);
            let all = self.names.iter().flatten().map(String::as_str);
            Mistake::new(name.place, message, "this step").help(suggest(&name, all, "names of earlier steps"))
        })
    }

    fn node(&self, name: Placed<String>) -> Checked<String> {
        if self.nodes.iter().any(|n| n.name == name.value) {
            return Ok(name.value);
        }
        let message = format!("there is no node called `{}`", *name);
        let all = self.nodes.iter().map(|n| n.name.as_str());
        let help = if self.nodes.len() <= 12 {
            suggest(&name, all, "nodes")
        } else {
            nearest(&name, all).map_or_else(|| "see `nodes`".to_owned(), |near| format!("did you mean `{near}`?"))
        };
        Err(Mistake::new(name.place, message, "this node").help(help))
    }

    /// A node, or a process or group of them.
    fn node_or_process(&self, name: Placed<String>) -> Checked<String> {
        let Some(names) = self.catalogue.names() else { return self.node(name) };
        if self.nodes.iter().any(|n| n.name == name.value) || !names.resolve(&name).is_empty() {
            return Ok(name.value);
        }
        let known = names.nodes.iter().chain(names.groups.keys()).chain(&names.processes).map(String::as_str);
        let message = format!("there is no node and no process called `{}`", *name);
        let near = substrate::words::nearest(&name, known);
        let help = near.map_or_else(|| "see `nodes`".to_owned(), |near| format!("did you mean `{near}`?"));
        Err(Mistake::new(name.place, message, "this name").help(help))
    }

    fn add_fault(&mut self, fault: &Placed<Fault>) -> Checked<()> {
        let until = fault.when.until.as_deref().map(str::parse::<Condition>).transpose();
        let until = until.map(drop).map_err(|message| substrate::fault::Mistake {
            word: fault.when.until.clone(),
            ..substrate::fault::Mistake::new("when.until", message)
        });
        let checked = until.and_then(|()| self.catalogue.check(&fault.value).map(drop));
        if let Err(mistake) = checked {
            let place = mistake.word.as_deref().and_then(|word| within(self.text, fault.place, word));
            let message = format!("{}: {}", mistake.field, mistake.message);
            let wrong = Mistake::new(place.unwrap_or(fault.place), message, "here");
            return Err(match mistake.nearest {
                Some(word) => wrong.help(format!("did you mean `{word}`?")),
                None => wrong,
            });
        }
        if !self.faults.insert(fault.name.clone()) {
            let message = format!("a fault called `{}` is in force already", fault.name);
            return Err(Mistake::new(fault.place, message, "the second one").help("give each fault a name of its own"));
        }
        Ok(())
    }
}

fn counts(checked: Placed<BTreeMap<String, u64>>) -> Checked<BTreeMap<Id, u64>> {
    let Placed { place, value } = checked;
    if value.is_empty() {
        return Err(Mistake::new(place, "no invariant is named", "here").help("write `{I2: 1}`"));
    }
    let count = |(name, least): (String, u64)| {
        let id: Id = name.parse().map_err(|message: String| Mistake::new(place, message, "here"))?;
        if least == 0 {
            return Err(Mistake::new(place, format!("{id} on no occasion demands nothing"), "here"));
        }
        Ok((id, least))
    };
    value.into_iter().map(count).collect()
}

/// Where `word` stands in the text of a fault that begins at `place`, before the next item of its list.
fn within(text: &str, place: Place, word: &str) -> Option<Place> {
    let rest = text.get(place.offset..)?;
    let indent = place.column.saturating_sub(1) as usize;
    // What follows is further in, or goes on in the same line.
    let end = rest
        .match_indices('\n')
        .map(|(at, _)| at + 1)
        .find(|at| {
            let line = rest[*at..].lines().next().unwrap_or_default();
            let depth = line.len() - line.trim_start().len();
            !line.trim().is_empty() && depth < indent
        })
        .unwrap_or(rest.len());
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let (at, _) = rest[..end].match_indices(word).find(|(at, _)| {
        let before = rest[..*at].chars().next_back().is_some_and(is_part);
        let after = rest[*at + word.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })?;
    let offset = place.offset + at;
    let line_start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    Some(Place {
        offset,
        length: word.len(),
        line: text[..offset].matches('\n').count() as u64 + 1,
        column: text[line_start..offset].chars().count() as u64 + 1,
    })
}
