//! AttachVolume and DetachVolume.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use substrate::Now;

use super::command::{AttachVolume, AttachmentReply, DetachVolume, Reply};
use super::device::DeviceSlot;
use super::error::Ec2Error;
use super::event::Event;
use super::ids::{InstanceId, VolumeId};
use super::instance::{Instance, InstanceState};
use super::instance_types;
use super::latency::Operation;
use super::switches::{LimitMode, SecondDetach};
use super::timers::{HoldReason, Progress, Subject};
use super::volume::{Attachment, AttachmentState, Volume, VolumeState, VolumeType};
use super::{Call, State};

/// Largest number of attachments of a Multi-Attach volume (EBS user guide, "Attach an EBS volume to multiple EC2
/// instances").
const MULTI_ATTACH_MOST: usize = 16;

impl State {
    pub(super) fn attach_volume(&mut self, call: Call<'_>, request: &AttachVolume) -> Result<Reply, Ec2Error> {
        let AttachVolume { volume: id, instance: instance_id, device, ebs_card_index } = request;
        let slot = DeviceSlot::parse(device).ok_or_else(|| Ec2Error::BadDevice(device.clone()))?;
        let (volume, instance) = (self.volume(id)?, self.instance(instance_id)?);
        let cards = instance_types::find(&instance.instance_type).map_or(1, |t| t.ebs_cards);
        if let Some(card) = ebs_card_index.filter(|card| *card >= cards) {
            return Err(Ec2Error::InvalidParameterValue(format!(
                "Value ({card}) for parameter EbsCardIndex is invalid. Instance type {} has {cards} EBS card(s).",
                instance.instance_type
            )));
        }
        if volume.multi_attach_enabled && !instance.on_nitro() {
            return Err(Ec2Error::UnsupportedOperation(format!(
                "Multi-Attach volumes can be attached to instances on the Nitro System only; {} is not.",
                instance.instance_type
            )));
        }
        if volume.zone != instance.zone && !self.seeded_bugs.zones_ignored {
            return Err(Ec2Error::ZoneMismatch { volume: id.clone(), instance: instance_id.clone() });
        }
        if !matches!(instance.state, InstanceState::Running | InstanceState::Stopped) {
            return Err(Ec2Error::InstanceNotRunning(instance_id.clone()));
        }
        let is_early = self.seeded_bugs.attaches_early && volume.state == VolumeState::Creating;
        if !is_early {
            let several = self.switches.unsafe_multi_attach || self.seeded_bugs.attach_twice;
            check_free(volume, instance_id, several, usize::from(self.seeded_bugs.attaches_one_more))?;
        }
        let is_taken = instance.slots.contains_key(&slot) && !self.seeded_bugs.shares_devices;
        if is_taken || instance.hidden.contains(&slot) {
            return Err(Ec2Error::DeviceInUse(device.clone()));
        }
        let limit = instance.device_limit();
        let spared = usize::from(self.seeded_bugs.spares_last_slot);
        // Attachments that wait for a slot are counted only if the limit may matter.
        let full = instance.slots.len() + spared >= limit as usize && self.free_slots(instance) <= spared;
        if full && self.switches.limit_mode == LimitMode::Error {
            return Err(Ec2Error::AttachmentLimit(limit));
        }
        call.check_dry_run()?;
        let hold = match instance.poisoned.contains(&slot) {
            true => Some(HoldReason::PoisonedName),
            false if full => Some(HoldReason::OverLimit),
            false => None,
        };

        let operation = attach_operation(volume);
        let progress = match hold {
            Some(hold) => Progress::Held(hold),
            None => self.begin_attachment(call, operation, "attach", id, instance_id),
        };
        let attachment = Attachment {
            ebs_card_index: ebs_card_index.unwrap_or(0),
            progress,
            ..Attachment::new(device, call.now.wall, AttachmentState::Attaching)
        };
        if let Some(instance) = self.instances.get_mut(instance_id) {
            Arc::make_mut(instance).slots.insert(slot, id.clone());
        }
        // A client sees the volume in use before the attachment makes progress.
        let mut taken = false;
        if let Some(volume) = self.volumes.get_mut(id) {
            let volume = Arc::make_mut(volume);
            taken = volume.state != VolumeState::InUse;
            volume.state = VolumeState::InUse;
            volume.attachments.insert(instance_id.clone(), attachment.clone());
            self.lingering.remove(&(id.clone(), instance_id.clone()));
            // Clients treat a volume with two attachments as broken unless Multi-Attach is enabled.
            volume.multi_attach_enabled |= volume.attachments.len() > 1 && self.switches.unsafe_multi_attach;
            debug_assert!(
                volume.attachments.len() == 1 || volume.multi_attach_enabled || self.seeded_bugs.attach_twice,
                "{id} is attached to {:?} without Multi-Attach",
                volume.attachments.keys().collect::<Vec<_>>()
            );
        }
        if taken {
            self.note_volume(id);
        }
        self.note_attachment(id, instance_id);
        Ok(reply(id, instance_id, attachment))
    }

    pub(super) fn detach_volume(&mut self, call: Call<'_>, request: &DetachVolume) -> Result<Reply, Ec2Error> {
        let id = &request.volume;
        let volume = self.volume(id)?;
        let asked = request.instance.as_ref().map(|i| self.instance(i)).transpose()?;
        let not_attached = |instance: &str, device: String| Ec2Error::NotAttached {
            volume: id.clone(),
            instance: instance.to_owned(),
            device,
        };
        let (instance_id, attachment) = match (volume.attachments.iter().next(), asked) {
            // An available volume fails because of the volume, not the instance (aws-ebs-csi-driver#1801).
            (None, _) => return Err(Ec2Error::VolumeInState { volume: id.clone(), state: volume.state.as_str() }),
            (Some(any), Some(instance)) => match volume.attachments.get_key_value(&instance.id) {
                Some(found) => found,
                None if self.seeded_bugs.detaches_anywhere => any,
                None => return Err(not_attached(instance.id.as_str(), String::new())),
            },
            (Some(_), None) if volume.attachments.len() > 1 => {
                return Err(Ec2Error::MissingParameter("instanceId".to_owned()));
            }
            (Some(only), None) => only,
        };
        let (instance_id, mut attachment) = (instance_id.clone(), attachment.clone());
        if let Some(device) = request.device.as_ref().filter(|device| **device != attachment.device) {
            return Err(not_attached(instance_id.as_str(), format!(" as device '{device}'")));
        }
        // The instance would lose its operating system: it must be stopped first.
        let host = self.instance(&instance_id)?;
        let boots = volume.root || host.slots.get(&DeviceSlot::root()) == Some(id);
        if boots && host.state != InstanceState::Stopped {
            return Err(Ec2Error::RootVolume { volume: id.clone(), instance: instance_id });
        }
        let leaving = matches!(attachment.state, AttachmentState::Detaching | AttachmentState::Busy);
        let hurries = request.force && !attachment.forced && !self.seeded_bugs.ignores_late_force;
        if leaving && !hurries && self.switches.second_detach == SecondDetach::IncorrectState {
            return Err(Ec2Error::VolumeInState { volume: id.clone(), state: attachment.state.as_str() });
        }
        let mounted = host.holds_mounted(id) && !self.seeded_bugs.busy_ignored;
        call.check_dry_run()?;

        if leaving && !hurries && !self.seeded_bugs.restarts_detaches {
            // The detach is under way: AWS is believed to answer with the current state.
            return Ok(reply(id, &instance_id, attachment));
        }
        let busy_by_fault = call.stick.filter(|s| s.state == AttachmentState::Busy.as_str());
        let operation = match request.force {
            true => Operation::ForceDetachVolume,
            false if mounted || busy_by_fault.is_some() => Operation::BecomeBusy,
            false => Operation::DetachVolume,
        };
        self.timers.cancel(&attachment.progress);
        let begun = if busy_by_fault.is_some() { Call { stick: None, ..call } } else { call };
        attachment.stick_busy = busy_by_fault.map(|s| s.fault.clone());
        attachment.progress = self.begin_attachment(begun, operation, "detach", id, &instance_id);
        attachment.state = AttachmentState::Detaching;
        attachment.forced = request.force;
        if let Some(volume) = self.volumes.get_mut(id) {
            let volume = Arc::make_mut(volume);
            volume.attachments.insert(instance_id.clone(), attachment.clone());
            if self.seeded_bugs.available_early && volume.attachments.len() == 1 {
                volume.state = VolumeState::Available;
            }
        }
        self.note_attachment(id, &instance_id);
        Ok(reply(id, &instance_id, attachment))
    }

    pub(super) fn end_attachment_transition(&mut self, now: Duration, id: &VolumeId, instance_id: &InstanceId) {
        let mounted =
            self.instances.get(instance_id).is_some_and(|i| i.holds_mounted(id)) && !self.seeded_bugs.busy_ignored;
        let Some(volume) = self.volumes.get_mut(id) else { return };
        let volume = Arc::make_mut(volume);
        let Some(attachment) = volume.attachments.get_mut(instance_id) else { return };
        match attachment.state {
            AttachmentState::Attaching | AttachmentState::Attached => {
                attachment.progress = Progress::Settled;
                attachment.state = AttachmentState::Attached;
                self.note_attachment(id, instance_id);
            }
            AttachmentState::Detaching if !attachment.forced && attachment.stick_busy.is_some() => {
                let fault = attachment.stick_busy.take().unwrap_or_default();
                attachment.state = AttachmentState::Busy;
                attachment.progress = Progress::Stuck(fault.clone());
                self.stuck.push((fault, Subject::Attachment(id.clone(), instance_id.clone())));
                self.note_attachment(id, instance_id);
            }
            AttachmentState::Detaching | AttachmentState::Busy if mounted && !attachment.forced => {
                let entered = attachment.state != AttachmentState::Busy;
                attachment.state = AttachmentState::Busy;
                attachment.progress = Progress::Held(HoldReason::Mounted);
                if entered {
                    self.note_attachment(id, instance_id);
                }
            }
            AttachmentState::Detaching | AttachmentState::Busy => self.remove_attachment(now, id, instance_id),
        }
    }

    /// Removes the attachment and frees the volume and the slot.
    pub(super) fn remove_attachment(&mut self, now: Duration, id: &VolumeId, instance_id: &InstanceId) {
        let Some(volume) = self.volumes.get_mut(id) else { return };
        let volume = Arc::make_mut(volume);
        let Some(attachment) = volume.attachments.remove(instance_id) else { return };
        self.timers.cancel(&attachment.progress);
        let gone = Event::detached(volume, instance_id, &attachment, attachment.forced);
        let (free, root) = (volume.attachments.is_empty() || self.seeded_bugs.frees_shared, volume.root);
        let going = self.seeded_bugs.delete_while_attached && volume.state == VolumeState::Deleting;
        if free && !going {
            volume.state = VolumeState::Available;
            // A detached root volume is an ordinary volume.
            volume.root = false;
        }
        if let Some(instance) = self.instances.get_mut(instance_id) {
            let instance = Arc::make_mut(instance);
            instance.slots.retain(|_, held| held != id || self.seeded_bugs.keeps_slots);
            instance.mounted.remove(id);
            instance.held.remove(id);
            if attachment.forced
                && self.switches.poison_names
                && let Some(slot) = DeviceSlot::parse(&attachment.device)
            {
                instance.poisoned.insert(slot);
            }
        }
        if self.seeded_bugs.attachment_lingers && !attachment.forced && !root {
            let there = Attachment { state: AttachmentState::Attached, ..attachment };
            self.lingering.insert((id.clone(), instance_id.clone()), there);
        } else if !root {
            self.events.push(gone);
        }
        if free && !going {
            self.note_volume(id);
        }
        self.slot_freed(now, instance_id);
    }

    /// Resumes an attachment of `instance_id` that waits for a slot, after one was freed.
    pub(super) fn slot_freed(&mut self, now: Duration, instance_id: &InstanceId) {
        // An attachment waits only if there were more devices than slots, so at least as many devices as slots remain.
        let least = usize::from(self.seeded_bugs.keeps_waiting);
        let waited = |i: &Arc<Instance>| i.slots.len() >= i.device_limit() as usize + least;
        if self.instances.get(instance_id).is_some_and(waited) {
            self.release_held(now, instance_id, HoldReason::OverLimit);
        }
    }

    /// Returns the number of free slots. Attachments that wait for a slot take none.
    pub(super) fn free_slots(&self, instance: &Instance) -> usize {
        let waiting = instance.slots.values().filter(|v| self.hold_of(v, &instance.id) == Some(HoldReason::OverLimit));
        (instance.device_limit() as usize + waiting.count()).saturating_sub(instance.slots.len())
    }

    fn hold_of(&self, volume: &VolumeId, instance: &InstanceId) -> Option<HoldReason> {
        match self.volumes.get(volume)?.attachments.get(instance)?.progress {
            Progress::Held(hold) => Some(hold),
            _ => None,
        }
    }

    /// Resumes the attachments of `instance` that `hold` held: all, or as many as there are free slots.
    pub(super) fn release_held(&mut self, now: Duration, instance_id: &InstanceId, hold: HoldReason) {
        let Some(instance) = self.instances.get(instance_id) else { return };
        let mut held: Vec<VolumeId> =
            instance.slots.values().filter(|v| self.hold_of(v, instance_id) == Some(hold)).cloned().collect();
        if hold == HoldReason::OverLimit {
            let begun = |v: &VolumeId| self.volumes.get(v)?.attachments.get(instance_id).map(|a| a.attach_time);
            held.sort_by_key(begun);
            held.truncate(self.free_slots(instance));
        }
        for id in held {
            let Some(volume) = self.volumes.get(&id) else { continue };
            let Some(attachment) = volume.attachments.get(instance_id) else { continue };
            let operation = match attachment.state {
                AttachmentState::Attaching => Some(attach_operation(volume)),
                _ => None,
            };
            let progress = match operation {
                Some(operation) => self.begin_attachment(Call::at(now), operation, "attach", &id, instance_id),
                None => Progress::Until(self.timers.set(now, Subject::Attachment(id.clone(), instance_id.clone()))),
            };
            if let Some(volume) = self.volumes.get_mut(&id)
                && let Some(attachment) = Arc::make_mut(volume).attachments.get_mut(instance_id)
            {
                attachment.progress = progress;
            }
        }
    }

    /// Sets the volumes mounted on `instance_id`. A `busy` device that is not mounted goes at once.
    ///
    /// # Errors
    /// `InvalidInstanceID.NotFound`.
    pub fn report_mounts(
        &mut self,
        now: Now,
        instance_id: &InstanceId,
        mounted: BTreeSet<VolumeId>,
    ) -> Result<(), Ec2Error> {
        self.instance(instance_id)?;
        let Some(instance) = self.instances.get_mut(instance_id) else { return Ok(()) };
        if instance.mounted == mounted {
            return Ok(());
        }
        let before = std::mem::replace(&mut Arc::make_mut(instance).mounted, mounted);
        let instance = instance.clone();
        for id in before.iter().filter(|id| !instance.mounted.contains(*id) && !instance.held.contains(*id)) {
            self.unmounted(now.mono, id, instance_id);
        }
        Ok(())
    }

    /// Sets the state of one device as observed by the kernel or by the storage backend.
    pub fn note_held(&mut self, now: Now, volume: &VolumeId, instance_id: &InstanceId, holds: bool) {
        let Some(instance) = self.instances.get_mut(instance_id) else { return };
        if instance.held.contains(volume) == holds {
            return;
        }
        let instance = Arc::make_mut(instance);
        if holds {
            instance.held.insert(volume.clone());
        } else {
            instance.held.remove(volume);
            if !instance.mounted.contains(volume) {
                self.unmounted(now.mono, volume, instance_id);
            }
        }
    }

    fn unmounted(&mut self, now: Duration, id: &VolumeId, instance_id: &InstanceId) {
        let Some(attachment) = self.volumes.get(id).and_then(|v| v.attachments.get(instance_id)) else { return };
        let progress = match (attachment.state, &attachment.progress) {
            (AttachmentState::Busy, _) if self.seeded_bugs.stays_busy => return,
            (AttachmentState::Busy, Progress::Held(HoldReason::Mounted)) => {
                Progress::Until(self.timers.set(now, Subject::Attachment(id.clone(), instance_id.clone())))
            }
            (AttachmentState::Detaching, old @ Progress::Until(_)) if !attachment.forced => {
                let old = old.clone();
                self.timers.cancel(&old);
                self.begin_attachment(Call::at(now), Operation::DetachVolume, "detach", id, instance_id)
            }
            _ => return,
        };
        if let Some(volume) = self.volumes.get_mut(id)
            && let Some(attachment) = Arc::make_mut(volume).attachments.get_mut(instance_id)
        {
            attachment.progress = progress;
        }
    }

    pub(super) fn begin_attachment(
        &mut self,
        call: Call<'_>,
        operation: Operation,
        verb: &str,
        volume: &VolumeId,
        instance: &InstanceId,
    ) -> Progress {
        let draws = self.volumes.get_mut(volume).map_or(0, |v| {
            let v = Arc::make_mut(v);
            v.draws += 1;
            v.draws
        });
        let subject = Subject::Attachment(volume.clone(), instance.clone());
        self.begin(call, operation, format_args!("{verb} {volume} {instance} {draws}"), subject)
    }
}

/// Returns the operation whose latency an attach of `volume` has.
pub(super) fn attach_operation(volume: &Volume) -> Operation {
    match volume.volume_type {
        VolumeType::Io2 => Operation::AttachIo2Volume,
        _ => Operation::AttachVolume,
    }
}

/// Checks that `volume` can take one more attachment, to `instance`. `several` allows several attachments of any
/// volume. `more` is added to the largest number, as a seeded bug does.
fn check_free(volume: &Volume, instance: &InstanceId, several: bool, more: usize) -> Result<(), Ec2Error> {
    match volume.state {
        VolumeState::Creating | VolumeState::Deleting | VolumeState::Error => {
            Err(Ec2Error::VolumeNotAvailable(volume.id.clone()))
        }
        VolumeState::Available => Ok(()),
        VolumeState::InUse => {
            let room = (several || volume.multi_attach_enabled)
                && !volume.attachments.contains_key(instance)
                && volume.attachments.len() < MULTI_ATTACH_MOST + more;
            if room { Ok(()) } else { Err(Ec2Error::AlreadyAttached(volume.id.clone())) }
        }
    }
}

fn reply(volume: &VolumeId, instance: &InstanceId, attachment: Attachment) -> Reply {
    Reply::Attachment(AttachmentReply { volume: volume.clone(), instance: instance.clone(), attachment })
}
