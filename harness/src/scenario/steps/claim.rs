//! `claim`: applies a claim for a volume.

use serde_json::json;

use super::class;
use crate::scenario::lower::{metadata, named};
use crate::scenario::prelude::*;
use crate::spec::Manifest;

pub(crate) static KEY: Key = one("claim", Of::Map(&CLAIM), ABOUT).like(&[
    "- claim: {name: data, size: 1Gi}",
    "- claim: {name: data, namespace: default, class: gp3, mode: ReadWriteOncePod, block: true}",
]);

const ABOUT: &str = "A claim for a volume, without its manifest.";

static CLAIM: Map = Map {
    name: "claim",
    about: ABOUT,
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

const MODES: &[Word] = &[
    ("ReadWriteOnce", "Pods of one node read and write."),
    ("ReadOnlyMany", "Pods of many nodes read."),
    ("ReadWriteMany", "Pods of many nodes read and write."),
    ("ReadWriteOncePod", "One pod reads and writes."),
];

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    name: Spanned<String>,
    namespace: Option<String>,
    size: Option<Spanned<String>>,
    class: Option<String>,
    mode: Option<AccessMode>,
    #[serde(default)]
    block: bool,
    volume: Option<String>,
}

/// Access modes, with Kubernetes' names.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[expect(clippy::enum_variant_names, reason = "they are called so")]
enum AccessMode {
    ReadWriteOnce,
    ReadOnlyMany,
    ReadWriteMany,
    ReadWriteOncePod,
}

/// Default size of claims.
const SIZE: &str = "1Gi";

pub(super) fn lower(claim: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    Ok(Action::Apply(vec![manifest(claim, steps)?]))
}

pub(in crate::scenario) fn manifest(claim: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Manifest> {
    let Spanned { place, value: claim } = claim;
    named(&claim.name)?;
    let class = claim.class.unwrap_or_else(|| {
        steps.needs_class = true;
        class::DEFAULT.to_owned()
    });
    let mut spec = json!({
        "accessModes": [claim.mode.unwrap_or(AccessMode::ReadWriteOnce)],
        "storageClassName": class,
        "resources": { "requests": { "storage": claim.size.map_or_else(|| SIZE.to_owned(), |s| s.value) } },
    });
    if claim.block {
        spec["volumeMode"] = json!("Block");
    }
    if let Some(volume) = claim.volume {
        spec["volumeName"] = json!(volume);
    }
    let metadata = metadata(&claim.name, claim.namespace);
    steps
        .made(place, json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec }))
}
