//! Accessibility requirements of a volume (external-provisioner `pkg/controller/topology.go`).

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_proto::csi::{Topology, TopologyRequirement};
use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, TopologySelectorTerm, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::CSINode;

use crate::binder::selectors::node_labels;

/// Keys and values of one topology.
pub type Segment = BTreeMap<String, String>;

/// Inputs of the first CreateVolume of a claim, kept until it ends: retries use the same inputs, even if the node is
/// gone by then (`pvcNodeStore`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remembered {
    keys: Vec<String>,
    labels: Segment,
    requisite: Vec<Segment>,
    preferred: Vec<Segment>,
}

/// Inputs of the requirement.
pub struct Cluster<'a> {
    /// Returns a node by its name.
    pub node: &'a dyn Fn(&str) -> Option<Arc<Node>>,
    /// Returns a node's CSINode by its name.
    pub csi_node: &'a dyn Fn(&str) -> Option<Arc<CSINode>>,
    /// Returns all nodes, ordered by name.
    pub nodes: &'a dyn Fn() -> Vec<Arc<Node>>,
    /// Returns all CSINodes, ordered by name. Upstream shuffles them; the fixed order is equivalent and replays.
    pub csi_nodes: &'a dyn Fn() -> Vec<Arc<CSINode>>,
}

/// Reason why the requirement cannot be computed; the claim is retried.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum TopologyError {
    /// failed to get topology key from cache for PVC uid {0}:
    NoCsiNode(String),
    /// no topology key found for node {0}
    NoKeys(String),
    /// topology labels from selected node {0} does not match topology keys from CSINode {1}
    MissingLabels(String, String),
    /// selected node '{0:?}' topology '{1}' is not in allowed topologies: {2}
    NotAllowed(String, String, String),
    /// topologyKeys {0} were not found on any nodes
    NoNodes(String),
    /// no available topology found
    NoTopology,
    /// topology {0} from selected node {1:?} is not in requisite: {2}
    NotInRequisite(String, String, String),
}

/// Returns the accessibility requirement of a CreateVolume; None if there is no constraint.
///
/// Requisite: the selected node's segment if `strict`, else the class's allowed topologies, else those of all nodes
/// with the driver's topology keys. Preferred: requisite, rotated to start at the selected node's segment, or without a
/// node at a position derived from the claim's name.
///
/// # Errors
/// If the selected node has no topology yet, or none of the segments matches it.
pub fn requirement(
    driver: &str,
    claim: (&str, &str),
    allowed: &[TopologySelectorTerm],
    selected_node: Option<&str>,
    strict: bool,
    cluster: &Cluster<'_>,
    remembered: &mut Remembered,
) -> Result<Option<TopologyRequirement>, TopologyError> {
    let (claim_name, claim_uid) = claim;
    let mut selected = Segment::new();
    let mut keys = Vec::new();
    let mut requisite = Vec::new();
    if let Some(node) = selected_node {
        keys = match (cluster.csi_node)(node) {
            Some(csi_node) => {
                remembered.keys = topology_keys(&csi_node, driver);
                remembered.keys.clone()
            }
            None if remembered.keys.is_empty() => return Err(TopologyError::NoCsiNode(claim_uid.to_owned())),
            None => remembered.keys.clone(),
        };
        if keys.is_empty() {
            return Err(TopologyError::NoKeys(node.to_owned()));
        }
        if let Some(node) = (cluster.node)(node) {
            remembered.labels = node_labels(&node).clone();
        }
        selected = segment(&remembered.labels, &keys)
            .ok_or_else(|| TopologyError::MissingLabels("map[]".to_owned(), go_list(&keys)))?;
        if strict {
            let allowed = flatten(allowed);
            if !allowed.is_empty() && !allowed.iter().any(|term| subset(term, &selected)) {
                return Err(TopologyError::NotAllowed(node.to_owned(), go(&selected), go_terms(&allowed)));
            }
            requisite.push(selected.clone());
        }
    }
    if requisite.is_empty() {
        requisite = if allowed.is_empty() {
            if keys.is_empty() {
                keys = immediate_keys(driver, cluster, remembered);
            }
            aggregate(&keys, cluster, remembered)?
        } else {
            flatten(allowed)
        };
    }
    if requisite.is_empty() {
        return if allowed.is_empty() { Err(TopologyError::NoTopology) } else { Ok(None) };
    }
    requisite.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    requisite.dedup();
    let preferred = if selected_node.is_none() {
        let (hash, index) = name_hash(claim_name);
        let first = hash.wrapping_add(index) as usize % requisite.len();
        rotated(&requisite, first)
    } else if strict {
        requisite.clone()
    } else {
        if remembered.preferred.is_empty()
            && let Some(first) = requisite.iter().position(|term| subset(term, &selected))
        {
            remembered.preferred = rotated(&requisite, first);
        }
        remembered.preferred.clone()
    };
    if preferred.is_empty() {
        let node = selected_node.unwrap_or_default().to_owned();
        return Err(TopologyError::NotInRequisite(go(&selected), node, go_terms(&requisite)));
    }
    Ok(Some(TopologyRequirement { requisite: to_csi(requisite), preferred: to_csi(preferred) }))
}

/// Returns the node affinity of a volume that is accessible from these topologies (`GenerateVolumeNodeAffinity`).
pub fn node_affinity(accessible: &[Topology]) -> Option<VolumeNodeAffinity> {
    if accessible.is_empty() {
        return None;
    }
    let term = |topology: &Topology| NodeSelectorTerm {
        match_expressions: Some(
            topology
                .segments
                .iter()
                .map(|(key, value)| NodeSelectorRequirement {
                    key: key.clone(),
                    operator: "In".to_owned(),
                    values: Some(vec![value.clone()]),
                })
                .collect(),
        ),
        match_fields: None,
    };
    let terms = accessible.iter().filter(|t| !t.segments.is_empty()).map(term).collect();
    Some(VolumeNodeAffinity { required: Some(NodeSelector { node_selector_terms: terms }) })
}

fn topology_keys(csi_node: &CSINode, driver: &str) -> Vec<String> {
    let driver = csi_node.spec.drivers.iter().find(|d| d.name == driver);
    driver.and_then(|d| d.topology_keys.clone()).unwrap_or_default()
}

fn immediate_keys(driver: &str, cluster: &Cluster<'_>, remembered: &mut Remembered) -> Vec<String> {
    if remembered.keys.is_empty() {
        let keys = (cluster.csi_nodes)().into_iter().map(|node| topology_keys(&node, driver));
        remembered.keys = keys.into_iter().find(|keys| !keys.is_empty()).unwrap_or_default();
    }
    remembered.keys.clone()
}

/// Returns the segments of all nodes that have all keys.
fn aggregate(
    keys: &[String],
    cluster: &Cluster<'_>,
    remembered: &mut Remembered,
) -> Result<Vec<Segment>, TopologyError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    if remembered.requisite.is_empty() {
        let mut found: Vec<Segment> = Vec::new();
        for node in (cluster.nodes)() {
            let labels = node_labels(&node);
            // There are many nodes, but few zones.
            let known = |term: &Segment| subset(term, labels);
            if !found.iter().any(known) {
                found.extend(segment(labels, keys));
            }
        }
        if found.is_empty() {
            return Err(TopologyError::NoNodes(go_list(keys)));
        }
        remembered.requisite = found;
    }
    Ok(remembered.requisite.clone())
}

/// Returns the segment of a node with these labels; None if a label is missing.
pub(super) fn segment(labels: &Segment, keys: &[String]) -> Option<Segment> {
    keys.iter().map(|key| Some((key.clone(), labels.get(key)?.clone()))).collect()
}

fn subset(term: &Segment, of: &Segment) -> bool {
    term.iter().all(|(key, value)| of.get(key) == Some(value))
}

fn rotated(terms: &[Segment], first: usize) -> Vec<Segment> {
    terms.iter().cycle().skip(first).take(terms.len()).cloned().collect()
}

/// Flattens allowed topologies to a list of segments: distributes the OR of values over the AND of keys.
fn flatten(allowed: &[TopologySelectorTerm]) -> Vec<Segment> {
    let mut all = Vec::new();
    for term in allowed {
        let mut terms: Vec<Segment> = Vec::new();
        for expression in term.match_label_expressions.iter().flatten() {
            let base = if terms.is_empty() { vec![Segment::new()] } else { terms };
            terms = expression
                .values
                .iter()
                .flat_map(|value| {
                    base.iter().map(|term| {
                        let mut term = term.clone();
                        term.insert(expression.key.clone(), value.clone());
                        term
                    })
                })
                .collect();
        }
        all.extend(terms);
    }
    all
}

fn to_csi(terms: Vec<Segment>) -> Vec<Topology> {
    terms.into_iter().map(|segments| Topology { segments }).collect()
}

/// Returns hash and offset that spread the claims of a StatefulSet over the topologies
/// (`getPVCNameHashAndIndexOffset`).
///
/// For `data-db-2` they are the hash of `db` and 2. So all claims of one replica get the same topology, and replicas
/// rotate.
fn name_hash(claim: &str) -> (u32, u32) {
    let (mut text, mut index) = (claim, 0);
    if let Some((base, number)) = claim.rsplit_once('-')
        && let Ok(number) = number.parse::<u32>()
    {
        index = number;
        text = base.rsplit_once('-').map_or(base, |(_, set)| set);
    }
    // FNV-1, 32 bits.
    let hash = text.bytes().fold(2_166_136_261u32, |hash, b| hash.wrapping_mul(16_777_619) ^ u32::from(b));
    (hash, index)
}

/// Formats a segment like Go.
fn go(segment: &Segment) -> String {
    let parts: Vec<String> = segment.iter().map(|(key, value)| format!("{{{key} {value}}}")).collect();
    format!("[{}]", parts.join(" "))
}

fn go_terms(terms: &[Segment]) -> String {
    format!("[{}]", terms.iter().map(go).collect::<Vec<_>>().join(" "))
}

fn go_list(items: &[String]) -> String {
    format!("[{}]", items.join(" "))
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    const ZONE: &str = "topology.ebs.csi.aws.com/zone";

    struct Nodes(Vec<(&'static str, &'static str)>);

    impl Nodes {
        fn node(name: &str, zone: &str) -> Arc<Node> {
            Arc::new(
                substrate::json::from_value(json!({ "metadata": { "name": name, "labels": { ZONE: zone } } })).unwrap(),
            )
        }

        fn csi_node(name: &str) -> Arc<CSINode> {
            let driver = json!({ "name": "ebs.csi.aws.com", "nodeID": name, "topologyKeys": [ZONE] });
            Arc::new(
                substrate::json::from_value(json!({ "metadata": { "name": name }, "spec": { "drivers": [driver] } }))
                    .unwrap(),
            )
        }

        fn ask(
            &self,
            claim: &str,
            allowed: &[TopologySelectorTerm],
            node: Option<&str>,
            strict: bool,
            remembered: &mut Remembered,
        ) -> Result<Option<TopologyRequirement>, TopologyError> {
            let zone = |name: &str| self.0.iter().find(|n| n.0 == name);
            let cluster = Cluster {
                node: &|name| zone(name).map(|n| Self::node(n.0, n.1)),
                csi_node: &|name| zone(name).map(|n| Self::csi_node(n.0)),
                nodes: &|| self.0.iter().map(|n| Self::node(n.0, n.1)).collect(),
                csi_nodes: &|| self.0.iter().map(|n| Self::csi_node(n.0)).collect(),
            };
            requirement("ebs.csi.aws.com", (claim, "uid"), allowed, node, strict, &cluster, remembered)
        }
    }

    fn zones(topologies: &[Topology]) -> Vec<&str> {
        topologies.iter().map(|t| t.segments[ZONE].as_str()).collect()
    }

    fn cluster() -> Nodes {
        Nodes(vec![("n1", "a"), ("n2", "b"), ("n3", "c"), ("n4", "b")])
    }

    #[test]
    fn all_zones_are_requisite_and_the_selected_nodes_zone_comes_first() {
        let got = cluster().ask("data", &[], Some("n4"), false, &mut Remembered::default()).unwrap().unwrap();
        assert_eq!(zones(&got.requisite), ["a", "b", "c"]);
        assert_eq!(zones(&got.preferred), ["b", "c", "a"]);
    }

    #[test]
    fn strict_topology_names_only_the_selected_node() {
        let got = cluster().ask("data", &[], Some("n3"), true, &mut Remembered::default()).unwrap().unwrap();
        assert_eq!((zones(&got.requisite), zones(&got.preferred)), (vec!["c"], vec!["c"]));
    }

    #[test]
    fn allowed_topologies_replace_those_of_the_nodes() {
        let allowed: Vec<TopologySelectorTerm> =
            substrate::json::from_value(json!([{ "matchLabelExpressions": [{ "key": ZONE, "values": ["b", "a"] }] }]))
                .unwrap();
        let got = cluster().ask("data", &allowed, Some("n2"), false, &mut Remembered::default()).unwrap().unwrap();
        assert_eq!((zones(&got.requisite), zones(&got.preferred)), (vec!["a", "b"], vec!["b", "a"]));
        let error = cluster().ask("data", &allowed, Some("n3"), false, &mut Remembered::default()).unwrap_err();
        assert!(matches!(error, TopologyError::NotInRequisite(..)));
    }

    #[test]
    fn replicas_of_a_stateful_set_take_turns() {
        let first = |claim: &str| {
            let got = cluster().ask(claim, &[], None, false, &mut Remembered::default()).unwrap().unwrap();
            assert_eq!(zones(&got.requisite), ["a", "b", "c"]);
            zones(&got.preferred)[0].to_owned()
        };
        assert_ne!(first("data-db-0"), first("data-db-1"));
        assert_eq!(first("data-db-0"), first("data-db-3"));
        assert_eq!(first("data-db-1"), first("logs-db-1"), "both claims of one replica land together");
    }

    #[test]
    fn a_retry_asks_the_same_when_the_node_is_gone() {
        let mut remembered = Remembered::default();
        let before = cluster().ask("data", &[], Some("n4"), false, &mut remembered).unwrap();
        let after = Nodes(vec![("n1", "a")]).ask("data", &[], Some("n4"), false, &mut remembered).unwrap();
        assert_eq!(before, after);
        let unknown = Nodes(vec![("n1", "a")]).ask("data", &[], Some("n4"), false, &mut Remembered::default());
        assert_eq!(unknown, Err(TopologyError::NoCsiNode("uid".to_owned())));
    }

    #[test]
    fn a_class_without_topologies_distributes_or_over_and() {
        let allowed: Vec<TopologySelectorTerm> = substrate::json::from_value(json!([{ "matchLabelExpressions": [
            { "key": "zone", "values": ["1", "2"] },
            { "key": "rack", "values": ["x", "y"] },
        ] }]))
        .unwrap();
        let flat: Vec<String> = flatten(&allowed).iter().map(go).collect();
        let expected = ["[{rack x} {zone 1}]", "[{rack x} {zone 2}]", "[{rack y} {zone 1}]", "[{rack y} {zone 2}]"];
        assert_eq!(flat, expected);
    }

    #[test]
    fn the_hash_is_fnv_1() {
        assert_eq!(name_hash("a"), (0x050c_5d7e, 0));
        assert_eq!(name_hash("data-db-7").1, 7);
    }
}
