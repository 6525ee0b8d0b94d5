//! Reports flaws of objects.

use super::Store;
use super::command::WriteOptions;
use super::flaw::{FieldValidation, Flaw, MOST_FLAWS};
use super::status::Status;

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
