//! Pods with a worker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use substrate::latest;

use super::orders::Orders;

/// Grace period of a pod that sets none (`terminationGracePeriodSeconds`).
const DEFAULT_GRACE: i64 = 30;

pub(crate) struct Entry {
    pub(crate) pod: Arc<Pod>,
    pub(crate) wants_volumes: bool,
    pub(crate) unprocessed: bool,
    pub(crate) orders: latest::Sender<Orders>,
}

/// Pods with a worker.
#[derive(Default)]
pub struct Pods {
    /// By uid.
    pub(crate) entries: BTreeMap<String, Entry>,
    /// Uids of the pods that were refused or have finished, and are not gone. They are not run again.
    pub(crate) over: BTreeSet<String>,
    /// True once the pod source and the runtime have both listed, and all their pods are in `entries`.
    pub(crate) listed: bool,
}

impl Pods {
    /// Returns the pods whose volumes are wanted, and those of them to look up, for the first time or again.
    pub fn wanted(&mut self) -> (BTreeSet<String>, Vec<Arc<Pod>>) {
        let mut unprocessed = Vec::new();
        let mut wanted = BTreeSet::new();
        for (uid, entry) in self.entries.iter_mut().filter(|(_, e)| e.wants_volumes) {
            wanted.insert(uid.clone());
            // Until the sources are ready, a pass does not cover all pods.
            if self.listed && std::mem::take(&mut entry.unprocessed) {
                unprocessed.push(entry.pod.clone());
            }
        }
        (wanted, unprocessed)
    }

    /// Returns the pods whose containers may run, except those whose object is gone (`GetActivePods`).
    pub fn active(&self) -> Vec<Arc<Pod>> {
        let active = self.entries.values().filter(|entry| entry.wants_volumes && !entry.orders.borrow().deleted);
        active.map(|entry| entry.pod.clone()).collect()
    }

    /// Returns true if this pod has a worker.
    pub fn knows(&self, uid: &str) -> bool {
        self.entries.contains_key(uid)
    }

    /// Returns true if this pod has a worker that wants its volumes.
    pub fn wants(&self, uid: &str) -> bool {
        self.entries.get(uid).is_some_and(|entry| entry.wants_volumes)
    }

    /// Returns a pod that has a worker.
    pub fn get(&self, uid: &str) -> Option<Arc<Pod>> {
        self.entries.get(uid).map(|entry| entry.pod.clone())
    }

    /// Looks up the volumes of a pod again at the next pass of the populator.
    pub fn look_up_again(&mut self, uid: &str) {
        self.with(uid, |entry| entry.unprocessed = true);
    }

    /// Orders the worker of a pod to stop because the pod was active for too long.
    pub(crate) fn expire(&mut self, uid: &str) {
        self.with(uid, |entry| {
            let grace = grace(&entry.pod);
            entry.orders.send_modify(|orders| {
                orders.expired = true;
                orders.terminate.get_or_insert(grace);
            });
        });
    }

    /// Records that the volumes of a pod are no longer wanted: its containers have stopped.
    pub(crate) fn release_volumes(&mut self, uid: &str) {
        self.with(uid, |entry| entry.wants_volumes = false);
    }

    /// Records that the worker of a pod has ended.
    pub(crate) fn end(&mut self, uid: String, deleted: bool) {
        self.entries.remove(&uid);
        if !deleted {
            // Until the API server's answer is here, the cached pod has not finished.
            self.over.insert(uid);
        }
    }

    fn with(&mut self, uid: &str, act: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.get_mut(uid) {
            act(entry);
        }
    }
}

/// Returns the grace period of a pod.
pub(crate) fn grace(pod: &Pod) -> Duration {
    let of_spec = pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds);
    let seconds = pod.metadata.deletion_grace_period_seconds.or(of_spec).unwrap_or(DEFAULT_GRACE);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}
