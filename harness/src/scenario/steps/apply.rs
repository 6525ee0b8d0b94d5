//! `apply`: creates objects, or changes them by a server-side apply or merge.

use serde_json::{Map, Value};

use crate::scenario::document::OneOrMany;
use crate::scenario::prelude::*;
use crate::spec::Manifest;

pub(super) static KEY: Key = one(
    "apply",
    Of::Either(&[(Of::Manifest, "One object."), (Of::Some(&Of::Manifest), "Several objects.")]),
    "Creates or changes objects, as `kubectl apply` does. A text may be `{saved: NAME}`, an id that an earlier `ec2` step saved, or `{uid: configmap/database}`, the uid of an object.",
)
.like(&["- apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {level: info}}"]);

/// Checks manifests, which may define kinds for the following ones.
pub(super) fn lower(apply: Spanned<OneOrMany<Map<String, Value>>>, steps: &mut Steps<'_>) -> Checked<Action> {
    let place = apply.place;
    let list = match apply.value {
        OneOrMany::One(map) => vec![steps.manifest(place, map)?],
        OneOrMany::Many(list) => {
            list.into_iter().map(|m| steps.manifest(m.place, m.value)).collect::<Checked<Vec<_>>>()?
        }
    };
    if list.is_empty() {
        return Err(Mistake::new(place, "there is no manifest to apply", "an empty list"));
    }
    Ok(Action::Apply(list))
}

pub(super) fn summary(manifests: &[Manifest]) -> Summary {
    let list: Vec<String> = manifests.iter().map(|manifest| manifest.object.to_string()).collect();
    let first = manifests.first().map(|manifest| manifest.object.clone());
    Summary { object: first, ..Summary::change(format!("apply {}", list.join(", "))) }
}
