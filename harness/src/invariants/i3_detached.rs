//! I3: the driver reports a volume as detached only after the detach. ControllerUnpublishVolume ends with OK only if
//! the cloud has no attachment of that volume to that node.

use csi_mock::events::CsiDone;
use substrate::Event;

use super::Found;
use crate::model::RunModel;

pub(super) fn check(model: &RunModel, event: &Event) -> Option<Found> {
    let done = event.get::<CsiDone>()?;
    if done.rpc != "ControllerUnpublishVolume" || done.code != "OK" {
        return None;
    }
    let volume = done.volume.as_deref()?;
    // Without a node, the request is about all nodes.
    let asked = done.node.as_deref().map(|node| model.name(node));
    let mut there = model.cloud.keys().filter(|at| at.volume == *volume && asked.is_none_or(|node| at.node == *node));
    let node = &there.next()?.node;
    Some(Found {
        message: format!("ControllerUnpublishVolume answered OK for {volume} on {node}, where it is still attached"),
        operation: done.rpc.to_string(),
        volume: Some(volume.to_owned()),
        node: Some(node.to_string()),
        ..Found::default()
    })
}

#[cfg(test)]
mod tests {
    use mock_ec2::events::{AttachmentChanged, AttachmentPhase};
    use substrate::world::{Options, simulate};

    use super::*;

    fn found(phases: &[AttachmentPhase], code: &str) -> Vec<String> {
        let events = simulate(Options::default(), async |world| {
            for state in phases {
                let (volume, instance) = ("vol-00000000000000001".parse(), "i-00000000000000001".parse());
                let (Ok(volume), Ok(instance)) = (volume, instance) else { panic!("no ids") };
                let device = "/dev/xvdba".into();
                let changed = AttachmentChanged { volume, instance, device, state: *state, forced: false };
                world.trace().info(&"mock-ec2".into(), changed);
            }
            let (volume, node) = (Some("vol-00000000000000001".into()), Some("i-00000000000000001".into()));
            let (rpc, code) = ("ControllerUnpublishVolume".into(), code.into());
            let done = CsiDone { rpc, volume, node, ordinal: 1, code, took_ms: 1, message: None };
            world.trace().info(&"csi-controller".into(), done);
            world.trace().events()
        });
        let mut model = RunModel::default();
        let mut all = Vec::new();
        for event in &events {
            model.observe(event);
            all.extend(check(&model, event).map(|found| found.message));
        }
        all
    }

    #[test]
    fn a_driver_that_says_detached_while_the_cloud_is_at_it_is_found() {
        let (attached, detaching) = (AttachmentPhase::Attached, AttachmentPhase::Detaching);
        let is_found = |phases: &[AttachmentPhase], code: &str| !found(phases, code).is_empty();
        assert!(is_found(&[attached, detaching], "OK"));
        assert!(!is_found(&[attached, detaching, AttachmentPhase::Detached], "OK"));
        assert!(!is_found(&[attached, detaching], "DEADLINE_EXCEEDED"));
    }
}
