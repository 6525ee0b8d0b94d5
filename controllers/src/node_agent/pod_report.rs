//! The status manager of one pod: writes the newest status, and removes the object when the pod is finished
//! (upstream `status_manager.go` syncPod).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use substrate::latest;

use super::agent::Agent;
use super::pod_status::{Phase, PodFacts, status};
use crate::kube::{Api, ApiError, DeleteParams, Guard};

/// How long a failed write waits for its next try, and how often is looked whether others have written what is kubelet's
/// (`syncPeriod`).
const PERIOD: Duration = Duration::from_secs(10);

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
    let mut kept = Kept { agent: &agent, pod: &pod, looked_at: None };
    let mut report = Report::Nothing;
    loop {
        tokio::select! {
            biased;
            changed = reports.changed() => if changed.is_err() { return },
            () = kept.lost(&report) => {}
        }
        loop {
            report = reports.borrow_and_update().clone();
            match send(&agent, &api, &pod, &report).await {
                Ok(true) => break,
                // The object is gone, or another one has its name.
                Ok(false) => return,
                Err(error) if error.is_not_found() => return,
                Err(_) => agent.ctx.sleep(PERIOD).await,
            }
        }
    }
}

/// Whether the API server has of a pod what its kubelet says (`needsReconcile`).
struct Kept<'a> {
    agent: &'a Agent,
    pod: &'a Pod,
    /// The pod as it was when that was looked at.
    looked_at: Option<Arc<Pod>>,
}

impl Kept<'_> {
    /// Until somebody else has written what is kubelet's: the scheduler, when its binding was done and not answered, or the
    /// node lifecycle controller, which says of pods that they are not ready.
    async fn lost(&mut self, told: &Report) {
        loop {
            self.agent.ctx.sleep(PERIOD).await;
            let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
            let cached = self.agent.pods().get(uid);
            let looked_at = self.looked_at.as_ref();
            let Some(cached) = cached.filter(|pod| looked_at.is_none_or(|before| !Arc::ptr_eq(before, pod))) else {
                continue;
            };
            let kept = match told {
                Report::Nothing => true,
                Report::Phase(phase, facts) | Report::Finish(phase, facts) => {
                    cached.status.as_ref() == Some(&status(&cached, phase, facts, self.agent.ctx.now().wall))
                }
            };
            self.looked_at = Some(cached);
            if !kept {
                return;
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
