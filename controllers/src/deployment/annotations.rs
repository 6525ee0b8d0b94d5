//! Annotations of deployments and their sets: revisions and sizes (`deployment/util`).

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use crate::kube::Kind;

/// Number of a template in the order of rollouts.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Former numbers of a template that was rolled back to.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Size of the deployment when its set was scaled.
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// Largest number of pods of the deployment when its set was scaled.
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations that a set does not get from its deployment.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    ROLLBACK_TO,
];
/// Number of the template to which the deployment shall be rolled back.
pub(super) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// Longest list of former numbers, in characters.
const HISTORY_LIMIT: usize = 2000;

fn number(set: &ReplicaSet, key: &str) -> Option<i32> {
    set.annotation(key)?.parse().ok()
}

/// Returns the size of the deployment when the set was scaled.
pub(super) fn desired(set: &ReplicaSet) -> Option<i32> {
    number(set, DESIRED_REPLICAS)
}

/// Returns the largest number of pods of the deployment when the set was scaled.
pub(super) fn most(set: &ReplicaSet) -> Option<i32> {
    number(set, MAX_REPLICAS)
}

/// Returns the revision of a set; zero if it has none.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    set.annotation(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn annotations(set: &mut ReplicaSet) -> &mut BTreeMap<String, String> {
    set.metadata.annotations.get_or_insert_default()
}

/// Returns true if the annotations of the sizes differ (`ReplicasAnnotationsNeedUpdate`).
pub(super) fn sizes_differ(set: &ReplicaSet, desired: i32, most: i32) -> bool {
    set.annotation(DESIRED_REPLICAS) != Some(&desired.to_string())
        || set.annotation(MAX_REPLICAS) != Some(&most.to_string())
}

/// Sets the annotations of the sizes (`SetReplicasAnnotations`).
pub(super) fn set_sizes(set: &mut ReplicaSet, desired: i32, most: i32) {
    let all = annotations(set);
    all.insert(DESIRED_REPLICAS.to_owned(), desired.to_string());
    all.insert(MAX_REPLICAS.to_owned(), most.to_string());
}

/// Sets the annotations of the new set (`SetNewReplicaSetAnnotations`) without those of the sizes. Returns true if
/// something changed.
pub(super) fn set_new(deployment: &Deployment, set: &mut ReplicaSet, new_revision: i64) -> bool {
    let mut changed = false;
    for (name, value) in deployment.metadata.annotations.iter().flatten() {
        if !OWN.contains(&name.as_str()) && set.annotation(name) != Some(value) {
            annotations(set).insert(name.clone(), value.clone());
            changed = true;
        }
    }
    let old = set.annotation(REVISION).map(str::to_owned);
    let old_number: i64 = match old.as_deref() {
        None | Some("") => 0,
        Some(text) => match text.parse() {
            Ok(number) => number,
            Err(_) => return false,
        },
    };
    if old_number >= new_revision {
        return changed;
    }
    annotations(set).insert(REVISION.to_owned(), new_revision.to_string());
    // The template was rolled back to: its former number goes to the history.
    if let Some(old) = old {
        let history = set.annotation(REVISION_HISTORY).unwrap_or_default();
        let mut numbers: Vec<&str> = history.split(',').filter(|number| !number.is_empty()).collect();
        numbers.push(&old);
        let mut text = numbers.join(",");
        while text.len() > HISTORY_LIMIT && !numbers.is_empty() {
            numbers.remove(0);
            text = numbers.join(",");
        }
        annotations(set).insert(REVISION_HISTORY.to_owned(), text);
    }
    true
}

/// Gives a deployment the annotations of the set to which it is rolled back (`SetDeploymentAnnotationsTo`). Annotations that
/// sets do not share with their deployment stay as they are.
pub(super) fn restore(deployment: &mut Deployment, set: &ReplicaSet) {
    let is_own = |name: &str| OWN.contains(&name);
    let all = deployment.metadata.annotations.get_or_insert_default();
    all.retain(|name, _| is_own(name));
    let given = set.metadata.annotations.iter().flatten().filter(|(name, _)| !is_own(name));
    all.extend(given.map(|(name, value)| (name.clone(), value.clone())));
}

/// Sets the deployment's revision (`SetDeploymentRevision`); returns true if it changed.
pub(super) fn set_revision(deployment: &mut Deployment, revision: &str) -> bool {
    let all = deployment.metadata.annotations.get_or_insert_default();
    if all.get(REVISION).is_some_and(|present| present == revision) {
        return false;
    }
    all.insert(REVISION.to_owned(), revision.to_owned());
    true
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn a_set_takes_annotations_and_keeps_its_former_revisions() {
        let annotations = json!({ "note": "x", REVISION: "9" });
        let deployment: Deployment = from_value(json!({ "metadata": { "annotations": annotations } })).unwrap();
        let mut set = ReplicaSet::default();
        assert!(set_new(&deployment, &mut set, 1));
        assert_eq!((set.annotation("note"), set.annotation(REVISION)), (Some("x"), Some("1")));
        assert!(!set_new(&deployment, &mut set, 1));
        assert!(set_new(&deployment, &mut set, 3) && set_new(&deployment, &mut set, 5));
        assert_eq!((revision(&set), set.annotation(REVISION_HISTORY)), (5, Some("1,3")));
        assert!(!set_new(&deployment, &mut set, 4), "an old number changes nothing");
        assert!(sizes_differ(&set, 2, 3));
        set_sizes(&mut set, 2, 3);
        assert!(!sizes_differ(&set, 2, 3) && desired(&set) == Some(2) && most(&set) == Some(3));
    }
}
