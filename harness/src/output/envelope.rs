//! The one JSON envelope of every command.

use serde::Serialize;
use serde_json::Value;

use super::exit::Exit;
use super::style::{Style, Tone};

/// Version of the envelope; it grows when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// What `--output json` writes: one line, whatever the command.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The command, as `run` or `fault add`.
    pub command: String,
    /// How it ended, in a word; the exit code says the same.
    pub status: Exit,
    /// The command's own result; `null` when there is none.
    pub data: Value,
    /// What deserves a look although it stopped nothing.
    pub warnings: Vec<String>,
    /// What went wrong; `null` when nothing did.
    pub error: Option<Failure>,
}

/// What went wrong, and what to do next.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// A stable word for programs: `expectation-failed`, `invariant-violated`, `leaked`, `scenario-invalid`, …
    pub code: String,
    /// One sentence, or several lines, for people.
    pub message: String,
    /// What to do next, best first.
    pub actions: Vec<String>,
}

impl Envelope {
    /// A command that passed with `data`.
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

    /// A command that ended as `exit`, for the cause `failure`.
    pub fn failed(command: &str, exit: Exit, failure: Failure) -> Self {
        Self { status: exit, error: Some(failure), ..Self::passed(command, Value::Null) }
    }

    /// The same with `data`.
    pub fn with_data(self, data: Value) -> Self {
        Self { data, ..self }
    }

    /// The same with one more warning.
    pub fn with_warning(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    /// How the command ended.
    pub fn exit(&self) -> Exit {
        self.status
    }

    /// The envelope as one JSON line without its newline.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Failure {
    /// A failure that programs know as `code`.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), actions: Vec::new() }
    }

    /// The same with one more thing to do next.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.actions.push(action.into());
        self
    }

    /// The failure as people read it.
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
