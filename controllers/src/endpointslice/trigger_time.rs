//! Time of the change that leads to a write, for an annotation that measures the delay (`TriggerTimeTracker`).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};

use crate::kube::Kind;
use crate::pod_status::conditions;
use crate::workload::Key;

/// Annotation with the time.
pub(super) const LAST_CHANGE: &str = "endpoints.kubernetes.io/last-change-trigger-time";

#[derive(Debug, Default)]
struct Seen {
    service: Option<Timestamp>,
    pods: BTreeMap<String, Timestamp>,
}

/// Times of the last round, by Service.
#[derive(Debug, Default)]
pub(super) struct TriggerTimes(BTreeMap<Key, Seen>);

fn pod_time(pod: &Pod) -> Option<Timestamp> {
    let ready = conditions(pod).iter().find(|condition| condition.type_ == "Ready")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

impl TriggerTimes {
    /// Returns the earliest change since the last round (`ComputeEndpointLastChangeTriggerTime`).
    pub(super) fn compute(&mut self, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let key = (service.namespace().to_owned(), service.name().to_owned());
        let seen = self.0.entry(key).or_default();
        let times: BTreeMap<String, Timestamp> =
            pods.iter().filter_map(|pod| Some((pod.name().to_owned(), pod_time(pod)?))).collect();
        let created = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let changed = times.iter().filter(|(name, at)| seen.pods.get(*name).is_none_or(|before| *at > before));
        let first = changed.map(|(_, at)| *at).chain(created.filter(|_| created > seen.service)).min();
        *seen = Seen { service: created, pods: times };
        first
    }

    /// Forgets a Service.
    pub(super) fn forget(&mut self, service: &Key) {
        self.0.remove(service);
    }
}
