//! Unknown and duplicate fields of a request, and their treatment (KEP-2885).

use std::fmt;

use super::Store;
use super::command::WriteOptions;
use super::status::Status;

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

impl Store {
    /// Ignores, warns of or refuses the flaws of a request's text (in `options`) and its `unknown` fields, as the
    /// client asked.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(super) fn judge_fields(&mut self, options: &WriteOptions, unknown: Vec<String>) -> Result<(), String> {
        if options.fields == FieldValidation::Ignore || options.flaws.is_empty() && unknown.is_empty() {
            return Ok(());
        }
        let unknown = unknown.into_iter().map(Flaw::unknown).filter(|flaw| !options.flaws.contains(flaw));
        let flaws = || options.flaws.iter().cloned().chain(unknown).take(MOST_FLAWS);
        if options.fields == FieldValidation::Strict {
            let all: Vec<String> = flaws().map(|flaw| flaw.to_string()).collect();
            return Err(format!("strict decoding error: {}", all.join(", ")));
        }
        let warnings: Vec<String> = flaws().flat_map(|flaw| flaw.warnings().to_vec()).collect();
        self.warnings.extend(warnings);
        Ok(())
    }

    /// Ignores, warns of or refuses the flaws of an applied configuration. Unknown fields of an apply are refused
    /// elsewhere ([`super::managed`]).
    ///
    /// # Errors
    /// 400 if the write is refused.
    pub(super) fn judge_applied(&mut self, options: &WriteOptions) -> Result<(), Status> {
        match options.fields {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => {
                self.warnings.extend(options.flaws.iter().flat_map(Flaw::warnings).cloned());
            }
            FieldValidation::Strict => {
                if let Some(flaw) = options.flaws.first() {
                    let why = format!("error strict decoding YAML: error converting YAML to JSON: {flaw}");
                    return Err(Status::bad_request(why));
                }
            }
        }
        Ok(())
    }
}
