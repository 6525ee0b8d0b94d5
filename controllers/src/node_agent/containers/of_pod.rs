//! Containers of a pod by their names, references to them in Events, and their grace period.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod};

/// Returns a container or an init container of a pod by its name.
pub(super) fn named<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.init_containers.iter().flatten().chain(&spec.containers).find(|container| container.name == name)
}

/// Returns a reference to a container of a pod (`GenerateContainerRef`).
pub(crate) fn of_container(object: &ObjectReference, pod: &Pod, container: &str) -> ObjectReference {
    let mut inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let mut ephemeral = pod.spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    let list = if inits.any(|init| init.name == container) {
        "initContainers"
    } else if ephemeral.any(|one| one.name == container) {
        "ephemeralContainers"
    } else {
        "containers"
    };
    ObjectReference { field_path: Some(format!("spec.{list}{{{container}}}")), ..object.clone() }
}

/// Returns the grace period of a pod that is not deleted.
pub(crate) fn grace_of(pod: &Pod) -> Duration {
    let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    Duration::from_secs(grace.and_then(|grace| u64::try_from(grace).ok()).unwrap_or(30))
}
