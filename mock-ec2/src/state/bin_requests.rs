//! Moves resources to the recycle bin and back.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use substrate::{Now, ids as make_id};

use super::command::Reply;
use super::error::{Ec2Error, Missing};
use super::ids::{SnapshotId, VolumeId};
use super::listing::{Entry, text};
use super::recycle::{Bin, Binned, RestoreRequest, Retained, Rule};
use super::snapshot::{Snapshot, SnapshotState};
use super::timers::Progress;
use super::times::time;
use super::volume::{Volume, VolumeState};
use super::{Call, State};

fn binned<T>(thing: Arc<T>, wall: Timestamp, days: i64) -> Binned<T> {
    let leaves = wall.checked_add(SignedDuration::from_hours(24 * days)).unwrap_or(Timestamp::MAX);
    Binned { thing, entered: wall, leaves }
}

impl State {
    /// Returns the recycle bin.
    pub fn bin(&self) -> &Bin {
        &self.account.bin
    }

    /// Adds a rule, or changes the rule `identifier`. Returns its identifier.
    pub fn set_rule(&mut self, identifier: Option<String>, rule: Rule) -> String {
        let identifier = identifier.unwrap_or_else(|| {
            self.account.bin.made += 1;
            let draw = self.seed.child("retention rule").child(&self.account.bin.made.to_string());
            make_id::uuid(&mut draw.rng()).simple().to_string()[..11].to_owned()
        });
        self.account.bin.rules.insert(identifier.clone(), rule);
        identifier
    }

    /// Removes the rule `identifier`. Returns false if it does not exist. Binned resources stay in the bin.
    pub fn remove_rule(&mut self, identifier: &str) -> bool {
        self.account.bin.rules.remove(identifier).is_some()
    }

    /// Moves a deleted snapshot to the bin, if a rule matches. Returns true if it did.
    pub(super) fn recycle_snapshot(&mut self, wall: Timestamp, snapshot: &Arc<Snapshot>) -> bool {
        let Some(days) = self.account.bin.days(Retained::EbsSnapshot, &snapshot.tags) else { return false };
        let mut kept = snapshot.clone();
        let inner = Arc::make_mut(&mut kept);
        (inner.progress, inner.state) = (Progress::Settled, SnapshotState::Recoverable);
        inner.fast_restores.clear();
        self.account.bin.snapshots.insert(snapshot.id.clone(), binned(kept, wall, days));
        true
    }

    /// Moves a deleted volume to the bin, if a rule matches. Returns true if it did.
    pub(super) fn recycle_volume(&mut self, wall: Timestamp, volume: &Arc<Volume>) -> bool {
        let Some(days) = self.account.bin.days(Retained::EbsVolume, &volume.tags) else { return false };
        let mut kept = volume.clone();
        let inner = Arc::make_mut(&mut kept);
        inner.progress = Progress::Settled;
        inner.modification = None;
        self.account.bin.volumes.insert(volume.id.clone(), binned(kept, wall, days));
        true
    }

    /// Removes all expired resources.
    pub(super) fn empty_bin(&mut self, now: Now) {
        let bin = &mut self.account.bin;
        if bin.snapshots.is_empty() && bin.volumes.is_empty() {
            return;
        }
        let snapshots: Vec<_> = bin.snapshots.extract_if(.., |_, kept| kept.leaves <= now.wall).collect();
        let volumes: Vec<_> = bin.volumes.extract_if(.., |_, kept| kept.leaves <= now.wall).collect();
        snapshots.iter().for_each(|(_, kept)| self.note_snapshot_deleted(&kept.thing));
        volumes.iter().for_each(|(_, kept)| self.note_deleted(&kept.thing));
    }

    pub(super) fn restore_request(&mut self, call: Call<'_>, request: &RestoreRequest) -> Result<Reply, Ec2Error> {
        match request {
            RestoreRequest::Snapshot(id) => {
                let missing = || Ec2Error::SnapshotNotFound(Missing(vec![id.to_string()]));
                let kept = self.account.bin.snapshots.get(id).cloned().ok_or_else(missing)?;
                self.check_snapshot_quota(1)?;
                call.check_dry_run()?;
                self.account.bin.snapshots.remove(id);
                let mut snapshot = kept.thing;
                Arc::make_mut(&mut snapshot).state = match snapshot.completion_time {
                    Some(_) => SnapshotState::Completed,
                    None => SnapshotState::Error,
                };
                self.snapshots.insert(snapshot.clone());
                self.note_snapshot(id);
                Ok(Reply::Fields(vec![
                    text("snapshotId", id),
                    text("description", &snapshot.description),
                    text("encrypted", snapshot.encrypted),
                    text("ownerId", &self.settings.account_id),
                    text("progress", format!("{}%", snapshot.percent(call.now))),
                    text("startTime", time(snapshot.start_time)),
                    text("status", snapshot.state.as_str()),
                    text("volumeId", &snapshot.volume),
                    text("volumeSize", snapshot.size_gib),
                ]))
            }
            RestoreRequest::Volume(id) => {
                let missing = || Ec2Error::VolumeNotFound(Missing(vec![id.to_string()]));
                let kept = self.account.bin.volumes.get(id).cloned().ok_or_else(missing)?;
                self.check_room_for_volumes(1)?;
                call.check_dry_run()?;
                self.account.bin.volumes.remove(id);
                let mut volume = kept.thing;
                Arc::make_mut(&mut volume).state = VolumeState::Available;
                self.volumes.insert(volume);
                self.note_volume(id);
                Ok(Reply::Done)
            }
        }
    }

    /// Returns the snapshots `ids` in the bin, or all.
    pub(super) fn recycled_snapshots(&self, ids: &[String]) -> Result<Vec<Entry>, Ec2Error> {
        let known = |id: &String| id.parse().is_ok_and(|id: SnapshotId| self.account.bin.snapshots.contains_key(&id));
        let missing: Vec<String> = ids.iter().filter(|id| !known(id)).cloned().collect();
        if !missing.is_empty() {
            return Err(Ec2Error::SnapshotNotFound(Missing(missing)));
        }
        let entries = self.account.bin.snapshots.iter().map(|(id, kept)| Entry {
            id: id.to_string(),
            fields: vec![
                text("snapshotId", id),
                text("recycleBinEnterTime", time(kept.entered)),
                text("recycleBinExitTime", time(kept.leaves)),
                text("description", &kept.thing.description),
                text("volumeId", &kept.thing.volume),
            ],
            ..Entry::default()
        });
        Ok(entries.collect())
    }

    /// Returns the volumes `ids` in the bin, or all.
    pub(super) fn recycled_volumes(&self, ids: &[String]) -> Result<Vec<Entry>, Ec2Error> {
        let known = |id: &String| id.parse().is_ok_and(|id: VolumeId| self.account.bin.volumes.contains_key(&id));
        let missing: Vec<String> = ids.iter().filter(|id| !known(id)).cloned().collect();
        if !missing.is_empty() {
            return Err(Ec2Error::VolumeNotFound(Missing(missing)));
        }
        let entries = self.account.bin.volumes.iter().map(|(id, kept)| {
            let volume = &kept.thing;
            let mut fields = vec![
                text("volumeId", id),
                text("volumeType", volume.volume_type.as_str()),
                text("state", "recoverable"),
                text("size", volume.size_gib),
            ];
            fields.extend(volume.iops.map(|iops| text("iops", iops)));
            fields.extend(volume.throughput.map(|throughput| text("throughput", throughput)));
            fields.push(text("availabilityZone", &volume.zone));
            fields.push(text("availabilityZoneId", self.zone_id(&volume.zone)));
            fields.extend(volume.source_volume.as_ref().map(|id| text("sourceVolumeId", id)));
            fields.extend(volume.snapshot.as_ref().map(|id| text("snapshotId", id)));
            fields.push(text("createTime", time(volume.create_time)));
            fields.push(text("recycleBinEnterTime", time(kept.entered)));
            fields.push(text("recycleBinExitTime", time(kept.leaves)));
            Entry { id: id.to_string(), fields, ..Entry::default() }
        });
        Ok(entries.collect())
    }
}
