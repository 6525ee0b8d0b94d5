//! Ephemeral containers of a pod (`kubectl debug`). They start once, beside the others, and never again (upstream
//! `kuberuntime_manager.go` computePodActions).

use k8s_openapi::api::core::v1::{Container, ContainerStatus, EphemeralContainer, Pod};

use super::restarts::restarts;
use crate::machine::api::{ContainerState, PodRecord};

/// Returns the number of ephemeral containers of a pod. It only grows.
pub(crate) fn count(pod: &Pod) -> usize {
    pod.spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten()).count()
}

/// Returns the ephemeral containers of a pod that have never started. `record` is what its machine knows.
pub(crate) fn new(pod: &Pod, record: &PodRecord) -> Vec<Container> {
    let statuses = pod.status.as_ref().and_then(|status| status.ephemeral_container_statuses.as_deref());
    let started = |name: &str| {
        let mut statuses = statuses.unwrap_or_default().iter();
        record.container(name).is_some() || statuses.any(|status| status.name == name && has_started(status))
    };
    let all = pod.spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    all.filter(|one| !started(&one.name)).map(as_container).collect()
}

/// Returns true if an ephemeral container started, perhaps on a machine that was lost since.
pub(crate) fn has_started(status: &ContainerStatus) -> bool {
    restarts(status).is_some() || status.state.as_ref().is_some_and(|state| state.terminated.is_some())
}

/// Returns the names of the ephemeral containers of a pod that run.
pub(crate) fn running(pod: &Pod, record: Option<&PodRecord>) -> Vec<String> {
    let runs = |one: &&EphemeralContainer| {
        let known = record.and_then(|record| record.container(&one.name));
        known.is_some_and(|known| matches!(known.state, ContainerState::Running { .. }))
    };
    let all = pod.spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    all.filter(runs).map(|one| one.name.clone()).collect()
}

/// Returns an ephemeral container as a regular one that never starts again.
pub(crate) fn as_container(one: &EphemeralContainer) -> Container {
    let one = one.clone();
    Container {
        args: one.args,
        command: one.command,
        env: one.env,
        env_from: one.env_from,
        image: one.image,
        image_pull_policy: one.image_pull_policy,
        lifecycle: one.lifecycle,
        liveness_probe: one.liveness_probe,
        name: one.name,
        ports: one.ports,
        readiness_probe: one.readiness_probe,
        resize_policy: one.resize_policy,
        resources: one.resources,
        restart_policy: Some("Never".to_owned()),
        restart_policy_rules: None,
        security_context: one.security_context,
        startup_probe: one.startup_probe,
        stdin: one.stdin,
        stdin_once: one.stdin_once,
        termination_message_path: one.termination_message_path,
        termination_message_policy: one.termination_message_policy,
        tty: one.tty,
        volume_devices: one.volume_devices,
        volume_mounts: one.volume_mounts,
        working_dir: one.working_dir,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use substrate::Now;
    use substrate::json::{Value, from_value, json};

    use super::*;
    use crate::machine::api::{ContainerRecord, State};

    fn pod(statuses: Value) -> Pod {
        from_value(json!({
            "metadata": { "name": "p", "uid": "u" },
            "spec": { "containers": [{ "name": "app" }], "ephemeralContainers": [{ "name": "a" }, { "name": "b" }] },
            "status": { "ephemeralContainerStatuses": statuses },
        }))
        .unwrap()
    }

    fn status(state: Value) -> Value {
        json!([{ "name": "b", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state }])
    }

    #[test]
    fn an_ephemeral_container_starts_once() {
        let since = Now::at(Duration::ZERO).wall;
        let state = ContainerState::Running { since };
        let a = ContainerRecord::new("a", "", 0, state);
        let (name, uid) = ("d/p".to_owned(), "u".to_owned());
        let mut record =
            PodRecord { pod: name, uid, attempt: 0, sandbox: 0, state: State::Running { since }, containers: vec![] };
        let names = |pod: &Pod, record: &PodRecord| -> Vec<String> {
            new(pod, record).into_iter().map(|container| container.name).collect()
        };
        let waits = pod(status(json!({ "waiting": {} })));
        assert_eq!((count(&waits), names(&waits, &record)), (2, vec!["a".to_owned(), "b".to_owned()]));
        record.containers.push(a);
        assert_eq!(names(&waits, &record), ["b"]);
        assert_eq!(running(&waits, Some(&record)), ["a"]);
        let ended = pod(status(json!({ "terminated": { "exitCode": 0 } })));
        assert!(names(&ended, &record).is_empty(), "its machine may have forgotten it");
    }
}
