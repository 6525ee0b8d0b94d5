//! `cordon`: makes a node unschedulable.

use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("cordon", Of::Text, "Makes a node unschedulable.").like(&["- cordon: node-b"]);

pub(super) fn lower(node: Spanned<String>, steps: &mut Steps<'_>) -> Checked<Action> {
    steps.node(node).map(Action::Cordon)
}

pub(super) fn summary(node: &str) -> Summary {
    Summary::change(format!("cordon {node}")).of_node(node)
}
