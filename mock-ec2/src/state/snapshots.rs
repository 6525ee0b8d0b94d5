//! The actions on snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use substrate::{Now, ids as make_id};

use super::code::Code;
use super::command::{
    CopySnapshot, CreateSnapshot, CreateSnapshots, DescribeSnapshots, EnableFastSnapshotRestores, FastRestoreReply,
    LockSnapshot, Reply, SnapshotReply,
};
use super::describe::flag;
use super::error::{Ec2Error, Missing};
use super::filter::{Filter, Filterable, check, matches};
use super::ids::{SnapshotId, VolumeId};
use super::latency::Operation;
use super::listing::{Named, text};
use super::modify::span;
use super::public_access::PublicAccess;
use super::sharing::{Sharing, check_users};
use super::snapshot::{FastRestore, FastRestoreState, LockMode, Snapshot, SnapshotLock, SnapshotState};
use super::tags::check_tags;
use super::tier::Tier;
use super::timers::{Progress, Subject};
use super::times::time;
use super::volume::{Volume, VolumeState};
use super::{Call, State};

/// Largest number of `pending` snapshots of one volume (EBS quotas).
const MOST_PENDING: usize = 5;
/// Longest description.
const LONGEST: usize = 255;

impl State {
    pub(super) fn create_snapshot(&mut self, call: Call<'_>, request: &CreateSnapshot) -> Result<Reply, Ec2Error> {
        let volume = self.volume(&request.volume)?.clone();
        self.check_snapshot(call, &volume)?;
        check_description(&request.description)?;
        check_tags(&BTreeMap::new(), &request.tags)?;
        self.check_snapshot_quota(1)?;
        call.check_dry_run()?;
        let tags = if self.seeded_bugs.drops_snapshot_tags { BTreeMap::new() } else { request.tags.clone() };
        let snapshot = self.make_snapshot(call, &volume, &request.description, tags);
        Ok(Reply::Snapshot(SnapshotReply { snapshot, percent: 0 }))
    }

    pub(super) fn create_snapshots(&mut self, call: Call<'_>, request: &CreateSnapshots) -> Result<Reply, Ec2Error> {
        let slots = &self.instance(&request.instance)?.slots;
        if let Some(stranger) = request.exclude.iter().find(|id| !slots.values().any(|held| held == *id)) {
            return Err(Ec2Error::NotAttached {
                volume: stranger.clone(),
                instance: request.instance.to_string(),
                device: String::new(),
            });
        }
        let volumes: Vec<Arc<Volume>> = slots
            .values()
            .filter(|id| self.seeded_bugs.snapshots_excluded || !request.exclude.contains(id))
            .filter_map(|id| self.volumes.get(id))
            .filter(|v| !(v.root && request.exclude_root))
            .cloned()
            .collect();
        if volumes.is_empty() {
            let text = format!("The instance '{}' has no volume that is not excluded.", request.instance);
            return Err(Ec2Error::InvalidParameterCombination(text));
        }
        check_description(&request.description)?;
        let mut tags = Vec::with_capacity(volumes.len());
        for volume in &volumes {
            self.check_snapshot(call, volume)?;
            let mut own = if request.copy_tags { volume.tags.clone() } else { BTreeMap::new() };
            check_tags(&own, &request.tags)?;
            own.extend(request.tags.clone());
            tags.push(own);
        }
        self.check_snapshot_quota(volumes.len())?;
        call.check_dry_run()?;
        let made = volumes.iter().zip(tags).map(|(volume, tags)| SnapshotReply {
            snapshot: self.make_snapshot(call, volume, &request.description, tags),
            percent: 0,
        });
        Ok(Reply::SnapshotsMade(made.collect()))
    }

    pub(super) fn copy_snapshot(&mut self, call: Call<'_>, request: &CopySnapshot) -> Result<Reply, Ec2Error> {
        let away = request.source_region != self.settings.region;
        let source = match &request.foreign {
            _ if !away => self.snapshot(&request.source)?.clone(),
            Some(foreign) => foreign.clone()?,
            None => {
                let (asked, served) = (&request.source_region, self.settings.regions.join(", "));
                let text = format!("Invalid region: {asked}; served here: {served}.");
                return Err(Ec2Error::InvalidParameterValue(text));
            }
        };
        check_completed(&source, call.now)?;
        check_description(&request.description)?;
        check_tags(&BTreeMap::new(), &request.tags)?;
        let encrypted = source.encrypted || request.encrypted || self.account.encrypts;
        if request.kms_key_id.is_some() && !encrypted {
            let text = "The parameter KmsKeyId requires the parameter Encrypted to be set.";
            return Err(Ec2Error::InvalidParameterDependency(text.to_owned()));
        }
        self.check_snapshot_quota(1)?;
        call.check_dry_run()?;
        let key = request.kms_key_id.as_deref().map(|key| self.key_arn(key));
        // A key is known only in its own region.
        let key = key.or_else(|| source.kms_key_id.clone().filter(|_| !away));
        let mut made = self.new_snapshot(
            call,
            &of_copies(&source.volume),
            source.size_gib,
            &request.description,
            request.tags.clone(),
        );
        if let Some(minutes) =
            request.completion_minutes.filter(|_| !self.settings.settles_at_once() && call.stick.is_none())
        {
            self.timers.cancel(&made.progress);
            let due = call.now.mono + self.scale.apply(Duration::from_secs(minutes * 60));
            made.progress = Progress::Until(self.timers.set(due, Subject::Snapshot(made.id.clone())));
            made.span = (call.now.mono, due);
        }
        let snapshot = Snapshot {
            encrypted,
            kms_key_id: encrypted.then(|| key.unwrap_or_else(|| self.default_key())),
            copied: true,
            completion_minutes: request.completion_minutes,
            ..made
        };
        Ok(Reply::SnapshotCopied(self.add_snapshot(snapshot)))
    }

    pub(super) fn delete_snapshot(&mut self, call: Call<'_>, id: &SnapshotId) -> Result<Reply, Ec2Error> {
        let snapshot = self.snapshot(id)?;
        if snapshot.lock.as_ref().is_some_and(|lock| lock.state(call.now.wall) != "expired") {
            return Err(Ec2Error::SnapshotLocked(id.clone()));
        }
        self.check_unused(id)?;
        call.check_dry_run()?;
        if let Some(gone) = self.snapshots.remove(id) {
            self.timers.cancel(&gone.progress);
            gone.fast_restores.values().for_each(|f| self.timers.cancel(&f.progress));
            // The recycle bin keeps the bytes, so the deletion is not reported yet.
            if !self.recycle_snapshot(call.now.wall, &gone) {
                self.note_snapshot_deleted(&gone);
            }
        }
        Ok(Reply::Done)
    }

    pub(super) fn describe_snapshots(&self, now: Now, request: &DescribeSnapshots) -> Result<Reply, Ec2Error> {
        let page = request.page.check((!request.ids.is_empty()).then_some("snapshotSet"))?;
        check::<SnapshotView<'_>>(&request.filters, true)?;
        check_users(&request.owners, &["self", "amazon", "aws-marketplace"])?;
        check_users(&request.restorable_by, &["self", "all"])?;
        let account = self.settings.account_id.as_str();
        let own = |name: &String| name == "self" || name == account;
        let visible = request.owners.is_empty() || request.owners.iter().any(own);
        let open = self.account.public_access != PublicAccess::BlockAllSharing;
        // The owner may always restore. `all` matches publicly shared snapshots.
        let restorable = |s: &Snapshot| {
            let may = |name: &String| {
                own(name) || if name == "all" { open && s.sharing.everybody } else { s.sharing.allows(name) }
            };
            request.restorable_by.is_empty() || request.restorable_by.iter().any(may)
        };
        let rows = self.snapshots.select(&request.ids, &request.filters, page.after());
        let wanted = rows
            .map_err(Ec2Error::SnapshotNotFound)?
            .filter(|s| visible && restorable(s))
            .filter(|s| matches(&SnapshotView { snapshot: s, state: self, now }, &request.filters))
            .map(|s| SnapshotReply { snapshot: s.clone(), percent: s.percent(now) });
        let (snapshots, next_token) = page.cut(wanted, |s| s.snapshot.id.as_str());
        Ok(Reply::Snapshots { snapshots, next_token })
    }

    /// Applies `one` to each snapshot in each zone of the request, and returns each result.
    pub(super) fn fast_restores(
        &mut self,
        call: Call<'_>,
        request: &EnableFastSnapshotRestores,
        one: fn(&mut Self, Call<'_>, &SnapshotId, &str) -> Result<(), Ec2Error>,
    ) -> Result<Reply, Ec2Error> {
        let named = request.zones.iter().map(|name| self.zone_of(Some(name), None));
        let zones = named.chain(request.zone_ids.iter().map(|id| self.zone_of(None, Some(id))));
        let zones: Vec<String> = zones.collect::<Result<_, _>>()?;
        call.check_dry_run()?;
        let mut replies = Vec::new();
        for id in &request.snapshots {
            for zone in &zones {
                let outcome = match one(self, call, id, zone) {
                    Ok(()) => Ok(self.fast_restore_of(id, zone)),
                    Err(error) => Err((error.code().to_owned(), error.to_string())),
                };
                replies.push(FastRestoreReply { snapshot: id.clone(), zone: zone.clone(), outcome });
            }
        }
        Ok(Reply::FastRestores(replies))
    }

    /// Enables fast restore. The snapshot may be pending: the EBS driver calls this right after CreateSnapshot.
    pub(super) fn enable_fast_restore(&mut self, call: Call<'_>, id: &SnapshotId, zone: &str) -> Result<(), Ec2Error> {
        let there = self.snapshot(id)?.fast_restores.get(zone);
        if there.is_some_and(|f| !matches!(f.state, FastRestoreState::Disabling | FastRestoreState::Disabled)) {
            return Ok(());
        }
        if let Some(old) = there.map(|f| f.progress.clone()) {
            self.timers.cancel(&old);
        }
        let subject = Subject::FastRestore(id.clone(), zone.to_owned());
        let progress =
            self.begin(call, Operation::EnableFastRestore, format_args!("fast restore {id} {zone}"), subject);
        let entry = FastRestore::begun(call.now.wall, progress);
        if let Some(snapshot) = self.snapshots.get_mut(id) {
            Arc::make_mut(snapshot).fast_restores.insert(zone.to_owned(), entry);
        }
        Ok(())
    }

    fn fast_restore_of(&self, id: &SnapshotId, zone: &str) -> Vec<Named> {
        let there = self.snapshots.get(id).and_then(|s| s.fast_restores.get(zone));
        there.map(|restore| self.fast_restore_fields(id, zone, restore)).unwrap_or_default()
    }

    pub(super) fn disable_fast_restore(&mut self, call: Call<'_>, id: &SnapshotId, zone: &str) -> Result<(), Ec2Error> {
        let there = self.snapshot(id)?.fast_restores.get(zone);
        let Some(there) = there.filter(|f| f.state != FastRestoreState::Disabled) else {
            return Err(Ec2Error::Resource {
                code: Code::InvalidParameterValue,
                text: format!("Fast snapshot restore is not enabled for snapshot '{id}' in {zone}."),
            });
        };
        if there.state == FastRestoreState::Disabling {
            return Ok(());
        }
        let old = there.progress.clone();
        self.timers.cancel(&old);
        let subject = Subject::FastRestore(id.clone(), zone.to_owned());
        let draw = format!("fast restore {id} {zone} disabling");
        let progress = self.begin(call, Operation::EnableFastRestore, format_args!("{draw}"), subject);
        if let Some(entry) = self.snapshots.get_mut(id).and_then(|s| Arc::make_mut(s).fast_restores.get_mut(zone)) {
            entry.enter(FastRestoreState::Disabling, call.now.wall, progress);
        }
        Ok(())
    }

    pub(super) fn end_fast_restore_stage(&mut self, now: Now, id: &SnapshotId, zone: &str) {
        let state = self.snapshots.get(id).and_then(|s| s.fast_restores.get(zone)).map(|f| f.state);
        let (state, progress) = match state {
            Some(FastRestoreState::Enabling) => {
                let subject = Subject::FastRestore(id.clone(), zone.to_owned());
                let call = Call { now, dry_run: false, stick: None };
                (
                    FastRestoreState::Optimizing,
                    self.begin(
                        call,
                        Operation::EnableFastRestore,
                        format_args!("fast restore {id} {zone} optimizing"),
                        subject,
                    ),
                )
            }
            Some(FastRestoreState::Disabling | FastRestoreState::Disabled) => {
                (FastRestoreState::Disabled, Progress::Settled)
            }
            Some(_) => (FastRestoreState::Enabled, Progress::Settled),
            None => return,
        };
        if let Some(entry) = self.snapshots.get_mut(id).and_then(|s| Arc::make_mut(s).fast_restores.get_mut(zone)) {
            entry.enter(state, now.wall, progress);
        }
    }

    pub(super) fn lock_snapshot(&mut self, call: Call<'_>, request: &LockSnapshot) -> Result<Reply, Ec2Error> {
        let id = &request.snapshot;
        let old = self.snapshot(id)?.lock.as_ref();
        let lock = new_lock(call.now.wall, request)?;
        // After the cooling-off period of compliance mode, neither the mode nor an earlier end can be set (EC2 API
        // reference, LockSnapshot).
        let longer = |old: &SnapshotLock| {
            let keeps_mode = lock.mode == LockMode::Compliance || self.seeded_bugs.loosens_locks;
            keeps_mode && lock.cool_off_hours.is_none() && lock.expires >= old.expires
        };
        if old.is_some_and(|old| old.state(call.now.wall) == "compliance" && !longer(old)) {
            let text = format!("The lock of snapshot '{id}' can only be made longer.");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        call.check_dry_run()?;
        if let Some(snapshot) = self.snapshots.get_mut(id) {
            Arc::make_mut(snapshot).lock = Some(lock.clone());
        }
        let state = lock.state(call.now.wall);
        Ok(Reply::Lock(id.clone(), lock, state))
    }

    pub(super) fn unlock_snapshot(&mut self, call: Call<'_>, id: &SnapshotId) -> Result<Reply, Ec2Error> {
        let state = self.snapshot(id)?.lock.as_ref().map(|lock| lock.state(call.now.wall));
        match state {
            None | Some("expired") => {
                let text = format!("The snapshot '{id}' is not locked.");
                return Err(Ec2Error::Resource { code: Code::SnapshotLockNotFound, text });
            }
            Some("compliance") => return Err(Ec2Error::SnapshotLocked(id.clone())),
            Some(_) => call.check_dry_run()?,
        }
        if let Some(snapshot) = self.snapshots.get_mut(id) {
            Arc::make_mut(snapshot).lock = None;
        }
        Ok(Reply::Fields(vec![text("snapshotId", id)]))
    }

    /// Returns the snapshot `id`.
    ///
    /// # Errors
    /// `InvalidSnapshot.NotFound`.
    pub fn snapshot(&self, id: &SnapshotId) -> Result<&Arc<Snapshot>, Ec2Error> {
        self.snapshots.get(id).ok_or_else(|| Ec2Error::SnapshotNotFound(Missing(vec![id.to_string()])))
    }

    /// Returns all snapshots, in the order of ids.
    pub fn snapshots(&self) -> impl Iterator<Item = &Arc<Snapshot>> {
        self.snapshots.values()
    }

    /// Marks snapshot `id` as being copied: it stays `pending` until its bytes arrive.
    pub fn snapshot_copying(&mut self, id: &SnapshotId) {
        if let Some(snapshot) = self.snapshots.get_mut(id) {
            Arc::make_mut(snapshot).copying = true;
        }
    }

    /// Ends the copy of snapshot `id`, or fails it.
    pub fn snapshot_copied(&mut self, now: Now, id: &SnapshotId, failure: Option<String>) {
        let Some(snapshot) = self.snapshots.get_mut(id).map(Arc::make_mut) else { return };
        snapshot.copying = false;
        if failure.is_some() {
            self.timers.cancel(&snapshot.progress);
            snapshot.progress = Progress::Settled;
            snapshot.state = SnapshotState::Error;
            snapshot.status_message = failure;
            self.note_snapshot(id);
        } else if snapshot.progress == Progress::Settled {
            self.end_snapshot_transition(now, id);
        }
    }

    pub(super) fn end_snapshot_transition(&mut self, now: Now, id: &SnapshotId) {
        let Some(snapshot) = self.snapshots.get_mut(id).map(Arc::make_mut) else { return };
        if snapshot.state != SnapshotState::Pending {
            return;
        }
        snapshot.progress = Progress::Settled;
        if !snapshot.copying {
            snapshot.state = SnapshotState::Completed;
            snapshot.completion_time = Some(now.wall);
            self.note_snapshot(id);
        }
    }

    pub(super) fn check_snapshot(&self, call: Call<'_>, volume: &Volume) -> Result<(), Ec2Error> {
        if !matches!(volume.state, VolumeState::Available | VolumeState::InUse) {
            return Err(Ec2Error::VolumeInState { volume: volume.id.clone(), state: volume.state.as_str() });
        }
        let own = Filter { name: "volume-id".to_owned(), values: vec![volume.id.to_string()] };
        let counts = |state: SnapshotState| state == SnapshotState::Pending || self.seeded_bugs.counts_completed;
        let pending = |s: &&Arc<Snapshot>| s.volume == volume.id && counts(s.state);
        let all = self.snapshots.candidates(&[own]).unwrap_or_default();
        if all.into_iter().filter(pending).count() >= MOST_PENDING {
            return Err(Ec2Error::ConcurrentSnapshots);
        }
        let spacing = self.scale.apply(Duration::from_millis(self.switches.snapshot_spacing_ms));
        let too_soon = volume.snapshotted.is_some_and(|at| call.now.mono < at + spacing);
        if too_soon && !self.settings.settles_at_once() {
            return Err(Ec2Error::SnapshotRate);
        }
        Ok(())
    }

    pub(super) fn check_snapshot_quota(&self, more: usize) -> Result<(), Ec2Error> {
        match self.switches.snapshot_quota {
            Some(limit) if (self.snapshots.len() + more) as u64 > limit => {
                Err(Ec2Error::QuotaExceeded { resource: "snapshot", limit })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn make_snapshot(
        &mut self,
        call: Call<'_>,
        volume: &Arc<Volume>,
        description: &str,
        tags: BTreeMap<String, String>,
    ) -> Arc<Snapshot> {
        let size_gib = match &volume.modification {
            Some(modification) if self.seeded_bugs.snapshots_former_size => modification.original.size_gib,
            _ => volume.size_gib,
        };
        let snapshot = Snapshot {
            encrypted: volume.encrypted && !self.seeded_bugs.snapshots_plainly,
            kms_key_id: volume.kms_key_id.clone().filter(|_| !self.seeded_bugs.snapshots_plainly),
            ..self.new_snapshot(call, &volume.id, size_gib, description, tags)
        };
        if let Some(volume) = self.volumes.get_mut(&volume.id) {
            Arc::make_mut(volume).snapshotted = Some(call.now.mono);
        }
        self.add_snapshot(snapshot)
    }

    pub(super) fn new_snapshot(
        &mut self,
        call: Call<'_>,
        volume: &VolumeId,
        size_gib: u64,
        description: &str,
        tags: BTreeMap<String, String>,
    ) -> Snapshot {
        let id = self.next_snapshot_id();
        self.made.snapshots += 1;
        let progress =
            self.begin(call, Operation::CreateSnapshot, format_args!("snapshot {id}"), Subject::Snapshot(id.clone()));
        Snapshot {
            id,
            volume: volume.clone(),
            size_gib,
            state: SnapshotState::Pending,
            status_message: None,
            start_time: call.now.wall,
            completion_time: None,
            description: description.to_owned(),
            encrypted: false,
            kms_key_id: None,
            copied: false,
            tags,
            fast_restores: BTreeMap::new(),
            lock: None,
            sharing: Sharing::default(),
            tier: Tier::default(),
            completion_minutes: None,
            assembly: None,
            span: span(call.now.mono, &progress),
            copying: false,
            progress,
        }
    }

    pub(super) fn add_snapshot(&mut self, snapshot: Snapshot) -> Arc<Snapshot> {
        let snapshot = Arc::new(snapshot);
        self.snapshots.insert(snapshot.clone());
        self.note_snapshot(&snapshot.id);
        snapshot
    }

    fn next_snapshot_id(&self) -> SnapshotId {
        let mut rng = self.seed.child("snapshot").child(&self.made.snapshots.to_string()).rng();
        loop {
            if let Ok(id) = make_id::ec2(&mut rng, SnapshotId::PREFIX).parse()
                && !self.snapshots.contains_key(&id)
            {
                return id;
            }
        }
    }
}

/// Returns the source volume id of copies: no volume has it (AWS uses an arbitrary id).
pub(super) fn of_copies(source: &VolumeId) -> VolumeId {
    "vol-ffffffff".parse().unwrap_or_else(|_| source.clone())
}

/// Checks that volumes can be created from `snapshot`.
pub(super) fn check_completed(snapshot: &Arc<Snapshot>, now: Now) -> Result<(), Ec2Error> {
    match snapshot.state {
        SnapshotState::Completed if !snapshot.tier.usable(now.wall) => Err(Ec2Error::Resource {
            code: Code::IncorrectState,
            text: format!("Snapshot '{}' is in the archive tier. Restore it first.", snapshot.id),
        }),
        SnapshotState::Completed => Ok(()),
        state => Err(Ec2Error::SnapshotInState { snapshot: snapshot.id.clone(), state: state.as_str() }),
    }
}

pub(super) fn check_description(text: &str) -> Result<(), Ec2Error> {
    if text.chars().count() <= LONGEST {
        return Ok(());
    }
    let text = format!("The parameter description must have at most {LONGEST} characters.");
    Err(Ec2Error::InvalidParameterValue(text))
}

fn new_lock(wall: Timestamp, request: &LockSnapshot) -> Result<SnapshotLock, Ec2Error> {
    let mode = match request.mode.as_str() {
        "governance" => LockMode::Governance,
        "compliance" => LockMode::Compliance,
        other => {
            let text = format!("Value ({other}) for parameter lockMode is invalid. Use governance or compliance.");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
    };
    if let Some(hours) = request.cool_off_hours {
        if mode == LockMode::Governance {
            let text = "The parameter coolOffPeriod can be used with compliance mode only.";
            return Err(Ec2Error::InvalidParameterCombination(text.to_owned()));
        }
        if !(1..=72).contains(&hours) {
            let text = format!("Value ({hours}) for parameter coolOffPeriod is invalid. It must lie between 1 and 72.");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
    }
    let (duration_days, expires) = match (request.duration_days, &request.expiration) {
        (Some(_), Some(_)) => {
            let text = "The parameters lockDuration and expirationDate cannot be used together.";
            return Err(Ec2Error::InvalidParameterCombination(text.to_owned()));
        }
        (None, None) => return Err(Ec2Error::MissingParameter("lockDuration".to_owned())),
        (Some(days @ 1..=36_500), None) => {
            let length = SignedDuration::from_hours(24 * i64::try_from(days).unwrap_or(0));
            (days, wall.checked_add(length).unwrap_or(Timestamp::MAX))
        }
        (Some(days), None) => {
            let text =
                format!("Value ({days}) for parameter lockDuration is invalid. It must lie between 1 and 36500.");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        (None, Some(text)) => {
            let expires: Option<Timestamp> = text.parse().ok().filter(|t| *t > wall);
            let Some(expires) = expires else {
                let text = format!("Value ({text}) for parameter expirationDate is invalid. It must be a later time.");
                return Err(Ec2Error::InvalidParameterValue(text));
            };
            (u64::try_from(expires.duration_since(wall).as_hours() / 24).unwrap_or(0), expires)
        }
    };
    Ok(SnapshotLock { mode, cool_off_hours: request.cool_off_hours, duration_days, created: wall, expires })
}

struct SnapshotView<'a> {
    snapshot: &'a Snapshot,
    state: &'a State,
    now: Now,
}

impl Filterable for SnapshotView<'_> {
    const NAMES: &'static [&'static str] = &[
        "description",
        "encrypted",
        "outpost-arn",
        "owner-alias",
        "owner-id",
        "progress",
        "snapshot-id",
        "start-time",
        "status",
        "storage-tier",
        "transfer-type",
        "volume-id",
        "volume-size",
    ];

    fn values(&self, name: &str, found: &mut dyn FnMut(&str)) {
        let snapshot = self.snapshot;
        match name {
            "description" => found(&snapshot.description),
            "encrypted" => found(flag(snapshot.encrypted)),
            "owner-id" => found(&self.state.settings.account_id),
            "progress" => found(&format!("{}%", snapshot.percent(self.now))),
            "snapshot-id" => found(snapshot.id.as_str()),
            "start-time" => found(&time(snapshot.start_time)),
            "status" => found(snapshot.state.as_str()),
            "storage-tier" => found(snapshot.tier.word()),
            "transfer-type" if snapshot.copied => found(snapshot.transfer_type()),
            "volume-id" => found(snapshot.volume.as_str()),
            "volume-size" => found(&snapshot.size_gib.to_string()),
            // owner-alias, outpost-arn: not supported, so snapshots have no value.
            _ => {}
        }
    }

    fn tags(&self) -> Option<&BTreeMap<String, String>> {
        Some(&self.snapshot.tags)
    }
}
