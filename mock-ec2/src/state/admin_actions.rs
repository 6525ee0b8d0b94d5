//! The machine's side of the admin API: changes that the EC2 API does not offer.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use substrate::Now;

use super::State;
use super::device::DeviceSlot;
use super::error::Ec2Error;
use super::ids::{InstanceId, SnapshotId, VolumeId};
use super::modification::ModificationState;
use super::timers::{HoldReason, Progress, Subject};
use super::volume::{AttachmentState, VolumeState};
use crate::events::InstancePhase;

/// Change of an instance's hardware; absent fields stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Hardware {
    /// Number of network interfaces, at least one; they take slots on types with shared limits.
    pub network_interfaces: Option<u32>,
    /// Number of slots that other devices take.
    pub reserved_slots: Option<u32>,
    /// Device names in use that the mapping does not show.
    pub hide: Vec<String>,
    /// Device names under which an attach stays `attaching` until the instance reboots.
    pub poison: Vec<String>,
    /// If set, hidden and poisoned names are cleared first.
    pub clear: bool,
}

/// Transition of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Which {
    /// Of the volume itself: `creating`, `deleting`.
    #[default]
    Volume,
    /// Of its attachments.
    Attachment,
    /// Of its modification.
    Modification,
}

/// Action on a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// End it now.
    Complete,
    /// Hold it until it is completed.
    Stick,
    /// Fail it: a modification or a snapshot only.
    Fail,
}

impl State {
    /// Changes the hardware of instance `id`.
    ///
    /// # Errors
    /// `InvalidInstanceID.NotFound`, or `InvalidParameterValue` naming the field.
    pub fn change_hardware(&mut self, now: Now, id: &InstanceId, change: &Hardware) -> Result<(), Ec2Error> {
        self.instance(id)?;
        if change.network_interfaces == Some(0) {
            return Err(Ec2Error::InvalidParameterValue("networkInterfaces: an instance has at least one".to_owned()));
        }
        let slots = |field: &str, names: &[String]| {
            let slot = |name: &String| {
                let text = || format!("{field}: `{name}` is not a device name, such as /dev/xvdb");
                DeviceSlot::parse(name).ok_or_else(|| Ec2Error::InvalidParameterValue(text()))
            };
            names.iter().map(slot).collect::<Result<Vec<_>, _>>()
        };
        let (hide, poison) = (slots("hide", &change.hide)?, slots("poison", &change.poison)?);
        let Some(instance) = self.instances.get_mut(id).map(Arc::make_mut) else { return Ok(()) };
        if change.clear {
            instance.hidden.clear();
            instance.poisoned.clear();
        }
        instance.network_interfaces = change.network_interfaces.unwrap_or(instance.network_interfaces);
        instance.reserved_slots = change.reserved_slots.unwrap_or(instance.reserved_slots);
        instance.hidden.extend(hide);
        instance.poisoned.extend(poison);
        if change.clear {
            self.release_held(now.mono, id, HoldReason::PoisonedName);
        }
        self.release_held(now.mono, id, HoldReason::OverLimit);
        Ok(())
    }

    /// Removes instance `id` at once, as EC2 does an hour after its end. Its volumes become free; its root volume is
    /// deleted.
    ///
    /// # Errors
    /// `InvalidInstanceID.NotFound`.
    pub fn purge_instance(&mut self, now: Now, id: &InstanceId) -> Result<(), Ec2Error> {
        self.instance(id)?;
        self.end_instance(now, id);
        if let Some(gone) = self.instances.remove(id) {
            self.timers.cancel(&gone.progress);
            self.note_instance(id, InstancePhase::Terminated);
        }
        Ok(())
    }

    /// Ends, holds or fails a transition of volume `id`. Returns true if there was one.
    ///
    /// # Errors
    /// `InvalidVolume.NotFound`, or `InvalidParameterValue` for a transition that cannot fail.
    pub fn push_volume(&mut self, now: Now, id: &VolumeId, which: Which, push: Push) -> Result<bool, Ec2Error> {
        let volume = self.volume(id)?;
        if push == Push::Fail {
            if which != Which::Modification {
                let text = "which: only a modification can fail; `vanish` takes a volume away";
                return Err(Ec2Error::InvalidParameterValue(text.to_owned()));
            }
            let under_way = volume.modification.as_ref().is_some_and(|m| !m.state.ended());
            self.end_modification(now, id, ModificationState::Failed, Some("The modification failed."));
            return Ok(under_way);
        }
        let subjects = match which {
            Which::Volume => vec![Subject::Volume(id.clone())],
            Which::Modification => vec![Subject::Modification(id.clone())],
            Which::Attachment => {
                volume.attachments.keys().map(|i| Subject::Attachment(id.clone(), i.clone())).collect()
            }
        };
        // All of them, not only the first in transition.
        let pushed: Vec<bool> = subjects.iter().map(|subject| self.push(now.mono, subject, push)).collect();
        Ok(pushed.contains(&true))
    }

    /// Ends, holds or fails `pending` of snapshot `id`. Returns true if it was pending.
    ///
    /// # Errors
    /// `InvalidSnapshot.NotFound`.
    pub fn push_snapshot(&mut self, now: Now, id: &SnapshotId, push: Push) -> Result<bool, Ec2Error> {
        let pending = self.snapshot(id)?.state == super::snapshot::SnapshotState::Pending;
        match push {
            Push::Fail if pending => self.snapshot_copied(now, id, Some("The snapshot failed.".to_owned())),
            Push::Fail => {}
            push => return Ok(self.push(now.mono, &Subject::Snapshot(id.clone()), push)),
        }
        Ok(pending)
    }

    /// Ends or holds `pending`, `stopping` or `shutting-down` of instance `id`. Returns true if it was in one of them.
    ///
    /// # Errors
    /// `InvalidInstanceID.NotFound`, or `InvalidParameterValue` for a failure.
    pub fn push_instance(&mut self, now: Now, id: &InstanceId, push: Push) -> Result<bool, Ec2Error> {
        self.instance(id)?;
        if push == Push::Fail {
            let text = "an instance cannot fail; `crash` takes its power";
            return Err(Ec2Error::InvalidParameterValue(text.to_owned()));
        }
        Ok(self.push(now.mono, &Subject::Instance(id.clone()), push))
    }

    fn push(&mut self, now: Duration, subject: &Subject, push: Push) -> bool {
        let Some(old) = self.progress(subject).map(|p| p.clone()).filter(|p| *p != Progress::Settled) else {
            return false;
        };
        self.timers.cancel(&old);
        let new = match push {
            Push::Complete => Progress::Until(self.timers.set(now, subject.clone())),
            Push::Stick | Push::Fail => Progress::Held(HoldReason::Admin),
        };
        if let Some(progress) = self.progress(subject) {
            *progress = new;
        }
        true
    }

    /// Sets the state of volume `id`, regardless of its other fields.
    ///
    /// # Errors
    /// `InvalidVolume.NotFound`.
    pub fn force_volume_state(&mut self, id: &VolumeId, state: VolumeState) -> Result<(), Ec2Error> {
        self.volume(id)?;
        if let Some(volume) = self.volumes.get_mut(id).map(Arc::make_mut) {
            self.timers.cancel(&volume.progress);
            volume.progress = Progress::Settled;
            volume.state = state;
        }
        self.note_volume(id);
        Ok(())
    }

    /// Fails or restores the I/O of volume `id`, as DescribeVolumeStatus shows it.
    ///
    /// # Errors
    /// `InvalidVolume.NotFound`.
    pub fn impair_volume(&mut self, id: &VolumeId, impaired: bool) -> Result<(), Ec2Error> {
        self.volume(id)?;
        if let Some(volume) = self.volumes.get_mut(id) {
            let volume = Arc::make_mut(volume);
            volume.impaired = impaired;
            volume.io_enabled = impaired && volume.auto_enable_io;
        }
        Ok(())
    }

    /// Marks `token` as one of a deleted volume, so that its next use fails as EC2 does (aws-ebs-csi-driver#1951).
    /// Returns true if the token was known.
    pub fn burn_token(&mut self, token: &str) -> bool {
        self.volume_tokens.burn(token) || self.copy_tokens.burn(token)
    }

    /// Returns the attachments whose detach ends by `until` unless their device is mounted.
    pub fn about_to_go(&self, until: Duration) -> Vec<(VolumeId, InstanceId)> {
        let until = if self.settings.settles_at_once() { Duration::MAX } else { until };
        let due = self.timers.due(until).filter_map(|subject| match subject {
            Subject::Attachment(volume, instance) => Some((volume, instance)),
            _ => None,
        });
        due.filter(|(volume, instance)| {
            let attachment = self.volumes.get(*volume).and_then(|v| v.attachments.get(*instance));
            attachment.is_some_and(|a| a.state == AttachmentState::Detaching && !a.forced)
        })
        .map(|(volume, instance)| (volume.clone(), instance.clone()))
        .collect()
    }
}
