//! Schema of objects: manifests, short forms, and items that stand for several.

use super::shape::{Map, Of, may, must, one};
use super::steps::STEP;

/// An item of a list of objects, which can also be a manifest.
pub static ITEM: Map = Map {
    name: "item",
    about: "An object: a manifest, or one short form.",
    keys: &[
        one("claim", Of::Map(&CLAIM), CLAIM_ABOUT).like(CLAIMS),
        one("pod", Of::Map(&POD), POD_ABOUT).like(PODS),
        one("class", Of::Map(&CLASS), CLASS_ABOUT).like(CLASSES),
        one("repeat", Of::Map(&REPEAT_ITEMS), REPEAT_ABOUT)
            .like(&["- repeat: {count: 20, as: i, do: [{claim: {name: 'data-${i}'}}]}"]),
        one("include", Of::Either(INCLUDES), "The objects of another file, a list.").like(&[
            "- include: fragments/objects.yaml",
            "- include: {file: fragments/objects.yaml, with: {name: data}}",
        ]),
    ],
};

pub(super) const CLAIM_ABOUT: &str = "A claim for a volume, without its manifest.";
pub(super) const CLAIMS: &[&str] = &[
    "- claim: {name: data, size: 1Gi}",
    "- claim: {name: data, namespace: default, class: gp3, mode: ReadWriteOncePod, block: true}",
];
pub(super) const POD_ABOUT: &str = "A pod that writes to claims, without its manifest.";
pub(super) const PODS: &[&str] = &[
    "- pod: {name: web, claim: data, node: node-a}",
    "- pod: {name: web, claims: [data, more], grace: 5s, tolerate: true}",
];
pub(super) const CLASS_ABOUT: &str = "A storage class of the driver, without its manifest.";
pub(super) const CLASSES: &[&str] = &[
    "- class: {name: fast, binding: Immediate}",
    "- class: {name: fast, reclaim: Retain, expand: false, parameters: {type: io2, iops: '1000'}}",
];
pub(super) const REPEAT_ABOUT: &str = "A list several times, with a variable `${NAME}` in its text.";

/// A claim.
pub static CLAIM: Map = Map {
    name: "claim",
    about: CLAIM_ABOUT,
    keys: &[
        must("name", Of::Name, "The claim's name."),
        may("namespace", Of::Name, "Its namespace; `default` when absent."),
        may("size", Of::Scalar, "The requested size, as a Kubernetes quantity; 1Gi when absent."),
        may("class", Of::Text, "Its storage class; when absent `gp3`, which is created if the file has no such class."),
        may("mode", Of::Words(MODES), "Its access mode; ReadWriteOnce when absent."),
        may("block", Of::Flag, "If true, pods get the raw device instead of a filesystem."),
        may("volume", Of::Text, "The PersistentVolume to bind to; any that fits when absent."),
    ],
};

const MODES: &[(&str, &str)] = &[
    ("ReadWriteOnce", "Pods of one node read and write."),
    ("ReadOnlyMany", "Pods of many nodes read."),
    ("ReadWriteMany", "Pods of many nodes read and write."),
    ("ReadWriteOncePod", "One pod reads and writes."),
];

/// A pod.
pub static POD: Map = Map {
    name: "pod",
    about: POD_ABOUT,
    keys: &[
        must("name", Of::Name, "The pod's name."),
        may("namespace", Of::Name, "Its namespace; `default` when absent."),
        may("claim", Of::Text, "The claim that it writes to."),
        may("claims", Of::List(&Of::Text), "The claims that it uses; it writes to the first."),
        may("block", Of::Flag, "If true, it uses the claims as raw devices."),
        may("node", Of::Text, "The node that it must run on; the scheduler chooses when absent."),
        may("grace", Of::Span, "Its termination grace period, in whole seconds; 30s when absent."),
        may("tolerate", Of::Flag, "If true, it tolerates all taints, so it is not evicted."),
    ],
};

/// A storage class.
pub static CLASS: Map = Map {
    name: "class",
    about: CLASS_ABOUT,
    keys: &[
        must("name", Of::Name, "The class' name."),
        may(
            "binding",
            Of::Words(BINDINGS),
            "The time at which volumes are provisioned; WaitForFirstConsumer when absent.",
        ),
        may("reclaim", Of::Words(RECLAIMS), "The reclaim policy of volumes; Delete when absent."),
        may("expand", Of::Flag, "If true, claims can be expanded. True when absent."),
        may("parameters", Of::Each(&Of::Scalar), "Parameters of the driver; `type: gp3` unless they say otherwise."),
    ],
};

const BINDINGS: &[(&str, &str)] = &[
    ("WaitForFirstConsumer", "When a pod that uses the claim is scheduled."),
    ("Immediate", "When the claim is created."),
];

const RECLAIMS: &[(&str, &str)] =
    &[("Delete", "The volume is deleted."), ("Retain", "The volume stays, and its PersistentVolume is Released.")];

const COUNT_ABOUT: &str = "Number of repetitions; the variable is 0, 1, 2 … Either this or `each`.";
const EACH_ABOUT: &str = "The values of the variable, one per repetition. Either this or `count`.";
const AS_ABOUT: &str = "The variable's name. `${NAME}` in the list is replaced by its value.";

/// Repeated objects.
pub static REPEAT_ITEMS: Map = Map {
    name: "repeat-objects",
    about: REPEAT_ABOUT,
    keys: &[
        one("count", Of::Whole(1, Some(10_000)), COUNT_ABOUT),
        one("each", Of::Some(&Of::Scalar), EACH_ABOUT),
        must("as", Of::Text, AS_ABOUT),
        must("do", Of::List(&Of::Map(&ITEM)), "The objects."),
    ],
};

/// Repeated steps.
pub static REPEAT_STEPS: Map = Map {
    name: "repeat-steps",
    about: REPEAT_ABOUT,
    keys: &[
        one("count", Of::Whole(1, Some(10_000)), COUNT_ABOUT),
        one("each", Of::Some(&Of::Scalar), EACH_ABOUT),
        must("as", Of::Text, AS_ABOUT),
        must("do", Of::List(&Of::Map(&STEP)), "The steps."),
    ],
};

/// The items of another file.
pub const INCLUDES: &[(Of, &str)] = &[
    (Of::Text, "The file's path, relative to the file that names it."),
    (Of::Map(&INCLUDE), "The file, with values for its variables."),
];

static INCLUDE: Map = Map {
    name: "include",
    about: "A file, with values for its variables.",
    keys: &[
        must("file", Of::Text, "The file's path, relative to the file that names it."),
        may("with", Of::Each(&Of::Scalar), "Its variables: `${NAME}` in the file is replaced by the value."),
    ],
};
