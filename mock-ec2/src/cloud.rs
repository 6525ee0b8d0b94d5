//! The cloud's one value: the machine behind its lock, what listens to it, and the files that its volumes own.

mod settings;
mod storage;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand_core::Rng;
use serde_json::{Value, json};
use substrate::fault::{Effect, Plane, Report};
use substrate::{Ctx, HttpService, Now, Seed, WorldKind};
use tokio::sync::{Notify, mpsc};

use crate::admin::devices::{DeviceStreams, Told};
use crate::admin::watch::{Figures, Watchers, by_state};
use crate::config::{Config, Error, InstanceInfo, VolumeBytes};
use crate::counts::Counts;
use crate::events::{FileLeft, ModificationChanged, ModificationState};
use crate::files::VolumeFiles;
use crate::history::History;
use crate::state::command::{Action, Command, Reply};
use crate::state::error::Ec2Error;
use crate::state::event::Event;
use crate::state::ids::{InstanceId, VolumeId};
use crate::state::saved::Saved;
use crate::state::throttle::Buckets;
use crate::state::{Settings, State};
use crate::wire::encode::Surroundings;

pub(crate) use settings::settings;
use storage::{Target, kept};

/// The cloud. Made outside of the process that serves it, so that its state survives a restart of that process.
/// Cheap to clone; all clones are one cloud.
#[derive(Clone)]
pub struct Ec2(Arc<Shared>);

struct Shared {
    config: Config,
    settings: Settings,
    surroundings: Surroundings,
    seed: Seed,
    inner: Mutex<Inner>,
    counts: Counts,
    /// The next deadline comes before the one that the driver sleeps until.
    rescheduled: Notify,
}

struct Inner {
    state: State,
    files: Option<VolumeFiles>,
    bytes: Option<Arc<dyn VolumeBytes>>,
    streams: DeviceStreams,
    /// Devices that should go and are mounted or open.
    held: BTreeSet<(VolumeId, InstanceId)>,
    watchers: Watchers,
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
        let mut state = State::new(settings.clone(), seed.clone(), &config.instances)
            .map_err(|(field, reason)| Error::Config { field, reason })?;
        let switches = config.switches.check().map(|()| config.switches.clone());
        state.set_switches(switches.map_err(|reason| Error::Config { field: "switches".to_owned(), reason })?);
        Self::with(seed, config, settings, state)
    }

    /// The cloud that [`Ec2::save`] wrote down; the instances of `config` are not looked at. What was under way then
    /// ends at once.
    ///
    /// # Errors
    /// When `config` or `saved` make no sense or the volume directory cannot be used.
    pub fn restore(seed: &Seed, config: Config, saved: Saved) -> Result<Self, Error> {
        let settings = settings(&config)?;
        let state = State::restore(settings.clone(), seed.clone(), saved)
            .map_err(|reason| Error::Config { field: "saved state".to_owned(), reason })?;
        Self::with(seed, config, settings, state)
    }

    /// The whole state, to be written down.
    pub fn save(&self, now: Now) -> Saved {
        self.lock().state.save(now)
    }

    fn with(seed: &Seed, config: Config, settings: Settings, state: State) -> Result<Self, Error> {
        let open = |dir| VolumeFiles::open(dir, config.disk_limit, config.keep_files);
        let mut files = config.volume_dir.as_deref().map(open).transpose()?;
        if let Some(files) = &mut files {
            let volumes = state.volumes().map(|v| v.id.to_string());
            files.keep_only(&volumes.chain(state.snapshots().map(|s| s.id.to_string())).collect());
        }
        let bytes = config.bytes.clone();
        let inner = Inner {
            state,
            files,
            bytes,
            streams: DeviceStreams::default(),
            watchers: Watchers::default(),
            held: BTreeSet::new(),
            history: History::default(),
            buckets: Buckets::default(),
            sleeps_until: Some(Duration::ZERO),
        };
        Ok(Self(Arc::new(Shared {
            surroundings: (&settings).into(),
            settings,
            config,
            seed: seed.clone(),
            inner: Mutex::new(inner),
            counts: Counts::new(seed),
            rescheduled: Notify::new(),
        })))
    }

    /// Starts to serve within process `ctx`: the EC2 API at `/`, the admin API under `/admin/v1/`.
    pub fn start(&self, ctx: &Ctx) -> HttpService {
        ctx.faults().declare(crate::faults::OPERATIONS);
        let now = ctx.now();
        {
            let mut inner = self.lock();
            inner.state.power_on(ctx.world().scale(), now.wall);
            inner.state.plant(crate::mutants::planted(ctx));
            inner.publish(ctx, now);
        }
        let stuck = self.lock().state.stuck_by();
        for fault in stuck {
            self.release_after(ctx, fault);
        }
        let (ec2, driver) = (self.clone(), ctx.clone());
        ctx.spawn(async move { ec2.drive(driver).await });
        crate::service::router(self.clone(), ctx.clone())
    }

    /// All instances, in the order of the seed list, then of their start.
    pub fn instances(&self) -> Vec<InstanceInfo> {
        self.lock().state.instances().into_iter().map(|i| i.info()).collect()
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.0.config
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
            "switches": state.switches(),
            "requests": self.0.counts.requests(),
            "nextDeadlineMs": state.next_deadline().map(|d| d.as_millis() as u64),
        })
    }

    /// Removes the backing files of all volumes unless they are to be kept; for the end of a run, when nothing serves
    /// the cloud any more.
    pub fn close(&self) {
        if self.0.config.keep_files {
            return;
        }
        if let Some(files) = &mut self.lock().files {
            files.clear();
        }
    }

    /// The metadata service of instance `id`, within process `ctx`.
    pub fn metadata(&self, ctx: &Ctx, id: &InstanceId) -> HttpService {
        crate::imds::router(self.clone(), ctx.clone(), id.clone())
    }

    /// A secret for the purpose `name`.
    pub(crate) fn secret(&self, name: &str) -> [u8; 32] {
        let mut secret = [0; 32];
        self.0.seed.child("secret").child(name).rng().fill_bytes(&mut secret);
        secret
    }

    /// Takes what `action` costs from the buckets, when it is throttled.
    pub(crate) fn admit(&self, ctx: &Ctx, action: &Action) -> Result<(), Ec2Error> {
        let mut inner = self.lock();
        let Inner { state, buckets, .. } = &mut *inner;
        let throttled = &state.switches().throttle;
        if throttled.is_empty() {
            return Ok(());
        }
        // Where waits are divided, what fills during them is not.
        let now = ctx.clock().mono().mul_f64(ctx.world().scale().factor());
        if buckets.admit(now, throttled, action) { Ok(()) } else { Err(Ec2Error::RequestLimit) }
    }

    /// The zones that `action` is about: those of what it names.
    pub(crate) fn zones_of(&self, action: &Action) -> BTreeSet<String> {
        let inner = self.lock();
        let volumes = action.volumes().into_iter().filter_map(|v| inner.state.volume(v).ok()).map(|v| v.zone.clone());
        let instances = action.instances().into_iter().filter_map(|i| inner.state.instance(i).ok());
        let asked = match action {
            Action::CreateVolume(request) => request.zone.clone(),
            Action::RunInstances(request) => request.zone.clone(),
            _ => None,
        };
        volumes.chain(instances.map(|i| i.zone.clone())).chain(asked).collect()
    }

    /// The book of requests.
    pub(crate) fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// All transitions from now on.
    pub(crate) fn watch(&self) -> mpsc::Receiver<bytes::Bytes> {
        self.lock().watchers.follow()
    }

    /// What there is to count.
    pub(crate) fn figures(&self, ctx: &Ctx) -> Figures {
        self.change(ctx, |inner, now| {
            inner.state.catch_up(now);
            let state = &inner.state;
            let attachments = state.volumes().flat_map(|v| v.attachments.values());
            Figures {
                requests: self.0.counts.samples(),
                volumes: by_state(state.volumes().map(|v| v.state.as_str())),
                attachments: by_state(attachments.map(|a| a.state.as_str())),
                snapshots: by_state(state.snapshots().map(|s| s.state.as_str())),
                instances: by_state(state.instances().into_iter().map(|i| i.state.wire().0)),
            }
        })
    }

    /// Does a command that changes nothing on the state of `revisions` changes ago.
    pub(crate) fn recall(&self, ctx: &Ctx, command: &Command, revisions: u32) -> Result<Reply, Ec2Error> {
        self.change(ctx, |inner, now| {
            inner.state.catch_up(now);
            inner.publish(ctx, now);
            let mut then = inner.history.ago(revisions).unwrap_or(&inner.state).clone();
            // Nothing happens in it any more: it is a picture.
            then.freeze();
            then.apply(now, command)
        })
    }

    /// Does a command that changes nothing on the state of `lag` ago.
    fn look_back(inner: &Inner, now: Now, command: &Command, lag: Duration) -> Result<Reply, Ec2Error> {
        let mono = now.mono.saturating_sub(lag);
        let mut then = inner.history.at(mono).unwrap_or(&inner.state).clone();
        if inner.state.settings().settles_at_once() {
            then.freeze();
        }
        then.apply(Now { mono, ..now }, command)
    }

    /// Does one command, makes its file first if it makes a volume, and tells everyone what happened.
    pub(crate) fn perform(&self, ctx: &Ctx, command: &Command) -> Result<Reply, Ec2Error> {
        self.change(ctx, |inner, now| {
            if command.action.reads_only()
                && let Some(lag) = inner.state.switches().lag_ms.get(command.action.name())
            {
                let lag = ctx.scaled(Duration::from_millis(*lag));
                inner.state.catch_up(now);
                inner.publish(ctx, now);
                return Self::look_back(inner, now, command, lag);
            }
            let new = match &command.action {
                Action::CreateVolume(request) => {
                    inner.state.preview(now, request, command.dry_run)?.into_iter().collect()
                }
                Action::CopyVolumes(request) => {
                    inner.state.preview_copy(now, request, command.dry_run)?.into_iter().collect()
                }
                Action::RunInstances(request) => inner.state.preview_launch(now, request, command.dry_run)?,
                _ => Vec::new(),
            };
            let copies = inner.make_all_bytes(ctx, now, &new)?;
            let reply = inner.state.apply(now, command)?;
            for (copy, new) in copies {
                inner.state.volume_copying(&new.id);
                self.copy(ctx, inner, now, copy, Target::Volume(new.id));
            }
            for (source, snapshot) in kept(&command.action, &reply) {
                self.keep(ctx, inner, now, &source, snapshot);
            }
            Ok(reply)
        })
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
    pub(crate) fn refresh(&self, ctx: &Ctx) {
        self.change(ctx, |_, _| ());
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
            inner.publish(ctx, now);
            inner.state = fresh;
            if let Some(files) = &mut inner.files {
                files.clear();
            }
            Ok(())
        })
    }

    /// Follows the devices of `instance`: those there now, then each change.
    pub(crate) fn follow(&self, ctx: &Ctx, instance: &InstanceId) -> Result<mpsc::Receiver<Told>, Ec2Error> {
        self.change(ctx, |inner, now| {
            inner.state.catch_up(now);
            inner.publish(ctx, now);
            inner.streams.follow(&inner.state, instance)
        })
    }

    pub(crate) fn surroundings(&self) -> &Surroundings {
        &self.0.surroundings
    }

    fn change<T>(&self, ctx: &Ctx, work: impl FnOnce(&mut Inner, Now) -> T) -> T {
        let now = ctx.now();
        let mut inner = self.lock();
        let faults = ctx.faults();
        inner.state.release_stuck(now, |fault| faults.is_in_force(now.mono, fault));
        self.ask_who_holds(ctx, &mut inner, now);
        if inner.history.is_empty() && inner.lags(ctx) {
            // The past begins before the first change.
            let Inner { history, state, .. } = &mut *inner;
            history.note(now.mono, state);
        }
        let out = work(&mut inner, now);
        inner.publish(ctx, now);
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
                    self.ask_who_holds(&ctx, &mut inner, now);
                    inner.publish(&ctx, now);
                }
            }
        }
    }

    /// Asks those who know what is mounted about the devices that are about to go, and about those that could not go
    /// because of it: the keeper of the bytes, or the kernel of this machine.
    fn ask_who_holds(&self, ctx: &Ctx, inner: &mut Inner, now: Now) {
        let live = ctx.world().kind() == WorldKind::Live;
        let dir = self.0.config.volume_dir.as_deref().filter(|_| live && self.0.config.watch_mounts);
        if dir.is_none() && inner.bytes.is_none() {
            return;
        }
        let mut asked: BTreeSet<(VolumeId, InstanceId)> = inner.state.about_to_go(now.mono).into_iter().collect();
        asked.append(&mut inner.held);
        if asked.is_empty() {
            return;
        }
        let volumes: BTreeSet<_> = asked.iter().map(|(volume, _)| volume.clone()).collect();
        let mounted = match (&inner.bytes, dir) {
            (Some(bytes), _) => volumes.into_iter().filter(|volume| bytes.is_held(volume.as_str())).collect(),
            (None, Some(dir)) => crate::mounts::mounted(dir, &volumes),
            (None, None) => BTreeSet::new(),
        };
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

    /// Lets happen what is due, then hands every event to the trace, the device streams and the files.
    fn publish(&mut self, ctx: &Ctx, now: Now) {
        let events = self.state.tick(now);
        if self.lags(ctx) {
            self.history.note(now.mono, &self.state);
        } else {
            self.history.clear();
        }
        for event in events {
            if ctx.trace().is_heard() {
                event.emit(ctx);
            }
            self.streams.tell(&event);
            self.watchers.tell(now.mono.as_millis(), &event);
            if let Event::Modification(ModificationChanged { volume, state: ModificationState::Optimizing, size_gib }) =
                &event
            {
                let instances = self.state.volume(volume).map(|v| v.attachments.keys().cloned().collect::<Vec<_>>());
                self.streams.resized(volume, *size_gib, &instances.unwrap_or_default());
            }
            if let Err((id, error)) = self.follow_bytes(&event) {
                ctx.emit(FileLeft { volume: id.into(), error: error.to_string() });
            }
        }
    }
}
