//! `fired`: a fault that is in force has fired.

use crate::scenario::prelude::*;

pub(super) static KEY: Key =
    one("fired", Of::Text, "A fault that is in force has fired.").like(&["- expect: {fired: slow, within: 1m}"]);

/// A fault, and the time limit for it to fire. If zero, it must have fired already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    pub fault: String,
    pub within: Duration,
}

pub(super) fn lower(fault: Spanned<String>, expect: Expect, steps: &mut Steps<'_>) -> Checked<Expectation> {
    if !steps.faults.contains(&fault.value) {
        return Err(steps.unknown_fault(&fault));
    }
    Ok(Expectation::Fired(Fired { fault: fault.value, within: expect.limit() }))
}

pub(super) fn summary(Fired { fault, within }: &Fired) -> Summary {
    Summary::check(format!("the fault {fault} has fired{}", Within(*within)))
}
