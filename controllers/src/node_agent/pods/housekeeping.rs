//! Containers of pods that are gone (upstream `HandlePodCleanups`).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::context::PodContext;
use crate::machine::api::PodRecord;
use crate::node_agent::volumes::pod_dirs::HOUSEKEEPING;

/// Grace period of containers whose pod is gone (`SyncTerminatingRuntimePod`).
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// Stops and removes containers of pods that are gone (`HandlePodCleanups`).
pub(super) fn housekeeping(room: &Arc<PodContext>) {
    let orphans: Vec<PodRecord> = {
        let pods = room.pods.lock();
        if !pods.listed {
            return;
        }
        let gone = |record: &PodRecord| !pods.knows(&record.uid) && (record.is_alive() || !is_in_source(room, record));
        room.runtime.list().into_iter().filter(gone).collect()
    };
    for orphan in orphans {
        let room = room.clone();
        room.ctx.clone().spawn(async move {
            // Retry a failed call at each housekeeping, until the runtime's record changes or a worker takes the pod.
            loop {
                let done = if orphan.is_alive() {
                    room.runtime.stop(&room.ctx, &orphan.uid, ORPHAN_GRACE).await.map(drop)
                } else {
                    room.runtime.remove(&room.ctx, &orphan.uid).await
                };
                if done.is_ok() {
                    return;
                }
                room.ctx.sleep(HOUSEKEEPING).await;
                let there = room.runtime.get(&orphan.uid).is_some_and(|now| now.is_alive() == orphan.is_alive());
                if !there || room.pods.lock().knows(&orphan.uid) {
                    return;
                }
            }
        });
    }
}

fn is_in_source(room: &PodContext, record: &PodRecord) -> bool {
    let (namespace, name) = record.pod.split_once('/').unwrap_or(("", &record.pod));
    room.pod_source.get(namespace, name).is_some_and(|pod| pod.metadata.uid.as_deref() == Some(&record.uid))
}

/// Forgets a pod that is gone: its logs are no longer served.
pub(super) fn forget(room: &Arc<PodContext>, pod: &Pod) {
    room.config.logs.forget(pod);
    housekeeping(room);
}
