//! One CSIStorageCapacity object: the request to the driver, and the write that the answer needs (upstream
//! `syncCapacity`).

use std::collections::BTreeMap;

use csi_proto::csi::{GetCapacityRequest, GetCapacityResponse, Topology};
use k8s_openapi::api::storage::v1::{CSIStorageCapacity, StorageClass};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::items::Item;
use crate::binder::quantity;
use crate::kube::Kind;

/// Namespace of the objects: that of the sidecar's Lease.
pub const NAMESPACE: &str = "kube-system";
/// Label with the name of the driver.
pub const DRIVER_LABEL: &str = "csi.storage.k8s.io/drivername";
/// Label with the manager of the object.
pub const MANAGED_BY_LABEL: &str = "csi.storage.k8s.io/managed-by";
/// Value of [`MANAGED_BY_LABEL`] for a central provisioner.
pub const MANAGED_BY: &str = "external-provisioner";

/// Returns the label selector of a driver's objects.
pub fn selector(driver: &str) -> String {
    format!("{DRIVER_LABEL}={driver},{MANAGED_BY_LABEL}={MANAGED_BY}")
}

/// Returns true if the labels of an object name the driver and this manager.
pub fn is_managed(object: &CSIStorageCapacity, driver: &str) -> bool {
    object.label(DRIVER_LABEL) == Some(driver) && object.label(MANAGED_BY_LABEL) == Some(MANAGED_BY)
}

/// Returns the request for the capacity of an item.
pub fn request(item: &Item, class: &StorageClass) -> GetCapacityRequest {
    GetCapacityRequest {
        // The capacity does not depend on the access mode.
        volume_capabilities: Vec::new(),
        parameters: class.parameters.clone().unwrap_or_default(),
        accessible_topology: Some(Topology { segments: item.segment.clone() }),
    }
}

/// Write of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// The object is new.
    Create(Box<CSIStorageCapacity>),
    /// The object has other values.
    Replace(Box<CSIStorageCapacity>),
}

/// Returns the write that the driver's answer needs; None if the object has the values already.
pub fn write(
    driver: &str,
    item: &Item,
    old: Option<&CSIStorageCapacity>,
    answer: &GetCapacityResponse,
) -> Option<Write> {
    let capacity = Some(quantity::bytes(answer.available_capacity));
    let maximum_volume_size = answer.maximum_volume_size.map(quantity::bytes);
    let Some(old) = old else {
        let labels = [(DRIVER_LABEL, driver), (MANAGED_BY_LABEL, MANAGED_BY)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        return Some(Write::Create(Box::new(CSIStorageCapacity {
            metadata: ObjectMeta {
                generate_name: Some("csisc-".to_owned()),
                labels: Some(BTreeMap::from(labels)),
                ..ObjectMeta::default()
            },
            storage_class_name: item.class.clone(),
            node_topology: Some(LabelSelector {
                match_labels: Some(item.segment.clone()).filter(|labels| !labels.is_empty()),
                match_expressions: None,
            }),
            capacity,
            maximum_volume_size,
        })));
    };
    if same(old.capacity.as_ref(), capacity.as_ref())
        && same(old.maximum_volume_size.as_ref(), maximum_volume_size.as_ref())
    {
        return None;
    }
    let mut new = Box::new(old.clone());
    new.capacity = capacity;
    new.maximum_volume_size = maximum_volume_size;
    Some(Write::Replace(new))
}

/// Compares the values of quantities, however they are written.
fn same(a: Option<&Quantity>, b: Option<&Quantity>) -> bool {
    a.map(quantity::value) == b.map(quantity::value)
}
