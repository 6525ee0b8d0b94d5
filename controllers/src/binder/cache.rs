//! State of the binder: its own caches of claims and volumes, fed by informers and by its own writes.
//!
//! A binding is four writes whose events arrive one by one. The caches also store the answers to the binder's own
//! writes, so the controller sees its completed writes. Otherwise it would repeat repairs and cause conflicts
//! (`pv_controller.go`, `storeObjectUpdate`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;

use super::object::{ClaimKey, access_modes_satisfied, annotation, name, pod_claims, resource_version, volume_phase};
use super::tally::Tally;
use super::{annotations, matching};

/// Caches of the binder.
#[derive(Clone, Debug, Default)]
pub struct BinderCache {
    volumes: BTreeMap<String, Arc<PersistentVolume>>,
    /// Numbers for metrics.
    pub(super) tally: Tally,
    claims: BTreeMap<ClaimKey, Arc<PersistentVolumeClaim>>,
    classes: BTreeMap<String, Arc<StorageClass>>,
    /// Names of the volumes that refer to a claim.
    by_claim: BTreeMap<ClaimKey, BTreeSet<String>>,
    /// Names of the volumes without a claimRef.
    unclaimed: BTreeSet<String>,
    /// Names of pods that wait for a node, by the claims that they use.
    waiting_pods: BTreeMap<ClaimKey, BTreeSet<String>>,
    /// Seeded bug: claims with the same name are the same claim.
    pub(super) ignores_uids: bool,
    /// Seeded bug: binds a claim to a volume without its access modes.
    pub(super) ignores_access_modes: bool,
    /// Seeded bug: binds a claim to a volume that is too small.
    pub(super) ignores_size: bool,
    /// Seeded bug: binds a claim to a volume that its selector excludes.
    pub(super) ignores_selector: bool,
    /// Seeded bug: binds a released volume again.
    pub(super) offers_released: bool,
    /// Seeded bug: binds a claim to a volume of another class.
    pub(super) ignores_class: bool,
    /// Seeded bug: binds a claim to a volume of the other volume mode.
    pub(super) ignores_mode: bool,
    /// Seeded bug: binds a claim to the largest volume that matches.
    pub(super) takes_largest: bool,
    /// Seeded bug: binds a claim to a volume that is reserved for another claim.
    pub(super) takes_reserved: bool,
    /// Seeded bug: binds a claim to any volume that it names.
    pub(super) trusts_names: bool,
    /// Seeded bug: keeps a volume that was provisioned for a claim which is bound to another one.
    pub(super) keeps_unneeded: bool,
    /// Seeded bug: writes the capacity of a volume that grew to its bound claim.
    pub(super) copies_growth: bool,
    /// Seeded bug: binds a claim to a volume that is being deleted.
    pub(super) takes_deleting: bool,
    /// Seeded bug: prefers the oldest default class.
    pub(super) prefers_oldest: bool,
}

impl BinderCache {
    /// Returns the volume `name`.
    pub fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.volumes.get(name)
    }

    /// Returns the claim `key`.
    pub fn claim(&self, key: &ClaimKey) -> Option<&Arc<PersistentVolumeClaim>> {
        self.claims.get(key)
    }

    /// Returns the class `name`.
    pub fn class(&self, name: &str) -> Option<&Arc<StorageClass>> {
        self.classes.get(name)
    }

    /// Iterates over all volumes, in order of their names.
    pub fn volumes(&self) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        self.volumes.values()
    }

    /// Iterates over all claims, in order of their keys.
    pub fn claims(&self) -> impl Iterator<Item = (&ClaimKey, &Arc<PersistentVolumeClaim>)> {
        self.claims.iter()
    }

    /// Stores a volume from the API server or from the answer to the binder's own write. Returns false if the cache has
    /// a newer one.
    pub fn store_volume(&mut self, volume: Arc<PersistentVolume>) -> bool {
        let name = name(&volume.metadata).to_owned();
        let newer = |old: &Arc<PersistentVolume>| resource_version(&old.metadata) > resource_version(&volume.metadata);
        if self.volumes.get(&name).is_some_and(newer) {
            return false;
        }
        self.remove_volume(&name);
        match ClaimKey::of_volume(&volume) {
            Some(key) => self.by_claim.entry(key).or_default().insert(name.clone()),
            None => self.unclaimed.insert(name.clone()),
        };
        self.tally.add_volume(&volume);
        self.volumes.insert(name, volume);
        true
    }

    /// Removes a deleted volume.
    pub fn remove_volume(&mut self, name: &str) {
        let Some(old) = self.volumes.remove(name) else { return };
        self.tally.remove_volume(&old);
        self.unclaimed.remove(name);
        if let Some(key) = ClaimKey::of_volume(&old)
            && let Some(names) = self.by_claim.get_mut(&key)
        {
            names.remove(name);
            if names.is_empty() {
                self.by_claim.remove(&key);
            }
        }
    }

    /// Stores a claim from the API server or from the answer to the binder's own write. Returns false if the cache has
    /// a newer one.
    pub fn store_claim(&mut self, claim: Arc<PersistentVolumeClaim>) -> bool {
        let key = ClaimKey::of(&claim);
        let newer =
            |old: &Arc<PersistentVolumeClaim>| resource_version(&old.metadata) > resource_version(&claim.metadata);
        if self.claims.get(&key).is_some_and(newer) {
            return false;
        }
        self.tally.add_claim(&claim);
        if let Some(old) = self.claims.insert(key, claim) {
            self.tally.remove_claim(&old);
        }
        true
    }

    /// Removes a deleted claim.
    pub fn remove_claim(&mut self, key: &ClaimKey) {
        if let Some(old) = self.claims.remove(key) {
            self.tally.remove_claim(&old);
        }
    }

    /// Stores a class.
    pub fn store_class(&mut self, class: Arc<StorageClass>) {
        self.classes.insert(name(&class.metadata).to_owned(), class);
    }

    /// Removes a deleted class.
    pub fn remove_class(&mut self, name: &str) {
        self.classes.remove(name);
    }

    /// Updates the waiting pods after a change of a pod.
    pub fn store_pod(&mut self, old: Option<&Pod>, new: Option<&Pod>) {
        for (pod, present) in [(old, false), (new, true)] {
            let Some(pod) = pod else { continue };
            let present = present && waits_for_node(pod);
            for (claim, _) in pod_claims(pod) {
                let key = ClaimKey::new(pod.metadata.namespace.as_deref().unwrap_or_default(), &claim);
                let names = self.waiting_pods.entry(key.clone()).or_default();
                if present {
                    names.insert(name(&pod.metadata).to_owned());
                } else {
                    names.remove(name(&pod.metadata));
                }
                if names.is_empty() {
                    self.waiting_pods.remove(&key);
                }
            }
        }
    }

    /// Returns the pods that use a claim and have no node yet (`findNonScheduledPodsByPVC`).
    pub fn waiting_pods(&self, claim: &ClaimKey) -> Vec<&str> {
        self.waiting_pods.get(claim).into_iter().flatten().map(String::as_str).collect()
    }

    /// Returns the volume that matches a claim best (`findBestMatchForClaim`).
    pub fn best_match(&self, claim: &PersistentVolumeClaim, delay_binding: bool) -> Option<Arc<PersistentVolume>> {
        let reserved = self.by_claim.get(&ClaimKey::of(claim)).into_iter().flatten();
        if self.ignores_uids
            && let Some(volume) = reserved.clone().find_map(|name| self.volumes.get(name))
        {
            return Some(volume.clone());
        }
        let asks_less = self.as_if_asked_for_less(claim);
        let claim = asks_less.as_ref().unwrap_or(claim);
        // If the scheduler chooses, only reserved volumes are considered.
        let free = (!delay_binding).then_some(&self.unclaimed).into_iter().flatten();
        let of_others = self.takes_reserved.then(|| self.volumes.keys()).into_iter().flatten();
        let volumes = reserved.chain(free).chain(of_others).filter_map(|name| self.volumes.get(name));
        if self.ignores_class || self.ignores_mode || self.takes_largest || self.takes_reserved || self.takes_deleting {
            return self.wrong_match(claim, volumes, delay_binding);
        }
        matching::best_match(claim, volumes, delay_binding)
    }

    /// Returns the match of the seeded bugs that ignore the class, the volume mode, the reservation or the deletion of a
    /// volume, or that prefer the largest.
    fn wrong_match<'a>(
        &self,
        claim: &PersistentVolumeClaim,
        volumes: impl Iterator<Item = &'a Arc<PersistentVolume>>,
        delay_binding: bool,
    ) -> Option<Arc<PersistentVolume>> {
        let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.clone());
        let mut volumes: Vec<_> = volumes.cloned().collect();
        let mode = claim.spec.as_ref().and_then(|spec| spec.volume_mode.clone());
        for volume in &mut volumes {
            let is_available = volume_phase(volume) == "Available";
            let volume = Arc::make_mut(volume);
            volume.metadata.deletion_timestamp.take_if(|_| self.takes_deleting);
            let spec = volume.spec.get_or_insert_default();
            if self.takes_reserved && is_available {
                spec.claim_ref = None;
            }
            if self.ignores_class {
                spec.storage_class_name.clone_from(&class);
            }
            if self.ignores_mode {
                spec.volume_mode.clone_from(&mode);
            }
        }
        let mut found = matching::best_match(claim, volumes.iter(), delay_binding)?;
        if self.takes_largest && ClaimKey::of_volume(&found).is_none() {
            let fit = volumes.iter().filter(|volume| access_modes_satisfied(claim, volume));
            found = matching::candidates(claim, fit).free.pop()?;
        }
        self.volumes.get(name(&found.metadata)).cloned()
    }

    /// Returns the claim without the requirements that seeded bugs ignore; `None` without such a bug.
    fn as_if_asked_for_less(&self, claim: &PersistentVolumeClaim) -> Option<PersistentVolumeClaim> {
        if !self.ignores_access_modes && !self.ignores_size && !self.ignores_selector {
            return None;
        }
        let mut claim = claim.clone();
        let spec = claim.spec.get_or_insert_default();
        spec.access_modes.take_if(|_| self.ignores_access_modes);
        spec.resources.take_if(|_| self.ignores_size);
        spec.selector.take_if(|_| self.ignores_selector);
        Some(claim)
    }

    /// Returns the default class: the newest of those marked as default, ties by name (upstream
    /// `storage/volume.GetDefaultClass`).
    pub fn default_class(&self) -> Option<&Arc<StorageClass>> {
        let marked = |class: &&Arc<StorageClass>| {
            [annotations::DEFAULT_CLASS, annotations::BETA_DEFAULT_CLASS]
                .iter()
                .any(|key| annotation(&class.metadata, key) == Some("true"))
        };
        if self.prefers_oldest {
            return self.classes.values().filter(marked).min_by_key(|class| class.metadata.creation_timestamp.clone());
        }
        // `max_by_key` returns the last of equals; the reversed order makes the first name win.
        self.classes.values().rev().filter(marked).max_by_key(|class| class.metadata.creation_timestamp.clone())
    }

    /// Returns the numbers of volumes and claims; for tests and figures.
    pub fn len(&self) -> (usize, usize) {
        (self.volumes.len(), self.claims.len())
    }

    /// Returns true if there is neither a claim nor a volume.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// Returns true if every volume is in exactly one index; for tests.
    #[cfg(test)]
    pub fn indexes_agree(&self) -> bool {
        let indexed = self.by_claim.values().map(BTreeSet::len).sum::<usize>() + self.unclaimed.len();
        indexed == self.volumes.len()
            && self
                .volumes
                .values()
                .all(|v| ClaimKey::of_volume(v).is_some() != self.unclaimed.contains(name(&v.metadata)))
    }
}

fn waits_for_node(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default();
    let node = pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or_default();
    node.is_empty() && phase != "Succeeded" && phase != "Failed"
}
