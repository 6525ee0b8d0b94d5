//! Order of the ports of a slice (`portsInOrder`): by the hash of a dump of the Go value.

use k8s_openapi::api::discovery::v1::EndpointPort;

use crate::workload::hash::fnv1a_128;

/// Returns the text of a Go value of this type (`dump.ForHash`).
fn dump(port: &EndpointPort) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "<nil>".to_owned());
    format!(
        "(v1.EndpointPort){{Name:(*string){} Protocol:(*v1.Protocol){} Port:(*int32){} AppProtocol:(*string){}}}",
        text(&port.name),
        text(&port.protocol),
        text(&port.port.map(|number| number.to_string())),
        text(&port.app_protocol),
    )
}

/// Returns the ports in upstream's order.
pub(crate) fn in_order(mut ports: Vec<EndpointPort>) -> Vec<EndpointPort> {
    ports.sort_by_cached_key(|port| fnv1a_128(dump(port).into_bytes()));
    ports
}
