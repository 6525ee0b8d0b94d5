//! Moves snapshots between storage tiers.

use std::sync::Arc;

use jiff::SignedDuration;
use substrate::Now;

use super::command::{Reply, RestoreSnapshotTier};
use super::error::Ec2Error;
use super::ids::SnapshotId;
use super::latency::Operation;
use super::listing::{Entry, Named, text};
use super::snapshot::{Snapshot, SnapshotState};
use super::tier::Tiering;
use super::timers::{Progress, Subject};
use super::times::time;
use super::{Call, State};

impl State {
    pub(super) fn modify_snapshot_tier(
        &mut self,
        call: Call<'_>,
        id: &SnapshotId,
        tier: Option<&str>,
    ) -> Result<Reply, Ec2Error> {
        let snapshot = self.snapshot(id)?;
        match tier {
            Some("archive") => {}
            Some(other) => {
                let text = format!("Value ({other}) for parameter storageTier is invalid. Use archive.");
                return Err(Ec2Error::InvalidParameterValue(text));
            }
            None => return Err(Ec2Error::MissingParameter("StorageTier".to_owned())),
        }
        if snapshot.state != SnapshotState::Completed {
            return Err(Ec2Error::SnapshotInState { snapshot: id.clone(), state: snapshot.state.as_str() });
        }
        if snapshot.tier.archived || snapshot.tier.under_way() {
            return Err(wrong_tier(snapshot));
        }
        call.check_dry_run()?;
        self.begin_tiering(call, id, Tiering::Archival, None);
        Ok(Reply::Fields(vec![text("snapshotId", id), text("tieringStartTime", time(call.now.wall))]))
    }

    pub(super) fn restore_snapshot_tier(
        &mut self,
        call: Call<'_>,
        request: &RestoreSnapshotTier,
    ) -> Result<Reply, Ec2Error> {
        let RestoreSnapshotTier { snapshot: id, days, permanent } = request;
        let snapshot = self.snapshot(id)?;
        if *permanent == days.is_some() {
            let text = "Use either the parameter TemporaryRestoreDays or the parameter PermanentRestore.";
            return Err(Ec2Error::InvalidParameterCombination(text.to_owned()));
        }
        if days.is_some_and(|days| !(1..=180).contains(&days)) {
            let text = "The parameter TemporaryRestoreDays must lie between 1 and 180.";
            return Err(Ec2Error::InvalidParameterValue(text.to_owned()));
        }
        if !snapshot.tier.archived || snapshot.tier.under_way() {
            return Err(wrong_tier(snapshot));
        }
        call.check_dry_run()?;
        let tiering = if *permanent { Tiering::PermanentRestore } else { Tiering::TemporaryRestore };
        self.begin_tiering(call, id, tiering, *days);
        let mut fields: Vec<Named> = vec![text("snapshotId", id), text("restoreStartTime", time(call.now.wall))];
        fields.extend(days.map(|days| text("restoreDuration", days)));
        fields.push(text("isPermanentRestore", permanent));
        Ok(Reply::Fields(fields))
    }

    fn begin_tiering(&mut self, call: Call<'_>, id: &SnapshotId, what: Tiering, days: Option<u64>) {
        let draw = format!("{} {id} {}", what.word(true), call.now.mono.as_millis());
        let progress = self.begin(call, Operation::TierSnapshot, format_args!("{draw}"), Subject::Tier(id.clone()));
        if let Some(snapshot) = self.snapshots.get_mut(id) {
            let tier = &mut Arc::make_mut(snapshot).tier;
            (tier.last, tier.started, tier.days, tier.progress) = (Some(what), Some(call.now.wall), days, progress);
        }
    }

    pub(super) fn end_tiering(&mut self, now: Now, id: &SnapshotId) {
        let Some(tier) = self.snapshots.get_mut(id).map(|s| &mut Arc::make_mut(s).tier) else { return };
        tier.progress = Progress::Settled;
        match tier.last {
            Some(Tiering::Archival) => {
                (tier.archived, tier.archived_at, tier.back_until) = (true, Some(now.wall), None);
            }
            Some(Tiering::PermanentRestore) => (tier.archived, tier.back_until) = (false, None),
            Some(Tiering::TemporaryRestore) => {
                let hours = i64::try_from(tier.days.unwrap_or(1)).unwrap_or(1) * 24;
                tier.back_until = now.wall.checked_add(SignedDuration::from_hours(hours)).ok();
            }
            None => {}
        }
    }

    pub(super) fn tiers(&self) -> Vec<Entry> {
        self.snapshots.values().map(|snapshot| self.tier_entry(snapshot)).collect()
    }

    fn tier_entry(&self, snapshot: &Snapshot) -> Entry {
        let tier = &snapshot.tier;
        let last = tier.last.map(|last| last.word(!tier.under_way()));
        let mut filter_fields =
            vec![("snapshot-id", snapshot.id.to_string()), ("volume-id", snapshot.volume.to_string())];
        filter_fields.extend(last.map(|last| ("last-tiering-operation", last.to_owned())));
        let mut fields = vec![
            text("snapshotId", &snapshot.id),
            text("volumeId", &snapshot.volume),
            text("status", snapshot.state.as_str()),
            text("ownerId", &self.settings.account_id),
            text("storageTier", tier.word()),
        ];
        fields.extend(tier.started.map(|at| text("lastTieringStartTime", time(at))));
        fields.extend(last.map(|_| text("lastTieringProgress", if tier.under_way() { 0 } else { 100 })));
        fields.extend(last.map(|last| text("lastTieringOperationStatus", last)));
        fields.extend(tier.archived_at.map(|at| text("archivalCompleteTime", time(at))));
        fields.extend(tier.back_until.map(|at| text("restoreExpiryTime", time(at))));
        Entry { id: snapshot.id.to_string(), filter_fields, tags: snapshot.tags.clone(), fields }
    }
}

fn wrong_tier(snapshot: &Snapshot) -> Ec2Error {
    let tier = &snapshot.tier;
    let state = tier.last.map_or("standard", |last| last.word(!tier.under_way()));
    Ec2Error::SnapshotInState { snapshot: snapshot.id.clone(), state }
}
