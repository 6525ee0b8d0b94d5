//! The pod as its containers see it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{ObjectFieldSelector, Pod};

use super::references::References;
use crate::scheduler::resources::Resources;

/// Address of a pod for its own programs, which share the network of the host: the address in its status is modelled.
pub(super) const ADDRESS: &str = "127.0.0.1";

/// Volume that the volume manager has mounted.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub path: PathBuf,
    pub readonly: bool,
    /// True for a hostPath.
    pub host: bool,
}

/// The pod as its containers see it.
#[derive(Clone, Debug)]
pub(super) struct Seen<'a> {
    pub pod: &'a Pod,
    pub host_ip: String,
    pub references: &'a References,
    /// True if paths of the machine are mounted.
    pub host_paths: bool,
    /// Volumes of the volume manager, by name.
    pub published: BTreeMap<String, Published>,
    /// Resources that the node can allocate.
    pub allocatable: Resources,
}

/// Returns a field of the pod (`ExtractFieldPathAsString`). None if the downward API has no such field.
pub(super) fn field(seen: &Seen<'_>, field: &ObjectFieldSelector) -> Option<String> {
    let (metadata, spec) = (&seen.pod.metadata, seen.pod.spec.as_ref()?);
    let text = |value: &Option<String>| Some(value.clone().unwrap_or_default());
    let key = |prefix: &str| field.field_path.strip_prefix(prefix)?.strip_suffix("']");
    let of = |map: &Option<BTreeMap<String, String>>, key: &str| {
        Some(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default())
    };
    let all = |map: &Option<BTreeMap<String, String>>| {
        let lines = map.iter().flatten().map(|(key, value)| format!("{key}={value:?}"));
        Some(lines.collect::<Vec<_>>().join("\n"))
    };
    match field.field_path.as_str() {
        "metadata.name" => text(&metadata.name),
        "metadata.namespace" => text(&metadata.namespace),
        "metadata.uid" => text(&metadata.uid),
        "metadata.labels" => all(&metadata.labels),
        "metadata.annotations" => all(&metadata.annotations),
        "spec.nodeName" => text(&spec.node_name),
        "spec.serviceAccountName" => text(&spec.service_account_name),
        "status.podIP" | "status.podIPs" => Some(ADDRESS.to_owned()),
        "status.hostIP" | "status.hostIPs" => Some(seen.host_ip.clone()),
        _ => match (key("metadata.labels['"), key("metadata.annotations['")) {
            (Some(label), _) => of(&metadata.labels, label),
            (None, Some(annotation)) => of(&metadata.annotations, annotation),
            (None, None) => None,
        },
    }
}
