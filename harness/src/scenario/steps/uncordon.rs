//! `uncordon`: makes a node schedulable.

use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("uncordon", Of::Text, "Makes a node schedulable.").like(&["- uncordon: node-b"]);

pub(super) fn lower(node: Spanned<String>, steps: &mut Steps<'_>) -> Checked<Action> {
    steps.node(node).map(Action::Uncordon)
}

pub(super) fn summary(node: &str) -> Summary {
    Summary::change(format!("uncordon {node}")).of_node(node)
}
