//! Unknown and duplicate fields of a request, and their treatment (KEP-2885).

use std::fmt;

/// Maximum number of flaws of a request, as in upstream.
pub const MOST_FLAWS: usize = 100;

/// Treatment of unknown and duplicate fields (`fieldValidation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped.
    #[default]
    Ignore,
    /// They are dropped, and the answer has a warning.
    Warn,
    /// The write is refused.
    Strict,
}

/// A flaw of a request, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A single field.
    Field(String),
    /// The YAML parser's messages about duplicate keys, one per line.
    Lines(Vec<String>),
}

impl Flaw {
    /// Returns the flaw of a field that the kind does not have.
    pub fn unknown(path: impl fmt::Display) -> Self {
        Self::Field(format!("unknown field \"{path}\""))
    }

    /// Returns the flaw of a field that occurs more than once; the last value is used.
    pub fn duplicate(path: impl fmt::Display) -> Self {
        Self::Field(format!("duplicate field \"{path}\""))
    }

    /// Returns the flaw as warnings.
    pub fn warnings(&self) -> &[String] {
        match self {
            Self::Field(text) => std::slice::from_ref(text),
            Self::Lines(lines) => lines,
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(text) => f.write_str(text),
            Self::Lines(lines) => write!(f, "yaml: unmarshal errors:\n  {}", lines.join("\n  ")),
        }
    }
}
