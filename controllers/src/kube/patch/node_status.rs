//! The patch of a node's status (`PatchNodeStatus` of `component-helpers/node/util`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeStatus};
use substrate::json::{Value, json};

use super::Patch;
use crate::kube::api::Api;
use crate::kube::error::ApiError;

impl Patch {
    /// Builds the strategic merge patch of status and metadata from `old` to `new`.
    ///
    /// Go's tags merge addresses by type, although a node has several of one type. So they are replaced as a whole.
    ///
    /// # Errors
    /// If the object cannot be encoded as JSON.
    pub fn node_status(old: &Node, new: &Node) -> Result<Self, ApiError> {
        let addresses = |node: &Node| node.status.as_ref().and_then(|s| s.addresses.clone()).unwrap_or_default();
        let (before, after) = (addresses(old), addresses(new));
        let by_hand = !before.is_empty() && before != after;
        let mut diff = Node { metadata: new.metadata.clone(), spec: old.spec.clone(), status: new.status.clone() };
        if by_hand {
            diff.status.get_or_insert_with(NodeStatus::default).addresses = Some(before);
        }
        let mut patch = Self::strategic(old, &diff)?;
        if by_hand {
            let all = after.iter().map(|a| json!({ "address": a.address, "type": a.type_ }));
            let all: Vec<Value> = all.chain([json!({ "$patch": "replace" })]).collect();
            patch.document["status"]["addresses"] = all.into();
        }
        Ok(patch)
    }
}

impl Api<Node> {
    /// Patches a node's status from `old` to `new`. As upstream, sends the patch even if it is empty.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn patch_node_status(&self, old: &Node, new: &Node) -> Result<Arc<Node>, ApiError> {
        let patch = Patch::node_status(old, new)?;
        self.patch_status(old.metadata.name.as_deref().unwrap_or_default(), &patch).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(addresses: Value, attached: Value) -> Node {
        let status = json!({ "addresses": addresses, "volumesAttached": attached });
        substrate::json::from_value(json!({ "metadata": { "name": "n" }, "status": status })).expect("a node")
    }

    #[test]
    fn addresses_are_replaced_as_one() {
        let address = |kind: &str, address: &str| json!({ "type": kind, "address": address });
        let first = [address("InternalIP", "10.0.0.1"), address("Hostname", "a")];
        let old = node(json!(first), json!(null));
        let second = [address("InternalIP", "10.0.0.1"), address("InternalIP", "10.0.0.2"), address("Hostname", "a")];
        let patch = Patch::node_status(&old, &node(json!(second), json!(null))).expect("a patch");
        let mut expected = second.to_vec();
        expected.push(json!({ "$patch": "replace" }));
        assert_eq!(patch.value(), &json!({ "status": { "addresses": expected } }));
        assert!(Patch::node_status(&old, &old).expect("a patch").is_empty());
    }

    #[test]
    fn the_spec_is_not_in_it() {
        let old = node(json!(null), json!(null));
        let mut new = node(json!(null), json!([{ "name": "v", "devicePath": "" }]));
        new.spec.get_or_insert_default().unschedulable = Some(true);
        let patch = Patch::node_status(&old, &new).expect("a patch");
        assert_eq!(patch.value(), &json!({ "status": { "volumesAttached": [{ "name": "v", "devicePath": "" }] } }));
    }
}
