//! Settings of a pod's modelled workload from its annotations, and the volumes of its containers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use substrate::fault::Span;

use super::agent::Agent;
use super::config::{PlannedExit, WorkloadDefaults};
use super::populate::claims;
use super::restarts::is_sidecar;
use super::volume_manager::VolumeSpec;
use crate::machine::api::{
    ContainerSpec, ContainerState, ExitPlan, Pace, PodRecord, PodSpec, VolumeLocation, VolumeUse,
};

/// Annotation: time between two records, as in `500ms`.
pub const WRITE_EVERY: &str = "mooring.dev/write-every";
/// Annotation: number of records before the writer becomes idle. 0: it writes nothing.
pub const RECORDS: &str = "mooring.dev/records";
/// Annotation: time from the start of the containers to their exit, as in `30s`. Default: they run until they are
/// stopped.
pub const RUN_FOR: &str = "mooring.dev/run-for";
/// Annotation: exit code of containers with `run-for`, 0 to 255. Default: 0.
pub const EXIT_CODE: &str = "mooring.dev/exit-code";

/// Reads the workload settings from a pod's annotations.
///
/// # Errors
/// The annotation that cannot be parsed, and the reason.
pub fn settings(pod: &Pod, defaults: &WorkloadDefaults) -> Result<WorkloadDefaults, String> {
    let mut settings = defaults.clone();
    let annotation = |key: &str| pod.metadata.annotations.as_ref().and_then(|a| a.get(key));
    if let Some(text) = annotation(WRITE_EVERY) {
        let span: Span = text.parse().map_err(|e| format!("annotation {WRITE_EVERY}: {e}"))?;
        // A writer without a wait would stop virtual time.
        settings.write_every = span.0.max(Duration::from_millis(1));
    }
    if let Some(text) = annotation(RECORDS) {
        settings.records =
            text.parse().map_err(|_| format!("annotation {RECORDS}: `{text}` is not a whole number of records"))?;
    }
    if let Some(text) = annotation(RUN_FOR) {
        let span: Span = text.parse().map_err(|e| format!("annotation {RUN_FOR}: {e}"))?;
        settings.exit = Some(PlannedExit { after: span.0, code: 0 });
    }
    if let Some(text) = annotation(EXIT_CODE) {
        let code =
            text.parse().map_err(|_| format!("annotation {EXIT_CODE}: `{text}` is not a number from 0 to 255"))?;
        let exit = settings.exit.as_mut();
        exit.ok_or_else(|| format!("annotation {EXIT_CODE}: add {RUN_FOR}, the time to the exit"))?.code = code;
    }
    Ok(settings)
}

/// Returns the number of earlier starts of a container: from the machine's last record, or else from the pod's status.
fn earlier_starts(pod: &Pod, record: Option<&PodRecord>, container: &Container) -> u32 {
    if let Some(one) = record.and_then(|record| record.container(&container.name)) {
        return one.attempt + u32::from(one.state != ContainerState::Created);
    }
    let status = pod.status.as_ref();
    let lists = status.map(|status| [&status.init_container_statuses, &status.container_statuses]);
    let mut statuses = lists.into_iter().flatten().flatten().flatten();
    let found = statuses.find(|status| status.name == container.name);
    found.and_then(restarts).map_or(0, |restarts| restarts + 1)
}

/// Returns how often a container was restarted. None if it never ran.
pub(super) fn restarts(status: &ContainerStatus) -> Option<u32> {
    let ended = status.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
    let ran = status.container_id.is_some() || ended;
    ran.then(|| u32::try_from(status.restart_count).unwrap_or_default())
}

/// Builds the containers of a pod with their mounted volumes. `last` is the machine's last record of the pod.
pub(super) fn pod_spec(
    agent: &Agent,
    uid: &str,
    pod: &Pod,
    attempt: u32,
    last: Option<&PodRecord>,
    settings: &WorkloadDefaults,
) -> PodSpec {
    let readonly: BTreeMap<String, bool> = claims(pod).into_iter().map(|c| (c.volume, c.readonly)).collect();
    let container = |container: &Container, init: bool| ContainerSpec {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        attempt: earlier_starts(pod, last, container),
        init,
        exit: None,
    };
    let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    let exit = settings.exit.map(|exit| ExitPlan { after_ms: ms(exit.after), code: i32::from(exit.code) });
    let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let inits = inits.map(|init| container(init, !is_sidecar(init)));
    let regular = pod.spec.iter().flat_map(|spec| &spec.containers);
    let regular = regular.map(|one| ContainerSpec { exit, ..container(one, false) });
    let volumes = agent.volumes().mounted(uid).into_iter().map(|(name, spec)| {
        let (container, at) = mounted_by(pod, &name).unzip();
        VolumeUse {
            volume: spec.handle.clone(),
            container,
            at,
            place: place(agent, uid, &spec),
            readonly: spec.readonly || readonly.get(&name).copied().unwrap_or_default(),
            name,
        }
    });
    PodSpec {
        pod: pod_name(pod),
        uid: uid.to_owned(),
        attempt,
        containers: inits.chain(regular).collect(),
        volumes: volumes.collect(),
        pace: Pace {
            write_every_ms: ms(settings.write_every),
            records: settings.records,
            idle_every_ms: ms(settings.idle_every),
        },
    }
}

/// Returns `<namespace>/<name>`.
pub(super) fn pod_name(pod: &Pod) -> String {
    let part = |name: &Option<String>| name.clone().unwrap_or_default();
    format!("{}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name))
}

/// Returns the place of a volume inside a pod.
fn place(agent: &Agent, uid: &str, spec: &Arc<VolumeSpec>) -> VolumeLocation {
    if spec.block {
        let mapping = agent.mapping(uid, spec);
        VolumeLocation::Device { published: mapping.device, global: mapping.global, link: mapping.link }
    } else {
        VolumeLocation::Filesystem { path: agent.target_path(uid, spec) }
    }
}

/// Returns the container that writes to a volume, the first that mounts it, and its mount path. A volume that only an
/// init container mounts has no writer.
fn mounted_by(pod: &Pod, volume: &str) -> Option<(String, String)> {
    pod.spec.iter().flat_map(|s| &s.containers).find_map(|container| {
        let mounts = container.volume_mounts.iter().flatten().map(|m| (&m.name, &m.mount_path));
        let devices = container.volume_devices.iter().flatten().map(|d| (&d.name, &d.device_path));
        let (_, at) = mounts.chain(devices).find(|(name, _)| *name == volume)?;
        Some((container.name.clone(), at.clone()))
    })
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    fn pod(annotations: substrate::json::Value) -> Pod {
        substrate::json::from_value(json!({ "metadata": { "name": "p", "annotations": annotations } })).expect("a pod")
    }

    #[test]
    fn annotations_override_the_defaults() {
        let defaults = WorkloadDefaults::default();
        assert_eq!(settings(&pod(json!({})), &defaults), Ok(defaults.clone()));
        let fast = settings(&pod(json!({ WRITE_EVERY: "100ms", RECORDS: "3" })), &defaults).expect("good annotations");
        assert_eq!((fast.write_every, fast.records), (Duration::from_millis(100), 3));
        let ends = settings(&pod(json!({ RUN_FOR: "5s", EXIT_CODE: "3" })), &defaults).expect("good annotations");
        assert_eq!(ends.exit, Some(PlannedExit { after: Duration::from_secs(5), code: 3 }));
    }

    #[test]
    fn a_bad_annotation_is_named() {
        for (annotations, parts) in [
            (json!({ RECORDS: "many" }), [RECORDS, "many"]),
            (json!({ RUN_FOR: "soon" }), [RUN_FOR, "soon"]),
            (json!({ RUN_FOR: "1s", EXIT_CODE: "256" }), [EXIT_CODE, "256"]),
            (json!({ EXIT_CODE: "1" }), [EXIT_CODE, RUN_FOR]),
        ] {
            let error = settings(&pod(annotations), &WorkloadDefaults::default()).expect_err("bad");
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
