//! Time of the change that leads to a write, for an annotation that measures the delay (`TriggerTimeTracker`).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::kube::Kind;
use crate::pod_status::conditions;
use crate::workload::Key;

/// Annotation with the time.
pub(crate) const LAST_CHANGE: &str = "endpoints.kubernetes.io/last-change-trigger-time";

#[derive(Debug, Default)]
struct Seen {
    service: Option<Timestamp>,
    pods: BTreeMap<String, Timestamp>,
}

/// Times of the last round, by Service.
#[derive(Debug, Default)]
pub(crate) struct TriggerTimes(BTreeMap<Key, Seen>);

fn pod_time(pod: &Pod) -> Option<Timestamp> {
    let ready = conditions(pod).iter().find(|condition| condition.type_ == "Ready")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// Sets the time of an object that is written; an object without a new time loses the old one
/// (`addTriggerTimeAnnotation`).
pub(crate) fn annotate(metadata: &mut ObjectMeta, time: Option<Timestamp>) {
    match time {
        Some(time) => {
            metadata.annotations.get_or_insert_default().insert(LAST_CHANGE.to_owned(), time.to_string());
        }
        None => {
            if let Some(annotations) = &mut metadata.annotations {
                annotations.remove(LAST_CHANGE);
            }
            // Go leaves out an empty map.
            metadata.annotations = metadata.annotations.take().filter(|all| !all.is_empty());
        }
    }
}

impl TriggerTimes {
    /// Returns the earliest change since the last round; for a Service that is new to this process, the time of its
    /// creation (`ComputeEndpointLastChangeTriggerTime`).
    pub(crate) fn compute(&mut self, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let key = (service.namespace().to_owned(), service.name().to_owned());
        let is_known = self.0.contains_key(&key);
        let seen = self.0.entry(key).or_default();
        let times: BTreeMap<String, Timestamp> =
            pods.iter().filter_map(|pod| Some((pod.name().to_owned(), pod_time(pod)?))).collect();
        let created = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let changed = times.iter().filter(|(name, at)| seen.pods.get(*name).is_none_or(|before| *at > before));
        let first = changed.map(|(_, at)| *at).chain(created.filter(|_| created > seen.service)).min();
        *seen = Seen { service: created, pods: times };
        if is_known { first } else { created }
    }

    /// Forgets a Service.
    pub(crate) fn forget(&mut self, service: &Key) {
        self.0.remove(service);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::discovery::v1::EndpointSlice;
    use substrate::json::{from_value, json};

    use super::*;

    fn pod(name: &str, since: &str) -> Arc<Pod> {
        let ready =
            json!({ "type": "Ready", "status": "True", "lastTransitionTime": format!("2026-01-01T{since}:00Z") });
        Arc::new(from_value(json!({ "metadata": { "name": name }, "status": { "conditions": [ready] } })).unwrap())
    }

    #[test]
    fn the_first_round_has_the_time_of_the_service_and_later_ones_that_of_the_change() {
        let mut times = TriggerTimes::default();
        let service: Service =
            from_value(json!({ "metadata": { "name": "web", "creationTimestamp": "2026-01-01T02:00:00Z" } })).unwrap();
        let at = |times: &mut TriggerTimes, pods: &[Arc<Pod>]| times.compute(&service, pods).map(|at| at.to_string());
        // The pod is older than the Service.
        assert_eq!(at(&mut times, &[pod("a", "01:00")]).as_deref(), Some("2026-01-01T02:00:00Z"));
        assert_eq!(at(&mut times, &[pod("a", "01:00")]), None);
        let pods = [pod("a", "04:00"), pod("b", "03:00")];
        assert_eq!(at(&mut times, &pods).as_deref(), Some("2026-01-01T03:00:00Z"));
    }

    #[test]
    fn a_slice_without_a_new_time_loses_the_old_one() {
        let mut slice = EndpointSlice::default();
        annotate(&mut slice.metadata, Some(Timestamp::UNIX_EPOCH));
        assert_eq!(slice.annotation(LAST_CHANGE), Some("1970-01-01T00:00:00Z"));
        annotate(&mut slice.metadata, None);
        assert_eq!(slice.annotation(LAST_CHANGE), None);
    }
}
