//! What can be broken: one table that files, admin APIs, the command line and the Rust API all ask.
//!
//! Each server exports its [`Operation`]s as data. What the table does not know is refused when a fault is added, with
//! the field and the nearest right word; what it accepts has an effect. So a fault is refused or accepted everywhere
//! alike.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Effect, Fault, Kind, Moment, Plane};
use crate::words::nearest;

/// One operation that faults can meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// The layer.
    pub plane: Plane,
    /// Its name in its own protocol: `AttachVolume`, `patch`, `write_at`.
    pub name: &'static str,
    /// Names that stand for several operations: `read`, `write`.
    pub classes: &'static [&'static str],
    /// What it is, in one sentence.
    pub about: &'static str,
    /// What can be told of it.
    pub attributes: &'static [Attribute],
    /// The moments at which it asks for faults; the effects of [`EVERYWHERE`] are possible at each.
    pub moments: &'static [Moment],
    /// What else can happen.
    pub can: &'static [Possible],
}

/// What can be told of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attribute {
    /// Its name in `match.where`.
    pub name: &'static str,
    /// What it says.
    pub about: &'static str,
    /// What it can be.
    pub values: Words,
}

/// What a word can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Words {
    /// Anything.
    Any,
    /// One of these.
    OneOf(&'static [&'static str]),
}

/// An effect that an operation can suffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Possible {
    /// The effect.
    pub effect: Kind,
    /// The moments at which it acts.
    pub at: &'static [Moment],
    /// What its value can be.
    pub values: Values,
    /// What is seen of it.
    pub shows: &'static str,
}

/// What the value of an effect can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// `true`.
    Flag,
    /// A duration above zero.
    Span,
    /// A whole number.
    Number {
        /// The least.
        least: u64,
        /// The greatest.
        most: u64,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words; letter case and underscores do not matter.
    Folded(&'static [&'static str]),
    /// Any word; these are known.
    Text(&'static [&'static str]),
    /// `self`, or the name of a process or of a group of them.
    Process,
    /// The name of a node.
    Node,
    /// Two ends of a link.
    Ends,
    /// A duration with a sign.
    Skew,
}

impl Values {
    /// What a value can be, in a few words.
    pub fn describe(self) -> String {
        match self {
            Self::Flag => "true".to_owned(),
            Self::Span => "a duration such as 250ms or 2m".to_owned(),
            Self::Number { least, most } => format!("a number from {least} to {most}"),
            Self::OneOf(words) | Self::Folded(words) => words.join(" | "),
            Self::Text([]) => "any code".to_owned(),
            Self::Text(words) => format!("any code, such as {}", words.join(", ")),
            Self::Process => "self, or the name of a process, a group or a node".to_owned(),
            Self::Node => "the name of a node".to_owned(),
            Self::Ends => "two processes, nodes, groups or servers".to_owned(),
            Self::Skew => "a duration with a sign such as +90s".to_owned(),
        }
    }
}

/// What every operation can suffer at each moment at which it asks.
pub const EVERYWHERE: &[Possible] = &[
    Possible { effect: Kind::Delay, at: ALL, values: Values::Span, shows: "it takes that much longer" },
    Possible { effect: Kind::Hang, at: ALL, values: Values::Flag, shows: "it waits until the fault is gone" },
    Possible { effect: Kind::Crash, at: ALL, values: Values::Process, shows: "the process ends: process.crashed" },
    Possible { effect: Kind::Reboot, at: ALL, values: Values::Node, shows: "the machine loses power: disk.crashed" },
    Possible { effect: Kind::Count, at: ALL, values: Values::Flag, shows: "fault.fired, and nothing else" },
];

/// All moments.
pub const ALL: &[Moment] = &[Moment::Before, Moment::AfterEffect, Moment::BeforeReply];
/// The first moment alone.
pub const BEFORE: &[Moment] = &[Moment::Before];

/// The process in which it happens: every operation has this attribute.
pub const PROCESS: Attribute =
    Attribute { name: "process", about: "the process that the operation happens in", values: Words::Any };

impl Operation {
    /// All that can happen to it.
    pub fn possible(&self) -> impl Iterator<Item = Possible> + '_ {
        let everywhere = EVERYWHERE.iter().map(|p| Possible { at: self.moments, ..*p });
        self.can.iter().copied().chain(everywhere)
    }

    /// Whether `pattern` names it: its name, the beginning of it and `*`, or a class.
    pub fn is(&self, pattern: &str) -> bool {
        super::wild(pattern, self.name) || self.classes.contains(&pattern)
    }

    fn attributes(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes.iter().chain([&PROCESS])
    }
}

/// Why a fault is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// The field, `effect.grpc`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
    /// The word that is wrong, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<String>,
    /// The nearest right word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)?;
        match &self.nearest {
            Some(word) => write!(f, "; did you mean `{word}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Mistake {}

impl Mistake {
    /// A mistake in what stands under the key at the end of `field`.
    fn key(field: impl Into<String>, message: impl Into<String>) -> Self {
        let mistake = Self::new(field, message);
        let word = mistake.field.rsplit('.').next().map(str::to_owned);
        Self { word, ..mistake }
    }

    /// A mistake in `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), ..Self::default() }
    }

    fn of(field: impl Into<String>, word: &str, what: &str, known: &[&str]) -> Self {
        let list = if known.len() <= 24 { format!("; there are {}", known.join(", ")) } else { String::new() };
        let near = nearest(word, known.iter().copied()).map(str::to_owned);
        let message = format!("`{word}` is {what}{list}");
        Self { field: field.into(), message, word: Some(word.to_owned()), nearest: near }
    }
}

/// Names that faults may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Names {
    /// Processes, by their names in the trace.
    pub processes: BTreeSet<String>,
    /// Names that stand for several processes.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Nodes.
    pub nodes: BTreeSet<String>,
    /// Names under which servers are reached, and the process that answers there.
    pub servers: BTreeMap<String, String>,
}

impl Names {
    /// The processes that `name` stands for: one, a group, or all of a node (`node-a` for `node-a/kubelet`).
    pub fn resolve(&self, name: &str) -> Vec<String> {
        if let Some(group) = self.groups.get(name) {
            return group.clone();
        }
        self.processes.iter().filter(|process| within(name, process)).cloned().collect()
    }

    fn ends(&self) -> impl Iterator<Item = &str> {
        let own = self.processes.iter().chain(self.servers.keys()).chain(&self.nodes).chain(self.groups.keys());
        own.map(String::as_str)
    }
}

/// Whether `process` is `name`, or runs on the node of that name.
pub fn within(name: &str, process: &str) -> bool {
    process.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The table, put together.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    operations: Vec<&'static Operation>,
    names: Option<Arc<Names>>,
    /// Somebody watches the cluster, and so can end a fault when a condition holds.
    watched: bool,
}

impl Catalogue {
    /// Adds operations; what is there already stays once.
    pub fn add(&mut self, operations: &'static [Operation]) {
        for operation in operations {
            if !self.operations.iter().any(|o| o.plane == operation.plane && o.name == operation.name) {
                self.operations.push(operation);
            }
        }
    }

    /// Says which names there are; without it any will do.
    pub fn name(&mut self, names: Names) {
        self.names = Some(Arc::new(names));
    }

    /// Says that conditions on the cluster (`when.until`) are watched.
    pub fn watch(&mut self) {
        self.watched = true;
    }

    /// The names, if they are known.
    pub fn names(&self) -> Option<&Arc<Names>> {
        self.names.as_ref()
    }

    /// All operations.
    pub fn operations(&self) -> impl Iterator<Item = &'static Operation> + '_ {
        self.operations.iter().copied()
    }

    /// Checks a fault and gives the names of the operations in which it can fire.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(&self, fault: &Fault) -> Result<BTreeSet<&'static str>, Mistake> {
        check_name(&fault.name)?;
        check_when(fault)?;
        check_steady(fault)?;
        if fault.when.until.is_some() && !self.watched {
            let message = "nobody here watches a cluster; end the fault by deleting it, or give it a lease.ttl";
            return Err(Mistake::key("when.until", message));
        }
        let named = self.named(fault)?;
        let told = self.told(fault, &named)?;
        let kind = fault.effect.kind();
        let able: Vec<(&Operation, Possible)> = told
            .iter()
            .flat_map(|o| o.possible().filter(|p| p.effect == kind).map(|p| (*o, p)).collect::<Vec<_>>())
            .collect();
        if able.is_empty() {
            let mut kinds: Vec<&str> = told.iter().flat_map(|o| o.possible()).map(|p| p.effect.name()).collect();
            kinds.sort_unstable();
            kinds.dedup();
            let (effect, plane) = (kind.name(), fault.matches.plane.name());
            let of = match &fault.matches.op {
                Some(op) => format!("to `{op}` on the plane {plane}"),
                None => format!("on the plane {plane}"),
            };
            let message = format!("cannot happen {of}, which knows {}", kinds.join(", "));
            return Err(Mistake { word: Some(effect.to_owned()), ..Mistake::new(format!("effect.{effect}"), message) });
        }
        let now: Vec<_> = able.iter().filter(|(_, p)| p.at.contains(&fault.at)).collect();
        if now.is_empty() {
            let mut at: Vec<&str> = able.iter().flat_map(|(_, p)| p.at).map(|m| m.name()).collect();
            at.sort_unstable();
            at.dedup();
            let message = format!(
                "`{}` is no moment at which {} acts here; it acts at {}",
                fault.at.name(),
                kind.name(),
                at.join(", ")
            );
            let word = Some(fault.at.name().to_owned());
            return Err(Mistake { word, nearest: at.first().map(|m| (*m).to_owned()), ..Mistake::new("at", message) });
        }
        let mut first = None;
        let mut good = BTreeSet::new();
        for (operation, possible) in now {
            match self.value(&fault.effect, possible.values) {
                Ok(()) => {
                    good.insert(operation.name);
                }
                Err(mistake) => first = first.or(Some(mistake)),
            }
        }
        match first {
            Some(mistake) if good.is_empty() => Err(mistake),
            _ => Ok(good),
        }
    }

    /// The operations that a fault names.
    fn named(&self, fault: &Fault) -> Result<Vec<&'static Operation>, Mistake> {
        let plane = fault.matches.plane;
        let own: Vec<&'static Operation> = self.operations().filter(|o| o.plane == plane).collect();
        if own.is_empty() {
            let mut planes: Vec<&str> = self.operations().map(|o| o.plane.name()).collect();
            planes.sort_unstable();
            planes.dedup();
            let message = format!("nothing here acts on the plane {}; there are {}", plane.name(), planes.join(", "));
            let word = Some(plane.name().to_owned());
            return Err(Mistake { word, ..Mistake::new("match.plane", message) });
        }
        let Some(ops) = &fault.matches.op else { return Ok(own) };
        let mut named = Vec::new();
        for pattern in ops.iter() {
            let found: Vec<&'static Operation> = own.iter().copied().filter(|o| o.is(pattern)).collect();
            if found.is_empty() {
                let mut known: Vec<&str> =
                    own.iter().map(|o| o.name).chain(own.iter().flat_map(|o| o.classes.iter().copied())).collect();
                known.dedup();
                let classes: BTreeSet<&str> = own.iter().flat_map(|o| o.classes.iter().copied()).collect();
                known.retain(|k| !classes.contains(k));
                known.extend(classes);
                return Err(Mistake::of(
                    "match.op",
                    pattern,
                    &format!("no operation of the plane {}", plane.name()),
                    &known,
                ));
            }
            named.extend(found);
        }
        Ok(named)
    }

    /// Those of `named` that have all attributes of the fault.
    fn told(&self, fault: &Fault, named: &[&'static Operation]) -> Result<Vec<&'static Operation>, Mistake> {
        let mut told = named.to_vec();
        for (key, pattern) in &fault.matches.attributes {
            let field = format!("match.where.{key}");
            let mut known: Vec<&str> = told.iter().flat_map(|o| o.attributes()).map(|a| a.name).collect();
            known.sort_unstable();
            known.dedup();
            told.retain(|o| o.attributes().any(|a| a.name == key));
            if told.is_empty() {
                return Err(Mistake::of(field, key, "no attribute of these operations", &known));
            }
            let words = told.iter().flat_map(|o| o.attributes()).filter(|a| a.name == key).map(|a| a.values);
            let lists: Vec<&[&str]> = words.map(|w| if let Words::OneOf(list) = w { list } else { &[][..] }).collect();
            let closed = lists.iter().all(|list| !list.is_empty());
            if closed && !lists.iter().copied().flatten().any(|known| super::wild(pattern, known)) {
                return Err(Mistake::of(field, pattern, "no value of this attribute", lists[0]));
            }
            if key == PROCESS.name && !pattern.ends_with('*') {
                self.process(&field, pattern)?;
            }
        }
        Ok(told)
    }

    fn process(&self, field: &str, name: &str) -> Result<(), Mistake> {
        let Some(names) = &self.names else { return Ok(()) };
        if !names.resolve(name).is_empty() {
            return Ok(());
        }
        let known: Vec<&str> = names
            .processes
            .iter()
            .chain(names.groups.keys())
            .chain(&names.nodes)
            .map(String::as_str)
            .chain((field != "match.where.process").then_some("self"))
            .collect();
        Err(Mistake::of(field, name, "no process", &known))
    }

    fn value(&self, effect: &Effect, values: Values) -> Result<(), Mistake> {
        let field = || format!("effect.{}", effect.kind().name());
        let word = effect.word();
        match values {
            Values::Flag if !effect.is_on() => Err(Mistake::new(field(), "must be true, or nothing happens")),
            Values::Flag => Ok(()),
            Values::Span if effect.span().is_none_or(|s| s.0.is_zero()) => {
                Err(Mistake::new(field(), "must be longer than nothing, such as 250ms or 30s"))
            }
            Values::Span => Ok(()),
            Values::Number { least, most } => match effect.number() {
                Some(n) if (least..=most).contains(&n) => Ok(()),
                n => {
                    let n = n.unwrap_or_default();
                    let message = format!("{n} is not a number from {least} to {most}");
                    Err(Mistake { word: Some(n.to_string()), ..Mistake::new(field(), message) })
                }
            },
            Values::OneOf(known) if known.contains(&word.as_str()) => Ok(()),
            Values::Folded(known) if known.iter().any(|k| folded(k) == folded(&word)) => Ok(()),
            Values::OneOf(known) | Values::Folded(known) => Err(Mistake::of(field(), &word, "not known here", known)),
            Values::Text(known) if word.is_empty() => Err(Mistake::of(field(), &word, "no code", known)),
            Values::Text(_) => Ok(()),
            Values::Process if word == "self" => Ok(()),
            Values::Process => match &self.names {
                Some(_) => self.process(&field(), &word),
                None => Err(Mistake::of(field(), &word, "no process that this server could end", &["self"])),
            },
            Values::Node => match &self.names {
                Some(names) if names.nodes.contains(&word) => Ok(()),
                Some(names) => {
                    let known: Vec<&str> = names.nodes.iter().map(String::as_str).collect();
                    Err(Mistake::of(field(), &word, "no node", &known))
                }
                None => Err(Mistake::new(field(), "this server has no nodes that could be rebooted")),
            },
            Values::Ends => effect.ends().into_iter().flatten().try_for_each(|end| self.end(&field(), end)),
            Values::Skew => super::skew_ms(&word)
                .map(drop)
                .map_err(|message| Mistake { word: Some(word.clone()), ..Mistake::new(field(), message) }),
        }
    }

    fn end(&self, field: &str, end: &str) -> Result<(), Mistake> {
        let Some(names) = &self.names else { return Ok(()) };
        if names.ends().any(|name| super::wild(end, name)) {
            return Ok(());
        }
        let known: Vec<&str> = names.ends().collect();
        Err(Mistake::of(field, end, "no process, node or server", &known))
    }
}

/// What lasts and is no operation's, a partition or a skewed clock, has no turns and few attributes.
fn check_steady(fault: &Fault) -> Result<(), Mistake> {
    let (kind, when) = (fault.effect.kind(), &fault.when);
    if !matches!(kind, Kind::Partition | Kind::PartitionOneWay | Kind::Skew) {
        return Ok(());
    }
    let turns = [("first", when.first.is_some()), ("nth", when.nth.is_some()), ("every", when.every.is_some())];
    let turns = turns.into_iter().chain([("probability", when.probability.is_some())]);
    if let Some((field, _)) = turns.into_iter().find(|(_, is)| *is) {
        let message = format!("{} lasts, and has no turns: use `after`, `for` or `until`", kind.name());
        return Err(Mistake::key(format!("when.{field}"), message));
    }
    let own = |key: &&String| kind != Kind::Skew || *key != PROCESS.name;
    if let Some(key) = fault.matches.attributes.keys().find(own) {
        let message = match kind {
            Kind::Skew => "a skewed clock is told by `process` alone",
            _ => "a partition cuts all messages between the two ends that it names",
        };
        return Err(Mistake { word: Some(key.clone()), ..Mistake::new(format!("match.where.{key}"), message) });
    }
    Ok(())
}

/// What can be broken in what every component shares: links, processes, clocks.
pub const OWN: &[Operation] = &[
    Operation {
        plane: Plane::Link,
        name: "request",
        classes: &[],
        about: "a request from one component to another, and its answer",
        attributes: LINK,
        moments: &[Moment::Before, Moment::AfterEffect],
        can: &[
            Possible { effect: Kind::DropRequest, at: BEFORE, values: Values::Flag, shows: "the caller sees a reset" },
            Possible {
                effect: Kind::Http,
                at: BEFORE,
                values: Values::Number { least: 400, most: 599 },
                shows: "the caller gets this status, and the peer no request",
            },
            Possible {
                effect: Kind::DropReply,
                at: &[Moment::AfterEffect],
                values: Values::Flag,
                shows: "the work is done and the caller sees a reset",
            },
            Possible { effect: Kind::Partition, at: BEFORE, values: Values::Ends, shows: "calls time out" },
            Possible { effect: Kind::PartitionOneWay, at: BEFORE, values: Values::Ends, shows: "calls time out" },
        ],
    },
    Operation {
        plane: Plane::Link,
        name: "stream",
        classes: &[],
        about: "the next line of a streamed answer arrives",
        attributes: LINK,
        moments: BEFORE,
        can: &[
            Possible { effect: Kind::ResetStream, at: BEFORE, values: Values::Flag, shows: "the stream is reset" },
            Possible { effect: Kind::StallStream, at: BEFORE, values: Values::Flag, shows: "nothing arrives any more" },
        ],
    },
    Operation {
        plane: Plane::Process,
        name: "start",
        classes: &[],
        about: "a process starts",
        attributes: &[],
        moments: BEFORE,
        can: &[],
    },
    Operation {
        plane: Plane::Clock,
        name: "wall",
        classes: &[],
        about: "a process reads wall time, for leases and timestamps",
        attributes: &[],
        moments: &[],
        can: &[Possible { effect: Kind::Skew, at: BEFORE, values: Values::Skew, shows: "timestamps are shifted" }],
    },
];

const LINK: &[Attribute] = &[
    Attribute { name: "from", about: "the process that calls", values: Words::Any },
    Attribute { name: "to", about: "the server that it calls", values: Words::Any },
    Attribute { name: "caller", about: "the same as `from`", values: Words::Any },
    Attribute { name: "method", about: "the HTTP method", values: Words::Any },
    Attribute { name: "path", about: "the path without its query", values: Words::Any },
];

/// A word without what does not matter in it.
pub fn folded(word: &str) -> String {
    word.replace('_', "").to_ascii_lowercase()
}

fn check_name(name: &str) -> Result<(), Mistake> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() {
        return Err(Mistake::new("name", "a fault needs a name"));
    }
    if name == "hits" || name.len() > 100 || !name.chars().all(good) {
        let message = "a fault's name has at most 100 letters, digits, `-`, `_` and `.`, and is not `hits`";
        return Err(Mistake { word: Some(name.to_owned()), ..Mistake::new("name", message) });
    }
    Ok(())
}

/// Conditions under which the fault could never fire are mistakes.
fn check_when(fault: &Fault) -> Result<(), Mistake> {
    let when = &fault.when;
    if when.probability.is_some_and(|p| !(p > 0.0 && p <= 1.0)) {
        return Err(Mistake::key("when.probability", "must be more than 0 and at most 1"));
    }
    for (field, count) in [("first", when.first), ("nth", when.nth), ("every", when.every)] {
        if count == Some(0) {
            return Err(Mistake::key(format!("when.{field}"), "counts from 1; with 0 the fault could never fire"));
        }
    }
    match (when.first, when.nth, when.every) {
        (Some(_), Some(_), _) => {
            return Err(Mistake::key("when.nth", "does not go with `first`: write one of them"));
        }
        (_, Some(_), Some(_)) => {
            return Err(Mistake::key("when.every", "does not go with `nth`: write one of them"));
        }
        (Some(first), _, Some(every)) if first < every => {
            let message = format!("none of the first {first} is the {every}th: the fault could never fire");
            return Err(Mistake::key("when.every", message));
        }
        _ => {}
    }
    if when.lasting.is_some_and(|s| s.0.is_zero()) {
        return Err(Mistake::key("when.for", "must be longer than nothing"));
    }
    let Some(ttl) = fault.lease.ttl else { return Ok(()) };
    if ttl.0.is_zero() {
        return Err(Mistake::key("lease.ttl", "must be longer than nothing"));
    }
    if when.after.is_some_and(|after| after >= ttl) {
        return Err(Mistake::key("when.after", "the lease is over before: the fault could never fire"));
    }
    Ok(())
}
