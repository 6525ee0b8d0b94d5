//! The status that kubelet writes for a pod (upstream `kubelet_pods.go` `generateAPIPodStatus`, `status_manager.go`).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{HostIP, Pod, PodIP, PodStatus};

use super::pod_conditions::{BY_KUBELET, Statuses};
use super::{container_status, deadline_words, ephemeral_status, pod_phase};
use crate::kube::time;
pub use crate::node_agent::progress::{NotStarted, Phase, PodFacts};
use crate::node_agent::refusal::Refusal;
use crate::node_agent::rules::restarts;

/// Returns how often the pod's containers were restarted, according to its status. None if they never ran.
pub fn started_before(pod: &Pod) -> Option<u32> {
    let statuses = pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
    statuses.filter_map(restarts::restarts).max()
}

/// Builds the whole status: kubelet's fields over those that others wrote.
pub fn status(pod: &Pod, phase: &Phase, facts: &PodFacts, now: Timestamp) -> PodStatus {
    let mut status = pod.status.clone().unwrap_or_default();
    if let Some(Refusal { reason, message }) = &facts.refusal {
        status.reason = Some(reason.clone());
        status.message = Some(format!("Pod was rejected: {message}"));
    }
    if *phase == Phase::Refused {
        status.phase = Some("Failed".to_owned());
        status.observed_generation = pod.metadata.generation;
        status.start_time = Some(status.start_time.unwrap_or_else(|| time(facts.start_time)));
        if let Some(conditions) = &mut status.conditions {
            conditions.retain(|c| !BY_KUBELET.contains(&c.type_.as_str()));
        }
        return status;
    }
    let before = status.container_statuses.take().unwrap_or_default();
    let init_before = status.init_container_statuses.take().unwrap_or_default();
    let ephemeral_before = status.ephemeral_container_statuses.take().unwrap_or_default();
    let mut containers = container_status::regular(pod, phase, facts, &before);
    let init = container_status::init(pod, phase, facts, &init_before);
    let mut ephemeral = ephemeral_status::ephemeral(pod, phase, facts, &ephemeral_before);
    let phase_name = match status.phase.as_deref() {
        Some(over @ ("Failed" | "Succeeded")) => over,
        _ if facts.expired => "Failed",
        _ => {
            let is_terminal = matches!(phase, Phase::Stopped(..));
            pod_phase::phase(pod, &init, &containers, is_terminal, facts.one_success_suffices)
        }
    };
    let phase_name = phase_name.to_owned();
    status.phase = Some(phase_name.clone());
    if facts.expired {
        (status.reason, status.message) =
            (Some(deadline_words::REASON.to_owned()), Some(deadline_words::MESSAGE.to_owned()));
    }
    status.start_time = Some(status.start_time.unwrap_or_else(|| time(facts.start_time)));
    status.host_ip = Some(facts.host_ip.clone());
    status.host_ips = Some(vec![HostIP { ip: facts.host_ip.clone() }]);
    if let Some(ip) = facts.pod_ip.as_ref().filter(|_| *phase != Phase::Waiting) {
        status.pod_ip = Some(ip.clone());
        status.pod_ips = Some(vec![PodIP { ip: ip.clone() }]);
    }
    let known = status.conditions.take().unwrap_or_default();
    let has_sandbox = matches!(phase, Phase::Running(_));
    let statuses = Statuses { phase: &phase_name, has_sandbox, init: &init, regular: &containers };
    let conditions = statuses.conditions(pod, &known, now);
    // Only init containers keep the order of the spec (`SortedContainerStatuses`).
    for statuses in [&mut containers, &mut ephemeral] {
        statuses.sort_by(|one, other| one.name.cmp(&other.name));
    }
    status.observed_generation = pod.metadata.generation;
    status.conditions = Some(conditions);
    status.container_statuses = Some(containers);
    status.init_container_statuses = Some(init).filter(|all| !all.is_empty());
    status.ephemeral_container_statuses = Some(ephemeral).filter(|all| !all.is_empty());
    status
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodCondition};
    use substrate::Now;
    use substrate::json::{Value, json};

    use super::*;
    use crate::kube::{Guard, Patch};
    use crate::machine::api::{ContainerRecord, ContainerState, Exit};

    /// Returns the status patch.
    fn patch(pod: &Pod, phase: &Phase, now: Timestamp) -> Option<Value> {
        patch_of(pod, phase, &facts(), now)
    }

    fn patch_of(pod: &Pod, phase: &Phase, facts: &PodFacts, now: Timestamp) -> Option<Value> {
        let status = Some(status(pod, phase, facts, now));
        let patch = Patch::strategic(pod, &Pod { status, ..pod.clone() }).expect("a patch");
        (!patch.is_empty()).then(|| patch.guarded(pod, Guard::Uid).value().clone())
    }

    fn at(second: u64) -> Timestamp {
        Now::at(Duration::from_secs(second)).wall
    }

    fn pod() -> Pod {
        substrate::json::from_value(json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "u"},
            "spec": {"nodeName": "n", "containers": [{"name": "app", "image": "busybox"}]},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }))
        .expect("a pod")
    }

    fn facts() -> PodFacts {
        PodFacts {
            start_time: at(1),
            host_ip: "172.31.0.1".to_owned(),
            pod_ip: Some("10.128.0.2".to_owned()),
            containers: vec![running(5, 0)],
            ..PodFacts::default()
        }
    }

    fn running(since: u64, attempt: u32) -> ContainerRecord {
        let state = ContainerState::Running { since: at(since) };
        ContainerRecord::new("app", "", attempt, state)
    }

    fn exited(since: u64, at_: u64, code: i32) -> PodFacts {
        let state = ContainerState::Exited(Exit { since: at(since), at: at(at_), code });
        PodFacts { containers: vec![ContainerRecord { state, ..running(since, 0) }], ..facts() }
    }

    #[test]
    fn a_refused_pod_is_failed_with_the_reason_and_stays_so_until_it_is_gone() {
        let refusal = Refusal { reason: "OutOfcpu".to_owned(), message: "no cpu".to_owned() };
        let refused = PodFacts { refusal: Some(refusal), pod_ip: None, ..facts() };
        let mut pod = pod();
        let written = patch_of(&pod, &Phase::Refused, &refused, at(5)).expect("a patch");
        let expected = json!({
            "phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: no cpu",
            "startTime": "2026-01-01T00:00:01Z", "conditions": null,
        });
        assert_eq!(written["status"], expected);
        pod.status = Some(status(&pod, &Phase::Refused, &refused, at(5)));
        let last = status(&pod, &Phase::Stopped(None, at(8)), &facts(), at(8));
        assert_eq!((last.phase.as_deref(), last.reason.as_deref()), (Some("Failed"), Some("OutOfcpu")));
    }

    #[test]
    fn a_pod_that_was_active_for_too_long_is_failed_while_its_containers_run() {
        let late = PodFacts { expired: true, ..facts() };
        let running = status(&pod(), &Phase::Running(at(5)), &late, at(9));
        assert_eq!((running.phase.as_deref(), running.reason.as_deref()), (Some("Failed"), Some("DeadlineExceeded")));
        let ready = running.conditions.iter().flatten().find(|c| c.type_ == "Ready").expect("a Ready condition");
        assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("PodFailed")));
        let mut pod = pod();
        pod.status = Some(running);
        let stopped = status(&pod, &Phase::Stopped(Some(at(5)), at(10)), &late, at(10));
        assert_eq!((stopped.phase.as_deref(), stopped.reason.as_deref()), (Some("Failed"), Some("DeadlineExceeded")));
    }

    #[test]
    fn a_running_pod_is_ready_and_has_an_address() {
        let status = status(&pod(), &Phase::Running(at(5)), &facts(), at(5));
        assert_eq!(status.phase.as_deref(), Some("Running"));
        assert_eq!(status.pod_ip.as_deref(), Some("10.128.0.2"));
        assert_eq!(status.start_time, Some(time(at(1))));
        let conditions = status.conditions.unwrap_or_default();
        let ready = conditions.iter().find(|c| c.type_ == "Ready").expect("a Ready condition");
        assert_eq!(ready.status, "True");
        // The scheduler's condition keeps its time.
        let scheduled = conditions.iter().find(|c| c.type_ == "PodScheduled").expect("a condition");
        assert_eq!(scheduled.last_transition_time, Some(time(at(0))));
    }

    #[test]
    fn a_pod_is_ready_once_its_readiness_gates_are_true() {
        let mut pod = pod();
        let gates = json!([{ "conditionType": "a/b" }, { "conditionType": "c/d" }]);
        pod.spec.as_mut().unwrap().readiness_gates = Some(substrate::json::from_value(gates).unwrap());
        let set = |pod: &mut Pod, type_: &str, value: &str| {
            let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
            conditions.retain(|condition| condition.type_ != type_);
            conditions.push(PodCondition {
                type_: type_.to_owned(),
                status: value.to_owned(),
                ..PodCondition::default()
            });
        };
        let ready = |pod: &Pod| {
            let conditions = status(pod, &Phase::Running(at(5)), &facts(), at(5)).conditions.unwrap();
            let one = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_).unwrap().clone();
            assert_eq!(one("ContainersReady").status, "True");
            (one("Ready").status, one("Ready").message)
        };
        set(&mut pod, "a/b", "Unknown");
        let message = "the status of pod readiness gate \"a/b\" is not \"True\", but Unknown, \
            corresponding condition of pod readiness gate \"c/d\" does not exist.";
        assert_eq!(ready(&pod), ("False".to_owned(), Some(message.to_owned())));
        set(&mut pod, "a/b", "True");
        set(&mut pod, "c/d", "True");
        assert_eq!(ready(&pod), ("True".to_owned(), None));
    }

    #[test]
    fn conditions_say_which_generation_of_the_pod_they_are_about() {
        let mut pod = pod();
        pod.metadata.generation = Some(2);
        let gate = PodCondition { type_: "example.com/gate".to_owned(), ..PodCondition::default() };
        pod.status.get_or_insert_default().conditions.get_or_insert_default().push(gate);
        let patch = patch(&pod, &Phase::Running(at(5)), at(5)).expect("a patch");
        assert_eq!(patch["status"]["observedGeneration"], 2);
        let order = patch["status"]["$setElementOrder/conditions"].as_array().expect("an order").iter();
        let order: Vec<_> = order.map(|c| c["type"].as_str().expect("a type")).collect();
        let own = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
        assert_eq!((order[0], &order[1..]), ("example.com/gate", &own[..]));
        let written = patch["status"]["conditions"].as_array().expect("conditions");
        let scheduled = written.iter().find(|c| c["type"] == "PodScheduled").expect("a condition");
        assert_eq!(*scheduled, json!({ "type": "PodScheduled", "observedGeneration": 2 }), "it held before");
        let new = json!({
            "type": "Ready", "status": "True", "observedGeneration": 2,
            "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:05Z",
        });
        assert!(written.contains(&new), "{written:?}");
    }

    #[test]
    fn statuses_are_sorted_by_name_except_those_of_init_containers() {
        let mut pod = pod();
        let named = |name: &str| Container { name: name.to_owned(), ..Container::default() };
        let spec = pod.spec.get_or_insert_default();
        spec.containers = ["web", "app", "cache"].map(named).into();
        spec.init_containers = Some(["second", "first"].map(named).into());
        let status = status(&pod, &Phase::Running(at(5)), &facts(), at(5));
        let names = |statuses: Option<Vec<ContainerStatus>>| -> Vec<String> {
            statuses.unwrap_or_default().into_iter().map(|status| status.name).collect()
        };
        assert_eq!(names(status.container_statuses), ["app", "cache", "web"]);
        assert_eq!(names(status.init_container_statuses), ["second", "first"]);
    }

    #[test]
    fn a_status_that_is_there_already_needs_no_patch() {
        let mut pod = pod();
        pod.status = Some(status(&pod, &Phase::Running(at(5)), &facts(), at(5)));
        assert_eq!(patch(&pod, &Phase::Running(at(5)), at(9)), None);
    }

    #[test]
    fn a_container_that_went_with_its_machine_is_the_last_state_of_the_next_one() {
        let mut pod = pod();
        assert_eq!(started_before(&pod), None);
        pod.status = Some(status(&pod, &Phase::Running(at(5)), &facts(), at(5)));
        assert_eq!(started_before(&pod), Some(0));
        pod.status = Some(status(&pod, &Phase::Waiting, &facts(), at(9)));
        assert_eq!(started_before(&pod), Some(0), "it ran before, although it waits now");
        let again = PodFacts { containers: vec![running(9, 1)], ..facts() };
        let container = |pod: &Pod| {
            let status = status(pod, &Phase::Running(at(9)), &again, at(9));
            status.container_statuses.unwrap_or_default().remove(0)
        };
        let first = container(&pod);
        let last = first.last_state.as_ref().and_then(|s| s.terminated.clone()).expect("a last state");
        assert_eq!((first.restart_count, last.exit_code, last.started_at), (1, 255, Some(time(at(5)))));
        assert_ne!(last.container_id, first.container_id);
        pod.status = Some(status(&pod, &Phase::Running(at(9)), &again, at(9)));
        assert_eq!((container(&pod), started_before(&pod)), (first, Some(1)));
    }

    #[test]
    fn a_stopped_pod_is_succeeded_and_not_ready() {
        let stopped = Phase::Stopped(Some(at(5)), at(8));
        let patch = patch_of(&pod(), &stopped, &exited(5, 8, 0), at(8)).expect("a patch");
        assert_eq!(patch["metadata"]["uid"], "u");
        assert_eq!(patch["status"]["phase"], "Succeeded");
        assert_eq!(patch["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
        let killed = patch_of(&pod(), &stopped, &exited(5, 8, 137), at(8)).expect("a patch");
        assert_eq!(killed["status"]["phase"], "Failed");
    }

    #[test]
    fn a_pod_whose_container_loops_is_running_and_not_ready() {
        let mut looping = exited(5, 8, 1);
        looping.waiting = [("app".to_owned(), "back-off".to_owned())].into();
        let status = status(&pod(), &Phase::Running(at(5)), &looping, at(9));
        assert_eq!(status.phase.as_deref(), Some("Running"));
        let ready = status.conditions.iter().flatten().find(|c| c.type_ == "Ready").expect("a Ready condition");
        assert_eq!(ready.message.as_deref(), Some("containers with unready status: [app]"));
    }

    #[test]
    fn a_pod_with_init_containers_is_initialized_once_they_are_done() {
        let mut pod = pod();
        let init = json!([{ "name": "first" }, { "name": "side", "restartPolicy": "Always" }]);
        pod.spec.as_mut().unwrap().init_containers = Some(substrate::json::from_value(init).unwrap());
        let of = |status: &PodStatus| {
            let one = status.conditions.iter().flatten().find(|c| c.type_ == "Initialized").expect("a condition");
            (one.status.clone(), one.message.clone())
        };
        let waiting = status(&pod, &Phase::Waiting, &facts(), at(5));
        let message = "containers with incomplete status: [first side]".to_owned();
        assert_eq!(of(&waiting), ("False".to_owned(), Some(message)));
        let mut containers = exited(5, 5, 0).containers;
        containers[0].name = "first".to_owned();
        containers.push(ContainerRecord { name: "side".to_owned(), ..running(5, 0) });
        containers.push(running(5, 0));
        let running = status(&pod, &Phase::Running(at(5)), &PodFacts { containers, ..facts() }, at(5));
        assert_eq!((of(&running), running.phase.as_deref()), (("True".to_owned(), None), Some("Running")));
        let init = running.init_container_statuses.unwrap();
        assert_eq!(init[0].state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 0);
        assert!(init.iter().all(|status| status.ready) && init[1].started == Some(true), "{init:?}");
    }
}
