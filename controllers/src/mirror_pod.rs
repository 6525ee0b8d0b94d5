//! Pods that stand for a process of this program, as kubelet's mirror pods stand for static ones: an object to look at,
//! which nobody starts, places or removes but whoever made it.

use k8s_openapi::api::core::v1::Pod;

use crate::kube::Kind;

/// The annotation of mirror pods: kubectl leaves them where they are when it drains a node.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// The annotation that says where a pod comes from that is no object of the API first.
pub const SOURCE: &str = "kubernetes.io/config.source";
/// What both say of a pod that stands for a process of this program.
pub const MOORING: &str = "mooring";

/// Whether `pod` stands for a process of this program. Loops do not count it.
pub fn is_stand_in(pod: &Pod) -> bool {
    pod.annotation(MIRROR).is_some() && pod.annotation(SOURCE) == Some(MOORING)
}
