//! The TTL-after-finished controller (`ttl-after-finished-controller`, `pkg/controller/ttlafterfinished`): deletes a Job
//! some time after it finished.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use substrate::mutant;
use substrate::process::Ctx;

use super::conditions::finished;
use crate::kube::metadata::Propagation;
use crate::kube::queue::Outcome;
use crate::kube::{Client, DeleteParams, Delta, Informer, Kind, ListParams, WorkQueue};
use crate::workload::{Key, key};

/// Returns the time until a finished Job expires; none if it does not (`timeLeft`).
fn time_left(job: &Job, now: Timestamp) -> Option<Duration> {
    let ttl = job.spec.as_ref()?.ttl_seconds_after_finished.filter(|_| !job.is_deleting())?;
    let end = finished(job)?.last_transition_time.as_ref()?.0;
    let left = (end.as_nanosecond() + i128::from(ttl) * 1_000_000_000 - now.as_nanosecond()).max(0);
    Some(Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX)))
}

struct Controller {
    ctx: Ctx,
    client: Client,
    jobs: Informer<Job>,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub(crate) async fn run(ctx: Ctx, client: Client, workers: usize) {
    let jobs: Informer<Job> = Informer::start(&ctx, client.all(), ListParams::default());
    jobs.synced().await;
    let mut changes = jobs.subscribe();
    // client-go's default controller rate limiter.
    let queue = WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000)).named("ttl_jobs_to_delete");
    let controller = Arc::new(Controller { ctx: ctx.clone(), client, jobs });
    ctx.spawn(queue.clone().run(workers, move |key| controller.clone().process(key)));
    while let Some(delta) = changes.recv().await {
        if let Delta::Applied { new, .. } = delta
            && time_left(&new, ctx.now().wall).is_some()
            && !mutant!(ctx, "job-ttl-ignored")
        {
            queue.add(key(&*new));
        }
    }
}

impl Controller {
    async fn process(self: Arc<Self>, item: Key) -> Outcome {
        let Some(job) = self.jobs.get(&item.0, &item.1) else { return Outcome::Done };
        match time_left(&job, self.ctx.now().wall) {
            None => return Outcome::Done,
            Some(left) if !left.is_zero() => return Outcome::After(left),
            Some(_) => {}
        }
        // The cache may be behind: the Job may have another TTL now.
        let fresh = match self.client.namespaced::<Job>(&item.0).get(&item.1).await {
            Ok(fresh) => fresh,
            Err(error) if error.is_not_found() => return Outcome::Done,
            Err(_) => return Outcome::Retry,
        };
        match time_left(&fresh, self.ctx.now().wall) {
            None => return Outcome::Done,
            Some(left) if !left.is_zero() => return Outcome::After(left),
            Some(_) => {}
        }
        let (uid, propagation) = (Some(fresh.uid().to_owned()), Some(Propagation::Foreground));
        let params = DeleteParams { uid, propagation, ..DeleteParams::default() };
        match self.client.namespaced::<Job>(&item.0).delete(&item.1, &params).await {
            Err(error) if !error.is_not_found() => Outcome::Retry,
            _ => Outcome::Done,
        }
    }
}
