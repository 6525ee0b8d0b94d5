//! `attached`: the volume of a claim is attached to a node, in the cloud and in its VolumeAttachment.

use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("attached", Of::Map(&ATTACHED), "The volume of a claim is attached to a node.")
    .like(&["- expect: {attached: {claim: data, node: node-a, within: 30s}}"]);

static ATTACHED: Map = Map {
    name: "attached",
    about: "An attachment, in the cloud and in its VolumeAttachment.",
    keys: &[
        must("claim", Of::Text, "The claim, NAME or NAMESPACE/NAME."),
        must("node", Of::Text, "The node."),
        may("within", Of::Span, "Time limit; it must hold now when absent."),
    ],
};

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    claim: Spanned<String>,
    node: Spanned<String>,
    within: Option<Span>,
}

/// An attachment of a claim's volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Attached {
    pub claim: ObjectRef,
    pub node: String,
    /// If zero, it must hold now.
    pub within: Duration,
}

pub(super) fn lower(attached: Spanned<Written>, _: Expect, steps: &mut Steps<'_>) -> Checked<Expectation> {
    let Written { claim, node, within } = attached.value;
    let object: ObjectRef =
        format!("pvc/{}", claim.value).parse().map_err(|m| Mistake::new(claim.place, m, "this claim"))?;
    steps.refer(&object, claim.place);
    let within = within.map_or(Duration::ZERO, |w| w.0);
    Ok(Expectation::Attached(Attached { claim: object, node: steps.node(node)?, within }))
}

pub(super) fn summary(Attached { claim, node, within }: &Attached) -> Summary {
    Summary::check(format!("the volume of {claim} is attached to {node}{}", Within(*within))).of(claim)
}
