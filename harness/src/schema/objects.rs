//! Schema of lists of objects: manifests, short forms, and items that stand for several.

use super::shape::{Map, Of, must, one};
use crate::scenario::steps::include::INCLUDES;
use crate::scenario::steps::repeat::{ABOUT, AS_ABOUT, COUNT_ABOUT, EACH_ABOUT};
use crate::scenario::steps::{claim, class, pod};

/// An item of a list of objects, which can also be a manifest.
pub static ITEM: Map = Map {
    name: "item",
    about: "An object: a manifest, or one short form.",
    keys: &[
        claim::KEY,
        pod::KEY,
        class::KEY,
        one("repeat", Of::Map(&REPEAT), ABOUT)
            .like(&["- repeat: {count: 20, as: i, do: [{claim: {name: 'data-${i}'}}]}"]),
        one("include", Of::Either(INCLUDES), "The objects of another file, a list.").like(&[
            "- include: fragments/objects.yaml",
            "- include: {file: fragments/objects.yaml, with: {name: data}}",
        ]),
    ],
};

/// Repeated objects.
static REPEAT: Map = Map {
    name: "repeat-objects",
    about: ABOUT,
    keys: &[
        one("count", Of::Whole(1, Some(10_000)), COUNT_ABOUT),
        one("each", Of::Some(&Of::Scalar), EACH_ABOUT),
        must("as", Of::Text, AS_ABOUT),
        must("do", Of::List(&Of::Map(&ITEM)), "The objects."),
    ],
};
