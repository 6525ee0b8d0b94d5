//! New and changed nodes that may make a rejected pod fit (`EventsToRegister` and `isSchedulableAfterNodeChange` of
//! each plugin).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::fit_error::Plugin;
use super::node_filters::{affinity_matches, is_cordoned, taints, taints_tolerated};
use super::resources::{Resources, lacks};
use super::{pod_affinity, spread};

/// Returns true if a new node may make a pod fit that `plugin` rejected.
pub fn added(plugin: Plugin, pod: &Pod, node: &Node) -> bool {
    match plugin {
        Plugin::NodeUnschedulable => !is_cordoned(node),
        Plugin::TaintToleration => taints_tolerated(pod, node),
        Plugin::NodeAffinity => affinity_matches(pod, node),
        Plugin::NodeResourcesFit => fits_alone(pod, node),
        Plugin::NodePorts | Plugin::VolumeRestrictions | Plugin::VolumeBinding | Plugin::VolumeZone => true,
        Plugin::NodeVolumeLimits => false,
        Plugin::PodTopologySpread => spread::helped_by_node(pod, node),
        Plugin::InterPodAffinity => pod_affinity::helped_by_node(pod, None, node),
    }
}

/// Returns true if a change of a node may make a pod fit that `plugin` rejected. After a change of taints, only the
/// plugins that ask for this event look closer (`buildQueueingHintMap`, kubernetes#109437).
pub fn changed(plugin: Plugin, pod: &Pod, old: &Node, new: &Node) -> bool {
    let opened = is_cordoned(old) && !is_cordoned(new);
    let untainted = opened || taints(old) != taints(new);
    let relabelled = old.metadata.labels != new.metadata.labels;
    if !untainted && !relabelled && amounts(old) == amounts(new) {
        // A heartbeat.
        return false;
    }
    match plugin {
        Plugin::NodeUnschedulable => opened,
        Plugin::TaintToleration => taints_tolerated(pod, new) && !taints_tolerated(pod, old),
        Plugin::NodeAffinity => untainted || affinity_matches(pod, new) && !affinity_matches(pod, old),
        Plugin::NodeResourcesFit => untainted || fits_alone(pod, new) && offers_more(pod, old, new),
        Plugin::NodePorts | Plugin::VolumeRestrictions => untainted,
        Plugin::NodeVolumeLimits => false,
        Plugin::VolumeBinding | Plugin::VolumeZone => untainted || relabelled,
        Plugin::PodTopologySpread => spread::helped_by_change(pod, old, new),
        Plugin::InterPodAffinity => untainted || pod_affinity::helped_by_node(pod, Some(old), new),
    }
}

fn amounts(node: &Node) -> Option<&BTreeMap<String, Quantity>> {
    node.status.as_ref()?.allocatable.as_ref()
}

/// Returns true if the pod would fit on the node without other pods (`isFit`).
fn fits_alone(pod: &Pod, node: &Node) -> bool {
    lacks(&Resources::requested(pod), &Resources::default(), &Resources::allocatable(node)).is_empty()
}

/// Returns true if the node has more of a resource that the pod requests (`haveAnyRequestedResourcesIncreased`).
fn offers_more(pod: &Pod, old: &Node, new: &Node) -> bool {
    let (old, new) = (Resources::allocatable(old), Resources::allocatable(new));
    Resources::requested(pod).names().any(|name| new.get(name) > old.get(name))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn node(labels: Value, spec: Value, cpu: &str) -> Node {
        let allocatable = json!({ "cpu": cpu, "pods": "10" });
        from_value(json!({
            "metadata": { "name": "n", "labels": labels }, "spec": spec, "status": { "allocatable": allocatable },
        }))
        .expect("a node")
    }

    fn pod(spec: Value) -> Pod {
        from_value(json!({ "metadata": { "namespace": "default", "name": "p" }, "spec": spec })).expect("a pod")
    }

    fn asking(cpu: &str) -> Pod {
        pod(json!({ "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] }))
    }

    #[rstest]
    #[case::too_small(asking("2"), Plugin::NodeResourcesFit, false)]
    #[case::large_enough(asking("1"), Plugin::NodeResourcesFit, true)]
    #[case::other_labels(pod(json!({ "nodeSelector": { "disk": "ssd" }, "containers": [] })), Plugin::NodeAffinity, false)]
    #[case::anything_may_help(asking("1"), Plugin::NodePorts, true)]
    #[case::without_terms(asking("1"), Plugin::InterPodAffinity, false)]
    #[case::limits_are_not_of_the_node(asking("1"), Plugin::NodeVolumeLimits, false)]
    fn a_new_node_helps_if_the_plugin_might_accept_it(#[case] pod: Pod, #[case] plugin: Plugin, #[case] helps: bool) {
        assert_eq!(added(plugin, &pod, &node(json!({}), json!({}), "1")), helps);
    }

    #[test]
    fn a_change_of_taints_helps_plugins_that_do_not_look_at_them() {
        let tainted = node(json!({}), json!({ "taints": [{ "key": "k", "effect": "NoSchedule" }] }), "1");
        let free = node(json!({}), json!({}), "1");
        let large = asking("9");
        let helped = |old: &Node, new: &Node| {
            [Plugin::NodeAffinity, Plugin::NodeResourcesFit, Plugin::TaintToleration, Plugin::NodeVolumeLimits]
                .map(|plugin| changed(plugin, &large, old, new))
        };
        assert_eq!(helped(&tainted, &free), [true, true, true, false]);
        assert_eq!(helped(&free, &tainted), [true, true, false, false]);
        assert_eq!(helped(&free, &free), [false; 4]);
    }

    #[test]
    fn more_of_a_requested_resource_helps_once_it_suffices() {
        let grown = |from: &str, to: &str| {
            let (old, new) = (node(json!({}), json!({}), from), node(json!({}), json!({}), to));
            changed(Plugin::NodeResourcesFit, &asking("4"), &old, &new)
        };
        assert_eq!([grown("1", "4"), grown("1", "2"), grown("5", "4")], [true, false, false]);
    }

    #[test]
    fn a_node_that_joins_a_domain_helps_an_affinity() {
        let term = json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "db" } } });
        let pod = |kind: &str| {
            let terms = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
            pod(json!({ "affinity": { kind: terms }, "containers": [] }))
        };
        let (without, within) = (node(json!({}), json!({}), "1"), node(json!({ "zone": "a" }), json!({}), "1"));
        let helped = |kind: &str, old: &Node, new: &Node| changed(Plugin::InterPodAffinity, &pod(kind), old, new);
        assert!(helped("podAffinity", &without, &within) && !helped("podAffinity", &within, &without));
        assert!(!helped("podAntiAffinity", &without, &within) && helped("podAntiAffinity", &within, &without));
    }
}
