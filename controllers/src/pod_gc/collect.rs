//! Pods to delete (`gcTerminated`, `gcTerminating`, `gcOrphaned`, `gcUnscheduledTerminating`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};

use crate::attach_detach::OUT_OF_SERVICE_TAINT;
use crate::kube::{Informer, Kind};
use crate::node_lifecycle::Ready;
use crate::pod_status::phase;
use crate::taints;

/// `--terminated-pod-gc-threshold`.
pub const TERMINATED_THRESHOLD: usize = 12_500;

/// Reason of a deletion (label of `pod_gc_collector_force_delete_pods_total`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// More terminated pods than the threshold.
    Terminated,
    /// Terminating on a node that is not ready and out of service.
    OutOfService,
    /// Its node does not exist.
    Orphaned,
    /// Terminating and never scheduled.
    Unscheduled,
}

impl Reason {
    /// Returns the label's value.
    pub fn label(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }
}

/// Pod to delete, with the reason.
pub type Doomed = (Reason, Arc<Pod>);

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// Nodes in quarantine: missing, but not yet treated as deleted.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    quarantine: BTreeMap<String, Duration>,
}

impl Collector {
    /// Returns pods to delete for other reasons than a missing node.
    pub fn doomed(pods: &[Arc<Pod>], node: impl Fn(&str) -> Option<Arc<Node>>) -> Vec<Doomed> {
        let mut doomed = Vec::new();
        let terminated: Vec<&Arc<Pod>> =
            pods.iter().filter(|pod| matches!(phase(pod), "Succeeded" | "Failed")).collect();
        if terminated.len() > TERMINATED_THRESHOLD {
            let mut oldest = terminated.clone();
            oldest.sort_by_key(|pod| {
                let created = pod.metadata.creation_timestamp.as_ref().map(|t| t.0);
                let evicted = pod.status.as_ref().is_some_and(|s| s.reason.as_deref() == Some("Evicted"));
                (!evicted, created, pod.name().to_owned())
            });
            oldest.truncate(terminated.len() - TERMINATED_THRESHOLD);
            doomed.extend(oldest.into_iter().map(|pod| (Reason::Terminated, pod.clone())));
        }
        for pod in pods.iter().filter(|pod| pod.is_deleting()) {
            if node_of(pod).is_empty() {
                doomed.push((Reason::Unscheduled, pod.clone()));
            } else if node(node_of(pod)).is_some_and(|node| {
                Ready::of(&node) != Some(Ready::True)
                    && taints::of(&node).iter().any(|taint| taint.key == OUT_OF_SERVICE_TAINT)
            }) {
                doomed.push((Reason::OutOfService, pod.clone()));
            }
        }
        doomed
    }

    /// Puts missing nodes into quarantine for `quarantine`. Returns those whose quarantine is over: they must be looked
    /// up live.
    pub fn missing_nodes(
        &mut self,
        now: Duration,
        quarantine: Duration,
        pods: &[Arc<Pod>],
        nodes: &Informer<Node>,
    ) -> Vec<String> {
        self.missing(now, quarantine, pods, |name| nodes.get("", name).is_some())
    }

    fn missing(
        &mut self,
        now: Duration,
        quarantine: Duration,
        pods: &[Arc<Pod>],
        exists: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        for pod in pods {
            let node = node_of(pod);
            if !node.is_empty() && !self.quarantine.contains_key(node) && !exists(node) {
                self.quarantine.insert(node.to_owned(), now + quarantine);
            }
        }
        let served: Vec<String> =
            self.quarantine.iter().filter(|(_, until)| **until <= now).map(|(node, _)| node.clone()).collect();
        for node in &served {
            self.quarantine.remove(node);
        }
        served.into_iter().filter(|node| !exists(node)).collect()
    }

    /// Returns the pods of deleted nodes.
    pub fn orphans(pods: &[Arc<Pod>], gone: &[String]) -> Vec<Doomed> {
        let orphan = |pod: &&Arc<Pod>| gone.iter().any(|node| node == node_of(pod));
        pods.iter().filter(orphan).map(|pod| (Reason::Orphaned, pod.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn pod(name: &str, node: &str, deleting: bool) -> Arc<Pod> {
        let mut metadata = json!({ "name": name, "namespace": "default" });
        if deleting {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let mut spec = json!({ "containers": [] });
        if !node.is_empty() {
            spec["nodeName"] = json!(node);
        }
        Arc::new(substrate::json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("a pod"))
    }

    fn node(ready: &str, out_of_service: bool) -> Arc<Node> {
        let key = if out_of_service { OUT_OF_SERVICE_TAINT } else { "other" };
        let node = json!({
            "metadata": { "name": "a" },
            "spec": { "taints": [{ "key": key, "effect": "NoExecute" }] },
            "status": { "conditions": [{ "type": "Ready", "status": ready }] },
        });
        Arc::new(substrate::json::from_value(node).expect("a node"))
    }

    #[test]
    fn only_terminating_pods_of_not_ready_out_of_service_nodes_go() {
        let pods = [pod("stays", "a", false), pod("goes", "a", true)];
        let names = |node: Arc<Node>| -> Vec<String> {
            let doomed = Collector::doomed(&pods, |_| Some(node.clone()));
            doomed.iter().map(|(_, pod)| pod.name().to_owned()).collect()
        };
        assert_eq!(names(node("Unknown", true)), ["goes"]);
        assert!(names(node("True", true)).is_empty());
        assert!(names(node("Unknown", false)).is_empty());
    }

    #[test]
    fn a_terminating_pod_without_a_node_goes() {
        let doomed = Collector::doomed(&[pod("p", "", true)], |_| None);
        assert_eq!(doomed[0].0, Reason::Unscheduled);
    }

    #[test]
    fn a_missing_node_is_in_quarantine_for_forty_seconds() {
        let (mut collector, pods) = (Collector::default(), [pod("p", "gone", false)]);
        let mut look = |at, exists: bool| collector.missing(S(at), S(40), &pods, |_| exists);
        assert!(look(0, false).is_empty());
        assert!(look(20, false).is_empty());
        assert_eq!(look(40, false), ["gone"]);
        // The quarantine starts again; a node that returns in time is left alone.
        assert!(look(60, false).is_empty());
        assert!(look(100, true).is_empty());
    }
}
