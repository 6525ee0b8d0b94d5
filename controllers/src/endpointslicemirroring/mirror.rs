//! Slices of an Endpoints object (`reconciler.go`, `reconciler_helpers.go`, `utils.go`). Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, Endpoints, ObjectReference};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::endpoints::subsets::repack;
use crate::endpointslice::ports::in_order;
use crate::endpointslice::slices::{MANAGED_BY, SERVICE_NAME};
use crate::endpointslice::trigger_time::LAST_CHANGE;
use crate::kube::Kind;
use crate::workload::controller_ref::controller_ref;
use crate::workload::pod_template::prefix;

/// Name of this controller in the label of its slices.
pub(super) const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
/// Most addresses of a subset that are mirrored (`--mirroring-max-endpoints-per-subset`).
pub(super) const MOST: usize = 1000;
/// Label of Endpoints that are not mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotation of Endpoints that elect a leader.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotation of `kubectl apply`.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Changes of the slices of Endpoints.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) update: Vec<EndpointSlice>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
    /// Slices that are as they should be.
    pub(super) kept: Vec<Arc<EndpointSlice>>,
    /// Number of addresses that are not IP addresses.
    pub(super) invalid: usize,
    /// Number of addresses that are not mirrored.
    pub(super) skipped: usize,
}

/// Returns true if Endpoints get slices (`shouldMirror`).
pub(super) fn is_mirrored(endpoints: &Endpoints) -> bool {
    endpoints.label(SKIP) != Some("true") && endpoints.annotation(LEADER).is_none()
}

/// Desired endpoints of one slice.
#[derive(Debug)]
struct Group {
    family: &'static str,
    ports: Vec<EndpointPort>,
    endpoints: Vec<Endpoint>,
}

/// Returns true if two endpoints are the same one (`hashEndpoint`).
fn is_same(one: &Endpoint, other: &Endpoint) -> bool {
    let target = |of: &Endpoint| of.target_ref.clone().map(|of| (of.namespace, of.name)).unwrap_or_default();
    let host = |of: &Endpoint| of.hostname.clone().unwrap_or_default();
    one.addresses == other.addresses && host(one) == host(other) && target(one) == target(other)
}

/// Returns true if the same endpoint has the same attributes (`EndpointsEqualBeyondHash`).
fn is_equal(one: &Endpoint, other: &Endpoint) -> bool {
    let target =
        |of: &Endpoint| of.target_ref.clone().map(|target| ObjectReference { resource_version: None, ..target });
    let conditions = |of: &Endpoint| of.conditions.clone().unwrap_or_default();
    one.node_name == other.node_name
        && one.zone == other.zone
        && conditions(one) == conditions(other)
        && target(one) == target(other)
}

/// Converts an address; none if it is not an IP address (`addressToEndpoint`).
fn endpoint_of(address: &EndpointAddress, ready: bool) -> Option<(&'static str, Endpoint)> {
    let ip: IpAddr = address.ip.parse().ok()?;
    let ip = ip.to_canonical();
    let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone().filter(|name| !name.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    };
    Some((family, endpoint))
}

/// Groups the addresses by ports and family, and counts those that are left out.
fn desired(endpoints: &Endpoints, changes: &mut Changes) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for subset in repack(endpoints.subsets.as_deref().unwrap_or_default()) {
        let of = |port: k8s_openapi::api::core::v1::EndpointPort| EndpointPort {
            app_protocol: port.app_protocol,
            // Go writes the name even if it is empty.
            name: Some(port.name.unwrap_or_default()),
            port: Some(port.port),
            protocol: Some(port.protocol.unwrap_or_default()),
        };
        let ports = in_order(subset.ports.unwrap_or_default().into_iter().map(of).collect());
        for family in ["IPv4", "IPv6"] {
            if !groups.iter().any(|group| group.family == family && group.ports == ports) {
                groups.push(Group { family, ports: ports.clone(), endpoints: Vec::new() });
            }
        }
        let (ready, not_ready) = (subset.addresses.unwrap_or_default(), subset.not_ready_addresses.unwrap_or_default());
        let all: Vec<_> = ready.iter().map(|one| (one, true)).chain(not_ready.iter().map(|one| (one, false))).collect();
        let mut added = 0;
        for &(address, is_ready) in &all {
            if added >= MOST {
                break;
            }
            let Some((family, endpoint)) = endpoint_of(address, is_ready) else {
                changes.invalid += 1;
                continue;
            };
            added += 1;
            let group = groups.iter_mut().find(|group| group.family == family && group.ports == ports);
            let Some(group) = group else { continue };
            match group.endpoints.iter_mut().find(|known| is_same(known, &endpoint)) {
                Some(known) => *known = endpoint,
                None => group.endpoints.push(endpoint),
            }
        }
        changes.skipped += all.len() - added;
    }
    groups
}

/// Returns the annotations that slices get from their Endpoints.
fn annotations(endpoints: &Endpoints) -> BTreeMap<String, String> {
    let mut all = endpoints.metadata.annotations.clone().unwrap_or_default();
    all.retain(|name, _| name != LAST_CHANGE && name != LAST_APPLIED);
    all
}

/// Builds a slice (`newEndpointSlice`), with the name of the slice that it replaces.
fn new_slice(endpoints: &Endpoints, group: &Group, name: Option<String>) -> EndpointSlice {
    let mut labels = endpoints.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), endpoints.name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    let metadata = ObjectMeta {
        generate_name: name.is_none().then(|| prefix(endpoints.name())),
        name,
        namespace: Some(endpoints.namespace().to_owned()),
        labels: Some(labels),
        annotations: Some(annotations(endpoints)).filter(|all| !all.is_empty()),
        owner_references: Some(vec![controller_ref(endpoints)]),
        ..ObjectMeta::default()
    };
    EndpointSlice {
        address_type: group.family.to_owned(),
        endpoints: Some(group.endpoints.iter().take(MOST).cloned().collect()),
        metadata,
        ports: Some(group.ports.clone()),
    }
}

/// Returns true if a slice needs no change.
fn is_whole(endpoints: &Endpoints, slice: &EndpointSlice, group: &Group) -> bool {
    let present = slice.endpoints.as_deref().unwrap_or_default();
    let found = |one: &Endpoint| group.endpoints.iter().find(|wanted| is_same(wanted, one));
    let mut labels = slice.metadata.labels.clone().unwrap_or_default();
    labels.remove(MANAGED_BY);
    labels.remove(SERVICE_NAME);
    // Endpoints of the same name were deleted and created again.
    let is_older = slice
        .metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| owner.kind == "Endpoints" && owner.name == endpoints.name() && owner.uid != endpoints.uid());
    present.len() == group.endpoints.len()
        && present.iter().all(|one| found(one).is_some_and(|wanted| is_equal(wanted, one)))
        && labels == endpoints.metadata.labels.clone().unwrap_or_default()
        && slice.metadata.annotations.clone().unwrap_or_default() == annotations(endpoints)
        && !is_older
}

/// Compares Endpoints with their slices (`reconcile`).
pub(super) fn reconcile(endpoints: &Endpoints, slices: Vec<Arc<EndpointSlice>>) -> Changes {
    let mut changes = Changes::default();
    let groups = desired(endpoints, &mut changes);
    let is_of = |slice: &EndpointSlice, group: &Group| {
        slice.address_type == group.family && in_order(slice.ports.clone().unwrap_or_default()) == group.ports
    };
    for group in &groups {
        let mut own: Vec<_> = slices.iter().filter(|slice| is_of(slice, group)).cloned().collect();
        if group.endpoints.is_empty() {
            changes.delete.append(&mut own);
            continue;
        }
        if own.is_empty() {
            changes.create.push(new_slice(endpoints, group, None));
            continue;
        }
        let first = own.remove(0);
        changes.delete.append(&mut own);
        if is_whole(endpoints, &first, group) {
            changes.kept.push(first);
        } else {
            changes.update.push(new_slice(endpoints, group, Some(first.name().to_owned())));
        }
    }
    changes.delete.extend(slices.iter().filter(|slice| !groups.iter().any(|group| is_of(slice, group))).cloned());
    recycle(&mut changes);
    changes
}

/// Updates slices that would be deleted, instead of creating others of their family (`recycleSlices`).
fn recycle(changes: &mut Changes) {
    for family in ["IPv4", "IPv6"] {
        loop {
            let new = changes.create.iter().position(|slice| slice.address_type == family);
            let old = changes.delete.iter().position(|slice| slice.address_type == family);
            let (Some(new), Some(old)) = (new, old) else { break };
            let (mut slice, old) = (changes.create.remove(new), changes.delete.remove(old));
            slice.metadata.name.clone_from(&old.metadata.name);
            changes.update.push(slice);
        }
    }
}
