//! Shares of the sets when a deployment is scaled during a rollout (`GetProportion`).

use std::cmp::Ordering;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::annotations;
use super::replica_sets::{by_age, fenceposts, size, wanted};

/// Distributes the difference over the active sets after a deployment was scaled. Returns their sizes in the order of the
/// writes; the largest set comes first, and takes the rest.
pub(super) fn shares(deployment: &Deployment, mut active: Vec<Arc<ReplicaSet>>) -> Vec<(Arc<ReplicaSet>, i32)> {
    let wanted = wanted(deployment);
    let allowed = if wanted > 0 { wanted + fenceposts(deployment).0 } else { 0 };
    let to_add = allowed - active.iter().map(|set| size(set)).sum::<i32>();
    match to_add.cmp(&0) {
        Ordering::Greater => active.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| by_age(b, a))),
        Ordering::Less => active.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| by_age(a, b))),
        Ordering::Equal => {}
    }
    let mut added = 0;
    let mut sizes: Vec<(Arc<ReplicaSet>, i32)> = Vec::new();
    for set in active {
        let share = proportion(deployment, &set, to_add, added);
        added += share;
        let next = size(&set) + share;
        sizes.push((set, next));
    }
    if let Some((_, first)) = sizes.first_mut() {
        *first = (*first + to_add - added).max(0);
    }
    sizes
}

fn proportion(deployment: &Deployment, set: &ReplicaSet, to_add: i32, added: i32) -> i32 {
    if size(set) == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let (fraction, allowed) = (fraction(deployment, set), to_add - added);
    if to_add > 0 { fraction.min(allowed) } else { fraction.max(allowed) }
}

/// Returns the change of a set in proportion to the change of the deployment (`getReplicaSetFraction`).
fn fraction(deployment: &Deployment, set: &ReplicaSet) -> i32 {
    let wanted = wanted(deployment);
    if wanted == 0 {
        return -size(set);
    }
    let after = wanted + fenceposts(deployment).0;
    let status = deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
    let before = annotations::most(set).filter(|most| *most != 0).unwrap_or(status);
    if before == 0 {
        return 0;
    }
    let scaled = f64::from(size(set)) * f64::from(after) / f64::from(before);
    // Sizes are far below the limits of i32; the API server refuses negative ones.
    #[expect(clippy::cast_possible_truncation, reason = "rounded, and as small as the sizes")]
    let rounded = scaled.round() as i32;
    rounded - size(set)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{from_value, json};

    use super::*;
    use crate::kube::Kind;

    fn set(name: &str, replicas: i32, most: i32) -> Arc<ReplicaSet> {
        let mut set: ReplicaSet =
            from_value(json!({ "metadata": { "name": name }, "spec": { "replicas": replicas, "selector": {} } }))
                .unwrap();
        annotations::set_sizes(&mut set, most, most);
        Arc::new(set)
    }

    #[rstest]
    // 10 pods become 20: each set doubles.
    #[case(20, 10, [5, 5], &[("b", 10), ("a", 10)])]
    #[case(20, 10, [8, 2], &[("a", 16), ("b", 4)])]
    // 10 pods become 5: the rest is taken from the largest set.
    #[case(5, 10, [7, 3], &[("a", 3), ("b", 2)])]
    #[case(10, 10, [5, 5], &[("a", 5), ("b", 5)])]
    fn a_scaled_rollout_keeps_its_proportions(
        #[case] wanted: i32,
        #[case] most: i32,
        #[case] sizes: [i32; 2],
        #[case] expected: &[(&str, i32)],
    ) {
        let rolling = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } });
        let spec = json!({ "replicas": wanted, "selector": {}, "template": {}, "strategy": rolling });
        let deployment: Deployment = from_value(json!({ "spec": spec })).unwrap();
        let shares = shares(&deployment, vec![set("a", sizes[0], most), set("b", sizes[1], most)]);
        let found: Vec<(&str, i32)> = shares.iter().map(|(set, size)| (set.name(), *size)).collect();
        assert_eq!(found, expected);
    }
}
