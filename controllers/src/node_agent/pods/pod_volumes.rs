//! Waits of a pod's worker for its volumes (upstream `WaitForAttachAndMount` and `WaitForUnmount`). It never mounts: the
//! volume manager does.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use rand_core::Rng;
use substrate::latest;
use substrate::seed::unit;

use super::admission::refuse_unattached;
use super::context::PodContext;
use crate::node_agent::pod_table::orders::{SYNC_BACKOFF, SYNC_JITTER};
use crate::node_agent::refusal::Refusal;
use crate::node_agent::volumes::populate::expected;
use crate::tick_schedule::TickSchedule;

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
    while let Err(Unmounted { missing, timeout }) = wait_for_volumes(room, uid, &expected).await {
        if let Some(refusal) = refuse_unattached(room, uid, &missing).await {
            return Err(refusal);
        }
        // Upstream emits no event for the timeout.
        if !timeout {
            let message = format!("Unable to attach or mount volumes: {missing}");
            room.recorder.event(object.clone(), "Warning", "FailedMount", message);
        }
        room.ctx.sleep(SYNC_BACKOFF + SYNC_BACKOFF.mul_f64(SYNC_JITTER * unit(rng))).await;
    }
    Ok(())
}

/// Volumes that were not mounted in time.
struct Unmounted {
    /// Description in kubelet's words.
    missing: String,
    /// True after the timeout; false if looking up the volumes failed.
    timeout: bool,
}

/// Waits until the volumes are mounted (`WaitForAttachAndMount`): checks at once and every 300 ms, for 2 m 3 s.
async fn wait_for_volumes(room: &PodContext, uid: &str, expected: &[String]) -> Result<(), Unmounted> {
    let timers = &room.config.timers;
    let begun = room.ctx.now().mono;
    let deadline = begun + room.ctx.scaled(timers.pod_attach_and_mount_timeout);
    if !substrate::mutant!(room.ctx, "failed-lookup-not-repeated") {
        room.pods.lock().look_up_again(uid);
    }
    let mut changes = room.changes.subscribe();
    room.changes.signal();
    loop {
        {
            let mut volumes = room.volumes.lock();
            if volumes.has_errors(uid) {
                let cause = volumes.take_errors(uid).join("; ");
                return Err(Unmounted { missing: volumes.explain(uid, expected, &cause), timeout: false });
            }
            if volumes.unmounted(uid, expected).is_empty() {
                return Ok(());
            }
        }
        if !next_look(room, &mut changes, begun, Some(deadline)).await {
            let missing = room.volumes.lock().explain(uid, expected, "context deadline exceeded");
            return Err(Unmounted { missing, timeout: true });
        }
    }
}

/// Waits until the volumes are unmounted (`WaitForUnmount`): checks at once and every 300 ms.
pub(super) async fn wait_for_unmount(room: &PodContext, uid: &str) {
    let begun = room.ctx.now().mono;
    let mut changes = room.changes.subscribe();
    while !room.volumes.lock().is_unmounted(uid) {
        next_look(room, &mut changes, begun, None).await;
    }
}

/// Waits for a change, then for the next multiple of 300 ms since `begun`. Returns false at the deadline.
async fn next_look(
    room: &PodContext,
    changes: &mut latest::Receiver<()>,
    begun: Duration,
    deadline: Option<Duration>,
) -> bool {
    tokio::select! { biased;
        _ = changes.changed() => {}
        () = room.ctx.sleep_until(deadline.unwrap_or_default()), if deadline.is_some() => return false,
    }
    let poll = room.ctx.scaled(room.config.timers.pod_attach_and_mount_poll);
    let now = room.ctx.now().mono;
    let next = TickSchedule::new(begun, poll).at_or_after(now, Some(now));
    room.ctx.sleep_until(next).await;
    deadline.is_none_or(|deadline| next < deadline)
}
