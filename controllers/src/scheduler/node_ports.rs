//! Host ports of pods (`framework/plugins/nodeports`, `HostPortInfo`).

use k8s_openapi::api::core::v1::Pod;

/// Reason of NodePorts (`nodeports.ErrReason`).
pub const PORTS_TAKEN: &str = "node(s) didn't have free ports for the requested pod ports";

/// Address that stands for all addresses of a node.
const ANY: &str = "0.0.0.0";

/// Port of the node that a container uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostPort<'a> {
    ip: &'a str,
    protocol: &'a str,
    port: i32,
}

impl HostPort<'_> {
    fn conflicts(&self, other: &HostPort<'_>) -> bool {
        let meets = self.ip == ANY || other.ip == ANY || self.ip == other.ip;
        meets && (self.protocol, self.port) == (other.protocol, other.port)
    }
}

/// Returns the host ports of a pod's containers and restartable init containers.
fn host_ports(pod: &Pod) -> impl Iterator<Item = HostPort<'_>> {
    let spec = pod.spec.iter();
    let sidecars = spec.clone().flat_map(|s| s.init_containers.iter().flatten());
    let sidecars = sidecars.filter(|init| init.restart_policy.as_deref() == Some("Always"));
    let containers = sidecars.chain(spec.flat_map(|s| &s.containers));
    containers.flat_map(|c| c.ports.iter().flatten()).filter_map(|port| {
        let (ip, protocol) = (or(&port.host_ip, ANY), or(&port.protocol, "TCP"));
        Some(HostPort { ip, protocol, port: port.host_port.filter(|port| *port > 0)? })
    })
}

fn or<'a>(text: &'a Option<String>, default: &'static str) -> &'a str {
    text.as_deref().filter(|text| !text.is_empty()).unwrap_or(default)
}

/// Returns true if no pod of `others` uses a host port of `pod`.
pub fn ports_free<'a>(pod: &Pod, others: impl IntoIterator<Item = &'a Pod>) -> bool {
    let wanted: Vec<HostPort<'_>> = host_ports(pod).collect();
    wanted.is_empty()
        || others.into_iter().flat_map(host_ports).all(|taken| !wanted.iter().any(|port| port.conflicts(&taken)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn pod(port: Value) -> Pod {
        let containers = json!([{ "name": "c", "ports": [port] }]);
        from_value(json!({ "metadata": { "name": "p" }, "spec": { "containers": containers } })).expect("a pod")
    }

    #[rstest]
    #[case(json!({ "containerPort": 80 }), true)]
    #[case(json!({ "containerPort": 80, "hostPort": 80 }), false)]
    #[case(json!({ "containerPort": 80, "hostPort": 80, "protocol": "UDP" }), true)]
    #[case(json!({ "containerPort": 80, "hostPort": 81 }), true)]
    #[case(json!({ "containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1" }), false)]
    #[case(json!({ "containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.2" }), true)]
    fn a_port_is_taken_per_address_and_protocol(#[case] wanted: Value, #[case] free: bool) {
        let there = pod(json!({ "containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1", "protocol": "TCP" }));
        assert_eq!(ports_free(&pod(wanted), [&there]), free);
    }
}
