//! One scheduling cycle: filter all nodes, choose one (`schedule_one.go`, `schedulePod`), or look for pods to preempt.

use k8s_openapi::api::core::v1::Pod;

use super::cache::SchedulerCache;
use super::fit_error::FitError;
use super::incoming::{Incoming, fits};
use super::node_info::NodeInfo;
use super::nominations::nominated_node;
use super::preemption::post_filter;
use super::scores;
use super::volume_binding::PodVolumes;

/// Node for a pod, and the writes for its volumes.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The node.
    pub node: String,
    /// Volumes to bind and claims to provision.
    pub volumes: PodVolumes,
}

/// Finds a node for a pod: its nominated node, if that passes all filters (`evaluateNominatedNode`). Otherwise the
/// passing node with the highest score.
///
/// # Errors
/// The reasons why there is none, and the result of preemption.
pub fn schedule(cache: &SchedulerCache, pod: &Pod) -> Result<Placement, Box<FitError>> {
    let mut error = Box::new(FitError::new(cache.node_count()));
    if error.nodes == 0 {
        return Err(error);
    }
    let (incoming, others) = match Incoming::of(cache, pod) {
        Ok(evaluated) => evaluated,
        Err((plugin, reason)) => {
            error.reject_all(plugin, reason);
            error.verdict = post_filter(cache, pod, None, &error);
            return Err(error);
        }
    };
    if incoming.named.is_some() {
        error.reject_unnamed();
    }
    let nominated = nominated_node(pod);
    let mut passing: Vec<(&NodeInfo, Placement)> = Vec::new();
    let named = |name: &str| incoming.named.as_ref().is_none_or(|named| named.contains(name));
    for (name, info) in cache.nodes.iter().filter(|(name, info)| info.node.is_some() && named(name)) {
        match fits(cache, &incoming, &others, info) {
            Err(rejection) => error.reject(name, rejection),
            Ok(volumes) => {
                let placement = Placement { node: name.clone(), volumes };
                if nominated == Some(name) {
                    return Ok(placement);
                }
                passing.push((info, placement));
            }
        }
    }
    let best = scores::best(cache, &incoming, passing.iter().map(|(info, _)| *info));
    if let Some(best) = best {
        return Ok(passing.swap_remove(best).1);
    }
    error.verdict = post_filter(cache, pod, Some((&incoming, &others)), &error);
    Err(error)
}
