//! Pods that may be active only for `spec.activeDeadlineSeconds` (upstream `active_deadline.go`).

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::context::PodContext;

/// Returns the longest time for which the pod may be active.
pub(super) fn limit(pod: &Pod) -> Option<i64> {
    pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds)
}

/// Returns the time that is left to a pod which has been active since `start`; zero if there is none left.
fn left(limit: i64, start: Timestamp, now: Timestamp) -> Duration {
    let active = now.duration_since(start);
    Duration::try_from(SignedDuration::from_secs(limit).saturating_sub(active)).unwrap_or(Duration::ZERO)
}

/// Orders the worker of a pod to stop at the pod's deadline. If the deadline changes meanwhile, the new one applies.
pub(super) fn watch(room: &Arc<PodContext>, uid: &str, pod: &Pod) {
    if limit(pod).is_none() {
        return;
    }
    let known = pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
    let known = known.filter(|_| !substrate::mutant!(room.ctx, "deadline-from-restart"));
    let start = known.unwrap_or_else(|| room.ctx.now().wall);
    let (room, uid) = (room.clone(), uid.to_owned());
    room.clone().ctx.spawn(async move {
        loop {
            let pod = room.pods.lock().get(&uid);
            let Some(limit) = pod.as_deref().and_then(limit) else { return };
            let left = left(limit, start, room.ctx.now().wall);
            if left.is_zero() {
                return room.pods.lock().expire(&uid);
            }
            room.ctx.sleep(left).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_from_the_start() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(left(10, at(100), at(103)), Duration::from_secs(7));
        assert_eq!(left(10, at(100), at(110)), Duration::ZERO);
        assert_eq!(left(10, at(100), at(200)), Duration::ZERO);
        assert_eq!(left(10, at(100), at(99)), Duration::from_secs(11));
    }
}
