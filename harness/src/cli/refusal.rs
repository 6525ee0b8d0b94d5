//! Why a command does not do what it is asked.

use serde_json::{Value, json};

use crate::output::{self, Exit, Failure, Style};
use crate::scenario::ScenarioError;

/// How a command ends that cannot do its work, and what it says.
pub(super) type Refusal = (Exit, Failure);

/// The command line is wrong.
pub(super) fn usage(message: impl Into<String>) -> Refusal {
    (Exit::Usage, Failure::new("usage", message))
}

/// Something is not there that the command needs.
pub(super) fn lacking(message: impl Into<String>) -> Refusal {
    (Exit::Environment, Failure::new("environment", message))
}

/// It took too long.
pub(super) fn late(message: impl Into<String>) -> Refusal {
    (Exit::Timeout, Failure::new("timeout", message))
}

/// The same, with one more thing to do next.
pub(super) fn next((exit, failure): Refusal, action: impl Into<String>) -> Refusal {
    (exit, failure.action(action))
}

/// Shows each mistake of a file in its lines.
pub(super) fn show(errors: &[ScenarioError]) {
    let style = Style::stderr();
    for error in errors {
        output::complain(&format!("{}\n", error.render(style.color, style.width)));
    }
}

/// The mistakes of a file as data.
pub(super) fn details(errors: &[ScenarioError]) -> Vec<Value> {
    let one = |error: &ScenarioError| json!({ "place": error.details(), "message": error.to_string(), "help": error.advice() });
    errors.iter().map(one).collect()
}
