//! Events that may make a rejected pod fit (`EventsToRegister` and the queueing hints of each plugin).

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};

use super::fit_error::Plugin;
use super::inline_disks::{disks, taken};
use super::node_info::limits;
use super::node_ports::ports_free;
use super::resources::Resources;
use super::volume_binding::volume_limit;
use super::volume_filters::zones;
use super::{node_hints, pod_affinity, spread};
use crate::binder::object::{ClaimKey, pod_claims};
use crate::binder::quantity;
use crate::kube::Kind;

/// Event in the cluster.
#[derive(Clone, Copy, Debug)]
pub enum ClusterEvent<'a> {
    /// A node is new (no `old`) or changed.
    Node(Option<&'a Node>, &'a Node),
    /// A node was deleted.
    NodeGone(&'a Node),
    /// A pod with a node was deleted.
    AssignedPodGone(&'a Pod),
    /// A pod got a node (no `old`), or the labels of a pod with a node changed.
    AssignedPodChanged(Option<&'a Pod>, &'a Pod),
    /// A claim is new or changed.
    Claim(Option<&'a PersistentVolumeClaim>, &'a PersistentVolumeClaim),
    /// A volume is new or changed.
    Volume(Option<&'a PersistentVolume>, &'a PersistentVolume),
    /// A class is new or changed.
    Class(Option<&'a StorageClass>, &'a StorageClass),
    /// A CSINode is new or changed.
    CsiNode(Option<&'a CSINode>, &'a CSINode),
    /// A CSIDriver changed.
    Driver(&'a CSIDriver, &'a CSIDriver),
    /// A published capacity is new or changed.
    Capacity(Option<&'a CSIStorageCapacity>, &'a CSIStorageCapacity),
    /// A VolumeAttachment was deleted.
    AttachmentGone,
}

/// Returns true if the event may change the decision of one of the plugins that rejected the pod.
pub fn worth_retrying(event: ClusterEvent<'_>, pod: &Pod, plugins: &BTreeSet<Plugin>) -> bool {
    plugins.iter().any(|plugin| helps(event, pod, *plugin))
}

fn helps(event: ClusterEvent<'_>, pod: &Pod, plugin: Plugin) -> bool {
    use ClusterEvent as E;
    match (plugin, event) {
        (_, E::Node(None, new)) => node_hints::added(plugin, pod, new),
        (_, E::Node(Some(old), new)) => node_hints::changed(plugin, pod, old, new),
        (Plugin::PodTopologySpread, E::NodeGone(node)) => spread::helped_by_node(pod, node),
        (Plugin::NodeResourcesFit, E::AssignedPodGone(_)) => true,
        (Plugin::NodePorts, E::AssignedPodGone(gone)) => !ports_free(pod, [gone]),

        (Plugin::VolumeRestrictions, E::AssignedPodGone(gone)) => {
            let shares_disk = || taken(&disks(pod).collect::<Vec<_>>(), gone);
            let shares_claim = || pod_claims(gone).any(|(theirs, _)| pod_claims(pod).any(|(ours, _)| ours == theirs));
            gone.namespace() == pod.namespace() && (shares_disk() || shares_claim())
        }
        (Plugin::VolumeBinding | Plugin::VolumeZone, E::Claim(_, claim))
        | (Plugin::VolumeRestrictions | Plugin::NodeVolumeLimits, E::Claim(None, claim)) => {
            uses(pod, &ClaimKey::of(claim))
        }

        (Plugin::NodeVolumeLimits, E::AssignedPodGone(gone)) => pod_claims(gone).next().is_some(),
        (Plugin::NodeVolumeLimits, E::AttachmentGone) => true,
        (Plugin::NodeVolumeLimits, E::CsiNode(old, new)) => {
            let before = old.map(limits).unwrap_or_default();
            old.is_none() || limits(new).iter().any(|(driver, count)| *count > before.get(driver).copied().unwrap_or(0))
        }

        (Plugin::VolumeBinding, E::Volume(..)) | (Plugin::VolumeZone, E::Volume(None, _)) => true,
        (Plugin::VolumeZone, E::Volume(Some(old), new)) => zones(old) != zones(new),
        (Plugin::VolumeBinding, E::Class(old, new)) => {
            old.is_none_or(|old| old.allowed_topologies != new.allowed_topologies)
        }
        (Plugin::VolumeZone, E::Class(None, new)) => new.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
        (Plugin::VolumeBinding, E::CsiNode(None, _)) => true,
        (Plugin::VolumeBinding, E::Capacity(old, new)) => {
            let bytes = |capacity: &CSIStorageCapacity| volume_limit(capacity).map(quantity::value);
            old.is_none_or(|old| bytes(new) > bytes(old))
        }
        (Plugin::VolumeBinding, E::Driver(old, new)) => {
            old.spec.storage_capacity == Some(true) && new.spec.storage_capacity != Some(true)
        }
        (Plugin::PodTopologySpread, E::AssignedPodGone(gone)) => spread::helped_by(pod, None, gone),
        (Plugin::PodTopologySpread, E::AssignedPodChanged(old, new)) => spread::helped_by(pod, old, new),
        (Plugin::InterPodAffinity, E::AssignedPodGone(gone)) => pod_affinity::helped_without(pod, gone),
        (Plugin::InterPodAffinity, E::AssignedPodChanged(old, new)) => pod_affinity::helped_by(pod, old, new),
        _ => false,
    }
}

fn uses(pod: &Pod, claim: &ClaimKey) -> bool {
    pod.namespace() == claim.namespace && pod_claims(pod).any(|(name, _)| name == claim.name)
}

/// Returns true if a change of a pod without a node may make it fit: its labels, tolerations, gates or requests.
pub fn pod_may_fit_now(old: &Arc<Pod>, new: &Arc<Pod>) -> bool {
    let spec = |pod: &Arc<Pod>| {
        let spec = pod.spec.as_ref()?;
        Some((spec.tolerations.clone(), spec.scheduling_gates.clone(), spec.node_selector.clone()))
    };
    old.metadata.labels != new.metadata.labels
        || spec(old) != spec(new)
        || Resources::requested(old) != Resources::requested(new)
}
