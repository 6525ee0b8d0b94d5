//! `snapshot`: applies a VolumeSnapshot of a claim.

use serde_json::json;

use crate::scenario::lower::{metadata, named};
use crate::scenario::prelude::*;
use crate::spec::custom::Customs;
use crate::spec::object::check_name;
use crate::spec::{Manifest, snapshots};

pub(super) static KEY: Key =
    one("snapshot", Of::Map(&SNAPSHOT), "A snapshot of a claim, without its manifest.").like(&[
        "- snapshot: {name: monday, claim: data}",
        "- snapshot: {name: monday, namespace: default, claim: data, class: csi-aws-vsc}",
    ]);

static SNAPSHOT: Map = Map {
    name: "snapshot",
    about: "A VolumeSnapshot of a claim. A claim with `dataSource` restores it.",
    keys: &[
        must("name", Of::Name, "The snapshot's name."),
        may("namespace", Of::Name, "Its namespace and that of the claim; default when absent."),
        must("claim", Of::Name, "The claim whose volume is snapshotted."),
        may("class", Of::Name, "Its class; csi-aws-vsc when absent, which the file then need not define."),
    ],
};

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    name: Spanned<String>,
    namespace: Option<String>,
    claim: Spanned<String>,
    class: Option<String>,
}

/// The default class of snapshots. It is added to a file that does not define it.
pub(in crate::scenario) fn default_class() -> Manifest {
    let value = snapshots::default_class("ebs.csi.aws.com");
    let kind = Customs::with_snapshots().of_manifest("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass");
    // One of the embedded definitions has the kind.
    let object = ObjectRef::new(kind.unwrap_or(Kind::storage_class()), None, snapshots::CLASS);
    Manifest { object, value }
}

pub(super) fn lower(snapshot: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let Spanned { place, value: snapshot } = snapshot;
    named(&snapshot.name)?;
    check_name(&snapshot.claim).map_err(|m| Mistake::new(snapshot.claim.place, m, "this claim"))?;
    let class = snapshot.class.unwrap_or_else(|| {
        steps.needs_snapshot_class = true;
        snapshots::CLASS.to_owned()
    });
    let metadata = metadata(&snapshot.name, snapshot.namespace);
    let source = json!({ "persistentVolumeClaimName": snapshot.claim.value });
    let value = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": metadata,
        "spec": { "source": source, "volumeSnapshotClassName": class },
    });
    steps.made(place, value).map(|manifest| Action::Apply(vec![manifest]))
}
