//! The async loop: acquires the lease, then renews it.

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
use crate::kube::client::scaled_timeout;
use crate::kube::{ApiError, Client, EventRecorder, reference};
use crate::metrics::{Metrics, families};
use crate::timers::Timers;

/// Jitter of the retry period of a waiting candidate, as a fraction of it (`JitterFactor`).
const JITTER: f64 = 1.2;

/// Lease that one of several replicas holds.
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
    /// Wait between two attempts.
    pub retry: Duration,
    /// Timeout of a request; None for the client's default.
    pub timeout: Option<Duration>,
    /// If set, a leader that could not renew tries to release the lease before it ends.
    pub releases: bool,
}

/// Replica that competes for a lease.
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
    /// Creates a candidate that uses `client` for the Lease and `events` for events.
    pub fn new(ctx: &Ctx, client: &Client, events: &Client, post: &Post, timers: &Timers) -> Self {
        let seconds = i32::try_from(timers.election_lease.as_secs()).unwrap_or(i32::MAX);
        let limit = post.timeout.map(|timeout| scaled_timeout(ctx, timeout));
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
        self.leads(false);
        while !self.attempt().await {
            let wait = self.retry + self.retry.mul_f64(JITTER * unit(&mut self.rng));
            self.ctx.sleep_until(self.ctx.now().mono + wait).await;
        }
        self.leads(true);
        self.record("became leader");
        self.ctx.emit(LeaderElected {
            lease: self.lock.describe().into(),
            identity: self.elector.identity().into(),
            transitions: self.elector.transitions(),
        });
    }

    /// Renews the lease until that has failed for `renewDeadline`. Then this replica no longer leads, and must end.
    pub async fn hold(&mut self) {
        while self.renew().await {
            self.ctx.sleep_until(self.ctx.now().mono + self.retry).await;
        }
        self.leads(false);
        if self.releases {
            // Without an answer the lease expires by itself.
            let _ = tokio::time::timeout(self.renew_deadline, self.release()).await;
        }
        self.record("stopped leading");
        let (lease, identity) = (self.lock.describe().into(), self.elector.identity().into());
        self.ctx.emit(LeaderLost { lease, identity });
    }

    /// Sets the metric that shows whether this replica leads.
    fn leads(&self, is: bool) {
        Metrics::of(&self.ctx).set(&families::MASTER_STATUS, &[self.lock.name()], u64::from(is));
    }

    /// Attempts a renewal in each retry period. Returns false if no attempt succeeded in time.
    async fn renew(&mut self) -> bool {
        let limit = if self.waits_for_answers() { Duration::MAX } else { self.renew_deadline };
        let tries = async {
            let mut began = self.ctx.now().mono;
            while !self.attempt().await {
                // The period counts from the start of an attempt. After an attempt that took longer, the next one
                // follows at once.
                self.ctx.sleep_until(began + self.retry).await;
                began = self.ctx.now().mono;
            }
        };
        tokio::time::timeout(limit, tries).await.is_ok()
    }

    /// Makes one attempt to acquire or renew the lease (`tryAcquireOrRenew`).
    async fn attempt(&mut self) -> bool {
        let now = self.ctx.now();
        // The kind of failure does not matter: there is another attempt.
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

    /// Seeded bug: an unanswered renewal delays the end of a leader.
    fn waits_for_answers(&self) -> bool {
        mutant!(self.ctx, "lease-lost-in-a-call")
    }

    /// Seeded bug: the lease of a dead leader is never taken over.
    fn waits_for_ever(&self, found: Option<&Record>) -> bool {
        let other = |found: &Record| !found.holder.is_empty() && found.holder != self.elector.identity();
        mutant!(self.ctx, "lease-never-expires") && found.is_some_and(other)
    }

    async fn release(&mut self) {
        // As upstream: a replica that believes it leads does not check for another leader.
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
