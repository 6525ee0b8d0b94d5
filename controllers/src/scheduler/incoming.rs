//! The pod that is being scheduled, and the filters of a node for it (`RunFilterPluginsWithNominatedPods`).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use super::cache::SchedulerCache;
use super::fit_error::{Plugin, Rejection};
use super::node_info::{NodeInfo, Placed, priority};
use super::resources::Resources;
use super::volume_binding::{self, PodClaims, PodVolumes};
use super::volume_filters::{self, PodVolumeFacts};
use super::{node_filters, pod_affinity, spread};
use crate::kube::Kind;

/// Pod without a node, with the results of PreFilter that other pods do not change.
#[derive(Clone, Debug)]
pub struct Incoming<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Its requests.
    pub request: Resources,
    /// The only nodes that are filtered; None for all.
    pub named: Option<BTreeSet<&'a str>>,
    /// Its claims.
    pub claims: PodClaims,
    /// Its volumes, for the filters of volumes.
    pub volumes: PodVolumeFacts,
}

/// Results of PreFilter about the pods of all nodes. A trial on one node changes its own copy.
#[derive(Clone, Debug)]
pub struct Others {
    /// Uses of the incoming pod's ReadWriteOncePod claims.
    pub once_pod_uses: i64,
    /// Similar pods by domain.
    spread: spread::Counts,
    /// Pods with which it wants to be, or not to be.
    affinity: pod_affinity::Counts,
}

impl<'a> Incoming<'a> {
    /// Evaluates a pod before any node (`RunPreFilterPlugins`).
    ///
    /// # Errors
    /// The plugin and its reason to reject all nodes.
    pub fn of(cache: &SchedulerCache, pod: &'a Pod) -> Result<(Self, Others), (Plugin, String)> {
        let skipped = cache.seeded_bugs.skips == Some(Plugin::NodeAffinity);
        let named = node_filters::named_nodes(pod).filter(|_| !skipped);
        if named.as_ref().is_some_and(BTreeSet::is_empty) {
            return Err((Plugin::NodeAffinity, "pod affinity terms conflict".to_owned()));
        }
        if let Some(name) = volume_binding::missing_claim(cache, pod) {
            return Err((Plugin::VolumeRestrictions, format!("persistentvolumeclaim {name:?} not found")));
        }
        let claims = volume_binding::pre_filter(cache, pod).map_err(|reason| (Plugin::VolumeBinding, reason))?;
        let volumes = volume_filters::pre_filter(cache, pod, &claims);
        let others = Others {
            once_pod_uses: volumes.once_pod_uses(cache),
            spread: spread::Counts::of(cache, pod),
            affinity: pod_affinity::Counts::of(cache, pod),
        };
        Ok((Self { pod, request: Resources::requested(pod), named, claims, volumes }, others))
    }
}

impl Others {
    /// Counts a pod that is added to a node (`AddPod`).
    pub fn add(&mut self, incoming: &Incoming<'_>, placed: &Placed, info: &NodeInfo) {
        self.change(incoming, placed, info, 1);
    }

    /// Counts a pod that is removed from a node (`RemovePod`).
    pub fn remove(&mut self, incoming: &Incoming<'_>, placed: &Placed, info: &NodeInfo) {
        self.change(incoming, placed, info, -1);
    }

    fn change(&mut self, incoming: &Incoming<'_>, placed: &Placed, info: &NodeInfo, by: i64) {
        self.once_pod_uses += by * incoming.volumes.once_pod_uses_of(placed);
        if let Some(node) = &info.node {
            self.spread.change(incoming.pod, &placed.pod, node, by);
            self.affinity.change(incoming.pod, &placed.pod, node, by);
        }
    }
}

/// Runs all filters of a node in upstream's order, and returns the writes for the pod's volumes.
///
/// # Errors
/// The first rejection.
fn filters(
    cache: &SchedulerCache,
    incoming: &Incoming<'_>,
    others: &Others,
    info: &NodeInfo,
) -> Result<PodVolumes, Rejection> {
    let Some(node) = &info.node else { return Ok(PodVolumes::default()) };
    node_filters::check(incoming.pod, &incoming.request, node, info, &cache.seeded_bugs)?;
    volume_filters::restrictions(&incoming.volumes, others, info)?;
    volume_filters::limits(cache, &incoming.volumes, info)?;
    let volumes = volume_binding::filter(cache, &incoming.claims, info)?;
    volume_filters::zone(&incoming.volumes, info)?;
    spread::check(&others.spread, incoming.pod, node)?;
    pod_affinity::check(&others.affinity, incoming.pod, node)?;
    Ok(volumes)
}

/// Runs the filters of a node: first with the pods of at least the same priority that wait for it, then without them,
/// since these may go elsewhere.
///
/// # Errors
/// The rejection.
pub fn fits(
    cache: &SchedulerCache,
    incoming: &Incoming<'_>,
    others: &Others,
    info: &NodeInfo,
) -> Result<PodVolumes, Rejection> {
    let name = info.node.as_ref().map_or("", |node| node.name());
    let counts = |pod: &&std::sync::Arc<Pod>| {
        priority(pod) >= priority(incoming.pod)
            && pod.uid() != incoming.pod.uid()
            && !cache.seeded_bugs.ignores_nominations
    };
    let mut nominated = cache.nominations.on(name).filter(counts).peekable();
    if nominated.peek().is_some() {
        let (mut others, mut info) = (others.clone(), info.clone());
        for pod in nominated {
            let placed = Placed::of(pod.clone());
            others.add(incoming, &placed, &info);
            info.add(placed);
        }
        filters(cache, incoming, &others, &info)?;
    }
    filters(cache, incoming, others, info)
}
