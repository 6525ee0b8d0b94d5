//! New slices and their labels (`newEndpointSlice`, `setEndpointSliceLabels`).

use std::collections::BTreeMap;

use k8s_openapi::Resource as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::kube::Kind;
use crate::workload::controller_ref::controller_ref;
use crate::workload::pod_template::prefix;

/// Label with the name of the Service.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label with the name of the slice's controller.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Name of this controller in the label.
pub(super) const CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// Label of slices of a Service without a cluster IP.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";

/// Labels that a slice does not get from its Service (`isReservedLabelKey`).
const OWN: [&str; 3] = [SERVICE_NAME, MANAGED_BY, HEADLESS];

/// Returns the labels of a Service's slices.
pub(super) fn labels(service: &Service) -> BTreeMap<String, String> {
    let given = service.metadata.labels.iter().flatten().filter(|(name, _)| !OWN.contains(&name.as_str()));
    let mut labels: BTreeMap<String, String> = given.map(|(name, value)| (name.clone(), value.clone())).collect();
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(SERVICE_NAME.to_owned(), service.name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    labels
}

/// Returns true if the Service has no cluster IP.
pub(crate) fn is_headless(service: &Service) -> bool {
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    matches!(address, None | Some("" | "None"))
}

/// Returns true if the labels that a slice has from its Service are not the Service's (`setEndpointSliceLabels`). The
/// labels of this controller do not count.
pub(super) fn labels_differ(slice: &EndpointSlice, service: &Service) -> bool {
    let given = |labels: Option<&BTreeMap<String, String>>| -> BTreeMap<String, String> {
        let all = labels.into_iter().flatten().filter(|(name, _)| !OWN.contains(&name.as_str()));
        all.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    given(slice.metadata.labels.as_ref()) != given(service.metadata.labels.as_ref())
}

/// Returns true if the Service owns the slice (`ownedBy`).
pub(super) fn is_owned_by(slice: &EndpointSlice, service: &Service) -> bool {
    let owners = slice.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|of| of.uid == service.uid() && of.kind == Service::KIND && of.api_version == "v1")
}

/// Builds an empty slice.
pub(super) fn new_slice(service: &Service, family: &str, ports: &[EndpointPort]) -> EndpointSlice {
    let metadata = ObjectMeta {
        generate_name: Some(prefix(service.name())),
        namespace: Some(service.namespace().to_owned()),
        labels: Some(labels(service)),
        owner_references: Some(vec![controller_ref(service)]),
        ..ObjectMeta::default()
    };
    EndpointSlice {
        address_type: family.to_owned(),
        endpoints: Some(Vec::new()),
        metadata,
        ports: Some(ports.to_vec()),
    }
}

/// Returns the families of a Service's addresses (`getAddressTypesForService`).
pub(crate) fn families(service: &Service) -> Vec<String> {
    let given = service.spec.as_ref().and_then(|spec| spec.ip_families.clone()).unwrap_or_default();
    if given.is_empty() { vec!["IPv4".to_owned()] } else { given }
}
