//! Informers → work queue → writes (`cronjob_controllerv2.go`).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, Job, JobCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use substrate::mutant;
use substrate::process::Ctx;

use super::due::{due, until_next, written};
use super::schedule::Schedule;
use crate::kube::metadata::Propagation;
use crate::kube::queue::Outcome;
use crate::kube::{
    Client, DeleteParams, Delta, EventRecorder, Informer, Kind, ListParams, ObjectReference, WorkQueue, reference, time,
};
use crate::workload::controller_ref::{controller_of, controller_ref, is_controlled_by};
use crate::workload::related::resolve;
use crate::workload::{Key, key};

/// Source of its Events.
const SOURCE: &str = "cronjob-controller";
/// Annotation of a Job with its scheduled time.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Condition of a Job that succeeded.
const COMPLETE: &str = "Complete";
/// Condition of a Job that failed.
const FAILED: &str = "Failed";

struct Controller {
    ctx: Ctx,
    client: Client,
    crons: Informer<CronJob>,
    jobs: Informer<Job>,
    recorder: EventRecorder,
    queue: WorkQueue<Key>,
}

/// A CronJob whose status changes.
struct Work {
    cron: CronJob,
    changed: bool,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub(crate) async fn run(ctx: Ctx, client: Client, workers: usize) {
    let crons: Informer<CronJob> = Informer::start(&ctx, client.all(), ListParams::default());
    let jobs: Informer<Job> = Informer::start(&ctx, client.all(), ListParams::default());
    crons.synced().await;
    jobs.synced().await;
    let (mut cron_changes, mut job_changes) = (crons.subscribe(), jobs.subscribe());
    // client-go's default controller rate limiter.
    let queue = WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000)).named("cronjob");
    let recorder = EventRecorder::new(&client, SOURCE);
    let controller = Arc::new(Controller { ctx: ctx.clone(), client, crons, jobs, recorder, queue: queue.clone() });
    let worker = controller.clone();
    ctx.spawn(queue.run(workers, move |key| worker.clone().sync(key)));
    loop {
        tokio::select! { biased;
            Some(delta) = cron_changes.recv() => controller.cron_changed(&delta),
            Some(delta) = job_changes.recv() => controller.job_changed(&delta),
        }
    }
}

/// Returns the condition of a finished Job.
fn finished(job: &Job) -> Option<&str> {
    let conditions = job.status.as_ref()?.conditions.as_deref().unwrap_or_default();
    let is_end = |of: &&JobCondition| matches!(of.type_.as_str(), COMPLETE | FAILED) && of.status == "True";
    conditions.iter().find(is_end).map(|of| of.type_.as_str())
}

/// Returns the time zone of a CronJob, from the data of the machine.
fn zone_of(cron: &CronJob) -> Result<TimeZone, String> {
    match cron.spec.time_zone.as_deref() {
        None | Some("" | "UTC" | "Etc/UTC") => Ok(TimeZone::UTC),
        Some(name) => TimeZone::get(name).map_err(|_| format!("invalid timeZone: {name:?}: unknown time zone {name}")),
    }
}

fn active(cron: &CronJob) -> &[ObjectReference] {
    cron.status.as_ref().and_then(|status| status.active.as_deref()).unwrap_or_default()
}

fn is_active(cron: &CronJob, uid: &str) -> bool {
    active(cron).iter().any(|job| job.uid.as_deref() == Some(uid))
}

/// Returns the Job of a scheduled time (`getJobFromTemplate2`).
fn job_of(cron: &CronJob, name: &str, at: Timestamp) -> Job {
    let template = &cron.spec.job_template;
    let of = template.metadata.as_ref();
    let mut annotations = of.and_then(|of| of.annotations.clone()).unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), written(at, &zone_of(cron).unwrap_or(TimeZone::UTC)));
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: of.and_then(|of| of.labels.clone()),
        annotations: Some(annotations),
        // The server sets its own.
        creation_timestamp: Some(time(at)),
        owner_references: Some(vec![controller_ref(cron)]),
        ..ObjectMeta::default()
    };
    Job { metadata, spec: template.spec.clone(), ..Job::default() }
}

impl Work {
    fn forget(&mut self, uid: &str) {
        let Some(status) = self.cron.status.as_mut() else { return };
        if let Some(active) = status.active.as_mut() {
            active.retain(|job| job.uid.as_deref() != Some(uid));
        }
        status.active = status.active.take().filter(|active| !active.is_empty());
        self.changed = true;
    }

    /// Notes the end of a Job that succeeded.
    fn succeeded(&mut self, job: &Job) {
        let end = job.status.as_ref().and_then(|status| status.completion_time.clone());
        let status = self.cron.status.get_or_insert_default();
        if let Some(end) = end
            && status.last_successful_time.as_ref().is_none_or(|last| last.0 < end.0)
        {
            status.last_successful_time = Some(end);
            self.changed = true;
        }
    }
}

impl Controller {
    fn cron_changed(&self, delta: &Delta<CronJob>) {
        let (old, cron) = match delta {
            Delta::Applied { old, new } => (old.as_deref(), new),
            Delta::Deleted(cron) => (None, cron),
        };
        let times = |cron: &CronJob| (cron.spec.schedule.clone(), cron.spec.time_zone.clone());
        let moved = old.is_some_and(|old| times(old) != times(cron));
        if moved {
            let Ok(schedule) = Schedule::parse(&cron.spec.schedule) else {
                let why = format!("unparseable schedule for cronjob: {}", cron.spec.schedule);
                return self.event(cron, "Warning", "UnParseableCronJobSchedule", why);
            };
            // A sync reports an unknown zone.
            let schedule = schedule.in_zone(zone_of(cron).unwrap_or(TimeZone::UTC));
            // A changed schedule counts from its next time on. Without one, a sync says so.
            let wait = until_next(cron, &schedule, self.ctx.now().wall).unwrap_or_default();
            return self.queue.add_after(key(&**cron), wait);
        }
        self.queue.add(key(&**cron));
    }

    fn job_changed(&self, delta: &Delta<Job>) {
        let (Delta::Applied { new: job, .. } | Delta::Deleted(job)) = delta;
        let owner = controller_of(&job.metadata).and_then(|of| resolve(&self.crons, job.namespace(), of));
        owner.into_iter().for_each(|cron| self.queue.add(key(&*cron)));
    }

    fn event(&self, cron: &CronJob, kind: &str, reason: &str, message: impl Into<String>) {
        self.recorder.event(reference(cron), kind, reason, message);
    }

    async fn sync(self: Arc<Self>, item: Key) -> Outcome {
        let Some(cron) = self.crons.get(&item.0, &item.1) else { return Outcome::Done };
        let mut jobs = self.jobs.list_in(&item.0);
        jobs.retain(|job| is_controlled_by(&job.metadata, &*cron));
        let mut work = Work { cron: CronJob::clone(&cron), changed: false };
        self.clean(&mut work, &jobs).await;
        let synced = self.sync_cron(&mut work, &jobs).await;
        if work.changed && self.client.namespaced::<CronJob>(&item.0).replace_status(&work.cron).await.is_err() {
            return Outcome::Retry;
        }
        match synced {
            Ok(Some(wait)) => Outcome::After(wait),
            Ok(None) => Outcome::Done,
            Err(_) => Outcome::Retry,
        }
    }

    /// Works on a CronJob (`syncCronJob`); returns the time until its next Job.
    async fn sync_cron(&self, work: &mut Work, jobs: &[Arc<Job>]) -> Result<Option<Duration>> {
        self.follow(work, jobs).await?;
        if work.cron.is_deleting() {
            return Ok(None);
        }
        let zone = match zone_of(&work.cron) {
            Ok(zone) => zone,
            Err(why) => {
                self.event(&work.cron, "Warning", "UnknownTimeZone", why);
                return Ok(None);
            }
        };
        if work.cron.spec.suspend == Some(true) {
            return Ok(None);
        }
        let schedule = match Schedule::parse(&work.cron.spec.schedule) {
            Ok(schedule) => schedule.in_zone(zone),
            Err(why) => {
                let why = format!("unparseable schedule: {:?} : {why}", work.cron.spec.schedule);
                self.event(&work.cron, "Warning", "UnparseableSchedule", why);
                return Ok(None);
            }
        };
        let now = self.ctx.now().wall;
        let Some(found) = due(&work.cron, &schedule, now, true) else {
            let why = "time difference between two schedules is less than 1 second";
            let why = format!("invalid schedule: {} : {why}", work.cron.spec.schedule);
            self.event(&work.cron, "Warning", "InvalidSchedule", why);
            return Ok(None);
        };
        let Some(at) = found.latest else { return Ok(until_next(&work.cron, &schedule, now)) };
        if found.are_many() {
            let why = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.event(&work.cron, "Warning", "TooManyMissedTimes", why);
        }
        let deadline = work.cron.spec.starting_deadline_seconds.map(SignedDuration::from_secs);
        if deadline.and_then(|deadline| at.checked_add(deadline).ok()).is_some_and(|end| end < now) {
            let at = at.strftime("%a, %d %b %Y %H:%M:%S +0000");
            self.event(&work.cron, "Warning", "MissSchedule", format!("Missed scheduled time to start a job: {at}"));
            return Ok(until_next(&work.cron, &schedule, now));
        }
        self.start(work, at).await?;
        Ok(until_next(&work.cron, &schedule, now))
    }

    /// Compares the active list with the Jobs.
    async fn follow(&self, work: &mut Work, jobs: &[Arc<Job>]) -> Result<()> {
        for job in jobs {
            let known = is_active(&work.cron, job.uid());
            match finished(job) {
                None if !known => {
                    let fresh = self.client.namespaced::<CronJob>(job.namespace()).get(work.cron.name()).await?;
                    if is_active(&fresh, job.uid()) {
                        work.cron = CronJob::clone(&fresh);
                        continue;
                    }
                    let why = format!("Saw a job that the controller did not create or forgot: {}", job.name());
                    self.event(&work.cron, "Warning", "UnexpectedJob", why);
                }
                None => {}
                Some(condition) => {
                    let stays = condition == FAILED && mutant!(self.ctx, "failed-job-stays-active");
                    if known && !stays {
                        work.forget(job.uid());
                        let why = format!("Saw completed job: {}, condition: {condition}", job.name());
                        self.event(&work.cron, "Normal", "SawCompletedJob", why);
                    }
                    if condition == COMPLETE {
                        work.succeeded(job);
                    }
                }
            }
        }
        for listed in active(&work.cron).to_vec() {
            let (name, uid) = (listed.name.unwrap_or_default(), listed.uid.unwrap_or_default());
            if jobs.iter().any(|job| job.uid() == uid) {
                continue;
            }
            match self.client.namespaced::<Job>(work.cron.namespace()).get(&name).await {
                Err(error) if error.is_not_found() && mutant!(self.ctx, "missing-job-stays-active") => {}
                Err(error) if error.is_not_found() => {
                    self.event(&work.cron, "Normal", "MissingJob", format!("Active job went missing: {name}"));
                    work.forget(&uid);
                }
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Creates the Job of a scheduled time, unless it was created already or the concurrency policy forbids it.
    async fn start(&self, work: &mut Work, at: Timestamp) -> Result<()> {
        let name = format!("{}-{}", work.cron.name(), at.as_second() / 60);
        let last = work.cron.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
        let listed = active(&work.cron).iter().any(|job| job.name.as_deref() == Some(&*name));
        if listed || last.is_some_and(|last| last.0 == at) {
            return Ok(());
        }
        let api = self.client.namespaced::<Job>(work.cron.namespace());
        let policy = work.cron.spec.concurrency_policy.clone().unwrap_or_default();
        match policy.as_str() {
            "Forbid" if !active(&work.cron).is_empty() => {
                let why = "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.event(&work.cron, "Normal", "JobAlreadyActive", why);
                return Ok(());
            }
            "Replace" => {
                for listed in active(&work.cron).to_vec() {
                    let job = match api.get(listed.name.as_deref().unwrap_or_default()).await {
                        Ok(job) => job,
                        Err(error) => {
                            self.event(&work.cron, "Warning", "FailedGet", format!("Get job: {error}"));
                            return Err(error.into());
                        }
                    };
                    if !self.delete(work, &job).await {
                        bail!("could not replace job {}/{}", job.namespace(), job.name());
                    }
                }
            }
            _ => {}
        }
        let made = match api.create(&job_of(&work.cron, &name, at)).await {
            Ok(made) => {
                self.event(&work.cron, "Normal", "SuccessfulCreate", format!("Created job {name}"));
                made
            }
            Err(error) if error.is_already_exists() => {
                let made = api.get(&name).await?;
                let takes_any = mutant!(self.ctx, "job-of-another-listed");
                let is_own = takes_any || is_controlled_by(&made.metadata, &work.cron);
                if !is_own || is_active(&work.cron, made.uid()) {
                    return Ok(());
                }
                made
            }
            Err(error) => {
                if !error.is_namespace_terminating() {
                    self.event(&work.cron, "Warning", "FailedCreate", format!("Error creating job: {error}"));
                }
                return Err(error.into());
            }
        };
        let status = work.cron.status.get_or_insert_default();
        status.active.get_or_insert_default().push(reference(&*made));
        status.last_schedule_time = Some(time(at));
        work.changed = true;
        Ok(())
    }

    /// Deletes the oldest finished Jobs beyond the history limits (`cleanupFinishedJobs`).
    async fn clean(&self, work: &mut Work, jobs: &[Arc<Job>]) {
        let spec = &work.cron.spec;
        let limits = [(COMPLETE, spec.successful_jobs_history_limit), (FAILED, spec.failed_jobs_history_limit)];
        for (condition, limit) in limits {
            let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
            let mut done: Vec<&Arc<Job>> = jobs.iter().filter(|job| finished(job) == Some(condition)).collect();
            done.sort_by_key(|job| {
                let start = job.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|start| start.0);
                (start.is_none(), start, job.name().to_owned())
            });
            if mutant!(self.ctx, "newest-finished-job-deleted") {
                done.reverse();
            }
            let kept = limit + usize::from(mutant!(self.ctx, "finished-jobs-kept"));
            let surplus = done.len().saturating_sub(kept);
            for job in done.into_iter().take(surplus) {
                self.delete(work, job).await;
            }
        }
    }

    /// Deletes a Job and its entry in the active list. Returns false if the Job stays.
    async fn delete(&self, work: &mut Work, job: &Job) -> bool {
        let name = job.name();
        let params = DeleteParams { propagation: Some(Propagation::Background), ..DeleteParams::default() };
        match self.client.namespaced::<Job>(job.namespace()).delete(name, &params).await {
            Ok(()) => {
                work.forget(job.uid());
                self.event(&work.cron, "Normal", "SuccessfulDelete", format!("Deleted job {name}"));
                true
            }
            Err(error) => {
                self.event(&work.cron, "Warning", "FailedDelete", format!("Deleted job: {error}"));
                false
            }
        }
    }
}
