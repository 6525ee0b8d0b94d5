//! The cloud: the state machine behind its lock, and the listeners of its events.
//!
//! The APIs are layered above it: see [`crate::service`], [`crate::admin`], [`crate::imds`].

mod listener;
mod perform;
mod record;
mod settings;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Weak};
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

pub(crate) use listener::{Listener, PublishedEvent};
pub(crate) use settings::settings;

/// The cloud. Created outside the process that serves it, so that its state survives a restart of that process. Clones
/// share one cloud.
#[derive(Clone)]
pub struct Ec2(Arc<Shared>);

struct Shared {
    config: Config,
    settings: Settings,
    seed: Seed,
    inner: Mutex<Inner>,
    /// Bytes of volumes; used while the cloud is locked.
    storage: Storage,
    /// State file, if configured.
    journal: Option<Journal>,
    counts: Counts,
    /// Notified when the next deadline is earlier than the driver's wake-up.
    rescheduled: Notify,
}

struct Inner {
    state: State,
    /// Copies of an earlier run that can no longer be made.
    lost: Vec<(Target, io::Error)>,
    /// Listeners of all events, while they live.
    listeners: Vec<Weak<dyn Listener>>,
    /// Devices that should go but are mounted or open.
    held: BTreeSet<(VolumeId, InstanceId)>,
    history: History,
    buckets: Buckets,
    /// Wake-up of the driver; None without a deadline.
    sleeps_until: Option<Duration>,
}

/// Period of checking a busy device again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl std::fmt::Debug for Ec2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ec2").field("config", &self.0.config).finish_non_exhaustive()
    }
}

impl Ec2 {
    /// Creates a cloud with the instances of `config`, all running. Ids and durations come from `seed`.
    ///
    /// # Errors
    /// If a field of `config` is invalid or the volume directory cannot be used.
    pub fn new(seed: &Seed, config: Config) -> Result<Self, Error> {
        let settings = settings(&config)?;
        let (journal, saved) = record::open(&config)?.unzip();
        let copies = saved.iter().flatten().flat_map(|saved| saved.copies().to_vec()).collect();
        let mut state = match saved.flatten() {
            // Transitions that were in progress at the save end immediately.
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
        // The end of an earlier run's file may be incomplete. An unwritable file is reported immediately.
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

    /// Starts the cloud within process `ctx`: transitions end when they are due, and copies that an earlier process
    /// left are made.
    pub(crate) fn run(&self, ctx: &Ctx) {
        ctx.faults().declare(crate::faults::OPERATIONS);
        let now = ctx.now();
        let (stuck, copies) = {
            let mut inner = self.lock();
            inner.state.power_on(ctx.world().scale(), now.wall);
            inner.state.plant(crate::mutants::seeded_bugs(ctx));
            // A detach that became due while no process ran ends now, unless the device is mounted.
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

    /// Registers `listener` for every event from now on, while it lives.
    pub(crate) fn listen<L: Listener + 'static>(&self, listener: &Arc<L>) {
        let listener: Weak<L> = Arc::downgrade(listener);
        self.lock().listeners.push(listener);
    }

    /// Returns all instances: first the seed list in its order, then others in launch order.
    pub fn instances(&self) -> Vec<InstanceInfo> {
        self.lock().state.instances().into_iter().map(|i| i.info()).collect()
    }

    /// Returns true if the cloud has instance `id`.
    pub(crate) fn has_instance(&self, id: &InstanceId) -> bool {
        self.lock().state.instance(id).is_ok()
    }

    /// Returns its configuration.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Returns its fixed settings.
    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Returns the whole state as JSON, as in `GET /admin/v1/state`.
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

    /// Removes the backing files of all volumes unless they must be kept. Call it at the end of a run, when the cloud
    /// is no longer served.
    pub fn close(&self) {
        if !self.0.config.keep_files {
            self.0.storage.clear();
        }
    }

    /// Derives a secret for the purpose `name`.
    pub(crate) fn secret(&self, name: &str) -> [u8; 32] {
        let mut secret = [0; 32];
        self.0.seed.child("secret").child(name).rng().fill_bytes(&mut secret);
        secret
    }

    /// Returns the request counters.
    pub(crate) fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// Releases the transitions that `fault` holds, as soon as it is gone.
    pub(crate) fn release_after(&self, ctx: &Ctx, fault: String) {
        let (ec2, own) = (self.clone(), ctx.clone());
        ctx.spawn(async move {
            own.hang(&fault).await;
            ec2.refresh(&own);
        });
    }

    /// Performs transitions that an ended fault no longer holds.
    pub fn refresh(&self, ctx: &Ctx) {
        self.change(ctx, |_, _| ());
    }

    /// Reads the current state of the machine; all earlier events were published.
    pub(crate) fn look<T>(&self, ctx: &Ctx, work: impl FnOnce(&State) -> T) -> T {
        self.change(ctx, |inner, now| {
            inner.state.catch_up(now);
            self.publish(inner, ctx, now);
            work(&inner.state)
        })
    }

    /// Changes the machine directly.
    pub(crate) fn with_state<T>(&self, ctx: &Ctx, work: impl FnOnce(&mut State, Now) -> T) -> T {
        self.change(ctx, |inner, now| {
            inner.state.catch_up(now);
            work(&mut inner.state, now)
        })
    }

    /// Cuts the power of instance `id`.
    pub(crate) fn crash(&self, ctx: &Ctx, id: &InstanceId) -> Result<(), Ec2Error> {
        self.change(ctx, |inner, _| inner.state.crash_instance(id))
    }

    /// Resets the cloud to the instances of the configuration. Removes devices and files; faults stay.
    pub(crate) fn reset(&self, ctx: &Ctx) -> Result<(), Error> {
        self.change(ctx, |inner, now| {
            let mut fresh = State::new(self.0.settings.clone(), self.0.seed.clone(), &self.0.config.instances)
                .map_err(|(field, reason)| Error::Config { field, reason })?;
            fresh.set_switches(self.0.config.switches.clone());
            fresh.power_on(ctx.world().scale(), now.wall);
            fresh.plant(inner.state.seeded_bugs());
            inner.state.note_end();
            self.publish(inner, ctx, now);
            if let Some(journal) = &self.0.journal {
                fresh.track();
                journal.restart_from_state();
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
            // Keep the state before the first change.
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

    /// Ends transitions when they are due.
    async fn drive(self, ctx: Ctx) {
        loop {
            let next = {
                let mut inner = self.lock();
                let next = inner.state.next_deadline();
                // An unmount sends no event, so busy devices are checked periodically.
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

    /// Checks the mounts of devices that are about to go, and of those that could not go because of them.
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
            // With several attachments the mounting instance is unknown.
            let alone = inner.state.volume(&volume).is_ok_and(|v| v.attachments.len() == 1);
            let holds = alone && mounted.contains(&volume);
            inner.state.note_held(now, &volume, &instance, holds);
            if holds {
                inner.held.insert((volume, instance));
            }
        }
    }

    /// Performs due transitions, then sends each event to the trace, the listeners and the storage.
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
            if ctx.trace().has_readers() {
                event.emit(ctx);
            }
            let published = PublishedEvent { event, now, state: &inner.state };
            inner.listeners.iter().filter_map(Weak::upgrade).for_each(|listener| listener.on_event(&published));
            if let Err((id, error)) = self.0.storage.follow(&published) {
                ctx.emit(FileLeft { volume: id.into(), error: error.to_string() });
            }
        }
    }

    // Held for single calls only, never over an await. Observers of the trace run while it is held, which keeps the
    // trace in the order of events; they must not call back.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock()
    }
}

impl Inner {
    /// Returns true if some reads are stale.
    fn lags(&self, ctx: &Ctx) -> bool {
        let stale = |r: &Report| r.fault.matches.plane == Plane::Ec2 && matches!(r.fault.effect, Effect::StaleRead(_));
        !self.state.switches().lag_ms.is_empty() || (!ctx.faults().is_empty() && ctx.faults().list().iter().any(stale))
    }
}
