//! The saved state of a stopped server, read at its next start.
//!
//! Transitions that were under way end at once after the load: the cloud continued meanwhile. Monotonic times are not
//! saved, so the modification rate and the spacing of snapshots restart.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use substrate::{Now, Seed};

use super::account::Account;
use super::client_token::SavedToken;
use super::command::{CopyVolumes, CreateVolume, RunInstances};
use super::device::DeviceSlot;
use super::ids::{InstanceId, VolumeId};
use super::instance::{Instance, InstanceState};
use super::snapshot::Snapshot;
use super::switches::Switches;
use super::timers::{Progress, Subject};
use super::volume::Volume;
use super::{Made, Settings, State};

/// Only version so far.
const VERSION: u32 = 1;

/// State that outlives a stop.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Saved {
    version: u32,
    /// Absent in files from before multi-region support.
    #[serde(default)]
    region: Option<String>,
    switches: Switches,
    pub(super) instances: Vec<Arc<Instance>>,
    pub(super) volumes: Vec<Arc<Volume>>,
    pub(super) snapshots: Vec<Arc<Snapshot>>,
    pub(super) volume_tokens: Vec<SavedToken<CreateVolume, VolumeId>>,
    pub(super) copy_tokens: Vec<SavedToken<CopyVolumes, VolumeId>>,
    pub(super) instance_tokens: Vec<SavedToken<RunInstances, Vec<InstanceId>>>,
    made: Made,
    #[serde(default)]
    account: Account,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) copies: Vec<PendingCopy>,
}

/// State outside the tables: small, and saved in full after each change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rest {
    switches: Switches,
    #[serde(default)]
    account: Account,
}

/// Copy under way: target and source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingCopy {
    /// Target volume or snapshot.
    pub into: String,
    /// Source volume or snapshot.
    pub from: String,
}

impl Saved {
    /// Returns the copies that were under way.
    pub(crate) fn copies(&self) -> &[PendingCopy] {
        &self.copies
    }

    /// Replaces the state outside the tables.
    pub(super) fn set_rest(&mut self, Rest { switches, account }: Rest) {
        (self.switches, self.account) = (switches, account);
    }

    /// Sets the numbers of objects made so far.
    pub(super) fn set_made(&mut self, made: Made) {
        self.made = made;
    }

    /// Sets the copies under way.
    pub(crate) fn set_copies(&mut self, copies: Vec<PendingCopy>) {
        self.copies = copies;
    }
}

impl State {
    /// Returns the whole state at `now`.
    pub fn save(&self, now: Now) -> Saved {
        Saved {
            version: VERSION,
            region: Some(self.settings.region.clone()),
            switches: self.switches.clone(),
            instances: self.instances.values().cloned().collect(),
            volumes: self.volumes.values().cloned().collect(),
            snapshots: self.snapshots.values().cloned().collect(),
            volume_tokens: self.volume_tokens.save(now.mono),
            copy_tokens: self.copy_tokens.save(now.mono),
            instance_tokens: self.instance_tokens.save(now.mono),
            made: self.made,
            account: self.account.clone(),
            copies: Vec::new(),
        }
    }

    /// Returns the state outside the tables.
    pub(super) fn rest(&self) -> Rest {
        Rest { switches: self.switches.clone(), account: self.account.clone() }
    }

    /// Returns true if `rest` equals the state outside the tables.
    pub(super) fn rests(&self, rest: &Rest) -> bool {
        rest.switches == self.switches && rest.account == self.account
    }

    /// Restores the cloud of `saved`.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn restore(settings: Settings, seed: Seed, saved: Saved) -> Result<Self, String> {
        if saved.version != VERSION {
            return Err(format!("version: {} is not known, only {VERSION}", saved.version));
        }
        if let Some(other) = saved.region.filter(|region| *region != settings.region) {
            return Err(format!(
                "region: it is of {other}, not of {}; name the regions in the same order",
                settings.region
            ));
        }
        let mut state = Self::new(settings, seed, &[]).map_err(|(field, reason)| format!("{field}: {reason}"))?;
        saved.switches.check()?;
        state.switches = saved.switches;
        state.made = saved.made;
        state.account = saved.account;
        state.volume_tokens = saved.volume_tokens.into();
        state.copy_tokens = saved.copy_tokens.into();
        state.instance_tokens = saved.instance_tokens.into();
        state.instances = saved.instances.into_iter().collect();
        state.volumes = saved.volumes.into_iter().collect();
        state.snapshots = saved.snapshots.into_iter().collect();
        state.fill_slots(|_| true)?;
        state.settle();
        state.resume_assemblies();
        Ok(state)
    }

    /// Fills the slots of instances with the attachments of the `wanted` volumes.
    pub(super) fn fill_slots(&mut self, wanted: impl Fn(&Volume) -> bool) -> Result<(), String> {
        for volume in self.volumes.values().filter(|volume| wanted(volume)) {
            for (id, attachment) in &volume.attachments {
                let slot = DeviceSlot::parse(&attachment.device)
                    .ok_or_else(|| format!("volumes.{}: `{}` is not a device name", volume.id, attachment.device))?;
                let instance = self.instances.get_mut(id).map(Arc::make_mut);
                let instance = instance.ok_or_else(|| format!("volumes.{}: instance {id} is missing", volume.id))?;
                if instance.slots.insert(slot, volume.id.clone()).is_some() {
                    return Err(format!("volumes.{}: {} is used twice on {id}", volume.id, attachment.device));
                }
            }
        }
        Ok(())
    }

    /// Sets a due timer for each transition that was under way.
    fn settle(&mut self) {
        let mut subjects: Vec<Subject> = self.instances.keys().cloned().map(Subject::Instance).collect();
        for volume in self.volumes.values() {
            subjects.push(Subject::Volume(volume.id.clone()));
            subjects.push(Subject::Modification(volume.id.clone()));
            subjects.extend(volume.attachments.keys().map(|i| Subject::Attachment(volume.id.clone(), i.clone())));
        }
        for snapshot in self.snapshots.values() {
            subjects.push(Subject::Snapshot(snapshot.id.clone()));
            subjects.push(Subject::Tier(snapshot.id.clone()));
            let zones = snapshot.fast_restores.keys();
            subjects.extend(zones.map(|zone| Subject::FastRestore(snapshot.id.clone(), zone.clone())));
        }
        for subject in subjects {
            if self.progress(&subject).is_some_and(|p| *p != Progress::Settled) {
                let key = self.timers.set(Duration::ZERO, subject.clone());
                if let Some(progress) = self.progress(&subject) {
                    *progress = Progress::Until(key);
                }
            }
        }
        let gone = self.instances.values().filter(|i| i.state == InstanceState::Terminated).map(|i| i.id.clone());
        for instance in gone.collect::<Vec<_>>() {
            self.memories.set(Duration::from_secs(3600), Subject::Forget(instance));
        }
    }
}
