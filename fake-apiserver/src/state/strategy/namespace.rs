//! Namespaces (`pkg/registry/core/namespace/strategy.go`).

use substrate::json::{Value, json};

use super::{PLAIN, Strategy, keep_the_rest};
use crate::state::command::Part;
use crate::state::validate::names;
use crate::state::value::{self, list, map_mut, name};

pub(super) static NAMESPACE: Strategy = Strategy {
    default,
    begin: |namespace, _| {
        begin(namespace);
        Some(json!({"phase": "Active"}))
    },
    prepare: |kind, part, namespace, old, now| {
        keep_the_rest(kind, part, namespace, old, now);
        if part == Part::Main {
            keep_finalizers(namespace, old);
        }
    },
    holds: |namespace| !list(namespace, &["spec", "finalizers"]).is_empty(),
    check_name: names::label,
    ..PLAIN
};

fn default(namespace: &mut Value) {
    let named = name(namespace).to_owned();
    if !named.is_empty() {
        let labels = value::metadata(namespace).entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert("kubernetes.io/metadata.name", named.into());
        }
    }
    if let Some(status) = map_mut(namespace, "status") {
        value::default(status, "phase", "Active");
    }
}

/// Adds the finalizer that keeps a namespace until it is empty.
fn begin(namespace: &mut Value) {
    let Some(spec) = map_mut(namespace, "spec") else { return };
    let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut().filter(|l| !l.iter().any(|f| f == "kubernetes")) {
        list.push("kubernetes".into());
    }
}

/// Keeps spec.finalizers: only `/finalize` writes them.
fn keep_finalizers(namespace: &mut Value, old: &Value) {
    let held = old["spec"].get("finalizers").cloned();
    if let (Some(spec), Some(held)) = (map_mut(namespace, "spec"), held) {
        spec.insert("finalizers", held);
    }
}
