//! Wait of a pod's worker for its volumes, and the Events meanwhile.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use rand_core::Rng;
use substrate::seed::unit;

use super::context::PodContext;
use crate::node_agent::admission::predicates::refuse_unattached;
use crate::node_agent::pod_table::orders::{SYNC_BACKOFF, SYNC_JITTER};
use crate::node_agent::refusal::Refusal;
use crate::node_agent::volumes::populate::expected;
use crate::node_agent::volumes::waits::{Unmounted, wait_for_volumes};

/// Waits until the pod's volumes are mounted, and emits an event with the reason while they are not.
///
/// # Errors
/// A refusal, if the node can attach no more volumes.
pub(super) async fn mounted(
    room: &PodContext,
    uid: &str,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    rng: &mut impl Rng,
) -> Result<(), Refusal> {
    let expected = expected(pod);
    while let Err(Unmounted { missing, timeout }) = wait_for_volumes(&room.volume_room, uid, &expected).await {
        if let Some(refusal) = refuse_unattached(&room.admission_room, uid, &missing).await {
            return Err(refusal);
        }
        // Upstream emits no event for the timeout.
        if !timeout {
            let message = format!("Unable to attach or mount volumes: {missing}");
            room.recorder.event(object.clone(), "Warning", "FailedMount", message);
        }
        room.ctx.sleep(SYNC_BACKOFF + SYNC_BACKOFF.mul_f64(SYNC_JITTER * unit(rng))).await;
    }
    if substrate::mutant!(room.ctx, "mount-found-late") {
        room.ctx.sleep(SYNC_BACKOFF * 9).await;
    }
    Ok(())
}
