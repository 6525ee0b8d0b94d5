//! The statuses of a pod's containers (upstream `kubelet_pods.go` `convertToAPIContainerStatuses`). Fields that Go writes
//! without a value, such as `lastState`, are there too.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    Pod, VolumeMount, VolumeMountStatus,
};

use crate::kube::time;
use crate::machine::api::{ContainerRecord, ContainerState as MachineState, Exit};
use crate::node_agent::progress::{Phase, PodFacts, UNPREPARED};
use crate::node_agent::rules::restarts::{LOST, REASON, is_sidecar};

/// Number of bytes of the termination messages of a pod (`MaxPodTerminationMessageLogLength`).
const MESSAGES: usize = 12 << 10;

/// Returns the statuses of all regular containers of a pod. `before` are the last ones.
pub(super) fn regular(pod: &Pod, phase: &Phase, facts: &PodFacts, before: &[ContainerStatus]) -> Vec<ContainerStatus> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.map(|container| status(pod, container, phase, facts, before)).collect()
}

/// Returns the statuses of all init containers of a pod. `before` are the last ones.
pub(super) fn init(pod: &Pod, phase: &Phase, facts: &PodFacts, before: &[ContainerStatus]) -> Vec<ContainerStatus> {
    let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let all = containers.map(|container| {
        let mut status = status(pod, container, phase, facts, before);
        let exit = status.state.as_ref().and_then(|state| state.terminated.as_ref());
        if !is_sidecar(container) {
            // One that runs is not ready (`prober/prober_manager.go`, `UpdatePodStatus`).
            status.ready = exit.is_some_and(|exit| exit.exit_code == 0);
        }
        status
    });
    all.collect()
}

/// Returns the status of one container of a pod. `before` are the last ones.
pub(super) fn status(
    pod: &Pod,
    container: &Container,
    phase: &Phase,
    facts: &PodFacts,
    before: &[ContainerStatus],
) -> ContainerStatus {
    let before = before.iter().find(|status| status.name == container.name);
    let has_sandbox = matches!(phase, Phase::Running(_) | Phase::Stopped(Some(_), _));
    let record = facts.containers.iter().find(|one| one.name == container.name);
    let record = record.filter(|one| has_sandbox && one.state != MachineState::Created);
    // A known end stays, although the machine has forgotten it.
    let ended = before.filter(|before| before.state.as_ref().is_some_and(|state| state.terminated.is_some()));
    if let Some(ended) = ended.filter(|_| record.is_none() && matches!(phase, Phase::Stopped(..))) {
        return ended.clone();
    }
    let running = matches!(phase, Phase::Running(_)) && record.is_some_and(|one| one.exit().is_none());
    let has_init = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref()).is_some_and(|all| !all.is_empty());
    // A container behind an init container that failed never began, so that it did not end either.
    let is_stopped = matches!(phase, Phase::Stopped(..));
    let never_began = is_stopped && record.is_none() && has_failed_init(pod, facts, before);
    let shown = if never_began { &Phase::Waiting } else { phase };
    // A container that runs has the image with which it was started.
    let started_with = record.map(|one| one.image.clone()).filter(|image| !image.is_empty());
    let image = started_with.unwrap_or_else(|| container.image.clone().unwrap_or_default());
    let id = record.map(|one| container_id(pod, &container.name, one.attempt));
    let restarts = record.map_or(0, |one| i32::try_from(one.attempt).unwrap_or(i32::MAX));
    let resources = record.map(|_| container.resources.clone().unwrap_or_default());
    let mut status = ContainerStatus {
        name: container.name.clone(),
        image: image.clone(),
        image_id: if record.is_some() { image } else { String::new() },
        container_id: id.clone(),
        ready: running && !facts.unready.contains(&container.name),
        started: Some(running && !facts.starting.contains(&container.name)),
        last_state: Some(last_state(pod, record, before, id.as_deref())),
        restart_count: restarts.max(before.map_or(0, |before| before.restart_count)),
        state: Some(container_state(shown, record, id.as_deref(), has_init)),
        volume_mounts: mounts(container),
        allocated_resources: resources.as_ref().and_then(|resources| resources.requests.clone()),
        resources,
        stop_signal: record.and_then(|_| container.lifecycle.as_ref()?.stop_signal.clone()),
        ..ContainerStatus::default()
    };
    if let Some(message) = facts.waiting.get(&container.name).filter(|_| matches!(phase, Phase::Running(_))) {
        status.last_state = status.state.replace(waiting(REASON, message));
    }
    if let Some(why) = facts.not_started.get(&container.name).filter(|_| matches!(phase, Phase::Running(_))) {
        let before = status.state.replace(waiting(why.reason, &why.message));
        status.last_state = before.filter(|before| before.terminated.is_some()).or(status.last_state);
    }
    if let Some(message) = facts.unprepared.as_ref().filter(|_| *phase == Phase::Waiting) {
        status.state = Some(waiting(UNPREPARED, message));
    }
    let longest = longest_message(pod);
    for state in [&mut status.state, &mut status.last_state].into_iter().flatten() {
        if let Some(message) = state.terminated.as_mut().and_then(|terminated| terminated.message.as_mut()) {
            message.truncate(message.floor_char_boundary(longest));
        }
    }
    status
}

/// Returns the number of bytes of a termination message of one container of a pod (`normalizeStatus`).
fn longest_message(pod: &Pod) -> usize {
    let count = pod.spec.as_ref().map_or(0, |spec| {
        let [inits, ephemeral] =
            [spec.init_containers.as_ref().map(Vec::len), spec.ephemeral_containers.as_ref().map(Vec::len)];
        spec.containers.len() + inits.unwrap_or(0) + ephemeral.unwrap_or(0)
    });
    MESSAGES / count.max(1)
}

/// Returns true if an init container of a pod failed for good. `before` is the last status of another container.
fn has_failed_init(pod: &Pod, facts: &PodFacts, before: Option<&ContainerStatus>) -> bool {
    let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let code = |name: &str| {
        let record = facts.containers.iter().find(|one| one.name == name);
        record.and_then(ContainerRecord::exit).map(|exit| exit.code)
    };
    let mut inits = inits.filter(|init| !is_sidecar(init));
    let has_failed = inits.any(|init| code(&init.name).is_some_and(|code| code != 0));
    // The machine may have forgotten the pod.
    let was_failed = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed");
    let waited = before.and_then(|before| before.state.as_ref()).is_some_and(|state| state.waiting.is_some());
    has_failed || was_failed && waited
}

fn waiting(reason: &str, message: &str) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message: Some(message.to_owned()) };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

/// Returns the mounts of a container. No runtime of ours makes mounts read-only below their root.
fn mounts(container: &Container) -> Option<Vec<VolumeMountStatus>> {
    let of = |mount: &VolumeMount| {
        let read_only = mount.read_only.filter(|read_only| *read_only);
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only,
            recursive_read_only: read_only.map(|_| "Disabled".to_owned()),
            ..VolumeMountStatus::default()
        }
    };
    container.volume_mounts.as_ref().filter(|mounts| !mounts.is_empty()).map(|mounts| mounts.iter().map(of).collect())
}

/// Returns the id of a container's start.
pub(super) fn container_id(pod: &Pod, container: &str, restarts: u32) -> String {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    if restarts == 0 {
        format!("mooring://{uid}/{container}")
    } else {
        format!("mooring://{uid}/{container}/{restarts}")
    }
}

/// Returns how the previous container ended. A container that was running and has disappeared ended with its machine.
fn last_state(
    pod: &Pod,
    record: Option<&ContainerRecord>,
    before: Option<&ContainerStatus>,
    id: Option<&str>,
) -> ContainerState {
    if let Some((one, exit)) = record.and_then(|one| Some((one, one.last?))) {
        return exited(exit, container_id(pod, &one.name, one.attempt.saturating_sub(1)), &one.messages.last);
    }
    let Some(before) = before else { return ContainerState::default() };
    let state = before.state.as_ref().filter(|_| before.container_id.as_deref() != id);
    if let Some(terminated) = state.and_then(|state| state.terminated.clone()) {
        return ContainerState { terminated: Some(terminated), ..ContainerState::default() };
    }
    let Some(running) = state.and_then(|state| state.running.as_ref()) else {
        return before.last_state.clone().unwrap_or_default();
    };
    let terminated = ContainerStateTerminated {
        exit_code: LOST,
        reason: Some("Unknown".to_owned()),
        started_at: running.started_at.clone(),
        container_id: before.container_id.clone(),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

fn exited(exit: Exit, id: String, message: &str) -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code: exit.code,
        reason: Some(if exit.code == 0 { "Completed" } else { "Error" }.to_owned()),
        message: Some(message.to_owned()).filter(|message| !message.is_empty()),
        started_at: Some(time(exit.since)),
        finished_at: Some(time(exit.at)),
        container_id: Some(id),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

fn container_state(
    phase: &Phase,
    record: Option<&ContainerRecord>,
    id: Option<&str>,
    has_init: bool,
) -> ContainerState {
    match (phase, record.map(|one| one.state)) {
        (Phase::Running(_) | Phase::Stopped(..), Some(MachineState::Exited(exit))) => {
            let message = record.map(|one| one.messages.exit.as_str());
            exited(exit, id.unwrap_or_default().to_owned(), message.unwrap_or_default())
        }
        (Phase::Running(_), Some(MachineState::Running { since })) => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(time(since)) }),
            ..ContainerState::default()
        },
        // The machine does not know how it ended.
        (Phase::Stopped(..), _) => ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code: 137,
                reason: Some("ContainerStatusUnknown".to_owned()),
                message: Some("The container could not be located when the pod was terminated".to_owned()),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        },
        (Phase::Waiting | Phase::Refused | Phase::Running(_), _) => ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(if has_init { "PodInitializing" } else { "ContainerCreating" }.to_owned()),
                message: None,
            }),
            ..ContainerState::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use substrate::Now;
    use substrate::json::{from_value, json, to_value};

    use super::*;
    use crate::machine::api::Messages;
    use crate::node_agent::progress::NotStarted;

    fn pod(init: bool) -> Pod {
        let mounts = json!([{ "name": "data", "mountPath": "/data" }, { "name": "seed", "mountPath": "/seed", "readOnly": true }]);
        let requests = json!({ "cpu": "1" });
        let container = json!({ "name": "app", "image": "busybox", "volumeMounts": mounts,
            "resources": { "requests": requests, "limits": { "cpu": "2" } } });
        let mut spec = json!({ "containers": [container] });
        if init {
            spec["initContainers"] = json!([{ "name": "init" }]);
        }
        from_value(json!({ "metadata": { "name": "p", "uid": "u" }, "spec": spec })).unwrap()
    }

    fn at(second: u64) -> jiff::Timestamp {
        Now::at(std::time::Duration::from_secs(second)).wall
    }

    fn facts(state: MachineState, attempt: u32, last: Option<Exit>) -> PodFacts {
        let record = ContainerRecord { last, ..ContainerRecord::new("app", "", attempt, state) };
        PodFacts { containers: vec![record], ..PodFacts::default() }
    }

    #[test]
    fn a_container_that_loops_shows_its_last_exit_and_waits() {
        let exit = Exit { since: at(3), at: at(4), code: 1 };
        let mut facts = facts(MachineState::Exited(exit), 2, Some(Exit { since: at(1), at: at(2), code: 1 }));
        let exited = to_value(&regular(&pod(false), &Phase::Running(at(1)), &facts, &[])).unwrap()[0].clone();
        assert_eq!(exited["state"]["terminated"]["exitCode"], 1);
        assert_eq!(exited["state"]["terminated"]["reason"], "Error");
        assert_eq!(exited["lastState"]["terminated"]["containerID"], "mooring://u/app/1");
        facts.waiting = [("app".to_owned(), "back-off".to_owned())].into();
        let waiting = to_value(&regular(&pod(false), &Phase::Running(at(1)), &facts, &[])).unwrap()[0].clone();
        assert_eq!(waiting["state"], json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off" } }));
        assert_eq!(waiting["lastState"]["terminated"]["containerID"], "mooring://u/app/2");
        assert_eq!((&waiting["restartCount"], &waiting["ready"]), (&json!(2), &json!(false)));
    }

    #[test]
    fn an_exit_has_the_message_of_its_container_cut_to_the_share_of_the_pod() {
        let exit = Exit { since: at(3), at: at(4), code: 1 };
        let mut facts = facts(MachineState::Exited(exit), 1, Some(exit));
        facts.containers[0].messages = Messages { exit: "now".to_owned(), last: "x".repeat(4096) };
        let mut pod = pod(false);
        let of = |pod: &Pod| to_value(&regular(pod, &Phase::Running(at(1)), &facts, &[])).unwrap()[0].clone();
        let one = of(&pod);
        assert_eq!(one["state"]["terminated"]["message"], "now");
        assert_eq!(one["lastState"]["terminated"]["message"], "x".repeat(4096));
        let others = (0..5).map(|n| Container { name: format!("c{n}"), ..Container::default() });
        pod.spec.as_mut().unwrap().containers.extend(others);
        assert_eq!(of(&pod)["lastState"]["terminated"]["message"], "x".repeat(2048));
    }

    #[test]
    fn a_container_that_cannot_be_made_waits_with_the_reason() {
        let mut facts = facts(MachineState::Created, 0, None);
        let why = NotStarted { reason: UNPREPARED, message: "failed to prepare subPath".to_owned() };
        facts.not_started = [("app".to_owned(), why)].into();
        let one = to_value(&regular(&pod(true), &Phase::Running(at(1)), &facts, &[])).unwrap()[0].clone();
        let expected = json!({ "reason": UNPREPARED, "message": "failed to prepare subPath" });
        assert_eq!((&one["state"]["waiting"], &one["lastState"]), (&expected, &json!({})));
        facts.containers[0].state = MachineState::Exited(Exit { since: at(3), at: at(4), code: 1 });
        let one = to_value(&regular(&pod(true), &Phase::Running(at(1)), &facts, &[])).unwrap()[0].clone();
        assert_eq!((&one["state"]["waiting"], &one["lastState"]["terminated"]["exitCode"]), (&expected, &json!(1)));
    }

    #[test]
    fn a_known_end_stays_when_the_machine_has_forgotten_it() {
        let exit = Exit { since: at(3), at: at(4), code: 0 };
        let known = regular(&pod(false), &Phase::Running(at(1)), &facts(MachineState::Exited(exit), 0, None), &[]);
        let stopped = Phase::Stopped(None, at(9));
        assert_eq!(regular(&pod(false), &stopped, &PodFacts::default(), &known), known);
        let lost = regular(&pod(false), &stopped, &PodFacts::default(), &[]).remove(0);
        assert_eq!(lost.state.unwrap().terminated.unwrap().exit_code, 137);
    }

    #[test]
    fn a_container_behind_a_failed_init_container_waits_for_good() {
        let exit = Exit { since: at(3), at: at(4), code: 1 };
        let mut facts = facts(MachineState::Exited(exit), 0, None);
        facts.containers[0].name = "init".to_owned();
        let stopped = Phase::Stopped(Some(at(3)), at(9));
        let mut pod = pod(true);
        let behind = regular(&pod, &stopped, &facts, &[]);
        assert_eq!(to_value(&behind).unwrap()[0]["state"], json!({ "waiting": { "reason": "PodInitializing" } }));
        pod.status = from_value(json!({ "phase": "Failed" })).unwrap();
        let later = regular(&pod, &Phase::Stopped(None, at(9)), &PodFacts::default(), &behind);
        assert_eq!(later[0].state, behind[0].state);
    }

    #[test]
    fn a_container_that_started_has_the_signal_of_its_spec() {
        let mut pod = pod(false);
        pod.spec.as_mut().unwrap().containers[0].lifecycle = from_value(json!({ "stopSignal": "SIGINT" })).unwrap();
        let facts = facts(MachineState::Running { since: at(5) }, 0, None);
        let signal = |phase: &Phase| regular(&pod, phase, &facts, &[]).remove(0).stop_signal;
        assert_eq!((signal(&Phase::Running(at(5))).as_deref(), signal(&Phase::Waiting)), (Some("SIGINT"), None));
    }

    #[test]
    fn a_waiting_container_has_mounts_and_no_resources() {
        let written = to_value(&regular(&pod(false), &Phase::Waiting, &PodFacts::default(), &[])).unwrap();
        let expected = json!([{
            "name": "app", "image": "busybox", "imageID": "", "ready": false, "started": false, "restartCount": 0,
            "lastState": {}, "state": { "waiting": { "reason": "ContainerCreating" } },
            "volumeMounts": [{ "name": "data", "mountPath": "/data" },
                { "name": "seed", "mountPath": "/seed", "readOnly": true, "recursiveReadOnly": "Disabled" }],
        }]);
        assert_eq!(written, expected);
        let behind = regular(&pod(true), &Phase::Waiting, &PodFacts::default(), &[]).remove(0);
        assert_eq!(behind.state.unwrap().waiting.unwrap().reason.as_deref(), Some("PodInitializing"));
    }

    #[test]
    fn a_container_that_started_has_the_resources_of_its_spec() {
        let exit = Exit { since: at(5), at: at(8), code: 0 };
        for (phase, state) in [
            (Phase::Running(at(5)), MachineState::Running { since: at(5) }),
            (Phase::Stopped(Some(at(5)), at(8)), MachineState::Exited(exit)),
        ] {
            let one = to_value(&regular(&pod(false), &phase, &facts(state, 0, None), &[])).unwrap()[0].clone();
            assert_eq!(one["resources"], json!({ "requests": { "cpu": "1" }, "limits": { "cpu": "2" } }));
            assert_eq!(one["allocatedResources"], json!({ "cpu": "1" }));
        }
        let mut bare = pod(false);
        bare.spec.as_mut().unwrap().containers[0].resources = None;
        let one = to_value(&regular(
            &bare,
            &Phase::Running(at(5)),
            &facts(MachineState::Running { since: at(5) }, 0, None),
            &[],
        ))
        .unwrap()[0]
            .clone();
        assert_eq!((&one["resources"], &one["allocatedResources"]), (&json!({}), &json!(null)));
    }
}
