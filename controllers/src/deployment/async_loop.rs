//! Informers → work queue → rounds (`deployment_controller.go`).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use substrate::mutant;
use substrate::process::Ctx;

use super::replica_sets::{active, is_rolling, wanted};
use super::rollout::Again;
use super::sync::Round;
use super::{annotations, rollback};
use crate::kube::queue::Outcome;
use crate::kube::{ApiError, Client, Delta, EventRecorder, Informer, Kind, ListParams, WorkQueue, reference};
use crate::workload::availability::is_terminal;
use crate::workload::controller_ref::{controller_of, is_controlled_by};
use crate::workload::ref_manager::RefManager;
use crate::workload::related::{Selecting, concerned, resolve};
use crate::workload::{Key, key};

/// Source of its Events.
const SOURCE: &str = "deployment-controller";
/// Number of retries of a round, after which only a change starts it again (`maxRetries`).
const RETRIES: u32 = 15;

struct Controller {
    ctx: Ctx,
    client: Client,
    deployments: Informer<Deployment>,
    sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
    recorder: EventRecorder,
    queue: WorkQueue<Key>,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub(crate) async fn run(ctx: Ctx, client: Client, workers: usize) {
    let deployments: Informer<Deployment> = Informer::start(&ctx, client.all(), ListParams::default());
    let sets: Informer<ReplicaSet> = Informer::start(&ctx, client.all(), ListParams::default());
    let pods: Informer<Pod> = Informer::start(&ctx, client.all(), ListParams::default());
    deployments.synced().await;
    sets.synced().await;
    pods.synced().await;
    let mut changes = deployments.subscribe();
    let (mut set_changes, mut pod_changes) = (sets.subscribe(), pods.subscribe());
    // client-go's default controller rate limiter.
    let queue = WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000)).named("deployment");
    let recorder = EventRecorder::new(&client, SOURCE);
    let controller =
        Arc::new(Controller { ctx: ctx.clone(), client, deployments, sets, pods, recorder, queue: queue.clone() });
    let worker = controller.clone();
    ctx.spawn(queue.clone().run(workers, move |key| worker.clone().sync(key)));
    loop {
        tokio::select! { biased;
            Some(delta) = changes.recv() => match delta {
                Delta::Applied { new, .. } => queue.add(key(&*new)),
                Delta::Deleted(deployment) => queue.add(key(&*deployment)),
            },
            Some(delta) = set_changes.recv() => {
                for (deployment, _) in concerned(&delta, &controller.deployments, false) {
                    queue.add(key(&*deployment));
                }
            },
            Some(delta) = pod_changes.recv() => if let Delta::Deleted(pod) = delta {
                controller.pod_deleted(&pod);
            },
        }
    }
}

impl Controller {
    /// Continues a Recreate rollout when the last old pod is gone (`deletePod`).
    fn pod_deleted(&self, pod: &Pod) {
        let set = controller_of(&pod.metadata).and_then(|of| resolve(&self.sets, pod.namespace(), of));
        let deployment = set.and_then(|set| resolve(&self.deployments, set.namespace(), controller_of(&set.metadata)?));
        let Some(deployment) = deployment.filter(|deployment| !is_rolling(deployment)) else { return };
        let sets = self.sets.list_in(deployment.namespace());
        let own: Vec<_> = sets.iter().filter(|set| is_controlled_by(&set.metadata, &*deployment)).collect();
        let pods = self.pods.list_in(deployment.namespace());
        let is_own = |pod: &Pod| own.iter().any(|set| is_controlled_by(&pod.metadata, &***set));
        if !pods.iter().any(|pod| is_own(pod)) {
            self.queue.add(key(&*deployment));
        }
    }

    async fn sync(self: Arc<Self>, item: Key) -> Outcome {
        let Some(deployment) = self.deployments.get(&item.0, &item.1) else { return Outcome::Done };
        match self.sync_deployment(&deployment).await {
            Ok(Again::No) => Outcome::Done,
            Ok(Again::Soon) => Outcome::After(Duration::from_millis(5)),
            Ok(Again::After(delay)) => {
                self.queue.add_after(item, delay);
                Outcome::Done
            }
            Err(error) => {
                let is_hopeless = error.downcast_ref().is_some_and(ApiError::is_namespace_terminating);
                if is_hopeless { Outcome::Done } else { self.queue.retried(&item, RETRIES, Err(error)) }
            }
        }
    }

    async fn sync_deployment(&self, deployment: &Arc<Deployment>) -> Result<Again> {
        let Some(spec) = &deployment.spec else { return Ok(Again::No) };
        let mut round = Round {
            client: &self.client,
            recorder: &self.recorder,
            cached: &self.sets,
            now: self.ctx.now().wall,
            deployment: Deployment::clone(deployment),
            ignores_unavailable: mutant!(self.ctx, "max-unavailable-ignored"),
            newest_first: mutant!(self.ctx, "newest-set-shrinks-first"),
            ignores_surge: mutant!(self.ctx, "max-surge-ignored"),
            keeps_old_sets: mutant!(self.ctx, "old-sets-kept"),
            recreates_at_once: mutant!(self.ctx, "recreate-not-awaited"),
        };
        if spec.selector == LabelSelector::default() {
            let message = "This deployment is selecting all pods. A non-empty selector is required.";
            self.recorder.event(reference(&**deployment), "Warning", "SelectingAll", message);
            let status = round.deployment.status.get_or_insert_default();
            if status.observed_generation < deployment.metadata.generation {
                status.observed_generation = deployment.metadata.generation;
                round.write_status().await?;
            }
            return Ok(Again::No);
        }
        let all = self.sets.list_in(deployment.namespace());
        let all = RefManager::new(&self.client, &**deployment).claim(all, |set| deployment.selects(set)).await?;
        if deployment.is_deleting() {
            return round.status_only(&all).await.map(|()| Again::No);
        }
        round.check_paused().await?;
        if spec.paused == Some(true) && !mutant!(self.ctx, "paused-rollout-goes-on") {
            return round.sync(&all).await.map(|()| Again::No);
        }
        if let Some(revision) = rollback::wanted(deployment) {
            return round.roll_back(&all, revision).await.map(|()| Again::No);
        }
        if self.is_scaling(&mut round, &all).await? {
            return round.sync(&all).await.map(|()| Again::No);
        }
        if is_rolling(deployment) {
            return round.rolling(&all).await;
        }
        let pods = self.pods.list_in(deployment.namespace());
        let has_old_pods = |new: Option<&ReplicaSet>| {
            let old = || all.iter().filter(|set| new.is_none_or(|new| new.uid() != set.uid()));
            let is_old = |pod: &Pod| old().any(|set| is_controlled_by(&pod.metadata, &**set));
            pods.iter().any(|pod| is_old(pod) && !is_terminal(pod))
        };
        round.recreate(&all, has_old_pods).await
    }

    /// Returns true if the deployment's size changed since its sets were scaled (`isScalingEvent`).
    async fn is_scaling(&self, round: &mut Round<'_>, all: &[Arc<ReplicaSet>]) -> Result<bool> {
        let sets = round.sets(all, false).await?;
        let wanted = wanted(&round.deployment);
        Ok(active(sets.all()).iter().any(|set| annotations::desired(set).is_some_and(|desired| desired != wanted)))
    }
}
