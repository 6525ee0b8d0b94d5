//! Forms of registrations: a node that is Ready has a CSINode of its own, each driver in it has the id of the node's
//! instance, the annotation of the node names the same ids, and the node has the labels of the driver's topology; a node
//! allocates no more than it has; an attachment names the id of its node.
//!
//! Not compared: the set of drivers, which a node may lack; values of labels, which users may set; nodes without the
//! providerID of an instance, which are not Mooring's.

use fake_apiserver::fields::quantity::nanos;
use substrate::json::Value;

use super::workloads::has_condition;
use super::{Comparison, is_there, list, name, text};

/// Annotation with the id of the node by driver, as JSON.
const IDS: &str = "csi.volume.kubernetes.io/nodeid";

impl Comparison<'_> {
    /// Compares each node with its CSINode, and each attachment with that of its node.
    pub(super) fn registrations(&mut self) {
        if !self.has_all(&["kubelet"]) {
            return;
        }
        let stored = &self.machines.stored;
        let is_ours = |node: &Value| text(&node["spec"]["providerID"]).starts_with("aws:");
        let is_ready = |node: &Value| is_there(node) && has_condition(node, "Ready", "True");
        for node in stored.nodes.iter().filter(|node| is_ours(node) && is_ready(node)) {
            let differs = self.form_of_registration(node);
            self.judge(None, differs.map(|differs| format!("node/{} {differs}", name(node))));
        }
        let is_attached = |attachment: &Value| is_there(attachment) && attachment["status"]["attached"] == true;
        for attachment in stored.attachments.iter().filter(|attachment| is_attached(attachment)) {
            let spec = &attachment["spec"];
            let csi_node = stored.csi_nodes.iter().find(|of| name(of) == text(&spec["nodeName"]));
            let drivers = csi_node.map_or(&[][..], |of| list(&of["spec"]["drivers"]));
            let Some(driver) = drivers.iter().find(|of| of["name"] == spec["attacher"]) else { continue };
            let id = text(&attachment["metadata"]["annotations"]["csi.alpha.kubernetes.io/node-id"]);
            let wanted = text(&driver["nodeID"]);
            let differs = (id != wanted && self.has_all(&["csi-attacher"])).then(|| {
                let of = name(attachment);
                format!("volumeattachment/{of} has the node id `{id}`, and its CSINode has {wanted}")
            });
            self.judge(None, differs);
        }
    }

    fn form_of_registration(&self, node: &Value) -> Option<String> {
        let status = &node["status"];
        for (resource, has) in status["capacity"].as_object().into_iter().flatten() {
            let allocates = &status["allocatable"][resource.as_str()];
            if let Some((has, allocates)) = nanos(text(has)).zip(nanos(text(allocates)))
                && allocates > has
            {
                return Some(format!("allocates more {resource} than it has"));
            }
        }
        let metadata = &node["metadata"];
        let of_name = self.machines.stored.csi_nodes.iter().find(|of| name(of) == name(node));
        let Some(csi_node) = of_name else { return Some("has no CSINode".to_owned()) };
        let is_owner = |owner: &Value| owner["uid"] == metadata["uid"];
        if !list(&csi_node["metadata"]["ownerReferences"]).iter().any(is_owner) {
            return Some("does not own the CSINode of its name".to_owned());
        }
        let drivers = list(&csi_node["spec"]["drivers"]);
        let ids: Value = serde_json::from_str(text(&metadata["annotations"][IDS])).unwrap_or_default();
        let instance = text(&node["spec"]["providerID"]).rsplit('/').next().unwrap_or_default();
        for driver in drivers {
            let (driver_name, id) = (name_of(driver), text(&driver["nodeID"]));
            if id != instance {
                return Some(format!("is {instance}, and its CSINode has the id {id} for {driver_name}"));
            }
            if text(&ids[driver_name]) != id {
                return Some(format!("has the driver {driver_name}, and its annotation {IDS} lacks the id {id}"));
            }
            let mut keys = list(&driver["topologyKeys"]).iter().map(text);
            if let Some(key) = keys.find(|key| metadata["labels"][*key].is_null()) {
                return Some(format!("has the driver {driver_name}, and lacks its label {key}"));
            }
        }
        let mut named = ids.as_object().into_iter().flatten().map(|(driver, _)| driver.as_str());
        let left = named.find(|of| !drivers.iter().any(|driver| name_of(driver) == *of))?;
        Some(format!("has no driver {left}, and its annotation {IDS} names it"))
    }
}

fn name_of(driver: &Value) -> &str {
    text(&driver["name"])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value as Json, json};

    use super::super::tests::found_by;
    use super::IDS;

    fn found(left_out: &[&str], change: impl FnOnce(&mut Json)) -> Vec<String> {
        let arrange = |cluster: &mut Json| {
            cluster["nodes"] = json!([{
                "metadata": {
                    "name": "node-a", "uid": "n", "annotations": { IDS: r#"{"ebs.csi.aws.com":"i-1"}"# },
                    "labels": { "topology.ebs.csi.aws.com/zone": "us-east-1a" },
                },
                "spec": { "providerID": "aws:///us-east-1a/i-1" },
                "status": {
                    "conditions": [{ "type": "Ready", "status": "True" }],
                    "capacity": { "cpu": "2" }, "allocatable": { "cpu": "1900m" },
                },
            }]);
            cluster["csi_nodes"] = json!([{
                "metadata": { "name": "node-a", "ownerReferences": [{ "uid": "n" }] },
                "spec": { "drivers": [{
                    "name": "ebs.csi.aws.com", "nodeID": "i-1", "topologyKeys": ["topology.ebs.csi.aws.com/zone"],
                }] },
            }]);
            change(cluster);
        };
        found_by(left_out, arrange, |comparison| comparison.registrations())
    }

    #[rstest]
    #[case("/csi_nodes", json!([]), "node/node-a has no CSINode")]
    #[case("/csi_nodes/0/metadata/ownerReferences/0/uid", json!("former"),
        "node/node-a does not own the CSINode of its name")]
    #[case("/nodes/0/spec/providerID", json!("aws:///us-east-1a/i-2"),
        "node/node-a is i-2, and its CSINode has the id i-1 for ebs.csi.aws.com")]
    #[case("/nodes/0/metadata/annotations", json!({}),
        "node/node-a has the driver ebs.csi.aws.com, and its annotation csi.volume.kubernetes.io/nodeid lacks the id i-1")]
    #[case("/nodes/0/metadata/labels", json!({}),
        "node/node-a has the driver ebs.csi.aws.com, and lacks its label topology.ebs.csi.aws.com/zone")]
    #[case("/csi_nodes/0/spec/drivers", json!([]),
        "node/node-a has no driver ebs.csi.aws.com, and its annotation csi.volume.kubernetes.io/nodeid names it")]
    #[case("/nodes/0/status/allocatable/cpu", json!("3"), "node/node-a allocates more cpu than it has")]
    fn a_node_and_its_csi_node_agree(#[case] at: &str, #[case] value: Json, #[case] message: &str) {
        assert_eq!(found(&[], |_| ()), Vec::<String>::new());
        let change = |cluster: &mut Json| *cluster.pointer_mut(at).unwrap() = value.clone();
        assert_eq!(found(&[], change), [message]);
        assert_eq!(found(&["kubelet"], change), Vec::<String>::new());
    }

    #[test]
    fn an_attachment_names_the_id_of_its_node() {
        let former = |cluster: &mut Json| {
            cluster["attachments"][0]["metadata"]["annotations"]["csi.alpha.kubernetes.io/node-id"] = json!("i-9");
        };
        let message = ["volumeattachment/csi-1 has the node id `i-9`, and its CSINode has i-1"];
        assert_eq!(found(&[], former), message);
        assert_eq!(found(&["csi-attacher"], former), Vec::<String>::new());
    }
}
