//! Kubelet's own check of each pod that is bound to its node, by the scheduler or by name (upstream
//! `pkg/kubelet/lifecycle/predicate.go`). A refused pod is Failed and never runs.
//!
//! Upstream evicts other pods for a critical pod that lacks resources; this kubelet refuses the critical pod.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use k8s_openapi::api::storage::v1::VolumeAttachment;

use super::context::AdmissionContext;
use crate::node_agent::events::AllocatableFailed;
use crate::node_agent::names::attachment_name;
use crate::node_agent::node::node_object::{StatusInputs, initial};
use crate::node_agent::plugins::registration::update_allocatable;
pub use crate::node_agent::refusal::Refusal;
use crate::scheduler::node_filters::{NOT_SELECTED, affinity_matches, effects_tolerated};
use crate::scheduler::node_ports::{PORTS_TAKEN, ports_free};
use crate::scheduler::resources::{Resources, lacks};

/// Reason in `status` for a pod whose node cannot attach more volumes.
const NO_ATTACHMENT_LEFT: &str = "VolumeAttachmentLimitExceeded";
/// gRPC code of a driver that can attach no more.
const RESOURCE_EXHAUSTED: i32 = 8;
/// Operating system of all nodes.
const OS: &str = "linux";
/// Reason of a refusal because of a taint. The scheduler's text differs.
const UNTOLERATED: &str = "node(s) had taints that the pod didn't tolerate";

/// Kernel parameters that any pod may set (`pkg/kubelet/sysctl/safe_sysctls.go`).
const SAFE_SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Returns the reason why a pod may not set a kernel parameter (`pkg/kubelet/sysctl/allowlist.go`).
fn forbidden_sysctl(name: &str, spec: &PodSpec) -> Option<String> {
    // A name may have slashes instead of dots.
    let name: String = if name.find(['.', '/']).is_some_and(|at| name[at..].starts_with('/')) {
        name.chars()
            .map(|c| {
                if c == '/' {
                    '.'
                } else if c == '.' {
                    '/'
                } else {
                    c
                }
            })
            .collect()
    } else {
        name.to_owned()
    };
    if !SAFE_SYSCTLS.contains(&name.as_str()) {
        return Some(format!("{name:?} not allowlisted"));
    }
    let (shared, of) = if name.starts_with("net.") { (spec.host_network, "net") } else { (spec.host_ipc, "ipc") };
    (shared == Some(true)).then(|| format!("{name:?} not allowed with host {of} enabled"))
}

/// Checks that `node` can run `pod` in addition to the active pods `others`.
///
/// # Errors
/// The first reason why it cannot.
pub fn check<'a>(pod: &Pod, node: &Node, others: impl Iterator<Item = &'a Pod> + Clone) -> Result<(), Refusal> {
    let spec = pod.spec.as_ref();
    let sysctls = spec.and_then(|s| s.security_context.as_ref()).and_then(|s| s.sysctls.as_ref());
    for sysctl in sysctls.into_iter().flatten() {
        if let Some(why) = spec.and_then(|spec| forbidden_sysctl(&sysctl.name, spec)) {
            return Err(Refusal::new("SysctlForbidden", format!("forbidden sysctl: {why}")));
        }
    }
    if pod.metadata.labels.as_ref().and_then(|l| l.get("kubernetes.io/os")).is_some_and(|os| os != OS) {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return Err(Refusal::new("PodOSSelectorNodeLabelDoesNotMatch", message));
    }
    if spec.and_then(|s| s.os.as_ref()).is_some_and(|os| os.name != OS) {
        return Err(Refusal::new("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"));
    }
    let groups = spec.and_then(|s| s.security_context.as_ref()).and_then(|s| s.supplemental_groups_policy.as_deref());
    let features = node.status.as_ref().and_then(|s| s.features.as_ref());
    if groups == Some("Strict") && features.and_then(|f| f.supplemental_groups_policy) != Some(true) {
        let message = "SupplementalGroupsPolicy=Strict is not supported in this node";
        return Err(Refusal::new("SupplementalGroupsPolicyNotSupported", message));
    }
    let allocatable = Resources::allocatable(node);
    let mut used = Resources::default();
    others.clone().for_each(|other| used.add(&Resources::requested(other)));
    let request = Resources::requested(pod).without_missing(&allocatable);
    if let Some(lack) = lacks(&request, &used, &allocatable).first() {
        return Err(Refusal::lack(lack));
    }
    if !affinity_matches(pod, node) {
        return Err(Refusal::predicate("NodeAffinity", NOT_SELECTED));
    }
    if !ports_free(pod, others) {
        return Err(Refusal::predicate("NodePorts", PORTS_TAKEN));
    }
    if !effects_tolerated(pod, node, &["NoExecute"]) {
        return Err(Refusal::predicate("TaintToleration", UNTOLERATED));
    }
    Ok(())
}

/// Waits until the node's labels and taints are known.
pub(crate) async fn synced(room: &AdmissionContext) {
    room.node.synced().await;
}

/// Admits a pod to this node. If its node selector or affinity does not match, the check is repeated with the node from
/// the API server, because the cached labels may be old.
///
/// # Errors
/// The reason for a refusal.
pub(crate) async fn admit(room: &AdmissionContext, pod: &Pod) -> Result<(), Refusal> {
    let others = room.pods.lock().active();
    let admits = |node: &Node| check(pod, node, others.iter().map(|other| &**other));
    let name = &room.config.node_name;
    let cached = room.node.get("", name);
    let inputs = || StatusInputs { now: room.ctx.now().wall, not_ready: None, volumes_in_use: None };
    let node = cached.unwrap_or_else(|| Arc::new(initial(&room.config, &inputs())));
    match admits(&node) {
        Err(refusal) if refusal.message.ends_with(NOT_SELECTED) => match room.client.all::<Node>().get(name).await {
            Ok(node) => admits(&node),
            Err(_) => Err(refusal),
        },
        other => other,
    }
}

/// Returns a refusal for a pod whose volumes could not be attached in time, if the driver says that the node can attach
/// no more and its CSIDriver sets `nodeAllocatableUpdatePeriodSeconds` (upstream `VerifyExhaustedResource`). It then
/// asks the driver for its limit at once. `missing` describes the volumes.
pub(crate) async fn refuse_unattached(room: &AdmissionContext, uid: &str, missing: &str) -> Option<Refusal> {
    let volumes = room.volumes.lock().unattached(uid);
    for volume in volumes {
        let driver = room.drivers_of_cluster.get("", &volume.driver)?;
        if driver.spec.node_allocatable_update_period_seconds.is_none_or(|seconds| seconds == 0) {
            continue;
        }
        let name = attachment_name(&volume.handle, &volume.driver, &room.config.node_name);
        let Ok(attachment) = room.client.all::<VolumeAttachment>().get(&name).await else { continue };
        let error = attachment.status.as_ref().and_then(|s| s.attach_error.as_ref());
        if error.and_then(|e| e.error_code) != Some(RESOURCE_EXHAUSTED) {
            continue;
        }
        if let Err(error) = update_allocatable(&room.plugin_room, &volume.driver).await {
            let (driver, error) = (volume.driver.as_str().into(), error.to_string());
            room.ctx.emit(AllocatableFailed { driver, error, node: room.config.name() });
        }
        let message = format!("Node has reached its volume attachment limit, rejecting pod. {missing}");
        return Some(Refusal::new(NO_ATTACHMENT_LEFT, message));
    }
    None
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        from_value(json!({ "metadata": { "name": "p", "labels": spec["labels"] }, "spec": spec })).expect("a pod")
    }

    fn node() -> Node {
        from_value(json!({
            "metadata": { "name": "n", "labels": { "disk": "ssd" } },
            "spec": { "taints": [
                { "key": "gone", "effect": "NoExecute" }, { "key": "busy", "effect": "NoSchedule" },
            ] },
            "status": { "allocatable": { "cpu": "2", "memory": "4Gi", "pods": "2", "example.com/chip": "1" } },
        }))
        .expect("a node")
    }

    fn spec(cpu: &str, more: Value) -> Value {
        let mut spec = json!({
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu, "example.com/unknown": "1" } } }],
            "tolerations": [{ "key": "gone", "operator": "Exists" }],
        });
        for (key, value) in more.as_object().expect("an object") {
            spec[key.as_str()] = value.clone();
        }
        spec
    }

    #[rstest]
    #[case::fits(spec("1", json!({})), None)]
    #[case::cpu(spec("1100m", json!({})), Some("OutOfcpu"))]
    #[case::labels(spec("1", json!({ "nodeSelector": { "disk": "hdd" } })), Some("NodeAffinity"))]
    #[case::taint(spec("1", json!({ "tolerations": [] })), Some("TaintToleration"))]
    #[case::os(spec("1", json!({ "os": { "name": "windows" } })), Some("PodOSNotSupported"))]
    #[case::label_of_os(
        spec("1", json!({ "labels": { "kubernetes.io/os": "windows" } })), Some("PodOSSelectorNodeLabelDoesNotMatch")
    )]
    #[case::groups(
        spec("1", json!({ "securityContext": { "supplementalGroupsPolicy": "Strict" } })),
        Some("SupplementalGroupsPolicyNotSupported")
    )]
    #[case::safe_sysctl(
        spec("1", json!({ "securityContext": { "sysctls": [{ "name": "kernel/shm_rmid_forced", "value": "1" }] } })),
        None
    )]
    #[case::sysctl(
        spec("1", json!({ "securityContext": { "sysctls": [{ "name": "kernel.msgmax", "value": "1" }] } })),
        Some("SysctlForbidden")
    )]
    #[case::port(
        spec("1", json!({ "containers": [{ "name": "c", "ports": [{ "containerPort": 1, "hostPort": 80 }] }] })),
        Some("NodePorts")
    )]
    #[case::the_first_reason_counts(
        spec("3", json!({ "nodeSelector": { "disk": "hdd" }, "tolerations": [] })), Some("OutOfcpu")
    )]
    fn a_pod_that_does_not_fit_is_refused_with_upstreams_reason(#[case] spec: Value, #[case] reason: Option<&str>) {
        let there = pod(json!({ "containers": [{
            "name": "c", "ports": [{ "containerPort": 1, "hostPort": 80 }], "resources": { "requests": { "cpu": "1" } },
        }] }));
        let refusal = check(&pod(spec), &node(), [&there].into_iter()).err();
        assert_eq!(refusal.as_ref().map(|r| r.reason.as_str()), reason, "{refusal:?}");
    }

    #[test]
    fn the_message_has_the_numbers_of_the_resource() {
        let there = [pod(spec("500m", json!({}))), pod(spec("500m", json!({})))];
        let refusal = check(&pod(spec("1500m", json!({}))), &node(), there.iter()).expect_err("a refusal");
        assert_eq!(refusal.message, "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2");
        let refusal = check(&pod(spec("1800m", json!({}))), &node(), there[..1].iter()).expect_err("a refusal");
        assert_eq!(
            refusal.message,
            "Node didn't have enough resource: cpu, requested: 1800, used: 500, capacity: 2000"
        );
    }
}
