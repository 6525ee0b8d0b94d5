//! The status manager of one pod: writes the newest status, and removes the object when the pod is finished
//! (upstream `status_manager.go` syncPod).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use substrate::latest;

use super::agent::Agent;
use super::pod_status::{Phase, PodFacts, status};
use crate::kube::{Api, ApiError, DeleteParams, Guard};

/// How long a failed write waits for its next try (`syncPeriod`).
const RETRY: Duration = Duration::from_secs(10);

/// What a worker has to say; the newest counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// Nothing yet.
    Nothing,
    /// The pod's state.
    Phase(Phase, PodFacts),
    /// The pod's last state; nothing of it is left on the node.
    Finish(Phase, PodFacts),
}

/// Writes what `reports` says until the pod is finished.
pub(super) async fn reporter(agent: Arc<Agent>, pod: Arc<Pod>, mut reports: latest::Receiver<Report>) {
    let api = agent.client.namespaced::<Pod>(pod.metadata.namespace.as_deref().unwrap_or_default());
    while reports.changed().await.is_ok() {
        loop {
            let report = reports.borrow_and_update().clone();
            match send(&agent, &api, &pod, &report).await {
                Ok(true) => break,
                // The object is gone, or another one has its name.
                Ok(false) => return,
                Err(error) if error.is_not_found() => return,
                Err(_) => agent.ctx.sleep(RETRY).await,
            }
        }
    }
}

/// Writes one report; false when the pod object is not there any more.
async fn send(agent: &Agent, api: &Api<Pod>, pod: &Pod, report: &Report) -> Result<bool, ApiError> {
    let (phase, facts, finish) = match report {
        Report::Nothing => return Ok(true),
        Report::Phase(phase, facts) => (phase, facts, false),
        Report::Finish(phase, facts) => (phase, facts, true),
    };
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    // A live read, as upstream: the cache may hold an older pod of this name.
    let mut current = api.get(name).await?;
    if current.metadata.uid != pod.metadata.uid {
        return Ok(false);
    }
    // Of the pod only its uid is in the patch, so that a new pod of the same name is not hit (`PatchPodStatus`).
    let written = Some(status(&current, phase, facts, agent.ctx.now().wall));
    let changed = Pod { metadata: current.metadata.clone(), spec: current.spec.clone(), status: written };
    if let Some(patched) = api.strategic_patch_status(&current, &changed, Guard::Uid).await? {
        current = patched;
    }
    if finish && current.metadata.deletion_timestamp.is_some() {
        let params = DeleteParams { uid: pod.metadata.uid.clone(), ..DeleteParams::force() };
        match api.delete(name, &params).await {
            // The uid differs: the name belongs to another pod.
            Err(error) if error.is_conflict() => {}
            other => other?,
        }
        return Ok(false);
    }
    Ok(true)
}
