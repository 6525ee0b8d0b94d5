//! Informers → expectations → work queue → writes (`replica_set.go`).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures_util::future::join_all;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use substrate::mutant;
use substrate::process::Ctx;

use super::manage::{Manage, manage, related};
use super::replicating::Replicating;
use super::status::{Observed, calculate};
use crate::kube::queue::Outcome;
use crate::kube::{Client, Delta, EventRecorder, Informer, Kind, ListParams, WorkQueue};
use crate::workload::availability::{is_active, is_ready, is_terminating, next_check, seconds};
use crate::workload::consistency::Consistency;
use crate::workload::controller_ref::{controller_ref, is_controlled_by};
use crate::workload::expectations::Expectations;
use crate::workload::pod_control::{PodControl, slow_start_batch};
use crate::workload::pod_template::pod_from_template;
use crate::workload::ref_manager::RefManager;
use crate::workload::related::{Seen, concerned};
use crate::workload::{Key, counter, key};

struct Controller<S> {
    ctx: Ctx,
    client: Client,
    sets: Informer<S>,
    pods: Informer<Pod>,
    control: PodControl,
    expectations: Expectations,
    written: Arc<Consistency>,
    queue: WorkQueue<Key>,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub(super) async fn run<S: Replicating>(ctx: Ctx, client: Client, workers: usize) {
    let sets: Informer<S> = Informer::start(&ctx, client.all(), ListParams::default());
    let pods: Informer<Pod> = Informer::start(&ctx, client.all(), ListParams::default());
    sets.synced().await;
    pods.synced().await;
    let (mut set_changes, mut pod_changes) = (sets.subscribe(), pods.subscribe());
    // client-go's default controller rate limiter.
    let queue = WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000)).named(S::QUEUE);
    let written = Consistency::default().with(&pods).with(&sets).shared();
    let control = PodControl::new(&client, &EventRecorder::new(&client, S::SOURCE), &written);
    let controller = Arc::new(Controller {
        ctx: ctx.clone(),
        client,
        sets,
        pods,
        control,
        expectations: Expectations::default(),
        written,
        queue: queue.clone(),
    });
    let worker = controller.clone();
    ctx.spawn(queue.clone().run(workers, move |key| worker.clone().sync(key)));
    loop {
        tokio::select! { biased;
            Some(delta) = set_changes.recv() => {
                let key = controller.expectations.of_changed(&delta);
                match mutant!(ctx, "changed-set-found-late") {
                    true => queue.add_after(key, Duration::from_secs(20)),
                    false => queue.add(key),
                }
            }
            Some(delta) = pod_changes.recv() => controller.pod_changed(&delta),
        }
    }
}

impl<S: Replicating> Controller<S> {
    fn pod_changed(&self, delta: &Delta<Pod>) {
        for (set, seen) in concerned(delta, &self.sets, true) {
            let owner = key(&*set);
            match (seen, delta) {
                (Seen::Created, _) => self.expectations.creation_observed(&owner),
                (Seen::Deleted, Delta::Deleted(pod) | Delta::Applied { new: pod, .. }) => {
                    self.expectations.deletion_observed(&owner, &key(&**pod));
                }
                (Seen::Changed, Delta::Applied { old: Some(old), new }) if !is_ready(old) && is_ready(new) => {
                    let min_ready = S::as_set(&set).spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
                    if min_ready > 0 && !mutant!(self.ctx, "min-ready-wait-not-planned") {
                        self.queue.add_after(owner.clone(), seconds(min_ready));
                    }
                }
                (Seen::Changed, _) => {}
            }
            self.queue.add(owner);
        }
    }

    async fn sync(self: Arc<Self>, owner: Key) -> Outcome {
        if !self.written.is_ready(&owner) {
            return Outcome::Retry;
        }
        let Some(set) = self.sets.get(&owner.0, &owner.1) else {
            self.expectations.forget(&owner);
            self.written.forget(&owner);
            return Outcome::Done;
        };
        let view = S::as_set(&set);
        let Some(spec) = &view.spec else { return Outcome::Done };
        match self.sync_set(&owner, &set, (&*view, spec)).await {
            Ok(None) => Outcome::Done,
            Ok(Some(again)) => {
                self.queue.add_after(owner, again);
                Outcome::Done
            }
            Err(_) => Outcome::Retry,
        }
    }

    /// Works on a set (`syncReplicaSet`); returns the time after which its status may change without an event. `view`
    /// is the set as a ReplicaSet.
    async fn sync_set(
        &self,
        owner: &Key,
        set: &Arc<S>,
        (view, spec): (&ReplicaSet, &ReplicaSetSpec),
    ) -> Result<Option<Duration>> {
        let may_write = self.expectations.satisfied(owner, self.ctx.now().mono);
        let all = self.pods.list_in(set.namespace());
        let is_own = |pod: &Pod| is_controlled_by(&pod.metadata, &**set) && set.selects(pod);
        let terminating = all.iter().filter(|pod| is_terminating(pod) && is_own(pod)).count();
        let counts_terminating = mutant!(self.ctx, "terminating-pods-fill-places");
        let is_counted = |pod: &Pod| is_active(pod) || counts_terminating && is_terminating(pod);
        let active = all.into_iter().filter(|pod| is_counted(pod)).collect();
        let active = RefManager::new(&self.client, &**set).claim(active, |pod| set.selects(pod)).await?;
        let managed =
            if may_write && !set.is_deleting() { self.manage(owner, set, spec, &active).await } else { Ok(()) };
        let failure = managed.as_ref().err().map(ToString::to_string);
        let now = self.ctx.now().wall;
        let observed = Observed { active: &active, terminating, failure: failure.as_deref() };
        let mut status = calculate(view, spec, observed, now);
        if mutant!(self.ctx, "unready-pods-available") {
            status.available_replicas = counter(status.replicas);
        }
        let (ready, available) = (status.ready_replicas, status.available_replicas);
        self.update_status(set, status).await?;
        managed?;
        let min_ready = spec.min_ready_seconds.unwrap_or(0);
        if min_ready == 0 || ready == available || mutant!(self.ctx, "min-ready-wait-not-planned") {
            return Ok(None);
        }
        let next = next_check(active.iter().map(|pod| &**pod), min_ready, now);
        Ok(Some(next.unwrap_or(seconds(min_ready))))
    }

    /// Creates or deletes pods (`manageReplicas`).
    async fn manage(&self, owner: &Key, set: &S, spec: &ReplicaSetSpec, active: &[Arc<Pod>]) -> Result<()> {
        let now = self.ctx.now();
        let replicas = spec.replicas.unwrap_or(1);
        let is_surplus = usize::try_from(replicas).is_ok_and(|replicas| active.len() > replicas);
        let related = if is_surplus {
            related(set, &self.sets.list_in(set.namespace()), self.pods.list_in(set.namespace()))
        } else {
            Vec::new()
        };
        match manage(active, replicas, &related, now.wall) {
            Manage::Keep => Ok(()),
            Manage::Create(count) => {
                self.expectations.expect_creations(owner, count, now.mono);
                let template = spec.template.clone().unwrap_or_default();
                let pod = pod_from_template(&template, set.name(), controller_ref(set));
                let pod = &pod;
                let write = |_| async move {
                    match self.control.create(set, pod).await {
                        Err(error) if !error.is_namespace_terminating() => Err(error),
                        _ => Ok(()),
                    }
                };
                let batch = slow_start_batch(count, 1, usize::MAX, write).await;
                if !mutant!(self.ctx, "failed-creation-still-expected") {
                    for _ in batch.successes..count {
                        self.expectations.creation_observed(owner);
                    }
                }
                batch.errors.into_iter().next().map_or(Ok(()), |error| Err(error.into()))
            }
            Manage::Delete(mut pods) => {
                if mutant!(self.ctx, "ready-pods-deleted-first") {
                    let mut ready: Vec<Arc<Pod>> = active.to_vec();
                    ready.sort_by_key(|pod| !is_ready(pod));
                    ready.truncate(pods.len());
                    pods = ready;
                }
                self.expectations.expect_deletions(owner, pods.iter().map(|pod| key(&**pod)), now.mono);
                let answers = join_all(pods.iter().map(|pod| self.control.delete(set, pod.name()))).await;
                let mut failure = None;
                for (pod, answer) in pods.iter().zip(answers) {
                    if let Err(error) = answer {
                        self.expectations.deletion_observed(owner, &key(&**pod));
                        if !error.is_not_found() {
                            failure.get_or_insert(anyhow!("unable to delete pods: {error}"));
                        }
                    }
                }
                failure.map_or(Ok(()), Err)
            }
        }
    }

    /// Writes the status if it differs; tries once more with a fresh read after an error (`updateReplicaSetStatus`).
    async fn update_status(&self, set: &Arc<S>, next: ReplicaSetStatus) -> Result<()> {
        if set.has_status(&next) {
            return Ok(());
        }
        let api = self.client.namespaced::<S>(set.namespace());
        let answer = match api.replace_status(&set.with_status(next.clone())).await {
            Ok(answer) => answer,
            Err(_) => {
                let fresh = api.get(set.name()).await?;
                api.replace_status(&fresh.with_status(next)).await?
            }
        };
        self.written.wrote(&**set, &*answer);
        Ok(())
    }
}
