//! Constraints that prefer nodes (`ScheduleAnyway`, `scoring.go`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::{Constraint, HOSTNAME, defaults, has_all};
use crate::binder::selectors::node_labels;
use crate::scheduler::cache::SchedulerCache;
use crate::scheduler::node_info::NodeInfo;
use crate::scheduler::scores::MAX;

/// Returns the score of each of `nodes`, which passed the filters; None without a constraint.
pub fn scores(cache: &SchedulerCache, pod: &Pod, nodes: &[&NodeInfo]) -> Option<Vec<i64>> {
    let declares = pod.spec.as_ref().is_some_and(|s| s.topology_spread_constraints.iter().flatten().next().is_some());
    let constraints =
        if declares { Constraint::declared(pod, "ScheduleAnyway") } else { defaults::constraints(&cache.owners, pod) };
    if constraints.is_empty() {
        return None;
    }
    // By default a node without a zone is still spread by its name.
    let is_judged = |info: &NodeInfo| info.node.as_ref().is_some_and(|node| !declares || has_all(&constraints, node));
    let judged: Vec<bool> = nodes.iter().map(|info| is_judged(info)).collect();
    let mut raw = vec![0.0; nodes.len()];
    for constraint in &constraints {
        let candidates = nodes.iter().zip(&judged).filter(|(_, judged)| **judged).map(|(info, _)| *info);
        let domains = domains(cache, pod, constraint, candidates, is_judged);
        for (score, info) in raw.iter_mut().zip(nodes) {
            *score += domains.score(pod, constraint, info);
        }
    }
    Some(normalized(&raw, &judged))
}

/// Domains of a constraint with their numbers of matching pods, and the weight of a pod.
struct Domains {
    counts: BTreeMap<String, i64>,
    weight: f64,
}

fn label<'a>(info: &'a NodeInfo, key: &str) -> Option<&'a String> {
    node_labels(info.node.as_ref()?).get(key)
}

fn domains<'a>(
    cache: &SchedulerCache,
    pod: &Pod,
    constraint: &Constraint,
    candidates: impl Iterator<Item = &'a NodeInfo>,
    is_judged: impl Fn(&NodeInfo) -> bool,
) -> Domains {
    let by_name = constraint.key == HOSTNAME;
    let of = |info: &NodeInfo| label(info, &constraint.key).cloned().unwrap_or_default();
    let names: Vec<String> = candidates.map(of).collect();
    let mut counts: BTreeMap<String, i64> =
        if by_name { BTreeMap::new() } else { names.iter().cloned().map(|name| (name, 0)).collect() };
    let size = if by_name { names.len() } else { counts.len() };
    let includes = |info: &&NodeInfo| info.node.as_ref().is_some_and(|node| constraint.includes(pod, node));
    for info in cache.nodes.values().filter(|info| is_judged(info)).filter(includes) {
        if let Some(count) = counts.get_mut(&of(info)) {
            *count += constraint.count(pod, info);
        }
    }
    Domains { counts, weight: weight(size) }
}

/// Returns the weight of a pod among so many domains: more domains have fewer pods each (`topologyNormalizingWeight`).
#[expect(clippy::cast_precision_loss, reason = "upstream computes with float64")]
fn weight(size: usize) -> f64 {
    ((size + 2) as f64).ln()
}

impl Domains {
    /// Returns the share of this constraint in a node's raw score (`scoreForCount`): the lower, the better.
    #[expect(clippy::cast_precision_loss, reason = "upstream computes with float64")]
    fn score(&self, pod: &Pod, constraint: &Constraint, info: &NodeInfo) -> f64 {
        let Some(domain) = label(info, &constraint.key) else { return 0.0 };
        let count = match self.counts.get(domain) {
            Some(count) => *count,
            None if constraint.key == HOSTNAME => constraint.count(pod, info),
            None => return 0.0,
        };
        count as f64 * self.weight + (constraint.max_skew - 1) as f64
    }
}

/// Scales raw scores (`NormalizeScore`): nodes with the fewest matching pods get the highest score.
#[expect(clippy::cast_possible_truncation, reason = "upstream computes with float64")]
fn normalized(raw: &[f64], judged: &[bool]) -> Vec<i64> {
    let rounded: Vec<Option<i64>> =
        raw.iter().zip(judged).map(|(score, judged)| judged.then(|| score.round() as i64)).collect();
    let least = rounded.iter().flatten().min().copied().unwrap_or(0);
    let most = rounded.iter().flatten().max().copied().unwrap_or(0);
    let scale = |score: Option<i64>| match score {
        None => 0,
        Some(_) if most == 0 => MAX,
        Some(score) => MAX * (most + least - score) / most,
    };
    rounded.into_iter().map(scale).collect()
}
