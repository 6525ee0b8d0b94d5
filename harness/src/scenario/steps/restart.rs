//! `restart`: a node or a process starts again.

use crate::scenario::prelude::*;

pub(super) static KEY: Key =
    one("restart", Of::Text, "Starts a process or machine again; it takes the names that `crash` takes.")
        .like(&["- restart: node-a/kubelet"]);

pub(super) fn lower(name: Spanned<String>, steps: &mut Steps<'_>) -> Checked<Action> {
    steps.node_or_process(name).map(Action::Restart)
}

pub(super) fn summary(name: &str) -> Summary {
    Summary::change(format!("restart {name}"))
}
