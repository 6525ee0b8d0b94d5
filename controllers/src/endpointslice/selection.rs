//! The Services that a change of a pod concerns (`k8s.io/endpointslice/util`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};

use crate::kube::{Delta, Informer, Kind};
use crate::workload::availability::is_ready;

/// Returns true if the selector of a Service selects the pod.
pub(crate) fn selects(service: &Service, pod: &Pod) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|all| all.iter().all(|(name, value)| pod.label(name) == Some(value)))
}

/// Returns true if a change of a pod may change its endpoints, and true if it may change the Services that select the pod
/// (`podEndpointsChanged`). The phase of a pod does not count: a pod that ends becomes unready.
fn relevance(old: &Pod, new: &Pod) -> (bool, bool) {
    let ips = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ips.clone()).unwrap_or_default();
    let host = |pod: &Pod| pod.spec.as_ref().map(|spec| (spec.hostname.clone(), spec.subdomain.clone()));
    let is_changed = old.is_deleting() != new.is_deleting() || is_ready(old) != is_ready(new) || ips(old) != ips(new);
    (is_changed, old.metadata.labels != new.metadata.labels || host(old) != host(new))
}

/// Returns true if a change of a pod concerns the Service (`GetServicesToUpdate`).
fn is_concerned(service: &Service, old: Option<&Pod>, new: &Pod) -> bool {
    let (has, Some(old)) = (selects(service, new), old) else { return selects(service, new) };
    match relevance(old, new) {
        (is_changed, false) => is_changed && has,
        (true, true) => has || selects(service, old),
        (false, true) => has != selects(service, old),
    }
}

/// Returns the Services that a change of a pod concerns.
pub(crate) fn concerned(services: &Informer<Service>, delta: &Delta<Pod>) -> Vec<Arc<Service>> {
    let (old, new) = match delta {
        Delta::Applied { old: Some(old), new } if relevance(old, new) == (false, false) => return Vec::new(),
        Delta::Applied { old, new } => (old.as_deref(), new),
        Delta::Deleted(pod) => (None, pod),
    };
    let mut found = services.list_in(new.namespace());
    found.retain(|service| is_concerned(service, old, new));
    found
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn pod(labels: Value, phase: &str, ready: &str) -> Pod {
        let status = json!({ "phase": phase, "conditions": [{ "type": "Ready", "status": ready }] });
        from_value(json!({ "metadata": { "name": "p", "labels": labels }, "status": status })).unwrap()
    }

    #[test]
    fn a_change_of_a_pod_concerns_services_as_upstream() {
        let service: Service = from_value(json!({ "spec": { "selector": { "app": "web" } } })).unwrap();
        let web = || json!({ "app": "web" });
        let concerned = |old: &Pod, new: &Pod| is_concerned(&service, Some(old), new);
        let running = pod(web(), "Running", "True");
        assert!(is_concerned(&service, None, &running));
        assert!(concerned(&running, &pod(web(), "Running", "False")));
        // Only the readiness and the addresses of a pod count, not its phase.
        assert!(!concerned(&pod(web(), "Running", "False"), &pod(web(), "Succeeded", "False")));
        let labelled = json!({ "app": "web", "more": "x" });
        assert!(!concerned(&running, &pod(labelled.clone(), "Running", "True")), "selected before and after");
        assert!(concerned(&running, &pod(labelled, "Running", "False")));
        assert!(concerned(&running, &pod(json!({}), "Running", "True")), "selected no more");
    }
}
