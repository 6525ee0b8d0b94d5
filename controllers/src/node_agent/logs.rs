//! Index of the logs of the pods on a node.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::progress::{Phase, PodFacts};

/// Index of the containers that have logs on this node. The machine keeps the logs themselves. Clones share the index.
#[derive(Clone, Default)]
pub struct Logs(Arc<Mutex<BTreeMap<(String, String), PodLogs>>>);

impl std::fmt::Debug for Logs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logs").field("pods", &self.lock().len()).finish()
    }
}

pub(super) struct PodLogs {
    pub(super) pod: Arc<Pod>,
    /// State of the pod according to the agent. None until a worker has started.
    pub(super) state: Option<(Phase, PodFacts)>,
}

fn key(pod: &Pod) -> (String, String) {
    let part = |name: &Option<String>| name.clone().unwrap_or_default();
    (part(&pod.metadata.namespace), part(&pod.metadata.name))
}

impl Logs {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), PodLogs>> {
        self.0.lock()
    }

    /// Records a pod on this node. Replaces another pod of the same name.
    pub(super) fn seen(&self, pod: &Arc<Pod>) {
        let mut pods = self.lock();
        match pods.get_mut(&key(pod)) {
            Some(logs) if logs.pod.metadata.uid == pod.metadata.uid => logs.pod = pod.clone(),
            _ => {
                let logs = PodLogs { pod: pod.clone(), state: None };
                pods.insert(key(pod), logs);
            }
        }
    }

    /// Forgets a pod that is gone.
    pub(super) fn forget(&self, pod: &Pod) {
        let mut pods = self.lock();
        if pods.get(&key(pod)).is_some_and(|logs| logs.pod.metadata.uid == pod.metadata.uid) {
            pods.remove(&key(pod));
        }
    }

    /// Sets the state that the pod's worker reports.
    pub(super) fn set_state(&self, pod: &Pod, phase: Phase, facts: &PodFacts) {
        let mut pods = self.lock();
        let found = pods.get_mut(&key(pod)).filter(|logs| logs.pod.metadata.uid == pod.metadata.uid);
        if let Some(logs) = found {
            logs.state = Some((phase, facts.clone()));
        }
    }

    /// Returns the pods of this node as a PodList (`encodePods`).
    pub(super) fn pods(&self) -> String {
        let item = |logs: &PodLogs| {
            let mut pod = serde_json::to_value(&*logs.pod).expect("a pod has a JSON form");
            if let Some(map) = pod.as_object_mut() {
                // The list names the type of its items.
                map.remove("apiVersion");
                map.remove("kind");
            }
            pod
        };
        let items: Vec<serde_json::Value> = self.lock().values().map(item).collect();
        let list = serde_json::json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items });
        list.to_string()
    }
}
