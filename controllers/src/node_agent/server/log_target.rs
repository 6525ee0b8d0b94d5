//! Kubelet's endpoint for the logs of pods: `/containerLogs/{namespace}/{pod}/{container}` (upstream
//! `pkg/kubelet/server/server.go`, `kubelet_pods.go`).

use std::collections::BTreeMap;

use http::StatusCode;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use substrate::Ctx;

use crate::node_agent::logs::{Logs, PodLogs};
use crate::node_agent::status::pod_status::status;

/// Path of a container's log.
pub(super) const CONTAINER_LOGS: &str = "/containerLogs/";

/// Finds the pod's uid and the container's id for a request.
pub(super) fn find(
    logs: &Logs,
    ctx: &Ctx,
    target: &Target,
    previous: bool,
) -> Result<(String, String), (StatusCode, String)> {
    let Target { pod, container, .. } = target;
    let pods = logs.lock();
    let logs = target.among(&pods)?;
    let known = match &logs.state {
        Some((phase, facts)) => status(&logs.pod, phase, facts, ctx.now().wall),
        // After a kubelet restart: the status that the API server has.
        None => logs.pod.status.clone().unwrap_or_default(),
    };
    let id = readable(pod, &known, container, previous).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    Ok((logs.pod.metadata.uid.clone().unwrap_or_default(), id))
}

fn has_container(pod: &Pod, name: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let mut names = spec.containers.iter().chain(spec.init_containers.iter().flatten()).map(|c| c.name.as_str());
    names.any(|n| n == name) || spec.ephemeral_containers.iter().flatten().any(|c| c.name == name)
}

/// Returns the id of the container whose log can be read, or the reason why there is none yet
/// (`validateContainerLogStatus`).
fn readable(pod: &str, status: &PodStatus, container: &str, previous: bool) -> Result<String, String> {
    let lists = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    let found: Option<&ContainerStatus> = lists.into_iter().flatten().flatten().find(|c| c.name == container);
    let Some(found) = found else { return Err(format!("container {container:?} in pod {pod:?} is not available")) };
    let state = found.state.clone().unwrap_or_default();
    let last = found.last_state.as_ref().and_then(|s| s.terminated.as_ref()).and_then(|t| t.container_id.clone());
    let ended = || format!("container {container:?} in pod {pod:?} is terminated");
    if previous {
        return last.ok_or_else(|| format!("previous terminated container {container:?} in pod {pod:?} not found"));
    }
    if state.running.is_some() {
        return Ok(found.container_id.clone().unwrap_or_default());
    }
    if let Some(terminated) = state.terminated {
        return terminated.container_id.filter(|id| !id.is_empty()).or(last).ok_or_else(ended);
    }
    if let Some(waiting) = state.waiting {
        let reason = waiting.reason.unwrap_or_default();
        return last.ok_or_else(|| format!("container {container:?} in pod {pod:?} is waiting to start: {reason}"));
    }
    last.ok_or_else(|| format!("container {container:?} in pod {pod:?} is waiting to start - no logs yet"))
}

/// Container in the path of a request.
pub(super) struct Target {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) container: String,
}

impl Target {
    /// Finds the pod.
    pub(super) fn among<'a>(
        &self,
        pods: &'a BTreeMap<(String, String), PodLogs>,
    ) -> Result<&'a PodLogs, (StatusCode, String)> {
        let Self { namespace, pod, container } = self;
        let missing = || (StatusCode::NOT_FOUND, format!("pod {pod:?} does not exist"));
        let logs = pods.get(&(namespace.clone(), pod.clone())).ok_or_else(missing)?;
        if !has_container(&logs.pod, container) {
            return Err((StatusCode::NOT_FOUND, format!("container {container:?} not found in pod {pod:?}")));
        }
        Ok(logs)
    }

    /// Parses `{prefix}{namespace}/{pod}/{container}`. Names of Kubernetes objects need no escapes.
    pub(super) fn parse(path: &str, prefix: &str) -> Option<Self> {
        let mut parts = path.strip_prefix(prefix)?.trim_end_matches('/').split('/').map(str::to_owned);
        let target = Self { namespace: parts.next()?, pod: parts.next()?, container: parts.next()? };
        parts.next().is_none().then_some(target)
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::super::log_service::attempt;
    use super::*;

    fn status_of(state: substrate::json::Value, last: substrate::json::Value) -> PodStatus {
        let container = json!({"name": "main", "image": "i", "imageID": "i", "ready": true, "restartCount": 0,
            "containerID": "mooring://u/main", "state": state, "lastState": last});
        substrate::json::from_value(json!({ "containerStatuses": [container] })).expect("a status")
    }

    #[test]
    fn a_log_is_readable_once_its_container_has_started() {
        let read = |state, previous| readable("web", &status_of(state, json!({})), "main", previous);
        assert_eq!(read(json!({"running": {}}), false).as_deref(), Ok("mooring://u/main"));
        let terminated = json!({"terminated": {"exitCode": 0, "containerID": "mooring://u/old"}});
        assert_eq!(read(terminated, false).as_deref(), Ok("mooring://u/old"));
        for (state, previous, why) in [
            (json!({"waiting": {"reason": "ContainerCreating"}}), false, "is waiting to start: ContainerCreating"),
            (json!({"terminated": {"exitCode": 137}}), false, "is terminated"),
            (json!({}), false, "is waiting to start - no logs yet"),
        ] {
            assert_eq!(read(state, previous), Err(format!("container \"main\" in pod \"web\" {why}")));
        }
        let none = "previous terminated container \"main\" in pod \"web\" not found";
        assert_eq!(read(json!({"running": {}}), true), Err(none.to_owned()));
        let none = readable("web", &PodStatus::default(), "main", false);
        assert_eq!(none, Err("container \"main\" in pod \"web\" is not available".to_owned()));
    }

    #[test]
    fn the_id_of_a_container_has_its_start() {
        for (id, number) in [("mooring://u/app", 0), ("mooring://u/7", 0), ("mooring://u/app/3", 3)] {
            assert_eq!(attempt(id), number, "{id}");
        }
    }

    #[test]
    fn a_path_has_three_parts() {
        let parsed = |path| Target::parse(path, CONTAINER_LOGS).map(|t| [t.namespace, t.pod, t.container].join(" "));
        assert_eq!(parsed("/containerLogs/default/web/main").as_deref(), Some("default web main"));
        for path in ["/containerLogs/default/web", "/containerLogs/a/b/c/d", "/logs/a/b/c", "/"] {
            assert_eq!(parsed(path), None, "{path}");
        }
    }
}
