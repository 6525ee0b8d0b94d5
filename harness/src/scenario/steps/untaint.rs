//! `untaint`: removes a taint from a node.

use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("untaint", Of::Map(&UNTAINT), "Removes a taint from a node.")
    .like(&["- untaint: {node: node-b, key: node.kubernetes.io/out-of-service}"]);

static UNTAINT: Map = Map {
    name: "untaint",
    about: "A taint to remove from a node, with any value and effect.",
    keys: &[must("node", Of::Text, "The node."), must("key", Of::Text, "The taint's key.")],
};

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    node: Spanned<String>,
    key: String,
}

/// A taint to remove from a node, with any value and effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untaint {
    pub node: String,
    pub key: String,
}

pub(super) fn lower(untaint: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let Written { node, key } = untaint.value;
    Ok(Action::Untaint(Untaint { node: steps.node(node)?, key }))
}

pub(super) fn summary(untaint: &Untaint) -> Summary {
    Summary::change(format!("untaint {} {}", untaint.node, untaint.key)).of_node(&untaint.node)
}
