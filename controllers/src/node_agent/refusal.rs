//! Refusals of pods.

use crate::scheduler::resources::Lack;

/// Refusal of a pod, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason in one word: `status.reason` and the reason of the Event.
    pub reason: String,
    /// Message of the Event. `status.message` has it after a prefix.
    pub message: String,
}

impl Refusal {
    pub(super) fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }

    pub(super) fn predicate(name: &str, why: &str) -> Self {
        Self::new(name, format!("Predicate {name} failed: {why}"))
    }

    pub(super) fn lack(lack: &Lack) -> Self {
        let Lack { resource, requested, used, capacity } = lack;
        let message = format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        );
        Self::new(&format!("OutOf{resource}"), message)
    }
}
