//! I9: a volume is staged from the device that the attachment's metadata names. An occasion is a volume that is staged
//! on a node of Mooring's cloud.
//!
//! A fault that renames devices explains every difference, so a run with such a fault is not checked.
//!
//! A kubelet passes the metadata of the VolumeAttachment to NodeStageVolume. The attacher passes `readonly` for a
//! PersistentVolume that may only be read, if the driver has PUBLISH_READONLY.

use csi_mock::events::{CsiCall, CsiWrongDevice, DiskStaged};
use substrate::Event;
use substrate::events::FaultFired;
use substrate::fault::Effect;

use super::{Checked, Found, Id};
use crate::model::RunModel;

/// True once a fault has renamed a device.
#[derive(Debug, Default)]
pub(super) struct Devices {
    renamed: bool,
}

impl Devices {
    /// Checks an event.
    pub fn check(&mut self, model: &RunModel, checked: &mut Checked, event: &Event) -> Option<Found> {
        if let Some(FaultFired { effect: Effect::WrongDevice(_), .. }) = event.get() {
            self.renamed = true;
        } else if let Some(DiskStaged { volume, node, .. }) = event.get() {
            checked.add(Id::I9, u64::from(model.device(volume, node).is_some()));
        }
        if let Some(call) = event.get::<CsiCall>() {
            return without_context(model, call).or_else(|| published_for_writing(model, call));
        }
        let CsiWrongDevice { volume, node, told: named, found } = event.get().filter(|_| !self.renamed)?;
        // The driver found the volume under the cloud's name, so the name in the attachment's metadata is wrong.
        model.device(volume, node).filter(|device| *device == found.as_str())?;
        let node = model.name(node).to_owned();
        let message = format!(
            "the attachment's metadata names {named} as the device of {volume} on {node}, and the cloud has it at \
             {found}"
        );
        let (volume, node) = (Some(volume.to_string()), Some(node));
        Some(Found { message, operation: "NodeStageVolume".to_owned(), volume, node, ..Found::default() })
    }
}

/// Finds a stage without the device that the VolumeAttachment names.
fn without_context(model: &RunModel, call: &CsiCall) -> Option<Found> {
    if call.rpc != "NodeStageVolume" || call.caller.is_some() || call.device.is_some() {
        return None;
    }
    let (volume, node) = (call.volume.as_deref()?, model.name(call.node.as_deref()?));
    let mut of_node = model.attachments_of(volume).filter(|(_, attachment)| attachment.node() == node);
    let (name, device) = of_node.find_map(|(name, attachment)| Some((name, attachment.state.device.as_deref()?)))?;
    let message = format!(
        "NodeStageVolume was called for {volume} on {node} without the metadata of volumeattachment/{name}, which names \
         {device}"
    );
    let (volume, node) = (Some(volume.to_owned()), Some(node.to_owned()));
    Some(Found { message, operation: "NodeStageVolume".to_owned(), volume, node, ..Found::default() })
}

/// Finds a ControllerPublishVolume for writing of a PersistentVolume that may only be read.
fn published_for_writing(model: &RunModel, call: &CsiCall) -> Option<Found> {
    let volume = call.volume.as_deref().filter(|_| call.for_writing && call.caller.is_none())?;
    model.objects.volume_of(volume).filter(|pv| pv.spec.read_only)?;
    let node = model.name(call.node.as_deref()?).to_owned();
    let message = format!(
        "ControllerPublishVolume was called for {volume} on {node} for writing, and its PersistentVolume is read-only"
    );
    let operation = "ControllerPublishVolume".to_owned();
    Some(Found { message, operation, volume: Some(volume.to_owned()), node: Some(node), ..Found::default() })
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::{Attachment, Commit, Spec, Volume};
    use fake_apiserver::state::EventType;
    use mock_ec2::events::{AttachmentChanged, AttachmentPhase};
    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    const VOLUME: &str = "vol-0123456789abcdef0";
    const INSTANCE: &str = "i-0123456789abcdef0";

    /// Returns the violations of a run in which a driver finds a volume at `found`, and the controller named `named`.
    /// `renamed` is true if a fault had renamed a device.
    fn violations(named: &str, found: &str, renamed: bool) -> Vec<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        let attached = AttachmentChanged {
            volume: VOLUME.parse().unwrap(),
            instance: INSTANCE.parse().unwrap(),
            device: "/dev/xvdaa".into(),
            state: AttachmentPhase::Attached,
            forced: false,
        };
        trace.info(&"mock-ec2".into(), attached);
        if renamed {
            let effect = Effect::WrongDevice(true);
            trace.info(&"node-a".into(), FaultFired::new("f", "plug", effect));
        }
        let (volume, node) = (VOLUME.into(), INSTANCE.into());
        trace.info(&"node-a/csi-node".into(), CsiWrongDevice { volume, node, told: named.into(), found: found.into() });
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        invariants.violations().into_iter().map(|violation| format!("{} {}", violation.id, violation.message)).collect()
    }

    #[test]
    fn metadata_that_names_another_device_is_a_violation() {
        let found = violations("/dev/xvdab", "/dev/xvdaa", false);
        let message = format!(
            "I9 the attachment's metadata names /dev/xvdab as the device of {VOLUME} on {INSTANCE}, and the cloud has it at \
             /dev/xvdaa"
        );
        assert_eq!(found, [message]);
    }

    #[test]
    fn a_device_that_a_fault_renamed_is_none() {
        assert!(violations("/dev/xvdab", "/dev/xvdaa", true).is_empty());
        assert!(violations("/dev/xvdaa", "/dev/xvdab", false).is_empty(), "the machine has it elsewhere");
    }

    #[test]
    fn a_stage_gets_the_metadata_of_the_attachment() {
        let found = |named: Option<&'static str>, requested: Option<&'static str>, caller: Option<&'static str>| {
            let trace = Trace::new(Clock::live(), Level::Info);
            let mut commit = Commit::new("persistentvolumes", "pv-1", 1, EventType::Added);
            commit.pv = Some(Box::new(Volume { handle: Some(VOLUME.into()), ..Volume::default() }));
            trace.info(&"fake-apiserver".into(), commit);
            let mut commit = Commit::new("volumeattachments", "csi-1", 2, EventType::Added);
            commit.volumeattachment = Some(Box::new(Attachment {
                attached: true,
                device: named.map(Into::into),
                node: Some("node-a".into()),
                pv: Some("pv-1".into()),
                ..Attachment::default()
            }));
            trace.info(&"fake-apiserver".into(), commit);
            let call = CsiCall {
                caller: caller.map(Into::into),
                volume: Some(VOLUME.into()),
                node: Some("node-a".into()),
                device: requested.map(Into::into),
                ..CsiCall::new("NodeStageVolume", 1)
            };
            trace.info(&"node-a/csi-node".into(), call);
            let invariants = Invariants::new(TimeScale::default());
            trace.events().iter().for_each(|event| invariants.observe(event));
            let all = invariants.violations().into_iter().filter(|violation| violation.id == "I9");
            all.map(|violation| violation.message).collect::<Vec<_>>()
        };
        let message = format!(
            "NodeStageVolume was called for {VOLUME} on node-a without the metadata of volumeattachment/csi-1, which names \
             /dev/xvdaa"
        );
        assert_eq!(found(Some("/dev/xvdaa"), None, None), [message]);
        assert!(found(Some("/dev/xvdaa"), Some("/dev/xvdaa"), None).is_empty());
        assert!(found(None, None, None).is_empty(), "the driver named no device");
        assert!(found(Some("/dev/xvdaa"), None, Some("mine")).is_empty(), "a program of the user calls");
    }

    #[test]
    fn a_volume_that_may_only_be_read_is_published_for_reading() {
        let found = |read_only: bool, for_writing: bool, caller: Option<&'static str>| {
            let trace = Trace::new(Clock::live(), Level::Info);
            let mut commit = Commit::new("persistentvolumes", "pv-1", 1, EventType::Added);
            commit.pv = Some(Box::new(Volume { handle: Some(VOLUME.into()), ..Volume::default() }));
            commit.spec = Some(Box::new(Spec { read_only, ..Spec::default() }));
            trace.info(&"fake-apiserver".into(), commit);
            let call = CsiCall {
                caller: caller.map(Into::into),
                volume: Some(VOLUME.into()),
                node: Some("node-a".into()),
                for_writing,
                ..CsiCall::new("ControllerPublishVolume", 1)
            };
            trace.info(&"csi-controller".into(), call);
            let invariants = Invariants::new(TimeScale::default());
            trace.events().iter().for_each(|event| invariants.observe(event));
            let all = invariants.violations().into_iter().filter(|violation| violation.id == "I9");
            all.map(|violation| violation.message).collect::<Vec<_>>()
        };
        let message = format!(
            "ControllerPublishVolume was called for {VOLUME} on node-a for writing, and its PersistentVolume is read-only"
        );
        assert_eq!(found(true, true, None), [message]);
        assert!(found(true, false, None).is_empty());
        assert!(found(false, true, None).is_empty(), "it may be written");
        assert!(found(true, true, Some("mine")).is_empty(), "a program of the user calls");
    }
}
