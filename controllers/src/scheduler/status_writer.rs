//! Writes of pod statuses in the background, one after the other for each pod. Two writes under way at once could swap,
//! and the older verdict would stay. Upstream writes them within the scheduling cycle (`updatePod`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use parking_lot::Mutex;
use substrate::mutant;
use substrate::process::Ctx;

use super::node_info::PodKey;
use super::status;
use crate::events::SchedulerError;
use crate::kube::{Client, Kind};

/// Subject of a write for the trace, the pod, and its next status.
type Write = (&'static str, Arc<Pod>, PodStatus);

/// Writer of pod statuses.
pub(super) struct StatusWriter {
    ctx: Ctx,
    client: Client,
    /// Writes that wait. A pod has an entry while a write is under way.
    waiting: Mutex<BTreeMap<PodKey, VecDeque<Write>>>,
}

impl StatusWriter {
    pub(super) fn new(ctx: &Ctx, client: &Client) -> Arc<Self> {
        Arc::new(Self { ctx: ctx.clone(), client: client.clone(), waiting: Mutex::default() })
    }

    /// Writes a status once the earlier ones of the pod are written.
    pub(super) fn write(self: &Arc<Self>, what: &'static str, pod: Arc<Pod>, status: PodStatus) {
        let key = PodKey::of(&pod);
        let mut waiting = self.waiting.lock();
        if let Some(waiting) = waiting.get_mut(&key).filter(|_| !mutant!(self.ctx, "older-verdict-stays")) {
            waiting.push_back((what, pod, status));
            return;
        }
        waiting.insert(key.clone(), VecDeque::new());
        drop(waiting);
        let writer = self.clone();
        self.ctx.spawn(async move {
            let mut next = Some((what, pod, status));
            while let Some((what, pod, status)) = next {
                writer.written(what, &pod, status).await;
                next = writer.next(&key);
            }
        });
    }

    fn next(&self, key: &PodKey) -> Option<Write> {
        let mut waiting = self.waiting.lock();
        let next = waiting.get_mut(key).and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.remove(key);
        }
        next
    }

    /// Writes a pod's status; a failure is only traced.
    pub(super) async fn written(&self, what: &'static str, pod: &Pod, status: PodStatus) {
        if let Err(e) = status::patch(&self.client, pod, status).await {
            let pod = pod.name().into();
            let ctx = &self.ctx;
            ctx.trace().emit_lazily(ctx.name(), || SchedulerError { what: what.into(), pod, error: e.to_string() });
        }
    }
}
