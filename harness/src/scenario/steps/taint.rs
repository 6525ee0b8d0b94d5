//! `taint`: puts a taint on a node.

use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("taint", Of::Map(&TAINT), "Puts a taint on a node.")
    .like(&["- taint: {node: node-b, key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}"]);

static TAINT: Map = Map {
    name: "taint",
    about: "A taint to put on a node.",
    keys: &[
        must("node", Of::Text, "The node."),
        must("key", Of::Text, "The taint's key."),
        may("value", Of::Scalar, "The taint's value; empty when absent."),
        must("effect", Of::Words(EFFECTS), "Its effect on pods that do not tolerate it."),
    ],
};

const EFFECTS: &[Word] = &[
    ("NoSchedule", "New pods are not scheduled here."),
    ("PreferNoSchedule", "New pods are scheduled here only if no other node fits."),
    ("NoExecute", "New pods are not scheduled here, and running pods are evicted."),
];

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    node: Spanned<String>,
    key: String,
    #[serde(default)]
    value: String,
    effect: Spanned<String>,
}

/// A taint to put on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    pub node: String,
    pub key: String,
    pub value: String,
    pub effect: String,
}

pub(super) fn lower(taint: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let Written { node, key, value, effect } = taint.value;
    if !names(EFFECTS).any(|known| known == effect.as_str()) {
        let message = format!("`{}` is not an effect of a taint", *effect);
        let help = suggest(&effect, names(EFFECTS), "effects");
        return Err(Mistake::new(effect.place, message, "this effect").help(help));
    }
    Ok(Action::Taint(Taint { node: steps.node(node)?, key, value, effect: effect.value }))
}

pub(super) fn summary(taint: &Taint) -> Summary {
    let Taint { node, key, value, effect } = taint;
    Summary::change(format!("taint {node} {key}={value}:{effect}")).of_node(node)
}
