//! Sets of a deployment and their numbers (`deployment/util`).

use std::cmp::Ordering;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::annotations;
use crate::kube::Kind;
use crate::workload::scaled::scaled;

/// Label with the hash of the pod template, of a set and its pods.
pub(super) const HASH_LABEL: &str = "pod-template-hash";

/// Longest name of an object.
const NAME_LIMIT: usize = 253;

/// Sets of one deployment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets {
    /// Set of the deployment's template, if it exists.
    pub(super) new: Option<Arc<ReplicaSet>>,
    /// All other sets.
    pub(super) old: Vec<Arc<ReplicaSet>>,
}

impl Sets {
    /// Finds the new set and the old ones (`FindNewReplicaSet`, `FindOldReplicaSets`). Upstream sorts its list in place,
    /// so the old sets are in the order of their creation.
    pub(super) fn of(deployment: &Deployment, all: &[Arc<ReplicaSet>]) -> Self {
        let mut old = all.to_vec();
        old.sort_by(|a, b| by_age(a, b));
        let new = find_new(deployment, &old);
        old.retain(|set| new.as_ref().is_none_or(|new| new.uid() != set.uid()));
        Self { new, old }
    }

    /// Returns the sets in the order in which a scaled deployment writes them: the newest of the old sets first, and then
    /// the new one. The search for the active set leaves them so (`FindActiveOrLatest`).
    pub(super) fn to_scale(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().rev().chain(&self.new)
    }

    /// Returns the old sets and the new one.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new)
    }
}

/// Returns the number of replicas that a set asks for.
pub(super) fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Returns the number of replicas that a deployment asks for.
pub(super) fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Returns the number of pods of a set.
pub(super) fn actual(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.replicas)
}

/// Returns the number of available pods of a set.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// Adds up a number over sets.
pub(super) fn sum<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>, of: fn(&ReplicaSet) -> i32) -> i32 {
    sets.into_iter().map(|set| of(set)).sum()
}

/// Returns the sets that ask for pods (`FilterActiveReplicaSets`).
pub(super) fn active<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> Vec<Arc<ReplicaSet>> {
    sets.into_iter().filter(|set| size(set) > 0).cloned().collect()
}

/// Compares by age, then by name (`ReplicaSetsByCreationTimestamp`).
pub(super) fn by_age(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    let created = |set: &ReplicaSet| set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    created(a).cmp(&created(b)).then(a.name().cmp(b.name()))
}

/// Returns the name of a set (`generateReplicaSetName`); the name of a deployment is cut if the hash does not fit.
pub(super) fn set_name(deployment: &str, hash: &str) -> String {
    let limit = NAME_LIMIT.saturating_sub(1 + hash.len());
    format!("{}-{hash}", deployment.get(..limit).unwrap_or(deployment))
}

/// Compares templates without the hash label (`EqualIgnoreHash`).
pub(super) fn equal_ignoring_hash(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    let without = |template: &PodTemplateSpec| {
        let mut template = template.clone();
        if let Some(metadata) = &mut template.metadata
            && let Some(labels) = &mut metadata.labels
        {
            labels.remove(HASH_LABEL);
            if labels.is_empty() {
                metadata.labels = None;
            }
        }
        template
    };
    without(a) == without(b)
}

/// Returns the oldest set of the deployment's template; the sets are sorted by age.
fn find_new(deployment: &Deployment, sorted: &[Arc<ReplicaSet>]) -> Option<Arc<ReplicaSet>> {
    let template = &deployment.spec.as_ref()?.template;
    let is_new = |set: &ReplicaSet| {
        set.spec.as_ref().and_then(|spec| spec.template.as_ref()).is_some_and(|own| equal_ignoring_hash(own, template))
    };
    sorted.iter().find(|set| is_new(set)).cloned()
}

/// Returns true if the deployment's strategy is RollingUpdate.
pub(super) fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("RollingUpdate")
}

/// Returns the numbers of surplus and of missing pods that a rollout may have (`MaxSurge`, `MaxUnavailable`).
pub(super) fn fenceposts(deployment: &Deployment) -> (i32, i32) {
    if !is_rolling(deployment) {
        return (0, 0);
    }
    let total = wanted(deployment);
    let rolling =
        deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref()).and_then(|s| s.rolling_update.as_ref());
    // The API server sets both, and refuses values that are not numbers.
    let of = |value: Option<&IntOrString>, up: bool| value.and_then(|value| scaled(value, total, up).ok()).unwrap_or(0);
    let surge = of(rolling.and_then(|rolling| rolling.max_surge.as_ref()), true);
    let mut unavailable = of(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), false);
    if surge == 0 && unavailable == 0 {
        // A percentage of few pods is rounded down to zero: then one pod may be missing.
        unavailable = 1;
    }
    (surge, unavailable.min(total))
}

/// Returns the only active set, or the newest one if none is active (`FindActiveOrLatest`).
pub(super) fn active_or_latest(sets: &Sets) -> Option<Arc<ReplicaSet>> {
    match &active(sets.all())[..] {
        [] => sets.new.clone().or_else(|| sets.old.iter().max_by(|a, b| by_age(a, b)).cloned()),
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// Returns true if the new set has all pods and they are available (`IsSaturated`).
pub(super) fn is_saturated(deployment: &Deployment, new: Option<&Arc<ReplicaSet>>) -> bool {
    let wanted = wanted(deployment);
    new.is_some_and(|new| annotations::desired(new) == Some(wanted) && size(new) == wanted && available(new) == wanted)
}

/// Returns the size of the new set (`NewRSNewReplicas`); `sizes` is the sum over all sets.
pub(super) fn new_size(deployment: &Deployment, sizes: i32, new: i32) -> i32 {
    let wanted = wanted(deployment);
    if !is_rolling(deployment) {
        return wanted;
    }
    // Only the surge counts here; a percentage is rounded up.
    let most = wanted + fenceposts(deployment).0;
    if sizes >= most { new } else { new + (most - sizes).min(wanted - new) }
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    fn set(name: &str, created: &str, image: &str) -> Arc<ReplicaSet> {
        let template = json!({ "metadata": { "labels": { "app": "web", HASH_LABEL: name } },
            "spec": { "containers": [{ "name": "c", "image": image }] } });
        let metadata =
            json!({ "name": name, "uid": name, "creationTimestamp": format!("2026-01-01T00:00:{created}Z") });
        Arc::new(from_value(json!({ "metadata": metadata, "spec": { "selector": {}, "template": template } })).unwrap())
    }

    #[test]
    fn sets_are_in_the_order_of_their_creation_and_scaled_from_the_newest_old_one() {
        let template = json!({ "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "c", "image": "new" }] } });
        let deployment: Deployment = from_value(json!({ "spec": { "selector": {}, "template": template } })).unwrap();
        let all = [set("a", "03", "three"), set("b", "01", "one"), set("c", "02", "new"), set("d", "02", "two")];
        let sets = Sets::of(&deployment, &all);
        let names = |sets: &mut dyn Iterator<Item = &Arc<ReplicaSet>>| {
            sets.map(|set| set.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(sets.new.as_ref().map(|set| set.name()), Some("c"));
        assert_eq!(names(&mut sets.all()), ["b", "d", "a", "c"]);
        assert_eq!(names(&mut sets.to_scale()), ["a", "d", "b", "c"]);
    }

    #[test]
    fn the_name_of_a_set_fits_with_its_hash() {
        assert_eq!(set_name("web", "5d4f"), "web-5d4f");
        let long = "w".repeat(253);
        let name = set_name(&long, "5d4f");
        assert_eq!(name.len(), 253);
        assert!(name.ends_with("w-5d4f"), "{name}");
    }
}
