//! Waits of a pod's worker for its volumes (upstream `WaitForAttachAndMount` and `WaitForUnmount`). It never mounts: the
//! volume manager does.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use rand_core::Rng;
use substrate::latest;
use substrate::seed::unit;

use super::admission::refuse_unattached;
use crate::node_agent::agent::Agent;
use crate::node_agent::pod_table::orders::{SYNC_BACKOFF, SYNC_JITTER};
use crate::node_agent::refusal::Refusal;
use crate::node_agent::volumes::populate::expected;
use crate::tick_schedule::TickSchedule;

/// Waits until the pod's volumes are mounted, and emits an event with the reason while they are not.
///
/// # Errors
/// A refusal, if the node can attach no more volumes.
pub(super) async fn mounted(
    agent: &Agent,
    uid: &str,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    rng: &mut impl Rng,
) -> Result<(), Refusal> {
    let expected = expected(pod);
    while let Err(Unmounted { missing, timeout }) = wait_for_volumes(agent, uid, &expected).await {
        if let Some(refusal) = refuse_unattached(agent, uid, &missing).await {
            return Err(refusal);
        }
        // Upstream emits no event for the timeout.
        if !timeout {
            let message = format!("Unable to attach or mount volumes: {missing}");
            agent.recorder.event(object.clone(), "Warning", "FailedMount", message);
        }
        agent.ctx.sleep(SYNC_BACKOFF + SYNC_BACKOFF.mul_f64(SYNC_JITTER * unit(rng))).await;
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
async fn wait_for_volumes(agent: &Agent, uid: &str, expected: &[String]) -> Result<(), Unmounted> {
    let timers = &agent.config.timers;
    let begun = agent.ctx.now().mono;
    let deadline = begun + agent.ctx.scaled(timers.pod_attach_and_mount_timeout);
    if !substrate::mutant!(agent.ctx, "failed-lookup-not-repeated") {
        agent.pods.lock().look_up_again(uid);
    }
    let mut changes = agent.changes.subscribe();
    agent.changes.signal();
    loop {
        {
            let mut volumes = agent.volumes.lock();
            if volumes.has_errors(uid) {
                let cause = volumes.take_errors(uid).join("; ");
                return Err(Unmounted { missing: volumes.explain(uid, expected, &cause), timeout: false });
            }
            if volumes.unmounted(uid, expected).is_empty() {
                return Ok(());
            }
        }
        if !next_look(agent, &mut changes, begun, Some(deadline)).await {
            let missing = agent.volumes.lock().explain(uid, expected, "context deadline exceeded");
            return Err(Unmounted { missing, timeout: true });
        }
    }
}

/// Waits until the volumes are unmounted (`WaitForUnmount`): checks at once and every 300 ms.
pub(super) async fn wait_for_unmount(agent: &Agent, uid: &str) {
    let begun = agent.ctx.now().mono;
    let mut changes = agent.changes.subscribe();
    while !agent.volumes.lock().is_unmounted(uid) {
        next_look(agent, &mut changes, begun, None).await;
    }
}

/// Waits for a change, then for the next multiple of 300 ms since `begun`. Returns false at the deadline.
async fn next_look(
    agent: &Agent,
    changes: &mut latest::Receiver<()>,
    begun: Duration,
    deadline: Option<Duration>,
) -> bool {
    tokio::select! { biased;
        _ = changes.changed() => {}
        () = agent.ctx.sleep_until(deadline.unwrap_or_default()), if deadline.is_some() => return false,
    }
    let poll = agent.ctx.scaled(agent.config.timers.pod_attach_and_mount_poll);
    let now = agent.ctx.now().mono;
    let next = TickSchedule::new(begun, poll).at_or_after(now, Some(now));
    agent.ctx.sleep_until(next).await;
    deadline.is_none_or(|deadline| next < deadline)
}
