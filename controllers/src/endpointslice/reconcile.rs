//! Changes of a Service's slices (`reconcileByAddressType`, `reconcileByPortMapping`, `finalize`).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};

use super::hints;
use super::slices::{is_owned_by, labels, labels_differ, new_slice};
use super::topology::Zones;
use crate::kube::Kind;
use crate::workload::key;

/// Largest number of endpoints of a slice (`--max-endpoints-per-slice`).
pub(super) const MOST: usize = 100;

/// Writes for the slices of a Service.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) update: Vec<EndpointSlice>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
    /// Type, reason and message of Events about the Service.
    pub(super) events: Vec<(&'static str, &'static str, String)>,
}

impl Changes {
    /// Adds an Event about the addresses of one family.
    pub(super) fn event(&mut self, kind: &'static str, reason: &'static str, message: &str, family: &str) {
        self.events.push((kind, reason, format!("{message}, addressType: {family}")));
    }

    /// Returns the endpoints that are written.
    pub(super) fn endpoints(&mut self) -> impl Iterator<Item = &mut Endpoint> {
        self.create.iter_mut().chain(&mut self.update).flat_map(|slice| slice.endpoints.iter_mut().flatten())
    }
}

/// Endpoints of equal ports and one family.
#[derive(Clone, Debug)]
pub(super) struct Desired {
    pub(super) family: String,
    pub(super) ports: Vec<EndpointPort>,
    pub(super) endpoints: Vec<Endpoint>,
}

/// Identity of an endpoint (`hashEndpoint`): addresses, host name, and namespace and name of the pod. A pod that was
/// created again with its address is the same endpoint.
fn identity(endpoint: &Endpoint) -> (Vec<String>, Option<String>, Option<[Option<String>; 2]>) {
    let mut addresses = endpoint.addresses.clone();
    addresses.sort();
    let target = endpoint.target_ref.as_ref().map(|target| [target.namespace.clone(), target.name.clone()]);
    (addresses, endpoint.hostname.clone(), target)
}

/// Returns true if an endpoint of the same identity must be written (`EndpointsEqualBeyondHash`). Hints do not count.
fn differs(wanted: &Endpoint, present: &Endpoint) -> bool {
    let target = |endpoint: &Endpoint| {
        endpoint.target_ref.clone().map(|target| ObjectReference { resource_version: None, ..target })
    };
    wanted.node_name != present.node_name
        || wanted.zone != present.zone
        || wanted.conditions != present.conditions
        || target(wanted) != target(present)
}

/// Returns ports in an order that does not depend on the Service (`NewPortMapKey`).
fn port_key(ports: &[EndpointPort]) -> Vec<(String, i32, String, String)> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let of = |port: &EndpointPort| {
        (text(&port.name), port.port.unwrap_or(0), text(&port.protocol), text(&port.app_protocol))
    };
    let mut key: Vec<_> = ports.iter().map(of).collect();
    key.sort();
    key
}

/// Compares the slices of a Service with its endpoints: changes of each of its `families`, and then the slices of other
/// families.
pub(super) fn reconcile(
    service: &Service,
    families: &[String],
    desired: &[Desired],
    existing: Vec<Arc<EndpointSlice>>,
    zones: &mut Zones,
) -> Vec<Changes> {
    let mut all = Vec::new();
    let mut foreign = Changes::default();
    let mut by_family: BTreeMap<&str, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in existing {
        match families.iter().find(|family| **family == slice.address_type) {
            Some(family) => by_family.entry(family).or_default().push(slice),
            None => {
                zones.remove(&key(service), &slice.address_type);
                foreign.delete.push(slice);
            }
        }
    }
    for family in families {
        let existing = by_family.remove(family.as_str()).unwrap_or_default();
        let of_family = desired.iter().filter(|desired| desired.family == *family);
        let mut changes = by_address_type(service, family, of_family, &existing, zones);
        reuse(service, &mut changes);
        all.push(changes);
    }
    all.push(foreign);
    all
}

/// Uses slices that go for slices that come (`finalize`).
fn reuse(service: &Service, changes: &mut Changes) {
    let mut rest = Vec::new();
    for slice in std::mem::take(&mut changes.delete) {
        match changes.create.pop_if(|_| is_owned_by(&slice, service)) {
            Some(mut new) => {
                new.metadata.name.clone_from(&slice.metadata.name);
                changes.update.push(new);
            }
            None => rest.push(slice),
        }
    }
    changes.delete = rest;
}

fn by_address_type<'a>(
    service: &Service,
    family: &str,
    desired: impl Iterator<Item = &'a Desired>,
    existing: &[Arc<EndpointSlice>],
    zones: &mut Zones,
) -> Changes {
    let mut changes = Changes::default();
    let (own, stray): (Vec<_>, Vec<_>) = existing.iter().cloned().partition(|slice| is_owned_by(slice, service));
    changes.delete = stray;
    let key = |slice: &EndpointSlice| port_key(slice.ports.as_deref().unwrap_or_default());
    let mut wanted = Vec::new();
    for one in desired {
        let ports = port_key(&one.ports);
        let slices: Vec<_> = own.iter().filter(|slice| key(slice) == ports).cloned().collect();
        by_port_mapping(service, one, &slices, &mut changes);
        wanted.push(ports);
    }
    changes.delete.extend(own.iter().filter(|slice| !wanted.contains(&key(slice))).cloned());
    // A Service without endpoints keeps one empty slice.
    if changes.delete.len() == existing.len() && changes.create.is_empty() {
        let placeholder = new_slice(service, family, &[]);
        let is_placeholder = |slice: &EndpointSlice| {
            slice.endpoints.as_ref().is_none_or(Vec::is_empty)
                && slice.ports.as_ref().is_none_or(Vec::is_empty)
                && slice.metadata.labels == placeholder.metadata.labels
        };
        match &changes.delete[..] {
            [one] if is_placeholder(one) => changes.delete.clear(),
            _ => changes.create.push(placeholder),
        }
    }
    hints::reconcile(service, family, existing, zones, &mut changes);
    changes
}

fn by_port_mapping(service: &Service, desired: &Desired, existing: &[Arc<EndpointSlice>], changes: &mut Changes) {
    let mut left: Vec<&Endpoint> = desired.endpoints.iter().collect();
    let labels = labels(service);
    let (mut update, mut unchanged): (Vec<EndpointSlice>, Vec<&Arc<EndpointSlice>>) = (Vec::new(), Vec::new());
    for slice in existing {
        let present = slice.endpoints.as_deref().unwrap_or_default();
        let (mut kept, mut is_changed) = (Vec::new(), false);
        for endpoint in present {
            if let Some(at) = left.iter().position(|wanted| identity(wanted) == identity(endpoint)) {
                let wanted = left.remove(at);
                is_changed |= differs(wanted, endpoint);
                kept.push(wanted.clone());
            }
        }
        if is_changed || kept.len() != present.len() {
            if kept.is_empty() {
                changes.delete.push(slice.clone());
                continue;
            }
        } else if labels_differ(slice, service) {
            // The endpoints stay as they are, with their hints.
            kept = present.to_vec();
        } else {
            unchanged.push(slice);
            continue;
        }
        let mut changed = EndpointSlice::clone(slice);
        changed.endpoints = Some(kept);
        changed.metadata.labels = Some(labels.clone());
        update.push(changed);
    }
    let length = |slice: &EndpointSlice| slice.endpoints.as_ref().map_or(0, Vec::len);
    let fill = |slice: &mut EndpointSlice, left: &mut Vec<&Endpoint>| {
        let room = MOST.saturating_sub(length(slice)).min(left.len());
        slice.endpoints.get_or_insert_default().extend(left.drain(..room).cloned());
    };
    // The fullest changed slices are filled up first.
    update.sort_by_key(|slice| std::cmp::Reverse(length(slice)));
    for slice in &mut update {
        fill(slice, &mut left);
    }
    while !left.is_empty() {
        // An unchanged slice is changed only if it takes all that is left (`getSliceToFill`).
        let fits = |slice: &&&Arc<EndpointSlice>| left.len() < MOST && length(slice) + left.len() <= MOST;
        let best = unchanged.iter().filter(fits).max_by_key(|slice| length(slice)).map(|slice| slice.name().to_owned());
        let mut slice = match best.and_then(|name| unchanged.iter().position(|slice| slice.name() == name)) {
            Some(at) => EndpointSlice::clone(unchanged.remove(at)),
            None => new_slice(service, &desired.family, &desired.ports),
        };
        fill(&mut slice, &mut left);
        if slice.name().is_empty() { changes.create.push(slice) } else { update.push(slice) }
    }
    changes.update.append(&mut update);
}
