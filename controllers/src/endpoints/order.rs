//! Order of the parts of Endpoints (`SortSubsets`): addresses by their text, ports and subsets by the hash of a dump of the
//! Go value.

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, ObjectReference};

use crate::workload::hash::fnv1a_128;

/// Returns the key of an address (`LessEndpointAddress`): its text, and the uid of its pod.
pub(super) fn address_key(address: &EndpointAddress) -> (String, Option<String>) {
    let uid = address.target_ref.as_ref().map(|target| target.uid.clone().unwrap_or_default());
    (address.ip.clone(), uid)
}

/// Sorts the ports of each subset, and the subsets. Their addresses are in order.
pub(super) fn sort(subsets: &mut [EndpointSubset]) {
    for subset in subsets.iter_mut() {
        if let Some(ports) = &mut subset.ports {
            ports.sort_by_cached_key(|port| fnv1a_128(format!("(v1.EndpointPort){}", dump_port(port)).into_bytes()));
        }
    }
    subsets.sort_by_cached_key(|subset| fnv1a_128(dump(subset).into_bytes()));
}

fn pointer(text: Option<&str>) -> &str {
    text.unwrap_or("<nil>")
}

fn dump_port(port: &EndpointPort) -> String {
    format!(
        "{{Name:(string){} Port:(int32){} Protocol:(v1.Protocol){} AppProtocol:(*string){}}}",
        port.name.as_deref().unwrap_or_default(),
        port.port,
        port.protocol.as_deref().unwrap_or_default(),
        pointer(port.app_protocol.as_deref()),
    )
}

fn dump_target(of: &ObjectReference) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!(
        "{{Kind:(string){} Namespace:(string){} Name:(string){} UID:(types.UID){} APIVersion:(string){} \
         ResourceVersion:(string){} FieldPath:(string){}}}",
        text(&of.kind),
        text(&of.namespace),
        text(&of.name),
        text(&of.uid),
        text(&of.api_version),
        text(&of.resource_version),
        text(&of.field_path),
    )
}

fn dump_address(address: &EndpointAddress) -> String {
    let target = address.target_ref.as_ref().map(dump_target);
    format!(
        "{{IP:(string){} Hostname:(string){} NodeName:(*string){} TargetRef:(*v1.ObjectReference){}}}",
        address.ip,
        address.hostname.as_deref().unwrap_or_default(),
        pointer(address.node_name.as_deref()),
        pointer(target.as_deref()),
    )
}

/// Returns the text of a list; an empty one is nil.
fn dump_all<T>(all: Option<&Vec<T>>, dump: fn(&T) -> String) -> String {
    let texts: Vec<String> = all.into_iter().flatten().map(dump).collect();
    if texts.is_empty() { "<nil>".to_owned() } else { format!("[{}]", texts.join(" ")) }
}

/// Returns the text of the Go value of a subset (`dump.ForHash`).
fn dump(subset: &EndpointSubset) -> String {
    format!(
        "(v1.EndpointSubset){{Addresses:([]v1.EndpointAddress){} NotReadyAddresses:([]v1.EndpointAddress){} \
         Ports:([]v1.EndpointPort){}}}",
        dump_all(subset.addresses.as_ref(), dump_address),
        dump_all(subset.not_ready_addresses.as_ref(), dump_address),
        dump_all(subset.ports.as_ref(), dump_port),
    )
}
