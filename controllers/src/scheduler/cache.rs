//! State of the scheduler: nodes with their pods, and claims and volumes with the assumptions about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use substrate::json::Text;

use super::assume::AssumeCache;
use super::fit_error::Plugin;
use super::node_info::{NodeInfo, Placed, PodKey};
use super::nominations::Nominations;
use super::pod_affinity::Namespaces;
use super::resources::Resources;
use super::spread::Owners;
use crate::binder::object::{ClaimKey, claim_class, volume_class, volume_name, volume_spec};
use crate::kube::Kind;

/// Volume as limits count it: CSI driver and handle, or the claim that will get one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountedVolume {
    /// The CSI driver.
    pub driver: Text,
    /// The handle, or `namespace/name` of the claim.
    pub id: Text,
}

/// Seeded bugs of the scheduler.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeededBugs {
    /// Ignores the node affinity of volumes.
    pub ignores_zones: bool,
    /// Ignores NodeVolumeLimits.
    pub ignores_limits: bool,
    /// Accepts one volume more than NodeVolumeLimits allows.
    pub one_too_many: bool,
    /// Accepts a second pod with a ReadWriteOncePod claim.
    pub ignores_once_pod: bool,
    /// Accepts a pod whose ephemeral volume has the claim of another pod.
    pub takes_foreign_claims: bool,
    /// Preempts pods of the same priority.
    pub preempts_equals: bool,
    /// Preempts for pods with the policy Never.
    pub ignores_preemption_policy: bool,
    /// Preempts all pods of lower priority on the node, not only as many as needed.
    pub reprieves_no_pod: bool,
    /// Gives the room of nominated pods to other pods.
    pub ignores_nominations: bool,
    /// Counts no volume that is attached to a node without a pod there.
    pub ignores_attachments: bool,
    /// Ignores published capacities.
    pub ignores_capacity: bool,
    /// Counts a volume once for each of its pods.
    pub counts_each_use: bool,
    /// Ignores taints with the effect NoSchedule.
    pub ignores_no_schedule: bool,
    /// Keeps a node without a limit that had none once.
    pub keeps_missing_limits: bool,
    /// Counts no claim that has no volume yet.
    pub counts_bound_only: bool,
    /// Spares first the pods without a disruption budget.
    pub spares_unprotected: bool,
    /// Ignores that a claim has lost its selected node.
    pub ignores_resets: bool,
    /// Keeps the assumed volumes and claims after a failed binding.
    pub keeps_assumed: bool,
    /// Ignores the anti-affinity of the pods that are on a node.
    pub ignores_terms_of_others: bool,
    /// Counts pods of all namespaces for terms without a namespace.
    pub mixes_namespaces: bool,
    /// Filter of the node that is skipped.
    pub skips: Option<Plugin>,
}

/// Caches of the scheduler.
#[derive(Debug, Default)]
pub struct SchedulerCache {
    /// Seeded bugs.
    pub seeded_bugs: SeededBugs,
    /// Nodes by name.
    pub nodes: BTreeMap<String, NodeInfo>,
    /// Claims.
    pub claims: AssumeCache<ClaimKey, PersistentVolumeClaim>,
    /// Volumes by name.
    pub volumes: AssumeCache<String, PersistentVolume>,
    /// Classes by name.
    pub classes: BTreeMap<String, Arc<StorageClass>>,
    /// CSI drivers by name.
    pub drivers: BTreeMap<String, Arc<CSIDriver>>,
    /// Published capacities, by namespace and name.
    pub capacities: BTreeMap<String, Arc<CSIStorageCapacity>>,
    /// Disruption budgets, by namespace and name.
    pub budgets: BTreeMap<(String, String), Arc<PodDisruptionBudget>>,
    /// Labels of namespaces.
    pub namespaces: Arc<Namespaces>,
    /// Pods that wait for room on a node.
    pub nominations: Nominations,
    /// Services and controllers of pods.
    pub owners: Owners,
    /// Node of each assigned pod.
    places: BTreeMap<PodKey, String>,
    /// Number of assigned pods that use a claim.
    users: BTreeMap<ClaimKey, usize>,
    /// Node of each attachment.
    attached: BTreeMap<String, String>,
    /// Names of the volumes of each class without a claimRef.
    free: BTreeMap<String, BTreeSet<String>>,
    /// Names of the volumes with a claimRef, by claim.
    reserved: BTreeMap<ClaimKey, BTreeSet<String>>,
    /// Number of existing nodes.
    count: usize,
}

impl SchedulerCache {
    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.count
    }

    /// Stores a node.
    pub fn store_node(&mut self, node: Arc<Node>) {
        let info = self.nodes.entry(node.name().to_owned()).or_default();
        self.count += usize::from(info.node.is_none());
        info.allocatable = Resources::allocatable(&node);
        info.node = Some(node);
    }

    /// Removes a deleted node; its pods stay until they are deleted too.
    pub fn remove_node(&mut self, name: &str) {
        if let Some(info) = self.nodes.get_mut(name)
            && info.node.take().is_some()
        {
            self.count -= 1;
        }
        self.tidy(name);
    }

    fn tidy(&mut self, node: &str) {
        if self.nodes.get(node).is_some_and(NodeInfo::is_void) {
            self.nodes.remove(node);
        }
    }

    /// Assigns a pod to a node, actually or by assumption.
    pub fn place(&mut self, pod: Arc<Pod>, node: &str) {
        let key = PodKey::of(&pod);
        self.unplace(&key);
        let placed = Placed::of(pod);
        for claim in &placed.claims {
            *self.users.entry(claim.clone()).or_default() += 1;
        }
        self.nodes.entry(node.to_owned()).or_default().add(placed);
        self.places.insert(key, node.to_owned());
    }

    /// Removes a pod from its node.
    pub fn unplace(&mut self, key: &PodKey) {
        let Some(node) = self.places.remove(key) else { return };
        let Some(placed) = self.nodes.get_mut(&node).and_then(|info| info.remove(key)) else { return };
        for claim in placed.claims {
            if let Some(users) = self.users.get_mut(&claim) {
                *users -= 1;
                if *users == 0 {
                    self.users.remove(&claim);
                }
            }
        }
        self.tidy(&node);
    }

    /// Returns an assigned pod, as last stored.
    pub fn placed(&self, key: &PodKey) -> Option<&Placed> {
        self.nodes.get(self.places.get(key)?)?.pods.get(key)
    }

    /// Returns the actual or assumed node of a pod.
    pub fn place_of(&self, key: &PodKey) -> Option<&str> {
        self.places.get(key).map(String::as_str)
    }

    /// Returns true if an assigned pod uses the claim.
    pub fn is_used(&self, claim: &ClaimKey) -> bool {
        self.users.contains_key(claim)
    }

    /// Stores a volume.
    pub fn store_volume(&mut self, volume: Arc<PersistentVolume>) {
        let name = volume.name().to_owned();
        self.forget_place_of_volume(&name);
        let names = match ClaimKey::of_volume(&volume) {
            Some(claim) => self.reserved.entry(claim).or_default(),
            None => self.free.entry(volume_class(&volume).to_owned()).or_default(),
        };
        names.insert(name.clone());
        self.volumes.store(name, volume);
    }

    /// Removes a deleted volume.
    pub fn remove_volume(&mut self, name: &str) {
        self.forget_place_of_volume(name);
        self.volumes.remove(&name.to_owned());
    }

    fn forget_place_of_volume(&mut self, name: &str) {
        let Some(old) = self.volumes.api(&name.to_owned()) else { return };
        match ClaimKey::of_volume(old) {
            Some(claim) => take_out(&mut self.reserved, &claim, name),
            None => take_out(&mut self.free, &volume_class(old).to_owned(), name),
        }
    }

    /// Returns the volumes of the claim's class that may serve it, by name: those without a claimRef, or with this
    /// claim's. Upstream lists the whole class (`pvCache.ListPVs`), most of which belongs to other claims.
    pub fn volumes_for(&self, claim: &PersistentVolumeClaim) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        let class = claim_class(claim);
        let free = self.free.get(class).into_iter().flatten();
        let reserved = self.reserved.get(&ClaimKey::of(claim)).into_iter().flatten();
        let mut names: Vec<&String> = free.chain(reserved).collect();
        names.sort();
        names.into_iter().filter_map(|name| self.volumes.get(name)).filter(move |volume| volume_class(volume) == class)
    }

    /// Stores a node's CSINode.
    pub fn store_csi_node(&mut self, csi_node: &CSINode) {
        let info = self.nodes.entry(csi_node.name().to_owned()).or_default();
        let had_no_limit = info.drivers.is_some() && info.limits.is_empty();
        info.store_csi_node(csi_node);
        if had_no_limit && self.seeded_bugs.keeps_missing_limits {
            info.limits.clear();
        }
    }

    /// Removes a deleted CSINode.
    pub fn remove_csi_node(&mut self, name: &str) {
        if let Some(info) = self.nodes.get_mut(name) {
            info.drivers = None;
            info.limits.clear();
        }
        self.tidy(name);
    }

    /// Stores an attachment.
    pub fn store_attachment(&mut self, va: &VolumeAttachment) {
        self.remove_attachment(va.name());
        let Some(volume) = va.spec.source.persistent_volume_name.clone() else { return };
        let node = va.spec.node_name.clone();
        self.nodes.entry(node.clone()).or_default().attachments.insert(va.name().to_owned(), volume);
        self.attached.insert(va.name().to_owned(), node);
    }

    /// Removes a deleted attachment.
    pub fn remove_attachment(&mut self, name: &str) {
        let Some(node) = self.attached.remove(name) else { return };
        if let Some(info) = self.nodes.get_mut(&node) {
            info.attachments.remove(name);
        }
        self.tidy(&node);
    }

    /// Returns the volume of a claim as limits count it; None for a claim without a CSI volume.
    pub fn counted(&self, claim: &ClaimKey) -> Option<CountedVolume> {
        let claim = self.claims.get(claim)?;
        if let Some(volume) = self.volumes.get(volume_name(claim)) {
            return counted_volume(volume);
        }
        if self.seeded_bugs.counts_bound_only {
            return None;
        }
        let class = self.classes.get(claim_class(claim))?;
        let id = ClaimKey::of(claim).to_string().into();
        Some(CountedVolume { driver: class.provisioner.as_str().into(), id })
    }
}

fn take_out<K: Ord>(index: &mut BTreeMap<K, BTreeSet<String>>, key: &K, name: &str) {
    if let Some(names) = index.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}

/// Returns a volume as limits count it.
pub fn counted_volume(volume: &PersistentVolume) -> Option<CountedVolume> {
    let csi = volume_spec(volume).csi.as_ref()?;
    Some(CountedVolume { driver: csi.driver.as_str().into(), id: csi.volume_handle.as_str().into() })
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, json};

    use super::*;

    fn volume(name: &str, class: &str, claim: Option<&str>) -> Arc<PersistentVolume> {
        let claim = claim.map_or(Value::Null, |name| json!({ "namespace": "default", "name": name }));
        let spec = json!({ "storageClassName": class, "claimRef": claim });
        let volume = json!({ "metadata": { "name": name }, "spec": spec });
        Arc::new(substrate::json::from_value(volume).expect("a volume"))
    }

    fn seen(cache: &SchedulerCache, claim: &str) -> Vec<String> {
        let claim =
            json!({ "metadata": { "namespace": "default", "name": claim }, "spec": { "storageClassName": "gp3" } });
        let claim: PersistentVolumeClaim = substrate::json::from_value(claim).expect("a claim");
        cache.volumes_for(&claim).map(|volume| volume.name().to_owned()).collect()
    }

    #[test]
    fn a_claim_sees_volumes_of_its_class_reserved_for_it_or_free() {
        let mut cache = SchedulerCache::default();
        cache.store_volume(volume("d", "gp3", None));
        cache.store_volume(volume("c", "gp3", Some("data")));
        cache.store_volume(volume("b", "gp3", Some("other")));
        cache.store_volume(volume("a", "io2", None));
        cache.store_volume(volume("e", "io2", Some("data")));
        assert_eq!(seen(&cache, "data"), ["c", "d"]);
        assert_eq!(seen(&cache, "other"), ["b", "d"]);
        cache.store_volume(volume("d", "gp3", Some("other")));
        cache.remove_volume("b");
        assert_eq!(seen(&cache, "data"), ["c"]);
        assert_eq!(seen(&cache, "other"), ["d"]);
    }
}
