//! CreateVolume, CopyVolumes and DeleteVolume.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use substrate::{Now, ids as make_id};

use super::command::{CopyVolumes, CreateVolume, Reply};
use super::error::{Ec2Error, Missing};
use super::event::Event;
use super::ids::{SnapshotId, VolumeId};
use super::latency::Operation;
use super::snapshots::check_completed;
use super::tags::check_tags;
use super::timers::{HoldReason, Progress, Subject};
use super::volume::{Initialization, Volume, VolumeState, VolumeType};
use super::{Call, State};

/// Volume that CreateVolume is about to create: the data for its backing file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVolume {
    /// Its id.
    pub id: VolumeId,
    /// Its size in GiB.
    pub size_gib: u64,
    /// Source of its bytes.
    pub source: Option<Source>,
}

/// Source of the bytes of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A snapshot.
    Snapshot(SnapshotId),
    /// Another volume.
    Volume(VolumeId),
}

impl Source {
    /// Returns its id.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Snapshot(snapshot) => snapshot.as_str(),
            Self::Volume(volume) => volume.as_str(),
        }
    }
}

/// Range of VolumeInitializationRate in MiB/s (EC2 API, CreateVolume).
const INITIALIZATION_RATE: std::ops::RangeInclusive<u64> = 100..=300;

/// Validated CreateVolume or CopyVolumes.
enum Plan {
    /// The token was used before, for this volume.
    Replay(VolumeId),
    /// A new volume.
    New(Box<Volume>),
}

impl Plan {
    /// Returns the data for its file.
    fn file(self) -> Option<NewVolume> {
        let Self::New(volume) = self else { return None };
        let Volume { id, size_gib, snapshot, source_volume, .. } = *volume;
        let source = snapshot.map(Source::Snapshot).or(source_volume.map(Source::Volume));
        Some(NewVolume { id, size_gib, source })
    }
}

impl State {
    /// Returns the volume that CreateVolume would create at `now`, if any, so that its file can be created first.
    ///
    /// # Errors
    /// Those of CreateVolume.
    pub fn preview(&mut self, now: Now, request: &CreateVolume, dry_run: bool) -> Result<Option<NewVolume>, Ec2Error> {
        self.catch_up(now);
        self.plan(Call { now, dry_run, stick: None }, request).map(Plan::file)
    }

    /// Returns the volume that CopyVolumes would create at `now`, if any.
    ///
    /// # Errors
    /// Those of CopyVolumes.
    pub fn preview_copy(&mut self, now: Now, request: &CopyVolumes, dry: bool) -> Result<Option<NewVolume>, Ec2Error> {
        self.catch_up(now);
        self.plan_copy(Call { now, dry_run: dry, stick: None }, request).map(Plan::file)
    }

    fn plan(&self, call: Call<'_>, request: &CreateVolume) -> Result<Plan, Ec2Error> {
        if call.dry_run && self.switches.dry_run_zone_conflict && request.zone.is_some() && request.zone_id.is_some() {
            let text = "The parameters availabilityZone and availabilityZoneId cannot be used together.";
            return Err(Ec2Error::InvalidParameterCombination(text.to_owned()));
        }
        let zone = self.zone_of(request.zone.as_deref(), request.zone_id.as_deref())?;
        request.volume_type.as_deref().map_or(Ok(VolumeType::Gp2), VolumeType::parse)?;
        let token = match &request.client_token {
            Some(token) if !self.seeded_bugs.client_token_ignored => {
                match self.volume_tokens.replay(call.now.mono, token, &essence(request)) {
                    Err(Ec2Error::TokenMismatch) if self.seeded_bugs.trusts_tokens => self.volume_tokens.known(token),
                    replayed => replayed?,
                }
            }
            _ => None,
        };
        if let Some(id) = token {
            return self.plan_replay(call, id);
        }
        let volume = self.blueprint(call, request, zone)?;
        self.check_room_for_volumes(1)?;
        call.check_dry_run()?;
        Ok(Plan::New(Box::new(volume)))
    }

    /// Builds the next volume from `request`, in `zone`.
    pub(super) fn blueprint(&self, call: Call<'_>, request: &CreateVolume, zone: String) -> Result<Volume, Ec2Error> {
        let volume_type = request.volume_type.as_deref().map_or(Ok(VolumeType::Gp2), VolumeType::parse)?;
        let volume_type = if self.seeded_bugs.type_ignored { VolumeType::Gp2 } else { volume_type };
        let snapshot = request.snapshot_id.as_ref().map(|id| self.snapshot(id)).transpose()?;
        snapshot.map_or(Ok(()), |s| check_completed(s, call.now))?;
        let asked = request.size_gib.filter(|_| snapshot.is_none() || !self.seeded_bugs.restore_size_ignored);
        let size_gib = asked.or(snapshot.map(|s| s.size_gib));
        let size_gib = size_gib.ok_or_else(|| Ec2Error::MissingParameter("size/snapshot".to_owned()))?;
        volume_type.check_size(size_gib)?;
        if let Some(snapshot) = snapshot.filter(|s| size_gib < s.size_gib) {
            return Err(Ec2Error::InvalidParameterValue(format!(
                "Volume of size {size_gib}GiB is smaller than snapshot '{}', expect size >= {}GiB.",
                snapshot.id, snapshot.size_gib
            )));
        }
        let iops = volume_type.resolve_iops(size_gib, request.iops)?;
        let asked = request.throughput.filter(|_| !self.seeded_bugs.throughput_dropped);
        let throughput = volume_type.resolve_throughput(asked)?;
        volume_type.check_throughput_ratio(iops, throughput)?;
        check_multi_attach(volume_type, request.multi_attach)?;
        let inherited = snapshot.is_some_and(|s| s.encrypted) && !self.seeded_bugs.restores_plainly;
        let asked = request.encrypted.unwrap_or(false) && !self.seeded_bugs.encryption_dropped;
        // The EBS driver always sends a value. A false one does not decrypt a snapshot (aws-ebs-csi-driver#2685).
        let encrypted = asked || inherited || self.account.encrypts;
        let keyed = snapshot.filter(|_| !self.seeded_bugs.restores_with_default_key);
        let inherited = keyed.and_then(|s| s.kms_key_id.as_deref());
        let kms_key_id = self.key_of(encrypted, request.kms_key_id.as_deref(), inherited)?;
        if let Some(rate) = request.initialization_rate {
            if snapshot.is_none() {
                let text = "The parameter VolumeInitializationRate requires the parameter SnapshotId to be set.";
                return Err(Ec2Error::InvalidParameterDependency(text.to_owned()));
            }
            if !INITIALIZATION_RATE.contains(&rate) {
                return Err(Ec2Error::InvalidParameterValue(format!(
                    "Value ({rate}) for parameter volumeInitializationRate is invalid. It must lie between 100 and 300."
                )));
            }
        }
        check_tags(&BTreeMap::new(), &request.tags)?;
        Ok(Volume {
            size_gib,
            fast_restored: snapshot.is_some_and(|s| s.fast_in(&zone)),
            zone,
            volume_type,
            iops,
            throughput,
            encrypted,
            kms_key_id,
            multi_attach_enabled: request.multi_attach,
            create_time: call.now.wall,
            tags: request.tags.clone(),
            snapshot: request.snapshot_id.clone(),
            initialization_rate: request.initialization_rate,
            ..Volume::blank(self.next_volume_id())
        })
    }

    fn plan_copy(&self, call: Call<'_>, request: &CopyVolumes) -> Result<Plan, Ec2Error> {
        let token = match &request.client_token {
            Some(token) if !self.seeded_bugs.copies_again => {
                let essence = CopyVolumes { client_token: None, ..request.clone() };
                self.copy_tokens.replay(call.now.mono, token, &essence)?
            }
            _ => None,
        };
        if let Some(id) = token {
            return self.plan_replay(call, id);
        }
        let source = self.volume(&request.source)?;
        if !matches!(source.state, VolumeState::Available | VolumeState::InUse) {
            return Err(Ec2Error::VolumeInState { volume: source.id.clone(), state: source.state.as_str() });
        }
        // A copy takes only bytes and encryption from its source. Its type is gp2 unless the request sets one.
        let encrypted = source.encrypted || request.encrypted == Some(true) || self.account.encrypts;
        let kms_key_id = self.key_of(encrypted, request.kms_key_id.as_deref(), source.kms_key_id.as_deref())?;
        let volume_type = request.volume_type.as_deref().map_or(Ok(VolumeType::Gp2), VolumeType::parse)?;
        let size_gib = request.size_gib.unwrap_or(source.size_gib);
        volume_type.check_size(size_gib)?;
        if size_gib < source.size_gib {
            return Err(Ec2Error::InvalidParameterValue(format!(
                "Volume of size {size_gib}GiB is smaller than volume '{}', expect size >= {}GiB.",
                source.id, source.size_gib
            )));
        }
        let iops = volume_type.resolve_iops(size_gib, request.iops)?;
        let throughput = volume_type.resolve_throughput(request.throughput)?;
        volume_type.check_throughput_ratio(iops, throughput)?;
        check_multi_attach(volume_type, request.multi_attach)?;
        check_tags(&BTreeMap::new(), &request.tags)?;
        self.check_room_for_volumes(1)?;
        call.check_dry_run()?;
        Ok(Plan::New(Box::new(Volume {
            size_gib,
            zone: source.zone.clone(),
            volume_type,
            iops,
            throughput,
            encrypted,
            kms_key_id,
            multi_attach_enabled: request.multi_attach,
            create_time: call.now.wall,
            tags: if self.seeded_bugs.drops_copy_tags { BTreeMap::new() } else { request.tags.clone() },
            source_volume: Some(source.id.clone()),
            ..Volume::blank(self.next_volume_id())
        })))
    }

    /// Returns the key of a new volume: the one that the request names, else that of its source, else the default. A
    /// volume that is not `encrypted` has none.
    fn key_of(&self, encrypted: bool, named: Option<&str>, source: Option<&str>) -> Result<Option<String>, Ec2Error> {
        if named.is_some() && !encrypted {
            let text = "The parameter KmsKeyId requires the parameter Encrypted to be set.";
            return Err(Ec2Error::InvalidParameterDependency(text.to_owned()));
        }
        let key = named.map(|key| self.key_arn(key)).or_else(|| source.map(str::to_owned));
        Ok(encrypted.then(|| key.unwrap_or_else(|| self.default_key())))
    }

    fn plan_replay(&self, call: Call<'_>, id: VolumeId) -> Result<Plan, Ec2Error> {
        if self.switches.quota_before_token {
            self.check_room_for_volumes(1)?;
        }
        if !self.volumes.contains_key(&id) {
            return Err(Ec2Error::TokenOfDeleted);
        }
        call.check_dry_run()?;
        Ok(Plan::Replay(id))
    }

    /// Checks that the quota has room for `more` volumes.
    pub(super) fn check_room_for_volumes(&self, more: u64) -> Result<(), Ec2Error> {
        let spared = u64::from(self.seeded_bugs.spares_last_volume);
        match self.switches.volume_quota {
            Some(limit) if self.volumes.len() as u64 + more + spared > limit => {
                Err(Ec2Error::QuotaExceeded { resource: "volume", limit })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn create_volume(&mut self, call: Call<'_>, request: &CreateVolume) -> Result<Reply, Ec2Error> {
        let volume = match self.plan(call, request)? {
            Plan::Replay(id) => return self.volume(&id).map(|v| Reply::Volume(v.clone())),
            Plan::New(volume) => *volume,
        };
        if let Some(token) = &request.client_token {
            self.volume_tokens.remember(call.now.mono, token, essence(request), volume.id.clone());
        }
        Ok(Reply::Volume(self.add_volume(call, volume)))
    }

    pub(super) fn copy_volumes(&mut self, call: Call<'_>, request: &CopyVolumes) -> Result<Reply, Ec2Error> {
        let volume = match self.plan_copy(call, request)? {
            Plan::Replay(id) => return self.volume(&id).map(|v| Reply::CopiedVolumes(vec![v.clone()])),
            Plan::New(volume) => *volume,
        };
        if let Some(token) = &request.client_token {
            let essence = CopyVolumes { client_token: None, ..request.clone() };
            self.copy_tokens.remember(call.now.mono, token, essence, volume.id.clone());
        }
        Ok(Reply::CopiedVolumes(vec![self.add_volume(call, volume)]))
    }

    fn add_volume(&mut self, call: Call<'_>, mut volume: Volume) -> Arc<Volume> {
        let id = volume.id.clone();
        self.made.volumes += 1;
        volume.initialization = self.initialization(call.now.mono, &volume);
        // Inserted before its first transition, whose duration depends on the type.
        let mut volume = Arc::new(volume);
        self.volumes.insert(volume.clone());
        let progress =
            self.begin(call, Operation::CreateVolume, format_args!("create {id}"), Subject::Volume(id.clone()));
        if let Some(own) = self.volumes.get_mut(&id) {
            Arc::make_mut(own).progress = progress;
            volume = own.clone();
        }
        self.note_volume(&id);
        volume
    }

    /// Returns the loading of the new `volume`'s blocks from its source.
    pub(super) fn initialization(&self, now: Duration, volume: &Volume) -> Option<Initialization> {
        if self.settings.settles_at_once() || volume.fast_restored {
            return None;
        }
        let (kind, lasting) = match (&volume.snapshot, volume.initialization_rate) {
            (Some(_), Some(rate)) => {
                let lasting = Duration::from_secs((volume.size_gib * 1_024).div_ceil(rate.max(1)));
                ("provisioned-rate", self.scale.apply(lasting))
            }
            (Some(_), None) => ("default", self.per_gib(volume)),
            (None, _) if volume.source_volume.is_some() => ("volume-copy", self.per_gib(volume)),
            (None, _) => return None,
        };
        Some(Initialization { kind, span: (now, now + lasting) })
    }

    fn per_gib(&self, volume: &Volume) -> Duration {
        let types = (Some(volume.volume_type.as_str()), None);
        let one = self.duration(Operation::InitializeVolume, format_args!("initialize {}", volume.id), || types);
        one.saturating_mul(u32::try_from(volume.size_gib).unwrap_or(u32::MAX))
    }

    /// Marks volume `id` as being copied: it stays `creating` until its bytes arrive.
    pub fn volume_copying(&mut self, id: &VolumeId) {
        let Some(volume) = self.volumes.get_mut(id).map(Arc::make_mut) else { return };
        volume.copying = true;
        // A disk created with its instance has a device as soon as it has its bytes.
        for attachment in volume.attachments.values_mut() {
            let old = std::mem::replace(&mut attachment.progress, Progress::Held(HoldReason::Bytes));
            self.timers.cancel(&old);
        }
    }

    /// Ends the copy of volume `id`. If the bytes did not arrive, the volume vanishes, like one with an unusable key.
    pub fn volume_copied(&mut self, now: Now, id: &VolumeId, arrived: bool) {
        let Some(volume) = self.volumes.get_mut(id).map(Arc::make_mut) else { return };
        volume.copying = false;
        let instances: Vec<_> = volume.attachments.keys().cloned().collect();
        if arrived {
            instances.iter().for_each(|instance| self.release_held(now.mono, instance, HoldReason::Bytes));
        }
        let Some(volume) = self.volumes.get(id) else { return };
        if !arrived {
            self.vanish_volume(now, id);
        } else if volume.state == VolumeState::Creating && volume.progress == Progress::Settled {
            self.end_volume_transition(now, id);
        }
    }

    /// Removes volume `id` at once in any state. Its client token stays known (aws-ebs-csi-driver#1951).
    pub fn vanish_volume(&mut self, now: Now, id: &VolumeId) {
        let Some(gone) = self.volumes.remove(id) else { return };
        self.timers.cancel(&gone.progress);
        if let Some(modification) = &gone.modification {
            self.timers.cancel(&modification.progress);
        }
        for (instance, attachment) in &gone.attachments {
            self.timers.cancel(&attachment.progress);
            if let Some(instance) = self.instances.get_mut(instance).map(Arc::make_mut) {
                instance.slots.retain(|_, held| held != id);
                instance.mounted.remove(id);
                instance.held.remove(id);
            }
            self.events.push(Event::detached(&gone, instance, attachment, true));
        }
        self.note_deleted(&gone);
        for instance in gone.attachments.keys() {
            self.slot_freed(now.mono, instance);
        }
    }

    pub(super) fn delete_volume(&mut self, call: Call<'_>, id: &VolumeId) -> Result<Reply, Ec2Error> {
        let volume = self.volume(id)?;
        if let Some(instance) = volume.attachments.keys().next().filter(|_| !self.seeded_bugs.delete_while_attached) {
            return Err(Ec2Error::VolumeInUse { volume: id.clone(), instance: instance.clone() });
        }
        match volume.state {
            VolumeState::Creating => {
                return Err(Ec2Error::VolumeInState { volume: id.clone(), state: volume.state.as_str() });
            }
            // Already deleting: nothing to do.
            VolumeState::Deleting => return call.check_dry_run().map(|()| Reply::Done),
            VolumeState::Available | VolumeState::InUse | VolumeState::Error => call.check_dry_run()?,
        }
        let progress =
            self.begin(call, Operation::DeleteVolume, format_args!("delete {id}"), Subject::Volume(id.clone()));
        if let Some(volume) = self.volumes.get_mut(id) {
            let volume = Arc::make_mut(volume);
            volume.state = VolumeState::Deleting;
            volume.progress = progress;
        }
        self.note_volume(id);
        Ok(Reply::Done)
    }

    pub(super) fn end_volume_transition(&mut self, now: Now, id: &VolumeId) {
        let Some(volume) = self.volumes.get_mut(id) else { return };
        if volume.state == VolumeState::Deleting {
            if self.seeded_bugs.deletion_stays {
                return;
            }
            if let Some(v) = self.volumes.remove(id) {
                if let Some(modification) = &v.modification {
                    self.timers.cancel(&modification.progress);
                }
                // Normally none; the seeded bug deletes an attached volume.
                for instance in v.attachments.keys() {
                    if let Some(instance) = self.instances.get_mut(instance) {
                        Arc::make_mut(instance).slots.retain(|_, held| held != id);
                    }
                }
                if self.seeded_bugs.fails_with_volume {
                    self.fail_snapshots_of(now, &v.id);
                }
                if v.root || !self.recycle_volume(now.wall, &v) {
                    self.note_deleted(&v);
                }
            }
            return;
        }
        let volume = Arc::make_mut(volume);
        volume.progress = Progress::Settled;
        if volume.copying {
            return;
        }
        volume.state = VolumeState::Available;
        self.note_volume(id);
    }

    /// Returns the zone that a request names by name, by id, or by both.
    pub(super) fn zone_of(&self, name: Option<&str>, id: Option<&str>) -> Result<String, Ec2Error> {
        let zones = &self.settings.zones;
        let unknown = |zone: &str| Ec2Error::ZoneNotFound(Missing(vec![zone.to_owned()]));
        let by_name = name.map(|n| zones.iter().find(|z| z.name == n).ok_or_else(|| unknown(n))).transpose()?;
        let by_id = id.map(|i| zones.iter().find(|z| z.id == i).ok_or_else(|| unknown(i))).transpose()?;
        match (by_name, by_id) {
            (Some(a), Some(b)) if a != b => Err(Ec2Error::InvalidParameterCombination(format!(
                "The parameters availabilityZone ({}) and availabilityZoneId ({}) name different zones.",
                a.name, b.id
            ))),
            (Some(zone), _) | (None, Some(zone)) => Ok(zone.name.clone()),
            (None, None) => Err(Ec2Error::MissingParameter("AvailabilityZone".to_owned())),
        }
    }

    pub(super) fn next_volume_id(&self) -> VolumeId {
        self.volume_id(self.made.volumes)
    }

    /// Returns the id of the volume created after `number` others.
    pub(super) fn volume_id(&self, number: u64) -> VolumeId {
        let stream = self.seed.child("volume").child(&number.to_string());
        let mut rng = stream.rng();
        loop {
            if let Ok(id) = make_id::ec2(&mut rng, VolumeId::PREFIX).parse()
                && !self.volumes.contains_key(&id)
            {
                return id;
            }
        }
    }
}

/// Returns the parameters that a repeated token must repeat: all except token and zone (EC2 API "Ensuring
/// idempotency").
fn essence(request: &CreateVolume) -> CreateVolume {
    CreateVolume { client_token: None, zone: None, zone_id: None, ..request.clone() }
}

fn check_multi_attach(volume_type: VolumeType, asked: bool) -> Result<(), Ec2Error> {
    if asked && !volume_type.multi_attach() {
        let text = format!("The parameter MultiAttachEnabled is not supported for {} volumes.", volume_type.as_str());
        return Err(Ec2Error::InvalidParameterCombination(text));
    }
    Ok(())
}
