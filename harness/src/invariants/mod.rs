//! Invariants: conditions that must hold in every run, under every fault, in both worlds.
//!
//! | | | Checked |
//! |---|---|---|
//! | I1 | no volume with single-node access is writable on two nodes, unless a legitimate forced detach from the other node is on record | at every event |
//! | I2 | no detach while the volume is staged or published there, unless that detach is legitimately forced; no volume is removed from a pod whose container writes; a kubelet unpublishes before it unstages, and before it removes the pod | at every event |
//! | I3 | publish only after stage, stage only after attach; without staging, publish only after attach; the driver answers that a volume is detached, or a volume or snapshot deleted, only if it is; a replica that lost its lease stops leading within 30 seconds; a volume is staged only if its node's `status.volumesInUse` lists it, and detached only after `status.volumesAttached` lists it no longer; ordered StatefulSets work on their pods in order; a kubelet reports a pod as Succeeded only after all its containers ended with code 0; the cloud's resources go through their states in order | at every event |
//! | I4 | EC2 attachments = attached VolumeAttachments = `status.volumesAttached`; devices = mounts = volumes in use according to kubelet | at quiescence |
//! | I5 | nothing leaks: cloud volumes, attachments, finalizers, loops, mounts, directories | after everything was deleted |
//! | I6 | bytes synced before a clean unmount are readable afterwards; a volume of a snapshot has the bytes that were synced when the snapshot was requested; no claim gets the bytes of a deleted one | at every event |
//! | I7 | each watch stream is ordered, unique, atomic, reliable, resumable, bookmarked, filtered, and distinguishes creations from changes | at every event of a stream |
//! | I8 | when faults are over, everything converges within 20 minutes; failed calls are repeated after a pause (attaches after longer and longer ones) and reported by Events; no component writes an object without a pause; a step that follows another one comes in time; a node is given up after its grace period | at quiescence, and at every event |
//! | I9 | a volume is staged from the device that its attachment's metadata names, and formatted and mounted as and where its StorageClass, its PersistentVolume and its pods request; a read-only PersistentVolume is published so | at every event |
//! | I10 | volumes are created, changed, bound and used as claims, classes, limits, taints and the scheduler request; rollouts and Jobs keep to their numbers of pods | at every event |
//! | I11 | no driver deletes a volume with the reclaim policy Retain, a volume of a running pod, an attached volume, or a snapshot whose content keeps it or is not being deleted; no component removes a claim or a class in use, a bound volume, a pod that was not deleted, a claim whose owner exists, a pod of a Ready node for an out-of-service taint, a pod of an untainted node by eviction, or a pod that tolerates the taints of its node for longer; an eviction spends a disruption of its budget; the source of a snapshot is free when the last snapshot goes | at every event |
//! | I12 | at the end each object, and the volume of each claim and pod, matches its manifest and has the marks of its components; deleted objects are gone | at quiescence |
//! | I13 | each commit of the API server changes only what its request may change, and each get and list shows the stored objects | at every commit and answer |
//!
//! A forced detach is legitimate if, at that moment, the stored Node has the out-of-service taint, or is not Ready and
//! upstream's six minutes have passed since the last pod stopped wanting the volume on that node. It allows only the
//! detach of that volume from that node, until the volume is staged there again.
//!
//! Each invariant counts the occasions on which it could have been broken ([`Checked`]): a run without occasions proves
//! nothing about it. The checkers are pure: their only input is typed events of the trace. `crate::model` folds them once
//! to the state of the run, and each checker keeps only the history of its own rule. `staleness` knows what the caches of
//! control loops may have, `attribution` and `orphaned_*` distinguish causes. Each invariant has its own file.

mod at_end;
mod attribution;
mod checked;
mod converge;
pub mod declared;
mod found;
mod i10_changed;
mod i10_cloud;
mod i10_placement;
mod i10_recreate;
mod i10_replicas;
mod i10_scheduled;
mod i10_taints;
mod i11_collected;
mod i11_evictions;
mod i11_lifetimes;
mod i11_snapshots;
mod i11_sources;
pub(crate) mod i12_as_asked;
mod i13_api;
mod i1_one_attachment;
mod i1_one_writer;
mod i2_detach_after_unstage;
mod i2_teardown;
mod i2_unmount_after_stop;
mod i3_deleted;
mod i3_detached;
mod i3_in_use;
mod i3_leaders;
mod i3_order;
mod i3_ordinals;
mod i3_reported;
mod i3_states;
mod i3_succeeded;
mod i4_agreement;
mod i5_nothing_leaks;
mod i6_durable_bytes;
mod i6_released;
mod i7_streams;
mod i8_delays;
mod i8_heartbeats;
mod i8_idle;
mod i8_pace;
mod i8_surfaced;
mod i8_writes;
mod i9_devices;
mod i9_mounts;
mod i9_targets;
mod missing;
mod orphaned_stagings;
mod orphaned_volumes;
mod parameters;
mod quiescence;
mod stale_reads;
mod staleness;
mod symptom;
mod violation;

pub use crate::spec::Id;
pub use checked::Checked;
pub use converge::Pending;
pub use i4_agreement::{Disagreement, Machines, Made};
pub use i5_nothing_leaks::Leftovers;
pub(crate) use i12_as_asked::AppliedObjects;
pub use i12_as_asked::{Difference, StoredObjects};
pub use missing::Missing;
pub use symptom::Symptom;
pub use violation::Violation;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::time::Duration;

use controllers::events::Detach;
use fake_apiserver::events::Reset;
use substrate::Event;
use substrate::clock::TimeScale;
use substrate::events::{ProcessFailed, ProcessPanicked};
use tokio::sync::Notify;

use crate::model::RunModel;
use found::Found;

/// Maximum number of kept violations: one bug can break an invariant at every later event.
const KEPT: usize = 50;
/// Name of the rule that no component of Mooring panics or fails to start.
const BREAKS: &str = "no component breaks";

/// All invariants of a run. Feed it every event in order; readers of violations may share it.
#[derive(Debug, Default)]
pub struct Invariants {
    state: Mutex<State>,
    /// Notified when a component writes without a pause: the run would never end.
    spins: Notify,
}

#[derive(Debug, Default)]
struct State {
    model: RunModel,
    attribution: attribution::Attribution,
    staleness: staleness::Staleness,
    orphaned_stagings: orphaned_stagings::OrphanedStagings,
    orphaned_volumes: orphaned_volumes::OrphanedVolumes,
    last_acts: missing::Last,
    checked: Checked,
    one_writer: i1_one_writer::OneWriter,
    one_attachment: i1_one_attachment::OneAttachment,
    detach_after_unstage: i2_detach_after_unstage::DetachAfterUnstage,
    order: i3_order::Order,
    unmount_after_stop: i2_unmount_after_stop::UnmountAfterStop,
    leaders: i3_leaders::Leaders,
    durable_bytes: i6_durable_bytes::DurableBytes,
    released: i6_released::Released,
    streams: i7_streams::Streams,
    devices: i9_devices::Devices,
    lifetimes: i11_lifetimes::Lifetimes,
    teardown: i2_teardown::Teardown,
    in_use: i3_in_use::InUse,
    pace: i8_pace::Pace,
    writes: i8_writes::Writes,
    surfaced: i8_surfaced::Surfaced,
    delays: i8_delays::Delays,
    heartbeats: i8_heartbeats::Heartbeats,
    idle: i8_idle::Idle,
    deleted: i3_deleted::Deleted,
    targets: i9_targets::Targets,
    scheduled: i10_scheduled::Scheduled,
    taints: i10_taints::Taints,
    collected: i11_collected::Collected,
    states: i3_states::States,
    ordinals: i3_ordinals::Ordinals,
    cloud: i10_cloud::Cloud,
    replicas: i10_replicas::Replicas,
    recreate: i10_recreate::Recreate,
    evictions: i11_evictions::Evictions,
    snapshots: i11_snapshots::Snapshots,
    sources: i11_sources::Sources,
    present: i12_as_asked::Present,
    contract: i13_api::Contract,
    succeeded: i3_succeeded::Succeeded,
    /// True if events come from several OS processes: events of the same millisecond may be out of order.
    is_mixed: bool,
    /// True if the machine determines the time of each step.
    is_live: bool,
    violations: Vec<Violation>,
    total: usize,
    last: Option<(u64, u64, String)>,
}

impl Invariants {
    /// Creates the invariants of a run without events, whose loops divide their waits by `scale`.
    pub fn new(scale: TimeScale) -> Self {
        let mut state = State::default();
        state.model.scale = scale;
        state.staleness = staleness::Staleness::new(scale);
        Self { state: Mutex::new(state), spins: Notify::new() }
    }

    /// Sets the time without a heartbeat after which node-lifecycle gives up a node (`node-monitor-grace-period`).
    pub fn set_monitor_grace(&self, grace: Duration) {
        self.state().heartbeats.grace = Some(grace);
    }

    /// Records that events come from several OS processes, so that events of two of them at one moment are not
    /// compared.
    pub fn are_mixed(&self) {
        self.state().is_mixed = true;
    }

    /// Records that the run is live, so that the machine determines the time of each step.
    pub fn are_live(&self) {
        self.state().is_live = true;
    }

    /// Records the next event, checks the invariants that apply to every event, and checks that no component failed.
    pub fn observe(&self, event: &Event) {
        let state = &mut *self.state();
        let State {
            model,
            attribution,
            staleness,
            orphaned_stagings,
            orphaned_volumes,
            last_acts,
            checked,
            one_writer,
            one_attachment,
            detach_after_unstage,
            order,
            unmount_after_stop,
            leaders,
            durable_bytes,
            released,
            streams,
            devices,
            lifetimes,
            teardown,
            in_use,
            pace,
            writes,
            surfaced,
            delays,
            heartbeats,
            idle,
            deleted,
            targets,
            scheduled,
            taints,
            collected,
            states,
            ordinals,
            cloud,
            replicas,
            recreate,
            evictions,
            snapshots,
            sources,
            present,
            contract,
            succeeded,
            is_mixed,
            is_live,
            ..
        } = state;
        if contract.sees(event) {
            snapshots.learn(event);
            let late = if *is_live { None } else { delays.check(model, checked, event) };
            let (reported, found) = (succeeded.check(event), contract.check(event, checked));
            state.at(event, Id::I8, late);
            state.at(event, Id::I3, reported);
            return state.at(event, Id::I13, found);
        }
        staleness.observe(event, |instance| model.name(instance).to_owned());
        model.observe(event);
        orphaned_volumes.observe(&model.calls, event);
        if streams.sees(event) {
            let found = streams.check(event, checked);
            return state.at(event, Id::I7, found);
        }
        let i11 = lifetimes.check(model, checked, event);
        model.note_left(event);
        // The write may follow the decision after some seconds.
        let moments = [event.ms, event.ms.saturating_sub(30_000)];
        model.note_report(|node, volume| moments.iter().any(|ms| staleness.may_lack_volume(node, volume, *ms)));
        if let Some(detach) = event.get::<Detach>() {
            let unready = staleness.may_cache_unready(&detach.node, event.ms);
            model.note_cache(detach, staleness.may_cache_taint(&detach.node, event.ms), unready);
            let lacks = staleness.may_lack_volume(&detach.node, &detach.volume, event.ms);
            model.note_listed(detach, lacks);
        }
        let former_claim = |claim: &str| staleness.may_schedule_by_former_claim(claim, event.ms);
        attribution.observe(model, event, former_claim);
        orphaned_stagings.observe(model, event);
        last_acts.observe(event);
        let i1 = one_writer.check(model, checked, event);
        let compares = !*is_mixed;
        let attaches = one_attachment
            .check(model, event, |node, volume| staleness.may_lack_use(node, volume, event.ms))
            .filter(|_| compares);
        let former = |pv: &str, node: &str| staleness.may_have_former_attachment(pv, node, event.ms);
        let unreported = |volume: &str, node: &str| in_use.is_unreported(model.scale, volume, node, event.ms);
        let i2 = detach_after_unstage.check(model, checked, event, former, unreported);
        let i3 = order.check(model, checked, event, former);
        let unmounts = unmount_after_stop.check(model, event).filter(|_| compares);
        let detached = compares.then(|| i3_detached::check(model, event)).flatten();
        let leads = leaders.check(model.scale, event);
        let i6 = durable_bytes.check(checked, event);
        let claims = released.check(event, |claim| staleness.may_have_former_claim(claim, event.ms));
        let i9 = devices.check(model, checked, event);
        // These two compare events of two processes at one moment.
        let mounts =
            i9_mounts::check(model, checked, event).filter(|found| compares || found.operation != "NodeExpandVolume");
        let i10 = i10_placement::check(model, checked, event)
            .filter(|found| compares || found.operation != "NodePublishVolume");
        let apart = [
            (Id::I2, teardown.check(model, event)),
            (Id::I3, in_use.check(model, event, |node, volume| staleness.kubelet_may_list(node, volume, event.ms))),
            (Id::I3, deleted.check(model, event)),
            (Id::I3, i3_reported::check(model, checked, event, |node, v| staleness.may_lack_volume(node, v, event.ms))),
            (Id::I9, targets.check(model, checked, event)),
            (Id::I10, i10_changed::check(model, checked, event)),
        ];
        let apart = apart.map(|(id, found)| (id, found.filter(|_| compares)));
        let waits = pace.check(model, model.scale, event);
        let spins = writes.check(model.scale, event);
        if spins.is_some() {
            self.spins.notify_one();
        }
        surfaced.observe(model, checked, event);
        idle.observe(event);
        let late = if *is_live { None } else { delays.check(model, checked, event) };
        let lost = heartbeats.check(model, event);
        let placed = scheduled.check(model, checked, event);
        let placed = placed.filter(|found| compares || found.operation != "AttachVolume");
        let tainted = taints.check(model, checked, event);
        let may_evict = |node: &str| staleness.may_evict(node, event.ms);
        let collects = collected.check(model, checked, event, may_evict);
        let evicts = collected.late(model, event).filter(|_| !*is_live && delays.judges(event.ms));
        let of_cloud = [(Id::I3, states.check(checked, event)), (Id::I10, cloud.check(model, checked, event))];
        let of_workloads = [
            (Id::I3, ordinals.check(checked, event)),
            (Id::I10, replicas.check(checked, event)),
            (Id::I10, recreate.check(checked, event)),
            (Id::I11, evictions.check(checked, event)),
            (Id::I11, snapshots.check(checked, event)),
        ];
        let is_unseen = |claim: &str| staleness.may_lack_finalizer(claim, event.ms);
        let volume_of = |claim: &str| model.objects.handle_of_claim(claim).map(str::to_owned);
        let released = sources.check(checked, event, is_unseen, volume_of);
        present.observe(model, event);
        streams.learn(event, checked);
        contract.learn(event);
        succeeded.learn(event);
        if event.is::<Reset>() {
            // All objects are gone, and the nodes restart.
            return state.forget();
        }
        for (id, found) in [
            (Id::I1, i1),
            (Id::I1, attaches),
            (Id::I2, i2),
            (Id::I2, unmounts),
            (Id::I3, i3),
            (Id::I3, detached),
            (Id::I3, leads),
            (Id::I6, i6),
            (Id::I6, claims),
            (Id::I9, i9),
            (Id::I9, mounts),
            (Id::I8, waits),
            (Id::I8, spins),
            (Id::I8, late),
            (Id::I8, evicts),
            (Id::I8, lost),
            (Id::I10, i10),
            (Id::I10, placed),
            (Id::I10, tainted),
            (Id::I11, i11),
            (Id::I11, collects),
            (Id::I11, released),
        ]
        .into_iter()
        .chain(apart)
        .chain(of_cloud)
        .chain(of_workloads)
        {
            state.at(event, id, found);
        }
        if let Some(message) = broken(event) {
            let found = Found { message, operation: event.kind().to_owned(), ..Found::default() };
            state.add(event.ms, event.n, &event.process, BREAKS, found);
        }
        state.last = Some((event.ms, event.n, String::new()));
    }

    /// Completes when a component has written without a pause, so that waiting for the end of the run is useless.
    pub(crate) async fn spins(&self) {
        self.spins.notified().await;
    }

    /// Returns true if a violation was found.
    pub(crate) fn has_violations(&self) -> bool {
        !self.state().violations.is_empty()
    }

    /// Returns true if a cloud volume stays when everything is deleted, because the last version of its
    /// PersistentVolume keeps it.
    pub fn keeps(&self, volume: &str) -> bool {
        self.state().model.is_kept(volume)
    }

    /// Returns the volume of an object, a mount, a directory or a device, as a report or a step names it.
    pub fn volume_of(&self, thing: &str) -> Option<String> {
        let state = self.state();
        state.attribution.volume_of(&state.model, thing)
    }

    /// Returns the violations so far, oldest first; at most the first 50.
    pub fn violations(&self) -> Vec<Violation> {
        self.state().violations.clone()
    }

    /// Returns the number of all violations, including those that [`Invariants::violations`] does not keep.
    pub fn total(&self) -> usize {
        self.state().total
    }

    /// Returns the number of occasions on which each invariant was checked.
    pub fn checked(&self) -> Checked {
        self.state().checked.clone()
    }

    /// Starts all counts again, after a reset of the whole cluster.
    pub fn restart(&self) {
        let mut state = self.state();
        (state.checked, state.violations, state.total) = (Checked::default(), Vec::new(), 0);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Returns the reason if a component panicked or could not start, which is always a bug of Mooring.
fn broken(event: &Event) -> Option<String> {
    let panicked = event.get::<ProcessPanicked>().map(|reported| ("panicked", &reported.error));
    let (what, error) =
        panicked.or_else(|| event.get::<ProcessFailed>().map(|reported| ("failed", &reported.error)))?;
    Some(format!("{} {what}: {error}", event.process))
}

impl State {
    /// Forgets everything except the nodes.
    fn forget(&mut self) {
        self.model = self.model.of_a_reset();
        self.attribution = attribution::Attribution::default();
        self.staleness = staleness::Staleness::new(self.model.scale);
        self.last_acts = missing::Last::default();
        (
            self.one_writer,
            self.detach_after_unstage,
            self.unmount_after_stop,
            self.leaders,
            self.durable_bytes,
            self.released,
            self.lifetimes,
            self.present,
        ) = Default::default();
        (self.teardown, self.in_use, self.pace, self.targets, self.scheduled, self.collected) = Default::default();
        (self.ordinals, self.replicas, self.recreate, self.evictions, self.taints) = Default::default();
        (self.snapshots, self.sources, self.succeeded) = Default::default();
        self.surfaced = i8_surfaced::Surfaced::default();
        self.heartbeats.forget();
        self.delays = i8_delays::Delays::default();
        (self.writes, self.deleted) = Default::default();
    }

    fn at(&mut self, event: &Event, id: Id, found: Option<Found>) {
        if let Some(found) = found {
            self.add(event.ms, event.n, &event.process, id.name(), found);
        }
    }

    fn add(&mut self, ms: u64, n: u64, process: &str, id: &'static str, found: Found) {
        self.total += 1;
        if self.violations.len() < KEPT {
            let Found { message, operation, volume, node, mut details } = found;
            if let Some(volume) = &volume {
                details.extend(self.attribution.details(volume, node.as_deref()));
            }
            let process = process.to_owned();
            self.violations.push(Violation {
                id,
                message,
                ms,
                n,
                process,
                operation,
                volume,
                node,
                details,
                symptom: None,
                missing: None,
                left: BTreeMap::new(),
                declared: None,
            });
        }
    }
}
