//! The cloud's one value: the machine behind its lock, and the list of those who hear what happens to it.
//!
//! What answers requests sits above it: see [`crate::service`], [`crate::admin`], [`crate::imds`].

mod listener;
mod perform;
mod record;
mod settings;

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rand_core::Rng;
use serde_json::{Value, json};
use substrate::fault::{Effect, Plane, Report};
use substrate::{Ctx, Now, Seed};
use tokio::sync::Notify;

use crate::config::{Config, Error, InstanceInfo};
use crate::counts::Counts;
use crate::events::FileLeft;
use crate::history::History;
use crate::journal::Journal;
use crate::state::error::Ec2Error;
use crate::state::ids::{InstanceId, VolumeId};
use crate::state::saved::PendingCopy;
use crate::state::throttle::Buckets;
use crate::state::{Settings, State};
use crate::storage::{Storage, Target};

pub(crate) use listener::{Heard, Listener};
pub(crate) use settings::settings;

/// The cloud. Made outside of the process that serves it, so that its state survives a restart of that process.
/// Cheap to clone; all clones are one cloud.
#[derive(Clone)]
pub struct Ec2(Arc<Shared>);

struct Shared {
    config: Config,
    settings: Settings,
    seed: Seed,
    inner: Mutex<Inner>,
    /// The bytes of volumes; used while the cloud is locked.
    storage: Storage,
    /// Where all of it is written down, if it is.
    journal: Option<Journal>,
    counts: Counts,
    /// The next deadline comes before the one that the driver sleeps until.
    rescheduled: Notify,
}

struct Inner {
    state: State,
    /// Copies of an earlier run that cannot be made any more.
    lost: Vec<(Target, io::Error)>,
    /// Who hears of every event, while they live.
    listeners: Vec<Weak<dyn Listener>>,
    /// Devices that should go and are mounted or open.
    held: BTreeSet<(VolumeId, InstanceId)>,
    history: History,
    buckets: Buckets,
    /// Until when the driver sleeps; for ever when there is no deadline.
    sleeps_until: Option<Duration>,
}

/// How often it is asked again if a busy device is still held.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl std::fmt::Debug for Ec2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ec2").field("config", &self.0.config).finish_non_exhaustive()
    }
}

impl Ec2 {
    /// A cloud with the instances of `config`, all running; ids and durations come from `seed`.
    ///
    /// # Errors
    /// When a field of `config` makes no sense or the volume directory cannot be used.
    pub fn new(seed: &Seed, config: Config) -> Result<Self, Error> {
        let settings = settings(&config)?;
        let (journal, saved) = record::open(&config)?.unzip();
        let copies = saved.iter().flatten().flat_map(|saved| saved.copies().to_vec()).collect();
        let mut state = match saved.flatten() {
            // What was under way when it was written down ends at once.
            Some(saved) => State::restore(settings.clone(), seed.clone(), saved)
                .map_err(|reason| Error::Config { field: "state file".to_owned(), reason })?,
            None => {
                let mut state = State::new(settings.clone(), seed.clone(), &config.instances)
                    .map_err(|(field, reason)| Error::Config { field, reason })?;
                state.open_with(&config.volumes).map_err(|(field, reason)| Error::Config { field, reason })?;
                let switches = config.switches.check().map(|()| config.switches.clone());
                state.set_switches(switches.map_err(|reason| Error::Config { field: "switches".to_owned(), reason })?);
                state
            }
        };
        if journal.is_some() {
            state.track();
        }
        let ec2 = Self::with(seed, config, settings, state, journal, copies)?;
        // Bytes of an earlier run may be torn at the end, and that a file cannot be written is said at once.
        ec2.save(Now::at(Duration::ZERO)).map_err(|error| Error::StateFile {
            path: ec2.0.config.state_file.iter().map(|file| file.path.clone()).collect(),
            reason: error.to_string(),
        })?;
        Ok(ec2)
    }

    fn with(
        seed: &Seed,
        config: Config,
        settings: Settings,
        mut state: State,
        journal: Option<Journal>,
        copies: Vec<PendingCopy>,
    ) -> Result<Self, Error> {
        let storage = Storage::open(&config)?;
        let volumes = state.volumes().map(|v| v.id.to_string());
        let known = volumes.chain(state.snapshots().map(|s| s.id.to_string())).chain(state.bin().ids());
        storage.keep_only(&known.collect());
        let bytes = state.volumes().filter(|v| !v.root).map(|v| (v.id.clone(), v.size_gib)).collect::<Vec<_>>();
        storage.complete(&bytes);
        let lost = storage.resume(&copies, &mut state);
        let inner = Inner {
            state,
            lost,
            listeners: Vec::new(),
            held: BTreeSet::new(),
            history: History::default(),
            buckets: Buckets::default(),
            sleeps_until: Some(Duration::ZERO),
        };
        Ok(Self(Arc::new(Shared {
            settings,
            config,
            seed: seed.clone(),
            inner: Mutex::new(inner),
            storage,
            journal,
            counts: Counts::new(seed),
            rescheduled: Notify::new(),
        })))
    }

    /// Lets time go on within process `ctx`: transitions end when they are due, and copies that an earlier process left
    /// are made.
    pub(crate) fn run(&self, ctx: &Ctx) {
        ctx.faults().declare(crate::faults::OPERATIONS);
        let now = ctx.now();
        let (stuck, copies) = {
            let mut inner = self.lock();
            inner.state.power_on(ctx.world().scale(), now.wall);
            inner.state.plant(crate::mutants::planted(ctx));
            // A detach that fell due while no process ran ends now, but not under a mount.
            self.ask_who_holds(&mut inner, now);
            for (target, error) in std::mem::take(&mut inner.lost) {
                inner.copied(ctx, now, &target, Err(error));
            }
            self.publish(&mut inner, ctx, now);
            self.note(&mut inner, now);
            (inner.state.stuck_by(), self.0.storage.copies())
        };
        for fault in stuck {
            self.release_after(ctx, fault);
        }
        for (target, copy) in copies {
            self.make(ctx, target, copy);
        }
        let (ec2, driver) = (self.clone(), ctx.clone());
        ctx.spawn(async move { ec2.drive(driver).await });
    }

    /// Lets `listener` hear of every event from now on, for as long as somebody holds it.
    pub(crate) fn listen<L: Listener + 'static>(&self, listener: &Arc<L>) {
        let listener: Weak<L> = Arc::downgrade(listener);
        self.lock().listeners.push(listener);
    }

    /// All instances, in the order of the seed list, then of their start.
    pub fn instances(&self) -> Vec<InstanceInfo> {
        self.lock().state.instances().into_iter().map(|i| i.info()).collect()
    }

    /// Whether instance `id` is one of its own.
    pub(crate) fn has_instance(&self, id: &InstanceId) -> bool {
        self.lock().state.instance(id).is_ok()
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// What of it does not change.
    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The whole state as JSON: what `GET /admin/v1/state` answers.
    pub fn dump(&self) -> Value {
        let inner = self.lock();
        let state = &inner.state;
        let settings = state.settings();
        let zones: Vec<Value> = settings.zones.iter().map(|z| json!({ "name": z.name, "id": z.id })).collect();
        json!({
            "region": settings.region,
            "accountId": settings.account_id,
            "latency": settings.latency,
            "zones": zones,
            "instances": state.instances(),
            "volumes": state.volumes().map(|v| state.with_lingering(v)).collect::<Vec<_>>(),
            "snapshots": state.snapshots().collect::<Vec<_>>(),
            "account": state.account(),
            "switches": state.switches(),
            "requests": self.0.counts.requests(),
            "nextDeadlineMs": state.next_deadline().map(|d| d.as_millis() as u64),
        })
    }

    /// Removes the backing files of all volumes unless they are to be kept; for the end of a run, when nothing serves
    /// the cloud any more.
    pub fn close(&self) {
        if !self.0.config.keep_files {
            self.0.storage.clear();
        }
    }

    /// A secret for the purpose `name`.
    pub(crate) fn secret(&self, name: &str) -> [u8; 32] {
        let mut secret = [0; 32];
        self.0.seed.child("secret").child(name).rng().fill_bytes(&mut secret);
        secret
    }

    /// The book of requests.
    pub(crate) fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// Lets the transitions go on that `fault` holds, as soon as it is gone.
    pub(crate) fn release_after(&self, ctx: &Ctx, fault: String) {
        let (ec2, own) = (self.clone(), ctx.clone());
        ctx.spawn(async move {
            own.hang(&fault).await;
            ec2.refresh(&own);
        });
    }

    /// Lets happen what may happen now, after a fault has ended.
    pub fn refresh(&self, ctx: &Ctx) {
        self.change(ctx, |_, _| ());
    }

    /// Looks at the machine as it is now; everyone has heard of all that led to it.
    pub(crate) fn look<T>(&self, ctx: &Ctx, work: impl FnOnce(&State) -> T) -> T {
        self.change(ctx, |inner, now| {
            inner.state.catch_up(now);
            self.publish(inner, ctx, now);
            work(&inner.state)
        })
    }

    /// Does something to the machine itself.
    pub(crate) fn poke<T>(&self, ctx: &Ctx, work: impl FnOnce(&mut State, Now) -> T) -> T {
        self.change(ctx, |inner, now| {
            inner.state.catch_up(now);
            work(&mut inner.state, now)
        })
    }

    /// Lets instance `id` lose power.
    pub(crate) fn crash(&self, ctx: &Ctx, id: &InstanceId) -> Result<(), Ec2Error> {
        self.change(ctx, |inner, _| inner.state.crash_instance(id))
    }

    /// Begins anew: the instances of the configuration and nothing else. Devices go, files go; faults stay.
    pub(crate) fn reset(&self, ctx: &Ctx) -> Result<(), Error> {
        self.change(ctx, |inner, now| {
            let mut fresh = State::new(self.0.settings.clone(), self.0.seed.clone(), &self.0.config.instances)
                .map_err(|(field, reason)| Error::Config { field, reason })?;
            fresh.set_switches(self.0.config.switches.clone());
            fresh.power_on(ctx.world().scale(), now.wall);
            fresh.plant(inner.state.planted());
            inner.state.note_end();
            self.publish(inner, ctx, now);
            if let Some(journal) = &self.0.journal {
                fresh.track();
                journal.begin_anew();
            }
            inner.state = fresh;
            self.0.storage.clear();
            Ok(())
        })
    }

    fn change<T>(&self, ctx: &Ctx, work: impl FnOnce(&mut Inner, Now) -> T) -> T {
        let now = ctx.now();
        let mut inner = self.lock();
        let faults = ctx.faults();
        inner.state.release_stuck(now, |fault| faults.is_in_force(now.mono, fault));
        self.ask_who_holds(&mut inner, now);
        if inner.history.is_empty() && inner.lags(ctx) {
            // The past begins before the first change.
            let Inner { history, state, .. } = &mut *inner;
            history.note(now.mono, state);
        }
        let out = work(&mut inner, now);
        self.publish(&mut inner, ctx, now);
        self.note(&mut inner, now);
        let next = inner.state.next_deadline();
        let late = next.is_some_and(|next| inner.sleeps_until.is_none_or(|until| next < until));
        drop(inner);
        if late {
            self.0.rescheduled.notify_one();
        }
        out
    }

    /// Lets transitions end when they are due.
    async fn drive(self, ctx: Ctx) {
        loop {
            let next = {
                let mut inner = self.lock();
                let next = inner.state.next_deadline();
                // An unmount tells nobody, so what is busy is looked at again and again.
                let busy = !inner.held.is_empty();
                let next =
                    if busy { Some(next.unwrap_or(Duration::MAX).min(ctx.now().mono + ASK_AGAIN)) } else { next };
                inner.sleeps_until = next;
                next
            };
            let due = async {
                match next {
                    Some(at) => ctx.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! { biased;
                () = self.0.rescheduled.notified() => {}
                () = due => {
                    let now = ctx.now();
                    let mut inner = self.lock();
                    self.ask_who_holds(&mut inner, now);
                    self.publish(&mut inner, &ctx, now);
                    self.note(&mut inner, now);
                    drop(inner);
                    self.write_later(&ctx);
                }
            }
        }
    }

    /// Asks who knows what is mounted about the devices that are about to go, and about those that could not go because
    /// of it.
    fn ask_who_holds(&self, inner: &mut Inner, now: Now) {
        if !self.0.storage.knows_mounts() {
            return;
        }
        let mut asked: BTreeSet<(VolumeId, InstanceId)> = inner.state.about_to_go(now.mono).into_iter().collect();
        asked.append(&mut inner.held);
        if asked.is_empty() {
            return;
        }
        let mounted = self.0.storage.mounted(&asked.iter().map(|(volume, _)| volume.clone()).collect());
        for (volume, instance) in asked {
            // Which instance of several holds it is not told apart.
            let alone = inner.state.volume(&volume).is_ok_and(|v| v.attachments.len() == 1);
            let holds = alone && mounted.contains(&volume);
            inner.state.note_held(now, &volume, &instance, holds);
            if holds {
                inner.held.insert((volume, instance));
            }
        }
    }

    /// Lets happen what is due, then tells every event to the trace, to who listens, and to the keeper of the bytes.
    fn publish(&self, inner: &mut Inner, ctx: &Ctx, now: Now) {
        let events = inner.state.tick(now);
        if inner.lags(ctx) {
            inner.history.note(now.mono, &inner.state);
        } else {
            inner.history.clear();
        }
        if events.is_empty() {
            return;
        }
        inner.listeners.retain(|listener| listener.strong_count() > 0);
        for event in &events {
            if ctx.trace().is_heard() {
                event.emit(ctx);
            }
            let heard = Heard { event, now, state: &inner.state };
            inner.listeners.iter().filter_map(Weak::upgrade).for_each(|listener| listener.hear(&heard));
            if let Err((id, error)) = self.0.storage.follow(&heard) {
                ctx.emit(FileLeft { volume: id.into(), error: error.to_string() });
            }
        }
    }

    // Held for single calls only, never over an await. Observers of the trace run while it is held, which keeps the
    // trace in the order of events; they must not call back.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Whether some reads are of the past.
    fn lags(&self, ctx: &Ctx) -> bool {
        let stale = |r: &Report| r.fault.matches.plane == Plane::Ec2 && matches!(r.fault.effect, Effect::StaleRead(_));
        !self.state.switches().lag_ms.is_empty() || (!ctx.faults().is_empty() && ctx.faults().list().iter().any(stale))
    }
}
