//! Hints that keep traffic in the zone or on the node of its client (`trafficdist`). The annotation
//! `service.kubernetes.io/topology-mode` gives no hints here.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointSlice, ForNode, ForZone};

use super::reconcile::Changes;
use crate::kube::Kind;

/// Annotations that ask for hints by the sizes of zones; with one of them `spec.trafficDistribution` does not count.
const MODES: [&str; 2] = ["service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"];

/// Hints that a Service asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preference {
    None,
    SameZone,
    SameNode,
}

impl Preference {
    /// Returns the preference of a Service (`validTrafficDistribution`, `hintsEnabled`).
    fn of(service: &Service) -> Self {
        let mode = MODES.iter().find_map(|name| service.annotation(name));
        if matches!(mode, Some("Auto" | "auto")) {
            return Self::None;
        }
        match service.spec.as_ref().and_then(|spec| spec.traffic_distribution.as_deref()) {
            Some("PreferClose" | "PreferSameZone") => Self::SameZone,
            Some("PreferSameNode") => Self::SameNode,
            _ => Self::None,
        }
    }

    /// Returns the hints of an endpoint; with a preference, an endpoint that is not ready keeps what it has.
    fn hints(self, endpoint: &Endpoint) -> Option<EndpointHints> {
        if self == Self::None {
            return None;
        }
        if endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(true) {
            return endpoint.hints.clone();
        }
        let for_zones = endpoint.zone.clone().map(|name| vec![ForZone { name }]);
        let node = endpoint.node_name.clone().filter(|_| self == Self::SameNode);
        let for_nodes = node.map(|name| vec![ForNode { name }]);
        (for_zones.is_some() || for_nodes.is_some()).then_some(EndpointHints { for_nodes, for_zones })
    }
}

/// Sets the hints of the slices that are written, and adds unchanged slices with other hints to them (`ReconcileHints`,
/// `RemoveHintsFromSlices`).
pub(super) fn reconcile(service: &Service, existing: &[Arc<EndpointSlice>], changes: &mut Changes) {
    let preference = Preference::of(service);
    let is_changed = |slice: &EndpointSlice| {
        changes.update.iter().any(|one| one.name() == slice.name())
            || changes.delete.iter().any(|one| one.name() == slice.name())
    };
    let differs = |slice: &EndpointSlice| {
        slice.endpoints.iter().flatten().any(|endpoint| preference.hints(endpoint) != endpoint.hints)
    };
    let others: Vec<EndpointSlice> = existing
        .iter()
        .filter(|slice| !is_changed(slice) && differs(slice))
        .map(|slice| EndpointSlice::clone(slice))
        .collect();
    changes.update.extend(others);
    for slice in changes.create.iter_mut().chain(&mut changes.update) {
        for endpoint in slice.endpoints.iter_mut().flatten() {
            endpoint.hints = preference.hints(endpoint);
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn service(distribution: &str, mode: &str) -> Service {
        let metadata = json!({ "name": "web", "annotations": { "service.kubernetes.io/topology-mode": mode } });
        from_value(json!({ "metadata": metadata, "spec": { "trafficDistribution": distribution } })).unwrap()
    }

    fn slice(ready: bool, hints: &Value) -> Arc<EndpointSlice> {
        let endpoint = json!({ "addresses": ["10.0.0.1"], "conditions": { "ready": ready }, "nodeName": "n",
            "zone": "a", "hints": hints });
        Arc::new(
            from_value(json!({ "metadata": { "name": "s" }, "addressType": "IPv4", "endpoints": [endpoint] })).unwrap(),
        )
    }

    #[rstest]
    #[case::zone("PreferClose", "", true, json!({ "forZones": [{ "name": "a" }] }))]
    #[case::zone_by_its_new_name("PreferSameZone", "", true, json!({ "forZones": [{ "name": "a" }] }))]
    #[case::node("PreferSameNode", "", true, json!({ "forZones": [{ "name": "a" }], "forNodes": [{ "name": "n" }] }))]
    #[case::not_ready("PreferClose", "", false, json!(null))]
    #[case::mode("PreferClose", "Auto", true, json!(null))]
    fn a_service_that_prefers_near_endpoints_has_hints(
        #[case] distribution: &str,
        #[case] mode: &str,
        #[case] ready: bool,
        #[case] expected: Value,
    ) {
        let service = service(distribution, mode);
        let mut changes =
            Changes { create: vec![EndpointSlice::clone(&slice(ready, &json!(null)))], ..Changes::default() };
        reconcile(&service, &[], &mut changes);
        let hints = changes.create[0].endpoints.as_ref().unwrap()[0].hints.clone();
        assert_eq!(hints, from_value(expected.clone()).unwrap());
        // A slice that has them is not written again.
        let mut changes = Changes::default();
        reconcile(&service, &[slice(ready, &expected)], &mut changes);
        assert!(changes.update.is_empty(), "{changes:?}");
    }

    #[test]
    fn hints_that_are_wanted_no_more_are_removed() {
        let mut changes = Changes::default();
        let hints = json!({ "forZones": [{ "name": "a" }] });
        reconcile(&service("", ""), &[slice(true, &hints)], &mut changes);
        assert_eq!(changes.update.len(), 1);
        assert_eq!(changes.update[0].endpoints.as_ref().unwrap()[0].hints, None);
    }
}
