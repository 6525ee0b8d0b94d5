//! `class`: applies a storage class of the driver.

use serde_json::{Map as Object, Value, json};

use crate::scenario::lower::named;
use crate::scenario::prelude::*;
use crate::spec::Manifest;

pub(crate) static KEY: Key = one("class", Of::Map(&CLASS), ABOUT).like(&[
    "- class: {name: fast, binding: Immediate}",
    "- class: {name: fast, reclaim: Retain, expand: false, parameters: {type: io2, iops: '1000'}}",
]);

const ABOUT: &str = "A storage class of the driver, without its manifest.";

static CLASS: Map = Map {
    name: "class",
    about: ABOUT,
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

const BINDINGS: &[Word] = &[
    ("WaitForFirstConsumer", "When a pod that uses the claim is scheduled."),
    ("Immediate", "When the claim is created."),
];

const RECLAIMS: &[Word] =
    &[("Delete", "The volume is deleted."), ("Retain", "The volume stays, and its PersistentVolume is Released.")];

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    name: Spanned<String>,
    binding: Option<Binding>,
    reclaim: Option<Reclaim>,
    expand: Option<bool>,
    #[serde(default)]
    parameters: Object<String, Value>,
}

/// Binding modes of a class, with Kubernetes' names.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
enum Binding {
    WaitForFirstConsumer,
    Immediate,
}

/// Reclaim policies of a class, with Kubernetes' names.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
enum Reclaim {
    Delete,
    Retain,
}

/// Default class of claims. It is added to a file that does not define it.
pub(super) const DEFAULT: &str = "gp3";

/// The default class, with the driver's defaults.
pub(in crate::scenario) fn default_class() -> Manifest {
    let value = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": DEFAULT },
        "provisioner": "ebs.csi.aws.com",
        "parameters": { "type": "gp3" },
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    });
    Manifest { object: ObjectRef::new(Kind::storage_class(), None, DEFAULT), value }
}

pub(super) fn lower(class: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    Ok(Action::Apply(vec![manifest(class, steps)?]))
}

pub(in crate::scenario) fn manifest(class: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Manifest> {
    let Spanned { place, value: class } = class;
    named(&class.name)?;
    let mut parameters = class.parameters;
    parameters.entry("type").or_insert_with(|| json!("gp3"));
    let value = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": class.name.value },
        "provisioner": "ebs.csi.aws.com",
        "parameters": parameters,
        "reclaimPolicy": class.reclaim.unwrap_or(Reclaim::Delete),
        "volumeBindingMode": class.binding.unwrap_or(Binding::WaitForFirstConsumer),
        "allowVolumeExpansion": class.expand.unwrap_or(true),
    });
    steps.made(place, value)
}
