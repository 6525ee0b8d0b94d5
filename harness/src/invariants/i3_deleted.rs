//! I3: the driver reports a volume or a snapshot as deleted only if the cloud deletes it. After an OK of DeleteVolume the
//! volume is deleted or being deleted; after an OK of DeleteSnapshot the snapshot is gone, or in the recycle bin.

use std::collections::BTreeMap;

use csi_mock::events::CsiDone;
use mock_ec2::events::{SnapshotChanged, SnapshotPhase, VolumePhase};
use substrate::Event;

use super::Found;
use crate::model::RunModel;

/// Snapshots of the cloud that are not being deleted. The model has its volumes.
#[derive(Debug, Default)]
pub(super) struct Deleted {
    snapshots: BTreeMap<String, SnapshotPhase>,
}

impl Deleted {
    /// Checks an event.
    pub fn check(&mut self, model: &RunModel, event: &Event) -> Option<Found> {
        if let Some(SnapshotChanged { snapshot, state, .. }) = event.get() {
            if matches!(state, SnapshotPhase::Pending | SnapshotPhase::Completed) {
                self.snapshots.insert(snapshot.to_string(), *state);
            } else {
                self.snapshots.remove(snapshot.as_str());
            }
        } else if let Some(done) = event.get::<CsiDone>() {
            return self.on_done(model, done);
        }
        None
    }

    fn on_done(&self, model: &RunModel, done: &CsiDone) -> Option<Found> {
        let (thing, state) = match done.rpc.as_str() {
            _ if done.code != "OK" => return None,
            "DeleteVolume" => {
                let volume = done.volume.as_deref()?;
                let state = model.objects.in_cloud(volume)?.state;
                (volume.to_owned(), Some(state).filter(|state| *state != VolumePhase::Deleting)?.as_str())
            }
            "DeleteSnapshot" => {
                let snapshot = model.calls.answered()?.target.as_ref()?;
                (snapshot.to_string(), self.snapshots.get(snapshot.as_str())?.as_str())
            }
            _ => return None,
        };
        Some(Found {
            message: format!("{} answered OK for {thing}, which is {state} in the cloud", done.rpc),
            operation: done.rpc.to_string(),
            volume: done.volume.as_deref().map(str::to_owned),
            ..Found::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use csi_mock::events::CsiCall;
    use mock_ec2::events::VolumeChanged;
    use substrate::world::{Options, simulate};

    use super::*;

    const SNAPSHOT: &str = "snap-00000000000000001";
    const VOLUME: &str = "vol-00000000000000001";

    /// Returns the findings of a run in which a volume and a snapshot get these states, and a driver answers calls to
    /// delete them with `code`.
    fn found(volume: VolumePhase, snapshot: SnapshotPhase, code: &str) -> Vec<String> {
        let events = simulate(Options::default(), async |world| {
            let (of, id) = (VOLUME.parse().unwrap(), SNAPSHOT.parse().unwrap());
            let trace = world.trace();
            trace.info(&"mock-ec2".into(), VolumeChanged::new(of, volume, "us-east-1a", 1));
            let of = VOLUME.parse().unwrap();
            trace.info(&"mock-ec2".into(), SnapshotChanged { snapshot: id, volume: of, state: snapshot, size_gib: 1 });
            for (ordinal, rpc) in [(1, "DeleteVolume"), (2, "DeleteSnapshot")] {
                let call = CsiCall {
                    volume: (ordinal == 1).then(|| VOLUME.into()),
                    target: (ordinal == 2).then(|| SNAPSHOT.into()),
                    ..CsiCall::new(rpc, ordinal)
                };
                let (rpc, volume) = (call.rpc.clone(), call.volume.clone());
                trace.info(&"csi-controller".into(), call);
                let code = code.into();
                let done = CsiDone { rpc, volume, node: None, ordinal, code, took_ms: 1, message: None };
                trace.info(&"csi-controller".into(), done);
            }
            trace.events()
        });
        let (mut model, mut rule) = (RunModel::default(), Deleted::default());
        let found = events.iter().filter_map(|event| {
            model.observe(event);
            rule.check(&model, event)
        });
        found.map(|found| found.message).collect()
    }

    #[test]
    fn a_driver_that_says_deleted_while_the_cloud_has_it_is_found() {
        let (volume, snapshot) = (VolumePhase::Available, SnapshotPhase::Completed);
        let messages = [
            format!("DeleteVolume answered OK for {VOLUME}, which is available in the cloud"),
            format!("DeleteSnapshot answered OK for {SNAPSHOT}, which is completed in the cloud"),
        ];
        assert_eq!(found(volume, snapshot, "OK"), messages);
        assert!(found(volume, snapshot, "INTERNAL").is_empty());
        assert!(found(VolumePhase::Deleting, SnapshotPhase::Deleted, "OK").is_empty());
        assert!(found(VolumePhase::Deleted, SnapshotPhase::Recoverable, "OK").is_empty());
    }
}
