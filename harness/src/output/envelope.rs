//! JSON envelope of every command.

use serde::Serialize;
use serde_json::Value;

use super::exit::Exit;
use super::style::{Style, Tone};

/// Version of the envelope. It is incremented when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Result that `--output json` writes: one line for every command.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// Always [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Command, such as `run` or `fault add`.
    pub command: String,
    /// One-word status, equivalent to the exit code.
    pub status: Exit,
    /// Result of the command itself; `null` if there is none.
    pub data: Value,
    /// Warnings, which did not stop the command.
    pub warnings: Vec<String>,
    /// Failure; `null` if there was none.
    pub error: Option<Failure>,
}

/// Failure of a command, and the next actions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Stable word for programs: `expectation-failed`, `invariant-violated`, `leaked`, `scenario-invalid`, …
    pub code: String,
    /// One or several lines for people.
    pub message: String,
    /// Next actions, best first.
    pub actions: Vec<String>,
}

impl Envelope {
    /// Envelope of a command that passed with `data`.
    pub fn passed(command: &str, data: Value) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            command: command.to_owned(),
            status: Exit::Passed,
            data,
            warnings: Vec::new(),
            error: None,
        }
    }

    /// Envelope of a command that ended as `exit` because of `failure`.
    pub fn failed(command: &str, exit: Exit, failure: Failure) -> Self {
        Self { status: exit, error: Some(failure), ..Self::passed(command, Value::Null) }
    }

    /// Sets `data`.
    pub fn with_data(self, data: Value) -> Self {
        Self { data, ..self }
    }

    /// Adds a warning.
    pub fn with_warning(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    /// Exit code of the command.
    pub fn exit(&self) -> Exit {
        self.status
    }

    /// The envelope as one JSON line without its newline.
    pub fn line(&self) -> String {
        substrate::encode::text(self)
    }
}

impl Failure {
    /// Failure with the stable word `code`.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), actions: Vec::new() }
    }

    /// Adds a next action.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.actions.push(action.into());
        self
    }

    /// Formats the failure for people.
    pub fn render(&self, style: Style) -> String {
        let mut out = format!("{} {}\n", style.paint(Tone::Bad, "error:"), self.message.trim_end());
        for action in &self.actions {
            out += &format!("{} {action}\n", style.paint(Tone::Faint, "  next:"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_command_writes_the_same_fields() {
        assert_eq!(
            Envelope::passed("run", json!({ "seed": 1 })).with_warning("w").line(),
            r#"{"schemaVersion":1,"command":"run","status":"passed","data":{"seed":1},"warnings":["w"],"error":null}"#
        );
        let failure = Failure::new("no-loop", "no loop device is free").action("modprobe loop");
        let envelope = Envelope::failed("run", Exit::Environment, failure.clone());
        assert_eq!(
            envelope.line(),
            r#"{"schemaVersion":1,"command":"run","status":"environment","data":null,"warnings":[],"error":{"code":"no-loop","message":"no loop device is free","actions":["modprobe loop"]}}"#
        );
        assert_eq!(envelope.exit().code(), 3);
        assert_eq!(failure.render(Style::PLAIN), "error: no loop device is free\n  next: modprobe loop\n");
    }
}
