//! `sleep`: lets time pass.

use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("sleep", Of::Span, "Waits for this time.").like(&["- sleep: 10s"]);

pub(super) fn lower(sleep: Spanned<Span>, _: &mut Steps<'_>) -> Checked<Action> {
    Ok(Action::Sleep(sleep.value.0))
}

pub(super) fn summary(duration: &Duration) -> Summary {
    Summary::check(format!("sleep {}", Span(*duration)))
}
