//! Saves and restores the machine.

use std::sync::Arc;
use std::time::Duration;

use substrate::{Now, Seed};

use super::device::DeviceSlot;
use super::instance::InstanceState;
use super::saved::{Rest, Saved};
use super::timers::{Progress, Subject};
use super::volume::Volume;
use super::{Settings, State};

/// Only version so far.
const VERSION: u32 = 1;

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
