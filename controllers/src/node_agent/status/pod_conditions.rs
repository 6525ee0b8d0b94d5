//! The conditions of a pod that kubelet writes (upstream `pkg/kubelet/status/generate.go`).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodCondition};

use crate::kube::time;
use crate::node_agent::rules::restarts::{is_sidecar, restartable};

/// Conditions that only kubelet writes (`PodConditionsByKubelet`).
pub(super) const BY_KUBELET: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// Statuses that the conditions are about.
pub(super) struct Statuses<'a> {
    /// Phase of the pod.
    pub phase: &'a str,
    /// True if the pod runs on its machine.
    pub has_sandbox: bool,
    /// Statuses of the init containers.
    pub init: &'a [ContainerStatus],
    /// Statuses of the regular containers.
    pub regular: &'a [ContainerStatus],
}

/// Value, reason and message of a condition.
type Condition = (bool, Option<&'static str>, Option<String>);

impl Statuses<'_> {
    fn find(&self, container: &Container) -> Option<&ContainerStatus> {
        self.init.iter().chain(self.regular).find(|status| status.name == container.name)
    }

    /// Returns whether all containers are ready (`GenerateContainersReadyCondition`).
    fn containers_ready(&self, pod: &Pod) -> Condition {
        match self.phase {
            "Succeeded" => return (false, Some("PodCompleted"), None),
            "Failed" => return (false, Some("PodFailed"), None),
            _ => {}
        }
        let unready = |container: &&Container| !self.find(container).is_some_and(|status| status.ready);
        let all = pod.spec.iter().flat_map(restartable).filter(unready);
        let names: Vec<&str> = all.map(|container| container.name.as_str()).collect();
        match names.is_empty() {
            true => (true, None, None),
            false => unmet("ContainersNotReady", "unready", &names),
        }
    }

    /// Returns whether the init containers are done (`GeneratePodInitializedCondition`).
    fn initialized(&self, pod: &Pod) -> Condition {
        if self.phase == "Succeeded" {
            return (true, Some("PodCompleted"), None);
        }
        let started = |status: &ContainerStatus| {
            let last = status.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
            let state = status.state.as_ref();
            last || state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
        };
        if self.regular.iter().any(started) {
            return (true, None, None);
        }
        let incomplete = |container: &&Container| {
            let status = self.find(container);
            let done = |status: &ContainerStatus| match is_sidecar(container) {
                true => status.started == Some(true),
                false => status.ready,
            };
            !status.is_some_and(done)
        };
        let all = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten()).filter(incomplete);
        let names: Vec<&str> = all.map(|container| container.name.as_str()).collect();
        match names.is_empty() {
            true => (true, None, None),
            false => unmet("ContainersNotInitialized", "incomplete", &names),
        }
    }

    /// Returns the conditions of a pod. Those of other writers stay, and come first.
    pub fn conditions(&self, pod: &Pod, known: &[PodCondition], now: Timestamp) -> Vec<PodCondition> {
        let ready = self.containers_ready(pod);
        let pod_ready = match unmet_gates(pod, known).filter(|_| ready.0) {
            Some(unmet) => (false, Some("ReadinessGatesNotReady"), Some(unmet)),
            None => ready.clone(),
        };
        let own = [(self.has_sandbox, None, None), self.initialized(pod), pod_ready, ready, (true, None, None)];
        let foreign = known.iter().filter(|c| !BY_KUBELET.contains(&c.type_.as_str())).cloned();
        let mut conditions: Vec<PodCondition> = foreign.collect();
        for (type_, (value, reason, message)) in BY_KUBELET.into_iter().zip(own) {
            let old = known.iter().find(|c| c.type_ == type_);
            let status = if value { "True" } else { "False" };
            let since = old
                .filter(|old| old.status == status)
                .map_or_else(|| Some(time(now)), |old| old.last_transition_time.clone());
            conditions.push(PodCondition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: reason.map(str::to_owned),
                message,
                last_transition_time: since,
                last_probe_time: None,
                observed_generation: pod.metadata.generation,
            });
        }
        conditions
    }
}

fn unmet(reason: &'static str, what: &str, names: &[&str]) -> Condition {
    (false, Some(reason), Some(format!("containers with {what} status: [{}]", names.join(" "))))
}

/// Returns a message about readiness gates of the pod that are not true (`GeneratePodReadyCondition`).
fn unmet_gates(pod: &Pod, conditions: &[PodCondition]) -> Option<String> {
    let gates = pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let unmet = gates.filter_map(|gate| {
        let name = &gate.condition_type;
        match conditions.iter().find(|condition| condition.type_ == *name) {
            None => Some(format!("corresponding condition of pod readiness gate {name:?} does not exist.")),
            Some(condition) if condition.status != "True" => {
                Some(format!("the status of pod readiness gate {name:?} is not \"True\", but {}", condition.status))
            }
            Some(_) => None,
        }
    });
    let unmet: Vec<String> = unmet.collect();
    (!unmet.is_empty()).then(|| unmet.join(", "))
}
