//! AttachVolume and DetachVolume.

use std::sync::Arc;

use super::command::{AttachVolume, AttachmentReply, DetachVolume, Reply};
use super::device::DeviceSlot;
use super::error::Ec2Error;
use super::ids::{InstanceId, VolumeId};
use super::instance::InstanceState;
use super::instance_types;
use super::latency::Operation;
use super::timers::{Progress, Subject};
use super::volume::{Attachment, AttachmentState, Volume, VolumeState, VolumeType};
use super::{Call, State};

/// Most instances that hold one Multi-Attach volume (§5.5).
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
        if volume.zone != instance.zone {
            return Err(Ec2Error::ZoneMismatch { volume: id.clone(), instance: instance_id.clone() });
        }
        if instance.state != InstanceState::Running {
            return Err(Ec2Error::InstanceNotRunning(instance_id.clone()));
        }
        check_free(volume, instance_id)?;
        if instance.slots.contains_key(&slot) {
            return Err(Ec2Error::DeviceInUse(device.clone()));
        }
        let limit = instance.device_limit();
        if instance.slots.len() >= limit as usize {
            return Err(Ec2Error::AttachmentLimit(limit));
        }
        call.check_dry_run()?;

        let operation = match volume.volume_type {
            VolumeType::Io2 => Operation::AttachIo2Volume,
            _ => Operation::AttachVolume,
        };
        let progress = self.begin_attachment(call, operation, "attach", id, instance_id);
        let attachment = Attachment {
            device: device.clone(),
            state: AttachmentState::Attaching,
            attach_time: call.now.wall,
            delete_on_termination: false,
            ebs_card_index: ebs_card_index.unwrap_or(0),
            forced: false,
            progress,
        };
        if let Some(instance) = self.instances.get_mut(instance_id) {
            Arc::make_mut(instance).slots.insert(slot, id.clone());
        }
        // A client sees the volume in use before the attachment gets anywhere (§5.2).
        let mut taken = false;
        if let Some(volume) = self.volumes.get_mut(id) {
            let volume = Arc::make_mut(volume);
            taken = volume.state != VolumeState::InUse;
            volume.state = VolumeState::InUse;
            volume.attachments.insert(instance_id.clone(), attachment.clone());
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
            // An available volume is no error of the instance (csi#1801).
            (None, _) => return Err(Ec2Error::VolumeInState { volume: id.clone(), state: volume.state.as_str() }),
            (Some(_), Some(instance)) => volume
                .attachments
                .get_key_value(&instance.id)
                .ok_or_else(|| not_attached(instance.id.as_str(), String::new()))?,
            (Some(_), None) if volume.attachments.len() > 1 => {
                return Err(Ec2Error::MissingParameter("instanceId".to_owned()));
            }
            (Some(only), None) => only,
        };
        let (instance_id, mut attachment) = (instance_id.clone(), attachment.clone());
        if let Some(device) = request.device.as_ref().filter(|device| **device != attachment.device) {
            return Err(not_attached(instance_id.as_str(), format!(" as device '{device}'")));
        }
        // The machine would be left without its system; it must be stopped first.
        if volume.root {
            return Err(Ec2Error::RootVolume { volume: id.clone(), instance: instance_id });
        }
        call.check_dry_run()?;

        let hurries = request.force && !attachment.forced;
        if attachment.state == AttachmentState::Detaching && !hurries {
            // Under way already: AWS is believed to answer with the current state (§4.1).
            return Ok(reply(id, &instance_id, attachment));
        }
        let operation = if request.force { Operation::ForceDetachVolume } else { Operation::DetachVolume };
        self.timers.cancel(&attachment.progress);
        attachment.progress = self.begin_attachment(call, operation, "detach", id, &instance_id);
        attachment.state = AttachmentState::Detaching;
        attachment.forced = request.force;
        if let Some(volume) = self.volumes.get_mut(id) {
            Arc::make_mut(volume).attachments.insert(instance_id.clone(), attachment.clone());
        }
        self.note_attachment(id, &instance_id);
        Ok(reply(id, &instance_id, attachment))
    }

    pub(super) fn end_attachment_transition(&mut self, id: &VolumeId, instance_id: &InstanceId) {
        let Some(volume) = self.volumes.get_mut(id) else { return };
        let volume = Arc::make_mut(volume);
        let Some(attachment) = volume.attachments.get_mut(instance_id) else { return };
        attachment.progress = Progress::Settled;
        if attachment.state != AttachmentState::Detaching {
            attachment.state = AttachmentState::Attached;
            self.note_attachment(id, instance_id);
            return;
        }
        let gone = super::event::Event::Attachment {
            volume: id.clone(),
            instance: instance_id.clone(),
            device: attachment.device.clone(),
            state: "detached",
            forced: attachment.forced,
            size_gib: volume.size_gib,
        };
        volume.attachments.remove(instance_id);
        let free = volume.attachments.is_empty();
        if free {
            volume.state = VolumeState::Available;
        }
        if let Some(instance) = self.instances.get_mut(instance_id) {
            Arc::make_mut(instance).slots.retain(|_, held| held != id);
        }
        self.events.push(gone);
        if free {
            self.note_volume(id);
        }
    }

    fn begin_attachment(
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
        let draw = format!("{verb} {volume} {instance} {draws}");
        self.begin(call, operation, &draw, Subject::Attachment(volume.clone(), instance.clone()))
    }
}

/// Checks that `volume` can take one more attachment, to `instance`.
fn check_free(volume: &Volume, instance: &InstanceId) -> Result<(), Ec2Error> {
    match volume.state {
        VolumeState::Creating | VolumeState::Deleting => Err(Ec2Error::VolumeNotAvailable(volume.id.clone())),
        VolumeState::Available => Ok(()),
        VolumeState::InUse => {
            let room = volume.multi_attach_enabled
                && !volume.attachments.contains_key(instance)
                && volume.attachments.len() < MULTI_ATTACH_MOST;
            if room { Ok(()) } else { Err(Ec2Error::AlreadyAttached(volume.id.clone())) }
        }
    }
}

fn reply(volume: &VolumeId, instance: &InstanceId, attachment: Attachment) -> Reply {
    Reply::Attachment(AttachmentReply { volume: volume.clone(), instance: instance.clone(), attachment })
}
