//! One run as data: lanes, events with their causes, and the timeline of each volume.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Value, json};

use super::cause::{self, Named};
use super::facts::{Facts, Look, Role};
use super::lanes::Lane;
use super::listener::{Listener, RecordedEvent};
use super::{FILE, MESSAGE, shortened};
use crate::invariants::Violation;
use crate::timeline::Timeline;

/// Appearance of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// Passed.
    #[default]
    Good,
    /// Passed with a warning.
    Warning,
    /// Failed.
    Bad,
}

/// Result of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdict {
    /// Appearance.
    pub tone: Tone,
    /// One-word result.
    pub word: String,
    /// Message; may be empty.
    pub message: String,
}

/// A command to copy.
#[derive(Clone, Debug, Serialize)]
pub struct Command {
    /// Purpose of the command.
    pub does: String,
    /// Text of the command.
    pub text: String,
}

/// A scenario to copy.
#[derive(Clone, Debug, Default, Serialize)]
pub struct File {
    /// Name of the file.
    pub name: String,
    /// Content of the file.
    pub text: String,
    /// True if its end is left out.
    pub cut: bool,
}

impl File {
    /// Takes as much of a file as a report shows.
    pub fn new(name: &str, text: &str) -> Self {
        let (text, cut) = shortened(text, FILE);
        Self { name: name.to_owned(), text, cut }
    }
}

/// One run.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Name, for reports with several runs.
    pub name: String,
    /// Seed of the run.
    pub seed: u64,
    /// Result.
    pub verdict: Verdict,
    /// Commands to copy.
    pub commands: Vec<Command>,
    /// Scenario file.
    pub file: File,
    /// Figures that the command prints.
    pub facts: Vec<String>,
    /// End of the run including its teardown, in milliseconds; 0 if unknown.
    pub end_ms: u64,
    /// Number of events of its trace.
    pub counted: u64,
    /// Timeline of its volumes.
    timeline: Timeline,
    lanes: Vec<Value>,
    /// Kinds of events with their descriptions.
    kinds: Vec<(&'static str, String)>,
    /// Objects that events name.
    objects: Vec<String>,
    events: Vec<Row>,
    violations: Vec<Value>,
    /// Number of events that are not shown, and of all events.
    left_out: usize,
    #[serde(rename = "heard")]
    event_count: usize,
}

/// An event.
#[derive(Clone, Debug, Serialize)]
struct Row {
    n: u64,
    ms: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    aside: bool,
    lane: usize,
    kind: usize,
    title: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    objects: Vec<usize>,
    /// Index of its cause, and the kind of evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<(usize, &'static str)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    look: Option<&'static str>,
    /// True if the event ends a call that began at its cause.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ends: bool,
    process: String,
    carries: Value,
    #[serde(skip)]
    weight: u8,
}

impl Run {
    /// Builds the report of the run that `listener` has recorded.
    pub fn new(name: &str, seed: u64, listener: &Listener, timeline: Timeline, violations: &[Violation]) -> Self {
        let recorded = listener.events();
        let aliases = aliases(&recorded);
        let one_name = |name: &String| aliases.get(name).unwrap_or(name).clone();
        let named: Vec<Named> = recorded
            .into_iter()
            .map(|recorded| {
                let mut names: Vec<String> = Vec::new();
                for name in recorded.facts.names.iter().map(one_name) {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                Named { recorded, names }
            })
            .collect();
        let marked: BTreeSet<u64> = violations.iter().map(|violation| violation.n).collect();
        let mut run = Self {
            name: name.to_owned(),
            seed,
            timeline,
            violations: violations.iter().map(violation_data).collect(),
            event_count: named.len(),
            ..Self::default()
        };
        run.fill(&named, &marked);
        run
    }

    /// Report of a run without events.
    pub fn without_events(name: &str, seed: u64, verdict: Verdict) -> Self {
        Self { name: name.to_owned(), seed, verdict, ..Self::default() }
    }

    fn fill(&mut self, named: &[Named], marked: &BTreeSet<u64>) {
        let lanes: BTreeSet<Lane> = named.iter().map(|named| Lane::of(&named.recorded)).collect();
        let lanes: Vec<Lane> = lanes.into_iter().collect();
        self.lanes = lanes.iter().map(|lane| json!({ "name": lane.name, "group": lane.group })).collect();
        let about: BTreeMap<&str, &str> = crate::events::all().iter().map(|kind| (kind.kind, kind.about)).collect();
        let kinds: BTreeSet<&'static str> = named.iter().map(|named| named.recorded.kind).collect();
        let kinds: Vec<&'static str> = kinds.into_iter().collect();
        // The part of a description about its subscribers is left out.
        let wording =
            |kind: &&str| about.get(*kind).map_or("", |wording| wording.split(" Only ").next().unwrap_or_default());
        self.kinds = kinds.iter().map(|kind| (*kind, wording(kind).trim().to_owned())).collect();
        let objects: BTreeSet<&String> = named.iter().flat_map(|named| &named.names).collect();
        self.objects = objects.iter().map(|name| (*name).clone()).collect();
        for (at, Named { recorded, names }) in named.iter().enumerate() {
            let Facts { role, title, look, weight, .. } = &recorded.facts;
            let cause = cause::of(named, at);
            let lane = Lane::of(recorded);
            let (title, _) = shortened(title, 200);
            self.events.push(Row {
                n: recorded.n,
                ms: recorded.ms,
                aside: !recorded.kept,
                lane: lanes.binary_search(&lane).unwrap_or_default(),
                kind: kinds.binary_search(&recorded.kind).unwrap_or_default(),
                title,
                objects: names.iter().filter_map(|name| self.objects.binary_search(name).ok()).collect(),
                cause: cause.map(|cause| (cause.at, cause.why)),
                look: match look {
                    _ if recorded.kept && marked.contains(&recorded.n) => Some("bad"),
                    Look::Plain => None,
                    Look::Warning => Some("warning"),
                    Look::Bad => Some("bad"),
                },
                ends: matches!(role, Role::Done(..)) && cause.is_some(),
                process: recorded.process.to_string(),
                carries: carried(recorded),
                weight: if recorded.kept && marked.contains(&recorded.n) { 0 } else { *weight },
            });
        }
    }

    /// Leaves out events until the rest has at most `most` bytes: those with the largest weight first, and of these the
    /// oldest.
    pub(super) fn shorten(&mut self, most: usize) {
        let (message, cut) = shortened(&self.verdict.message, MESSAGE);
        self.verdict.message = if cut { message + " …" } else { message };
        let size = |row: &Row| serde_json::to_string(row).map_or(0, |text| text.len() + 1);
        let sizes: Vec<usize> = self.events.iter().map(size).collect();
        let mut order: Vec<usize> = (0..self.events.len()).collect();
        order.sort_by_key(|at| (self.events[*at].weight, std::cmp::Reverse(*at)));
        let mut room = most;
        let mut kept = vec![false; self.events.len()];
        for at in order {
            let Some(rest) = room.checked_sub(sizes[at]) else { break };
            room = rest;
            kept[at] = true;
        }
        // Indices of causes refer to the shortened list; causes that were left out are dropped.
        let mut place = vec![None; kept.len()];
        let mut next = 0;
        for (at, kept) in kept.iter().enumerate() {
            if *kept {
                place[at] = Some(next);
                next += 1;
            }
        }
        let before = self.events.len();
        let mut at = 0;
        self.events.retain(|_| {
            at += 1;
            kept[at - 1]
        });
        for row in &mut self.events {
            row.cause = row.cause.and_then(|(at, why)| Some((place.get(at).copied().flatten()?, why)));
            row.ends &= row.cause.is_some();
        }
        self.left_out += before - self.events.len();
    }

    /// Number of events that are shown.
    pub fn shown(&self) -> usize {
        self.events.len()
    }
}

/// Fields of an event, with long texts cut.
fn carried(recorded: &RecordedEvent) -> Value {
    let mut value = substrate::encode::tree(&recorded.fields);
    cut_texts(&mut value);
    value
}

fn cut_texts(value: &mut Value) {
    match value {
        Value::String(text) => {
            let (short, cut) = shortened(text, 1_000);
            if cut {
                *text = short + " …";
            }
        }
        Value::Array(list) => list.iter_mut().for_each(cut_texts),
        Value::Object(map) => map.values_mut().for_each(cut_texts),
        _ => {}
    }
}

fn violation_data(violation: &Violation) -> Value {
    json!({
        "id": violation.id,
        "message": shortened(&violation.message, MESSAGE).0,
        "ms": violation.ms,
        "n": violation.n,
        "declared": violation.declared,
    })
}

/// Maps all names of an object to one: a volume to its claim, an instance to its node. The model has no names of objects
/// that are gone.
fn aliases(recorded: &[RecordedEvent]) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let first = |names: &[String], sort: &str| names.iter().find(|name| name.starts_with(sort)).cloned();
    for recorded in recorded {
        let names = &recorded.facts.names;
        match (recorded.kind, names.first()) {
            ("cluster.node", Some(node)) => {
                if let Some(instance) = names.get(1) {
                    all.insert(instance.clone(), node.clone());
                }
            }
            ("api.commit", Some(own)) if own.starts_with("pv/") => {
                let of = first(names, "pvc/").unwrap_or_else(|| own.clone());
                // Before a volume has a handle, a driver uses its name.
                let by_name = own.replacen("pv/", "volume/", 1);
                for name in first(names, "volume/").into_iter().chain([own.clone(), by_name]) {
                    if name != of {
                        all.insert(name, of.clone());
                    }
                }
            }
            ("api.commit", Some(own)) if own.starts_with("va/") => {
                let of = first(names, "pv/").and_then(|pv| all.get(&pv).cloned());
                if let Some(of) = of {
                    all.insert(own.clone(), of);
                }
            }
            _ => {}
        }
    }
    all
}
