//! The status manager of one pod: writes the latest status, and removes the object of a finished pod (upstream
//! `status_manager.go` syncPod).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use substrate::latest;

use super::context::StatusContext;
use super::pod_conditions::BY_KUBELET;
use super::pod_status::status;
use crate::kube::{Api, ApiError, DeleteParams, Guard, time};
use crate::node_agent::progress::{Phase, PodFacts};

/// Wait after a failed write, and interval of the check for changes by others to kubelet's fields (`syncPeriod`).
const PERIOD: Duration = Duration::from_secs(10);

/// Report of a worker. The latest replaces earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// No report yet.
    Nothing,
    /// The pod's state.
    Phase(Phase, PodFacts),
    /// The pod's last state. The node keeps nothing of it.
    Finish(Phase, PodFacts),
}

/// Writes `reports` until the pod is finished.
pub(crate) async fn reporter(room: Arc<StatusContext>, pod: Arc<Pod>, mut reports: latest::Receiver<Report>) {
    let api = room.client.namespaced::<Pod>(pod.metadata.namespace.as_deref().unwrap_or_default());
    let mut kept = Kept { room: &room, pod: &pod, looked_at: None };
    let mut report = Report::Nothing;
    loop {
        tokio::select! {
            biased;
            changed = reports.changed() => if changed.is_err() { return },
            () = kept.lost(&report) => {}
        }
        loop {
            report = reports.borrow_and_update().clone();
            match send(&room, &api, &pod, &report).await {
                Ok(true) => break,
                // The object is gone, or another pod has its name.
                Ok(false) => return,
                Err(error) if error.is_not_found() => return,
                Err(_) if substrate::mutant!(room.ctx, "failed-status-report-dropped") => break,
                Err(_) => room.ctx.sleep(PERIOD).await,
            }
        }
    }
}

/// Comparison of the API server's pod with kubelet's own status (`needsReconcile`).
struct Kept<'a> {
    room: &'a StatusContext,
    pod: &'a Pod,
    /// Pod at the last check.
    looked_at: Option<Arc<Pod>>,
}

impl Kept<'_> {
    /// Waits until another client overwrites kubelet's fields. Examples: the scheduler after a binding whose reply was
    /// lost; the node lifecycle controller, which marks pods not ready.
    async fn lost(&mut self, reported: &Report) {
        loop {
            self.room.ctx.sleep(PERIOD).await;
            let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
            let cached = self.room.pods.lock().get(uid);
            let looked_at = self.looked_at.as_ref();
            let Some(cached) = cached.filter(|pod| looked_at.is_none_or(|before| !Arc::ptr_eq(before, pod))) else {
                continue;
            };
            let kept = match reported {
                Report::Nothing => true,
                Report::Phase(phase, facts) | Report::Finish(phase, facts) => {
                    cached.status.as_ref() == Some(&status(&cached, phase, facts, self.room.ctx.now().wall))
                }
            };
            self.looked_at = Some(cached);
            if !kept && !substrate::mutant!(self.room.ctx, "overwritten-status-kept") {
                return;
            }
        }
    }
}

/// Writes one report. Returns false if the pod object is gone.
async fn send(room: &StatusContext, api: &Api<Pod>, pod: &Pod, report: &Report) -> Result<bool, ApiError> {
    let (phase, facts, finish) = match report {
        Report::Nothing => return Ok(true),
        Report::Phase(phase, facts) => (phase, facts, false),
        Report::Finish(phase, facts) => (phase, facts, true),
    };
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    // Read live, as upstream does: the cache may hold an older pod of this name.
    let mut current = api.get(name).await?;
    if current.metadata.uid != pod.metadata.uid {
        return Ok(false);
    }
    // The patch holds only the pod's uid, so it cannot change a new pod of the same name (`PatchPodStatus`).
    let now = room.ctx.now().wall;
    let mut written = status(&current, phase, facts, now);
    if substrate::mutant!(room.ctx, "condition-times-renewed") {
        let own = written.conditions.iter_mut().flatten().filter(|one| BY_KUBELET.contains(&one.type_.as_str()));
        own.for_each(|one| one.last_transition_time = Some(time(now)));
    }
    let changed = Pod { metadata: current.metadata.clone(), spec: current.spec.clone(), status: Some(written) };
    if let Some(patched) = api.strategic_patch_status(&current, &changed, Guard::Uid).await? {
        current = patched;
    }
    if finish && current.metadata.deletion_timestamp.is_some() {
        let params = DeleteParams { uid: pod.metadata.uid.clone(), ..DeleteParams::force() };
        match api.delete(name, &params).await {
            // A different uid: the name belongs to another pod.
            Err(error) if error.is_conflict() => {}
            other => other?,
        }
        return Ok(false);
    }
    Ok(true)
}
