//! Containers of pods that are gone (upstream `HandlePodCleanups`).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::machine::api::PodRecord;
use crate::node_agent::agent::Agent;
use crate::node_agent::volumes::pod_dirs::HOUSEKEEPING;

/// Grace period of containers whose pod is gone (`SyncTerminatingRuntimePod`).
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// Stops and removes containers of pods that are gone (`HandlePodCleanups`).
pub(super) fn housekeeping(agent: &Arc<Agent>) {
    let orphans: Vec<PodRecord> = {
        let pods = agent.pods.lock();
        if !pods.listed {
            return;
        }
        let gone = |record: &PodRecord| !pods.knows(&record.uid) && (record.is_alive() || !is_in_source(agent, record));
        agent.runtime.list().into_iter().filter(gone).collect()
    };
    for orphan in orphans {
        let agent = agent.clone();
        agent.ctx.clone().spawn(async move {
            // Retry a failed call at each housekeeping, until the runtime's record changes or a worker takes the pod.
            loop {
                let done = if orphan.is_alive() {
                    agent.runtime.stop(&agent.ctx, &orphan.uid, ORPHAN_GRACE).await.map(drop)
                } else {
                    agent.runtime.remove(&agent.ctx, &orphan.uid).await
                };
                if done.is_ok() {
                    return;
                }
                agent.ctx.sleep(HOUSEKEEPING).await;
                let there = agent.runtime.get(&orphan.uid).is_some_and(|now| now.is_alive() == orphan.is_alive());
                if !there || agent.pods.lock().knows(&orphan.uid) {
                    return;
                }
            }
        });
    }
}

fn is_in_source(agent: &Agent, record: &PodRecord) -> bool {
    let (namespace, name) = record.pod.split_once('/').unwrap_or(("", &record.pod));
    agent.pod_source.get(namespace, name).is_some_and(|pod| pod.metadata.uid.as_deref() == Some(&record.uid))
}

/// Forgets a pod that is gone: its logs are no longer served.
pub(super) fn forget(agent: &Arc<Agent>, pod: &Pod) {
    agent.config.logs.forget(pod);
    housekeeping(agent);
}
