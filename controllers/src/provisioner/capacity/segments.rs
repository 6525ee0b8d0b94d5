//! Topology segments of a driver's nodes (upstream `pkg/capacity/topology/nodes.go`).

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;

use super::super::topology::{Segment, segment};
use crate::binder::selectors::node_labels;
use crate::kube::{Delta, Kind};

/// Returns the distinct segments of the nodes on which the driver runs: the values of the driver's topology keys. A
/// driver without keys has one empty segment. A node that lacks the label of a key is skipped until it has it.
pub fn segments(
    driver: &str,
    csi_nodes: &[Arc<CSINode>],
    node: impl Fn(&str) -> Option<Arc<Node>>,
) -> BTreeSet<Segment> {
    let of = |csi_node: &Arc<CSINode>| {
        let keys = topology_keys(csi_node, driver)?;
        // A CSINode may outlive its Node.
        let node = node(csi_node.name())?;
        segment(node_labels(&node), keys)
    };
    csi_nodes.iter().filter_map(of).collect()
}

/// Returns true if the change of a Node can change the segments.
pub fn node_matters(delta: &Delta<Node>) -> bool {
    match delta {
        Delta::Applied { old: Some(old), new } => old.metadata.labels != new.metadata.labels,
        Delta::Applied { old: None, .. } | Delta::Deleted(_) => true,
    }
}

/// Returns true if the change of a CSINode can change the segments.
pub fn csi_node_matters(delta: &Delta<CSINode>, driver: &str) -> bool {
    match delta {
        Delta::Applied { old: Some(old), new } => topology_keys(old, driver) != topology_keys(new, driver),
        Delta::Applied { old: None, .. } | Delta::Deleted(_) => true,
    }
}

/// Returns the driver's keys on a node; None if it does not run there.
fn topology_keys<'a>(csi_node: &'a CSINode, driver: &str) -> Option<&'a [String]> {
    let driver = csi_node.spec.drivers.iter().find(|d| d.name == driver)?;
    Some(driver.topology_keys.as_deref().unwrap_or_default())
}
