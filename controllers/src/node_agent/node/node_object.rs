//! The Node object as kubelet writes it: first registration, status, and the patch between two statuses (upstream
//! `pkg/kubelet/kubelet_node_status.go`, `nodestatus/setters.go`).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest, Sha256};

use crate::kube::time;
use crate::machine::api::POD_ADDRESSES;
use crate::node_agent::config::NodeAgentConfig;
use crate::scheduler::resources::is_extended;

/// Annotation that leaves attaching to the attach-detach controller instead of kubelet.
pub const CONTROLLER_MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// Version that the agent reports as kubelet's.
const KUBELET_VERSION: &str = "v1.36.2";

/// Inputs of the status loop at a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusInputs {
    /// Wall time of the tick.
    pub now: Timestamp,
    /// Reason why the node is not ready; None if it is ready.
    pub not_ready: Option<String>,
    /// `status.volumesInUse`. None until reconstruction is done; the old list stays until then.
    pub volumes_in_use: Option<Vec<String>>,
}

/// Returns the labels that kubelet owns.
pub fn labels(config: &NodeAgentConfig) -> BTreeMap<String, String> {
    let own = [
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/hostname", &config.node_name),
        ("node.kubernetes.io/instance-type", &config.instance_type),
        ("topology.kubernetes.io/region", &config.region),
        ("topology.kubernetes.io/zone", &config.zone),
    ];
    let own = own.iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    config.labels.clone().into_iter().chain(own).collect()
}

/// Returns the node's address inside the modelled network: configured, or derived from the instance id.
pub fn internal_ip(config: &NodeAgentConfig) -> String {
    config.internal_ip.clone().unwrap_or_else(|| derived_ip(&config.instance_id).to_string())
}

/// Returns the address of the pod with the sandbox number `sandbox`. Each node has a /24 of its own: its address is
/// unique in the last two bytes, in the cloud of this project for the first 32,000 instances.
pub fn pod_ip(config: &NodeAgentConfig, sandbox: u64) -> String {
    let host = u8::try_from(sandbox % POD_ADDRESSES).expect("a remainder of 253 is a byte") + 2;
    // A user's node may have a name instead of an address.
    let node = internal_ip(config).parse().unwrap_or_else(|_| derived_ip(&config.node_name));
    let [_, _, third, fourth] = node.octets();
    Ipv4Addr::new(10, 128 | third, fourth, host).to_string()
}

fn derived_ip(name: &str) -> Ipv4Addr {
    let hash = Sha256::digest(name);
    // A host part of 0 or 255 would be a network or broadcast address.
    Ipv4Addr::new(172, 31, hash[0], hash[1] % 254 + 1)
}

/// Builds the object that registers the node.
pub fn initial(config: &NodeAgentConfig, inputs: &StatusInputs) -> Node {
    Node {
        metadata: ObjectMeta {
            name: Some(config.node_name.clone()),
            labels: Some(labels(config)),
            annotations: Some(BTreeMap::from([(CONTROLLER_MANAGED.to_owned(), "true".to_owned())])),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec { provider_id: Some(provider_id(config)), ..NodeSpec::default() }),
        status: Some(status(config, inputs, &NodeStatus::default())),
    }
}

/// Returns `spec.providerID`: `aws:///<zone>/<instance>`.
pub fn provider_id(config: &NodeAgentConfig) -> String {
    format!("aws:///{}/{}", config.zone, config.instance_id)
}

/// Adds the missing labels and annotation to an existing node (`tryRegisterWithAPIServer`). Returns None if it has them
/// all.
pub fn adopted(config: &NodeAgentConfig, existing: &Node) -> Option<Node> {
    let mut node = existing.clone();
    node.metadata.labels.get_or_insert_default().extend(labels(config));
    node.metadata.annotations.get_or_insert_default().insert(CONTROLLER_MANAGED.to_owned(), "true".to_owned());
    (node != *existing).then_some(node)
}

/// Builds the agent's status from the existing one.
pub fn status(config: &NodeAgentConfig, inputs: &StatusInputs, existing: &NodeStatus) -> NodeStatus {
    // Fields that are rewritten below are not copied.
    let NodeStatus { node_info, conditions, volumes_in_use, .. } = existing;
    let mut status = NodeStatus {
        addresses: None,
        allocatable: None,
        capacity: None,
        conditions: None,
        config: existing.config.clone(),
        daemon_endpoints: None,
        declared_features: existing.declared_features.clone(),
        features: existing.features.clone(),
        images: existing.images.clone(),
        node_info: None,
        phase: existing.phase.clone(),
        runtime_handlers: existing.runtime_handlers.clone(),
        volumes_attached: existing.volumes_attached.clone(),
        volumes_in_use: None,
    };
    // Other clients advertise extended resources in the capacity (`MachineInfo`).
    let mut capacity = existing.capacity.clone().unwrap_or_default();
    capacity.extend(config.capacity.iter().map(|(k, v)| (k.clone(), Quantity(v.clone()))));
    capacity.insert("pods".to_owned(), Quantity(config.max_pods.to_string()));
    let mut allocatable = existing.allocatable.clone().unwrap_or_default();
    allocatable.retain(|name, _| !is_extended(name));
    allocatable.extend(capacity.clone());
    status.allocatable = Some(allocatable);
    status.capacity = Some(capacity);
    let ip = internal_ip(config);
    let address = |type_: &str, address: &str| NodeAddress { type_: type_.to_owned(), address: address.to_owned() };
    let external = config.external_ip.iter().map(|ip| address("ExternalIP", ip));
    let inner = std::iter::once(address("InternalIP", &ip));
    status.addresses = Some(inner.chain(external).chain([address("Hostname", &config.node_name)]).collect());
    status.daemon_endpoints =
        Some(NodeDaemonEndpoints { kubelet_endpoint: Some(DaemonEndpoint { port: config.kubelet_port.into() }) });
    status.node_info = Some(NodeSystemInfo {
        architecture: "amd64".to_owned(),
        operating_system: "linux".to_owned(),
        os_image: "Mooring".to_owned(),
        kubelet_version: KUBELET_VERSION.to_owned(),
        container_runtime_version: format!("mooring://{}", env!("CARGO_PKG_VERSION")),
        system_uuid: config.instance_id.clone(),
        machine_id: config.instance_id.clone(),
        ..node_info.clone().unwrap_or_default()
    });
    let (ready, reason, message) = match &inputs.not_ready {
        None => ("True", "KubeletReady", "kubelet is posting ready status"),
        Some(why) => ("False", "KubeletNotReady", why.as_str()),
    };
    let wanted = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", ready, reason, message),
    ];
    let mut conditions = conditions.clone().unwrap_or_default();
    for (type_, value, reason, message) in wanted {
        let at = conditions.iter().position(|c| c.type_ == type_).unwrap_or_else(|| {
            conditions.push(NodeCondition { type_: type_.to_owned(), ..NodeCondition::default() });
            conditions.len() - 1
        });
        let condition = &mut conditions[at];
        if condition.status != value {
            value.clone_into(&mut condition.status);
            condition.last_transition_time = Some(time(inputs.now));
        }
        condition.last_heartbeat_time = Some(time(inputs.now));
        condition.reason = Some(reason.to_owned());
        condition.message = Some(message.to_owned());
    }
    status.conditions = Some(conditions);
    status.volumes_in_use = match &inputs.volumes_in_use {
        Some(volumes) => (!volumes.is_empty()).then(|| volumes.clone()),
        None => volumes_in_use.clone(),
    };
    status
}

/// Returns true if two statuses differ in more than heartbeat times.
pub fn changed(old: &NodeStatus, new: &NodeStatus) -> bool {
    let same = |(a, b): (&NodeCondition, &NodeCondition)| {
        let NodeCondition { last_heartbeat_time: _, last_transition_time, message, reason, status, type_ } = a;
        *type_ == b.type_
            && *status == b.status
            && *reason == b.reason
            && *message == b.message
            && *last_transition_time == b.last_transition_time
    };
    let still = |a: &Option<Vec<NodeCondition>>, b: &Option<Vec<NodeCondition>>| match (a, b) {
        (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(same),
        (a, b) => a == b,
    };
    let NodeStatus {
        addresses,
        allocatable,
        capacity,
        conditions,
        config,
        daemon_endpoints,
        declared_features,
        features,
        images,
        node_info,
        phase,
        runtime_handlers,
        volumes_attached,
        volumes_in_use,
    } = old;
    *volumes_in_use != new.volumes_in_use
        || !still(conditions, &new.conditions)
        || *addresses != new.addresses
        || *allocatable != new.allocatable
        || *capacity != new.capacity
        || *config != new.config
        || *daemon_endpoints != new.daemon_endpoints
        || *declared_features != new.declared_features
        || *features != new.features
        || *images != new.images
        || *node_info != new.node_info
        || *phase != new.phase
        || *runtime_handlers != new.runtime_handlers
        || *volumes_attached != new.volumes_attached
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use csi_disk::MemoryDisks;
    use substrate::Now;

    use substrate::json::{Value, json};

    use super::*;
    use crate::kube::Patch;
    use crate::node_agent::config::Plugins;

    fn config() -> NodeAgentConfig {
        let plugins = Plugins::Directory("/nowhere".into());
        let runtime = substrate::HttpService::new(|_| Box::pin(std::future::pending()));
        NodeAgentConfig::new("node-a", "i-0abc", "us-east-1a", MemoryDisks::new().node("node-a"), plugins, runtime)
    }

    fn inputs(second: u64, not_ready: Option<&str>, volumes: Option<&[&str]>) -> StatusInputs {
        StatusInputs {
            now: Now::at(Duration::from_secs(second)).wall,
            not_ready: not_ready.map(str::to_owned),
            volumes_in_use: volumes.map(|v| v.iter().map(|s| (*s).to_owned()).collect()),
        }
    }

    #[test]
    fn a_new_node_carries_labels_provider_id_and_the_attach_detach_annotation() {
        let node = initial(&config(), &inputs(0, Some("CSINode is not yet initialized"), None));
        let labels = node.metadata.labels.clone().unwrap_or_default();
        assert_eq!(labels["topology.kubernetes.io/zone"], "us-east-1a");
        assert_eq!(labels["topology.kubernetes.io/region"], "us-east-1");
        assert_eq!(labels["kubernetes.io/hostname"], "node-a");
        assert_eq!(node.spec.and_then(|s| s.provider_id).as_deref(), Some("aws:///us-east-1a/i-0abc"));
        assert_eq!(node.metadata.annotations.unwrap_or_default()[CONTROLLER_MANAGED], "true");
        let status = node.status.unwrap_or_default();
        let ready = status.conditions.unwrap_or_default().pop().unwrap_or_default();
        assert_eq!((ready.type_.as_str(), ready.status.as_str()), ("Ready", "False"));
        assert_eq!(status.capacity.unwrap_or_default()["pods"], Quantity("110".to_owned()));
    }

    #[test]
    fn the_pods_of_a_thousand_nodes_share_no_address() {
        let of = |node: u64, sandbox| {
            // The addresses that the cloud gives to its instances.
            let internal_ip = Some(format!("10.1.{}.{}", node / 250, node % 250 + 4));
            pod_ip(&NodeAgentConfig { internal_ip, node_name: format!("node-{node}"), ..config() }, sandbox)
        };
        let all: BTreeSet<String> = (0..1000).flat_map(|node| [of(node, 0), of(node, 109)]).collect();
        assert_eq!(all.len(), 2000);
        let named = NodeAgentConfig { internal_ip: Some("node-a.internal".to_owned()), ..config() };
        assert!(pod_ip(&named, 0).starts_with("10."));
    }

    #[test]
    fn heartbeats_alone_are_no_change() {
        let config = config();
        let first = status(&config, &inputs(0, None, Some(&[])), &NodeStatus::default());
        let later = status(&config, &inputs(10, None, Some(&[])), &first);
        assert!(!changed(&first, &later));
        assert!(changed(&first, &status(&config, &inputs(10, None, Some(&["v"])), &first)));
    }

    #[test]
    fn extended_resources_stay_and_can_be_allocated() {
        let config = config();
        let mut first = status(&config, &inputs(0, None, None), &NodeStatus::default());
        first.capacity.get_or_insert_default().insert("example.com/gpu".to_owned(), Quantity("4".to_owned()));
        let second = status(&config, &inputs(10, None, None), &first);
        assert_eq!(second.capacity, first.capacity);
        assert_eq!(second.allocatable, first.capacity);
        let removed = NodeStatus { capacity: None, ..second };
        let third = status(&config, &inputs(20, None, None), &removed);
        assert!(!third.allocatable.unwrap_or_default().contains_key("example.com/gpu"));
    }

    #[test]
    fn a_patch_holds_what_differs_and_nulls_an_emptied_list() {
        let config = config();
        let node = |status: NodeStatus| Node { status: Some(status), ..Node::default() };
        let first = status(&config, &inputs(0, None, Some(&["v"])), &NodeStatus::default());
        let later = status(&config, &inputs(10, None, Some(&[])), &first);
        let patch = Patch::node_status(&node(first), &node(later)).expect("a patch").value().clone();
        let fields: Vec<_> = patch["status"].as_object().expect("an object").keys().collect();
        assert_eq!(fields, ["$setElementOrder/conditions", "conditions", "volumesInUse"]);
        assert_eq!(patch["status"]["volumesInUse"], Value::Null);
        assert_eq!(
            patch["status"]["conditions"][3],
            json!({ "type": "Ready", "lastHeartbeatTime": "2026-01-01T00:00:10Z" })
        );
    }

    #[test]
    fn volumes_in_use_stays_as_it_was_while_reconstruction_is_open() {
        let config = config();
        let first = status(&config, &inputs(0, None, Some(&["v"])), &NodeStatus::default());
        let later = status(&config, &inputs(10, None, None), &first);
        assert_eq!(later.volumes_in_use, Some(vec!["v".to_owned()]));
    }

    #[test]
    fn a_recovered_node_gets_a_new_transition_time() {
        let config = config();
        let first = status(&config, &inputs(0, None, None), &NodeStatus::default());
        let unready = status(&config, &inputs(20, Some("no"), None), &first);
        let again = status(&config, &inputs(30, None, None), &unready);
        let ready = again.conditions.unwrap_or_default().pop().unwrap_or_default();
        assert_eq!(ready.last_transition_time, Some(time(Now::at(Duration::from_secs(30)).wall)));
    }

    #[test]
    fn adoption_adds_only_what_is_missing() {
        let config = config();
        let mut node = initial(&config, &inputs(0, None, None));
        assert_eq!(adopted(&config, &node), None);
        node.metadata.annotations = None;
        node.metadata.labels.get_or_insert_default().remove("topology.kubernetes.io/zone");
        let after = adopted(&config, &node).expect("a change");
        assert_eq!(
            Patch::node_status(&node, &after).expect("a patch").value(),
            &json!({ "metadata": {
                "labels": { "topology.kubernetes.io/zone": "us-east-1a" },
                "annotations": { CONTROLLER_MANAGED: "true" },
            } })
        );
    }
}
