//! CreateVolume and DeleteVolume.

use std::collections::BTreeMap;
use std::sync::Arc;

use substrate::{Now, ids as make_id};

use super::command::{CreateVolume, Reply};
use super::error::{Ec2Error, Missing};
use super::event::Event;
use super::ids::VolumeId;
use super::latency::Operation;
use super::tags::check_tags;
use super::timers::{Progress, Subject};
use super::volume::{Volume, VolumeState, VolumeType};
use super::{Call, State};

/// A volume that CreateVolume is about to make: what its backing file needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVolume {
    /// Its id.
    pub id: VolumeId,
    /// Its size in GiB.
    pub size_gib: u64,
}

/// A checked CreateVolume.
enum Plan {
    /// The token was used before, for this volume.
    Replay(VolumeId),
    /// A new volume.
    New(Box<Volume>),
}

impl State {
    /// The volume that `request` would make at `now`, if it would make one; so that its file can be made first.
    ///
    /// # Errors
    /// Those of CreateVolume.
    pub fn preview(&mut self, now: Now, request: &CreateVolume, dry_run: bool) -> Result<Option<NewVolume>, Ec2Error> {
        self.catch_up(now);
        match self.plan(Call { now, dry_run, stick: None }, request)? {
            Plan::Replay(_) => Ok(None),
            Plan::New(volume) => Ok(Some(NewVolume { id: volume.id, size_gib: volume.size_gib })),
        }
    }

    fn plan(&self, call: Call<'_>, request: &CreateVolume) -> Result<Plan, Ec2Error> {
        let zone = self.zone_of(request.zone.as_deref(), request.zone_id.as_deref())?;
        let volume_type = request.volume_type.as_deref().map_or(Ok(VolumeType::Gp2), VolumeType::parse)?;
        if let Some(snapshot) = &request.snapshot_id {
            return Err(Ec2Error::SnapshotNotFound(Missing(vec![snapshot.clone()])));
        }
        let size_gib = request.size_gib.ok_or_else(|| Ec2Error::MissingParameter("size/snapshot".to_owned()))?;
        volume_type.check_size(size_gib)?;
        let iops = volume_type.resolve_iops(size_gib, request.iops)?;
        let throughput = volume_type.resolve_throughput(request.throughput)?;
        if request.multi_attach && !volume_type.multi_attach() {
            let text =
                format!("The parameter MultiAttachEnabled is not supported for {} volumes.", volume_type.as_str());
            return Err(Ec2Error::InvalidParameterCombination(text));
        }
        let encrypted = request.encrypted.unwrap_or(false);
        if request.kms_key_id.is_some() && !encrypted {
            let text = "The parameter KmsKeyId requires the parameter Encrypted to be set.";
            return Err(Ec2Error::InvalidParameterDependency(text.to_owned()));
        }
        check_tags(&BTreeMap::new(), &request.tags)?;
        if let Some(token) = &request.client_token
            && let Some(id) = self.volume_tokens.replay(call.now.mono, token, &essence(request))?
        {
            if !self.volumes.contains_key(&id) {
                return Err(Ec2Error::TokenOfDeleted);
            }
            call.check_dry_run()?;
            return Ok(Plan::Replay(id));
        }
        call.check_dry_run()?;
        let kms_key_id = encrypted.then(|| request.kms_key_id.clone().unwrap_or_else(|| self.default_key()));
        Ok(Plan::New(Box::new(Volume {
            id: self.next_volume_id(),
            size_gib,
            zone,
            volume_type,
            iops,
            throughput,
            encrypted,
            kms_key_id,
            multi_attach_enabled: request.multi_attach,
            create_time: call.now.wall,
            state: VolumeState::Creating,
            attachments: BTreeMap::new(),
            tags: request.tags.clone(),
            root: false,
            progress: Progress::Settled,
            draws: 0,
        })))
    }

    pub(super) fn create_volume(&mut self, call: Call<'_>, request: &CreateVolume) -> Result<Reply, Ec2Error> {
        let mut volume = match self.plan(call, request)? {
            Plan::Replay(id) => return self.volume(&id).map(|v| Reply::Volume(v.clone())),
            Plan::New(volume) => volume,
        };
        let id = volume.id.clone();
        self.made.volumes += 1;
        volume.progress =
            self.begin(call, Operation::CreateVolume, &format!("create {id}"), Subject::Volume(id.clone()));
        if let Some(token) = &request.client_token {
            self.volume_tokens.remember(call.now.mono, token, essence(request), id.clone());
        }
        let volume = Arc::new(*volume);
        self.volumes.insert(id.clone(), volume.clone());
        self.note_volume(&id);
        Ok(Reply::Volume(volume))
    }

    pub(super) fn delete_volume(&mut self, call: Call<'_>, id: &VolumeId) -> Result<Reply, Ec2Error> {
        let volume = self.volume(id)?;
        if let Some(instance) = volume.attachments.keys().next() {
            return Err(Ec2Error::VolumeInUse { volume: id.clone(), instance: instance.clone() });
        }
        match volume.state {
            VolumeState::Creating => {
                return Err(Ec2Error::VolumeInState { volume: id.clone(), state: volume.state.as_str() });
            }
            // Going already: nothing to add.
            VolumeState::Deleting => return call.check_dry_run().map(|()| Reply::Done),
            VolumeState::Available | VolumeState::InUse => call.check_dry_run()?,
        }
        let progress = self.begin(call, Operation::DeleteVolume, &format!("delete {id}"), Subject::Volume(id.clone()));
        if let Some(volume) = self.volumes.get_mut(id) {
            let volume = Arc::make_mut(volume);
            volume.state = VolumeState::Deleting;
            volume.progress = progress;
        }
        self.note_volume(id);
        Ok(Reply::Done)
    }

    pub(super) fn end_volume_transition(&mut self, id: &VolumeId) {
        let Some(volume) = self.volumes.get_mut(id) else { return };
        if volume.state == VolumeState::Deleting {
            if let Some(v) = self.volumes.remove(id) {
                let (volume, zone) = (v.id.clone(), v.zone.clone());
                self.events.push(Event::Volume { volume, state: "deleted", zone, size_gib: v.size_gib });
            }
            return;
        }
        let volume = Arc::make_mut(volume);
        volume.state = VolumeState::Available;
        volume.progress = Progress::Settled;
        self.note_volume(id);
    }

    /// The zone that a request names by name, by id, or by both.
    fn zone_of(&self, name: Option<&str>, id: Option<&str>) -> Result<String, Ec2Error> {
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

    fn next_volume_id(&self) -> VolumeId {
        let stream = self.seed.child("volume").child(&self.made.volumes.to_string());
        let mut rng = stream.rng();
        loop {
            if let Ok(id) = make_id::ec2(&mut rng, VolumeId::PREFIX).parse()
                && !self.volumes.contains_key(&id)
            {
                return id;
            }
        }
    }

    /// The key that encrypts volumes for which none is named.
    fn default_key(&self) -> String {
        let key = make_id::uuid(&mut self.seed.child("default key").rng());
        format!("arn:aws:kms:{}:{}:key/{key}", self.settings.region, self.settings.account_id)
    }
}

/// The parameters that a repeated token must repeat: all but the token and the zone (§8.1).
fn essence(request: &CreateVolume) -> CreateVolume {
    CreateVolume { client_token: None, zone: None, zone_id: None, ..request.clone() }
}
