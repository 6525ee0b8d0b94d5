//! Volumes that the pods on each node need (`DesiredStateOfWorld` upstream).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;

use super::volume::{Counts, VolumeOnNode, VolumeSpec};

/// Volume that a node needs.
#[derive(Clone, Debug)]
pub struct VolumeToAttach {
    /// Its spec.
    pub spec: Arc<VolumeSpec>,
    /// Pods that need it, by uid.
    pub pods: BTreeMap<String, Arc<ObjectReference>>,
    /// True if the multi-attach event was sent; it is sent once per volume and node.
    pub multi_attach_reported: bool,
}

/// Node → volume → pods. Holds only nodes that this controller manages.
#[derive(Clone, Debug, Default)]
pub struct DesiredStateOfWorld {
    nodes: BTreeMap<String, BTreeMap<String, VolumeToAttach>>,
    touched: Vec<VolumeOnNode>,
    counts: Counts,
}

impl DesiredStateOfWorld {
    /// Starts to manage a node.
    pub fn add_node(&mut self, node: &str) {
        if !self.nodes.contains_key(node) {
            self.nodes.insert(node.to_owned(), BTreeMap::new());
        }
    }

    /// Stops managing a node. Returns false, without an effect, while pods on it need volumes.
    pub fn delete_node(&mut self, node: &str) -> bool {
        match self.nodes.get(node) {
            Some(volumes) if !volumes.is_empty() => false,
            _ => {
                self.nodes.remove(node);
                true
            }
        }
    }

    /// Returns true if the node is managed.
    pub fn has_node(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Records that a pod on a managed node needs a volume. Returns true if that is new.
    pub fn add_pod(&mut self, uid: &str, pod: &Arc<ObjectReference>, spec: &Arc<VolumeSpec>, node: &str) -> bool {
        let Some(volumes) = self.nodes.get_mut(node) else { return false };
        let name = spec.unique_name();
        if !volumes.contains_key(&name) {
            self.touched.push((name.clone(), node.to_owned()));
            self.counts.added(&name);
        }
        let volume = volumes.entry(name).or_insert_with(|| VolumeToAttach {
            spec: spec.clone(),
            pods: BTreeMap::new(),
            multi_attach_reported: false,
        });
        volume.pods.insert(uid.to_owned(), pod.clone()).is_none()
    }

    /// Removes a pod's need for a volume. Returns true if it was known.
    pub fn delete_pod(&mut self, uid: &str, volume: &str, node: &str) -> bool {
        let Some(volumes) = self.nodes.get_mut(node) else { return false };
        let Some(entry) = volumes.get_mut(volume) else { return false };
        let removed = entry.pods.remove(uid).is_some();
        if entry.pods.is_empty() {
            volumes.remove(volume);
            self.counts.removed(volume);
            self.touched.push((volume.to_owned(), node.to_owned()));
        }
        removed
    }

    /// Returns the number of needed attachments of each driver.
    pub fn counts(&self) -> &BTreeMap<String, u64> {
        self.counts.of()
    }

    /// Takes the volumes whose need on a node started or ended since the last call.
    pub fn take_touched(&mut self) -> Vec<VolumeOnNode> {
        std::mem::take(&mut self.touched)
    }

    /// Returns the node's entry of the volume.
    pub fn get(&self, volume: &str, node: &str) -> Option<&VolumeToAttach> {
        self.nodes.get(node)?.get(volume)
    }

    /// Returns true if the node needs the volume.
    pub fn has_volume(&self, volume: &str, node: &str) -> bool {
        self.get(volume, node).is_some()
    }

    /// Returns the pods that need the volume on any of the nodes.
    pub fn pods_on(&self, volume: &str, nodes: &[String]) -> Vec<Arc<ObjectReference>> {
        nodes.iter().filter_map(|node| self.get(volume, node)).flat_map(|entry| entry.pods.values().cloned()).collect()
    }

    /// Iterates over all (node, volume, entry), ordered by node and volume.
    pub fn volumes(&self) -> impl Iterator<Item = (&str, &str, &VolumeToAttach)> {
        self.nodes
            .iter()
            .flat_map(|(node, volumes)| volumes.iter().map(move |(name, entry)| (node.as_str(), name.as_str(), entry)))
    }

    /// Marks the multi-attach event as sent.
    pub fn set_multi_attach_reported(&mut self, volume: &str, node: &str) {
        if let Some(entry) = self.nodes.get_mut(node).and_then(|volumes| volumes.get_mut(volume)) {
            entry.multi_attach_reported = true;
        }
    }
}
