//! Starts of the ephemeral containers of a running pod (`kubectl debug`).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod};

use super::context::ContainerContext;
use super::of_pod::of_container;
use super::starts::emit_start_event;
use crate::machine::api::{ContainerSpec, PodRecord};
use crate::node_agent::pod_table::orders::SYNC_BACKOFF;
use crate::node_agent::programs::workload::{exit_by_command, prepared_alone};
use crate::node_agent::rules::ephemeral::new;

/// Starts the ephemeral containers of a pod that have never started. Returns the time at which to try again.
pub(crate) async fn start_new(
    room: &Arc<ContainerContext>,
    uid: &str,
    record: &PodRecord,
    object: &ObjectReference,
) -> Option<Duration> {
    let pod = room.pods.lock().get(uid)?;
    let mut failed = false;
    let mut known = pod.clone();
    if substrate::mutant!(room.ctx, "debug-container-rerun") {
        Arc::make_mut(&mut known).status = None;
    }
    for container in new(&known, record) {
        let object = Arc::new(of_container(object, &pod, &container.name));
        match start(room, uid, &pod, &container).await {
            Ok(()) => emit_start_event(room, object, &container),
            Err(message) => {
                room.recorder.event(object, "Warning", "Failed", message);
                failed = true;
            }
        }
    }
    failed.then(|| room.ctx.now().mono + room.ctx.scaled(SYNC_BACKOFF))
}

/// Starts one ephemeral container.
///
/// # Errors
/// The message of the Event.
async fn start(room: &Arc<ContainerContext>, uid: &str, pod: &Pod, container: &Container) -> Result<(), String> {
    let mut prepared = prepared_alone(&room.program_room, uid, pod, container).await.map_err(|why| why.message)?;
    let program = prepared.programs.remove(&container.name);
    let spec = ContainerSpec {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        attempt: 0,
        init: false,
        exit: exit_by_command(container, program.as_ref()),
        gates: false,
        held: false,
        program,
    };
    room.runtime.add(&room.ctx, uid, &spec).await.map_err(|error| format!("Error: {error}"))
}
