//! A person who may inspect the cluster of a live run when a step pauses.

use parking_lot::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use substrate::latest;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cluster::Cluster;

/// Shows the cluster with a text about what to look at. Completes when the person continues.
pub type Show = Box<dyn Fn(&Cluster, &str) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Hook of a run's pauses, and the total time of its pauses.
#[derive(Default)]
pub struct PauseHook {
    show: Option<Show>,
    paused: Mutex<Paused>,
    goes_on: Notify,
    timeout: Option<Duration>,
    /// Set if the time limit starts with the first step instead of the run.
    first_step: Option<latest::Sender<bool>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Paused {
    before: Duration,
    since: Option<Instant>,
}

impl std::fmt::Debug for PauseHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PauseHook").field("is_there", &self.show.is_some()).finish_non_exhaustive()
    }
}

impl PauseHook {
    /// No hook: pauses are skipped.
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates a hook that shows the cluster with `show`.
    pub fn new(show: Show) -> Self {
        Self { show: Some(show), ..Self::default() }
    }

    /// Sets a wall-clock limit for the steps.
    pub fn with_timeout(self, limit: Duration) -> Self {
        Self { timeout: Some(limit), ..self }
    }

    /// Sets a wall-clock limit that starts when the cluster is up and the programs are started.
    pub fn patient_from_first_step(self, limit: Duration) -> Self {
        Self { first_step: Some(latest::Sender::new(false)), ..self.with_timeout(limit) }
    }

    /// Reports that the cluster is up and the first step begins.
    pub(super) fn first_step_begins(&self) {
        if let Some(first_step) = &self.first_step {
            first_step.send_replace(true);
        }
    }

    /// Completes with the limit when the steps have exceeded it, not counting pauses. Never completes without a limit.
    pub(super) async fn exceeds_timeout(&self, begin: Instant) -> Duration {
        let Some(limit) = self.timeout else { return std::future::pending().await };
        let mut begin = begin;
        if let Some(first_step) = &self.first_step {
            // The sender lives as long as `self`.
            let _ = first_step.subscribe().wait_for(|begun| *begun).await;
            begin = Instant::now();
        }
        self.outlast(begin, limit).await;
        limit
    }

    /// Pauses for the person; returns at once if there is no hook.
    ///
    /// # Errors
    /// If the cluster cannot be shown.
    pub(super) async fn pause(&self, cluster: &Cluster, text: &str) -> Result<(), String> {
        let Some(show) = &self.show else { return Ok(()) };
        self.paused().since = Some(Instant::now());
        let shown = show(cluster, text).await;
        let mut paused = self.paused();
        let span = paused.since.take().map(|since| since.elapsed()).unwrap_or_default();
        paused.before += span;
        drop(paused);
        self.goes_on.notify_waiters();
        shown
    }

    /// Completes when the run has worked for `limit` since `begin`. Pauses do not count.
    pub async fn outlast(&self, begin: Instant, limit: Duration) {
        loop {
            let goes_on = self.goes_on.notified();
            let Paused { before, since } = *self.paused();
            let over = begin + limit + before;
            if since.is_some() {
                goes_on.await;
            } else if Instant::now() >= over {
                return;
            } else {
                tokio::time::sleep_until(over).await;
            }
        }
    }

    fn paused(&self) -> MutexGuard<'_, Paused> {
        self.paused.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_timeout_of_a_run_begins_with_its_first_step() {
        let pause_hook = PauseHook::none().patient_from_first_step(Duration::from_secs(10));
        let begin = Instant::now();
        let lost = pause_hook.exceeds_timeout(begin);
        tokio::pin!(lost);
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut lost).await.is_err(), "no step has begun");
        pause_hook.first_step_begins();
        lost.await;
        assert_eq!(begin.elapsed(), Duration::from_secs(70));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_that_a_run_stands_still_does_not_count() {
        let pause_hook = PauseHook::none();
        let begin = Instant::now();
        *pause_hook.paused() = Paused { before: Duration::from_secs(5), since: None };
        pause_hook.outlast(begin, Duration::from_secs(10)).await;
        assert_eq!(begin.elapsed(), Duration::from_secs(15));
        pause_hook.paused().since = Some(Instant::now());
        let over = pause_hook.outlast(begin, Duration::from_secs(10));
        tokio::pin!(over);
        let still = tokio::time::timeout(Duration::from_secs(3_600), &mut over).await;
        assert!(still.is_err(), "it ended while it stood still");
    }
}
