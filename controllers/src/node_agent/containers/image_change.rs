//! Containers whose image changes while they run: they are stopped, and start again with the new image (upstream
//! `kuberuntime_manager.go` computePodActions, containerChanged). Of the fields that can change, only the image counts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod};

use super::context::ContainerContext;
use super::hooks::{runs, stop_one};
use super::of_pod::grace_of;
use crate::machine::api::{ContainerState, PodRecord};

/// Wait after a failed call to the runtime.
const RETRY: Duration = Duration::from_secs(1);

/// Returns true if the machine has a container with another image than `container`.
pub(super) fn has_other_image(record: &PodRecord, container: &Container) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    record.container(&container.name).is_some_and(|one| one.image != image)
}

/// Stops the regular containers that run with another image than `pod` says. Returns their names after their end. Sidecars
/// run on, as upstream.
pub(crate) async fn stop_changed(
    room: &ContainerContext,
    uid: &str,
    pod: &Pod,
    record: &PodRecord,
    object: &Arc<ObjectReference>,
) -> BTreeSet<String> {
    let mut stopped = BTreeSet::new();
    let attempt = |name: &str| {
        let one = record.container(name)?;
        matches!(one.state, ContainerState::Running { .. }).then_some(one.attempt)
    };
    for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
        let Some(attempt) = attempt(&container.name).filter(|_| has_other_image(record, container)) else { continue };
        let message = format!("Container {} definition changed, will be restarted", container.name);
        let grace = grace_of(pod);
        let mut asked = stop_one(room, uid, pod, object, container, &message, grace).await;
        let mut changes = room.runtime.changes();
        while runs(room, uid, &container.name, attempt) {
            if asked {
                // The sender lives in the agent.
                let _ = changes.changed().await;
            } else {
                room.ctx.sleep(RETRY).await;
                asked = room.runtime.stop_container(&room.ctx, uid, &container.name, grace).await.is_ok();
            }
        }
        stopped.insert(container.name.clone());
    }
    stopped
}

/// Returns `pod` with the images of its latest version.
pub(crate) fn with_latest_images(pod: &Arc<Pod>, latest: Option<&Pod>) -> Arc<Pod> {
    let images = |pod: &Pod| {
        let all = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
        all.map(|container| (container.name.clone(), container.image.clone())).collect::<Vec<_>>()
    };
    let Some(new) = latest.map(images).filter(|new| *new != images(pod)) else { return pod.clone() };
    let mut changed = Pod::clone(pod);
    if let Some(spec) = &mut changed.spec {
        for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
            if let Some((_, image)) = new.iter().find(|(name, _)| *name == container.name) {
                container.image.clone_from(image);
            }
        }
    }
    Arc::new(changed)
}
