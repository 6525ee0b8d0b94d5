//! `pause`: pauses a live cluster for a person, with a text about what to look at.

use crate::scenario::prelude::*;

pub(super) static KEY: Key =
    one("pause", Of::Text, "Pauses a live run for a person, with this text; no effect in simulation.")
        .like(&["- pause: The pod has its volume now"]);

pub(super) fn lower(text: Spanned<String>, _: &mut Steps<'_>) -> Checked<Action> {
    Ok(Action::Pause(text.value))
}

pub(super) fn summary(text: &str) -> Summary {
    Summary::check(format!("pause: {text}"))
}
