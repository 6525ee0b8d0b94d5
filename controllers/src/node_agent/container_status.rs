//! The statuses of a pod's containers (upstream `kubelet_pods.go` `convertToAPIContainerStatuses`). Fields that Go writes
//! without a value, such as `lastState`, are there too.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    Pod, VolumeMount, VolumeMountStatus,
};

use super::pod_status::Phase;
use crate::kube::time;

/// Returns the statuses of all containers of a pod after `restarts` earlier starts. `before` are the last ones.
pub(super) fn statuses(pod: &Pod, phase: &Phase, restarts: u32, before: &[ContainerStatus]) -> Vec<ContainerStatus> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .map(|container| {
            let before = before.iter().find(|status| status.name == container.name);
            status(pod, container, phase, restarts, before)
        })
        .collect()
}

fn status(
    pod: &Pod,
    container: &Container,
    phase: &Phase,
    restarts: u32,
    before: Option<&ContainerStatus>,
) -> ContainerStatus {
    let started = matches!(phase, Phase::Running(_) | Phase::Stopped(Some(_), _));
    let running = matches!(phase, Phase::Running(_));
    let has_init = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref()).is_some_and(|all| !all.is_empty());
    let image = container.image.clone().unwrap_or_default();
    let id = started.then(|| container_id(pod, &container.name, restarts));
    let restarts = if started { i32::try_from(restarts).unwrap_or(i32::MAX) } else { 0 };
    let resources = started.then(|| container.resources.clone().unwrap_or_default());
    ContainerStatus {
        name: container.name.clone(),
        image: image.clone(),
        image_id: if started { image } else { String::new() },
        container_id: id.clone(),
        ready: running,
        started: Some(running),
        last_state: Some(before.map_or_else(ContainerState::default, |before| last_state(before, id.as_deref()))),
        restart_count: restarts.max(before.map_or(0, |before| before.restart_count)),
        state: Some(container_state(phase, id.as_deref(), has_init)),
        volume_mounts: mounts(container),
        allocated_resources: resources.as_ref().and_then(|resources| resources.requests.clone()),
        resources,
        ..ContainerStatus::default()
    }
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

fn container_id(pod: &Pod, container: &str, restarts: u32) -> String {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    if restarts == 0 {
        format!("mooring://{uid}/{container}")
    } else {
        format!("mooring://{uid}/{container}/{restarts}")
    }
}

/// Returns how the previous container ended. A container that was running and has disappeared ended with its machine.
fn last_state(before: &ContainerStatus, id: Option<&str>) -> ContainerState {
    let running = before.state.as_ref().and_then(|s| s.running.as_ref());
    let Some(running) = running.filter(|_| before.container_id.as_deref() != id) else {
        return before.last_state.clone().unwrap_or_default();
    };
    let terminated = ContainerStateTerminated {
        exit_code: 255,
        reason: Some("Unknown".to_owned()),
        started_at: running.started_at.clone(),
        container_id: before.container_id.clone(),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

fn container_state(phase: &Phase, id: Option<&str>, has_init: bool) -> ContainerState {
    match phase {
        Phase::Waiting | Phase::Refused => ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(if has_init { "PodInitializing" } else { "ContainerCreating" }.to_owned()),
                message: None,
            }),
            ..ContainerState::default()
        },
        Phase::Running(since) => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(time(*since)) }),
            ..ContainerState::default()
        },
        Phase::Stopped(Some(since), at) => ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code: 0,
                reason: Some("Completed".to_owned()),
                started_at: Some(time(*since)),
                finished_at: Some(time(*at)),
                container_id: id.map(str::to_owned),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        },
        Phase::Stopped(None, _) => ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code: 137,
                reason: Some("ContainerStatusUnknown".to_owned()),
                message: Some("The container could not be located when the pod was terminated".to_owned()),
                ..ContainerStateTerminated::default()
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

    #[test]
    fn a_waiting_container_has_mounts_and_no_resources() {
        let written = to_value(&statuses(&pod(false), &Phase::Waiting, 0, &[])).unwrap();
        let expected = json!([{
            "name": "app", "image": "busybox", "imageID": "", "ready": false, "started": false, "restartCount": 0,
            "lastState": {}, "state": { "waiting": { "reason": "ContainerCreating" } },
            "volumeMounts": [{ "name": "data", "mountPath": "/data" },
                { "name": "seed", "mountPath": "/seed", "readOnly": true, "recursiveReadOnly": "Disabled" }],
        }]);
        assert_eq!(written, expected);
        let behind = statuses(&pod(true), &Phase::Waiting, 0, &[]).remove(0);
        assert_eq!(behind.state.unwrap().waiting.unwrap().reason.as_deref(), Some("PodInitializing"));
    }

    #[test]
    fn a_container_that_started_has_the_resources_of_its_spec() {
        for phase in [Phase::Running(at(5)), Phase::Stopped(Some(at(5)), at(8))] {
            let one = to_value(&statuses(&pod(false), &phase, 0, &[])).unwrap()[0].clone();
            assert_eq!(one["resources"], json!({ "requests": { "cpu": "1" }, "limits": { "cpu": "2" } }));
            assert_eq!(one["allocatedResources"], json!({ "cpu": "1" }));
        }
        let mut bare = pod(false);
        bare.spec.as_mut().unwrap().containers[0].resources = None;
        let one = to_value(&statuses(&bare, &Phase::Running(at(5)), 0, &[])).unwrap()[0].clone();
        assert_eq!((&one["resources"], &one["allocatedResources"]), (&json!({}), &json!(null)));
    }
}
