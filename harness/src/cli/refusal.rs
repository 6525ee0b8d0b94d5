//! Errors of commands.

use serde_json::{Value, json};

use crate::output::{self, Exit, Failure, Style};
use crate::scenario::ScenarioError;

/// Exit code and message of a command that failed.
pub(super) type Refusal = (Exit, Failure);

/// The command line is wrong.
pub(super) fn usage(message: impl Into<String>) -> Refusal {
    (Exit::Usage, Failure::new("usage", message))
}

/// The command lacks something that it needs.
pub(super) fn lacking(message: impl Into<String>) -> Refusal {
    (Exit::Environment, Failure::new("environment", message))
}

/// A time limit was exceeded.
pub(super) fn late(message: impl Into<String>) -> Refusal {
    (Exit::Timeout, Failure::new("timeout", message))
}

/// Adds a next action to a refusal.
pub(super) fn next((exit, failure): Refusal, action: impl Into<String>) -> Refusal {
    (exit, failure.action(action))
}

/// Prints each error of a file with its source lines.
pub(super) fn show(errors: &[ScenarioError]) {
    let style = Style::stderr();
    for error in errors {
        output::complain(&format!("{}\n", error.render(style.color, style.width)));
    }
}

/// Errors of a file as JSON.
pub(super) fn details(errors: &[ScenarioError]) -> Vec<Value> {
    let one = |error: &ScenarioError| json!({ "place": error.details(), "message": error.to_string(), "help": error.advice() });
    errors.iter().map(one).collect()
}
