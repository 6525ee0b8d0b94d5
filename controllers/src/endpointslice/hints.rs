//! Hints that keep traffic in the zone or on the node of its client (`trafficdist`), or that share it in proportion to
//! the sizes of zones ([`topology`]).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointSlice, ForNode, ForZone};

use super::reconcile::Changes;
use super::topology::{self, Zones};
use crate::kube::Kind;

/// Hints that a Service asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preference {
    None,
    SameZone,
    SameNode,
}

impl Preference {
    /// Returns the preference of a Service (`validTrafficDistribution`).
    fn of(service: &Service) -> Self {
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

/// Sets the hints of the slices of one family that are written, and adds unchanged slices with other hints to them
/// (`ReconcileHints`, `RemoveHintsFromSlices`).
pub(super) fn reconcile(
    service: &Service,
    family: &str,
    existing: &[Arc<EndpointSlice>],
    zones: &mut Zones,
    changes: &mut Changes,
) {
    let is_changed = |slice: &EndpointSlice| {
        changes.update.iter().any(|one| one.name() == slice.name())
            || changes.delete.iter().any(|one| one.name() == slice.name())
    };
    let unchanged: Vec<Arc<EndpointSlice>> = existing.iter().filter(|slice| !is_changed(slice)).cloned().collect();
    if topology::is_asked_for(service) {
        zones.add_hints(service, family, unchanged, changes);
        return;
    }
    zones.not_asked_for(service, family, changes);
    let preference = Preference::of(service);
    let differs = |slice: &EndpointSlice| {
        slice.endpoints.iter().flatten().any(|endpoint| preference.hints(endpoint) != endpoint.hints)
    };
    let others = unchanged.iter().filter(|slice| differs(slice)).map(|slice| EndpointSlice::clone(slice));
    changes.update.extend(others);
    changes.endpoints().for_each(|endpoint| endpoint.hints = preference.hints(endpoint));
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
        reconcile(&service, "IPv4", &[], &mut Zones::new(), &mut changes);
        let hints = changes.create[0].endpoints.as_ref().unwrap()[0].hints.clone();
        assert_eq!(hints, from_value(expected.clone()).unwrap());
        // A slice that has them is not written again.
        let mut changes = Changes::default();
        reconcile(&service, "IPv4", &[slice(ready, &expected)], &mut Zones::new(), &mut changes);
        assert!(changes.update.is_empty(), "{changes:?}");
    }

    #[test]
    fn hints_that_are_wanted_no_more_are_removed() {
        let mut changes = Changes::default();
        let hints = json!({ "forZones": [{ "name": "a" }] });
        reconcile(&service("", ""), "IPv4", &[slice(true, &hints)], &mut Zones::new(), &mut changes);
        assert_eq!(changes.update.len(), 1);
        assert_eq!(changes.update[0].endpoints.as_ref().unwrap()[0].hints, None);
    }
}
