//! Informers → work queue → writes (`stateful_set.go`, `stateful_set_control.go`).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use substrate::mutant;
use substrate::process::Ctx;

use super::identity::is_member_of;
use super::plan::{self, Places, Sets, Step, Write};
use super::pod_control::StatefulPodControl;
use super::revisions::{self, Live};
use super::status::{self, Revisions};
use crate::kube::queue::Outcome;
use crate::kube::{Client, Delta, EventRecorder, Informer, Kind, ListParams, WorkQueue};
use crate::workload::availability::{is_ready, is_terminal, next_check, seconds};
use crate::workload::consistency::Consistency;
use crate::workload::controller_ref::controller_of;
use crate::workload::history::{self, History};
use crate::workload::pod_control::slow_start_batch;
use crate::workload::ref_manager::{RefManager, recheck_deletion};
use crate::workload::related::{Selecting, concerned};
use crate::workload::retry::{DEFAULT_RETRY, Retry};
use crate::workload::{Key, key};

/// Source of its Events.
const SOURCE: &str = "statefulset-controller";
/// Largest number of writes at once for a parallel set (`MaxBatchSize`).
const BATCH: usize = 500;

struct Controller {
    ctx: Ctx,
    client: Client,
    sets: Informer<StatefulSet>,
    control: StatefulPodControl,
    history: History,
    queue: WorkQueue<Key>,
    /// Seeded bugs.
    deletes_claims: bool,
    lowest_first: bool,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub(crate) async fn run(ctx: Ctx, client: Client, workers: usize) {
    let sets: Informer<StatefulSet> = Informer::start(&ctx, client.all(), ListParams::default());
    let pods: Informer<Pod> = Informer::start(&ctx, client.all(), ListParams::default());
    let claims: Informer<PersistentVolumeClaim> = Informer::start(&ctx, client.all(), ListParams::default());
    let revisions: Informer<ControllerRevision> = Informer::start(&ctx, client.all(), ListParams::default());
    sets.synced().await;
    pods.synced().await;
    claims.synced().await;
    revisions.synced().await;
    let (mut set_changes, mut pod_changes) = (sets.subscribe(), pods.subscribe());
    // client-go's default controller rate limiter.
    let queue = WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000)).named("statefulset");
    let recorder = EventRecorder::new(&client, SOURCE);
    let history = History::new(&client, &revisions);
    let written = Consistency::default().with(&pods).with(&claims).with(&sets).shared();
    let control = StatefulPodControl { client: client.clone(), recorder, pods, claims, written };
    let (deletes_claims, lowest_first) =
        (mutant!(ctx, "scaled-down-claims-deleted"), mutant!(ctx, "lowest-ordinal-first"));
    let queue_ = queue.clone();
    let controller = Controller {
        ctx: ctx.clone(),
        client,
        sets: sets.clone(),
        control,
        history,
        queue: queue_,
        deletes_claims,
        lowest_first,
    };
    let controller = Arc::new(controller);
    ctx.spawn(queue.clone().run(workers, move |key| controller.clone().sync(key)));
    loop {
        tokio::select! { biased;
            Some(delta) = set_changes.recv() => match delta {
                Delta::Applied { new, .. } => queue.add(key(&*new)),
                Delta::Deleted(set) => queue.add(key(&*set)),
            },
            Some(delta) = pod_changes.recv() => {
                for (set, _) in concerned(&delta, &sets, false) {
                    queue.add(key(&*set));
                    let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
                    if min_ready > 0 && becomes_ready(&delta) {
                        queue.add_after(key(&*set), seconds(min_ready));
                    }
                }
            },
        }
    }
}

fn becomes_ready(delta: &Delta<Pod>) -> bool {
    matches!(delta, Delta::Applied { old: Some(old), new } if !is_ready(old) && is_ready(new))
}

impl Controller {
    async fn sync(self: Arc<Self>, item: Key) -> Outcome {
        if !self.control.written.is_ready(&item) {
            return Outcome::Retry;
        }
        let Some(mut set) = self.sets.get(&item.0, &item.1) else {
            self.control.written.forget(&item);
            return Outcome::Done;
        };
        if mutant!(self.ctx, "when-deleted-misread")
            && let Some(spec) = &mut Arc::make_mut(&mut set).spec
            && let Some(policy) = &mut spec.persistent_volume_claim_retention_policy
        {
            policy.when_deleted.clone_from(&policy.when_scaled);
        }
        let Some(spec) = &set.spec else { return Outcome::Done };
        match self.sync_set(&set, spec).await {
            Ok(None) => Outcome::Done,
            Ok(Some(again)) => {
                self.queue.add_after(item, again);
                Outcome::Done
            }
            Err(_) => Outcome::Retry,
        }
    }

    /// Works on a set; returns the time after which its status may change without an event.
    async fn sync_set(&self, set: &Arc<StatefulSet>, spec: &StatefulSetSpec) -> Result<Option<Duration>> {
        self.adopt_revisions(set).await?;
        let pods = self.control.pods.list_in(set.namespace());
        let takes_strangers = mutant!(self.ctx, "pod-of-any-name-adopted");
        let is_ours = |pod: &Pod| (is_member_of(set, pod) || takes_strangers) && set.selects(pod);
        let pods = RefManager::new(&self.client, &**set).claim(pods, is_ours).await?;
        let mut revisions = self.history.list(&**set);
        history::sort(&mut revisions);
        let mut live = None;
        let answer = self.perform_update(set, spec, &pods, &revisions, &mut live).await;
        // The history is truncated even after an error.
        for revision in revisions::surplus(spec, &pods, &revisions, live.as_ref()) {
            self.history.delete(&revision).await?;
        }
        let status = answer?;
        let min_ready = spec.min_ready_seconds.unwrap_or(0);
        if min_ready == 0 || status.ready_replicas.unwrap_or(0) == status.available_replicas.unwrap_or(0) {
            return Ok(None);
        }
        let next = next_check(pods.iter().map(|pod| &**pod), min_ready, self.ctx.now().wall);
        Ok(Some(next.unwrap_or(seconds(min_ready))))
    }

    /// Adopts the revisions that have no controller (`adoptOrphanRevisions`).
    async fn adopt_revisions(&self, set: &Arc<StatefulSet>) -> Result<()> {
        let revisions = self.history.list(&**set);
        let orphans: Vec<_> = revisions.iter().filter(|one| controller_of(&one.metadata).is_none()).collect();
        if orphans.is_empty() {
            return Ok(());
        }
        recheck_deletion(&self.client, &**set).await?;
        for orphan in orphans {
            self.history.adopt(&**set, orphan).await?;
        }
        Ok(())
    }

    async fn perform_update(
        &self,
        set: &Arc<StatefulSet>,
        spec: &StatefulSetSpec,
        pods: &[Arc<Pod>],
        revisions: &[Arc<ControllerRevision>],
        live: &mut Option<Live>,
    ) -> Result<StatefulSetStatus> {
        let found = live.insert(revisions::live(&self.history, set, spec, revisions).await?);
        let at = |revision: &ControllerRevision| -> Result<StatefulSet> {
            let mut at = StatefulSet::clone(set);
            at.spec.get_or_insert_default().template = history::template_of(revision)?;
            Ok(at)
        };
        let sets = Box::new(Sets {
            set: StatefulSet::clone(set),
            current: at(&found.current)?,
            update: at(&found.update)?,
            current_revision: found.current.name().to_owned(),
            update_revision: found.update.name().to_owned(),
        });
        let names = Revisions { current: &found.current, update: &found.update };
        let (counts, answer) = self.update_pods(&sets, spec, pods, names).await;
        let mut status = status::status(set, spec, counts, names, found.collision_count);
        if mutant!(self.ctx, "rollout-never-completes") {
            status.current_revision = Some(names.current.name().to_owned());
        }
        // The status is written even after an error.
        let written = self.update_status(set, &status).await;
        answer?;
        written?;
        Ok(status)
    }

    /// Creates, updates and deletes pods (`updateStatefulSet`); returns their counts too.
    async fn update_pods(
        &self,
        sets: &Sets,
        spec: &StatefulSetSpec,
        pods: &[Arc<Pod>],
        revisions: Revisions<'_>,
    ) -> (status::Counts, Result<()>) {
        let now = self.ctx.now().wall;
        let min_ready = spec.min_ready_seconds.unwrap_or(0);
        let mut places = if mutant!(self.ctx, "recreated-pod-ignores-partition") {
            plan::places(sets, &plan::without_partition(spec), pods, now)
        } else if mutant!(self.ctx, "partition-ignores-start-ordinal") {
            plan::places(sets, &plan::partition_from_zero(spec), pods, now)
        } else {
            plan::places(sets, spec, pods, now)
        };
        if self.lowest_first {
            places.condemned.reverse();
        }
        let all = places.replicas.iter().chain(&places.condemned);
        if sets.set.is_deleting() {
            return (status::count(pods.iter().map(|pod| &**pod), min_ready, revisions, now), Ok(()));
        }
        let mut counts = status::count(all.map(|pod| &**pod), min_ready, revisions, now);
        let answer = self.update_places(sets, spec, &places, &mut counts).await;
        (counts, answer)
    }

    async fn update_places(
        &self,
        sets: &Sets,
        spec: &StatefulSetSpec,
        places: &Places,
        counts: &mut status::Counts,
    ) -> Result<()> {
        let now = self.ctx.now().wall;
        let cached = |name: &str| self.control.claims.get(sets.set.namespace(), name);
        let monotonic = plan::is_monotonic(spec);
        let step = |pod: &Pod| {
            if is_terminal(pod) && mutant!(self.ctx, "finished-pod-not-replaced") {
                return Step::default();
            }
            let step = plan::replica(sets, spec, pod, &cached, now);
            Step { blocks: step.blocks && !mutant!(self.ctx, "ordinals-not-awaited"), ..step }
        };
        if self.run_for_all(sets, &places.replicas, monotonic, step).await? {
            return Ok(());
        }
        let step = |pod: &Pod| match mutant!(self.ctx, "scaled-down-claims-kept") {
            true => Step::default(),
            false => plan::condemned_claims(sets, pod, &cached),
        };
        if self.run_for_all(sets, &places.condemned, monotonic, step).await? {
            return Ok(());
        }
        let all_at_once = mutant!(self.ctx, "surplus-pods-deleted-at-once");
        let step = |pod: &Pod| match all_at_once {
            true => plan::condemned_at_once(pod),
            false => plan::condemned(spec, places, pod, now),
        };
        if self.run_for_all(sets, &places.condemned, monotonic, step).await? {
            return Ok(());
        }
        let whole;
        let spec = match mutant!(self.ctx, "partition-ignored") {
            true => {
                whole = plan::without_partition(spec);
                &whole
            }
            false => spec,
        };
        let mut outdated = plan::outdated(sets, spec, places, now);
        if mutant!(self.ctx, "updated-pod-not-awaited") {
            outdated = plan::all_outdated(sets, places).next_back();
        } else if mutant!(self.ctx, "lowest-ordinal-updated-first") {
            outdated = outdated.and_then(|_| plan::all_outdated(sets, places).next());
        }
        if let Some(at) = outdated {
            self.control.delete(&sets.set, &places.replicas[at]).await?;
            counts.current -= 1;
        }
        Ok(())
    }

    /// Takes the step of each pod (`runForAll`): one after the other until one blocks, or in growing batches. Returns
    /// true if a step blocked.
    async fn run_for_all(
        &self,
        sets: &Sets,
        pods: &[Arc<Pod>],
        monotonic: bool,
        step: impl Fn(&Pod) -> Step,
    ) -> Result<bool> {
        if monotonic {
            for pod in pods {
                let step = step(pod);
                self.take(sets, pod, &step).await?;
                if step.blocks {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let write = |at: usize| {
            let pod = &pods[at];
            let step = step(pod);
            async move { self.take(sets, pod, &step).await }
        };
        let batch = slow_start_batch(pods.len(), 1, BATCH, write).await;
        match batch.errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(false),
        }
    }

    async fn take(&self, sets: &Sets, pod: &Pod, step: &Step) -> Result<()> {
        for write in &step.writes {
            match write {
                Write::Delete => {
                    self.control.delete(&sets.set, pod).await?;
                    if self.deletes_claims {
                        self.control.delete_claims(&sets.set, pod).await;
                    }
                }
                Write::Create => self.control.create(&sets.set, pod).await?,
                Write::CreateMissingClaims if mutant!(self.ctx, "missing-claim-not-created") => {}
                Write::CreateMissingClaims => self.control.create_missing_claims(&sets.set, pod).await?,
                Write::Update => self.control.update(&sets.update, pod).await?,
                Write::UpdateClaims => self.control.update_claims(&sets.update, pod).await?,
            }
        }
        Ok(())
    }

    /// Writes the status, with the newest cached set after a conflict (`UpdateStatefulSetStatus`).
    async fn update_status(&self, set: &Arc<StatefulSet>, next: &StatefulSetStatus) -> Result<()> {
        if !status::is_inconsistent(set, next) {
            return Ok(());
        }
        let mut set = StatefulSet::clone(set);
        let mut retry = Retry::new(&self.ctx, DEFAULT_RETRY);
        loop {
            set.status = Some(next.clone());
            let api = self.client.namespaced::<StatefulSet>(set.namespace());
            let error = match api.replace_status(&set).await {
                Ok(written) => {
                    self.control.written.wrote(&set, &*written);
                    return Ok(());
                }
                Err(error) => error,
            };
            if let Some(cached) = self.sets.get(set.namespace(), set.name()) {
                set = StatefulSet::clone(&cached);
            }
            if !(error.is_conflict() && retry.again(set.name()).await) {
                return Err(error.into());
            }
        }
    }
}
