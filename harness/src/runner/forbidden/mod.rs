//! Forbidden conditions (`never`), checked from their step on after every possible change, until they end.
//!
//! Objects and Events are watched like a client does, revision by revision. Calls, and states and attachments of
//! volumes, are taken from single events. All other states of the cloud, and metrics, are checked after every change in
//! the cloud; a state that is shorter than a check can be missed.

mod judge;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use substrate::Clock;
use tokio::sync::{Notify, mpsc};

use self::judge::{Judge, Undecidable, Verdict};
use super::Failure;
use super::call_recorder::CallRecorder;
use super::describe::CloudReader;
use super::follow::{Follower, Progress};
use super::metrics::Meter;
use super::mirror::Mirror;
use crate::cluster::Objects;
use crate::scenario::predicate::{Forbidden, Never, Subject};
use crate::spec::object::Kind;

/// Clients that the checks use.
#[derive(Clone)]
pub(super) struct Tools {
    pub(super) clock: Clock,
    pub(super) objects: Objects,
    pub(super) cloud_reader: CloudReader,
    pub(super) meter: Meter,
    pub(super) call_recorder: Arc<CallRecorder>,
}

/// A `never` in force.
struct Active {
    never: Never,
    from: Duration,
    looks: Arc<Looks>,
    progress: Option<Arc<Progress>>,
}

/// Results of the checks of a `never`.
#[derive(Debug, Default)]
struct Looks(Mutex<Looked>);

#[derive(Debug, Default)]
struct Looked {
    /// The condition was evaluated to false at least once.
    evaluated: bool,
    /// Last error of an evaluation.
    error: Option<Undecidable>,
}

impl Looks {
    fn note(&self, verdict: &Verdict) {
        let mut looked = self.0.lock();
        match verdict {
            Verdict::Fine => looked.evaluated = true,
            Verdict::Undecidable(why) => looked.error = Some(why.clone()),
            Verdict::Broken(_) => {}
        }
    }
}

/// Checks as futures, for the task that drives them.
pub(super) type Jobs = mpsc::UnboundedReceiver<BoxFuture<'static, ()>>;

/// All conditions that are forbidden in a run.
pub(super) struct ForbiddenConditions {
    tools: Tools,
    active: Mutex<BTreeMap<usize, Active>>,
    broken: Mutex<Option<Failure>>,
    notify: Notify,
    work: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
}

impl ForbiddenConditions {
    /// Starts with no forbidden conditions. The caller must drive the returned jobs while the steps run.
    pub(super) fn new(tools: Tools) -> (Arc<Self>, Jobs) {
        let (work, jobs) = mpsc::unbounded_channel();
        let (active, broken, notify) = (Mutex::default(), Mutex::default(), Notify::new());
        (Arc::new(Self { tools, active, broken, notify, work }), jobs)
    }

    /// Checks all forbidden conditions until one of them holds.
    pub(super) async fn watch(&self, mut jobs: Jobs) -> Failure {
        let mut at_work = FuturesUnordered::new();
        loop {
            let (reached, broken) = (self.tools.call_recorder.limit_reached(), self.notify.notified());
            tokio::pin!(reached, broken);
            reached.as_mut().enable();
            broken.as_mut().enable();
            if let Some(failure) = self.broken() {
                return failure;
            }
            tokio::select! { biased;
                () = reached => {}
                () = broken => {}
                Some(job) = jobs.recv() => at_work.push(job),
                Some(()) = at_work.next() => {}
            }
        }
    }

    /// Forbids a condition from now on.
    pub(super) async fn begin(self: &Arc<Self>, index: usize, never: &Never) -> Result<(), Failure> {
        let (looks, from) = (Arc::<Looks>::default(), self.tools.clock.mono());
        let active = Active { never: never.clone(), from, looks: looks.clone(), progress: None };
        self.active().insert(index, active);
        match &never.what {
            Forbidden::Calls(calls) => self.tools.call_recorder.forbid(index, calls),
            Forbidden::Holds(holds) => self.follow(index, holds.of.clone(), Judge::that(holds), looks).await?,
            Forbidden::Event(event) => {
                let namespace = event.object.namespace.clone().unwrap_or_else(|| "default".to_owned());
                let subject = Subject::List(Kind::event(), Some(namespace));
                self.follow(index, subject, Judge::events(event), looks).await?;
            }
            Forbidden::Cloud(cloud) if Mirror::can_answer(cloud) => {
                self.tools.call_recorder.ban(index, cloud, from.as_millis() as u64);
            }
            Forbidden::Metric(_) | Forbidden::Cloud(_) => {
                self.look(index, never).await;
                self.queue(self.clone().keep_looking(index, never.clone()));
            }
        }
        self.broken().map_or(Ok(()), Err)
    }

    /// Ends the conditions that end at the step `name`.
    pub(super) async fn end_at(&self, name: &str) -> Result<(), Failure> {
        let ends = |active: &&Active| active.never.until.as_deref() == Some(name);
        let over: Vec<usize> = self.active().iter().filter(|(_, a)| ends(a)).map(|(index, _)| *index).collect();
        for index in over {
            self.end(index).await?;
        }
        Ok(())
    }

    /// Ends all conditions, because the steps are over.
    pub(super) async fn end_all(&self) -> Result<(), Failure> {
        let all: Vec<usize> = self.active().keys().copied().collect();
        for index in all {
            self.end(index).await?;
        }
        Ok(())
    }

    /// Checks everything that has happened so far, and then ends the condition.
    async fn end(&self, index: usize) -> Result<(), Failure> {
        let (what, progress) = match self.active().get(&index) {
            Some(active) => (active.never.clone(), active.progress.clone()),
            None => return Ok(()),
        };
        match (&what.what, progress) {
            (Forbidden::Calls(_), _) => self.tools.call_recorder.allow(index),
            (Forbidden::Cloud(cloud), _) if Mirror::can_answer(cloud) => {
                let verdict = match self.tools.call_recorder.lift(index) {
                    true => Verdict::Fine,
                    false => Verdict::Undecidable(Undecidable::Because("there is no such volume".to_owned())),
                };
                if let Some(active) = self.active().get(&index) {
                    active.looks.note(&verdict);
                }
            }
            (Forbidden::Metric(_) | Forbidden::Cloud(_), _) => self.look(index, &what).await,
            (_, Some(progress)) => {
                if let Err(why) = progress.catch_up(&self.tools.objects).await {
                    return Err(self.failure(index, why));
                }
            }
            (_, None) => {}
        }
        if let Some(failure) = self.broken() {
            return Err(failure);
        }
        let looked = match self.active().get(&index) {
            Some(active) => std::mem::take(&mut *active.looks.0.lock()),
            None => return Ok(()),
        };
        if !matches!(what.what, Forbidden::Calls(_)) && !looked.evaluated {
            let why = looked.error.map_or_else(|| "it does not exist".to_owned(), |error| error.text());
            return Err(self.failure(index, format!("it was never checked: at every attempt, {why}")));
        }
        self.active().remove(&index);
        Ok(())
    }

    async fn follow(
        self: &Arc<Self>,
        index: usize,
        subject: Subject,
        mut judge: Judge,
        looks: Arc<Looks>,
    ) -> Result<(), Failure> {
        let mut follower = match Follower::begin(&self.tools.objects, &self.tools.clock, subject).await {
            Ok(follower) => follower,
            Err(why) => return Err(self.failure(index, why)),
        };
        if let Some(active) = self.active().get_mut(&index) {
            active.progress = Some(follower.progress());
        }
        let first = judge.begin(follower.objects());
        self.note(index, &looks, first, "when it began");
        let own = self.clone();
        self.queue(async move {
            while let Some(revision) = follower.next().await {
                if !own.active().contains_key(&index) {
                    return;
                }
                let verdict = judge.look(follower.objects(), &revision);
                own.note(index, &looks, verdict, &format!("with revision {}", revision.number));
                follower.seen(&revision);
            }
        });
        Ok(())
    }

    /// Checks now and after every change in the cloud.
    async fn keep_looking(self: Arc<Self>, index: usize, never: Never) {
        loop {
            let changed = self.tools.call_recorder.cloud_changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            self.look(index, &never).await;
            if !self.active().contains_key(&index) {
                return;
            }
            changed.await;
        }
    }

    async fn look(&self, index: usize, never: &Never) {
        let seen = match &never.what {
            Forbidden::Metric(metric) => self.tools.meter.look(metric).await,
            Forbidden::Cloud(cloud) => self.tools.cloud_reader.look(cloud).await,
            _ => return,
        };
        let verdict = match seen {
            Ok((true, seen)) => Verdict::Broken(seen),
            Ok((false, _)) => Verdict::Fine,
            Err(why) => Verdict::Undecidable(Undecidable::Because(why)),
        };
        let looks = self.active().get(&index).map(|active| active.looks.clone());
        if let Some(looks) = looks {
            self.note(index, &looks, verdict, "by its API");
        }
    }

    fn note(&self, index: usize, looks: &Looks, verdict: Verdict, how: &str) {
        looks.note(&verdict);
        if let Verdict::Broken(seen) = verdict {
            let at = self.tools.clock.mono();
            let failure = self.failure(index, format!("at {}, {how}: {seen}", moment(at)));
            self.broken.lock().get_or_insert(failure);
            self.notify.notify_waiters();
        }
    }

    fn queue(&self, job: impl Future<Output = ()> + Send + 'static) {
        // The receiver is dropped only at the end of the run, when no checks are needed.
        let _ = self.work.send(Box::pin(job));
    }

    /// Failure of a forbidden condition that held, if one did.
    fn broken(&self) -> Option<Failure> {
        for (index, ms, seen) in self.tools.call_recorder.take_reached() {
            let failure = self.failure(index, format!("at {}: {seen}", moment(Duration::from_millis(ms))));
            self.broken.lock().get_or_insert(failure);
        }
        self.broken.lock().clone()
    }

    fn failure(&self, index: usize, seen: String) -> Failure {
        let active = self.active();
        let Some(active) = active.get(&index) else {
            return Failure { step: Some(index), expected: "what is forbidden does not happen".to_owned(), seen };
        };
        let expected = format!("never, from {} on: {}", moment(active.from), active.never);
        Failure { step: Some(index), expected, seen }
    }

    fn active(&self) -> MutexGuard<'_, BTreeMap<usize, Active>> {
        self.active.lock()
    }
}

/// Formats a time of the run: `12.345s`.
fn moment(at: Duration) -> String {
    format!("{}.{:03}s", at.as_secs(), at.subsec_millis())
}
