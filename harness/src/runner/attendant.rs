//! The person beside a live run, who may inspect the cluster when a step pauses.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use substrate::latest;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cluster::Cluster;

/// Shows the cluster with a text about what to look at. Completes when the person continues.
pub type Show = Box<dyn Fn(&Cluster, &str) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Attendant of a run, and the total time of its pauses.
#[derive(Default)]
pub struct Attendant {
    show: Option<Show>,
    stood: Mutex<Stood>,
    goes_on: Notify,
    patience: Option<Duration>,
    /// Set if the patience begins with the first step instead of the run.
    first_step: Option<latest::Sender<bool>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stood {
    before: Duration,
    since: Option<Instant>,
}

impl std::fmt::Debug for Attendant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attendant").field("is_there", &self.show.is_some()).finish_non_exhaustive()
    }
}

impl Attendant {
    /// No attendant: pauses are skipped.
    pub fn nobody() -> Self {
        Self::default()
    }

    /// An attendant to whom `show` shows the cluster.
    pub fn new(show: Show) -> Self {
        Self { show: Some(show), ..Self::default() }
    }

    /// Sets a wall time limit for the steps.
    pub fn patient(self, limit: Duration) -> Self {
        Self { patience: Some(limit), ..self }
    }

    /// The same limit, which begins when the cluster is up and the programs are started.
    pub fn patient_from_first_step(self, limit: Duration) -> Self {
        Self { first_step: Some(latest::Sender::new(false)), ..self.patient(limit) }
    }

    /// Says that the cluster is up and the first step begins.
    pub(super) fn first_step_begins(&self) {
        if let Some(first_step) = &self.first_step {
            first_step.send_replace(true);
        }
    }

    /// Completes with the limit when the steps have exceeded it, not counting pauses. Never completes without a limit.
    pub(super) async fn loses_patience(&self, begin: Instant) -> Duration {
        let Some(limit) = self.patience else { return std::future::pending().await };
        let mut begin = begin;
        if let Some(first_step) = &self.first_step {
            // The sender lives as long as `self`.
            let _ = first_step.subscribe().wait_for(|begun| *begun).await;
            begin = Instant::now();
        }
        self.outlast(begin, limit).await;
        limit
    }

    /// Pauses for the person; returns at once if there is no attendant.
    ///
    /// # Errors
    /// If the cluster cannot be shown.
    pub(super) async fn pause(&self, cluster: &Cluster, text: &str) -> Result<(), String> {
        let Some(show) = &self.show else { return Ok(()) };
        self.stood().since = Some(Instant::now());
        let shown = show(cluster, text).await;
        let mut stood = self.stood();
        let span = stood.since.take().map(|since| since.elapsed()).unwrap_or_default();
        stood.before += span;
        drop(stood);
        self.goes_on.notify_waiters();
        shown
    }

    /// Completes when the run has worked for `limit` since `begin`. Pauses do not count.
    pub async fn outlast(&self, begin: Instant, limit: Duration) {
        loop {
            let goes_on = self.goes_on.notified();
            let Stood { before, since } = *self.stood();
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

    fn stood(&self) -> MutexGuard<'_, Stood> {
        self.stood.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_patience_with_a_story_does_not_begin_before_its_first_step() {
        let attendant = Attendant::nobody().patient_from_first_step(Duration::from_secs(10));
        let begin = Instant::now();
        let lost = attendant.loses_patience(begin);
        tokio::pin!(lost);
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut lost).await.is_err(), "no step has begun");
        attendant.first_step_begins();
        lost.await;
        assert_eq!(begin.elapsed(), Duration::from_secs(70));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_that_a_run_stands_still_does_not_count() {
        let attendant = Attendant::nobody();
        let begin = Instant::now();
        *attendant.stood() = Stood { before: Duration::from_secs(5), since: None };
        attendant.outlast(begin, Duration::from_secs(10)).await;
        assert_eq!(begin.elapsed(), Duration::from_secs(15));
        attendant.stood().since = Some(Instant::now());
        let over = attendant.outlast(begin, Duration::from_secs(10));
        tokio::pin!(over);
        let still = tokio::time::timeout(Duration::from_secs(3_600), &mut over).await;
        assert!(still.is_err(), "it ended while it stood still");
    }
}
