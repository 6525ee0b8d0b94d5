//! Waits for the volumes of a pod (upstream `WaitForAttachAndMount` and `WaitForUnmount`). They never mount: the volume
//! manager does.

use std::time::Duration;

use substrate::latest;

use super::context::VolumeContext;
use crate::tick_schedule::TickSchedule;

/// Volumes that were not mounted in time.
pub(crate) struct Unmounted {
    /// Description in kubelet's words.
    pub missing: String,
    /// True after the timeout; false if looking up the volumes failed.
    pub timeout: bool,
}

/// Waits until the volumes are mounted (`WaitForAttachAndMount`): checks at once and every 300 ms, for 2 m 3 s.
pub(crate) async fn wait_for_volumes(room: &VolumeContext, uid: &str, expected: &[String]) -> Result<(), Unmounted> {
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
pub(crate) async fn wait_for_unmount(room: &VolumeContext, uid: &str) {
    let begun = room.ctx.now().mono;
    let mut changes = room.changes.subscribe();
    while !room.volumes.lock().is_unmounted(uid) {
        next_look(room, &mut changes, begun, None).await;
    }
}

/// Waits for a change, then for the next multiple of 300 ms since `begun`. Returns false at the deadline.
async fn next_look(
    room: &VolumeContext,
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
