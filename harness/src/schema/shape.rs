//! The words in which the tables say what a file can hold.

/// A map with known keys.
#[derive(Debug)]
pub struct Map {
    /// Its name among the definitions of the schema.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its keys; all others are refused.
    pub keys: &'static [Key],
}

/// A key of a map.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// What its value can be.
    pub of: Of,
    /// Whether it has to be there.
    pub need: Need,
    /// How it is written: lines of YAML that stand where the map does.
    pub examples: &'static [&'static str],
}

/// Whether a key has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It may be absent.
    May,
    /// It must be there.
    Must,
    /// Exactly one of these keys of the map must be there.
    One,
}

/// A word and what it says.
pub type Word = (&'static str, &'static str);

/// What a value can be.
#[derive(Clone, Copy, Debug)]
pub enum Of {
    /// A text.
    Text,
    /// The name of a Kubernetes object.
    Name,
    /// A text, a number or a truth value.
    Scalar,
    /// True or false.
    Flag,
    /// A whole number, at least this and at most that.
    Whole(u64, Option<u64>),
    /// A number above zero.
    Above,
    /// A number that divides time.
    Scale,
    /// A number of at least zero.
    Number,
    /// A duration.
    Span,
    /// A condition in CEL over `self`.
    Cel,
    /// `kind/name` or `kind/namespace/name`.
    Object,
    /// A claim or PersistentVolume as `kind/name`, or the id of a volume.
    Volume,
    /// One of these words.
    Words(&'static [Word]),
    /// One of these words, which other tables have.
    Known(fn() -> Vec<(String, String)>),
    /// A text, for which these are suggested.
    Suggest(fn() -> Vec<(String, String)>),
    /// A map of the tables.
    Map(&'static Map),
    /// A list of these.
    List(&'static Of),
    /// A list of these that is not empty.
    Some(&'static Of),
    /// A list of two of these.
    Two(&'static Of),
    /// A map in which any key has such a value.
    Each(&'static Of),
    /// A map with keys that other tables have.
    Keyed(fn() -> Vec<Row>),
    /// One of these, each with what it says.
    Either(&'static [(Of, &'static str)]),
    /// A Kubernetes manifest.
    Manifest,
    /// A part of an object.
    Part,
    /// A fault.
    Fault,
    /// Nothing: `{}`, or no value.
    Nothing,
}

/// A key of a map that other tables have.
#[derive(Clone, Debug)]
pub struct Row {
    /// As it is written.
    pub name: String,
    /// What it does.
    pub about: String,
    /// What its value can be.
    pub of: RowOf,
}

/// What the value of a [`Row`] can be.
#[derive(Clone, Debug)]
pub enum RowOf {
    /// As in the other tables.
    Of(Of),
    /// A map again.
    Rows(Vec<Row>),
}

impl Key {
    const fn new(name: &'static str, need: Need, of: Of, about: &'static str) -> Self {
        Self { name, about, of, need, examples: &[] }
    }

    /// The same with examples.
    pub const fn like(self, examples: &'static [&'static str]) -> Self {
        Self { examples, ..self }
    }
}

/// A key that may be absent.
pub const fn may(name: &'static str, of: Of, about: &'static str) -> Key {
    Key::new(name, Need::May, of, about)
}

/// A key that must be there.
pub const fn must(name: &'static str, of: Of, about: &'static str) -> Key {
    Key::new(name, Need::Must, of, about)
}

/// A key of which, with others, exactly one must be there.
pub const fn one(name: &'static str, of: Of, about: &'static str) -> Key {
    Key::new(name, Need::One, of, about)
}
