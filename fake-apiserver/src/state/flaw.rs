//! What is wrong with the fields of what a client sent, and what becomes of it (KEP-2885).

use std::fmt;

use super::Store;
use super::command::WriteOptions;
use super::status::Status;

/// How many are noted at most, as upstream.
pub const MOST_FLAWS: usize = 100;

/// What becomes of fields that a kind does not have and of those that are named twice (`fieldValidation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped.
    #[default]
    Ignore,
    /// They are dropped, and the client is told.
    Warn,
    /// The write is refused.
    Strict,
}

/// Something wrong with fields, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// One field.
    Field(String),
    /// What YAML says of keys that are set again, line by line.
    Lines(Vec<String>),
}

impl Flaw {
    /// A field that the kind does not have.
    pub fn unknown(path: impl fmt::Display) -> Self {
        Self::Field(format!("unknown field \"{path}\""))
    }

    /// A field that is named more than once; the last one counts.
    pub fn duplicate(path: impl fmt::Display) -> Self {
        Self::Field(format!("duplicate field \"{path}\""))
    }

    /// As warnings.
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
    /// Does as the client asked with what is wrong with the text of its request (in `options`), and with the fields
    /// of these paths that were dropped for being `unknown`.
    ///
    /// # Errors
    /// Why the write is refused.
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

    /// The same of a configuration that is applied, whose fields are all declared.
    ///
    /// # Errors
    /// 400 when it is refused.
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
