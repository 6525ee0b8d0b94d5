//! I12: at the end of a run the cluster matches its manifests. An object that was applied and not deleted exists. A
//! claim is bound and has its size; a pod is on a node and has its volumes; a provisioned volume is in the cloud with
//! the parameters of its class. A deleted object is gone, and its volume is gone or kept, as the reclaim policy says.
//! An occasion is such an object, or such a volume of a pod.
//!
//! It is checked when the cluster has converged (I8) and agrees (I4), so it finds work that every component has
//! forgotten. It ignores the work of components that are left out, objects with an owner, requests that a driver
//! refused permanently, and volumes that a user changed in the cloud.

mod applied;
mod claims;
mod forms;
mod pods;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use csi_mock::events::CsiDone;
use fake_apiserver::events::{Commit, CsiNode, Node};
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::events::FaultFired;
use substrate::json::Text;

use super::Machines;
use crate::model::{NodeName, PodKey, PvName, RunModel};
pub(crate) use applied::{Applied, AppliedObjects};
pub use forms::StoredObjects;

/// Codes with which a driver refuses a request permanently: the same request will not succeed later.
const REFUSALS: &[&str] = &[
    "ALREADY_EXISTS",
    "FAILED_PRECONDITION",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "OUT_OF_RANGE",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNIMPLEMENTED",
];

/// Loops that write contents of snapshots.
const SNAPSHOT_LOOPS: [&str; 2] = [controllers::SNAPSHOT_CONTROLLER, controllers::SNAPSHOTTER];
/// Revision of the first commit of an API server.
const FIRST_REVISION: u64 = 2;

/// A difference between a cluster and its manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The volume, if there is one.
    pub volume: Option<String>,
    /// The difference, in one sentence.
    pub message: String,
}

impl Difference {
    fn new(message: String, volume: Option<&str>) -> Self {
        Self { message, volume: volume.map(str::to_owned) }
    }
}

/// State of the cluster that I12 compares with the applied objects.
#[derive(Debug, Default)]
pub(super) struct Present {
    /// Resource and key of each object that was created.
    objects: BTreeSet<(Text, Arc<str>)>,
    /// Resource and key of each object that was removed.
    removed: BTreeSet<(Text, Arc<str>)>,
    /// First revision of the trace. Containers that were up before have objects without a commit in it.
    first: Option<u64>,
    /// First user who deleted each pod.
    pods_deleted_by: BTreeMap<PodKey, Text>,
    /// Last node of each pod, also of pods that are gone.
    nodes_of_pods: BTreeMap<PodKey, Text>,
    /// PersistentVolumes that the provisioner created.
    provisioned: BTreeSet<PvName>,
    /// Nodes that are gone, or from which pods may have been evicted.
    left: BTreeSet<NodeName>,
    /// CSINodes. The run model keeps none: three checkers ask, each for another part.
    drivers: BTreeMap<NodeName, CsiNode>,
    /// Volumes about which a fault falsified an answer of the driver.
    falsified: BTreeSet<String>,
    /// True if a user wrote a content of a snapshot, or changed or removed a class.
    edits_snapshots: bool,
    /// True if a fault fired at the creation of an object: a controller may have created it twice.
    repeats_creations: bool,
    /// RPCs whose last answer was a final refusal, each with its subject: a volume, or the name of a new volume.
    refused: BTreeSet<(Text, Text)>,
}

impl Present {
    /// Records an event.
    pub fn observe(&mut self, model: &RunModel, event: &Event) {
        if let Some(commit) = event.get::<Commit>() {
            self.on_commit(commit);
        } else if let Some(fired) = event.get::<FaultFired>() {
            self.repeats_creations |= fired.op == "create";
            if ["wrong_device", "no_context"].contains(&fired.effect.kind().name()) {
                self.falsified.extend(fired.attributes.get("volume").cloned());
            }
        } else if let Some(done) = event.get::<CsiDone>()
            && let Some(call) = model.calls.answered()
            && let Some(subject) = call.volume.as_ref().or(call.target.as_ref())
        {
            let call = (call.rpc.clone(), subject.clone());
            if REFUSALS.contains(&done.code.as_str()) {
                self.refused.insert(call);
            } else {
                self.refused.remove(&call);
            }
        }
    }

    fn on_commit(&mut self, commit: &Commit) {
        let object = &commit.object;
        let is_gone = commit.r#type == EventType::Deleted;
        self.first.get_or_insert(commit.rv);
        let is_content = ["volumesnapshotcontents", "volumegroupsnapshotcontents"].contains(&commit.resource.as_str());
        let is_class = ["volumesnapshotclasses", "volumegroupsnapshotclasses"].contains(&commit.resource.as_str());
        let by_loop = SNAPSHOT_LOOPS.iter().any(|name| commit.user.starts_with(name));
        self.edits_snapshots |= (is_content && !by_loop) || (is_class && commit.r#type != EventType::Added);
        match commit.r#type {
            EventType::Added if commit.resource != "events" => {
                let key = (commit.resource.clone(), object.clone());
                self.removed.remove(&key);
                self.objects.insert(key);
                if commit.pv.is_some() && commit.user.starts_with("csi-provisioner") {
                    self.provisioned.insert(object.into());
                }
            }
            EventType::Deleted => {
                let key = (commit.resource.clone(), object.clone());
                self.objects.remove(&key);
                self.removed.insert(key);
            }
            EventType::Added | EventType::Modified => {}
        }
        if let Some(pod) = &commit.pod {
            if commit.r#type == EventType::Added {
                self.pods_deleted_by.remove(&**object);
                self.nodes_of_pods.remove(&**object);
            }
            if is_gone || pod.deleting {
                self.pods_deleted_by.entry(object.into()).or_insert_with(|| commit.user.clone());
            }
            if let Some(node) = &pod.node {
                self.nodes_of_pods.insert(object.into(), node.clone());
            }
        } else if commit.resource == "nodes" {
            let keeps = |node: &Node| {
                node.ready.as_deref() == Some("True") && !node.taints.iter().any(|taint| taint.ends_with(":NoExecute"))
            };
            if is_gone || !commit.node.as_deref().is_some_and(keeps) {
                self.left.insert(object.into());
            }
        } else if commit.resource == "csinodes" {
            self.drivers.insert(object.into(), commit.csinode.as_deref().cloned().unwrap_or_default());
        }
    }

    /// Returns true if an object exists that had `revision` when it was last applied.
    fn has(&self, resource: &str, key: &str, revision: u64) -> bool {
        let key = (resource.into(), key.into());
        let is_older = self.first.is_none_or(|first| revision < first);
        self.objects.contains(&key) || is_older && !self.removed.contains(&key)
    }

    /// Returns true if an object of a resource exists. The API server creates the Service `kubernetes` itself.
    pub fn has_any(&self, resource: &str) -> bool {
        self.of(resource).any(|key| &**key != "default/kubernetes")
    }

    /// Returns the keys of the objects of a resource.
    fn of(&self, resource: &str) -> impl Iterator<Item = &Arc<str>> {
        let first = (resource.into(), Arc::from(""));
        self.objects.range(first..).take_while(move |(of, _)| of == resource).map(|(_, key)| key)
    }

    /// Returns true if the first commit of the API server is among the events, so that all objects are known.
    fn is_whole(&self) -> bool {
        self.first.is_some_and(|first| first <= FIRST_REVISION)
    }

    /// Returns true if the last answer to an RPC about a subject that ends with `subject` is a final refusal.
    fn is_refused(&self, rpc: &str, subject: &str) -> bool {
        self.refused.iter().any(|(of, about)| of == rpc && about.ends_with(subject))
    }
}

/// Input and result of a comparison.
struct Comparison<'a> {
    applied_objects: &'a AppliedObjects,
    present: &'a Present,
    model: &'a RunModel,
    machines: &'a Machines,
    found: Vec<Difference>,
    compared: u64,
}

/// Returns all differences, and the number of comparisons.
pub(super) fn compare(
    applied_objects: &AppliedObjects,
    present: &Present,
    model: &RunModel,
    machines: &Machines,
) -> (Vec<Difference>, u64) {
    let mut comparison = Comparison { applied_objects, present, model, machines, found: Vec::new(), compared: 0 };
    comparison.existence();
    comparison.claims();
    comparison.pods();
    comparison.volumes();
    comparison.forms();
    comparison.states();
    (comparison.found, comparison.compared)
}

impl Comparison<'_> {
    /// Counts an occasion, and adds its difference if there is one.
    fn judge(&mut self, volume: Option<&str>, differs: Option<String>) {
        self.compared += 1;
        self.found.extend(differs.map(|message| Difference::new(message, volume)));
    }

    /// Compares the existence of claims, pods and classes with the applied objects.
    fn existence(&mut self) {
        for applied in self.applied_objects.all() {
            let (resource, key) = (applied.object.kind.resource(), applied.object.key());
            let is_there = self.present.has(resource, &key, applied.revision);
            let name = format!("{}/{key}", applied.object.kind.short());
            let differs = match resource {
                "persistentvolumeclaims" if applied.deleted => {
                    let is_used = || self.model.objects.users(&key).next().is_some();
                    (is_there && !is_used()).then(|| format!("{name} exists, although it was deleted"))
                }
                "pods" if applied.deleted => is_there.then(|| format!("{name} exists, although it was deleted")),
                "pods" => (!is_there && !self.may_be_evicted(&key))
                    .then(|| format!("{name} does not exist, although it was applied and not deleted")),
                "persistentvolumeclaims" | "storageclasses" | "volumeattributesclasses" if !applied.deleted => {
                    (!is_there).then(|| format!("{name} does not exist, although it was applied and not deleted"))
                }
                _ => continue,
            };
            if !applied.manifest["metadata"]["ownerReferences"].is_null() {
                continue;
            }
            self.judge(None, differs);
        }
    }

    /// Returns true if another user or the scheduler deleted a pod that is gone, or if a controller may have deleted it
    /// because of the state of its node.
    fn may_be_evicted(&self, pod: &str) -> bool {
        let Some(by) = self.present.pods_deleted_by.get(pod) else { return false };
        let node = self.present.nodes_of_pods.get(pod);
        !by.starts_with("kube-controller-manager") || node.is_some_and(|node| self.present.left.contains(node.as_str()))
    }
}

#[cfg(test)]
mod tests;
