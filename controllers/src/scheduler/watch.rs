//! Changes of the scheduler's objects (`eventhandlers.go`): each updates the cache, and requeues the pods that it may help.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use substrate::mutant;

use super::async_loop::{NAME, Scheduler, State};
use super::hints::{ClusterEvent, pod_may_fit_now, worth_retrying};
use super::node_info::{PodKey, priority};
use super::nominations::nominated_node;
use crate::binder::object::ClaimKey;
use crate::kube::{Delta, Kind};
use crate::mirror_pod::is_stand_in;

/// Stores a change of an object whose events requeue no pod, by namespace and name.
pub(super) fn stored<K: Kind>(objects: &mut BTreeMap<(String, String), Arc<K>>, delta: Delta<K>) {
    let key = |object: &K| (object.namespace().to_owned(), object.name().to_owned());
    match delta {
        Delta::Applied { new, .. } => drop(objects.insert(key(&new), new)),
        Delta::Deleted(object) => drop(objects.remove(&key(&object))),
    }
}

impl Scheduler {
    /// Requeues the pods that an event may help, except those that are removing their victims.
    pub(super) fn happened(&self, state: &mut State, event: ClusterEvent<'_>) {
        self.happened_up_to(state, event, i32::MAX);
    }

    /// Requeues the pods of at most this priority that an event may help: others do not count nominated pods of it.
    fn happened_up_to(&self, state: &mut State, event: ClusterEvent<'_>, highest: i32) {
        let State { cache, queue, preempting } = state;
        if !queue.has_no_waiting() {
            queue.happened(self.ctx.now().mono, |pod, plugins| {
                priority(pod) <= highest && !preempting.contains(cache, pod) && worth_retrying(event, pod, plugins)
            });
        }
    }

    pub(super) fn node_changed(&self, delta: Delta<Node>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { old, new } => {
                state.cache.store_node(new.clone());
                self.happened(&mut state, ClusterEvent::Node(old.as_deref(), &new));
            }
            Delta::Deleted(node) => {
                state.cache.remove_node(node.name());
                self.happened(&mut state, ClusterEvent::NodeGone(&node));
            }
        }
    }

    pub(super) fn namespace_changed(&self, delta: Delta<Namespace>) {
        let mut state = self.state();
        let namespaces = Arc::make_mut(&mut state.cache.namespaces);
        match delta {
            Delta::Applied { new, .. } => {
                namespaces.insert(new.name().to_owned(), new.metadata.labels.clone().unwrap_or_default());
            }
            Delta::Deleted(namespace) => drop(namespaces.remove(namespace.name())),
        }
    }

    pub(super) fn class_changed(&self, delta: Delta<StorageClass>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { old, new } => {
                state.cache.classes.insert(new.name().to_owned(), new.clone());
                self.happened(&mut state, ClusterEvent::Class(old.as_deref(), &new));
            }
            Delta::Deleted(class) => drop(state.cache.classes.remove(class.name())),
        }
    }

    pub(super) fn driver_changed(&self, delta: Delta<CSIDriver>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { old, new } => {
                state.cache.drivers.insert(new.name().to_owned(), new.clone());
                if let Some(old) = old {
                    self.happened(&mut state, ClusterEvent::Driver(&old, &new));
                }
            }
            Delta::Deleted(driver) => drop(state.cache.drivers.remove(driver.name())),
        }
    }

    pub(super) fn csi_node_changed(&self, delta: &Delta<CSINode>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { old, new } => {
                state.cache.store_csi_node(new);
                self.happened(&mut state, ClusterEvent::CsiNode(old.as_deref(), new));
            }
            Delta::Deleted(csi_node) => state.cache.remove_csi_node(csi_node.name()),
        }
    }

    pub(super) fn capacity_changed(&self, delta: Delta<CSIStorageCapacity>) {
        let mut state = self.state();
        let key = |c: &CSIStorageCapacity| format!("{}/{}", c.namespace(), c.name());
        match delta {
            Delta::Applied { old, new } => {
                state.cache.capacities.insert(key(&new), new.clone());
                self.happened(&mut state, ClusterEvent::Capacity(old.as_deref(), &new));
            }
            Delta::Deleted(capacity) => drop(state.cache.capacities.remove(&key(&capacity))),
        }
    }

    pub(super) fn volume_changed(&self, delta: Delta<PersistentVolume>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { old, new } => {
                state.cache.store_volume(new.clone());
                self.happened(&mut state, ClusterEvent::Volume(old.as_deref(), &new));
            }
            Delta::Deleted(volume) => state.cache.remove_volume(volume.name()),
        }
    }

    pub(super) fn claim_changed(&self, delta: Delta<PersistentVolumeClaim>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { old, new } => {
                state.cache.claims.store(ClaimKey::of(&new), new.clone());
                if old.is_none() || !mutant!(self.ctx, "bound-claim-wakes-no-pod") {
                    self.happened(&mut state, ClusterEvent::Claim(old.as_deref(), &new));
                }
            }
            Delta::Deleted(claim) => state.cache.claims.remove(&ClaimKey::of(&claim)),
        }
    }

    pub(super) fn attachment_changed(&self, delta: &Delta<VolumeAttachment>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { new, .. } => state.cache.store_attachment(new),
            Delta::Deleted(va) => {
                state.cache.remove_attachment(va.name());
                if !mutant!(self.ctx, "freed-slot-wakes-no-pod") {
                    self.happened(&mut state, ClusterEvent::AttachmentGone);
                }
            }
        }
    }

    pub(super) fn pod_changed(&self, delta: Delta<Pod>) {
        let now = self.ctx.now().mono;
        let mut state = self.state();
        match delta {
            // It uses no resources of a node.
            Delta::Applied { new: pod, .. } | Delta::Deleted(pod) if is_stand_in(&pod) => {}
            Delta::Applied { old, new } => {
                if let Some(node) = node_of(&new) {
                    let key = PodKey::of(&new);
                    state.queue.delete(&key);
                    state.cache.nominations.remove(&key);
                    state.cache.place(new.clone(), node);
                    // An update of labels counts too, as upstream's scheduler sees it.
                    let old = old.as_deref().filter(|old| node_of(old).is_some());
                    if old.is_none_or(|old| old.metadata.labels != new.metadata.labels) {
                        self.happened(&mut state, ClusterEvent::AssignedPodChanged(old, &new));
                    }
                } else if is_ours(&new) {
                    if is_gated(&new) {
                        state.queue.hold(PodKey::of(&new));
                    } else {
                        self.waiting_pod_changed(&mut state, now, old, new);
                    }
                }
            }
            Delta::Deleted(pod) => {
                let key = PodKey::of(&pod);
                state.queue.delete(&key);
                state.cache.nominations.remove(&key);
                let placed = state.cache.place_of(&key).is_some();
                state.cache.unplace(&key);
                if placed {
                    self.happened(&mut state, ClusterEvent::AssignedPodGone(&pod));
                } else if nominated_node(&pod).is_some() {
                    self.happened_up_to(&mut state, ClusterEvent::AssignedPodGone(&pod), priority(&pod));
                }
            }
        }
    }

    /// Stores a pod without a node (`updatePodInSchedulingQueue`). If it waits for its node no more, other pods may take
    /// the room.
    fn waiting_pod_changed(&self, state: &mut State, now: Duration, old: Option<Arc<Pod>>, new: Arc<Pod>) {
        let key = PodKey::of(&new);
        if old.as_ref().is_some_and(|old| node_of(old).is_some()) {
            // A new pod with the name of one that had a node.
            state.cache.unplace(&key);
        }
        let misses_changes = mutant!(self.ctx, "changed-pod-not-retried");
        let relevant = old.as_ref().is_none_or(|old| pod_may_fit_now(old, &new) && !misses_changes);
        state.queue.update(now, new.clone(), relevant);
        // An assumed pod has its node already.
        if state.cache.place_of(&key).is_some() {
            return;
        }
        state.cache.nominations.update(old.as_deref(), new.clone());
        let Some(old) = old else { return };
        if nominated_node(&old).is_some_and(|node| nominated_node(&new) != Some(node)) {
            self.happened_up_to(state, ClusterEvent::AssignedPodGone(&old), priority(&old));
        }
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).filter(|node| !node.is_empty())
}

/// Returns true if this scheduler is responsible for the pod.
fn is_ours(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.scheduler_name.as_deref().unwrap_or(NAME) == NAME)
}

/// Returns true if a scheduling gate holds the pod.
fn is_gated(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.scheduling_gates.iter().flatten().next().is_some())
}
