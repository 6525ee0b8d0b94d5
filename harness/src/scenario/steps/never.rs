//! `never`: forbids a condition, from here to the end or to a named step.

use crate::scenario::document;
use crate::scenario::expects::NEVER;
use crate::scenario::predicate::Never;
use crate::scenario::prelude::*;

pub(super) static KEY: Key =
    one("never", Of::Map(&NEVER), "Forbids a condition, from here to the end or to a named step.")
        .like(&["- never: {object: pvc/data, that: \"self.status.phase == 'Lost'\"}"]);

pub(super) fn lower(never: Spanned<Box<document::Never>>, steps: &mut Steps<'_>) -> Checked<Action> {
    steps.never(never).map(Action::Never)
}

pub(super) fn summary(never: &Never) -> Summary {
    Summary { object: never.object(), ..Summary::check(format!("see that never {never}")) }
}
