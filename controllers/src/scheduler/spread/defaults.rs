//! Constraints of pods that declare none (`buildDefaultConstraints`, `systemDefaultConstraints`): pods of one Service or
//! controller spread over nodes and zones.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{Constraint, HOSTNAME};
use crate::binder::selectors::is_everything;
use crate::kube::Kind;

/// Key and allowed difference of each default constraint.
const DEFAULTS: [(&str, i64); 2] = [(HOSTNAME, 3), ("topology.kubernetes.io/zone", 5)];

/// Namespace and name.
type Key = (String, String);

/// Objects that tell which pods are alike.
#[derive(Debug, Default)]
pub struct Owners {
    /// Services.
    pub services: BTreeMap<Key, Arc<Service>>,
    /// ReplicaSets.
    pub replica_sets: BTreeMap<Key, Arc<ReplicaSet>>,
    /// StatefulSets.
    pub stateful_sets: BTreeMap<Key, Arc<StatefulSet>>,
}

/// Returns the default constraints of a pod, or none if it belongs to no Service and no controller.
pub(super) fn constraints(owners: &Owners, pod: &Pod) -> Vec<Constraint> {
    let selector = selector(owners, pod);
    if is_everything(&selector) {
        return Vec::new();
    }
    let constraint = |(key, max_skew): (&str, i64)| Constraint {
        key: key.to_owned(),
        max_skew,
        min_domains: 1,
        selector: Some(selector.clone()),
        honors_affinity: true,
        honors_taints: false,
    };
    DEFAULTS.into_iter().map(constraint).collect()
}

/// Returns the selector of the pod's Services and of its controller, together (`DefaultSelector`).
fn selector(owners: &Owners, pod: &Pod) -> LabelSelector {
    let labels = pod.metadata.labels.as_ref();
    let mut all = LabelSelector::default();
    for ((namespace, _), service) in &owners.services {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref()).filter(|s| !s.is_empty());
        let Some(selector) = selector.filter(|_| namespace == pod.namespace()) else { continue };
        if selector.iter().all(|(key, value)| labels.is_some_and(|labels| labels.get(key) == Some(value))) {
            all.match_labels.get_or_insert_default().extend(selector.clone());
        }
    }
    let owner = pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let Some(owner) = owner else { return all };
    let key = (pod.namespace().to_owned(), owner.name.clone());
    let own = match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("apps/v1", "ReplicaSet") => {
            owners.replica_sets.get(&key).map(|set| &set.spec).and_then(|spec| spec.as_ref().map(|spec| &spec.selector))
        }
        ("apps/v1", "StatefulSet") => owners
            .stateful_sets
            .get(&key)
            .map(|set| &set.spec)
            .and_then(|spec| spec.as_ref().map(|spec| &spec.selector)),
        _ => None,
    };
    if let Some(own) = own {
        all.match_labels.get_or_insert_default().extend(own.match_labels.clone().unwrap_or_default());
        all.match_expressions.get_or_insert_default().extend(own.match_expressions.clone().unwrap_or_default());
    }
    all
}
