//! `fault`: puts a fault in force.

use substrate::fault::Fault;

use crate::scenario::prelude::*;

pub(super) static KEY: Key =
    one("fault", Of::Fault, "Puts a fault in force, until a step clears it or it ends by itself.")
        .like(&["- fault: {name: slow, match: {plane: ec2, op: DetachVolume}, effect: {delay: 10s}}"]);

pub(super) fn lower(fault: Spanned<Fault>, steps: &mut Steps<'_>) -> Checked<Action> {
    steps.add_fault(&fault)?;
    Ok(Action::Fault(Box::new(fault.value)))
}

pub(super) fn summary(fault: &Fault) -> Summary {
    Summary::change(format!("fault {}", fault.name))
}
