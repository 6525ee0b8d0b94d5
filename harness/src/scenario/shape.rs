//! Types of the tables that describe the file formats.

/// A map with known keys.
#[derive(Debug)]
pub struct Map {
    /// Name among the definitions of the schema.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    /// Keys; all others are rejected.
    pub keys: &'static [Key],
}

/// A key of a map.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Key as written.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    /// Type of its value.
    pub of: Of,
    /// Requirement to be present.
    pub need: Need,
    /// Examples: lines of YAML in the place of the map.
    pub examples: &'static [&'static str],
}

/// Requirement of a key to be present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The key is optional.
    May,
    /// The key is required.
    Must,
    /// Exactly one of these keys of the map is required.
    One,
}

/// A word and its description.
pub type Word = (&'static str, &'static str);

/// Returns the words of a list without their descriptions.
pub(crate) fn names(words: &'static [Word]) -> impl Iterator<Item = &'static str> + Clone {
    words.iter().map(|(word, _)| *word)
}

/// Type of a value.
#[derive(Clone, Copy, Debug)]
pub enum Of {
    /// A text.
    Text,
    /// The name of a Kubernetes object.
    Name,
    /// A text, a number or a boolean.
    Scalar,
    /// True or false.
    Flag,
    /// A whole number with a minimum and a maximum.
    Whole(u64, Option<u64>),
    /// A number above zero.
    Above,
    /// A divisor of time.
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
    /// One of the words of another table.
    Known(fn() -> Vec<(String, String)>),
    /// A text; these are suggested.
    Suggest(fn() -> Vec<(String, String)>),
    /// A map of the tables.
    Map(&'static Map),
    /// A list of values.
    List(&'static Of),
    /// A non-empty list of values.
    Some(&'static Of),
    /// A list of two values.
    Two(&'static Of),
    /// A map with any keys and values of this type.
    Each(&'static Of),
    /// A map with the keys of another table.
    Keyed(fn() -> Vec<Row>),
    /// One of these types, each with its description.
    Either(&'static [(Of, &'static str)]),
    /// A Kubernetes manifest.
    Manifest,
    /// Part of an object.
    Part,
    /// A fault.
    Fault,
    /// Null: `{}`, or no value.
    Nothing,
}

/// A key of a map from another table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Key as written.
    pub name: String,
    /// Description.
    pub about: String,
    /// Type of its value.
    pub of: RowOf,
}

/// Type of the value of a [`Row`].
#[derive(Clone, Debug)]
pub enum RowOf {
    /// A type of the tables.
    Of(Of),
    /// A nested map.
    Rows(Vec<Row>),
}

impl Key {
    const fn new(name: &'static str, need: Need, of: Of, about: &'static str) -> Self {
        Self { name, about, of, need, examples: &[] }
    }

    /// Adds examples.
    pub const fn like(self, examples: &'static [&'static str]) -> Self {
        Self { examples, ..self }
    }
}

/// Creates an optional key.
pub const fn may(name: &'static str, of: Of, about: &'static str) -> Key {
    Key::new(name, Need::May, of, about)
}

/// Creates a required key.
pub const fn must(name: &'static str, of: Of, about: &'static str) -> Key {
    Key::new(name, Need::Must, of, about)
}

/// Creates a key of a group of which exactly one is required.
pub const fn one(name: &'static str, of: Of, about: &'static str) -> Key {
    Key::new(name, Need::One, of, about)
}

/// Converts the first letter of a text to upper case.
pub(crate) fn first_upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
