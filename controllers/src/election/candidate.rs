//! The shell: waits for the lease, then keeps it.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use rand_core::Rng;
use substrate::clock::Now;
use substrate::mutant;
use substrate::process::Ctx;
use substrate::seed::unit;

use super::elector::{Action, Elector};
use super::lock::Lock;
use super::record::Record;
use crate::events::{LeaderElected, LeaderLost};
use crate::kube::client::patience;
use crate::kube::{ApiError, Client, EventRecorder, reference};
use crate::timers::Timers;

/// Who waits looks again after its retry period, stretched by up to this much of it (`JitterFactor`).
const JITTER: f64 = 1.2;

/// What there is to be won: one of several replicas holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// Name of the Lease.
    pub lease: String,
    /// Its namespace.
    pub namespace: String,
    /// The replica's name in the Lease.
    pub identity: String,
    /// Source of the events about it.
    pub source: String,
    /// How long to wait between two tries.
    pub retry: Duration,
    /// How long a request may take; as long as any other when absent.
    pub timeout: Option<Duration>,
    /// Whether a leader that could not renew tries to give the lease up before it ends.
    pub releases: bool,
}

/// A replica that contends for a post.
pub struct Candidate {
    ctx: Ctx,
    elector: Elector,
    lock: Lock,
    recorder: EventRecorder,
    retry: Duration,
    renew_deadline: Duration,
    releases: bool,
    rng: Box<dyn Rng + Send>,
}

impl Candidate {
    /// A candidate that reads and writes the Lease as `client` and the events as `events`.
    pub fn new(ctx: &Ctx, client: &Client, events: &Client, post: &Post, timers: &Timers) -> Self {
        let seconds = i32::try_from(timers.election_lease.as_secs()).unwrap_or(i32::MAX);
        let limit = post.timeout.map(|timeout| patience(ctx, timeout));
        Self {
            ctx: ctx.clone(),
            elector: Elector::new(&*post.identity, seconds, ctx.scaled(Duration::from_secs(1))),
            lock: Lock::new(client, &post.namespace, &post.lease, limit),
            recorder: EventRecorder::new(events, &post.source),
            retry: ctx.scaled(post.retry),
            renew_deadline: ctx.scaled(timers.election_renew_deadline),
            releases: post.releases,
            rng: Box::new(ctx.rng("leader election")),
        }
    }

    /// Waits until this replica leads.
    pub async fn acquire(&mut self) {
        while !self.attempt().await {
            let wait = self.retry + self.retry.mul_f64(JITTER * unit(&mut self.rng));
            self.ctx.sleep_until(self.ctx.now().mono + wait).await;
        }
        self.record("became leader");
        self.ctx.emit(LeaderElected {
            lease: self.lock.describe().into(),
            identity: self.elector.identity().into(),
            transitions: self.elector.transitions(),
        });
    }

    /// Renews the lease until that fails for `renewDeadline`: then this replica leads no more, and must end.
    pub async fn hold(&mut self) {
        while self.renew().await {
            self.ctx.sleep_until(self.ctx.now().mono + self.retry).await;
        }
        if self.releases {
            // Without an answer the lease runs out by itself.
            let _ = tokio::time::timeout(self.renew_deadline, self.release()).await;
        }
        self.record("stopped leading");
        let (lease, identity) = (self.lock.describe().into(), self.elector.identity().into());
        self.ctx.emit(LeaderLost { lease, identity });
    }

    /// Tries on a grid of the retry period; false when none succeeded in time.
    async fn renew(&mut self) -> bool {
        let limit = if self.waits_for_answers() { Duration::MAX } else { self.renew_deadline };
        let tries = async {
            let mut began = self.ctx.now().mono;
            while !self.attempt().await {
                // Counted from the beginning of a try; one that took longer is followed by the next at once.
                self.ctx.sleep_until(began + self.retry).await;
                began = self.ctx.now().mono;
            }
        };
        tokio::time::timeout(limit, tries).await.is_ok()
    }

    /// One try to get or to keep the lease (`tryAcquireOrRenew`).
    async fn attempt(&mut self) -> bool {
        let now = self.ctx.now();
        // What a failure was does not matter: there is another try.
        self.try_attempt(now).await.unwrap_or(false)
    }

    async fn try_attempt(&mut self, now: Now) -> Result<bool, ApiError> {
        if let Some(renewal) = self.elector.renewal(now)
            && self.lock.update(&renewal).await.is_ok()
        {
            self.elector.written(self.ctx.now().mono, renewal);
            return Ok(true);
        }
        let found = self.lock.get().await?;
        let record = match self.elector.decide(now, self.ctx.now().mono, found.as_ref()) {
            Action::Wait => return Ok(false),
            Action::Create(record) => {
                self.lock.create(&record).await?;
                record
            }
            Action::Update(_) if self.waits_for_ever(found.as_ref()) => return Ok(false),
            Action::Update(record) => {
                self.lock.update(&record).await?;
                record
            }
        };
        self.elector.written(self.ctx.now().mono, record);
        Ok(true)
    }

    /// A planted defect: a renewal that is not answered holds up the end of a leader.
    fn waits_for_answers(&self) -> bool {
        mutant!(self.ctx, "lease-lost-in-a-call")
    }

    /// A planted defect: the lease of who is gone is never taken over.
    fn waits_for_ever(&self, found: Option<&Record>) -> bool {
        let other = |found: &Record| !found.holder.is_empty() && found.holder != self.elector.identity();
        mutant!(self.ctx, "lease-never-expires") && found.is_some_and(other)
    }

    async fn release(&mut self) {
        // As upstream, who believes to lead does not look whether another one does by now.
        while self.elector.is_leader()
            && let Ok(Some(found)) = self.lock.get().await
        {
            let released = self.elector.release(self.ctx.now(), &found);
            match self.lock.update(&released).await {
                Err(e) if e.is_conflict() => {}
                _ => return,
            }
        }
    }

    fn record(&self, what: &str) {
        let about = self.lock.lease().map_or_else(ObjectReference::default, reference);
        let message = format!("{} {what}", self.elector.identity());
        self.recorder.event(about, "Normal", "LeaderElection", message);
    }
}
