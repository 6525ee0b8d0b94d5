//! Settings of a pod's modelled workload from its annotations, and the volumes of its containers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use substrate::fault::Span;

use super::agent::Agent;
use super::config::WorkloadDefaults;
use super::populate::claims;
use super::volume_manager::VolumeSpec;
use crate::machine::api::{ContainerSpec, Pace, PodSpec, VolumeLocation, VolumeUse};

/// Annotation: time between two records, as in `500ms`.
pub const WRITE_EVERY: &str = "mooring.dev/write-every";
/// Annotation: number of records before the writer becomes idle.
pub const RECORDS: &str = "mooring.dev/records";

/// Reads the writer settings from a pod's annotations.
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
    Ok(settings)
}

/// Builds the containers of a pod with their mounted volumes.
pub(super) fn pod_spec(agent: &Agent, uid: &str, pod: &Pod, attempt: u32, settings: &WorkloadDefaults) -> PodSpec {
    let readonly: BTreeMap<String, bool> = claims(pod).into_iter().map(|c| (c.volume, c.readonly)).collect();
    let containers = pod.spec.iter().flat_map(|s| &s.containers);
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
    let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    PodSpec {
        pod: pod_name(pod),
        uid: uid.to_owned(),
        attempt,
        containers: containers
            .map(|c| ContainerSpec { name: c.name.clone(), image: c.image.clone().unwrap_or_default() })
            .collect(),
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
    }

    #[test]
    fn a_bad_annotation_is_named() {
        let error = settings(&pod(json!({ RECORDS: "many" })), &WorkloadDefaults::default()).expect_err("bad");
        assert!(error.contains(RECORDS) && error.contains("many"), "{error}");
    }
}
