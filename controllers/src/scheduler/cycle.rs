//! One scheduling cycle: filter all nodes, choose one (`schedule_one.go`, `schedulePod`).

use k8s_openapi::api::core::v1::Pod;

use super::cache::SchedulerCache;
use super::fit_error::{FitError, Plugin};
use super::resources::Resources;
use super::volume_binding::{self, PodVolumes};
use super::{node_filters, volume_filters};

/// Node for a pod, and the writes for its volumes.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The node.
    pub node: String,
    /// Volumes to bind and claims to provision.
    pub volumes: PodVolumes,
}

/// Finds a node for a pod: its nominated node, if that passes all filters (`evaluateNominatedNode`). Otherwise the
/// passing node with the fewest pods, ties by name.
///
/// # Errors
/// The reasons why there is none.
pub fn schedule(cache: &SchedulerCache, pod: &Pod) -> Result<Placement, FitError> {
    let nodes = cache.node_count();
    let never_preempts = pod.spec.as_ref().and_then(|s| s.preemption_policy.as_deref()) == Some("Never");
    if nodes == 0 {
        return Err(FitError::new(0, never_preempts));
    }
    let claims = volume_binding::pre_filter(cache, pod)
        .map_err(|reason| FitError::before_filters(nodes, Plugin::VolumeBinding, reason, never_preempts))?;
    let facts = volume_filters::pre_filter(cache, pod, &claims);
    let request = Resources::requested(pod);
    let mut error = FitError::new(nodes, never_preempts);
    let mut best: Option<(usize, Placement)> = None;
    let nominated = pod.status.as_ref().and_then(|s| s.nominated_node_name.as_deref());
    for (name, info) in &cache.nodes {
        let Some(node) = &info.node else { continue };
        let passed = node_filters::check(pod, &request, node, info)
            .and_then(|()| volume_filters::restrictions(&facts, info))
            .and_then(|()| volume_filters::limits(cache, &facts, info))
            .and_then(|()| volume_binding::filter(cache, &claims, info))
            .and_then(|volumes| volume_filters::zone(&facts, info).map(|()| volumes));
        match passed {
            Err(rejection) => error.reject(rejection),
            Ok(volumes) if nominated == Some(name) => return Ok(Placement { node: name.clone(), volumes }),
            // Nodes come in the order of their names, so the first with a count is the first by name.
            Ok(volumes) if best.as_ref().is_none_or(|(pods, _)| info.pods.len() < *pods) => {
                best = Some((info.pods.len(), Placement { node: name.clone(), volumes }));
            }
            Ok(_) => {}
        }
    }
    best.map(|(_, placement)| placement).ok_or(error)
}
