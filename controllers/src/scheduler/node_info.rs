//! Node with its pods, attachments and volume limits (`framework.NodeInfo`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::CSINode;

use super::resources::Resources;
use crate::binder::object::{ClaimKey, pod_claims};
use crate::kube::Kind;

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl PodKey {
    /// Returns the key of a pod.
    pub fn of(pod: &Pod) -> Self {
        Self { namespace: pod.namespace().to_owned(), name: pod.name().to_owned() }
    }
}

/// Returns the pod's priority (`corev1helpers.PodPriority`).
pub fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|s| s.priority).unwrap_or(0)
}

/// Pod on a node, actual, assumed or nominated.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its resource requests.
    pub request: Resources,
    /// Its requests for scores, with defaults for containers that request nothing.
    pub weight: Resources,
    /// Claims that it uses.
    pub claims: Vec<ClaimKey>,
}

impl Placed {
    /// Creates an entry for a pod.
    pub fn of(pod: Arc<Pod>) -> Self {
        let claims = pod_claims(&pod).map(|(name, _)| ClaimKey::new(pod.namespace(), &name)).collect();
        Self { request: Resources::requested(&pod), weight: Resources::weighed(&pod), claims, pod }
    }
}

/// Node with its pods.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// The node; None while only its pods are known.
    pub node: Option<Arc<Node>>,
    /// Allocatable resources.
    pub allocatable: Resources,
    /// Requests of its pods.
    pub used: Resources,
    /// Requests of its pods for scores.
    pub weight: Resources,
    /// Its pods.
    pub pods: BTreeMap<PodKey, Placed>,
    /// Uses of claims by its pods, with repetitions; an upper bound of their volumes.
    pub claim_uses: usize,
    /// Attachments to it: VolumeAttachment name → volume name.
    pub attachments: BTreeMap<String, String>,
    /// Volume limits: CSI driver → count; no entry means no limit.
    pub limits: BTreeMap<String, i64>,
    /// CSI drivers of its CSINode; None without a CSINode.
    pub drivers: Option<BTreeSet<String>>,
}

impl NodeInfo {
    /// Adds a pod.
    pub fn add(&mut self, placed: Placed) {
        self.used.add(&placed.request);
        self.weight.add(&placed.weight);
        self.claim_uses += placed.claims.len();
        self.pods.insert(PodKey::of(&placed.pod), placed);
    }

    /// Removes a pod, and returns it.
    pub fn remove(&mut self, key: &PodKey) -> Option<Placed> {
        let placed = self.pods.remove(key)?;
        self.used.remove(&placed.request);
        self.weight.remove(&placed.weight);
        self.claim_uses -= placed.claims.len();
        Some(placed)
    }

    /// Stores the drivers and limits of its CSINode.
    pub fn store_csi_node(&mut self, csi_node: &CSINode) {
        self.drivers = Some(csi_node.spec.drivers.iter().map(|driver| driver.name.clone()).collect());
        self.limits = limits(csi_node);
    }

    /// Returns true if it has no Node, no CSINode, no pods and no attachments.
    pub fn is_void(&self) -> bool {
        self.node.is_none() && self.pods.is_empty() && self.attachments.is_empty() && self.drivers.is_none()
    }
}

/// Returns the limits of a CSINode.
pub fn limits(csi_node: &CSINode) -> BTreeMap<String, i64> {
    let count = |driver: &k8s_openapi::api::storage::v1::CSINodeDriver| {
        Some((driver.name.clone(), i64::from(driver.allocatable.as_ref()?.count?)))
    };
    csi_node.spec.drivers.iter().filter_map(count).collect()
}
