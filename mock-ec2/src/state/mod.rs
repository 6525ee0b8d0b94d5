//! The cloud as a pure state machine: no IO, no ambient time, no ambient randomness.
//!
//! Each call passes the time. [`State::apply`] first performs all transitions that are due, so a read sees them
//! independently of the order of tasks. Durations and ids are drawn from named children of one seed: each draw is named
//! by its purpose, so one more request changes no other draw.

pub mod account;
pub mod admin_actions;
pub mod assembly;
pub mod attributes;
pub mod changed;
pub mod client_token;
pub mod code;
pub mod command;
pub mod device;
pub mod error;
pub mod event;
pub mod filter;
pub mod groups;
pub mod ids;
pub mod image;
pub mod images;
pub mod instance;
pub mod instance_types;
pub mod keys;
pub mod kinds;
pub mod latency;
pub mod listing;
pub mod modification;
pub mod network;
pub mod opening;
pub mod options;
pub mod own_network;
pub mod page;
pub mod parameters;
pub mod patch;
pub mod public_access;
pub mod recycle;
pub mod replace_root;
pub mod reply;
pub mod reservation;
pub mod resource_errors;
pub mod saved;
pub mod seeded_bugs;
pub mod sharing;
pub mod snapshot;
pub mod spec;
pub mod switches;
pub mod table;
pub mod throttle;
pub mod tier;
pub mod timers;
pub mod volume;
pub mod zone;

mod assembling;
mod attach;
mod bin_requests;
mod block_requests;
mod describe;
mod encryption;
mod entries;
mod group_requests;
mod image_requests;
mod instances;
mod launch;
mod lists;
mod modify;
mod network_requests;
mod notes;
mod own_key;
mod planted;
mod power;
mod public_images;
mod region_names;
mod root_replacement;
mod saving;
mod snapshot_sharing;
mod snapshots;
mod status;
mod tags;
mod tier_requests;
mod times;
mod volumes;

pub(crate) use entries::{lock_fields, no_launch_template};
pub(crate) use region_names::{opt_in_status, zone_group, zone_group_in_words};
pub(crate) use status::{disks_word, instance_word, reachability, volume_words};
pub(crate) use times::{seconds, time};

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use substrate::{Now, Seed, TimeScale};

use account::Account;
use client_token::ClientTokens;
use command::{Action, Command, CopyVolumes, CreateVolume, Reply, RunInstances, Stick};
use error::{Ec2Error, Missing};
use event::Event;
use ids::{InstanceId, VolumeId};
use instance::Instance;
use latency::{LatencyProfile, LatencyRule, Operation};
use saved::{Made, Rest};
use seeded_bugs::{Lingering, SeededBugs};
use snapshot::Snapshot;
use spec::InstanceSpec;
use switches::Switches;
use table::Table;
use timers::{Progress, Subject, Timers};
use volume::Volume;
use zone::Zone;

pub use volumes::{NewVolume, Source};

/// Settings that do not change while the machine runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The region.
    pub region: String,
    /// All served regions, including this one.
    pub regions: Vec<String>,
    /// The account.
    pub account_id: String,
    /// The zones; at least one.
    pub zones: Vec<Zone>,
    /// Latency profile.
    pub latency: LatencyProfile,
    /// Exceptions to the profile; the first that applies decides.
    pub latency_rules: Vec<LatencyRule>,
}

impl Settings {
    /// Returns true if every transition ends at the next call, regardless of the time.
    pub fn settles_at_once(&self) -> bool {
        self.latency.settles_at_once() && self.latency_rules.is_empty()
    }
}

/// State of the cloud.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    settings: Settings,
    seed: Seed,
    scale: TimeScale,
    switches: Switches,
    volumes: Table<Volume>,
    snapshots: Table<Snapshot>,
    instances: Table<Instance>,
    volume_tokens: ClientTokens<CreateVolume, VolumeId>,
    copy_tokens: ClientTokens<CopyVolumes, VolumeId>,
    instance_tokens: ClientTokens<RunInstances, Vec<InstanceId>>,
    /// Transitions; `instant` ends them at the next call.
    timers: Timers,
    /// Entries with an expiry, independent of the latency.
    memories: Timers,
    /// Transitions held by a fault, by the fault's name.
    stuck: Vec<(String, Subject)>,
    /// Numbers of volumes, instances and reservations made so far; they name the draws of ids.
    made: Made,
    account: Account,
    events: Vec<Event>,
    seeded_bugs: SeededBugs,
    lingering: Lingering,
    /// Last saved state outside the tables; None if the state is not saved.
    recorded: Option<(Made, Rest)>,
}

impl State {
    /// Creates a cloud with the instances of `specs`, all running.
    ///
    /// # Errors
    /// The invalid field of the list, and the reason.
    pub fn new(settings: Settings, seed: Seed, specs: &[InstanceSpec]) -> Result<Self, (String, String)> {
        let mut state = Self {
            settings,
            seed,
            scale: TimeScale::default(),
            switches: Switches::default(),
            volumes: Table::default(),
            snapshots: Table::default(),
            instances: Table::default(),
            volume_tokens: ClientTokens::default(),
            copy_tokens: ClientTokens::default(),
            instance_tokens: ClientTokens::default(),
            timers: Timers::default(),
            memories: Timers::default(),
            stuck: Vec::new(),
            made: Made::default(),
            account: Account::default(),
            events: Vec::new(),
            seeded_bugs: SeededBugs::default(),
            lingering: Lingering::new(),
            recorded: None,
        };
        state.seed_instances(specs)?;
        Ok(state)
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets the time scale, and sets `wall` as the time of objects that were created without a clock.
    pub fn power_on(&mut self, scale: TimeScale, wall: Timestamp) {
        self.scale = scale;
        for instance in self.instances.select_mut(|i| i.launch_time == Timestamp::UNIX_EPOCH) {
            Arc::make_mut(instance).launch_time = wall;
        }
        for volume in self.volumes.select_mut(|v| v.create_time == Timestamp::UNIX_EPOCH) {
            let volume = Arc::make_mut(volume);
            volume.create_time = wall;
            volume.attachments.values_mut().for_each(|a| a.attach_time = wall);
        }
    }

    /// Performs `command`.
    ///
    /// # Errors
    /// Those of EC2. The state is then unchanged, except for due transitions.
    pub fn apply(&mut self, now: Now, command: &Command) -> Result<Reply, Ec2Error> {
        self.catch_up(now);
        let Command { action, dry_run, stick } = command;
        let call = Call { now, dry_run: *dry_run, stick: stick.as_ref() };
        match action {
            Action::AttachVolume(a) => self.attach_volume(call, a),
            Action::CopySnapshot(c) => self.copy_snapshot(call, c),
            Action::CopyVolumes(c) => self.copy_volumes(call, c),
            Action::CreateSnapshot(c) => self.create_snapshot(call, c),
            Action::CreateSnapshots(c) => self.create_snapshots(call, c),
            Action::CreateTags(c) => self.create_tags(call, c),
            Action::CreateVolume(c) => self.create_volume(call, c),
            Action::DeleteSnapshot(snapshot) => self.delete_snapshot(call, snapshot),
            Action::DeleteTags(d) => self.delete_tags(call, d),
            Action::DeleteVolume(volume) => self.delete_volume(call, volume),
            Action::DescribeInstanceAttribute(d) => call.read(self.describe_instance_attribute(d)),
            Action::DescribeSnapshotAttribute(id, a) => call.read(self.describe_snapshot_attribute(id, *a)),
            Action::DescribeVpcAttribute(id, attribute) => call.read(self.describe_vpc_attribute(id, attribute)),
            Action::DisableFastSnapshotRestores(d) => self.fast_restores(call, d, Self::disable_fast_restore),
            Action::EnableVolumeIo(volume) => self.enable_volume_io(call, volume),
            Action::Encryption(e) => self.encryption(call, e),
            Action::GetCallerIdentity => call.read(Ok(self.caller_identity())),
            Action::Image(i) => self.image_request(call, i),
            Action::Group(g) => self.group_request(call, g),
            Action::Key(k) => self.key_request(call, k),
            Action::Network(n) => self.network_request(call, n),
            Action::PublicAccess(b) => self.block_request(call, *b),
            Action::ReplaceRoot(r) => self.replace_root(call, r),
            Action::Restore(r) => self.restore_request(call, r),
            Action::List(l) => call.read(self.list(now, l)),
            Action::ModifyInstanceAttribute(m) => self.modify_instance_attribute(call, m),
            Action::ModifyInstanceMetadataOptions(id, m) => self.modify_metadata_options(call, id, m),
            Action::ModifySnapshotAttribute(m) => self.modify_snapshot_attribute(call, m),
            Action::ModifySnapshotTier(id, tier) => self.modify_snapshot_tier(call, id, tier.as_deref()),
            Action::MonitorInstances(ids) => self.monitor(call, ids, true),
            Action::ResetSnapshotAttribute(id) => self.reset_snapshot_attribute(call, id),
            Action::RestoreSnapshotTier(r) => self.restore_snapshot_tier(call, r),
            Action::UnlockSnapshot(id) => self.unlock_snapshot(call, id),
            Action::UnmonitorInstances(ids) => self.monitor(call, ids, false),
            Action::DescribeAvailabilityZones(d) => call.read(self.describe_availability_zones(d)),
            Action::DescribeInstances(d) => call.read(self.describe_instances(d)),
            Action::DescribeInstanceStatus(d) => call.read(self.describe_instance_status(d)),
            Action::DescribeInstanceTypes(d) => call.read(self.describe_instance_types(d)),
            Action::DescribeRegions(d) => call.read(self.describe_regions(d)),
            Action::DescribeSnapshots(d) => call.read(self.describe_snapshots(now, d)),
            Action::DescribeTags(d) => call.read(self.describe_tags(d)),
            Action::DescribeVolumeAttribute(d) => call.read(self.describe_volume_attribute(d)),
            Action::DescribeVolumeStatus(d) => call.read(self.describe_volume_status(now, d)),
            Action::DescribeVolumes(d) => call.read(self.describe_volumes(d)),
            Action::DescribeVolumesModifications(d) => call.read(self.describe_volumes_modifications(now, d)),
            Action::DetachVolume(d) => self.detach_volume(call, d),
            Action::EnableFastSnapshotRestores(e) => self.fast_restores(call, e, Self::enable_fast_restore),
            Action::LockSnapshot(l) => self.lock_snapshot(call, l),
            Action::ModifyVolume(m) => self.modify_volume(call, m),
            Action::ModifyVolumeAttribute(m) => self.modify_volume_attribute(call, m),
            Action::RebootInstances(ids) => self.reboot_instances(call, ids),
            Action::RunInstances(r) => self.run_instances(call, r),
            Action::StartInstances(ids) => self.start_instances(call, ids),
            Action::StopInstances(s) => self.stop_instances(call, s),
            Action::TerminateInstances(ids) => self.terminate_instances(call, ids),
        }
    }

    /// Performs all due transitions before a command; with `instant`, all that are under way.
    pub fn catch_up(&mut self, now: Now) {
        self.advance(now, if self.settings.settles_at_once() { Duration::MAX } else { now.mono });
    }

    /// Stops all timers: the state becomes a snapshot.
    pub(crate) fn freeze(&mut self) {
        self.timers = Timers::default();
        self.memories = Timers::default();
    }

    /// Returns the time of the next transition, as monotonic time.
    pub fn next_deadline(&self) -> Option<Duration> {
        [self.timers.next(), self.memories.next()].into_iter().flatten().min()
    }

    /// Returns the switches.
    pub fn switches(&self) -> &Switches {
        &self.switches
    }

    /// Sets the switches.
    pub fn set_switches(&mut self, switches: Switches) {
        self.switches = switches;
    }

    /// Performs all transitions that are due at `now`, and takes all events.
    pub fn tick(&mut self, now: Now) -> Vec<Event> {
        self.advance(now, now.mono);
        self.take_events()
    }

    /// Takes the events since the last call, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Releases the transitions held by a fault that is no longer active.
    pub fn release_stuck(&mut self, now: Now, in_force: impl Fn(&str) -> bool) {
        let (kept, released) = std::mem::take(&mut self.stuck).into_iter().partition(|(fault, _)| in_force(fault));
        self.stuck = kept;
        let released: Vec<(String, Subject)> = released;
        for (fault, subject) in released {
            let Some(progress) = self.progress(&subject) else { continue };
            if *progress == Progress::Stuck(fault) {
                let until = Progress::Until(self.timers.set(now.mono, subject.clone()));
                if let Some(progress) = self.progress(&subject) {
                    *progress = until;
                }
            }
        }
    }

    /// Returns the faults that hold transitions.
    pub fn stuck_by(&self) -> BTreeSet<String> {
        self.stuck.iter().map(|(fault, _)| fault.clone()).collect()
    }

    /// Returns all volumes, in the order of ids.
    pub fn volumes(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.volumes.values()
    }

    /// Returns all instances, in launch order.
    pub fn instances(&self) -> Vec<&Arc<Instance>> {
        let mut all: Vec<_> = self.instances.values().collect();
        all.sort_by_key(|i| i.ordinal);
        all
    }

    /// Returns the instance `id`.
    ///
    /// # Errors
    /// `InvalidInstanceID.NotFound`.
    pub fn instance(&self, id: &InstanceId) -> Result<&Arc<Instance>, Ec2Error> {
        self.instances.get(id).ok_or_else(|| Ec2Error::InstanceNotFound(Missing(vec![id.to_string()])))
    }

    /// Returns the volume `id`.
    ///
    /// # Errors
    /// `InvalidVolume.NotFound`.
    pub fn volume(&self, id: &VolumeId) -> Result<&Arc<Volume>, Ec2Error> {
        self.volumes.get(id).ok_or_else(|| Ec2Error::VolumeNotFound(Missing(vec![id.to_string()])))
    }

    fn advance(&mut self, now: Now, until: Duration) {
        self.empty_bin(now);
        while let Some((due, subject)) = self.timers.pop(until) {
            // A transition that follows starts at this end, not at the time of the call.
            let then = Now { mono: now.mono.min(due), ..now };
            match subject {
                Subject::Volume(volume) => self.end_volume_transition(then, &volume),
                Subject::Attachment(volume, instance) => {
                    self.end_attachment_transition(then.mono, &volume, &instance);
                }
                Subject::Instance(instance) => self.end_instance_transition(then, &instance),
                Subject::Modification(volume) => self.end_modification_transition(then, &volume),
                Subject::Snapshot(snapshot) => self.end_snapshot_transition(then, &snapshot),
                Subject::Tier(snapshot) => self.end_tiering(then, &snapshot),
                Subject::FastRestore(snapshot, zone) => self.end_fast_restore_stage(then, &snapshot, &zone),
                Subject::Forget(instance) => self.forget_instance(&instance),
            }
        }
        while let Some((_, subject)) = self.memories.pop(now.mono) {
            match subject {
                Subject::Forget(instance) => self.forget_instance(&instance),
                Subject::Snapshot(snapshot) => self.end_assembly(now, &snapshot),
                _ => {}
            }
        }
    }

    /// Starts a transition of `subject`. It lasts one draw of `operation`, or until a fault releases it.
    fn begin(&mut self, call: Call<'_>, operation: Operation, draw: fmt::Arguments<'_>, subject: Subject) -> Progress {
        if let Some(Stick { fault, .. }) = call.stick {
            self.stuck.push((fault.clone(), subject));
            return Progress::Stuck(fault.clone());
        }
        let lasting = self.duration(operation, draw, || self.types(&subject));
        Progress::Until(self.timers.set(call.now.mono + lasting, subject))
    }

    /// Draws the duration of one `operation` on these types of volume and instance.
    fn duration<'a>(
        &self,
        operation: Operation,
        draw: fmt::Arguments<'_>,
        types: impl FnOnce() -> (Option<&'a str>, Option<&'a str>),
    ) -> Duration {
        let Settings { latency, latency_rules, .. } = &self.settings;
        if self.settings.settles_at_once() {
            return latency::INSTANT;
        }
        let types = types();
        let seed = || self.seed.child("latency").child(&draw.to_string());
        match latency_rules.iter().find(|rule| rule.fits(operation, types.0, types.1)) {
            Some(rule) => self.scale.apply(rule.draw(&seed())),
            None if latency.settles_at_once() => latency::INSTANT,
            None => self.scale.apply(latency.draw(operation, &seed())),
        }
    }

    /// Returns the types of volume and instance of `subject`.
    fn types(&self, subject: &Subject) -> (Option<&str>, Option<&str>) {
        let volume = |id: &VolumeId| self.volumes.get(id).map(|v| v.volume_type.as_str());
        let instance = |id: &InstanceId| self.instances.get(id).map(|i| i.instance_type.as_str());
        match subject {
            Subject::Volume(v) | Subject::Modification(v) => (volume(v), None),
            Subject::Attachment(v, i) => (volume(v), instance(i)),
            Subject::Instance(i) | Subject::Forget(i) => (None, instance(i)),
            Subject::Snapshot(_) | Subject::Tier(_) | Subject::FastRestore(..) => (None, None),
        }
    }

    fn progress(&mut self, subject: &Subject) -> Option<&mut Progress> {
        match subject {
            Subject::Volume(volume) => self.volumes.get_mut(volume).map(|v| &mut Arc::make_mut(v).progress),
            Subject::Attachment(volume, instance) => {
                let volume = Arc::make_mut(self.volumes.get_mut(volume)?);
                volume.attachments.get_mut(instance).map(|a| &mut a.progress)
            }
            Subject::Instance(instance) => self.instances.get_mut(instance).map(|i| &mut Arc::make_mut(i).progress),
            Subject::Modification(volume) => {
                Arc::make_mut(self.volumes.get_mut(volume)?).modification.as_mut().map(|m| &mut m.progress)
            }
            Subject::Snapshot(snapshot) => self.snapshots.get_mut(snapshot).map(|s| &mut Arc::make_mut(s).progress),
            Subject::Tier(snapshot) => self.snapshots.get_mut(snapshot).map(|s| &mut Arc::make_mut(s).tier.progress),
            Subject::FastRestore(snapshot, zone) => {
                let snapshot = Arc::make_mut(self.snapshots.get_mut(snapshot)?);
                snapshot.fast_restores.get_mut(zone).map(|f| &mut f.progress)
            }
            Subject::Forget(_) => None,
        }
    }
}

/// Arguments of every action besides its parameters.
#[derive(Clone, Copy)]
struct Call<'a> {
    now: Now,
    dry_run: bool,
    stick: Option<&'a Stick>,
}

impl Call<'_> {
    /// Returns a call of the machine itself at `mono`.
    fn at(mono: Duration) -> Self {
        Self { now: Now::at(mono), dry_run: false, stick: None }
    }

    /// Ends a dry run. Called after all checks and before any change.
    fn check_dry_run(self) -> Result<(), Ec2Error> {
        if self.dry_run { Err(Ec2Error::DryRun) } else { Ok(()) }
    }

    /// Returns the answer of an action that changes nothing.
    fn read(self, reply: Result<Reply, Ec2Error>) -> Result<Reply, Ec2Error> {
        let reply = reply?;
        self.check_dry_run()?;
        Ok(reply)
    }
}
