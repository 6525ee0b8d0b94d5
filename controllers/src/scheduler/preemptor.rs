//! Removal of the victims of a preemption, in the background (`framework/preemption`, `prepareCandidateAsync`).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use substrate::mutant;

use super::async_loop::{NAME, Scheduler};
use super::cache::SchedulerCache;
use super::candidates::Candidate;
use super::node_info::{PodKey, priority};
use super::nominations::nominated_node;
use super::preemption::REASON;
use super::status;
use crate::events::SchedulerError;
use crate::kube::{ApiError, DeleteParams, Kind};
use crate::pod_status::{disruption_target, update_condition};

/// Pods whose victims are being removed, by uid. They are not scheduled meanwhile.
#[derive(Debug, Default)]
pub(super) struct Preempting(BTreeMap<String, Option<PodKey>>);

impl Preempting {
    /// Returns true if the victims of `pod` are being removed (`IsPodRunningPreemption`). This holds as soon as the
    /// last victim is seen to terminate, even if the answer to its deletion is missing.
    pub(super) fn contains(&self, cache: &SchedulerCache, pod: &Pod) -> bool {
        match self.0.get(pod.uid()) {
            None => false,
            Some(None) => true,
            Some(Some(last)) => cache.placed(last).is_some_and(|placed| !placed.pod.is_deleting()),
        }
    }
}

impl Scheduler {
    /// Removes the victims on the candidate's node for `pod`, in the background.
    pub(super) fn preempt(self: &Arc<Self>, pod: &Arc<Pod>, candidate: Candidate) {
        let mut victims = candidate.victims;
        victims.retain(|victim| !victim.is_deleting());
        let Some(last) = victims.pop() else { return };
        self.state().preempting.0.insert(pod.uid().to_owned(), None);
        let (scheduler, pod, node) = (self.clone(), pod.clone(), candidate.node);
        self.ctx.spawn(async move {
            let removed = scheduler.remove_all(&pod, &node, &victims, &last).await;
            let mut state = scheduler.state();
            state.preempting.0.remove(pod.uid());
            if let Err(e) = removed {
                scheduler.failed(&pod, &e);
                // No event may come that brings the pod back.
                if !mutant!(scheduler.ctx, "failed-preemption-not-retried") {
                    state.queue.activate(scheduler.ctx.now().mono, &PodKey::of(&pod));
                }
                drop(state);
                scheduler.changed.notify_one();
            }
        });
    }

    /// Removes all victims, the last one after the others.
    async fn remove_all(&self, pod: &Pod, node: &str, victims: &[Arc<Pod>], last: &Pod) -> Result<(), ApiError> {
        let cleared = self.clear_nominations(pod, node).await;
        let removals = join_all(victims.iter().map(|victim| self.remove(pod, node, victim))).await;
        removals.into_iter().collect::<Result<(), _>>()?;
        self.state().preempting.0.insert(pod.uid().to_owned(), Some(PodKey::of(last)));
        self.remove(pod, node, last).await?;
        cleared
    }

    /// Takes the nominated node from pods of lower priority: they may no longer fit there, and find another node sooner.
    async fn clear_nominations(&self, pod: &Pod, node: &str) -> Result<(), ApiError> {
        if mutant!(self.ctx, "lower-nominations-kept") {
            return Ok(());
        }
        let lower = |other: &&Arc<Pod>| priority(other) < priority(pod) && nominated_node(other).is_some();
        let lower: Vec<Arc<Pod>> = self.state().cache.nominations.on(node).filter(lower).cloned().collect();
        let mut result = Ok(());
        for other in lower {
            let cleared = status::patch(&self.client, &other, status::without_node(&other)).await;
            result = result.and(cleared);
        }
        result
    }

    /// Removes one victim (`PreemptPod`): writes the reason to its status, deletes it, and emits an Event. A victim that
    /// is gone already is not a failure.
    async fn remove(&self, pod: &Pod, node: &str, victim: &Pod) -> Result<(), ApiError> {
        let scheduler = pod.spec.as_ref().and_then(|s| s.scheduler_name.as_deref()).unwrap_or(NAME);
        let message = format!("{scheduler}: preempting to accommodate a higher priority pod");
        let mut status = victim.status.clone().unwrap_or_default();
        let condition = disruption_target(victim, REASON, &message);
        let is_new = update_condition(&mut status, condition, self.ctx.now().wall);
        if is_new && !mutant!(self.ctx, "victims-without-condition") {
            match status::patch(&self.client, victim, status).await {
                Err(e) if e.is_not_found() => return Ok(()),
                written => written?,
            }
        }
        let pods = self.client.namespaced::<Pod>(victim.namespace());
        match pods.delete(victim.name(), &DeleteParams::default()).await {
            Err(e) if e.is_not_found() => return Ok(()),
            deleted => deleted?,
        }
        // Upstream passes the pod as `related` too, but in a wrapper (`podExecutorPreemptor`) of which its recorder can
        // make no reference, so the Event has none.
        let note = format!("Preempted by pod {} on node {node}", pod.uid());
        self.recorder.event(victim, "Normal", "Preempted", "Preempting", &note);
        Ok(())
    }

    fn failed(&self, pod: &Pod, error: &ApiError) {
        let pod = pod.name().into();
        let error = error.to_string();
        self.ctx.trace().emit_lazily(self.ctx.name(), || SchedulerError { what: "preemption".into(), pod, error });
    }
}
