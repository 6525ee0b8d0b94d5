//! Informers → work queues → writes (`job_controller.go`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures_util::future::join_all;
use k8s_openapi::Resource as _;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use substrate::mutant;
use substrate::process::Ctx;

use super::backoff::Backoff;
use super::conditions::{self, COMPLETE, FAILURE_TARGET, SUCCESS_CRITERIA_MET, SUSPENDED, condition, ensure};
use super::index_failures;
use super::indexes::{add_variable, is_indexed, set_index, write};
use super::manage::{Manage, Observed, manage};
use super::pods::{TRACKING, is_suspended, is_tracked};
use super::round::{Round, failed, until_deadline};
use super::track::{self, Tracked};
use crate::kube::queue::Outcome;
use crate::kube::{
    ApiError, Client, Delta, EventRecorder, Informer, Kind, ListParams, Patch, WorkQueue, reference, time,
};
use crate::workload::availability::{is_ready, is_terminating};
use crate::workload::consistency::Consistency;
use crate::workload::controller_ref::{controller_of, controller_ref, is_controlled_by};
use crate::workload::expectations::Expectations;
use crate::workload::pod_control::{PodControl, slow_start_batch};
use crate::workload::pod_template::{pod_from_template, prefix};
use crate::workload::ref_manager::RefManager;
use crate::workload::related::{Seen, Selecting, concerned, resolve};
use crate::workload::{Key, counter, key};

/// Source of its Events.
const SOURCE: &str = "job-controller";
/// Time in which changes of pods are collected (`SyncJobBatchPeriod`).
const BATCH: Duration = Duration::from_secs(1);

struct Controller {
    ctx: Ctx,
    client: Client,
    jobs: Informer<Job>,
    pods: Informer<Pod>,
    control: PodControl,
    recorder: EventRecorder,
    expectations: Expectations,
    written: Arc<Consistency>,
    /// Uids of pods whose finalizer was removed, until the cache shows it (`uidTrackingExpectations`).
    removed: Mutex<BTreeMap<Key, BTreeSet<String>>>,
    backoffs: Mutex<BTreeMap<Key, Backoff>>,
    queue: WorkQueue<Key>,
    orphans: WorkQueue<Key>,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub(crate) async fn run(ctx: Ctx, client: Client, workers: usize) {
    let jobs: Informer<Job> = Informer::start(&ctx, client.all(), ListParams::default());
    let pods: Informer<Pod> = Informer::start(&ctx, client.all(), ListParams::default());
    jobs.synced().await;
    pods.synced().await;
    let (mut job_changes, mut pod_changes) = (jobs.subscribe(), pods.subscribe());
    let new_queue = || WorkQueue::new(&ctx, Duration::from_secs(1), Duration::from_secs(60));
    let (queue, orphans) = (new_queue().named("job"), new_queue().named("job_orphan_pod"));
    let recorder = EventRecorder::new(&client, SOURCE);
    let written = Consistency::default().with(&pods).with(&jobs).shared();
    let controller = Arc::new(Controller {
        ctx: ctx.clone(),
        control: PodControl::new(&client, &recorder, &written),
        written,
        client,
        jobs,
        pods,
        recorder,
        expectations: Expectations::default(),
        removed: Mutex::default(),
        backoffs: Mutex::default(),
        queue: queue.clone(),
        orphans: orphans.clone(),
    });
    let (worker, cleaner) = (controller.clone(), controller.clone());
    ctx.spawn(queue.run(workers, move |key| worker.clone().sync(key)));
    ctx.spawn(orphans.run(1, move |key| cleaner.clone().release_orphan(key)));
    loop {
        tokio::select! { biased;
            Some(delta) = job_changes.recv() => controller.job_changed(&delta),
            Some(delta) = pod_changes.recv() => controller.pod_changed(&delta),
        }
    }
}

impl Controller {
    fn job_changed(&self, delta: &Delta<Job>) {
        let (old, job) = match delta {
            Delta::Applied { old, new } => (old.as_deref(), new),
            Delta::Deleted(job) => {
                self.queue.add(key(&**job));
                self.backoffs.lock().remove(&key(&**job));
                return self.release_pods_of(job);
            }
        };
        let item = key(&**job);
        let Some(old) = old else { return self.queue.add(item) };
        if conditions::finished(job).is_some() {
            return self.release_pods_of(job);
        }
        if old.metadata.generation == job.metadata.generation {
            self.queue.add_after(item.clone(), BATCH);
        } else {
            self.queue.add(item.clone());
        }
        let limit = |job: &Job| job.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
        if limit(old) != limit(job)
            && let Some(left) = until_deadline(job, limit(job), self.ctx.now().wall)
        {
            self.queue.add_after(item, left);
        }
    }

    /// Removes the finalizers of the pods that a finished or deleted Job selects (`enqueueLabelSelector`).
    fn release_pods_of(&self, job: &Job) {
        let all = self.pods.list_in(job.namespace()).into_iter();
        all.filter(|pod| is_tracked(pod) && job.selects(&**pod)).for_each(|pod| self.orphans.add(key(&*pod)));
    }

    fn pod_changed(&self, delta: &Delta<Pod>) {
        let (Delta::Applied { new: pod, .. } | Delta::Deleted(pod)) = delta;
        let is_gone = matches!(delta, Delta::Deleted(_));
        let is_leaving = is_gone || pod.is_deleting();
        let reference = controller_of(&pod.metadata);
        let owner = reference.and_then(|of| resolve(&self.jobs, pod.namespace(), of));
        let has_job = owner.is_some_and(|job| conditions::finished(&job).is_none());
        if is_tracked(pod) && (reference.is_none() || is_leaving && !has_job) {
            self.orphans.add(key(&**pod));
        }
        if is_leaving && !has_job {
            return;
        }
        for (job, seen) in concerned(delta, &self.jobs, true) {
            let job = key(&*job);
            match seen {
                Seen::Created => self.expectations.creation_observed(&job),
                Seen::Deleted => self.expectations.counted_deletion_observed(&job),
                Seen::Changed => {}
            }
            if (is_gone || !is_tracked(pod))
                && let Some(uids) = self.removed.lock().get_mut(&job)
            {
                uids.remove(pod.uid());
            }
            self.queue.add_after(job, BATCH);
        }
    }

    /// Removes the finalizer of a pod without a Job that counts it (`handleSingleOrphanPod`).
    async fn release_orphan(self: Arc<Self>, item: Key) -> Outcome {
        let Some(pod) = self.pods.get(&item.0, &item.1).filter(|pod| is_tracked(pod)) else { return Outcome::Done };
        let owner = controller_of(&pod.metadata);
        if owner.is_some_and(|of| of.kind != Job::KIND || of.api_version != Job::API_VERSION) {
            return Outcome::Done;
        }
        let job = owner.and_then(|of| resolve(&self.jobs, pod.namespace(), of));
        if job.is_none() && mutant!(self.ctx, "pods-of-deleted-job-held") {
            return Outcome::Done;
        }
        if job.is_some_and(|job| conditions::finished(&job).is_none() || !is_ours(&job)) {
            return Outcome::Done;
        }
        match self.remove_finalizer(&pod).await {
            Err(error) if !error.is_not_found() => Outcome::Retry,
            _ => Outcome::Done,
        }
    }

    async fn remove_finalizer(&self, pod: &Pod) -> Result<(), ApiError> {
        let patch = Patch::without_finalizer(TRACKING);
        let patched = self.client.namespaced::<Pod>(pod.namespace()).patch(pod.name(), &patch).await?;
        if let Some(owner) = controller_of(&patched.metadata) {
            let job = (patched.namespace().to_owned(), owner.name.clone());
            self.written.wrote_for(job, &owner.uid, &*patched);
        }
        Ok(())
    }

    async fn sync(self: Arc<Self>, item: Key) -> Outcome {
        if !self.written.is_ready(&item) {
            return Outcome::Retry;
        }
        let job = self.jobs.get(&item.0, &item.1);
        let is_finished = job.as_ref().is_none_or(|job| conditions::finished(job).is_some());
        if is_finished {
            self.backoffs.lock().remove(&item);
        }
        let Some(job) = job else {
            self.expectations.forget(&item);
            self.written.forget(&item);
            self.removed.lock().remove(&item);
            return Outcome::Done;
        };
        let is_ours = is_ours(&job) || mutant!(self.ctx, "managed-by-ignored");
        let Some(spec) = job.spec.as_ref().filter(|_| !is_finished && is_ours) else { return Outcome::Done };
        match self.sync_job(&item, &job, spec).await {
            Ok(()) => Outcome::Done,
            Err(_) => Outcome::Retry,
        }
    }

    async fn sync_job(&self, item: &Key, job: &Arc<Job>, spec: &JobSpec) -> Result<()> {
        let may_write = self.expectations.satisfied(item, self.ctx.now().mono);
        let pods = self.claim(job).await?;
        let removed = self.removed.lock().get(item).cloned().unwrap_or_default();
        let backoff = self.backoffs.lock().get(item).copied().unwrap_or_default();
        let changed;
        let spec = match mutant!(self.ctx, "one-failure-too-many") {
            true => {
                changed = JobSpec { backoff_limit: spec.backoff_limit.map(|limit| limit + 1), ..spec.clone() };
                &changed
            }
            false => spec,
        };
        let mut round = Box::new(Round::begin(job, spec, pods, removed, backoff, self.ctx.now().wall));
        if round.finished.is_none()
            && let Some(left) = round.until_deadline()
        {
            self.queue.add_after(item.clone(), left);
        }
        let mut active = i32::try_from(round.active.len()).unwrap_or(i32::MAX);
        let mut managed = Ok(());
        let mut changes_suspension = false;
        if round.finished.is_some() {
            let (deleted, answer) = match mutant!(self.ctx, "failed-job-runs-on") {
                true => ((active, round.ready), Ok(())),
                false => self.delete_active(&round).await,
            };
            if deleted.0 != active || !may_write {
                round.finished = None;
            }
            active -= deleted.0;
            round.terminating += deleted.0;
            round.ready -= deleted.1;
            managed = answer;
        } else {
            let manages = may_write && !job.is_deleting();
            if manages {
                (active, managed) = self.manage(item, &mut round).await;
            }
            let is_empty_queue = spec.completions.is_none() && active == 0;
            if round.is_complete(active) || is_empty_queue && mutant!(self.ctx, "empty-work-queue-complete") {
                let (reason, message) = ("CompletionsReached", "Reached expected number of succeeded pods");
                round.finished = Some(condition(SUCCESS_CRITERIA_MET, "True", reason, message, round.now));
            } else if manages {
                changes_suspension = self.note_suspension(&mut round);
            }
        }
        let (ready, terminating) = (round.ready, round.terminating);
        let status = round.job.status.get_or_insert_default();
        let needs_flush = changes_suspension
            || active != status.active.unwrap_or(0)
            || status.ready != Some(ready)
            || status.terminating != Some(terminating);
        status.active = counter(active);
        status.ready = Some(ready);
        status.terminating = Some(terminating);
        self.track(item, round, needs_flush).await?;
        managed
    }

    async fn claim(&self, job: &Arc<Job>) -> Result<Vec<Arc<Pod>>> {
        let all = self.pods.list_in(job.namespace());
        let manager = RefManager::new(&self.client, &**job).with_finalizers(&[TRACKING]);
        let pods = manager.claim(all, |pod| job.selects(pod)).await?;
        // An adopted pod has the finalizer now, though the cache does not show it.
        let adopted = |pod: Arc<Pod>| {
            if is_controlled_by(&pod.metadata, &**job) || is_tracked(&pod) {
                return pod;
            }
            let mut pod = Pod::clone(&pod);
            pod.metadata.finalizers.get_or_insert_default().push(TRACKING.to_owned());
            Arc::new(pod)
        };
        Ok(pods.into_iter().map(adopted).collect())
    }

    /// Notes in the conditions that the Job is suspended or resumed. Returns true if that is new.
    fn note_suspension(&self, round: &mut Round) -> bool {
        let (now, suspended) = (round.now, is_suspended(&round.job));
        let created = round.job.metadata.creation_timestamp.clone();
        let next = if suspended {
            condition(SUSPENDED, "True", "JobSuspended", "Job suspended", now)
        } else {
            condition(SUSPENDED, "False", "JobResumed", "Job resumed", now)
        };
        let status = round.job.status.get_or_insert_default();
        let mut all = status.conditions.take().unwrap_or_default();
        let is_new = ensure(&mut all, next);
        status.conditions = (!all.is_empty()).then_some(all);
        if is_new {
            let (reason, message) = if suspended { ("Suspended", "Job suspended") } else { ("Resumed", "Job resumed") };
            // The deadline counts the time since the Job was resumed.
            let since = match mutant!(self.ctx, "deadline-counts-suspension") {
                true => created,
                false => Some(time(now)),
            };
            status.start_time = since.filter(|_| !suspended);
            self.recorder.event(reference(&round.job), "Normal", reason, message);
        }
        is_new
    }

    /// Deletes the active pods of a finished Job (`deleteActivePods`); returns how many, and how many were ready.
    async fn delete_active(&self, round: &Round) -> ((i32, i32), Result<()>) {
        let answers = join_all(round.active.iter().map(|pod| self.control.delete(&round.job, pod.name()))).await;
        let (mut deleted, mut ready, mut failure) = (0, 0, None);
        for (pod, answer) in round.active.iter().zip(answers) {
            match answer {
                Err(error) if !error.is_not_found() => {
                    failure.get_or_insert(anyhow!(error));
                }
                _ => deleted += 1,
            }
            ready += i32::from(is_ready(pod));
        }
        ((deleted, ready), failure.map_or(Ok(()), Err))
    }

    /// Creates or deletes pods (`manageJob`); returns the number of active pods.
    async fn manage(&self, item: &Key, round: &mut Round) -> (i32, Result<()>) {
        let active = i32::try_from(round.active.len()).unwrap_or(i32::MAX);
        let ended_indexes: BTreeSet<i32> =
            round.succeeded_indexes.iter().chain(round.failed_indexes.iter().flatten()).copied().collect();
        let terminating: Vec<Arc<Pod>> = match mutant!(self.ctx, "pod-replacement-policy-ignored") {
            true => Vec::new(),
            false => round.pods.iter().filter(|pod| is_terminating(pod)).cloned().collect(),
        };
        let has_index_limit = round.failed_indexes.is_some();
        let observed = Observed {
            active: &round.active,
            succeeded: round.succeeded,
            ended_indexes: &ended_indexes,
            terminating: &terminating,
            wait: if has_index_limit { Duration::ZERO } else { round.backoff.remaining(round.now) },
            index_waits: &index_failures::waits(&round.delayed, round.now),
        };
        let changed;
        let spec = match mutant!(self.ctx, "parallelism-ignored") {
            true => {
                changed =
                    JobSpec { parallelism: round.spec.completions.or(round.spec.parallelism), ..round.spec.clone() };
                &changed
            }
            false => &round.spec,
        };
        match manage(spec, &observed) {
            Manage::Keep => (active, Ok(())),
            Manage::Wait(wait) => {
                self.queue.add_after(item.clone(), wait.max(BATCH));
                // Like upstream's, it reports no active pods until the wait has ended.
                (0, Ok(()))
            }
            Manage::Delete(pods) => {
                self.expectations.set_counts(item, 0, pods.len(), self.ctx.now().mono);
                let answers = join_all(pods.iter().map(|pod| self.delete_pod(item, round, pod))).await;
                let (mut removed, mut failure) = (0, None);
                for (pod, answer) in pods.iter().zip(answers) {
                    match answer {
                        Ok(()) => removed += 1,
                        Err(error) => {
                            failure.get_or_insert(anyhow!(error));
                        }
                    }
                    round.ready -= i32::from(is_ready(pod));
                }
                round.terminating += removed;
                (active - removed, failure.map_or(Ok(()), Err))
            }
            Manage::Create(count, indexes) => self.create(item, round, count, &indexes).await,
        }
    }

    /// Deletes a surplus pod, which is not counted (`deleteJobPods`).
    async fn delete_pod(&self, item: &Key, round: &Round, pod: &Pod) -> Result<(), ApiError> {
        let answer = async {
            if is_tracked(pod) {
                self.remove_finalizer(pod).await?;
            }
            self.control.delete(&round.job, pod.name()).await
        };
        match answer.await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.expectations.counted_deletion_observed(item);
                if error.is_not_found() { Ok(()) } else { Err(error) }
            }
        }
    }

    async fn create(&self, item: &Key, round: &Round, count: usize, indexes: &[i32]) -> (i32, Result<()>) {
        self.expectations.expect_creations(item, count, self.ctx.now().mono);
        let mut template = round.spec.template.clone();
        if is_indexed(&round.spec) {
            add_variable(&mut template);
        }
        let finalizers = template.metadata.get_or_insert_default().finalizers.get_or_insert_default();
        if !finalizers.iter().any(|name| name == TRACKING) {
            finalizers.push(TRACKING.to_owned());
        }
        let job = &round.job;
        let pod = |at: usize| {
            let mut template = template.clone();
            let name = match indexes.get(at) {
                Some(index) => set_index(&mut template, job.name(), *index),
                None => prefix(job.name()),
            };
            if let Some(index) = indexes.get(at).filter(|_| round.failed_indexes.is_some()) {
                let last = round.delayed.get(index).map(|pod| &**pod);
                index_failures::annotate(&round.spec, &mut template, last);
            }
            let mut pod = pod_from_template(&template, job.name(), controller_ref(job));
            pod.metadata.generate_name = Some(name);
            pod
        };
        let write = |at: usize| {
            let pod = pod(at);
            async move {
                match self.control.create(job, &pod).await {
                    Err(error) if !error.is_namespace_terminating() => Err(error),
                    _ => Ok(()),
                }
            }
        };
        let batch = slow_start_batch(count, 1, usize::MAX, write).await;
        for _ in batch.successes..count {
            self.expectations.creation_observed(item);
        }
        let active = i32::try_from(round.active.len() + batch.successes).unwrap_or(i32::MAX);
        (active, batch.errors.into_iter().next().map_or(Ok(()), |error| Err(error.into())))
    }

    /// Counts finished pods, removes their finalizers and ends the Job (`trackJobStatusAndRemoveFinalizers`).
    async fn track(&self, item: &Key, mut round: Box<Round>, mut needs_flush: bool) -> Result<()> {
        let is_success = |one: &k8s_openapi::api::batch::v1::JobCondition| one.type_ == SUCCESS_CRITERIA_MET;
        let tracked = Tracked {
            spec: &round.spec,
            is_deleting: round.job.is_deleting(),
            finished: round.finished.as_ref().map(is_success),
            removed: &round.removed,
            delayed: &round.delayed,
            pods: &round.pods,
        };
        let mut with_finalizer = tracked.with_finalizer();
        let status = round.job.status.get_or_insert_default();
        needs_flush |= track::clean(status, &with_finalizer);
        let counted = tracked.count(status, &round.known_indexes);
        needs_flush |= counted.changed;
        if is_indexed(&round.spec) {
            let mut all = round.succeeded_indexes.clone();
            all.extend(&counted.succeeded_indexes);
            let text = Some(write(&all)).filter(|text| !text.is_empty());
            needs_flush |= text != status.completed_indexes;
            status.succeeded = counter(i32::try_from(all.len()).unwrap_or(i32::MAX));
            status.completed_indexes = text;
            let failed = round.failed_indexes.as_ref().map(write);
            needs_flush |= failed != status.failed_indexes;
            status.failed_indexes = failed;
        }
        if let Some(end) = round.finished.take() {
            let conditions = status.conditions.get_or_insert_default();
            let is_announcement = end.type_ == FAILURE_TARGET
                || (is_success(&end) && !conditions.iter().any(|one| is_success(one) && one.status == "True"));
            if is_announcement {
                conditions.push(end.clone());
                needs_flush = true;
            }
            round.finished = Some(match end.type_.as_str() {
                FAILURE_TARGET => failed(&end, round.now),
                SUCCESS_CRITERIA_MET => {
                    let text = |text: &Option<String>| text.clone().unwrap_or_default();
                    condition(COMPLETE, "True", &text(&end.reason), &text(&end.message), round.now)
                }
                _ => end,
            });
        }
        if needs_flush {
            round.job = self.write_status(&round.job).await?;
            if !mutant!(self.ctx, "job-failures-forgotten") {
                self.backoffs.lock().insert(item.clone(), round.backoff);
            }
            needs_flush = false;
        }
        let released = self.release(item, &counted.release).await;
        let (gone, failure) = released;
        with_finalizer.retain(|uid| !gone.contains(uid));
        needs_flush |= track::clean(round.job.status.get_or_insert_default(), &with_finalizer);
        if let Some(error) = failure {
            if needs_flush {
                self.write_status(&round.job).await?;
            }
            return Err(error);
        }
        let is_finished = !counted.is_full && end(&mut round);
        if needs_flush || is_finished {
            self.write_status(&round.job).await?;
            if is_finished {
                self.record_end(&round.job, round.finished.as_ref());
            }
        }
        Ok(())
    }

    async fn write_status(&self, job: &Job) -> Result<Job> {
        let written = self.client.namespaced::<Job>(job.namespace()).replace_status(job).await?;
        self.written.wrote(job, &*written);
        Ok(Job::clone(&written))
    }

    /// Removes the finalizers of counted pods (`removeTrackingFinalizerFromPods`); returns the uids of those that have
    /// none any more.
    async fn release(&self, item: &Key, pods: &[Arc<Pod>]) -> (Vec<String>, Option<anyhow::Error>) {
        if pods.is_empty() {
            return (Vec::new(), None);
        }
        let uids = pods.iter().map(|pod| pod.uid().to_owned());
        self.removed.lock().entry(item.clone()).or_default().extend(uids);
        let answers = join_all(pods.iter().map(|pod| self.remove_finalizer(pod))).await;
        let (mut gone, mut failure) = (Vec::new(), None);
        for (pod, answer) in pods.iter().zip(answers) {
            if let Err(error) = answer {
                if let Some(uids) = self.removed.lock().get_mut(item) {
                    uids.remove(pod.uid());
                }
                if !error.is_not_found() {
                    failure.get_or_insert(anyhow!(error));
                    continue;
                }
            }
            gone.push(pod.uid().to_owned());
        }
        (gone, failure)
    }

    fn record_end(&self, job: &Job, end: Option<&k8s_openapi::api::batch::v1::JobCondition>) {
        let Some(end) = end else { return };
        let event = |kind: &str, reason: &str, message: &str| {
            self.recorder.event(reference(job), kind, reason, message);
        };
        if end.type_ == COMPLETE {
            let completions = job.spec.as_ref().and_then(|spec| spec.completions);
            let succeeded = job.status.as_ref().and_then(|status| status.succeeded).unwrap_or(0);
            if completions.is_some_and(|completions| succeeded > completions) {
                let message = "Too many succeeded pods running after completion count reached";
                event("Warning", "TooManySucceededPods", message);
            }
            event("Normal", "Completed", "Job completed");
        } else {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            event("Warning", &text(&end.reason), &text(&end.message));
        }
    }
}

/// Returns true if the Job is for this controller (`managedByExternalController`).
fn is_ours(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_none_or(|manager| manager == "kubernetes.io/job-controller")
}

/// Adds the final condition once all pods are counted and gone (`enactJobFinished`). Returns true if the Job ended.
fn end(round: &mut Round) -> bool {
    let Some(end) = &round.finished else { return false };
    let status = round.job.status.get_or_insert_default();
    if track::uncounted(status) > 0 || round.terminating > 0 {
        return false;
    }
    ensure(status.conditions.get_or_insert_default(), end.clone());
    if end.type_ == COMPLETE {
        status.completion_time.clone_from(&end.last_transition_time);
    }
    true
}
