//! The async loop: informers feed the caches and two queues, with one worker each for claims and volumes.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use substrate::mutant;
use substrate::process::Ctx;

use super::cache::BinderCache;
use super::claim::sync_claim;
use super::object::{ClaimKey, claim_phase, name, volume_name, volume_phase};
use super::step::{About, Call, Notice, Step};
use super::turns::Turns;
use super::volume::{Live, sync_volume};
use crate::Timers;
use crate::events::BinderError;
use crate::kube::{ApiError, Client, DeleteParams, Delta, EventRecorder, Informer, ListParams, WorkQueue, reference};
use crate::metrics::Metrics;

/// Largest number of writes in one visit of an object. A binding needs four, a release or a repair two more. A rule
/// that needs more would loop.
const MAX_STEPS: usize = 8;

/// Runs the binder forever. `client` is kube-controller-manager's, under the name `persistent-volume-binder`.
pub async fn run(ctx: Ctx, client: Client, timers: Timers) {
    let sources = Sources {
        volumes: Informer::start(&ctx, client.all(), ListParams::default()),
        claims: Informer::start(&ctx, client.all(), ListParams::default()),
        classes: Informer::start(&ctx, client.all(), ListParams::default()),
        pods: Informer::start(&ctx, client.all(), ListParams::default()),
    };
    if !mutant!(ctx, "volumes-not-awaited") {
        sources.volumes.synced().await;
    }
    sources.claims.synced().await;
    sources.classes.synced().await;
    sources.pods.synced().await;

    let mut cache = BinderCache::default();
    cache.ignores_uids = mutant!(ctx, "binding-without-uid");
    cache.ignores_access_modes = mutant!(ctx, "access-modes-not-compared");
    cache.ignores_size = mutant!(ctx, "size-not-compared");
    cache.ignores_selector = mutant!(ctx, "selector-not-compared");
    cache.ignores_class = mutant!(ctx, "class-not-compared");
    cache.ignores_mode = mutant!(ctx, "volume-mode-not-compared");
    cache.takes_largest = mutant!(ctx, "largest-volume-chosen");
    cache.takes_reserved = mutant!(ctx, "reserved-volume-taken");
    cache.offers_released = mutant!(ctx, "released-volume-offered-again");
    cache.trusts_names = mutant!(ctx, "requested-volume-not-checked");
    cache.keeps_unneeded = mutant!(ctx, "unneeded-volume-kept");
    cache.copies_growth = mutant!(ctx, "capacity-follows-volume");
    cache.takes_deleting = mutant!(ctx, "binds-deleting-volume");
    cache.prefers_oldest = mutant!(ctx, "oldest-default-class");
    // Failures wait for the next resync; the queues' own backoff is not used.
    let queue_base = timers.binder_sync;
    let binder = Arc::new(Binder {
        recorder: EventRecorder::new(&client, "persistentvolume-controller"),
        claims: WorkQueue::new(&ctx, queue_base, queue_base).named("claims"),
        volumes: WorkQueue::new(&ctx, queue_base, queue_base).named("volumes"),
        cache: Mutex::new(cache),
        turns: Turns::default(),
        client,
        ctx: ctx.clone(),
    });
    ctx.spawn(binder.clone().claim_worker());
    ctx.spawn(binder.clone().volume_worker());
    binder.pump(sources, timers.binder_sync).await;
}

struct Sources {
    volumes: Informer<PersistentVolume>,
    claims: Informer<PersistentVolumeClaim>,
    classes: Informer<StorageClass>,
    pods: Informer<Pod>,
}

struct Binder {
    ctx: Ctx,
    client: Client,
    recorder: EventRecorder,
    cache: Mutex<BinderCache>,
    turns: Turns,
    claims: WorkQueue<ClaimKey>,
    volumes: WorkQueue<String>,
}

impl Binder {
    async fn pump(self: Arc<Self>, sources: Sources, period: Duration) {
        let (mut volumes, mut claims) = (sources.volumes.subscribe(), sources.claims.subscribe());
        let (mut classes, mut pods) = (sources.classes.subscribe(), sources.pods.subscribe());
        let period = self.ctx.scaled(period);
        let mut resync = self.ctx.now().mono + period;
        let metrics = Metrics::of(&self.ctx);
        loop {
            self.cache().tally.show(&metrics);
            tokio::select! { biased;
                Some(delta) = classes.recv() => self.class_changed(&delta),
                Some(delta) = pods.recv() => self.pod_changed(&delta),
                Some(delta) = volumes.recv() => self.volume_changed(delta),
                Some(delta) = claims.recv() => self.claim_changed(delta),
                () = self.ctx.sleep_until(resync) => {
                    resync += period;
                    self.resync();
                }
            }
        }
    }

    /// Enqueues every claim and volume that needs a step.
    fn resync(&self) {
        let cache = self.cache();
        let forgets = mutant!(self.ctx, "claims-not-resynced");
        for (key, _) in cache.claims().filter(|(key, _)| !forgets && sync_claim(&cache, key) != Step::done()) {
            self.claims.add(key.clone());
        }
        for name in cache.volumes().map(|v| name(&v.metadata)) {
            if sync_volume(&cache, name, &Live::NotAsked) != Step::done() {
                self.volumes.add(name.to_owned());
            }
        }
    }

    fn class_changed(&self, delta: &Delta<StorageClass>) {
        match delta {
            Delta::Applied { new, .. } => self.cache().store_class(new.clone()),
            Delta::Deleted(class) => self.cache().remove_class(name(&class.metadata)),
        }
    }

    fn pod_changed(&self, delta: &Delta<Pod>) {
        match delta {
            Delta::Applied { old, new } => self.cache().store_pod(old.as_deref(), Some(new)),
            Delta::Deleted(pod) => self.cache().store_pod(Some(pod), None),
        }
    }

    fn volume_changed(&self, delta: Delta<PersistentVolume>) {
        match delta {
            Delta::Applied { old, new } => {
                let key = name(&new.metadata).to_owned();
                let waits = old.is_none() && mutant!(self.ctx, "new-volumes-wait-for-resync");
                if self.cache().store_volume(new) && !waits {
                    self.volumes.add(key);
                }
            }
            Delta::Deleted(volume) => {
                self.cache().remove_volume(name(&volume.metadata));
                // The claim learns at once that it has lost its volume.
                if let Some(key) = ClaimKey::of_volume(&volume) {
                    self.claims.add(key);
                }
            }
        }
    }

    fn claim_changed(&self, delta: Delta<PersistentVolumeClaim>) {
        match delta {
            Delta::Applied { new, .. } => {
                let key = ClaimKey::of(&new);
                if self.cache().store_claim(new) {
                    self.claims.add(key);
                }
            }
            Delta::Deleted(claim) => {
                self.cache().remove_claim(&ClaimKey::of(&claim));
                // The volume is released at once, not at the next resync.
                if !volume_name(&claim).is_empty() {
                    self.volumes.add(volume_name(&claim).to_owned());
                }
            }
        }
    }

    async fn claim_worker(self: Arc<Self>) {
        loop {
            let key = self.claims.get().await;
            for _ in 0..MAX_STEPS {
                let step = self.next_of_claim(&key).await;
                if !matches!(self.take(step).await, Next::Again(_)) {
                    break;
                }
            }
            self.turns.claim_done().into_iter().for_each(|volume| self.volumes.add(volume));
            self.claims.done(&key);
        }
    }

    /// Returns the next step of a claim. Waits until the worker of volumes does not write the step's volume.
    async fn next_of_claim(&self, key: &ClaimKey) -> Step {
        loop {
            let step = sync_claim(&self.cache(), key);
            let Some(volume) = step.written_volume() else { return step };
            if self.turns.claim_writes(volume).await {
                return step;
            }
        }
    }

    async fn volume_worker(self: Arc<Self>) {
        loop {
            let name = self.volumes.get().await;
            if !self.turns.volume_begins(&name) {
                self.volumes.done(&name);
                continue;
            }
            let mut live = Live::NotAsked;
            for _ in 0..MAX_STEPS {
                let step = sync_volume(&self.cache(), &name, &live);
                match self.take(step).await {
                    Next::Again(Some(answer)) => live = answer,
                    Next::Again(None) => {}
                    Next::Stop => break,
                }
            }
            self.turns.volume_done();
            self.volumes.done(&name);
        }
    }

    async fn take(&self, step: Step) -> Next {
        self.record(&step.before);
        if let Some(error) = &step.error {
            self.trace("sync", &error.to_string());
        }
        if let Some(key) = step.enqueue {
            self.claims.add(key);
        }
        let Some(call) = step.call else { return Next::Stop };
        match self.call(call).await {
            Ok(answer) => {
                self.record(&step.after);
                if step.again { Next::Again(answer) } else { Next::Stop }
            }
            Err(error) => {
                // Conflicts are usual, and the newer object is about to arrive; other errors are retried at the next
                // resync.
                self.trace("write", &error.to_string());
                Next::Stop
            }
        }
    }

    async fn call(&self, call: Call) -> Result<Option<Live>, ApiError> {
        let volumes = self.client.all::<PersistentVolume>();
        let claims = self.client.all::<PersistentVolumeClaim>();
        match call {
            Call::ReplaceVolume(volume) => {
                let volume = volumes.replace(&volume).await?;
                self.cache().store_volume(volume);
            }
            Call::DeleteVolume(name) => volumes.delete(&name, &DeleteParams::default()).await?,
            Call::ReplaceVolumeStatus(volume)
                if volume_phase(&volume) == "Bound" && mutant!(self.ctx, "bound-phase-not-written") =>
            {
                self.cache().store_volume(Arc::from(volume));
            }
            Call::ReplaceVolumeStatus(volume)
                if volume_phase(&volume) == "Available" && mutant!(self.ctx, "available-phase-not-written") =>
            {
                self.cache().store_volume(Arc::from(volume));
            }
            Call::ReplaceVolumeStatus(volume) => {
                let volume = volumes.replace_status(&volume).await?;
                self.cache().store_volume(volume);
            }
            Call::ReplaceClaim(claim) => {
                let claim = claims.replace(&claim).await?;
                self.cache().store_claim(claim);
            }
            Call::ReplaceClaimStatus(claim)
                if claim_phase(&claim) == "Lost" && mutant!(self.ctx, "lost-claim-stays-bound") => {}
            Call::ReplaceClaimStatus(mut claim) => {
                if claim_phase(&claim) == "Bound"
                    && mutant!(self.ctx, "bound-capacity-not-written")
                    && let Some(status) = &mut claim.status
                {
                    status.capacity = None;
                }
                if claim_phase(&claim) == "Bound" && mutant!(self.ctx, "capacity-told-as-requested") {
                    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.clone());
                    claim.status.get_or_insert_default().capacity = requests;
                }
                let claim = claims.replace_status(&claim).await?;
                self.cache().store_claim(claim);
            }
            Call::ReadClaim(_) if mutant!(self.ctx, "released-by-cache") => return Ok(Some(Live::Missing)),
            Call::ReadClaim(key) => {
                let claims = self.client.namespaced::<PersistentVolumeClaim>(&key.namespace);
                return match claims.get(&key.name).await {
                    Ok(claim) => Ok(Some(Live::Found(claim))),
                    Err(e) if e.is_not_found() => Ok(Some(Live::Missing)),
                    Err(e) => Err(e),
                };
            }
        }
        Ok(None)
    }

    fn record(&self, notices: &[Notice]) {
        for Notice { about, kind, reason, message } in notices {
            let object = match about {
                About::Claim(claim) => reference(&**claim),
                About::Volume(volume) => reference(&**volume),
            };
            self.recorder.event(object, kind, reason, message.as_str());
        }
    }

    fn trace(&self, what: &str, error: &str) {
        self.ctx.trace().emit_lazily(self.ctx.name(), || BinderError { what: what.into(), error: error.to_owned() });
    }

    fn cache(&self) -> MutexGuard<'_, BinderCache> {
        self.cache.lock()
    }
}

enum Next {
    /// Apply the rules again, with the result of a GET.
    Again(Option<Live>),
    /// Done, or failed until the next event or resync.
    Stop,
}
