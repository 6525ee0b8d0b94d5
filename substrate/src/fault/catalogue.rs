//! The catalogue of faults: one table that files, admin APIs, the command line and the Rust API use.
//!
//! Each server exports its [`Operation`]s as data. A fault with a word that is not in the table is refused when it is
//! added, with the field and the nearest valid word. A fault that is accepted has an effect. So every interface refuses
//! and accepts the same faults.

mod check;
mod conditions;
mod mistake;
mod names;
mod own;

pub use mistake::Mistake;
pub use names::{Names, within};
pub use own::OWN;

use std::sync::Arc;

use super::{Kind, Moment, Plane};

/// An operation at which faults can fire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// The layer.
    pub plane: Plane,
    /// Its name in its own protocol: `AttachVolume`, `patch`, `write_at`.
    pub name: &'static str,
    /// Classes of operations to which it belongs: `read`, `write`.
    pub classes: &'static [&'static str],
    /// Its description, in one sentence.
    pub about: &'static str,
    /// Its attributes.
    pub attributes: &'static [Attribute],
    /// Moments at which faults can fire; the effects of [`EVERYWHERE`] are possible at each.
    pub moments: &'static [Moment],
    /// Further possible effects.
    pub can: &'static [Possible],
}

/// An attribute of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attribute {
    /// Its name in `match.where`.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// Its possible values.
    pub values: Words,
    /// The first moment at which it is known: an object has no id before the operation creates it.
    pub since: Moment,
}

/// Possible values of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Words {
    /// Anything.
    Any,
    /// One of these.
    OneOf(&'static [&'static str]),
}

/// A possible effect on an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Possible {
    /// The effect.
    pub effect: Kind,
    /// Moments at which it is possible.
    pub at: &'static [Moment],
    /// Its possible values.
    pub values: Values,
    /// Its visible consequence.
    pub shows: &'static str,
}

impl Possible {
    /// Returns the row of `effect`.
    pub const fn new(effect: Kind, at: &'static [Moment], values: Values, shows: &'static str) -> Self {
        Self { effect, at, values, shows }
    }
}

/// Possible values of an effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// `true`.
    Flag,
    /// A duration above zero.
    Span,
    /// An integer.
    Number {
        /// Minimum.
        least: u64,
        /// Maximum.
        most: u64,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words; letter case and underscores do not matter.
    Folded(&'static [&'static str]),
    /// Any word.
    Text,
    /// One of these AWS error codes, or another one that is not close to one of them.
    Code(&'static [&'static str]),
    /// `self`, or the name of a process or of a group of processes.
    Process,
    /// The name of a node.
    Node,
    /// The two ends of a link.
    Ends,
    /// A signed duration.
    Skew,
}

impl Values {
    /// Describes the possible values in a few words.
    pub fn describe(self) -> String {
        match self {
            Self::Flag => "true".to_owned(),
            Self::Span => "a duration such as 250ms or 2m".to_owned(),
            Self::Number { least, most } => format!("a number from {least} to {most}"),
            Self::OneOf(words) | Self::Folded(words) => words.join(" | "),
            Self::Text => "any word".to_owned(),
            Self::Code(words) => {
                format!("{}; or another code that is not misspelled from one of these", words.join(", "))
            }
            Self::Process => "self, or the name of a process, a group or a node".to_owned(),
            Self::Node => "the name of a node".to_owned(),
            Self::Ends => "two processes, nodes, groups or servers".to_owned(),
            Self::Skew => "a duration with a sign such as +90s".to_owned(),
        }
    }
}

/// Effects that are possible for every operation, at each of its moments.
pub const EVERYWHERE: &[Possible] = &[
    Possible { effect: Kind::Delay, at: ALL, values: Values::Span, shows: "the operation takes this much longer" },
    Possible { effect: Kind::Hang, at: ALL, values: Values::Flag, shows: "it waits until the fault is gone" },
    Possible { effect: Kind::Crash, at: ALL, values: Values::Process, shows: "the process ends: process.crashed" },
    Possible { effect: Kind::Reboot, at: ALL, values: Values::Node, shows: "the machine loses power: disk.crashed" },
    Possible { effect: Kind::Count, at: ALL, values: Values::Flag, shows: "fault.fired, and nothing else" },
];

/// All moments.
pub const ALL: &[Moment] = &[Moment::Before, Moment::AfterEffect, Moment::BeforeReply];
/// Only the first moment.
pub const BEFORE: &[Moment] = &[Moment::Before];

/// The process in which the operation happens: an attribute of every operation.
pub const PROCESS: Attribute = Attribute::new("process", "the process that the operation happens in");

impl Attribute {
    /// Creates an attribute with any value, known from the beginning.
    pub const fn new(name: &'static str, about: &'static str) -> Self {
        Self { name, about, values: Words::Any, since: Moment::Before }
    }

    /// Makes the attribute known only after the effect.
    pub const fn made(self) -> Self {
        Self { since: Moment::AfterEffect, ..self }
    }

    /// Describes the attribute, with the moment from which it is known.
    pub fn describe(&self) -> String {
        match self.since {
            Moment::Before => self.about.to_owned(),
            since => format!("{}; known from `{}` on", self.about, since.name()),
        }
    }

    /// Restricts the attribute to these words.
    pub const fn one_of(self, words: &'static [&'static str]) -> Self {
        Self { values: Words::OneOf(words), ..self }
    }
}

impl Operation {
    /// Returns all possible effects on it.
    pub fn possible(&self) -> impl Iterator<Item = Possible> + '_ {
        let everywhere = EVERYWHERE.iter().map(|p| Possible { at: self.moments, ..*p });
        self.can.iter().copied().chain(everywhere)
    }

    /// Returns true if `pattern` names the operation: by its name, a prefix and `*`, or a class.
    pub fn is(&self, pattern: &str) -> bool {
        super::wild(pattern, self.name) || self.classes.contains(&pattern)
    }

    fn attributes(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes.iter().chain([&PROCESS])
    }
}

/// The combined table of all servers.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    operations: Vec<&'static Operation>,
    names: Option<Arc<Names>>,
    /// True if conditions on the cluster are watched, so that they can end a fault.
    watched: bool,
}

impl Catalogue {
    /// Adds operations that the table does not have yet.
    pub fn add(&mut self, operations: &'static [Operation]) {
        for operation in operations {
            if !self.operations.iter().any(|o| o.plane == operation.plane && o.name == operation.name) {
                self.operations.push(operation);
            }
        }
    }

    /// Sets the known names; without it, any name is accepted.
    pub fn name(&mut self, names: Names) {
        self.names = Some(Arc::new(names));
    }

    /// Notes that conditions on the cluster (`when.until`) are watched.
    pub fn watch(&mut self) {
        self.watched = true;
    }

    /// Returns the names, if they are known.
    pub fn names(&self) -> Option<&Arc<Names>> {
        self.names.as_ref()
    }

    /// Returns all operations.
    pub fn operations(&self) -> impl Iterator<Item = &'static Operation> + '_ {
        self.operations.iter().copied()
    }
}

/// Returns true if `word` has the form of an AWS error code: `InvalidVolume.NotFound`.
fn is_code(word: &str) -> bool {
    let good = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_uppercase()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    word.split('.').count() <= 2 && word.split('.').all(good)
}

/// Returns a word in lower case, without underscores.
pub fn folded(word: &str) -> String {
    word.replace('_', "").to_ascii_lowercase()
}
