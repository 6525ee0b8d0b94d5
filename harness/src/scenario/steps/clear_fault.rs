//! `clear-fault`: ends a fault that is in force.

use crate::scenario::prelude::*;

pub(super) static KEY: Key =
    one("clear-fault", Of::Text, "Ends a fault that is in force, by its name.").like(&["- clear-fault: slow"]);

pub(super) fn lower(name: Spanned<String>, steps: &mut Steps<'_>) -> Checked<Action> {
    steps.partitions.remove(&name.value);
    if !steps.faults.remove(&name.value) {
        return Err(steps.unknown_fault(&name));
    }
    Ok(Action::ClearFault(name.value))
}

pub(super) fn summary(name: &str) -> Summary {
    Summary::change(format!("clear fault {name}"))
}
