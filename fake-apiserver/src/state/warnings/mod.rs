//! Warnings about accepted objects (the strategies' `WarningsOnCreate` and `WarningsOnUpdate`).

mod pod;
mod volume_paths;

use substrate::json::Value;

use super::quantity;
use super::validate::{STANDARD_FINALIZERS, names};
use super::value::{at, finalizers, has, list, name, template_of, text};
use crate::kinds::{self, Kind, index};

/// Deprecated node labels (`pkg/api/node`).
const OLD_NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// Volume sources that were removed or never mount: field, version of the deprecation, version of the removal.
const OLD_VOLUMES: [(&str, &str, &str); 8] = [
    ("photonPersistentDisk", "v1.11", "v1.16"),
    ("scaleIO", "v1.16", "v1.22"),
    ("flocker", "v1.22", "v1.25"),
    ("storageOS", "v1.22", "v1.25"),
    ("quobyte", "v1.22", "v1.25"),
    ("glusterfs", "v1.25", "v1.26"),
    ("cephfs", "v1.28", "v1.31"),
    ("rbd", "v1.28", "v1.31"),
];

pub(super) const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
pub(super) const OLD_CLASS_TEXT: &str = "deprecated since v1.8; use \"storageClassName\" attribute instead";

/// Returns warnings about a pod or a workload with a pod template.
pub(super) fn of_pods(kind: &Kind, object: &Value, old: &Value) -> Vec<String> {
    let Some(template) = template_of(kind.group, kind.kind) else { return Vec::new() };
    // Pods change too often to warn on each update; workloads are checked only if their spec changes.
    if !old.is_null() && (template.is_empty() || object["metadata"]["generation"] == old["metadata"]["generation"]) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let host = match kind.index {
        index::STATEFUL_SETS | index::DAEMON_SETS | index::POD_TEMPLATES => None,
        index::PODS => Some("the Pod's hostname"),
        _ => Some("Pod names and hostnames"),
    };
    let why = names::label(name(object));
    if let (true, Some(host), false) = (old.is_null(), host, why.is_empty()) {
        let why = why.join(" ");
        found.push(format!(
            "metadata.name: this is used in {host}, which can result in surprising behavior; a DNS label is \
             recommended: [{why}]"
        ));
    }
    let path: String = template.iter().flat_map(|field| [field, "."]).collect();
    found.extend(at(object, template).map(|pod| pod::of(&path, pod)).unwrap_or_default());
    if kind == kinds::STATEFUL_SETS {
        for (i, claim) in list(object, &["spec", "volumeClaimTemplates"]).iter().enumerate() {
            of_claim_spec(&format!("spec.volumeClaimTemplates[{i}]"), &claim["spec"], &mut found);
        }
        if object["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
            let text = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
            found.push(text.to_owned());
        }
    }
    found
}

/// Warns of removed volume sources.
pub(super) fn of_volume_source(at: &str, source: &Value, found: &mut Vec<String>) {
    for (field, since, gone) in OLD_VOLUMES {
        if has(source, &[field]) {
            found.push(format!("{at}.{field}: deprecated in {since}, non-functional in {gone}+"));
        }
    }
}

/// Warns of the spec of a claim (`GetWarningsForPersistentVolumeClaimSpec`).
pub(super) fn of_claim_spec(at: &str, spec: &Value, found: &mut Vec<String>) {
    for part in ["requests", "limits"] {
        fractional(&format!("{at}.resources.{part}"), &spec["resources"][part], "storage", found);
    }
}

/// Warns of an amount with fractions of a byte.
fn fractional(at: &str, amounts: &Value, resource: &str, found: &mut Vec<String>) {
    const MILLI: i128 = 1_000_000;
    let Some(amount) = amounts.get(resource).and_then(Value::as_str) else { return };
    // Upstream compares thousandths, rounded up.
    let thousandths = quantity::nanos(amount).map(|nanos| (nanos + MILLI - 1).div_euclid(MILLI));
    if thousandths.is_some_and(|n| n % 1000 != 0) {
        found.push(format!("{at}[{resource}]: fractional byte value \"{amount}\" is invalid, must be an integer"));
    }
}

pub(super) fn old_node_label(key: &str) -> Option<&'static str> {
    OLD_NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, text)| *text)
}

/// Warns of the terms of a node selector (`GetWarningsForNodeSelectorTerm`).
pub(super) fn of_node_term(at: &str, term: &Value, found: &mut Vec<String>) {
    for (i, expression) in list(term, &["matchExpressions"]).iter().enumerate() {
        let key = text(expression, &["key"]);
        if let Some(why) = old_node_label(key) {
            found.push(format!("{at}.matchExpressions[{i}].key: {key} is {why}"));
        }
    }
}

/// Warns of new finalizers without a domain (`validateKubeFinalizerName`).
pub(super) fn of_finalizers(object: &Value, old: &Value) -> Vec<String> {
    let mut added: Vec<&str> =
        finalizers(object).iter().filter(|f| !finalizers(old).contains(f)).filter_map(Value::as_str).collect();
    added.sort_unstable();
    added.dedup();
    let mut found = Vec::new();
    for finalizer in added {
        let mut say = |why: &str| found.push(format!("metadata.finalizers: \"{finalizer}\": {why}"));
        for why in names::qualified(finalizer) {
            say(&why);
        }
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
            let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
            say(&format!(
                "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            ));
        }
    }
    found
}
