//! What can be broken: one table that files, admin APIs, the command line and the Rust API all ask.
//!
//! Each server exports its [`Operation`]s as data. What the table does not know is refused when a fault is added, with
//! the field and the nearest right word; what it accepts has an effect. So a fault is refused or accepted everywhere
//! alike.

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
    /// The first moment at which it is known: what an operation makes has no id before it is made.
    pub since: Moment,
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
    /// Any word.
    Text,
    /// One of these codes of AWS, or another that nobody could mean one of these by.
    Code(&'static [&'static str]),
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
pub const PROCESS: Attribute = Attribute::new("process", "the process that the operation happens in");

impl Attribute {
    /// An attribute that can be anything and is known from the beginning.
    pub const fn new(name: &'static str, about: &'static str) -> Self {
        Self { name, about, values: Words::Any, since: Moment::Before }
    }

    /// An attribute that only the answer has.
    pub const fn made(self) -> Self {
        Self { since: Moment::AfterEffect, ..self }
    }

    /// What it says, and from when on.
    pub fn says(&self) -> String {
        match self.since {
            Moment::Before => self.about.to_owned(),
            since => format!("{}; known from `{}` on", self.about, since.name()),
        }
    }

    /// An attribute that is one of these words.
    pub const fn one_of(self, words: &'static [&'static str]) -> Self {
        Self { values: Words::OneOf(words), ..self }
    }
}

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
}

/// Whether `word` is written as error codes of AWS are: `InvalidVolume.NotFound`.
fn is_code(word: &str) -> bool {
    let good = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_uppercase()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    word.split('.').count() <= 2 && word.split('.').all(good)
}

/// A word without what does not matter in it.
pub fn folded(word: &str) -> String {
    word.replace('_', "").to_ascii_lowercase()
}
